"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from fastgrad.native.contracts.ops import PROMOTE_FLOAT
from fastgrad.ops import complex_formulas
from fastgrad.ops import scalar_functions as scalar
from fastgrad.ops.call import invoke
from fastgrad.ops.registry import elementwise
from fastgrad.ops.vocabulary import c, m

PI_BY_180 = 0.017453292519943295
PI = 3.141592653589793
BY_PI_180 = 57.29577951308232

# What a formula calls stands here by its own name: attributes of modules are not followed when it is compiled.
_asin, _acos, _atan, _atan2 = scalar.asin, scalar.acos, scalar.atan, scalar.atan2
_sinh, _cosh, _asinh, _acosh, _atanh = scalar.sinh, scalar.cosh, scalar.asinh, scalar.acosh, scalar.atanh


@elementwise("tan", rule=PROMOTE_FLOAT, public=True, over_complex=complex_formulas.tan)
def tan(x):
    """The tangent of angles in radians."""
    return m.sin(x) / m.cos(x)


@tan.elementwise_vjp("x")
def _(g, y):
    slope = c(1) + m.whole_power(y, 2)
    return g * slope


@elementwise("asin", rule=PROMOTE_FLOAT, public=("arcsin",), over_complex=complex_formulas.asin)
def asin(x):
    """The angle between -pi/2 and pi/2 whose sine is the input; NaN beyond 1."""
    return _asin(x)


@asin.elementwise_vjp("x")
def _(g, x):
    return g * m.rsqrt(-x * x + c(1))


@elementwise("acos", rule=PROMOTE_FLOAT, public=("arccos",), over_complex=complex_formulas.acos)
def acos(x):
    """The angle between 0 and pi whose cosine is the input; NaN beyond 1."""
    return _acos(x)


@acos.elementwise_vjp("x")
def _(g, x):
    return g * -m.rsqrt(-x * x + c(1))


@elementwise("atan", rule=PROMOTE_FLOAT, public=("arctan",), over_complex=complex_formulas.atan)
def atan(x):
    """The angle between -pi/2 and pi/2 whose tangent is the input."""
    return _atan(x)


@atan.elementwise_vjp("x")
def _(g, x):
    return g / (x * x + c(1))


@elementwise("atan2", rule=PROMOTE_FLOAT, public=("arctan2",))
def atan2(a, b):
    """The angle between -pi and pi of the point with the ordinate `input` and the abscissa `other`."""
    return _atan2(a, b)


@atan2.elementwise_vjp("a")
def _(g, a, b):
    square = a * a + b * b
    inverse = m.masked_fill(m.reciprocal(square), c(0), square == c(0))
    return g * b * inverse


@atan2.elementwise_vjp("b")
def _(g, a, b):
    square = a * a + b * b
    inverse = m.masked_fill(m.reciprocal(square), c(0), square == c(0))
    return g * -a * inverse


@elementwise("sinh", rule=PROMOTE_FLOAT, public=True, over_complex=complex_formulas.sinh)
def sinh(x):
    """The hyperbolic sine."""
    return _sinh(x)


@elementwise("cosh", rule=PROMOTE_FLOAT, public=True, over_complex=complex_formulas.cosh)
def cosh(x):
    """The hyperbolic cosine."""
    return _cosh(x)


@sinh.vjp("x")
def _(g, x):
    return g * invoke(cosh, (x,))


@cosh.vjp("x")
def _(g, x):
    return g * invoke(sinh, (x,))


@elementwise("asinh", rule=PROMOTE_FLOAT, public=("arcsinh",), over_complex=complex_formulas.asinh)
def asinh(x):
    """The number whose hyperbolic sine is the input."""
    return _asinh(x)


@asinh.elementwise_vjp("x")
def _(g, x):
    return g * m.rsqrt(m.whole_power(x, 2) + c(1))


@elementwise("acosh", rule=PROMOTE_FLOAT, public=("arccosh",), over_complex=complex_formulas.acosh)
def acosh(x):
    """The number, not negative, whose hyperbolic cosine is the input; NaN below 1."""
    return _acosh(x)


@acosh.elementwise_vjp("x", over_complex=complex_formulas.acosh_derivative)
def _(g, x):
    return g * m.rsqrt(x * x - c(1))


@elementwise("atanh", rule=PROMOTE_FLOAT, public=("arctanh",), over_complex=complex_formulas.atanh)
def atanh(x):
    """The number whose hyperbolic tangent is the input; NaN beyond 1."""
    return _atanh(x)


@atanh.elementwise_vjp("x")
def _(g, x):
    return g * c(1) / (c(1) - m.whole_power(x, 2))


@elementwise("deg2rad", rule=PROMOTE_FLOAT, node="Deg2RadBackward0", public=True)
def deg2rad(x):
    """Angles in degrees as radians."""
    return x * c(PI_BY_180)


@deg2rad.elementwise_vjp("x")
def _(g):
    return g * c(PI_BY_180)


@elementwise("rad2deg", rule=PROMOTE_FLOAT, node="Rad2DegBackward0", public=True)
def rad2deg(x):
    """Angles in radians as degrees."""
    return x * c(BY_PI_180)


@rad2deg.elementwise_vjp("x")
def _(g):
    return g * c(BY_PI_180)


@elementwise("sinc", rule=PROMOTE_FLOAT, public=True, over_complex=True)
def sinc(x):
    """``sin(pi input) / (pi input)``, and 1 at zero."""
    return m.where(x == c(0), c(1), m.sin(c(PI) * x) / (c(PI) * x))


@sinc.elementwise_vjp("x")
def _(g, x):
    angle = x * c(PI)
    square = x * x * c(PI)
    return m.where(square == c(0), c(0), g * ((angle * m.cos(angle) - m.sin(angle)) / square))
