"""The scalar mathematics of complex numbers: what `m` stands for in formulas over complex64 and complex128.

`C64` and `C128` have the functions of `vecmath` that are holomorphic, and what complex numbers have besides: ``real
imag conj make`` of two floats, ``abs angle`` as floats, ``sgn``. Branch cuts and special values are those of C's annex
G where the C library computes: it does where a formula of a few real functions would be wrong near the cuts, by
cancellation, or out of range. What is of complex64 is computed there in double, and rounded once.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fastgrad.kernels.complex_scalars import ComplexScalar, imag, make, pair, real
from fastgrad.kernels.scalar_ir import formula, namespace
from fastgrad.kernels.vecmath import F32, F64, logical_and

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


length = _of_parts("hypot", False)
angle = _of_parts("atan2", True)
log, sqrt = _library("clog"), _library("csqrt")
power = _library("cpow", 2)


@formula
def conj(x):  # type: ignore[no-untyped-def]
    return make(real(x), -imag(x))


@formula
def isnan(x):  # type: ignore[no-untyped-def]
    return x != x


@formula
def masked_fill(x, value, condition):  # type: ignore[no-untyped-def]
    return where(condition, value, x)


@formula
def of_dtype(x, other):  # type: ignore[no-untyped-def]
    return x


@formula
def pow_(x, y):  # type: ignore[no-untyped-def]
    """``x**y``; squares and cubes as products, and zero to a power as zero, to the power of zero as one."""
    if y == 2:
        return x * x
    if y == 3:
        return x * x * x
    if x == 0:
        if real(y) > 0:
            return x
        return x + 1 if y == 0 else make(abs(real(y)) / real(x), real(y) - real(y) + real(x) / real(x))
    return power(x, y)


@formula
def whole_power(x, n):  # type: ignore[no-untyped-def]
    result = x
    for _ in range(1, n):
        result = result * x
    return result


def _functions(part: Any, floats: ModuleType) -> dict[str, Any]:
    """What depends on the real functions of the dtype of the parts."""
    exp_of, sin_of, cos_of = floats.exp, floats.sin, floats.cos  # type: ignore[attr-defined]
    c = np.float32 if part == types.float32 else np.float64
    log1p_of, expm1_of = floats.log1p, floats.expm1  # type: ignore[attr-defined]
    one, half, two = c(1), c(0.5), c(2)

    @formula
    def absolute(x):  # type: ignore[no-untyped-def]
        return length(x)

    @formula
    def exp(x):  # type: ignore[no-untyped-def]
        scale, turn = exp_of(real(x)), imag(x)
        if turn == 0:  # so that an infinite scale leaves it zero
            return make(scale, turn)
        return make(scale * cos_of(turn), scale * sin_of(turn))

    @formula
    def sgn(x):  # type: ignore[no-untyped-def]
        size = length(x)
        return x if size == 0 else make(real(x) / size, imag(x) / size)

    @formula
    def reciprocal(x):  # type: ignore[no-untyped-def]
        return one / x

    @formula
    def rsqrt(x):  # type: ignore[no-untyped-def]
        return one / sqrt(x)

    @formula
    def sigmoid(x):  # type: ignore[no-untyped-def]
        return one / (one + exp(-x))

    @formula
    def log1p(x):  # type: ignore[no-untyped-def]
        re, im = real(x), imag(x)
        return make(half * log1p_of(re * (two + re) + im * im), angle(make(one + re, im)))

    @formula
    def expm1(x):  # type: ignore[no-untyped-def]
        turn = imag(x)
        lower = sin_of(half * turn)
        grown = expm1_of(real(x))
        return make(grown * cos_of(turn) - two * lower * lower, (grown + one) * sin_of(turn))

    return {
        "abs": absolute, "exp": exp, "sgn": sgn, "reciprocal": reciprocal, "rsqrt": rsqrt, "sigmoid": sigmoid,
        "log1p": log1p, "expm1": expm1,
    }  # fmt: skip


def _questions(part: Any, floats: ModuleType) -> dict[str, Any]:
    """What formulas ask of numbers."""
    isinf_of = floats.isinf  # type: ignore[attr-defined]
    quarter = (np.float32 if part == types.float32 else np.float64)(0.25)

    @formula
    def isinf(x):  # type: ignore[no-untyped-def]
        return isinf_of(real(x)) | isinf_of(imag(x))

    @formula
    def is_small(x):  # type: ignore[no-untyped-def]
        """Whether the absolute value is below one half."""
        return real(x) * real(x) + imag(x) * imag(x) < quarter

    @formula
    def is_at_least_zero(x):  # type: ignore[no-untyped-def]
        return (imag(x) == 0) & (real(x) >= 0)

    return {"isinf": isinf, "is_small": is_small, "is_at_least_zero": is_at_least_zero}


_COMMON = {
    "real": real, "imag": imag, "make": make, "conj": conj, "angle": angle, "where": where, "isnan": isnan,
    "masked_fill": masked_fill, "of_dtype": of_dtype, "log": log, "sqrt": sqrt, "pow": pow_,
    "whole_power": whole_power, "logical_and": logical_and,
    **{name: _library("c" + name) for name in (
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
    )},
}  # fmt: skip

C64: Any = namespace("C64", **_COMMON, **_functions(types.float32, F32), **_questions(types.float32, F32))
C128: Any = namespace("C128", **_COMMON, **_functions(types.float64, F64), **_questions(types.float64, F64))
