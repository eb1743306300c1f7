"""More arithmetic on elements: products added to something, sums of exponentials, signs, whole numbers, bits."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS, NUMBERS
from fastgrad.native.contracts.ops import NOT_DIFFERENTIABLE, OUT_BOOL, PROMOTE_FLOAT
from fastgrad.ops import complex_formulas
from fastgrad.ops import scalar_functions as scalar
from fastgrad.ops.elementwise import flat
from fastgrad.ops.registry import elementwise
from fastgrad.ops.vocabulary import c, m

INF = float("inf")
NAN = float("nan")
BY_LN_2 = 1.4426950408889634
INTEGERS = tuple(code for code in NUMBERS if code not in FLOATS)

_hypot = scalar.hypot


@elementwise("frac", dtypes=FLOATS, public=True)
def frac(x):
    """What stands behind the point, with the sign of the input."""
    return x - m.trunc(x)


frac.identity("x")


@elementwise(
    "lerp",
    dtypes=FLOATS,
    node="LerpBackward1",
    saved_as="self end weight",
    over_complex=complex_formulas.lerp,
)
def lerp(x, end, weight):
    half = m.abs(weight) < c(0.5)
    return m.where(half, x + weight * (end - x), end - (end - x) * (c(1) - weight))


@lerp.elementwise_vjp("x")
def _(g, weight):
    return g * (c(1) - weight)


@lerp.elementwise_vjp("end")
def _(g, weight):
    return g * weight


@lerp.elementwise_vjp("weight")
def _(g, x, end):
    return g * (end - x)


lerp.also_saves("weight", "x", "end", "weight")
lerp.variant("number", "LerpBackward0", edges=2)


@elementwise("addcmul", dtypes=NUMBERS, edges=3, saved_as="self tensor1 tensor2 value", over_complex=True)
def addcmul(x, tensor1, tensor2, value):
    return x + value * tensor1 * tensor2


addcmul.identity("x")


@addcmul.elementwise_vjp("tensor1")
def _(g, tensor2, value):
    factor = tensor2 * value
    return g * factor


@addcmul.elementwise_vjp("tensor2")
def _(g, tensor1, value):
    factor = tensor1 * value
    return g * factor


@elementwise("addcdiv", dtypes=FLOATS, edges=3, saved_as="self tensor1 tensor2 value", over_complex=True)
def addcdiv(x, tensor1, tensor2, value):
    return x + value * (tensor1 / tensor2)


addcdiv.identity("x")
addcdiv.also_saves("x", "tensor2")


@addcdiv.elementwise_vjp("tensor1")
def _(g, tensor2, value):
    factor = value / tensor2
    return g * factor


@addcdiv.elementwise_vjp("tensor2")
def _(g, tensor1, tensor2, value):
    factor = (value * tensor1) / (tensor2 * tensor2)
    return -g * factor


@elementwise("hypot", dtypes=FLOATS, public=True)
def hypot(a, b):
    """``sqrt(input ** 2 + other ** 2)``, without overflow."""
    return _hypot(a, b)


@hypot.elementwise_vjp("a")
def _(g, a, y):
    return g * a / y


@hypot.elementwise_vjp("b")
def _(g, b, y):
    return g * b / y


@elementwise("copysign", rule=PROMOTE_FLOAT, public=True)
def copysign(a, b):
    """`input` with the sign of `other`, that of a zero as well."""
    return m.copysign(a, b)


@copysign.elementwise_vjp("a")
def _(g, a, y):
    return g * m.masked_fill(y / a, c(0), a == c(0))


flat(copysign, "b")
copysign.also_saves("b", "y")
copysign.with_numbers(right=copysign.variant("number", "CopysignBackward1", edges=1))


@elementwise("logaddexp", rule=PROMOTE_FLOAT, public=True, over_complex=complex_formulas.logaddexp)
def logaddexp(a, b):
    """``log(exp(input) + exp(other))``, without overflow."""
    high = m.maximum(a, b)
    return m.where((a == b) & (m.abs(a) == c(INF)), a, high + m.log1p(m.exp(-m.abs(a - b))))


@logaddexp.elementwise_vjp("a")
def _(g, a, b):
    return g / (c(1) + m.exp(b - a))


@logaddexp.elementwise_vjp("b")
def _(g, a, b):
    return g / (c(1) + m.exp(a - b))


@elementwise("logaddexp2", rule=PROMOTE_FLOAT, node="Logaddexp2Backward0", public=True)
def logaddexp2(a, b):
    """``log2(2 ** input + 2 ** other)``, without overflow."""
    high = m.maximum(a, b)
    more = m.log1p(m.exp2(-m.abs(a - b))) * c(BY_LN_2)
    return m.where((a == b) & (m.abs(a) == c(INF)), a, high + more)


@logaddexp2.elementwise_vjp("a")
def _(g, a, b):
    return g / (c(1) + m.exp2(b - a))


@logaddexp2.elementwise_vjp("b")
def _(g, a, b):
    return g / (c(1) + m.exp2(a - b))


# The numbers behind are eps and 1 - eps; without them these are -1 and 2, beyond which the result is NaN.


@elementwise("logit", rule=PROMOTE_FLOAT, edges=1)
def logit(x, low, high):
    bounded = m.where(x < low, low, m.where(x > high, high, x))
    return m.log(bounded / (c(1) - bounded))


@logit.elementwise_vjp("x", node="LogitBackwardBackward0")
def logit_backward(g, x, low, high):
    outside = m.where(low < c(0), c(NAN), c(0))
    inside = m.where(low < c(0), (x >= c(0)) & (x <= c(1)), (x >= low) & (x <= high))
    return m.where(inside, g / (x * (c(1) - x)), outside)


@logit_backward.elementwise_vjp("x")
def _(g, v, x, low, high):
    outside = m.where(low < c(0), c(NAN), c(0))
    inside = m.where(low < c(0), (x >= c(0)) & (x <= c(1)), (x >= low) & (x <= high))
    slope = x * (c(1) - x)
    return m.where(inside, g * v * (c(2) * x - c(1)) / (slope * slope), outside)


@elementwise("nan_to_num", dtypes=FLOATS, edges=1)
def nan_to_num(x, nan, posinf, neginf):
    value = m.where(x == c(INF), posinf, m.where(x == c(-INF), neginf, x))
    return m.where(x != x, nan, value)


@nan_to_num.elementwise_vjp("x")
def _(g, x):
    return g * m.where(m.isfinite(x), c(1), c(0))


@elementwise("fmax", public=True)
def fmax(a, b):
    """The larger of two elements; NaN only if both are."""
    return m.where(b != b, a, m.where(a != a, b, m.maximum(a, b)))


@fmax.elementwise_vjp("a")
def _(g, a, b):
    return m.where((a >= b) | (b != b), g, c(0))


@fmax.elementwise_vjp("b")
def _(g, a, b):
    return m.where((a >= b) | (b != b), c(0), g)


@elementwise("fmin", public=True)
def fmin(a, b):
    """The smaller of two elements; NaN only if both are."""
    return m.where(b != b, a, m.where(a != a, b, m.minimum(a, b)))


@fmin.elementwise_vjp("a")
def _(g, a, b):
    return m.where((a <= b) | (b != b), g, c(0))


@fmin.elementwise_vjp("b")
def _(g, a, b):
    return m.where((a <= b) | (b != b), c(0), g)


@elementwise("heaviside", flags=NOT_DIFFERENTIABLE)
def heaviside(x, values):
    return m.where(x == c(0), values, m.where(x > c(0), c(1), c(0)))


@elementwise("signbit", dtypes=FLOATS, flags=NOT_DIFFERENTIABLE | OUT_BOOL)
def signbit(x):
    return m.copysign(c(1), x) < c(0)


@elementwise("isposinf", dtypes=FLOATS, flags=NOT_DIFFERENTIABLE | OUT_BOOL)
def isposinf(x):
    return x == c(INF)


@elementwise("isneginf", dtypes=FLOATS, flags=NOT_DIFFERENTIABLE | OUT_BOOL)
def isneginf(x):
    return x == c(-INF)


# --- integers --------------------------------------------------------------------------------------------------


def _common_divisor(a, b):
    while b != c(0):
        a, b = b, m.fmod(a, b)
    return m.abs(a)


@elementwise("gcd", dtypes=INTEGERS, flags=NOT_DIFFERENTIABLE, public=True)
def gcd(a, b):
    """The greatest common divisor of two integers, which is not negative."""
    return _common_divisor(a, b)


@elementwise("lcm", dtypes=INTEGERS, flags=NOT_DIFFERENTIABLE, public=True)
def lcm(a, b):
    """The least common multiple of two integers, which is not negative."""
    divisor = _common_divisor(a, b)
    return m.abs(c(m.trunc_div(a, divisor) * b))


# A power of two that the dtype does not hold is zero or negative: all bits, or all but the sign, are moved out.


@elementwise("bitwise_left_shift", dtypes=INTEGERS, flags=NOT_DIFFERENTIABLE, public=True)
def bitwise_left_shift(a, b):
    """The bits of `input` moved up by `other` places."""
    return m.where(b < c(0), c(0), c(a * m.pow(c(2), b)))


@elementwise("bitwise_right_shift", dtypes=INTEGERS, flags=NOT_DIFFERENTIABLE, public=True)
def bitwise_right_shift(a, b):
    """The bits of `input` moved down by `other` places; the sign stays."""
    unit = m.pow(c(2), b)
    sign = m.where(a < c(0), c(a * c(0) - c(1)), c(0))
    return m.where((b < c(0)) | (unit <= c(0)), sign, m.floor_div(a, unit))
