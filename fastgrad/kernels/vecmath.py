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

LLVM vectorises a loop that calls them, because formulas have no branches: a choice is an IR select of
two values that are both computed. What it does not vectorise is `fmod` and so remainder and
floor_div, which are libm's, and `INT.pow`; sin and cos call libm for large arguments, see Note [Rare calls] in
`scalar_ir`.
Special values are those of PyTorch. Denormal numbers are kept and NaN goes through. A zero integer divisor
gives zero.

Largest errors in units in the last place, over all exponents and densely where the function varies:

===  ====  =====  ====  ====  =====  ====  =====  ====  =======  ========  ====  ====  ====  ====  =====
     exp   expm1  exp2  log   log1p  log2  log10  tanh  sigmoid  softplus  sin   cos   erf   pow   rsqrt
===  ====  =====  ====  ====  =====  ====  =====  ====  =======  ========  ====  ====  ====  ====  =====
F32  1.00  1.08   0.88  0.85  0.93   1.10  1.02   1.07  2.33     1.71      0.85  0.81  1.13  0.53  1.48
F64  1.04  1.03   0.86  0.82  0.84   1.07  1.00   0.99  2.40     1.62      0.82  0.87  0.92  1.00  1.49
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

from fastgrad.kernels.complex_scalars import make
from fastgrad.kernels.exponentials import (
    LN2_HI,
    LN2_LO,
    LOG2E_HI,
    MAGIC,
    exp,
    exp2,
    exp_of_negative,
    expm1,
    sigmoid,
    tanh_32,
    tanh_64,
)
from fastgrad.kernels.intmath import BOOL, INT, is_at_least_zero, sign
from fastgrad.kernels.normal import (
    erf_32,
    erf_64,
    normal_cdf,
    normal_density,
)
from fastgrad.kernels.powers import INF, NAN, pow_32, pow_64, split_any, whole_power
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
    where,
)

__all__ = ["BOOL", "F32", "F64", "INT"]

# --- constants ----------------------------------------------------------------------------------------------

# What the rounding of a constant leaves of it (the constant is in `exponentials`), and others with what theirs leaves.
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

ONE_IS_LOST = constant_of(2.0**25, 2.0**54)  # 1 + x = x from here on
TRIG_HIGH = constant_of(2.0**15, 2.0**30)  # up to here the three parts of pi/2 give full accuracy

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


# --- roots -------------------------------------------------------------------------------------------------


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
    "sigmoid": sigmoid, "sin": sin, "cos": cos, "fma": fma, "where": where,
    "abs": absolute, "sign": sign, "copysign": copysign, "maximum": maximum, "minimum": minimum,
    "floor": floor, "ceil": ceil, "trunc": trunc, "round": round_half_even, "fmod": fmod, "remainder": remainder,
    "floor_div": floor_div, "trunc_div": trunc_div, "isnan": isnan, "isinf": isinf, "isfinite": isfinite,
    "of_dtype": of_dtype, "whole_power": whole_power, "masked_fill": masked_fill, "logical_and": logical_and,
}  # fmt: skip

F32: Any = namespace("F32", **_FLOAT, **_logarithms(log_tail_32), pow=pow_32, erf=erf_32, tanh=tanh_32)
F64: Any = namespace("F64", **_FLOAT, **_logarithms(log_tail_64), pow=pow_64, erf=erf_64, tanh=tanh_64)
