"""The scalar mathematics of complex numbers: what `m` stands for in formulas over complex64 and complex128.

`C64` and `C128` have the functions of `vecmath` that are holomorphic, and what complex numbers have besides: ``real
imag conj make`` of two floats, ``abs angle`` as floats, ``sgn``. What is made of functions of the parts is that of
`complex_functions`. Branch cuts and special values are those of C's annex G where the C library computes: it does where
a formula of a few real functions would be wrong near the cuts, by cancellation, or out of range. What is of complex64
is computed there in double, and rounded once.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fastgrad.kernels.complex_functions import shared_functions
from fastgrad.kernels.complex_scalars import ComplexScalar, imag, make, real
from fastgrad.kernels.complex_types import pair
from fastgrad.kernels.scalar_ir import formula, namespace
from fastgrad.kernels.vecmath import F32, F64

__all__ = ["C64", "C128"]

_DOUBLE = ir.DoubleType()
_PAIR = ir.LiteralStructType([_DOUBLE, _DOUBLE])


def _wide(inner: Any, builder: Any, value: Any, kind: Any) -> list[Any]:
    """The parts of a number, as doubles."""
    source = kind.underlying_float
    return [inner.cast(builder, builder.extract_value(value, k), source, types.float64) for k in (0, 1)]


def _declared(builder: Any, name: str, kind: ir.FunctionType) -> Any:
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


def _library(name: str, operands: int = 1) -> Any:
    """A function of the C library, which takes and gives complex numbers in two registers."""

    def emit(inner: Any, builder: Any, sig: Any, args: Any) -> Any:
        taken = [part for k, a in zip(sig.args, args, strict=True) for part in _wide(inner, builder, a, k)]
        function = _declared(builder, name, ir.FunctionType(_PAIR, [_DOUBLE] * len(taken)))
        found = builder.call(function, taken)
        part = sig.return_type.underlying_float
        narrow = [inner.cast(builder, builder.extract_value(found, k), types.float64, part) for k in (0, 1)]
        return pair(inner, builder, sig.return_type, *narrow)

    if operands == 1:

        @intrinsic
        def one(context: Any, x: Any) -> Any:
            return (x(x), emit) if isinstance(x, types.Complex) else None

        return one

    @intrinsic
    def two(context: Any, x: Any, y: Any) -> Any:
        return (x(x, x), emit) if isinstance(x, types.Complex) else None

    return two


def _of_parts(name: str, swapped: bool) -> Any:
    """A real function of the C library, of both parts, as a float of their type."""

    def emit(inner: Any, builder: Any, sig: Any, args: Any) -> Any:
        taken = _wide(inner, builder, args[0], sig.args[0])
        function = _declared(builder, name, ir.FunctionType(_DOUBLE, [_DOUBLE] * 2))
        found = builder.call(function, taken[::-1] if swapped else taken)
        return inner.cast(builder, found, types.float64, sig.return_type)

    @intrinsic
    def of_parts(context: Any, x: Any) -> Any:
        return (x.underlying_float(x), emit) if isinstance(x, types.Complex) else None

    return of_parts


@intrinsic
def where(context: Any, condition: Any, x: Any, y: Any) -> Any:
    """x if the condition holds, else y: a choice of each part, so that loops have vectors."""

    def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
        re, im = (
            builder.select(args[0], builder.extract_value(args[1], k), builder.extract_value(args[2], k))
            for k in (0, 1)
        )
        return pair(inner, builder, x, re, im)

    return (x(types.boolean, x, x), emit) if isinstance(x, ComplexScalar) and x == y else None


# The functions of the C library that have its names.
_HOLOMORPHIC = {
    name: _library("c" + name)
    for name in (
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
    )
}  # fmt: skip
_WORDS = SimpleNamespace(
    real=real, imag=imag, make=make, where=where, length=_of_parts("hypot", False), angle=_of_parts("atan2", True),
    log=_library("clog"), sqrt=_library("csqrt"), power=_library("cpow", 2),
)  # fmt: skip

C64: Any = namespace("C64", **_HOLOMORPHIC, **shared_functions(_WORDS, F32, np.float32, formula))
C128: Any = namespace("C128", **_HOLOMORPHIC, **shared_functions(_WORDS, F64, np.float64, formula))
