"""How elements of each dtype look to compiled loops: pointer, constants, the functions that formulas call `m`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels import complex_scalars, complexmath, vecmath
from fastgrad.kernels.halves import pointer_to_halves
from fastgrad.kernels.keys import VOCABULARY
from fastgrad.kernels.specialise import specialised
from fastgrad.native.base.intrinsics import pointer_to
from fastgrad.native.base.pipeline import KernelCompiler, NoaliasCompiler
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)

BASE: dict[str, Any] = {
    "error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
KERNEL: dict[str, Any] = {**BASE, "fastmath": {"contract"}, "pipeline_class": KernelCompiler}
"""Numba options of a kernel: contraction to fma is allowed, nothing else that changes results."""
LOOP: dict[str, Any] = {**KERNEL, "pipeline_class": NoaliasCompiler}
"""The same for an inner loop whose pointers never overlap."""
SUM: dict[str, Any] = {**LOOP, "fastmath": {"contract", "reassoc", "nsz"}}
"""For a short sum whose order is free; longer sums add such blocks in float64."""
INLINE: dict[str, Any] = {**KERNEL, "forceinline": True}


class Element(NamedTuple):
    """One dtype in compiled loops.

    ``pointer(address)`` gives a typed pointer, ``constant(value)`` a constant, ``load(p, i)`` and
    ``store(p, i, value)`` go through memory (a bool is a byte there), `math` is the vocabulary of formulas. `scalar` is
    what is computed with: for halves float32, which their pointers give and take (Note [Halves] in `element_types`).
    """

    name: str
    scalar: Any
    pointer: Any
    constant: Any
    load: Any
    store: Any
    math: Any


def _loader(boolean: bool) -> Any:
    if boolean:

        def load(p, i):  # type: ignore[no-untyped-def]
            return p[i] != 0
    else:

        def load(p, i):  # type: ignore[no-untyped-def]
            return p[i]

    return njit(**INLINE)(load)


def unsigned_of(builder: Any, value: Any) -> Any:
    """A float as an unsigned integer of 64 bits; what is negative wraps around."""
    word = ir.IntType(64)
    half = ir.Constant(value.type, 2.0**63)
    large = builder.fcmp_ordered(">=", value, half)
    small = builder.fptosi(builder.select(large, builder.fsub(value, half), value), word)
    return builder.select(large, builder.xor(small, ir.Constant(word, -(2**63))), small)


def _storer(scalar: Any, boolean: bool) -> Any:
    @intrinsic
    def convert(context: Any, value: Any) -> Any:
        target = types.uint8 if boolean else scalar

        def emit(inner: Any, builder: Any, signature: Any, args: Any) -> Any:
            source = signature.args[0]
            if isinstance(source, types.Complex):
                found = complex_scalars.cast(
                    inner, builder, args[0], source, types.boolean if boolean else target
                )
                return builder.zext(found, ir.IntType(8)) if boolean else found
            if boolean:
                truth = inner.cast(builder, args[0], source, types.boolean)
                return builder.zext(truth, ir.IntType(8)) if truth.type.width == 1 else truth
            if isinstance(source, types.Float) and isinstance(target, types.Integer) and target.bitwidth < 64:
                wide = inner.cast(builder, args[0], source, types.int64)
                return inner.cast(builder, wide, types.int64, target)
            if isinstance(source, types.Float) and target == types.uint64:
                return unsigned_of(builder, args[0])
            return inner.cast(builder, args[0], source, target)

        return target(value), emit

    def store(p, i, value):  # type: ignore[no-untyped-def]
        p[i] = convert(value)

    return njit(**INLINE)(store)


@njit(**INLINE)
def _store_half(p, i, value):  # type: ignore[no-untyped-def]
    p[i] = value


def _half(code: int) -> Element:
    pointer = pointer_to_halves(code)
    return Element(DTYPES[code], types.float32, pointer, np.float32, _loader(False), _store_half, vecmath.F32)


@njit(**INLINE)
def _store_complex(p, i, value):  # type: ignore[no-untyped-def]
    p[i] = complex_scalars_convert(value, p[i])


complex_scalars_convert = complex_scalars.convert


def _complex(code: int, part: Any, math: Any) -> Element:
    kind, constant = complex_scalars.COMPLEX_TYPES[part], complex_scalars.constant(part)
    pointer = complex_scalars.pointer(part)
    return Element(DTYPES[code], kind, pointer, constant, _loader(False), _store_complex, math)


def _element(code: int, scalar: Any, constant: Any, math: Any) -> Element:
    boolean = code == BOOL
    memory = types.uint8 if boolean else scalar
    return Element(
        DTYPES[code], scalar, pointer_to(memory), constant, _loader(boolean), _storer(scalar, boolean), math
    )


ELEMENTS: dict[int, Element] = {
    BOOL: _element(BOOL, types.boolean, np.bool_, vecmath.BOOL),
    UINT8: _element(UINT8, types.uint8, np.uint8, vecmath.INT),
    INT8: _element(INT8, types.int8, np.int8, vecmath.INT),
    INT16: _element(INT16, types.int16, np.int16, vecmath.INT),
    INT32: _element(INT32, types.int32, np.int32, vecmath.INT),
    INT64: _element(INT64, types.int64, np.int64, vecmath.INT),
    FLOAT16: _half(FLOAT16),
    BFLOAT16: _half(BFLOAT16),
    FLOAT32: _element(FLOAT32, types.float32, np.float32, vecmath.F32),
    FLOAT64: _element(FLOAT64, types.float64, np.float64, vecmath.F64),
    COMPLEX64: _complex(COMPLEX64, types.float32, complexmath.C64),
    COMPLEX128: _complex(COMPLEX128, types.float64, complexmath.C128),
    UINT16: _element(UINT16, types.uint16, np.uint16, vecmath.INT),
    UINT32: _element(UINT32, types.uint32, np.uint32, vecmath.INT),
    UINT64: _element(UINT64, types.uint64, np.uint64, vecmath.INT),
}


def accumulator(element: Element) -> Any:
    """What makes a number one of the type in which sums and products of elements are kept."""
    if isinstance(element.scalar, types.Complex):
        return ELEMENTS[COMPLEX128].constant
    return np.float64 if isinstance(element.scalar, types.Float) else np.int64


def specialise(formula: Callable[..., Any], element: Element) -> Any:
    """A formula of an op for one dtype: `m` and ``c`` become those of the dtype, and the loop inlines it.

    So do the functions that the formula calls, and theirs.
    """
    names = dict(zip(VOCABULARY, (element.math, element.constant), strict=True))
    return specialised(formula, names, njit(**INLINE))
