"""Pieces of LLVM IR on scalars, of which the formulas of `vecmath` are made: selects, exact operations, bits.

Each is an intrinsic for float32 and float64 alike; what it needs to know of them stands in `_FORMATS`.

Note [Magic numbers]: adding ``MAGIC = 1.5 * 2**mantissa`` to a small float rounds it to an integer n, which
then stands in the low bits of the sum ``t = n + MAGIC`` too. `two_to`, `two_to_halves` and `low_bit` read
it there.

Note [Rare calls]: a branch with a call would keep LLVM from vectorising a loop. But a call whose function
names masked vector variants (attribute ``vector-function-abi-variant``) is vectorised as a call of a
variant; ours looks whether a lane is set, and calls libm for every lane then. It is inlined after the
vectoriser has run, so that the usual turn of a loop has no call, around which no vector register keeps
what it holds. Since only the attribute names them, the variants would be deleted before the vectoriser
looks for them; so each function refers to the next one as its "personality", which means nothing for
functions that do not unwind.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.ir.values import FunctionAttributes
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.native.build.machine_code import INLINED_LATE

FLAGS: dict[str, Any] = {
    "forceinline": True, "error_model": "numpy",
    "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
formula = njit(**FLAGS)
"""Decorates functions made of these pieces; why no fast-math flags, says Note [Exact steps] in `vecmath`."""


def namespace(name: str, **functions: Any) -> ModuleType:
    """Functions by name as a module, because compiled code can look names up in modules alone."""
    module = ModuleType(f"fastgrad.kernels.vecmath.{name}")
    vars(module).update(functions)
    return module


# Numba type: integer of the same size, bits of the mantissa, exponent bias.
_FORMATS = {types.float32: (ir.IntType(32), 23, 127), types.float64: (ir.IntType(64), 52, 1023)}
_LL_TYPES = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}


@intrinsic
def like(context, x, value):
    """`value`, usually a literal, converted to the type of x. Integers wrap around."""

    def emit(inner, builder, signature, args):
        return inner.cast(builder, args[1], signature.args[1], signature.return_type)

    return x(x, value), emit


@intrinsic
def where(context, condition, x, y):
    """x if the condition holds, else y."""

    def emit(_inner, builder, _signature, args):
        return builder.select(*args)

    return (x(types.boolean, x, x), emit) if x == y else None


def _llvm(name):
    """Emit a call of the LLVM intrinsic of this name, overloaded on the type of its arguments."""

    def emit(_inner, builder, _signature, args):
        kind = args[0].type
        function_type = ir.FunctionType(kind, [kind] * len(args))
        return builder.call(builder.module.declare_intrinsic(name, [kind], function_type), args)

    return emit


def _unary(name):
    emit = _llvm(name)

    @intrinsic
    def operation(context, x):
        return x(x), emit

    return operation


def _binary(name):
    emit = _llvm(name)

    @intrinsic
    def operation(context, x, y):
        return x(x, x), emit

    return operation


absolute, sqrt = _unary("llvm.fabs"), _unary("llvm.sqrt")
floor, ceil, trunc, round_half_even = map(_unary, ("llvm.floor", "llvm.ceil", "llvm.trunc", "llvm.roundeven"))
copysign = _binary("llvm.copysign")
maximum, minimum = _binary("llvm.maximum"), _binary("llvm.minimum")  # of NaN and y: NaN; -0 < +0


@intrinsic
def fma(context, x, y, z):
    """``x * y + z`` with one rounding."""
    return x(x, x, x), _llvm("llvm.fma")


@intrinsic
def fmod(context, x, y):
    """``x - n * y`` with the n, rounded towards zero, that makes it smaller than y; exact."""

    def emit(_inner, builder, _signature, args):
        return builder.frem(*args)

    return x(x, x), emit


def constant_of(f32, f64):
    """An intrinsic that gives the constant of its argument's type."""
    if not np.isnan(f32) and float(np.float32(f32)) != f32:
        raise ValueError(f"{f32!r} is no float32")

    @intrinsic
    def constant(context, x):
        value = f32 if x == types.float32 else f64

        def emit(_inner, _builder, signature, _args):
            return ir.Constant(_LL_TYPES[signature.return_type], value)

        return x(x), emit

    return constant


def polynomial_in(f32=(), f64=()):
    """An intrinsic that evaluates ``c[0] + c[1] x + c[2] x**2 + ...`` with the coefficients of x's type.

    Long ones go by the even and the odd powers, which halves the chain of dependent operations.
    """
    if any(float(np.float32(c)) != c for c in f32):
        raise ValueError("a coefficient is no float32")
    fused = _llvm("llvm.fma")

    def emit(inner, builder, signature, args):
        (x,) = args
        given = f32 if signature.return_type == types.float32 else f64
        terms = [ir.Constant(x.type, c) for c in given]
        step = x
        if len(terms) > 8:
            whole = zip(terms[::2], terms[1::2])  # a last term without a partner stays as it is
            pairs = [fused(inner, builder, None, (odd, x, even)) for even, odd in whole]
            terms, step = pairs + terms[2 * len(pairs) :], builder.fmul(x, x)
        value = terms[-1]
        for term in terms[-2::-1]:
            value = fused(inner, builder, None, (value, step, term))
        return value

    @intrinsic
    def polynomial(context, x):
        return (x(x), emit) if (f32 if x == types.float32 else f64) else None

    return polynomial


def _power_of_two(builder, exponent, x):
    """The float ``2**exponent`` for an exponent within the normal range."""
    integer, mantissa, bias = _FORMATS[x]
    biased = builder.add(exponent, ir.Constant(integer, bias))
    return builder.bitcast(builder.shl(biased, ir.Constant(integer, mantissa)), _LL_TYPES[x])


def _magic(x):
    """The integer whose bits are those of MAGIC."""
    integer, mantissa, bias = _FORMATS[x]
    return ir.Constant(integer, ((bias + mantissa) << mantissa) + (1 << (mantissa - 1)))


@intrinsic
def two_to(context, t):
    """``2**n`` for ``t = n + MAGIC``."""

    def emit(_inner, builder, _signature, args):
        n = builder.sub(builder.bitcast(args[0], _FORMATS[t][0]), _magic(t))
        return _power_of_two(builder, n, t)

    return t(t), emit


@intrinsic
def two_to_halves(context, t):
    """Two factors with the product ``2**n``, which may itself be out of range, for ``t = n + MAGIC``."""

    def emit(inner, builder, signature, args):
        integer = _FORMATS[t][0]
        n = builder.sub(builder.bitcast(args[0], integer), _magic(t))
        half = builder.ashr(n, ir.Constant(integer, 1))
        factors = [_power_of_two(builder, k, t) for k in (half, builder.sub(n, half))]
        return inner.make_tuple(builder, signature.return_type, factors)

    return types.UniTuple(t, 2)(t), emit


@intrinsic
def low_bit(context, t, position):
    """Whether the bit of value `position` (1, 2) is set in n for ``t = n + MAGIC``."""

    def emit(_inner, builder, _signature, args):
        bits = builder.bitcast(args[0], _FORMATS[t][0])
        mask = builder.trunc(args[1], bits.type) if bits.type.width < 64 else args[1]
        return builder.icmp_unsigned("!=", builder.and_(bits, mask), ir.Constant(bits.type, 0))

    return types.boolean(t, types.int64), emit


@intrinsic
def split(context, x):
    """``(f, e, 2**-e)`` with ``x = 2**e * (1 + f)`` and ``sqrt(1/2) <= 1 + f < sqrt(2)``.

    For positive normal x; a wrong ``2**-e`` for the largest ones, whose e is that of infinity.
    """
    integer, mantissa, bias = _FORMATS[x]
    kind = _LL_TYPES[x]
    root_half = int(np.array(0.5**0.5, x.name).view(f"int{integer.width}"))

    def emit(inner, builder, signature, args):
        bits = builder.bitcast(args[0], integer)
        shift = ir.Constant(integer, mantissa)
        e = builder.ashr(builder.sub(bits, ir.Constant(integer, root_half)), shift)
        offset = builder.shl(e, shift)
        f = builder.fsub(builder.bitcast(builder.sub(bits, offset), kind), ir.Constant(kind, 1.0))
        magic = builder.bitcast(_magic(x), kind)
        exponent = builder.fsub(builder.bitcast(builder.add(e, _magic(x)), kind), magic)
        scale = builder.bitcast(builder.sub(ir.Constant(integer, bias << mantissa), offset), kind)
        return inner.make_tuple(builder, signature.return_type, [f, exponent, scale])

    return types.UniTuple(x, 3)(x), emit


def divided(builder, a, b, signed):
    """What `divide` makes of two integers."""
    zero, one = ir.Constant(a.type, 0), ir.Constant(a.type, 1)
    by_zero = builder.icmp_unsigned("==", b, zero)
    if signed:  # the smallest number divided by -1 would trap
        by_minus_one = builder.icmp_signed("==", b, ir.Constant(a.type, -1))
        divisor = builder.select(builder.or_(by_zero, by_minus_one), one, b)
        quotient = builder.select(by_minus_one, builder.neg(a), builder.sdiv(a, divisor))
        rest = builder.srem(a, divisor)
    else:
        divisor = builder.select(by_zero, one, b)
        quotient, rest = builder.udiv(a, divisor), builder.urem(a, divisor)
    return builder.select(by_zero, zero, quotient), rest


@intrinsic
def divide(context, x, y):
    """``(quotient, rest)`` rounded towards zero; ``(0, 0)`` for zero divisors; the quotient wraps around."""

    def emit(inner, builder, signature, args):
        return inner.make_tuple(builder, signature.return_type, divided(builder, *args, x.signed))

    return (types.UniTuple(x, 2)(x, x), emit) if isinstance(x, types.Integer) else None


class _RareAttributes(FunctionAttributes):
    """Function attributes, and those of Note [Rare calls] that llvmlite does not know."""

    variants = ""

    def _to_list(self, ret_type):
        text = f'memory(none) willreturn "vector-function-abi-variant"="{self.variants}"'
        keep_alive = super()._to_list(ret_type)  # ends with the personality
        return [*keep_alive[:-1], text, keep_alive[-1]]


def _masked_variant(module, libm, width, name, narrower):
    """Define ``name(x, mask)``: libm's function of all lanes if the mask has any, else x. Only the former is a call."""
    vector = ir.VectorType(libm.function_type.return_type, width)
    bits = ir.IntType(width)
    mask = ir.VectorType(ir.IntType(1), width)
    variant = ir.Function(module, ir.FunctionType(vector, [vector, mask]), name)
    variant.linkage = "linkonce_odr"
    variant.attributes.add("alwaysinline")
    variant.attributes.add("nounwind")
    variant.attributes.personality = narrower
    x, mask = variant.args
    builder = ir.IRBuilder(variant.append_basic_block("entry"))
    entry = builder.block
    with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(mask, bits), bits(0)), likely=False):
        value = builder.call(_of_all_lanes(module, libm, vector, f"{name}_lanes"), [x])
        last = builder.block
    result = builder.phi(vector)
    result.add_incoming(x, entry)
    result.add_incoming(value, last)
    builder.ret(result)
    return variant


def _of_all_lanes(module, libm, vector, name):
    """Define libm's function of each lane of a vector."""
    function = ir.Function(module, ir.FunctionType(vector, [vector]), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    (x,) = function.args
    value = x
    for lane in map(ir.IntType(32), range(vector.count)):
        called = builder.call(libm, [builder.extract_element(x, lane)])
        value = builder.insert_element(value, called, lane)
    builder.ret(value)
    return function


def rare_call_of(name):
    """An intrinsic that calls libm's function `name`; see Note [Rare calls]."""

    def emit(_inner, builder, _signature, args):
        module, kind = builder.module, args[0].type
        libm_name = name + "f" if kind == ir.FloatType() else name
        rare_name = f"vecmath_rare_{libm_name}"
        rare = module.globals.get(rare_name)
        if rare is None:
            function_type = ir.FunctionType(kind, [kind])
            libm = module.globals.get(libm_name) or ir.Function(module, function_type, libm_name)
            variant, names = None, []
            for width in (2, 4, 8, 16):
                variant = _masked_variant(module, libm, width, f"{INLINED_LATE}{rare_name}_x{width}", variant)
                names.append(f"_ZGV_LLVM_M{width}v_{rare_name}({variant.name})")
            rare = ir.Function(module, function_type, rare_name)
            rare.linkage = "linkonce_odr"
            rare.attributes = _RareAttributes(["noinline", "nounwind"])
            rare.attributes.personality = variant
            rare.attributes.variants = ",".join(names)
            body = ir.IRBuilder(rare.append_basic_block("entry"))
            body.ret(body.call(libm, rare.args))
        return builder.call(rare, args)

    @intrinsic
    def rare_call(context, x):
        return x(x), emit

    return rare_call
