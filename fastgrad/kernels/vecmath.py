"""The scalar mathematics of compiled loops: what `m` stands for in the formulas of ops.

`F32`, `F64`, `INT` and `BOOL` are namespaces of Numba functions on scalars of one dtype, `INT` for every
integer type; a result has the type of its arguments. Compiled code alone can call them, and its first call
compiles them.

======  =================================================================================================
floats  exp exp_of_negative expm1 exp2 log log1p log2 log10 sqrt rsqrt reciprocal pow tanh sigmoid softplus sin cos erf
floats  abs sign copysign floor ceil trunc round fmod remainder floor_div trunc_div fma
floats  normal_cdf normal_density whole_power xlogy masked_fill logical_and of_dtype isnan isinf isfinite make
floats  is_at_least_zero
INT     abs sign pow fmod remainder floor_div trunc_div bitwise_not
BOOL    bitwise_not
all     maximum minimum where
======  =================================================================================================

LLVM vectorises a loop that calls them, because formulas have no branches: a choice is an IR select of two
values that are both computed. What it does not vectorise is libm's `pow` (F64), `fmod` and so remainder and
floor_div, and `INT.pow`; sin and cos call libm for large arguments, see Note [Rare calls] in `scalar_ir`.
Special values are those of PyTorch. Denormal numbers are kept and NaN goes through. A zero integer divisor
gives zero.

Largest errors in units in the last place, over all exponents and densely where the function varies:

===  ====  =====  ====  ====  =====  ====  =====  ====  =======  ========  ====  ====  ====  ====  =====
     exp   expm1  exp2  log   log1p  log2  log10  tanh  sigmoid  softplus  sin   cos   erf   pow   rsqrt
===  ====  =====  ====  ====  =====  ====  =====  ====  =======  ========  ====  ====  ====  ====  =====
F32  1.00  1.08   0.88  0.85  0.93   1.10  1.02   0.88  2.33     1.71      0.85  0.81  1.13  0.53  1.48
F64  1.04  1.03   0.86  0.82  0.84   1.07  1.00   0.99  2.40     1.62      0.82  0.87  0.92  0.51  1.49
===  ====  =====  ====  ====  =====  ====  =====  ====  =======  ========  ====  ====  ====  ====  =====

`normal_cdf` and `normal_density` have 3.87 and 1.75 in F32, 3.44 and 2.08 in F64, far below zero too.
The rest is exact, correctly rounded, or rounded step by step as in PyTorch.
`tests/kernels/test_vecmath.py` measures this against wider arithmetic, compares special values with NumPy and
PyTorch, and looks for the vector instructions in the generated code. `tools/fit_coefficients.py` prints the
coefficients and the parts of constants.

Note [Exact steps]: some lines look redundant, such as ``(a - b) + c`` after ``b = a + c``. They recover
what the rounding of the line before lost (Dekker 1971; Knuth, TAOCP 2, 4.2.2). So formulas are compiled
without fast-math flags, which would allow such lines to be contracted, and ask for each `fma`. The flags of
a loop that calls them do not matter: LLVM keeps flags per instruction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from fastgrad.kernels.complex_scalars import make
from fastgrad.kernels.intmath import BOOL, INT, is_at_least_zero, sign
from fastgrad.kernels.scalar_ir import (
    absolute,
    ceil,
    constant_of,
    copysign,
    floor,
    fma,
    fmod,
    formula,
    like,
    low_bit,
    maximum,
    minimum,
    namespace,
    polynomial_in,
    rare_call_of,
    round_half_even,
    split,
    sqrt,
    trunc,
    two_to,
    two_to_halves,
    where,
)

__all__ = ["BOOL", "F32", "F64", "INT"]

# --- constants ----------------------------------------------------------------------------------------------

# A constant and what its rounding leaves, of which the first is exact to half an ulp.
LN2_HI = constant_of(0.6931471824645996, 0.6931471805599453)
LN2_LO = constant_of(-1.9046542121259336e-09, 2.3190468138462996e-17)
LOG2E_HI = constant_of(1.4426950216293335, 1.4426950408889634)
LOG2E_LO = constant_of(1.925963033500011e-08, 2.0355273740931033e-17)
LOG10E_HI = constant_of(0.4342944920063019, 0.4342944819032518)
LOG10E_LO = constant_of(-1.0103049952192578e-08, 1.098319650216765e-17)
LOG10_2_HI = constant_of(0.3010300099849701, 0.3010299956639812)
LOG10_2_LO = constant_of(-1.432098883924482e-08, -2.8037281277851704e-18)
# pi / 2 as a sum of three, for n * pi/2 with whole n.
HALF_PI_1 = constant_of(1.5707963705062866, 1.5707963267948966)
HALF_PI_2 = constant_of(-4.371138828673793e-08, 6.123233995736766e-17)
HALF_PI_3 = constant_of(-1.7151245100058819e-15, -1.497384905065873e-33)
TWO_OVER_PI = constant_of(0.6366197466850281, 0.6366197723675814)

INVERSE_SQRT_2PI = constant_of(0.3989422917366028, 0.3989422804014327)

MAGIC = constant_of(1.5 * 2.0**23, 1.5 * 2.0**52)
INF = constant_of(np.inf, np.inf)
NAN = constant_of(np.nan, np.nan)
SMALLEST_NORMAL = constant_of(2.0**-126, 2.0**-1022)
NORMALISER_LOG2 = constant_of(24.0, 54.0)  # a denormal number times 2**this is normal
NORMALISER = constant_of(2.0**24, 2.0**54)
# Beyond these, results are those at the bound: infinity, zero or a number that no longer changes.
EXP_HIGH = constant_of(89.0, 710.0)
EXP_LOW = constant_of(-104.0, -746.0)
# What is at most 0 has no power above 1: these ones are raised by 2**64, so that none is denormal, and lowered again.
RAISED_MAGIC = constant_of(1.5 * 2.0**23 + 64, 1.5 * 2.0**52 + 64)
LOWER = constant_of(2.0**-64, 2.0**-64)
EXP2_HIGH = constant_of(128.0, 1024.0)
EXP2_LOW = constant_of(-151.0, -1076.0)
EXP_LARGEST_POWER = constant_of(128.0, 1024.0)  # 2**this is out of range
EXPM1_LOW = constant_of(-18.0, -38.0)
TANH_HIGH = constant_of(10.0, 20.0)
ONE_IS_LOST = constant_of(2.0**25, 2.0**54)  # 1 + x = x from here on
TRIG_HIGH = constant_of(2.0**15, 2.0**30)  # up to here the three parts of pi/2 give full accuracy

# --- exponentials -------------------------------------------------------------------------------------------

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
def tanh(x):
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


# --- logarithms ---------------------------------------------------------------------------------------------

# (log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2). Error relative to log(1 + f): 6.4e-9.
LOG_TAIL_32 = polynomial_in(
    f32=(
        0.3333333134651184, -0.2500081956386566, 0.20001226663589478, -0.16623356938362122,
        0.14201757311820984, -0.13160181045532227, 0.1276157945394516, -0.07634502649307251,
    )
)  # fmt: skip
# (log(1 + f) / s - 2) / w for the same f, with s = f / (2 + f) and w = s**2. Error as above: 1.7e-18.
LOG_TAIL_64 = polynomial_in(
    f64=(
        0.6666666666666735, 0.39999999999411545, 0.28571428743177224, 0.22222198483734562,
        0.18183569375247544, 0.1531391183244384, 0.14797427669797752,
    )
)  # fmt: skip


@formula
def log_tail_32(f):
    """``log(1 + f) - f``."""
    square = f * f
    return fma(like(f, -0.5), square, LOG_TAIL_32(f) * square * f)


@formula
def log_tail_64(f):
    """``log(1 + f) - f``, which is ``s * (f**2 / 2 + w P(w)) - f**2 / 2``."""
    s = f / (like(f, 2) + f)
    w = s * s
    half_square = like(f, 0.5) * f * f
    return fma(s, fma(w, LOG_TAIL_64(w), half_square), -half_square)


@formula
def split_any(x):
    """`split` without the last item, for denormal x too."""
    denormal = x < SMALLEST_NORMAL(x)
    f, e, _ = split(where(denormal, x * NORMALISER(x), x))
    return f, e - where(denormal, NORMALISER_LOG2(x), like(x, 0))


@formula
def at_ends(x, y):
    """y, a logarithm of x; or what it is at zero, at infinity, of negative numbers and of NaN."""
    y = where(x == INF(x), x, y)
    y = where(x == like(x, 0), -INF(x), y)
    return where(x >= like(x, 0), y, NAN(x))


def _logarithms(tail):
    """The functions that need a logarithm, from `tail`, which gives ``log(1 + f) - f``."""

    @formula
    def assemble(e, f, rest):
        """``e ln(2) + f + rest``."""
        return fma(e, LN2_HI(e), f + fma(e, LN2_LO(e), rest))

    @formula
    def log(x):
        f, e = split_any(x)
        return at_ends(x, assemble(e, f, tail(f)))

    @formula
    def other_base(x, unit_high, unit_low, power_high, power_low):
        """``e * power + log(1 + f) * unit`` where power and unit are sums of two."""
        f, e = split_any(x)
        product = f * unit_high
        lost = fma(f, unit_high, -product) + fma(tail(f), unit_high, f * unit_low)
        whole = e * power_high
        lost = lost + fma(e, power_low, fma(e, power_high, -whole))
        y = whole + product
        return at_ends(x, y + (((whole - y) + product) + lost))

    @formula
    def log2(x):
        return other_base(x, LOG2E_HI(x), LOG2E_LO(x), like(x, 1), like(x, 0))

    @formula
    def log10(x):
        return other_base(x, LOG10E_HI(x), LOG10E_LO(x), LOG10_2_HI(x), LOG10_2_LO(x))

    @formula
    def log1p(x):
        one, zero = like(x, 1), like(x, 0)
        u = one + x
        added = u - one
        lost = (one - (u - added)) + (x - added)  # of the sum u
        f, e, scale = split(u)
        correction = where(x < ONE_IS_LOST(x), lost * scale, zero)
        g = f + correction
        y = assemble(e, g, tail(g) + ((f - g) + correction))
        return where(x == zero, x, at_ends(u, y))

    @formula
    def softplus(x):
        """``max(x, 0) + log(1 + z)`` with ``z = exp(-|x|)``; beyond sqrt(2) half of 1 + z is taken."""
        z = exp_of_negative(-absolute(x))
        half, one, zero = like(x, 0.5), like(x, 1), like(x, 0)
        halved = z > like(x, 0.41421356)
        f = where(halved, fma(half, z, -half), z)
        return maximum(x, zero) + assemble(where(halved, one, zero), f, tail(f))

    @formula
    def xlogy(x, y):
        return where((x == like(x, 0)) & (y == y), like(x, 0), x * log(y))

    return {"log": log, "log2": log2, "log10": log10, "log1p": log1p, "softplus": softplus, "xlogy": xlogy}


# --- powers -------------------------------------------------------------------------------------------------

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
def pow_32(x, y):
    zero, one, half, inf = like(x, 0), like(x, 1), like(x, 0.5), INF(x)
    a = absolute(x)
    value = pow_magnitude_32(x, y)
    value = where(a == zero, where(y > zero, zero, inf), value)
    value = where(a == inf, where(y > zero, inf, zero), value)
    whole = floor(y) == y
    odd = whole & (floor(y * half) != y * half)
    value = where(odd, copysign(value, x), value)
    value = where((x < zero) & (a != inf) & (not whole), NAN(x), value)
    value = where((x != x) | (y != y), NAN(x), value)
    return where((y == zero) | (x == one), one, value)


@formula
def whole_power(x, n):
    """``x**n`` for a small whole number that stands in the formula: the loop over it is unrolled."""
    value = x
    for _ in range(1, n):
        value = value * x
    return value


pow_64 = types.ExternalFunction("pow", types.float64(types.float64, types.float64))


@formula
def reciprocal(x):
    return like(x, 1) / x


@formula
def rsqrt(x):
    return like(x, 1) / sqrt(x)


# --- sine and cosine ----------------------------------------------------------------------------------------

# (sin(r) / r - 1) / z and (cos(r) - 1 + z / 2) / z**2 with z = r**2 for |r| <= 1.001 pi/4.
# Errors relative to sin(r): f32 6.0e-9, f64 7.8e-18; of cos(r): 4.8e-10, 1.2e-18.
SIN_TAIL = polynomial_in(
    f32=(
        -0.16666655242443085, 0.008332173340022564, -0.00019516656175255775,
    ),
    f64=(
        -0.16666666666666632, 0.008333333333322316, -0.00019841269829725265, 2.7557313662075415e-06,
        -2.5050753266970837e-08, 1.589650507341188e-10,
    ),
)  # fmt: skip
COS_TAIL = polynomial_in(
    f32=(
        0.04166664555668831, -0.001388736185617745, 2.443773155391682e-05,
    ),
    f64=(
        0.0416666666666666, -0.0013888888888873992, 2.480158728939559e-05, -2.7557314326200713e-07,
        2.0875719579571763e-09, -1.1359449669006023e-11,
    ),
)  # fmt: skip
rare_sin, rare_cos = rare_call_of("sin"), rare_call_of("cos")


@formula
def sin_of_quadrants(x, quadrants):
    """``sin(x + quadrants pi/2)`` for ``|x| < TRIG_HIGH``."""
    t = fma(x, TWO_OVER_PI(x), MAGIC(x))
    n = t - MAGIC(x)
    whole = fma(n, -HALF_PI_1(x), x)  # exact
    product = n * HALF_PI_2(x)
    r = whole - product
    lost = ((whole - r) - product) - fma(n, HALF_PI_3(x), fma(n, HALF_PI_2(x), -product))
    z = r * r
    sine = r + fma(SIN_TAIL(z) * z, r, lost)
    half_z = like(x, 0.5) * z
    near = like(x, 1) - half_z
    cosine = near + fma(COS_TAIL(z) * z, z, ((like(x, 1) - near) - half_z) - r * lost)
    t = t + quadrants
    y = where(low_bit(t, 1), cosine, sine)
    return where(low_bit(t, 2), -y, y)


@formula
def sin(x):
    a = absolute(x)
    y = sin_of_quadrants(a, like(x, 0)) * copysign(like(x, 1), x)
    if a >= TRIG_HIGH(x):
        y = rare_sin(x)
    return y


@formula
def cos(x):
    a = absolute(x)
    y = sin_of_quadrants(a, like(x, 1))
    if a >= TRIG_HIGH(x):
        y = rare_cos(x)
    return y


# --- error function -----------------------------------------------------------------------------------------

# erf(x) / x - 1 in z = x**2 for |x| <= 0.93 (f32), 0.91 (f64). Errors relative to erf(x): 3.2e-8, 2.5e-17.
ERF_SMALL = polynomial_in(
    f32=(
        0.12837915122509003, -0.3761247992515564, 0.11281682550907135, -0.026761719956994057,
        0.004985940642654896, -0.0005953742074780166,
    ),
    f64=(
        0.1283791670955126, -0.3761263890318372, 0.11283791670953364, -0.026866170644737754,
        0.005223977620890932, -0.0008548326712077449, 0.00012055319440055634, -1.492526135640229e-05,
        1.6454624541538169e-06, -1.6269867870454892e-07, 1.4015946857519558e-08, -8.412206210586017e-10,
    ),
)  # fmt: skip
# -log(erfc(a)) for 0.92 <= a <= 3.93. Error of 1 - exp(-this) relative to erf(a): 1.5e-8.
ERF_LARGE_32 = polynomial_in(
    f32=(
        0.00019567835261113942, 1.1276756525039673, 0.6371822953224182, 0.10393157601356506,
        -0.022226909175515175, 0.0030432145576924086, -0.0001959369401447475,
    )
)  # fmt: skip
# erfc(a) exp(a**2) in t = (a - 2) / (a + 2) for 0.89 <= a <= 6. Error of 1 - exp(-a**2) * this relative to
# erf(a): 5.0e-19.
ERF_LARGE_64 = polynomial_in(
    f64=(
        0.25539567631050575, -0.42718584741395915, 0.24165819424244575, -0.07897858101562559,
        0.00373289240950293, 0.0069974617604102365, -0.00084714351464785, -0.000981979293645361,
        4.355500497750585e-05, 0.00017441166053221532, 2.7702898455929243e-05, -2.762812057491485e-05,
        -1.5534858115045114e-05, -2.406954163432127e-06,
    )
)  # fmt: skip


@formula
def erf_32(x):
    a = absolute(x)
    limited = where(a > like(x, 3.93), like(x, 3.93), a)
    large = copysign(like(x, 1) - exp_of_negative(-ERF_LARGE_32(limited)), x)
    return where(a > like(x, 0.921875), large, fma(ERF_SMALL(x * x), x, x))


@formula
def erf_64(x):
    a = absolute(x)
    limited = where(a > 6.0, 6.0, a)
    square = limited * limited
    t, r, lost = reduce_exponent(-square)
    lost = lost + fma(-limited, limited, square)
    e = scaled(fma(EXP_TAIL(r) * r, r, lost) + r, t)
    large = fma(-e, ERF_LARGE_64((limited - 2.0) / (limited + 2.0)), 1.0)
    return where(a > 0.9, copysign(large, x), fma(ERF_SMALL(x * x), x, x))


# (a + 4) exp(a**2 / 2) times the normal distribution's weight beyond a, in t = (a - 4) / (a + 4), for a from 0 to
# NORMAL_FAR. Relative error: f32 5.8e-8, f64 7.0e-17.
NORMAL_TAIL = polynomial_in(
    f32=(
        0.7552851438522339, -0.6078965663909912, 0.38713690638542175, -0.18652339279651642,
        0.06040389463305473, -0.007525546941906214, -0.003513033501803875, 0.001570274238474667,
        0.00018036054098047316, -0.0001315013214480132,
    ),
    f64=(
        0.7552851304157515, -0.6078966419718921, 0.38713740074221936, -0.18652185795966614,
        0.060396574890671524, -0.0075401889664123865, -0.0034796923617095147, 0.0016308184529366706,
        0.0001333442495181483, -0.0002310949008278128, -1.9078493354472657e-06, 3.5144554876020776e-05,
        7.149922610742799e-07, -5.919963340512344e-06, -6.252575433234647e-07, 1.0217586141850478e-06,
        2.641763309816897e-07, -1.5646733717648802e-07, -7.720191024086436e-08, 1.598074967656017e-08,
        1.4593627371577633e-08, -3.1213364300000207e-10, -1.1843146131700302e-09,
    ),
)  # fmt: skip
NORMAL_FAR = constant_of(14.375, 38.6)  # both tails are lost beyond


@formula
def bell(x):
    """``(a, exp(-a**2 / 2))`` with ``a = |x|`` as far as ``NORMAL_FAR``; heeds what the square loses."""
    a = absolute(x)
    a = where(a > NORMAL_FAR(x), NORMAL_FAR(x), a)
    half = like(x, -0.5) * a
    power = half * a
    return a, exp_raised(power, fma(-half, a, power)) * LOWER(x)


@formula
def normal_density(x):
    """The density of the normal distribution."""
    _, e = bell(x)
    return e * INVERSE_SQRT_2PI(x)


@formula
def normal_cdf(x):
    """The weight of the normal distribution up to x, exact far below too."""
    a, e = bell(x)
    inverse = like(x, 1) / (a + like(x, 4))
    beyond = NORMAL_TAIL((a - like(x, 4)) * inverse) * inverse * e
    return where(x < like(x, 0), beyond, like(x, 1) - beyond)


# --- comparisons, division with remainder -------------------------------------------------------------------


@formula
def isnan(x):
    return x != x


@formula
def isinf(x):
    return absolute(x) == INF(x)


@formula
def isfinite(x):
    return absolute(x) < INF(x)


@formula
def remainder(x, y):
    """The remainder with the sign of y: ``fmod(x, y)``, plus y if the signs differ."""
    rest = fmod(x, y)
    zero = like(x, 0)
    return where((rest != zero) & ((rest < zero) != (y < zero)), rest + y, rest)


@formula
def floor_div(x, y):
    """``floor(x / y)`` of the exact quotient, by the remainder, as in PyTorch and Python."""
    zero, one = like(x, 0), like(x, 1)
    rest = fmod(x, y)
    quotient = (x - rest) / y
    quotient = where((rest != zero) & ((rest < zero) != (y < zero)), quotient - one, quotient)
    whole = floor(quotient)
    whole = where(quotient - whole > like(x, 0.5), whole + one, whole)
    whole = where(quotient != zero, whole, copysign(zero, x / y))
    return where(y == zero, x / y, whole)


@formula
def trunc_div(x, y):
    return trunc(x / y)


@formula
def of_dtype(x, other):
    """x, which is of the dtype of the loop as all that it reads."""
    return x


@formula
def masked_fill(x, value, condition):
    return where(condition, value, x)


@formula
def logical_and(x, y):
    return x & y


# --- the namespaces -----------------------------------------------------------------------------------------

_FLOAT = {
    "exp": exp, "exp_of_negative": exp_of_negative, "expm1": expm1, "exp2": exp2,
    "sqrt": sqrt, "rsqrt": rsqrt, "reciprocal": reciprocal, "make": make, "is_at_least_zero": is_at_least_zero,
    "normal_cdf": normal_cdf, "normal_density": normal_density,
    "tanh": tanh, "sigmoid": sigmoid, "sin": sin, "cos": cos, "fma": fma, "where": where,
    "abs": absolute, "sign": sign, "copysign": copysign, "maximum": maximum, "minimum": minimum,
    "floor": floor, "ceil": ceil, "trunc": trunc, "round": round_half_even, "fmod": fmod, "remainder": remainder,
    "floor_div": floor_div, "trunc_div": trunc_div, "isnan": isnan, "isinf": isinf, "isfinite": isfinite,
    "of_dtype": of_dtype, "whole_power": whole_power, "masked_fill": masked_fill, "logical_and": logical_and,
}  # fmt: skip

F32: Any = namespace("F32", **_FLOAT, **_logarithms(log_tail_32), pow=pow_32, erf=erf_32)
F64: Any = namespace("F64", **_FLOAT, **_logarithms(log_tail_64), pow=pow_64, erf=erf_64)
