"""Error, gamma and Bessel functions, and those of the normal distribution: PyTorch's `special`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.native.contracts.element_types import WIDE
from fastgrad.native.contracts.ops import NOT_DIFFERENTIABLE, PROMOTE_FLOAT
from fastgrad.ops import bessel_functions as bessel
from fastgrad.ops import scalar_functions as scalar
from fastgrad.ops.call import invoke
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.vocabulary import c, m

INF = float("inf")
TWO_OVER_SQRT_PI = 1.1283791670955126
HALF_SQRT_PI = 0.886226925452758
SQRT_2PI = 2.5066282746310002
SQRT_2 = 1.4142135623730951
SQRT_2_OVER_PI = 0.7978845608028654
TINY = 1e-7  # below, the derivative of a Bessel function of order 1 is a half

_erfc, _erfcx, _erf_inverse, _ndtri, _log_ndtr = (
    scalar.erfc, scalar.erfcx, scalar.erf_inverse, scalar.ndtri, scalar.log_ndtr,
)  # fmt: skip
_lgamma, _digamma, _polygamma, _zeta = scalar.lgamma, scalar.digamma, scalar.polygamma, scalar.zeta
_bessel_0, _bessel_1, _bessel_j, _bessel_y, _bessel_k = (
    bessel.bessel_0, bessel.bessel_1, bessel.bessel_j, bessel.bessel_y, bessel.bessel_k,
)  # fmt: skip
_spherical_bessel_j0, _airy_ai = bessel.spherical_bessel_j0, bessel.airy_ai


@elementwise("erfc", rule=PROMOTE_FLOAT, public=True)
def erfc(x):
    """``1 - erf(input)``, exact where that is small."""
    return _erfc(x)


@erfc.elementwise_vjp("x")
def _(g, x):
    return c(-TWO_OVER_SQRT_PI) * m.exp(-m.whole_power(x, 2)) * g


@elementwise(
    "erfinv", rule=PROMOTE_FLOAT, public=True, usual=(scalar.erf_inverse_is_near, scalar.erf_inverse_near)
)
def erfinv(x):
    """The number whose error function is the input; NaN beyond 1."""
    return _erf_inverse(x)


@erfinv.vjp("x")
def _(g, x):
    return HALF_SQRT_PI * m.exp(m.whole_power(invoke(erfinv, (x,)), 2)) * g


@elementwise("special_erfcx", rule=PROMOTE_FLOAT)
def erfcx(x):
    """``exp(input ** 2) * erfc(input)``."""
    return _erfcx(x)


@erfcx.elementwise_vjp("x")
def _(g, x, y):
    return (c(2) * x * y - c(TWO_OVER_SQRT_PI)) * g


@elementwise("special_ndtri", rule=PROMOTE_FLOAT, usual=(scalar.ndtri_is_near, scalar.ndtri_near))
def ndtri(x):
    """The number below which the normal distribution has the probability `input`."""
    return _ndtri(x)


@ndtri.elementwise_vjp("x")
def _(g, y):
    return g * c(SQRT_2PI) * m.exp(m.whole_power(y, 2) / c(2))


@elementwise("special_log_ndtr", rule=PROMOTE_FLOAT)
def log_ndtr(x):
    """The logarithm of the probability that the normal distribution has below the input."""
    return _log_ndtr(x)


@log_ndtr.vjp("x")
def _(g, x):
    return g / invoke(erfcx, (x / -SQRT_2,)) * SQRT_2_OVER_PI


log_ndtr.also_saves("x", "x", "y")


@elementwise("special_entr", rule=PROMOTE_FLOAT)
def entr(x):
    """``-input * log(input)``, 0 at zero and minus infinity for negative numbers."""
    value = m.where(x == c(0), c(0), -x * m.log(x))
    return m.where(x < c(0), c(-INF), value)


@entr.elementwise_vjp("x")
def _(g, x):
    return g * (-(c(1) + m.log(x)))


@elementwise("special_xlog1py", rule=PROMOTE_FLOAT, node="SpecialXlog1PyBackward0")
def xlog1py(a, b):
    """``input * log1p(other)``, and 0 where `input` is 0."""
    return m.where((a == c(0)) & (b == b), c(0), a * m.log1p(b))


@xlog1py.vjp("a")
def _(g, a, b):
    return m.masked_fill(invoke(xlog1py, (g, b)), 0.0, m.logical_and(m.eq(a, 0.0), m.le(b, -1.0)))


@xlog1py.elementwise_vjp("b")
def _(g, a, b):
    return g * a / (b + c(1))


# --- gamma and relatives ---------------------------------------------------------------------------------------


@elementwise("polygamma", rule=PROMOTE_FLOAT, edges=1)
def polygamma(x, order):
    return _polygamma(x, order)


@polygamma.vjp("x")
def _(g, x, order):
    return g * invoke(polygamma, (x, order + 1.0))


@elementwise("digamma", rule=PROMOTE_FLOAT, public=True)
def digamma(x):
    """The derivative of the logarithm of the gamma function; NaN at negative whole numbers."""
    return _digamma(x)


@digamma.vjp("x")
def _(g, x):
    return g * invoke(polygamma, (x, 1.0))


@elementwise("lgamma", rule=PROMOTE_FLOAT, public=True)
def lgamma(x):
    """The logarithm of the absolute value of the gamma function."""
    return _lgamma(x)


@lgamma.vjp("x")
def _(g, x):
    return g * invoke(digamma, (x,))


@elementwise("special_zeta", rule=PROMOTE_FLOAT)
def zeta(a, b):
    """The zeta function of Hurwitz, the sum of ``(other + k) ** -input`` over ``k = 0, 1, ...``."""
    return _zeta(a, b)


@zeta.vjp("b")
def _(g, a, b):
    value = invoke(zeta, (a + 1.0, b))  # before what stands on its left, as in PyTorch
    return g * -a * value


# --- modified Bessel functions ---------------------------------------------------------------------------------


@elementwise("i0", rule=PROMOTE_FLOAT, public=True)
def i0(x):
    """The modified Bessel function of the first kind of order 0."""
    return _bessel_0(x, False)


@elementwise("special_i0e", rule=PROMOTE_FLOAT, node="SpecialI0EBackward0")
def i0e(x):
    """``exp(-|input|) * i0(input)``."""
    return _bessel_0(x, True)


@elementwise("special_i1", rule=PROMOTE_FLOAT)
def i1(x):
    """The modified Bessel function of the first kind of order 1."""
    return _bessel_1(x, False)


@elementwise("special_i1e", rule=PROMOTE_FLOAT, node="SpecialI1EBackward0")
def i1e(x):
    """``exp(-|input|) * i1(input)``."""
    return _bessel_1(x, True)


@i0.vjp("x")
def _(g, x):
    return g * invoke(i1, (x,))


@i0e.vjp("x")
def _(g, x, y):
    product = m.sign(x) * y
    return g * (invoke(i1e, (x,)) - product)


@i1.vjp("x")
def _(g, x, y):
    tiny = m.le(m.abs(x), TINY)
    safe = m.where(tiny, 1.0, x)
    return g * m.where(tiny, 0.5, invoke(i0, (x,)) - y / safe)


@i1e.vjp("x")
def _(g, x, y):
    tiny = m.le(m.abs(x), TINY)
    safe = m.where(tiny, 1.0, x)
    return g * m.where(tiny, 0.5, invoke(i0e, (x,)) - y * (m.sign(safe) + m.reciprocal(safe)))


# --- functions without derivatives, in PyTorch as well ---------------------------------------------------------


def _plain(name: str) -> Callable[[Callable[..., Any]], Op]:
    return elementwise(f"special_{name}", rule=PROMOTE_FLOAT, dtypes=WIDE, flags=NOT_DIFFERENTIABLE)


@_plain("bessel_j0")
def bessel_j0(x):
    """The Bessel function of the first kind of order 0."""
    return _bessel_j(x, 0)


@_plain("bessel_j1")
def bessel_j1(x):
    """The Bessel function of the first kind of order 1."""
    return _bessel_j(x, 1)


@_plain("bessel_y0")
def bessel_y0(x):
    """The Bessel function of the second kind of order 0; NaN for negative numbers."""
    return _bessel_y(x, 0)


@_plain("bessel_y1")
def bessel_y1(x):
    """The Bessel function of the second kind of order 1; NaN for negative numbers."""
    return _bessel_y(x, 1)


@_plain("modified_bessel_k0")
def modified_bessel_k0(x):
    """The modified Bessel function of the second kind of order 0; NaN for negative numbers."""
    return _bessel_k(x, 0, False)


@_plain("modified_bessel_k1")
def modified_bessel_k1(x):
    """The modified Bessel function of the second kind of order 1; NaN for negative numbers."""
    return _bessel_k(x, 1, False)


@_plain("scaled_modified_bessel_k0")
def scaled_modified_bessel_k0(x):
    """``exp(input) * modified_bessel_k0(input)``."""
    return _bessel_k(x, 0, True)


@_plain("scaled_modified_bessel_k1")
def scaled_modified_bessel_k1(x):
    """``exp(input) * modified_bessel_k1(input)``."""
    return _bessel_k(x, 1, True)


@_plain("spherical_bessel_j0")
def spherical_bessel_j0(x):
    """The spherical Bessel function of the first kind of order 0, ``sin(input) / input``."""
    return _spherical_bessel_j0(x)


@_plain("airy_ai")
def airy_ai(x):
    """Airy's function Ai; NaN at both infinities, as in PyTorch."""
    return _airy_ai(x)
