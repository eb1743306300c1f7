"""Incomplete gamma and beta functions on scalars, and how samples of these distributions move with their parameters.

As in `scalar_functions`, they are made of `m` and ``c``. What is summed is a function over its density, wherever only
such quotients are needed: nothing overflows then.
"""

from __future__ import annotations

from fastgrad.ops.scalar_functions import INF, NAN, PI, digamma, erfc, lgamma
from fastgrad.ops.vocabulary import c, m

TWO_PI = 2.0 * PI
WIDE = 1e6  # from here on the expansion for large a has more digits than the sums
STEPS = 200000


def gamma_term(a, x):
    """``x**a exp(-x) / gamma(a + 1)``; for large a by Stirling's series, with nothing large to cancel."""
    if a < c(10):
        return m.exp(a * m.log(x) - x - lgamma(a + c(1)))
    mu = (x - a) / a
    u = c(1) / (a * a)
    rest = c(1 / 1260) + u * (c(-1 / 1680) + u * c(1 / 1188))
    rest = (c(1 / 12) + u * (c(-1 / 360) + u * rest)) / a
    return m.exp(-a * (mu - m.log1p(mu)) - rest) / m.sqrt(c(TWO_PI) * a)


def lower_sum(a, x):
    """The lower function over `gamma_term`: ``1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ...``."""
    term, total, n = c(1), c(1), 0
    while (total + term != total) & (n < STEPS):
        n += 1
        term = term * x / (a + c(n))
        total = total + term
    return total


def upper_fraction(a, x):
    """The upper function over ``x**a exp(-x)``: Legendre's continued fraction by the algorithm of Lentz."""
    b = x + c(1) - a
    p, d = c(1e30), c(1) / b
    h, n, step = d, 0, c(0)
    while (m.abs(step - c(1)) > c(1e-16)) & (n < STEPS):
        n += 1
        numerator = -c(n) * (c(n) - a)
        b = b + c(2)
        d = numerator * d + b
        d = c(1) / m.where(m.abs(d) < c(1e-30), c(1e-30), d)
        p = b + numerator / p
        p = m.where(m.abs(p) < c(1e-30), c(1e-30), p)
        step = p * d
        h = h * step
        if (h * step == h) & (n > 2):
            n = STEPS
    return h


def wide_gamma(a, x, sign):
    """The upper (1) or lower (-1) function for a large a: Temme's uniform expansion, two terms of it."""
    mu = (x - a) / a
    half = mu - m.log1p(mu)
    eta = m.copysign(m.sqrt(c(2) * half), mu)
    if m.abs(eta) < c(0.01):
        first = c(-1 / 3) + eta * (c(1 / 12) + eta * (c(-2 / 135) + eta * c(1 / 864)))
    else:
        first = c(1) / mu - c(1) / eta
    rest = m.exp(-a * half) / m.sqrt(c(TWO_PI) * a) * first
    return c(0.5) * erfc(sign * eta * m.sqrt(c(0.5) * a)) + sign * rest


def incomplete_gamma(a, x, upper):
    """The regularised function, the upper one where `upper` is 1 and the lower one where it is 0."""
    if (a < c(0)) | (x < c(0)) | (a != a) | (x != x):
        return c(NAN)
    if (a == c(0)) & (x == c(0)) | (a == c(INF)) & (x == c(INF)):
        return c(NAN)
    if (x == c(0)) | (a == c(INF)):
        return upper
    if (a == c(0)) | (x == c(INF)):
        return c(1) - upper
    if a > c(WIDE):
        return wide_gamma(a, x, c(2) * upper - c(1))
    if (x <= c(1)) | (x <= a):
        lower = gamma_term(a, x) * lower_sum(a, x)
        return m.where(upper == c(1), c(1) - lower, lower)
    above = a * gamma_term(a, x) * upper_fraction(a, x)
    return m.where(upper == c(1), above, c(1) - above)


# --- samples as functions of the parameters ----------------------------------------------------------------------


def gamma_movement_below(a, x):
    """`gamma_movement` for x up to a + 1: the terms of the lower function's series, each with its derivative."""
    term = x / a
    slope = digamma(a) + c(1) / a - m.log(x)
    total, n = term * slope, 0
    last = c(0)
    while ((total != last) | (n < 2)) & (n < STEPS):
        n += 1
        last = total
        step = c(1) / (a + c(n))
        term = term * x * step
        slope = slope + step
        total = total + term * slope
    return total


def gamma_movement_above(a, x):
    """The same for larger x: Legendre's continued fraction and its derivative, by the recurrence of its convergents."""
    # Numerators and denominators of the fraction 1 / (b0 - 1 (1 - a) / (b1 - ...)), and their derivatives by a.
    p0, p1, q0, q1 = c(0), c(1), c(1), x + c(1) - a
    s0, s1, t0, t1 = c(0), c(0), c(0), c(-1)
    h, dh, n, last = p1 / q1, -t1 / (q1 * q1), 0, c(0)
    while ((dh != last) | (n < 3)) & (n < STEPS):
        n += 1
        k = c(n)
        f, b = -k * (k - a), x + c(2) * k + c(1) - a
        p0, p1, s0, s1 = p1, b * p1 + f * p0, s1, b * s1 - p1 + f * s0 + k * p0
        q0, q1, t0, t1 = q1, b * q1 + f * q0, t1, b * t1 - q1 + f * t0 + k * q0
        scale = c(1) / q1
        p0, p1, q0, q1 = p0 * scale, p1 * scale, q0 * scale, c(1)
        s0, s1, t0, t1 = s0 * scale, s1 * scale, t0 * scale, t1 * scale
        last = dh
        h = p1
        dh = s1 - p1 * t1
    return x * (h * (m.log(x) - digamma(a)) + dh)


def gamma_movement_wide(a, x):
    """The same for large a: the expansion of Cornish and Fisher, differentiated with the normal number held."""
    r = m.sqrt(a)
    z = (x - a) / r
    for _ in range(4):
        zz = z * z
        value = a + r * z + (zz - c(1)) / c(3) + z * (zz - c(7)) / (c(36) * r)
        value = value - (zz * (c(3) * zz + c(7)) - c(16)) / (c(810) * a)
        z = z - (value - x) / (r + c(2 / 3) * z)
    zz = z * z
    slope = c(1) + z / (c(2) * r) - z * (zz - c(7)) / (c(72) * a * r)
    return slope + (zz * (c(3) * zz + c(7)) - c(16)) / (c(810) * a * a)


def gamma_movement(a, x):
    """How a sample x of the gamma distribution moves with its shape a, its place among all samples held.

    Minus the derivative of the distribution function by a, over the density (Figurnov, Mohamed, Mnih: Implicit
    reparameterization gradients, NeurIPS 2018).
    """
    if (not (a > c(0))) | (not (x > c(0))) | (x == c(INF)):
        return c(NAN) if x != c(0) else c(0)
    if a > c(10000):
        return gamma_movement_wide(a, x)
    if x <= a + c(1):
        return gamma_movement_below(a, x)
    return gamma_movement_above(a, x)


def beta_sum(a, b, x, fixed):
    """The series of the incomplete beta function over ``x**a (1 - x)**b / B(a, b)``, and its derivative by a parameter.

    The sum of ``x**n (a + b)_n / (a (a + 1)_n)``, by b where `fixed` is 1, by a where it is 0.
    """
    term = c(1) / a
    slope = (fixed - c(1)) / a
    total, moved, n, last = term, term * slope, 0, c(0)
    while ((moved != last) | (n < 2)) & (n < STEPS):
        k = c(n)
        last = moved
        n += 1
        term = term * x * (a + b + k) / (a + k + c(1))
        slope = slope + c(1) / (a + b + k) - (c(1) - fixed) / (a + k + c(1))
        total = total + term
        moved = moved + term * slope
    return total, moved


def beta_movement(x, a, total):
    """How a sample x of the beta distribution (a, total - a) moves with a, over ``1 - x``."""
    b = total - a
    if (not (a > c(0))) | (not (b > c(0))) | (not (x >= c(0))) | (not (x <= c(1))):
        return c(NAN)
    if x == c(0):
        return c(0)
    slope = m.log(x) - digamma(a) + digamma(total)
    if x * (total + c(2)) <= a + c(1):
        value, moved = beta_sum(a, b, x, c(0))
        return -x * (value * slope + moved)
    value, moved = beta_sum(b, a, c(1) - x, c(1))
    return x * (value * slope + moved)
