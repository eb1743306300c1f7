"""Complex numbers on the GPU: the type of `kernels.complex_types` for numba-cuda."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.core.imputils import lower_constant
from numba.cuda.extending import (
    core_models,
    intrinsic,
    lower_builtin,
    lower_cast,
    overload,
    register_model,
    typeof_impl,
)
from numba.cuda.typeconv import Conversion
from numba.cuda.typing.templates import AbstractTemplate, infer_global, signature

from fastgrad.kernels.complex_types import Front, complex_numbers, pair
from fastgrad.kernels.cuda.simulated_complex import Complex, Complex64, Complex128

_declared = complex_numbers(
    Front(
        types, core_models, Conversion.safe, AbstractTemplate, infer_global, signature, intrinsic, lower_builtin,
        lower_cast, register_model,
    )
)  # fmt: skip
make, real, imag = _declared.make, _declared.real, _declared.imag

_OF_CONSTANTS = {Complex64: _declared.kinds[types.float32], Complex128: _declared.kinds[types.float64]}


def _of_python(kind: Any, value: Any) -> Complex:
    """A number before it is compiled: a constant of kernels."""
    return next(c for c, k in _OF_CONSTANTS.items() if k == kind)(value)


_declared.scalar.cast_python_value = _of_python


@typeof_impl.register(Complex)
def _type_of_constant(value, context):  # type: ignore[no-untyped-def]
    return _OF_CONSTANTS[type(value)]


@lower_constant(_declared.scalar)
def _constant(context, builder, kind, value):  # type: ignore[no-untyped-def]
    part = context.get_value_type(kind.underlying_float)
    return pair(context, builder, kind, *(ir.Constant(part, float(x)) for x in (value.real, value.imag)))


def constant_of(part: Any) -> Any:
    """The type of the complex numbers of such parts, which makes a number one of them."""
    return _declared.kinds[part]


def part_by_part(exchange: Any) -> Any:
    """A word of a value and a number, of complex values that of both parts."""
    of_one = cuda.jit(device=True)(exchange)

    def of_any(value, by):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    @overload(of_any)
    def choose(value, by):  # type: ignore[no-untyped-def]
        if isinstance(value, types.Complex):
            return lambda value, by: make(of_one(real(value), by), of_one(imag(value), by))
        return lambda value, by: of_one(value, by)

    def word(value, by):  # type: ignore[no-untyped-def]
        return of_any(value, by)

    word.__name__ = exchange.__name__
    return word


def chosen(builder: Any, inner: Any, condition: Any, kind: Any, x: Any, y: Any) -> Any:
    """A choice of values of a type, of both parts of complex ones."""
    if not isinstance(kind, types.Complex):
        return builder.select(condition, x, y)
    parts = (builder.select(condition, *(builder.extract_value(v, k) for v in (x, y))) for k in (0, 1))
    return pair(inner, builder, kind, *parts)
