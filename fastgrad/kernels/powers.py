"""Powers of `vecmath`: ``2**(y log2|x|)`` by a logarithm with more digits than the result, and small powers.

Note [Small powers]: exponents of 1, 2 and 3, then -1, -2, a half and its negative, are most of those that programs
write. Where the exponent is a number that stands in the kernel, as in the loops that `kernels.cpu.elementwise` makes
for some of them and in fused kernels (`compiler.fusion.plans`), the compiler keeps what computes that one; a loop for
other numbers has `any_pow_32` or `any_pow_64` alone. Where it differs by elements, a loop of vectors computes all and
selects. So the small powers have one division and one root for all of them; and they are no branches, for which LLVM
takes scalars to be cheaper where a vector is but four numbers, and is wrong by a factor of three.
"""

from __future__ import annotations

import numpy as np

from fastgrad.kernels.exponentials import EXP_TAIL, LN2_HI, LN2_LO, LOG2E_HI, MAGIC
from fastgrad.kernels.scalar_ir import (
    absolute,
    constant_of,
    copysign,
    floor,
    fma,
    formula,
    like,
    polynomial_in,
    split,
    sqrt,
    two_to,
    two_to_halves,
    where,
)

INF = constant_of(np.inf, np.inf)
NAN = constant_of(np.nan, np.nan)
SMALLEST_NORMAL = constant_of(2.0**-126, 2.0**-1022)
NORMALISER_LOG2 = constant_of(24.0, 54.0)  # a denormal number times 2**this is normal
NORMALISER = constant_of(2.0**24, 2.0**54)

# As LOG_TAIL_64, with a relative error of 4.8e-12; and (2**r - 1) / r for |r| <= 1/2, whose error relative to
# 2**r is 1.9e-9.
POW_LOG = polynomial_in(
    f64=(
        0.6666666564169246, 0.40000336149206067, 0.28537242034499105, 0.23583507685860372,
    )
)  # fmt: skip
POW_EXP = polynomial_in(
    f64=(
        0.693147206278664, 0.24022651346730495, 0.05550327725248725, 0.009618003784493259,
        0.0013400296210258691, 0.0001547633089958372,
    )
)  # fmt: skip
# ((log2(1 + f) / s - a) / w - b) / w for the same f, s and w as LOG_TAIL_64, where a is 2 / ln(2) and b is a / 3. Error
# of log2(1 + f) relative to it: 1.7e-20.
POW_LOG2 = polynomial_in(
    f64=(
        0.5770780163555854, 0.41219858311112956, 0.32059889797631524, 0.2623081890705742, 0.22195310302578858,
        0.19235799467554618, 0.1697862037647487, 0.15036834883669264, 0.1589065022165223,
    )
)  # fmt: skip
FIRST_HI, FIRST_LO = 2.8853900817779268, 4.0710547481862066e-17
SECOND_HI, SECOND_LO = 0.9617966939259756, 5.0577616648125907e-17
POWER_HIGH, POWER_LOW = 1025.0, -1076.0  # beyond these, powers of two are infinite or zero


@formula
def split_any(x):
    """`split` without the last item, for denormal x too."""
    denormal = x < SMALLEST_NORMAL(x)
    f, e, _ = split(where(denormal, x * NORMALISER(x), x))
    return f, e - where(denormal, NORMALISER_LOG2(x), like(x, 0))


@formula
def pow_magnitude_32(x, y):
    """``|x|**y`` for finite nonzero x, in float64: ``2**(y log2|x|)``."""
    f, e, _ = split(np.float64(absolute(x)))
    s = f / (2.0 + f)
    w = s * s
    exponent = np.float64(y)
    exponent = where(exponent > 1e300, 1e300, where(exponent < -1e300, -1e300, exponent))
    power = exponent * fma(fma(POW_LOG(w) * w, s, s + s), LOG2E_HI(s), e)
    power = where(power > 1000.0, 1000.0, where(power < -1000.0, -1000.0, power))
    t = power + MAGIC(power)
    r = power - (t - MAGIC(power))
    scale = two_to(t)
    return like(x, fma(POW_EXP(r) * r, scale, scale))


@formula
def log2_in_two(x):
    """``log2(x)`` for positive finite x as a sum of two, of which the second is what the first has lost.

    ``e + s (a + w (b + w P(w)))``: each of these sums and products, but for the innermost, keeps what rounding loses.
    """
    f, e = split_any(x)
    d = 2.0 + f
    inverse = 1.0 / d
    s = f * inverse
    s_lost = (fma(-s, d, f) - s * (f - (d - 2.0))) * inverse
    w = s * s
    w_lost = fma(s, s, -w) + (s + s) * s_lost
    rest = w * POW_LOG2(w)
    inner = SECOND_HI + rest
    inner_lost = ((SECOND_HI - inner) + rest) + SECOND_LO
    product = w * inner
    product_lost = fma(w, inner, -product) + fma(w, inner_lost, w_lost * inner)
    outer = FIRST_HI + product
    outer_lost = ((FIRST_HI - outer) + product) + (product_lost + FIRST_LO)
    y = s * outer
    y_lost = fma(s, outer, -y) + fma(s, outer_lost, s_lost * outer)
    whole = e + y
    return whole, ((e - whole) + y) + y_lost


@formula
def pow_magnitude_64(x, y):
    """``|x|**y`` for finite nonzero x."""
    high, low = log2_in_two(absolute(x))
    exponent = where(y > 1e300, 1e300, where(y < -1e300, -1e300, y))
    power = exponent * high
    lost = fma(exponent, high, -power) + exponent * low
    beyond = (power > POWER_HIGH) | (power < POWER_LOW)
    power = where(power > POWER_HIGH, POWER_HIGH, where(power < POWER_LOW, POWER_LOW, power))
    t = power + MAGIC(power)
    f = power - (t - MAGIC(power))
    product = f * LN2_HI(f)
    lost = where(beyond, 0.0, lost) * LN2_HI(f) + fma(f, LN2_LO(f), fma(f, LN2_HI(f), -product))
    r = product + lost
    high = 1.0 + r
    low = fma(EXP_TAIL(r) * r, r, ((product - r) + lost) + ((1.0 - high) + r))
    first, second = two_to_halves(t)
    return (high + low) * first * second


def _any_power(magnitude):
    """Powers of any number, by `magnitude`, the function that gives those of finite positive ones."""

    @formula
    def power(x, y):
        zero, one, half, inf = like(x, 0), like(x, 1), like(x, 0.5), INF(x)
        a = absolute(x)
        value = magnitude(x, y)
        value = where(a == zero, where(y > zero, zero, inf), value)
        value = where(a == inf, where(y > zero, inf, zero), value)
        whole = floor(y) == y
        odd = whole & (floor(y * half) != y * half)
        value = where(odd, copysign(value, x), value)
        value = where((x < zero) & (a != inf) & (not whole), NAN(x), value)
        value = where((x != x) | (y != y), NAN(x), value)
        return where((y == zero) | (x == one), one, value)

    return power


@formula
def root(x):
    """``pow(x, 0.5)``, which differs from the square root at -0 and at -infinity."""
    return where(x == -INF(x), INF(x), sqrt(x) + like(x, 0))


@formula
def whole_power(x, n):
    """``x**n`` for a small whole number that stands in the formula: the loop over it is unrolled."""
    value = x
    for _ in range(1, n):
        value = value * x
    return value


@formula
def cube_32(x):
    wide = np.float64(x)
    return like(x, wide * wide * wide)


@formula
def cube_64(x):
    """``x * x * x`` with what rounding loses of both products, where there is such a thing; a zero keeps its sign."""
    square = x * x
    value = square * x
    exact = value + fma(fma(x, x, -square), x, fma(square, x, -value))
    return where((exact == exact) & (value != 0.0), exact, value)


@formula
def inverse_square_32(x, inverse):
    """``1 / x**2`` likewise; by the inverse, whose square is out of range only if the result is.

    What rounding loses is computed larger where it might be out of range.
    """
    large = absolute(x) > like(x, 1)
    scale = where(large, like(x, 2.0**60), like(x, 1))
    value = inverse * inverse
    lost = fma(-inverse, x, like(x, 1)) * inverse
    scaled = inverse * scale
    rest = fma(scaled + scaled, lost, fma(scaled, inverse, -(value * scale)))
    exact = fma(rest, where(large, like(x, 2.0**-60), like(x, 1)), value)
    return where(exact == exact, exact, value)


@formula
def inverse_square_64(x, inverse):
    """The same, but for results that are hardly in the range."""
    value = inverse * inverse
    lost = fma(-inverse, x, 1.0) * inverse
    exact = value + fma(inverse + inverse, lost, fma(inverse, inverse, -value))
    return where(exact == exact, exact, value)


@formula
def inverse_root(x, value):
    """``pow(x, -0.5)`` with what rounding loses: a step of Newton's method from `value`, the inverse of the root."""
    product = x * value
    missing = fma(-product, value, like(x, 1)) - fma(x, value, -product) * value
    exact = fma(like(x, 0.5) * value, missing, value)
    return where(exact == exact, exact, value)


def _power(any_power, cube, inverse_square):
    """Powers by Note [Small powers], with these functions for some of them."""

    @formula
    def power(x, y):
        one, two, half = like(x, 1), like(x, 2), like(x, 0.5)
        by_root = root(x)
        inverse = one / where(y == -half, by_root, x)
        value = any_power(x, y)
        value = where(y == one, x, where(y == two, x * x, where(y == like(x, 3), cube(x), value)))
        value = where(y == -one, inverse, where(y == -two, inverse_square(x, inverse), value))
        value = where(y == half, by_root, where(y == -half, inverse_root(x, inverse), value))
        return value

    return power


any_pow_32, any_pow_64 = _any_power(pow_magnitude_32), _any_power(pow_magnitude_64)
pow_32 = _power(any_pow_32, cube_32, inverse_square_32)
pow_64 = _power(any_pow_64, cube_64, inverse_square_64)
