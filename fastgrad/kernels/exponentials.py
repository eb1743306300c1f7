"""Exponentials of `vecmath`, and what is made of them: ``tanh`` and the logistic function."""

from __future__ import annotations

from fastgrad.kernels.scalar_ir import (
    absolute,
    constant_of,
    copysign,
    fma,
    formula,
    like,
    polynomial_in,
    two_to,
    two_to_halves,
    where,
)

# A constant and what its rounding leaves, of which the first is exact to half an ulp.
LN2_HI = constant_of(0.6931471824645996, 0.6931471805599453)
LN2_LO = constant_of(-1.9046542121259336e-09, 2.3190468138462996e-17)
LOG2E_HI = constant_of(1.4426950216293335, 1.4426950408889634)

MAGIC = constant_of(1.5 * 2.0**23, 1.5 * 2.0**52)
# Beyond these, results are those at the bound: infinity, zero or a number that no longer changes.
EXP_HIGH = constant_of(89.0, 710.0)
EXP_LOW = constant_of(-104.0, -746.0)
EXP2_HIGH = constant_of(128.0, 1024.0)
EXP2_LOW = constant_of(-151.0, -1076.0)
EXPM1_LOW = constant_of(-18.0, -38.0)
TANH_HIGH = constant_of(10.0, 20.0)
TANH_NEAR = 1.05  # in float32
EXP_LARGEST_POWER = constant_of(128.0, 1024.0)  # 2**this is out of range
# What is at most 0 has no power above 1: these ones are raised by 2**64, so that none is denormal, and lowered again.
RAISED_MAGIC = constant_of(1.5 * 2.0**23 + 64, 1.5 * 2.0**52 + 64)
LOWER = constant_of(2.0**-64, 2.0**-64)

# (exp(r) - 1 - r) / r**2 for |r| <= 1.0002 ln(2) / 2. Error relative to exp(r): f32 3.8e-9, f64 1.1e-17.
EXP_TAIL = polynomial_in(
    f32=(
        0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.008368724025785923,
        0.001381458481773734,
    ),
    f64=(
        0.5000000000000011, 0.16666666666666413, 0.04166666666653005, 0.008333333333494595,
        0.0013888888943662642, 0.00019841269506367095, 2.4801493061548714e-05, 2.755758649173563e-06,
        2.7630262855701655e-07, 2.500004736189217e-08,
    ),
)  # fmt: skip

# (tanh(x) / x - 1) / x**2 in x**2 for |x| <= 1.05. Error relative to tanh(x): 3.4e-9.
TANH_TAIL_32 = polynomial_in(
    f32=(
        -0.33333325386047363, 0.1333310455083847, -0.05394456535577774, 0.021748803555965424,
        -0.008514615707099438, 0.002979900222271681, -0.0007786572095938027, 0.00010550075967330486,
    ),
)  # fmt: skip


@formula
def reduce_exponent(x):
    """``(t, r, lost)`` with ``x = n ln(2) + r + lost`` and ``t = n + MAGIC``."""
    t = fma(x, LOG2E_HI(x), MAGIC(x))
    n = t - MAGIC(x)
    whole = fma(n, -LN2_HI(x), x)  # exact
    r = fma(n, -LN2_LO(x), whole)
    return t, r, fma(n, -LN2_LO(x), whole - r)


@formula
def scaled(p, t):
    """``2**n * (1 + p)``; overflow and denormal results are right."""
    first, second = two_to_halves(t)
    return fma(p, first, first) * second


@formula
def exp(x):
    x = where(x > EXP_HIGH(x), EXP_HIGH(x), x)
    x = where(x < EXP_LOW(x), EXP_LOW(x), x)
    t, r, _ = reduce_exponent(x)
    return scaled(fma(EXP_TAIL(r) * r, r, r), t)


@formula
def exp_raised(x, above):
    """``2**64 exp(x - above)`` for ``EXP_LOW <= x <= 0`` and a tiny `above`."""
    t = fma(x, LOG2E_HI(x), RAISED_MAGIC(x))
    n = t - RAISED_MAGIC(x)
    r = fma(n, -LN2_LO(x), fma(n, -LN2_HI(x), x)) - above
    scale = two_to(t)
    return fma(fma(EXP_TAIL(r) * r, r, r), scale, scale)


@formula
def exp_of_negative(x):
    """``exp(x)`` for ``x <= 0``, at a part of the cost."""
    return exp_raised(where(x < EXP_LOW(x), EXP_LOW(x), x), like(x, 0)) * LOWER(x)


@formula
def exp2(x):
    x = where(x > EXP2_HIGH(x), EXP2_HIGH(x), x)
    x = where(x < EXP2_LOW(x), EXP2_LOW(x), x)
    t = x + MAGIC(x)
    f = x - (t - MAGIC(x))
    r = f * LN2_HI(x)
    lost = fma(f, LN2_LO(x), fma(f, LN2_HI(x), -r))
    return scaled(fma(EXP_TAIL(r) * r, r, lost) + r, t)


@formula
def expm1_parts(t, r, lost):
    """``2**n * exp(r + lost) - 1`` as a sum of two, the second much smaller; see Note [Exact steps]."""
    scale = two_to(t)
    one = like(r, 1)
    above = scale - one
    high = fma(scale, r, above)
    above_lost = scale - (above + one)
    return high, fma(scale, fma(EXP_TAIL(r) * r, r, lost), fma(scale, r, above - high) + above_lost)


@formula
def expm1(x):
    y = where(x > EXP_HIGH(x), EXP_HIGH(x), x)
    y = where(y < EXPM1_LOW(x), EXPM1_LOW(x), y)
    t, r, lost = reduce_exponent(y)
    top = t - MAGIC(x) == EXP_LARGEST_POWER(x)
    one = like(x, 1)
    high, low = expm1_parts(t - where(top, one, like(x, 0)), r, lost)
    return where(x == like(x, 0), x, (high + low) * where(top, one + one, one))


@formula
def tanh_32(x):
    """``x + x**3 P(x**2)`` for small numbers, else ``1 - 2 z / (1 + z)`` with ``z = exp(-2 |x|) < 1/8``, so that
    little is left of what z loses in rounding. In float64 P is too long for that."""
    a = absolute(x)
    square = x * x
    near = fma(TANH_TAIL_32(square) * square, a, a)
    t, r, _ = reduce_exponent(where(a > TANH_HIGH(x), TANH_HIGH(x), a) * like(x, -2))
    scale = two_to(t)
    z = fma(fma(EXP_TAIL(r) * r, r, r), scale, scale)
    half = like(x, 0.5)
    far = like(x, 1) - z / fma(z, half, half)
    return copysign(where(a < like(x, TANH_NEAR), near, far), x)


@formula
def tanh_64(x):
    """``-e / (2 + e)`` with ``e = expm1(-2 |x|)``; numerator, denominator and quotient keep what rounding
    loses, see Note [Exact steps]."""
    two = like(x, 2)
    a = absolute(x)
    a = where(a > TANH_HIGH(x), TANH_HIGH(x), a)
    t, r, lost = reduce_exponent(-two * a)
    high, low = expm1_parts(t, r, lost)
    e = high + low
    e_lost = (high - e) + low
    d = two + e
    d_lost = ((two - d) + e) + e_lost
    inverse = like(x, 1) / d
    quotient = e * inverse
    rest = fma(-quotient, d, e) + fma(-quotient, d_lost, e_lost)
    return copysign(fma(rest, inverse, quotient), x)


@formula
def sigmoid(x):
    """``1 / (1 + z)`` or ``z / (1 + z)`` with ``z = exp(-|x|)``."""
    one = like(x, 1)
    z = exp_of_negative(-absolute(x))
    return where(x >= like(x, 0), one, z) / (one + z)
