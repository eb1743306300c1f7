"""The error function and the normal distribution of `vecmath`."""

from __future__ import annotations

from fastgrad.kernels.exponentials import (
    EXP_TAIL,
    LOWER,
    exp_of_negative,
    exp_raised,
    reduce_exponent,
    scaled,
)
from fastgrad.kernels.scalar_ir import (
    absolute,
    constant_of,
    copysign,
    fma,
    formula,
    like,
    polynomial_in,
    where,
)

INVERSE_SQRT_2PI = constant_of(0.3989422917366028, 0.3989422804014327)

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
NORMAL_TAIL_32 = (
    0.7552851438522339, -0.6078965663909912, 0.38713690638542175, -0.18652339279651642,
    0.06040389463305473, -0.007525546941906214, -0.003513033501803875, 0.001570274238474667,
    0.00018036054098047316, -0.0001315013214480132,
)  # fmt: skip
NORMAL_TAIL = polynomial_in(
    f32=NORMAL_TAIL_32,
    f64=(
        0.7552851304157515, -0.6078966419718921, 0.38713740074221936, -0.18652185795966614,
        0.060396574890671524, -0.0075401889664123865, -0.0034796923617095147, 0.0016308184529366706,
        0.0001333442495181483, -0.0002310949008278128, -1.9078493354472657e-06, 3.5144554876020776e-05,
        7.149922610742799e-07, -5.919963340512344e-06, -6.252575433234647e-07, 1.0217586141850478e-06,
        2.641763309816897e-07, -1.5646733717648802e-07, -7.720191024086436e-08, 1.598074967656017e-08,
        1.4593627371577633e-08, -3.1213364300000207e-10, -1.1843146131700302e-09,
    ),
)  # fmt: skip
NORMAL_FAR_32 = 14.375  # both tails are lost beyond
NORMAL_FAR = constant_of(NORMAL_FAR_32, 38.6)


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
