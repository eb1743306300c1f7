"""Complex numbers in compiled loops: a type of pairs of floats, and their arithmetic.

It is a type of Numba's own kind, whose sums and products are Numba's. Quotients are not: Numba's raise an exception
where the divisor is zero, as Python's do. So constants, and what pointers give, are of this type, and formulas are
written as for floats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_cast, register_model

from fastgrad.native.base.intrinsics import pointer_to

__all__ = ["COMPLEX_TYPES", "ComplexScalar", "constant", "convert", "imag", "make", "pointer", "real"]


class ComplexScalar(types.Complex):  # type: ignore[misc]
    """The type of complex numbers of which either part is a float of `part`."""

    def __init__(self, part: Any) -> None:
        # Numba asks NumPy for a dtype of this name when it looks for operators.
        super().__init__(name=f"complex{2 * part.bitwidth}", underlying_float=part)

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """Numbers are taken for complex ones where these are asked for."""
        return Conversion.safe if isinstance(other, (types.Number, types.Boolean)) else None


COMPLEX_TYPES = {part: ComplexScalar(part) for part in (types.float32, types.float64)}
"""The types by their parts."""

register_model(ComplexScalar)(models.ComplexModel)


def pair(inner: Any, builder: Any, kind: Any, re: Any, im: Any) -> Any:
    """The value of two parts."""
    made = cgutils.create_struct_proxy(kind)(inner, builder)
    made.real, made.imag = re, im
    return made._getvalue()


def converted(inner: Any, builder: Any, value: Any, source: Any, kind: Any) -> Any:
    """A number of any type as one of the complex type `kind`."""
    part = kind.underlying_float
    if isinstance(source, types.Complex):
        if source.underlying_float == part:
            return value
        re, im = (
            inner.cast(builder, builder.extract_value(value, k), source.underlying_float, part)
            for k in (0, 1)
        )
        return pair(inner, builder, kind, re, im)
    wide = source if isinstance(source, types.Float) else types.float64
    re = inner.cast(builder, inner.cast(builder, value, source, wide), wide, part)
    return pair(inner, builder, kind, re, ir.Constant(re.type, 0.0))


# --- making them, and taking them apart -----------------------------------------------------------------------------


@intrinsic
def make(context: Any, re: Any, im: Any) -> Any:
    """The complex number of two floats of one type."""
    kind = COMPLEX_TYPES.get(re)

    def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return pair(inner, builder, kind, *args)

    return (kind(re, re), emit) if kind is not None and im == re else None


def _part(index: int) -> Any:
    @intrinsic
    def part(context: Any, x: Any) -> Any:
        def emit(_inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.extract_value(args[0], index)

        return (x.underlying_float(x), emit) if isinstance(x, types.Complex) else None

    return part


real, imag = _part(0), _part(1)


def constant(part: Any) -> Callable[..., Any]:
    """The function that gives a number as a complex one of this type."""
    kind = COMPLEX_TYPES[part]

    @intrinsic
    def make_constant(context: Any, value: Any) -> Any:
        source = types.unliteral(value)

        def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return converted(inner, builder, args[0], source, kind)

        return kind(source), emit

    return make_constant  # type: ignore[no-any-return]


def pointer(part: Any) -> Any:
    """A function that makes an address a pointer to elements of this type."""
    return pointer_to(COMPLEX_TYPES[part])


@intrinsic
def convert(context: Any, value: Any, like: Any) -> Any:
    """A number as one of the type of another: of a complex one as a real one the real part, as a bool whether any

    part is not zero.
    """

    def emit(inner: Any, builder: Any, signature_: Any, args: Any) -> Any:
        return cast(inner, builder, args[0], signature_.args[0], signature_.return_type)

    return like(value, like), emit


def cast(inner: Any, builder: Any, value: Any, source: Any, target: Any) -> Any:
    """A number of one type as one of another, if one of them is complex."""
    if isinstance(target, ComplexScalar):
        return converted(inner, builder, value, source, target)
    re, im = (builder.extract_value(value, k) for k in (0, 1))
    if target == types.boolean:
        zero = ir.Constant(re.type, 0.0)
        truths = [builder.fcmp_unordered("!=", x, zero) for x in (re, im)]
        return builder.or_(*truths)
    part = source.underlying_float
    if isinstance(target, types.Integer):  # as floats go to integers: by way of int64
        wide = inner.cast(builder, re, part, types.int64)
        return inner.cast(builder, wide, types.int64, target)
    return inner.cast(builder, re, part, target)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _operands(args: Any) -> tuple[Any, ...] | None:
    """The types that operands are converted to: all of the widest complex one, but floats of its parts stay."""
    kinds = [a for a in args if isinstance(a, ComplexScalar)]
    if not kinds:
        return None
    kind = max(kinds, key=lambda k: k.underlying_float.bitwidth)
    return tuple(a if a == kind.underlying_float else kind for a in args)


class _Arithmetic(AbstractTemplate):  # type: ignore[misc]
    """Complex numbers, and floats beside them."""

    def generic(self, args: Any, kws: Any) -> Any:
        operands = None if kws else _operands(args)
        if operands is None:
            return None
        return signature(next(k for k in operands if isinstance(k, ComplexScalar)), *operands)


class _Comparison(AbstractTemplate):  # type: ignore[misc]
    """Two complex numbers, or one and a real one."""

    def generic(self, args: Any, kws: Any) -> Any:
        operands = None if kws else _operands(args)
        if operands is None:
            return None
        kind = next(k for k in operands if isinstance(k, ComplexScalar))
        return signature(types.boolean, kind, kind)


def _declare(names: str, template: Any) -> Callable[[Callable[..., Any]], None]:
    def declare(function: Callable[..., Any]) -> None:
        for name in names.split():
            key = getattr(operator, name)
            infer_global(key)(type(f"_{name}", (template,), {"key": key}))
            if name in ("neg", "pos"):
                lower_builtin(key, ComplexScalar)(function)
            else:
                number = (ComplexScalar, types.Float)
                for kinds in ((ComplexScalar, ComplexScalar), number, number[::-1]):
                    lower_builtin(key, *kinds)(function)

    return declare


def _taken(sig: Any, builder: Any, args: Any) -> list[tuple[Any, Any]]:
    """The parts of both operands; no imaginary part of a real one."""
    return [
        (builder.extract_value(a, 0), builder.extract_value(a, 1))
        if isinstance(k, ComplexScalar)
        else (a, None)
        for k, a in zip(sig.args, args, strict=True)
    ]


def _or_zero(x: Any, like: Any) -> Any:
    return ir.Constant(like.type, 0.0) if x is None else x


@_declare("add iadd", _Arithmetic)
def _add(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    (a, b), (c, d) = _taken(sig, builder, args)
    im = b if d is None else d if b is None else builder.fadd(b, d)
    return pair(context, builder, sig.return_type, builder.fadd(a, c), im)


@_declare("sub isub", _Arithmetic)
def _sub(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    (a, b), (c, d) = _taken(sig, builder, args)
    im = b if d is None else builder.fneg(d) if b is None else builder.fsub(b, d)
    return pair(context, builder, sig.return_type, builder.fsub(a, c), im)


@_declare("mul imul", _Arithmetic)
def _mul(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    (a, b), (c, d) = _taken(sig, builder, args)
    mul = builder.fmul
    if d is None or b is None:
        re, im = mul(a, c), mul(b, c) if d is None else mul(a, d)
    else:
        re = builder.fsub(mul(a, c), mul(b, d))
        im = builder.fadd(mul(a, d), mul(b, c))
    return pair(context, builder, sig.return_type, re, im)


@_declare("truediv itruediv", _Arithmetic)
def _div(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """By the ratio of the smaller part of the divisor to the larger one, so that no square overflows (Smith 1962)."""
    (a, b), (c, d) = _taken(sig, builder, args)
    div, mul, zero = builder.fdiv, builder.fmul, ir.Constant(a.type, 0.0)
    if d is None:
        return pair(context, builder, sig.return_type, div(a, c), div(b, c))
    b = _or_zero(b, a)
    absolute = builder.module.declare_intrinsic("llvm.fabs", [a.type])
    first = builder.fcmp_ordered(">=", *(builder.call(absolute, [x]) for x in (c, d)))
    low, high = builder.select(first, d, c), builder.select(first, c, d)
    ratio = builder.select(builder.fcmp_ordered("==", high, zero), zero, div(low, high))
    whole = builder.fadd(high, mul(low, ratio))
    one = ir.Constant(a.type, 1.0)
    u, v = builder.select(first, one, ratio), builder.select(first, ratio, one)
    re = div(builder.fadd(mul(a, u), mul(b, v)), whole)
    im = div(builder.fsub(mul(b, u), mul(a, v)), whole)
    return pair(context, builder, sig.return_type, re, im)


@_declare("neg", _Arithmetic)
def _neg(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    re, im = (builder.fneg(builder.extract_value(args[0], k)) for k in (0, 1))
    return pair(context, builder, sig.return_type, re, im)


@_declare("pos", _Arithmetic)
def _pos(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return args[0]


def _equal(builder: Any, args: Any) -> Any:
    left, right = ([builder.extract_value(a, k) for k in (0, 1)] for a in args)
    return builder.and_(*(builder.fcmp_ordered("==", x, y) for x, y in zip(left, right, strict=True)))


@_declare("eq", _Comparison)
def _eq(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _equal(builder, args)


@_declare("ne", _Comparison)
def _ne(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.not_(_equal(builder, args))


def _cast(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return cast(context, builder, value, fromty, toty)


for _kind in (types.Integer, types.IntegerLiteral, types.Float, types.Boolean, types.Complex):
    lower_cast(_kind, ComplexScalar)(_cast)
