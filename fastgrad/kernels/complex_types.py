"""The type of complex numbers in compiled code, for front ends of Numba's kind: pairs of floats.

Numba compiles for the CPU and numba-cuda for GPUs, each with types, templates and registries of its own; `Front` is
what such a one has, and `complex_numbers` declares the type there. It is a complex type of the front end's own kind,
but for its operators: numbers beside it are not promoted to wider ones, a float beside it has no imaginary part, and a
quotient by zero raises nothing. So constants, and what is read from memory, are of this type, and formulas are written
as for floats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir


class Front(NamedTuple):
    """What a front end of Numba's kind has, by Numba's names."""

    types: Any
    models: Any
    safe: Any
    template: Any
    infer_global: Any
    signature: Any
    intrinsic: Any
    lower_builtin: Any
    lower_cast: Any
    register_model: Any


class ComplexNumbers(NamedTuple):
    """What is declared to a front end.

    Attributes
    ----------
    scalar : type
        The class of the types.
    kinds : dict
        The types by those of their parts.
    make, real, imag : callable
        Of compiled code: a number of two floats, and its parts.
    convert : callable
        Of compiled code, ``convert(value, like)``: a number as one of the type of another: of a complex one as a real
        one the real part, as a bool whether any part is not zero.
    constant : callable
        By the type of the parts, the function of compiled code that gives a number as a complex one.
    cast : callable
        ``cast(context, builder, value, source, target)``, if one of the types is complex.
    """

    scalar: Any
    kinds: dict[Any, Any]
    make: Any
    real: Any
    imag: Any
    convert: Any
    constant: Callable[[Any], Any]
    cast: Callable[..., Any]


def complex_numbers(front: Front) -> ComplexNumbers:
    """Declare the type, its casts and its operators to a front end."""
    scalar = _class_of(front)
    kinds = {part: scalar(part) for part in (front.types.float32, front.types.float64)}
    cast = _casting(front, scalar)
    for kind in (front.types.Integer, front.types.Float, front.types.Boolean):
        _declare_cast(front, kind, scalar, cast)
        _declare_cast(front, scalar, kind, cast)
    for kind in (front.types.IntegerLiteral, front.types.Complex):
        _declare_cast(front, kind, scalar, cast)
    _declare_operators(front, scalar)
    real, imag = (_part(front, k) for k in (0, 1))
    convert, constant = _conversions(front, kinds, cast)
    return ComplexNumbers(scalar, kinds, _making(front, kinds), real, imag, convert, constant, cast)


def _class_of(front: Front) -> Any:
    class ComplexScalar(front.types.Complex):  # type: ignore[misc,name-defined]
        """The type of complex numbers of which either part is a float of `part`."""

        def __init__(self, part: Any) -> None:
            # Numba asks NumPy for a dtype of this name when it looks for operators.
            super().__init__(name=f"complex{2 * part.bitwidth}", underlying_float=part)

        def can_convert_from(self, typingctx: Any, other: Any) -> Any:
            """Numbers are taken for complex ones where these are asked for."""
            return front.safe if isinstance(other, (front.types.Number, front.types.Boolean)) else None

    front.register_model(ComplexScalar)(front.models.ComplexModel)
    return ComplexScalar


def pair(inner: Any, builder: Any, kind: Any, re: Any, im: Any) -> Any:
    """The value of two parts."""
    whole = ir.Constant(inner.get_value_type(kind), ir.Undefined)
    return builder.insert_value(builder.insert_value(whole, re, 0), im, 1)


def parts(builder: Any, value: Any) -> tuple[Any, Any]:
    """Both parts of a value."""
    return builder.extract_value(value, 0), builder.extract_value(value, 1)


# --- making them, taking them apart, casts --------------------------------------------------------------------------


def _making(front: Front, kinds: dict[Any, Any]) -> Any:
    @front.intrinsic
    def make(context: Any, re: Any, im: Any) -> Any:
        """The complex number of two floats of one type."""
        kind = kinds.get(re)

        def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return pair(inner, builder, kind, *args)

        return (kind(re, re), emit) if kind is not None and im == re else None

    return make


def _part(front: Front, index: int) -> Any:
    @front.intrinsic
    def part(context: Any, x: Any) -> Any:
        def emit(_inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.extract_value(args[0], index)

        return (x.underlying_float(x), emit) if isinstance(x, front.types.Complex) else None

    return part


def _conversions(front: Front, kinds: dict[Any, Any], cast: Any) -> tuple[Any, Callable[[Any], Any]]:
    @front.intrinsic
    def convert(context: Any, value: Any, like: Any) -> Any:
        def emit(inner: Any, builder: Any, signature_: Any, args: Any) -> Any:
            return cast(inner, builder, args[0], signature_.args[0], signature_.return_type)

        return like(value, like), emit

    def constant(part: Any) -> Any:
        kind = kinds[part]

        @front.intrinsic
        def make_constant(context: Any, value: Any) -> Any:
            source = front.types.unliteral(value)

            def emit(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
                return cast(inner, builder, args[0], source, kind)

            return kind(source), emit

        return make_constant

    return convert, constant


def _casting(front: Front, scalar: Any) -> Callable[..., Any]:
    types = front.types

    def converted(inner: Any, builder: Any, value: Any, source: Any, kind: Any) -> Any:
        """A number of any type as one of the complex type `kind`."""
        part = kind.underlying_float
        if isinstance(source, types.Complex):
            if source.underlying_float == part:
                return value
            both = (inner.cast(builder, x, source.underlying_float, part) for x in parts(builder, value))
            return pair(inner, builder, kind, *both)
        re = inner.cast(builder, value, source, part)
        return pair(inner, builder, kind, re, ir.Constant(re.type, 0.0))

    def cast(inner: Any, builder: Any, value: Any, source: Any, target: Any) -> Any:
        """A number of one type as one of another, if one of them is complex."""
        if isinstance(target, scalar):
            return converted(inner, builder, value, source, target)
        re, im = parts(builder, value)
        if target == types.boolean:
            zero = ir.Constant(re.type, 0.0)
            return builder.or_(*(builder.fcmp_unordered("!=", x, zero) for x in (re, im)))
        part = source.underlying_float
        if isinstance(target, types.Integer):  # as floats go to integers: by way of int64
            wide = inner.cast(builder, re, part, types.int64)
            return inner.cast(builder, wide, types.int64, target)
        return inner.cast(builder, re, part, target)

    return cast


def _declare_cast(front: Front, source: Any, target: Any, cast: Any) -> None:
    def between(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
        return cast(context, builder, value, fromty, toty)

    front.lower_cast(source, target)(between)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _declare_operators(front: Front, scalar: Any) -> None:
    def operands(args: Any) -> tuple[Any, ...] | None:
        """The types that operands are converted to: all of the widest complex one, but floats of its parts stay."""
        kinds = [a for a in args if isinstance(a, scalar)]
        if not kinds:
            return None
        kind = max(kinds, key=lambda k: k.underlying_float.bitwidth)
        return tuple(a if a == kind.underlying_float else kind for a in args)

    class Arithmetic(front.template):  # type: ignore[misc,name-defined]
        """Complex numbers, and floats beside them."""

        def generic(self, args: Any, kws: Any) -> Any:
            taken = None if kws else operands(args)
            if taken is None:
                return None
            return front.signature(next(k for k in taken if isinstance(k, scalar)), *taken)

    class Comparison(front.template):  # type: ignore[misc,name-defined]
        """Two complex numbers, or one and a real one."""

        def generic(self, args: Any, kws: Any) -> Any:
            taken = None if kws else operands(args)
            if taken is None:
                return None
            kind = next(k for k in taken if isinstance(k, scalar))
            return front.signature(front.types.boolean, kind, kind)

    number = (scalar, front.types.Float)
    for names, compares, emit in _OPERATORS:
        for name in names.split():
            key = getattr(operator, name)
            template = Comparison if compares else Arithmetic
            front.infer_global(key)(type(f"_{name}", (template,), {"key": key}))
            of_one = name in ("neg", "pos")
            for kinds in ((scalar,),) if of_one else ((scalar, scalar), number, number[::-1]):
                front.lower_builtin(key, *kinds)(_lowered(emit, scalar))


def _lowered(emit: Any, scalar: Any) -> Any:
    """An operator as a front end asks for it: of the parts of its operands, a real one of which has no second one."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        taken = [
            parts(builder, a) if isinstance(k, scalar) else (a, None)
            for k, a in zip(sig.args, args, strict=True)
        ]
        found = emit(builder, *taken)
        return pair(context, builder, sig.return_type, *found) if isinstance(found, tuple) else found

    return lower


def _add(builder: Any, x: Any, y: Any) -> Any:
    (a, b), (c, d) = x, y
    im = b if d is None else d if b is None else builder.fadd(b, d)
    return builder.fadd(a, c), im


def _negated(builder: Any, x: Any) -> Any:
    """A float with the other sign; older LLVM has no instruction of its own for that."""
    return builder.fsub(ir.Constant(x.type, -0.0), x)


def _absolute(builder: Any, x: Any) -> Any:
    """A float without its sign, by its bits, which all dialects of LLVM have."""
    bits = ir.IntType(32 if x.type == ir.FloatType() else 64)
    mask = ir.Constant(bits, (1 << (bits.width - 1)) - 1)
    return builder.bitcast(builder.and_(builder.bitcast(x, bits), mask), x.type)


def _sub(builder: Any, x: Any, y: Any) -> Any:
    (a, b), (c, d) = x, y
    im = b if d is None else _negated(builder, d) if b is None else builder.fsub(b, d)
    return builder.fsub(a, c), im


def _mul(builder: Any, x: Any, y: Any) -> Any:
    (a, b), (c, d) = x, y
    mul = builder.fmul
    if d is None or b is None:
        return mul(a, c), mul(b, c) if d is None else mul(a, d)
    return builder.fsub(mul(a, c), mul(b, d)), builder.fadd(mul(a, d), mul(b, c))


def _div(builder: Any, x: Any, y: Any) -> Any:
    """By the ratio of the smaller part of the divisor to the larger one, so that no square overflows (Smith 1962)."""
    (a, b), (c, d) = x, y
    div, mul, zero = builder.fdiv, builder.fmul, ir.Constant(a.type, 0.0)
    if d is None:
        return div(a, c), div(b, c)
    b = zero if b is None else b
    first = builder.fcmp_ordered(">=", _absolute(builder, c), _absolute(builder, d))
    low, high = builder.select(first, d, c), builder.select(first, c, d)
    ratio = builder.select(builder.fcmp_ordered("==", high, zero), zero, div(low, high))
    whole = builder.fadd(high, mul(low, ratio))
    one = ir.Constant(a.type, 1.0)
    u, v = builder.select(first, one, ratio), builder.select(first, ratio, one)
    re = div(builder.fadd(mul(a, u), mul(b, v)), whole)
    return re, div(builder.fsub(mul(b, u), mul(a, v)), whole)


def _neg(builder: Any, x: Any) -> Any:
    return _negated(builder, x[0]), _negated(builder, x[1])


def _pos(builder: Any, x: Any) -> Any:
    return x


def _equal(builder: Any, x: Any, y: Any) -> Any:
    return builder.and_(*(builder.fcmp_ordered("==", a, b) for a, b in zip(x, y, strict=True)))


def _unequal(builder: Any, x: Any, y: Any) -> Any:
    return builder.not_(_equal(builder, x, y))


_OPERATORS = (  # names in `operator`, whether they compare, what they are
    ("add iadd", False, _add), ("sub isub", False, _sub), ("mul imul", False, _mul),
    ("truediv itruediv", False, _div), ("neg", False, _neg), ("pos", False, _pos),
    ("eq", True, _equal), ("ne", True, _unequal),
)  # fmt: skip
