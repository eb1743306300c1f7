"""Functions on scalars that the formulas of ops call beside the vocabulary: inverse functions, error functions, gamma.

They are made of `m` and ``c``, so each is compiled for the dtype and the device of the formula that calls it. They have
branches on values and loops: a rule on tensors calls the ops that are made of them.

`tools/fit_coefficients.py` prints the coefficients. Errors are a few units in the last place in either dtype, relative
to the largest term where terms of opposite signs are added.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from fastgrad.ops.vocabulary import c, m

PI = 3.141592653589793
HALF_PI = 1.5707963267948966
QUARTER_PI = 0.7853981633974483
LN_2 = 0.6931471805599453
LN_PI = 1.1447298858494002
SQRT_2 = 1.4142135623730951
SQRT_HALF = 0.7071067811865476
FAR = 1e8  # from here on 1 is lost beside a square, in float64 as well
TINY = 1e-18  # below, 1 / x is all that there is of the gamma function
INF = float("inf")
NAN = float("nan")


def polynomial(*coefficients: float) -> Callable[[Any], Any]:
    """The function that evaluates ``c[0] + c[1] x + c[2] x**2 + ...``."""
    code = _polynomial_of(
        len(coefficients)
    )  # compiled once for all of a length, as dozens are made at the start
    constants = tuple(coefficients[int(k)] if type(k) is float else k for k in code.co_consts)
    scope: dict[str, Any] = {"m": m, "c": c, "__name__": __name__}
    return FunctionType(code.replace(co_consts=constants), scope)


@cache
def _polynomial_of(length: int) -> CodeType:
    """The code of a polynomial, in which each coefficient's number stands for it."""
    text = f"c({float(length - 1)})"
    for k in reversed(range(length - 1)):
        text = f"m.fma({text}, x, c({float(k)}))"
    scope: dict[str, Any] = {}
    exec(f"def evaluate(x):\n    return {text}", scope)  # a loop would keep the constants in memory
    return scope["evaluate"].__code__  # type: ignore[no-any-return]


# (arc(x) / x - 1) / x**2 in x**2: of the arc tangent up to tan(pi / 8), of the arc sine up to 1/2.
ATAN_TAIL = polynomial(
    -0.333333333333332, 0.1999999999995304, -0.14285714280137732, 0.11111110780349612, -0.09090897663633561,
    0.07692058461020355, -0.0666308322463689, 0.05847731471852789, -0.050385659150537034,
    0.038045112331430264, -0.017885196185515127,
)  # fmt: skip
ASIN_TAIL = polynomial(
    0.16666666666665383, 0.07500000000343007, 0.04464285682350708, 0.03038195933036265, 0.022371753542987975,
    0.0173597708266812, 0.013884601098737173, 0.012173262958149767, 0.006510920303782118,
    0.019573732309116514, -0.016293813956616998, 0.03195879563043102,
)  # fmt: skip
# (1 + 2 a) erfc(a) exp(a**2) in (a - 3.75) / (a + 3.75).
ERFCX = polynomial(
    1.2375126308378275, -0.14024059858554697, 0.0035854154854647047, 0.08227673849014669, -0.1088039301417626,
    0.09230432116033763, -0.05869339858937006, 0.028362277419449532, -0.009746579560693261,
    0.001755625849515381, 0.0002937136812317861, -0.00029015406642667746, 5.164904086745346e-05,
    2.2384201393893405e-05, -1.1444004918885248e-05, -9.734938107083278e-07, 1.7514085961537948e-06,
    -5.729350251713278e-08, -2.584237988356512e-07, 2.3317257436487075e-08, 3.850984098848632e-08,
    -3.7660569224151615e-09, -5.1097973996463165e-09, 3.1499953032801514e-10, 4.14268654662014e-10,
)  # fmt: skip
# x / erf(x) where w = -log(1 - erf(x)**2) and s is its root: in w - 3.125 up to 6.25, in s - 3.25 for s up to 4; over s
# in (s - 5.75) / (s + 5.75) up to 8 and in (s - 14.75) / (s + 14.75) up to 27.4, where erfc(x) is the smallest float64.
ERF_INVERSE_NEAR = polynomial(
    1.653654562683103, 0.24015818242558948, -0.006033670871430704, -0.0007407025341653016, 0.0001867342080363864,
    -1.3882523364904099e-05, -1.3654692038754235e-06, 4.234787804091602e-07, -2.9070366804713016e-08,
    -4.112635157757047e-09, 1.0512107485095485e-09, -5.4153729309627406e-11, -1.2974674706888074e-11,
    2.6334278398967413e-12, -8.160772193528923e-14, -4.053494983514234e-14, 6.648562728752413e-15,
    2.0109219619285697e-17, -1.3415453159189088e-16, 1.1196832622610847e-17, 1.3220778703793648e-18,
    -1.6925896550109664e-19, -4.32066519881596e-21,
)  # fmt: skip
ERF_INVERSE_MIDDLE = polynomial(
    3.0838856104922203, 1.0052589676941597, 0.005370914553602714, -0.003751208507597015, 0.0024914420955061685,
    -0.0016882755553448263, 0.0009532893907395667, -0.00035503752780542366, 2.4031009715787983e-05,
    6.828489472108007e-05, -4.7317711991061345e-05, 1.2475161898641283e-05, 2.9218861767358613e-06,
    -4.0136000148227894e-06, 1.5054778221923934e-06, 1.797344062717011e-08, -2.7776543374790715e-07,
    9.086557365706782e-08, 3.2355136231982216e-09,
)  # fmt: skip
ERF_INVERSE_FAR = polynomial(
    0.9752144472055909, 0.06923517261706882, -0.07916307652252524, 0.05118899501930165, -0.007672804587989248,
    -0.04401714964465245, 0.09609925431113357, -0.14351004002624274, 0.1833547486953954, -0.22764471586108884,
    0.3968231829199171, -1.5658666452511274, 8.986436415718822, -47.20431801268194, 200.8516333793047,
    -694.3936039539527, 1761.2368815036605, 132.66948464594134, -24887.132396772777, 67993.28417106502,
    67720.39252566875, -366923.0235117643,
)  # fmt: skip
ERF_INVERSE_FARTHEST = polynomial(
    0.9940834129533043, 0.019090107760405935, -0.029045363726702716, 0.03294141029772049, -0.03383487611560256,
    0.03234643124975737, -0.029116635025059113, 0.024453691016561453, -0.01868125288888561, 0.012017302464933231,
    -0.0046934890312003204, -0.003061069199459769, 0.011133997716745888, -0.020145348317112045,
    0.02854722823362639, -0.02850538938406907, 0.03487887282283212, -0.08732268429794829, 0.0988992186849618,
)  # fmt: skip
# The same for numbers that float32 can tell from 1, and in s - 5 from 4 up to where the last float64 below 1 is.
ERF_INVERSE_NEAR_32 = polynomial(
    1.6536545624577954, 0.24015817882010834, -0.0060336693822977926, -0.0007406917935592543, 0.00018673269840487348,
    -1.3891705875839448e-05, -1.364967397728375e-06, 4.268834275933717e-07, -2.9127240403130303e-08,
    -4.742346438789158e-09, 1.0516732425375154e-09, 5.3014988054687185e-12, -1.3091637662748229e-11,
)  # fmt: skip
ERF_INVERSE_MIDDLE_32 = polynomial(
    3.0838855956735904, 1.005258703658186, 0.005371909162702321, -0.003744815220831046, 0.002480368342285591,
    -0.001729412187226527, 0.0009976690194057236, -0.0002591725500746999, -5.082279367619747e-05,
)  # fmt: skip
ERF_INVERSE_LAST = polynomial(
    4.849906401408584, 1.010300464864546, -0.0001387193183512418, -0.00021503011985092718, 7.599527733703156e-05,
    -1.96817704230847e-05, 4.526060203501012e-06, -9.930308609008587e-07, 2.290139934048781e-07,
    -6.755209246359655e-08, 2.9128859833201227e-08, -1.5261389954132374e-08, 7.63773772526892e-09,
    -3.465984233106198e-09, 1.4944048545156888e-09, -4.398162750563202e-10, -2.3869915681554697e-11,
    4.3217494276294624e-11,
)  # fmt: skip
# log(gamma(2 + s)) / s for |s| <= 1/2.
LGAMMA_SLOPE = polynomial(
    0.42278433509846713, 0.32246703342411326, -0.0673523010531956, 0.02058080842777719, -0.007385551028938747,
    0.0028905103312128985, -0.0011927539008931912, 0.0005096695109199102, -0.0002231549791555776,
    9.94577334507513e-05, -4.492371277591488e-05, 2.050513772167505e-05, -9.456360038707336e-06,
    4.3866560515847685e-06, -1.974130679355657e-06, 9.155916336177614e-07, -5.813117183147722e-07,
    2.829397631176808e-07,
)  # fmt: skip
# The asymptotic series of digamma and of lgamma in 1 / x**2, from Bernoulli's numbers.
DIGAMMA_TAIL = polynomial(1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
LGAMMA_TAIL = polynomial(1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)

# --- inverse functions -----------------------------------------------------------------------------------------


def atan(x):
    """Arguments above tan(pi / 8) are turned by pi / 4, those above its inverse by pi / 2."""
    a = m.abs(x)
    one = c(1)
    far, near = a > c(2.414213562373095), a > c(0.41421356237309503)
    r = m.where(far, -one, m.where(near, a - one, a)) / m.where(far, a, m.where(near, a + one, one))
    z = r * r
    turned = m.where(far, c(HALF_PI), m.where(near, c(QUARTER_PI), c(0)))
    return m.copysign(turned + m.fma(r * z, ATAN_TAIL(z), r), x)


def atan2(y, x):
    a, b = m.abs(x), m.abs(y)
    low, high = m.minimum(a, b), m.maximum(a, b)
    ratio = m.where(high == c(0), high, m.where(low == c(INF), c(1), low / high))
    angle = atan(ratio)
    angle = m.where(b > a, c(HALF_PI) - angle, angle)
    angle = m.where(m.copysign(c(1), x) < c(0), c(PI) - angle, angle)
    return m.copysign(angle, y)


def asin_of_half(a, large):
    """The arc sine of a, or half of the arc cosine where a is `large`, above 1/2."""
    z = m.where(large, (c(1) - a) * c(0.5), a * a)
    s = m.where(large, m.sqrt(z), a)
    return m.fma(s * z, ASIN_TAIL(z), s)


def asin(x):
    a = m.abs(x)
    large = a > c(0.5)
    r = asin_of_half(a, large)
    return m.copysign(m.where(large, c(HALF_PI) - c(2) * r, r), x)


def acos(x):
    a = m.abs(x)
    large = a > c(0.5)
    r = asin_of_half(a, large)
    outer = m.where(x < c(0), c(PI) - c(2) * r, c(2) * r)
    return m.where(large, outer, c(HALF_PI) - m.copysign(r, x))


def sinh(x):
    a = m.abs(x)
    e = m.expm1(a)
    root = m.exp(c(0.5) * a)
    small = c(0.5) * (e + e / (e + c(1)))
    return m.copysign(m.where(a > c(20), c(0.5) * root * root, small), x)


def cosh(x):
    a = m.abs(x)
    e = m.exp(a)
    root = m.exp(c(0.5) * a)
    return m.where(a > c(20), c(0.5) * root * root, c(0.5) * e + c(0.5) / e)


def asinh(x):
    a = m.abs(x)
    square = a * a
    near = m.log1p(a + square / (c(1) + m.sqrt(square + c(1))))
    return m.copysign(m.where(a > c(FAR), m.log(a) + c(LN_2), near), x)


def acosh(x):
    t = x - c(1)
    near = m.log1p(t + m.sqrt(t) * m.sqrt(t + c(2)))
    return m.where(x > c(FAR), m.log(x) + c(LN_2), near)


def atanh(x):
    a = m.abs(x)
    return m.copysign(c(0.5) * m.log1p(c(2) * a / (c(1) - a)), x)


def hypot(x, y):
    a, b = m.abs(x), m.abs(y)
    low, high = m.minimum(a, b), m.maximum(a, b)
    ratio = m.where(high == c(0), high, low / high)
    length = high * m.sqrt(c(1) + ratio * ratio)
    return m.where((a == c(INF)) | (b == c(INF)), c(INF), length)


# --- error functions -------------------------------------------------------------------------------------------


def erfcx_of_positive(a):
    """``erfc(a) exp(a**2)``."""
    limited = m.where(a > c(1e15), c(1e15), a)
    return c(0.5) * ERFCX((limited - c(3.75)) / (limited + c(3.75))) / (c(0.5) + a)  # twice `a` may overflow


def exp_of_square(a):
    """``exp(-a**2)`` with what rounding loses of the square."""
    square = a * a
    return m.exp(-square) * (c(1) - m.fma(a, a, -square))


def erfc(x):
    a = m.abs(x)
    limited = m.where(a > c(40), c(40), a)
    y = exp_of_square(limited) * erfcx_of_positive(limited)
    return m.where(x < c(0), c(2) - y, y)


def erfcx(x):
    a = m.abs(x)
    y = erfcx_of_positive(a)
    limited = m.where(a > c(40), c(40), a)
    square = limited * limited
    grown = c(2) * m.exp(square) * (c(1) + m.fma(limited, limited, -square))
    return m.where(x < c(0), grown - y, y)


def erf_inverse_by(y, q):
    """The number whose error function is y, where q is ``1 - |y|`` in more digits than y may have."""
    w = -m.log(q * (c(2) - q))
    s = m.sqrt(w)
    middle = m.where(s < c(8), c(5.75), c(14.75))
    t = (s - middle) / (s + middle)
    far = s * m.where(s < c(8), ERF_INVERSE_FAR(t), ERF_INVERSE_FARTHEST(t))
    ratio = m.where(s < c(4), ERF_INVERSE_MIDDLE(s - c(3.25)), far)
    x = y * m.where(w < c(6.25), ERF_INVERSE_NEAR(w - c(3.125)), ratio)
    return m.where(q == c(0), m.copysign(c(INF), y), x)


def for_precision(short, long):
    """`short` in float32, where 1 + 1e-10 is 1, else `long`: compilers know which, and compute no other."""
    return m.where(c(1) + c(1e-10) == c(1), short, long)


def erf_inverse(y):
    """As `erf_inverse_by`; what differs from 1 by a rounding at least needs less of it."""
    q = c(1) - m.abs(y)
    w = -m.log(q * (c(2) - q))
    s = m.sqrt(w)
    last = m.where(s < c(4), ERF_INVERSE_MIDDLE(s - c(3.25)), ERF_INVERSE_LAST(s - c(5)))
    ratio = for_precision(ERF_INVERSE_MIDDLE_32(s - c(3.25)), last)
    near = for_precision(ERF_INVERSE_NEAR_32(w - c(3.125)), ERF_INVERSE_NEAR(w - c(3.125)))
    return m.where(q == c(0), m.copysign(c(INF), y), y * m.where(w < c(6.25), near, ratio))


def erf_inverse_is_near(y):
    """Whether `erf_inverse_near` is enough: a little more than where its polynomial ends."""
    return m.abs(y) < c(0.999)


def erf_inverse_near(y):
    """What `erf_inverse` comes to there."""
    q = c(1) - m.abs(y)
    w = -m.log(q * (c(2) - q))
    return y * for_precision(ERF_INVERSE_NEAR_32(w - c(3.125)), ERF_INVERSE_NEAR(w - c(3.125)))


def ndtri_is_near(p):
    return (p > c(0.0005)) & (p < c(0.9995))


def ndtri_near(p):
    """What `ndtri` comes to not too near to 0 and 1."""
    q = c(2) * m.minimum(p, c(1) - p)
    return c(SQRT_2) * ((c(2) * p - c(1)) * ERF_INVERSE_NEAR(-m.log(q * (c(2) - q)) - c(3.125)))


def ndtri(p):
    return c(SQRT_2) * erf_inverse_by(c(2) * p - c(1), c(2) * m.minimum(p, c(1) - p))


def log_ndtr(x):
    t = x * c(SQRT_HALF)
    low = m.log(c(0.5) * erfcx(-m.minimum(t, c(0)))) - t * t
    return m.where(x < c(-1), low, m.log1p(c(-0.5) * erfc(m.maximum(t, c(-1)))))


# --- gamma and relatives ---------------------------------------------------------------------------------------


def distance_to_whole(x):
    return x - m.round(x)


def lgamma(x):
    x = m.where(x == c(-INF), c(INF), x)
    reflected = x < c(0.5)
    y = m.where(reflected, c(1) - x, x)
    low = y < c(1.5)
    s, product = m.where(low, y - c(1), y), m.where(low, y, c(1))
    for _ in range(7):
        large = (s > c(2.5)) & (y < c(9))
        s = m.where(large, s - c(1), s)
        product = m.where(large, product * s, product)
    s = m.where(low, s, s - c(2))
    log = m.log(m.where(y < c(9), product, y))
    near = m.where(low, s * LGAMMA_SLOPE(s) - log, s * LGAMMA_SLOPE(s) + log)
    far = (y - c(0.5)) * (log - c(1)) + c(0.4189385332046727) + LGAMMA_TAIL(c(1) / (y * y)) / y
    value = m.where(y < c(9), near, far)
    sine = m.abs(m.sin(c(PI) * distance_to_whole(x)))
    value = m.where(reflected & (x == x), c(LN_PI) - m.log(sine) - value, value)
    return m.where(m.abs(x) < c(TINY), -m.log(m.abs(x)), value)


def digamma(x):
    reflected = x < c(0.5)
    y = m.where(reflected, c(1) - x, x)
    total = c(0)
    for _ in range(10):
        small = y < c(10)
        total = total - m.where(small, c(1) / y, c(0))
        y = m.where(small, y + c(1), y)
    square = c(1) / (y * y)
    value = m.where(y == c(INF), y, m.log(y) - c(0.5) / y - DIGAMMA_TAIL(square) * square + total)
    angle = c(PI) * distance_to_whole(x)
    value = m.where(reflected, value - c(PI) * m.cos(angle) / m.sin(angle), value)
    pole = (x < c(0)) & (m.floor(x) == x)
    return m.where(pole, c(NAN), m.where(x == c(0), m.copysign(c(INF), -x), value))


def zeta_of_positive(s, q):
    """The sum of ``(q + k)**-s`` over ``k = 0, 1, ...``: ten terms, the rest by the formula of Euler and Maclaurin.

    Up to where q is positive terms are added one by one; where that is farther than two millions, the sum is NaN.
    """
    total, k = c(0), 0
    while (q < c(10)) & (k < 2000000):
        total = total + m.pow(q, -s)
        q = q + c(1)
        k += 1
    u = c(1) / (q * q)
    rest = c(1 / 47900160) + (s + c(9)) * (s + c(10)) * u * c(-691 / 1307674368000)
    rest = c(-1 / 1209600) + (s + c(7)) * (s + c(8)) * u * rest
    rest = c(1 / 30240) + (s + c(5)) * (s + c(6)) * u * rest
    rest = c(-1 / 720) + (s + c(3)) * (s + c(4)) * u * rest
    rest = c(1 / 12) + (s + c(1)) * (s + c(2)) * u * rest
    power = m.pow(q, -s)
    value = total + power * (q / (s - c(1)) + c(0.5) + s / q * rest)
    return m.where(q < c(10), c(NAN), value)


def zeta(s, q):
    value = zeta_of_positive(s, q)
    whole = m.floor(q) == q
    value = m.where(q <= c(0), m.where(whole, c(INF), m.where(m.floor(s) == s, value, c(NAN))), value)
    value = m.where(s == c(1), c(INF), m.where(s < c(1), c(NAN), value))
    return m.where((s == s) & (q == q), value, c(NAN))


def polygamma(x, n):
    sign = m.where(m.floor(c(0.5) * n) * c(2) == n, c(-1), c(1))
    return sign * m.exp(lgamma(n + c(1))) * zeta(n + c(1), x)
