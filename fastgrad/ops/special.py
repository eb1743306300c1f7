"""More functions of one number: exponentials, logarithms, rounding; and ``x log y``."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.ops import NOT_DIFFERENTIABLE, OUT_BOOL, PROMOTE_FLOAT
from fastgrad.ops import complex_formulas
from fastgrad.ops.elementwise import flat
from fastgrad.ops.registry import elementwise
from fastgrad.ops.vocabulary import c, m

LN_2 = 0.6931471805599453
LN_10 = 2.302585092994046
TWO_OVER_SQRT_PI = 1.1283791670955126


@elementwise("erf", rule=PROMOTE_FLOAT, public=True)
def erf(x):
    """The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t ** 2)`` from 0 to the input."""
    return m.erf(x)


@erf.elementwise_vjp("x")
def _(g, x):
    return c(TWO_OVER_SQRT_PI) * m.exp(-m.whole_power(x, 2)) * g


@elementwise("expm1", rule=PROMOTE_FLOAT, public=True, over_complex=complex_formulas.expm1)
def expm1(x):
    """``exp(input) - 1``, exact near zero."""
    return m.expm1(x)


@expm1.partial("x")
def _(y):
    return y + c(1)


@elementwise("exp2", rule=PROMOTE_FLOAT, public=True, over_complex=complex_formulas.exp2)
def exp2(x):
    """``2 ** input``."""
    return m.exp2(x)


@exp2.elementwise_vjp("x")
def _(g, y):
    return g * y * c(LN_2)


@elementwise(
    "log1p", rule=PROMOTE_FLOAT, node="Log1PBackward0", public=True, over_complex=complex_formulas.log1p
)
def log1p(x):
    """``log(1 + input)``, exact near zero."""
    return m.log1p(x)


@log1p.elementwise_vjp("x")
def _(g, x):
    return g / (x + c(1))


@elementwise("log2", rule=PROMOTE_FLOAT, public=True, over_complex=complex_formulas.log2)
def log2(x):
    """The logarithm to base 2."""
    return m.log2(x)


@log2.elementwise_vjp("x")
def _(g, x):
    return g / (x * c(LN_2))


@elementwise("log10", rule=PROMOTE_FLOAT, public=True, over_complex=complex_formulas.log10)
def log10(x):
    """The logarithm to base 10."""
    return m.log10(x)


@log10.elementwise_vjp("x")
def _(g, x):
    return g / (x * c(LN_10))


@elementwise("rsqrt", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def rsqrt(x):
    """``1 / sqrt(input)``."""
    return m.rsqrt(x)


@rsqrt.elementwise_vjp("x")
def _(g, y):
    power = m.whole_power(y, 3)  # before what stands on its left, as in PyTorch
    return c(-0.5) * g * power


@elementwise("xlogy", rule=PROMOTE_FLOAT, public=True)
def xlogy(a, b):
    """``input * log(other)``, and 0 where `input` is 0."""
    return m.xlogy(a, b)


@xlogy.elementwise_vjp("a")
def _(g, a, b):
    return m.masked_fill(m.xlogy(g, b), c(0), (a == c(0)) & (b <= c(0)))


@xlogy.elementwise_vjp("b")
def _(g, a, b):
    return g * a / b


@elementwise("floor", dtypes=FLOATS, public=True, inplace=False)
def floor(x):
    return m.floor(x)


@elementwise("ceil", dtypes=FLOATS, public=True, inplace=False)
def ceil(x):
    return m.ceil(x)


@elementwise("trunc", dtypes=FLOATS, public=("fix",), inplace=False)
def trunc(x):
    return m.trunc(x)


@elementwise("round", dtypes=FLOATS, public=True, inplace=False)
def round_(x):
    return m.round(x)


for _op in (floor, ceil, trunc, round_):
    flat(_op, "x")


@elementwise("isfinite", flags=NOT_DIFFERENTIABLE | OUT_BOOL, public=True, inplace=False, over_complex=True)
def isfinite(x):
    """Whether an element is neither infinite nor NaN."""
    return (x - x) == c(0)


@elementwise(
    "isinf",
    flags=NOT_DIFFERENTIABLE | OUT_BOOL,
    public=True,
    inplace=False,
    over_complex=complex_formulas.isinf,
)
def isinf(x):
    """Whether an element is infinite."""
    return ((x - x) != c(0)) & (x == x)
