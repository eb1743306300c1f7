"""Elementwise ops: each is its formula and its derivatives."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import DTYPES, NUMBERS, SUPPORTED_DTYPES
from fastgrad.native.contracts.frames import FLAT, STRIDED
from fastgrad.native.contracts.ops import (
    ELEMENTWISE,
    FILLS,
    FIRST,
    GRADIENT_LAST,
    IN_ROWS,
    NO_BOOL,
    PROMOTE_FLOAT,
)
from fastgrad.ops import relations  # noqa: F401 - rules name its ops
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.shape import zeros_of
from fastgrad.ops.vocabulary import c, m

INVERT = "use the `~` operator or logical_not() to invert a mask"
SMALL_POWERS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)  # see Note [Small powers] in `kernels.powers`
EXCLUSIVE = "use the `^` operator or logical_xor() for the difference of two masks"

# --- arithmetic ------------------------------------------------------------------------------------------------


@elementwise("add", over_complex=True)
def add(a, b):
    return a + b


add.identity("a")
add.identity("b")


@elementwise("add_scaled", node="AddBackward0", edges=2, called="add", over_complex=True)
def add_scaled(a, b, alpha):
    return a + alpha * b


add_scaled.identity("a")


@add_scaled.partial("b")
def _(alpha):
    return alpha


@elementwise("sub", flags=NO_BOOL, dtypes=NUMBERS, hint=EXCLUSIVE, over_complex=True)
def sub(a, b):
    return a - b


sub.identity("a")


@sub.elementwise_vjp("b")
def _(g):
    return -g


@elementwise(
    "sub_scaled",
    flags=NO_BOOL,
    dtypes=NUMBERS,
    hint=EXCLUSIVE,
    node="SubBackward0",
    edges=2,
    called="sub",
    over_complex=True,
)
def sub_scaled(a, b, alpha):
    return a - alpha * b


sub_scaled.identity("a")


@sub_scaled.partial("b")
def _(alpha):
    return -alpha


@elementwise(
    "rsub",
    flags=NO_BOOL,
    dtypes=NUMBERS,
    hint=EXCLUSIVE,
    node="RsubBackward1",
    edges=1,
    called="sub",
    over_complex=True,
)
def rsub(x, number):
    return number - x


@rsub.elementwise_vjp("x")
def _(g):
    return -g


@elementwise("mul", public=("multiply",), over_complex=True)
def mul(a, b):
    """``input * other``."""
    return a * b


@mul.partial("a")
def _(b):
    return b


@mul.partial("b")
def _(a):
    return a


@elementwise("div", rule=PROMOTE_FLOAT, over_complex=True)
def div(a, b):
    return a / b


@div.elementwise_vjp("a")
def _(g, b):
    return g / b


@div.elementwise_vjp("b")
def _(g, a, b):
    slope = (a / b) / b  # before what stands on its left, as in PyTorch
    return -g * slope


@elementwise("reciprocal", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def reciprocal(x):
    """``1 / input``."""
    return c(1) / x


@reciprocal.elementwise_vjp("x")
def _(g, y):
    square = y * y  # here and below: before what stands on its left, as in PyTorch
    return -g * square


add.with_numbers(left=add)
sub.with_numbers(left=rsub)
mul.with_numbers(left=mul)
div.with_numbers(left=mul, prepared=reciprocal)


@elementwise("floor_divide", dtypes=NUMBERS)
def floor_divide(a, b):
    return m.floor_div(a, b)  # as in PyTorch, it has no derivative and says so when one is asked for


floor_divide.with_numbers(right=floor_divide.variant("number", floor_divide.node, edges=1))


@elementwise("div_floor", dtypes=NUMBERS, node="DivBackward2", called="div")
def div_floor(a, b):
    return m.floor_div(a, b)


@elementwise("div_trunc", dtypes=NUMBERS, node="DivBackward2", called="div")
def div_trunc(a, b):
    return m.trunc_div(a, b)


def flat(op, *names):
    """Declare the derivatives of an op that is constant between its steps: zeros, which have no history."""
    for name in names:
        op.vjp(name)(lambda g, sizes: invoke(zeros_of, (g,), sizes))


for _op in (div_floor, div_trunc):
    flat(_op, "a", "b")
    _op.also_saves("a", "b")
    _op.also_saves("b", "a", "b")


@elementwise("remainder", dtypes=NUMBERS, node="RemainderBackward1")
def remainder(a, b):
    return m.remainder(a, b)


remainder.identity("a")


@remainder.elementwise_vjp("b")
def _(g, a, b):
    quotient = m.floor_div(a, b)
    return -g * quotient


remainder.with_numbers(right=remainder.variant("number", "RemainderBackward0", edges=1))


@elementwise("fmod", dtypes=NUMBERS, node="FmodBackward1")
def fmod(a, b):
    return m.fmod(a, b)


fmod.identity("a")


@fmod.elementwise_vjp("b")
def _(g, a, b):
    quotient = m.trunc_div(a, b)
    return -g * quotient


fmod.with_numbers(right=fmod.variant("number", "FmodBackward0", edges=1))


@elementwise("neg", dtypes=NUMBERS, hint=INVERT, public=("negative",), over_complex=True)
def neg(x):
    """The negative, ``-input``."""
    return -x


@neg.elementwise_vjp("x")
def _(g):
    return -g


@elementwise("abs", dtypes=NUMBERS, public=("absolute",))
def absolute(x):
    """The absolute value; at zero its gradient is zero."""
    return m.abs(x)


@absolute.partial("x")
def _(x):
    return m.sign(x)


@elementwise("sign", dtypes=NUMBERS, public=True, inplace=False)
def sign(x):
    return m.sign(x)


flat(sign, "x")
sign.variant("sgn", "SgnBackward0").also_saves("x", "x", "y")


@elementwise(
    "pow",
    dtypes=NUMBERS,
    node="PowBackward1",
    saved_as="self exponent",
    over_complex=True,
    numbers=SMALL_POWERS,
)
def power(a, b):
    return m.pow(a, b)


@power.elementwise_vjp("a", numbers=(*SMALL_POWERS, 1.5, 4.0))  # those that are one more than others
def _(g, a, b):
    return m.where(b == c(0), c(0), g * (b * m.pow(a, b - c(1))))


@power.elementwise_vjp("b")
def _(g, a, b, y):
    return g * m.where((a == c(0)) & m.is_at_least_zero(b), c(0), y * m.log(m.of_dtype(a, y)))


power.with_numbers(right=power.variant("number", "PowBackward0", edges=1))
power.also_saves("a", "y")


@elementwise("rpow", dtypes=NUMBERS, node="PowBackward2", edges=1, called="pow", over_complex=True)
def rpow(x, number):
    return m.pow(number, x)


@rpow.elementwise_vjp("x")
def _(g, x, number, y):
    return g * m.where(
        m.logical_and(number == c(0), m.is_at_least_zero(x)), c(0), y * m.log(m.of_dtype(number, y))
    )


@elementwise("square", node="PowBackward0", public=True, over_complex=True)
def square(x):
    return x * x


@square.partial("x")
def _(x):
    return c(2) * m.whole_power(x, 1)  # x, but recorded it is a power as any other


# --- exponentials and powers -----------------------------------------------------------------------------------


@elementwise("exp", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def exp(x):
    """The exponential."""
    return m.exp(x)


@exp.partial("x")
def _(y):
    return y


@elementwise("log", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def log(x):
    """The natural logarithm; NaN for negative numbers."""
    return m.log(x)


@log.elementwise_vjp("x")
def _(g, x):
    return g / x


@elementwise("sqrt", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def sqrt(x):
    """The square root; NaN for negative numbers."""
    return m.sqrt(x)


@sqrt.elementwise_vjp("x")
def _(g, y):
    return g / (c(2) * y)


@elementwise("tanh", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def tanh(x):
    """The hyperbolic tangent."""
    return m.tanh(x)


@tanh.partial("x", node="TanhBackwardBackward0")
def tanh_backward(y):
    return c(1) - y * y


@tanh_backward.elementwise_vjp("y")
def _(g, v, y):
    return c(-2) * g * v * y


@elementwise("sigmoid", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def sigmoid(x):
    """The logistic function, ``1 / (1 + exp(-input))``."""
    return m.sigmoid(x)


@sigmoid.partial("x", node="SigmoidBackwardBackward0")
def sigmoid_backward(y):
    return (c(1) - y) * y


@sigmoid_backward.elementwise_vjp("y")
def _(g, v, y):
    return g * v * (c(1) - c(2) * y)


@elementwise("sin", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def sin(x):
    """The sine of angles in radians."""
    return m.sin(x)


@sin.partial("x")
def _(x):
    return m.cos(x)


@elementwise("cos", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def cos(x):
    """The cosine of angles in radians."""
    return m.cos(x)


@cos.partial("x")
def _(x):
    return -m.sin(x)


# --- selecting -------------------------------------------------------------------------------------------------


@elementwise("relu", dtypes=NUMBERS, public=True)
def relu(x):
    """``max(input, 0)``; at zero its gradient is zero."""
    return m.where(x < c(0), c(0), x)


# An op of its own: its result has a history by way of y too, though the derivative by y is zero.


@elementwise("threshold_backward", rule=FIRST, flags=GRADIENT_LAST)
def threshold_backward(v, s):
    return m.where(s <= c(0), c(0), v)


@threshold_backward.vjp("v")
def _(g, s):
    return invoke(threshold_backward, (g, s))


flat(threshold_backward, "s")


@relu.vjp("x")
def _(g, y):
    return invoke(threshold_backward, (g, y))


@elementwise("maximum")
def maximum(a, b):
    return m.maximum(a, b)


# Where an operand is NaN, the gradient goes to both.


@maximum.elementwise_vjp("a", flags=GRADIENT_LAST)
def _(g, a, b):
    return m.where(a < b, c(0), m.where(a == b, g / c(2), g))


@maximum.elementwise_vjp("b", flags=GRADIENT_LAST)
def _(g, a, b):
    return m.where(a > b, c(0), m.where(a == b, g / c(2), g))


@elementwise("minimum")
def minimum(a, b):
    return m.minimum(a, b)


@minimum.elementwise_vjp("a", flags=GRADIENT_LAST)
def _(g, a, b):
    return m.where(a > b, c(0), m.where(a == b, g / c(2), g))


@minimum.elementwise_vjp("b", flags=GRADIENT_LAST)
def _(g, a, b):
    return m.where(a < b, c(0), m.where(a == b, g / c(2), g))


@elementwise("clamp_min", node="ClampBackward0", called="clamp", saved_as="self min")
def clamp_min(x, low):
    return m.maximum(x, low)


@clamp_min.elementwise_vjp("x", flags=GRADIENT_LAST)
def _(g, x, low):
    return m.where(x >= low, g, c(0))


@clamp_min.elementwise_vjp("low", flags=GRADIENT_LAST)
def _(g, x, low):
    return m.where(x < low, g, c(0))


# Bounded from below by a number, but to derivatives a copy.
Op(
    "clone.floor",
    ELEMENTWISE,
    ("x", "low"),
    kernel=clamp_min.kernel,
    node="CloneBackward0",
    edges=1,
    called="clone",
).identity("x")


@elementwise("clamp_max", node="ClampBackward0", called="clamp", saved_as="self max")
def clamp_max(x, high):
    return m.minimum(x, high)


@clamp_max.elementwise_vjp("x", flags=GRADIENT_LAST)
def _(g, x, high):
    return m.where(x <= high, g, c(0))


@clamp_max.elementwise_vjp("high", flags=GRADIENT_LAST)
def _(g, x, high):
    return m.where(x > high, g, c(0))


@elementwise("clamp", saved_as="self min max", derivatives="min max self")
def clamp(x, low, high):
    return m.minimum(m.maximum(x, low), high)


@clamp.elementwise_vjp("x", flags=GRADIENT_LAST)
def _(g, x, low, high):
    return m.where((x >= low) & (x <= high), g, c(0))


@clamp.elementwise_vjp("low", flags=GRADIENT_LAST)
def _(g, x, low, high):
    return m.where((x < low) & (low < high), g, c(0))


@clamp.elementwise_vjp("high", flags=GRADIENT_LAST)
def _(g, x, low, high):
    return m.where((x > high) | (low > high), g, c(0))


for _op in (clamp_min, clamp_max, clamp):
    _op.variant("number", "ClampBackward1", edges=1)


@elementwise("where", over_complex=True)
def where(a, b, condition):
    return m.where(condition, a, b)


@where.elementwise_vjp("a", flags=GRADIENT_LAST)
def _(g, condition):
    return m.where(condition, g, c(0))


@where.elementwise_vjp("b", flags=GRADIENT_LAST)
def _(g, condition):
    return m.where(condition, c(0), g)


@elementwise("masked_fill", node="MaskedFillBackward1", saved_as="self value mask", over_complex=True)
def masked_fill(x, value, condition):
    return m.where(condition, value, x)


@masked_fill.elementwise_vjp("x", flags=IN_ROWS)
def _(g, condition):
    return m.masked_fill(g, c(0), condition)


@masked_fill.elementwise_vjp("value")
def _(g, condition):
    return m.where(condition, g, c(0))


masked_fill.with_numbers(right=masked_fill.variant("number", "MaskedFillBackward0", edges=1))
# What programs call copies row by row first.
masked_fill.variant("copy", "MaskedFillBackward1", flags=IN_ROWS)
masked_fill.variant("copy_number", "MaskedFillBackward0", edges=1, flags=IN_ROWS)


# --- copies ----------------------------------------------------------------------------------------------------


def _same(x):
    return x


def _copies(code):
    dtypes = SUPPORTED_DTYPES if code in SUPPORTED_DTYPES else ()
    return Kernel(
        f"copy_from_{code}", "copies:build", _same, dtypes=dtypes, forms=(FLAT, STRIDED), inputs=("x",),
        elements={"x": code},
    )  # fmt: skip


COPY_KERNELS = [_copies(code) for code in range(len(DTYPES))]
"""The cast from dtype ``code`` to the dtype of the column; row `code` behind the first."""


# --- writes ----------------------------------------------------------------------------------------------------
# In place, the first input is what is written over: its old value counts for nothing.


@elementwise("assign", node="torch::autograd::CopyBackwards", called="copy", over_complex=True)
def assign(x, source):
    return source


@assign.vjp("x")
def _(g, sizes):
    return invoke(zeros_of, (g,), sizes)


assign.identity("source")
assign.variant("zero", "ZeroBackward0", edges=1, flags=FILLS)
assign.variant("number", "FillBackward2", edges=1, flags=FILLS)
assign.variant("fill", "FillBackward3", flags=FILLS)
for _node in (  # what fills a tensor with random numbers
    "UniformBackward0", "NormalBackward0", "RandomBackward0", "RandomBackward1", "RandomBackward2",
    "BernoulliBackward1", "BernoulliBackward2", "ExponentialBackward0", "GeometricBackward0", "LogNormalBackward0",
    "CauchyBackward0",
):  # fmt: skip
    assign.variant(_node, _node, edges=1)
