"""Print the polynomials and constants of `kernels/vecmath.py`, its parts and `ops/scalar_functions.py`; needs mpmath.

    python tools/fit_coefficients.py           # all of them, in seconds
    python tools/fit_coefficients.py EXP_TAIL   # one

A fit is the minimax polynomial of a function under a weight, found by the exchange algorithm of Remez in
40-digit arithmetic. The weight turns the polynomial's error into the relative error of the function that the
formula computes with it. Coefficients are rounded to the dtype at the end; the error printed is that of the
rounded polynomial, evaluated exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

mp.mp.dps = 40
Function = Callable[[Any], Any]
Rounding = type[np.float32] | type[np.float64]


class Fit(NamedTuple):
    """A polynomial to find.

    Parameters
    ----------
    dtype : numpy dtype
        What the coefficients are rounded to.
    target, weight : callable
        ``|polynomial(t) - target(t)| * weight(t)`` is minimised.
    degree : int
        The polynomial's degree.
    low, high : number
        The interval of t.
    """

    dtype: Rounding
    target: Function
    weight: Function
    degree: int
    low: Any
    high: Any


def remez(fit: Fit, rounds: int = 8, points: int = 1500) -> list[Any]:
    """The coefficients of the minimax polynomial, lowest power first."""
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    unknowns = fit.degree + 2  # the coefficients and the levelled error
    nodes = [_chebyshev(low, high, k, unknowns) for k in range(unknowns)]
    grid = [_chebyshev(low, high, k, points) for k in range(points)]
    values = [fit.target(t) for t in grid]
    weights = [fit.weight(t) for t in grid]
    coefficients: list[Any] = []
    for _ in range(rounds):
        matrix, right = mp.matrix(unknowns, unknowns), mp.matrix(unknowns, 1)
        for row, t in enumerate(nodes):
            for power in range(unknowns - 1):
                matrix[row, power] = t**power
            matrix[row, unknowns - 1] = (-1) ** row / fit.weight(t)
            right[row] = fit.target(t)
        coefficients = list(mp.lu_solve(matrix, right))[:-1]
        errors = [
            (mp.polyval(coefficients[::-1], t) - v) * w for t, v, w in zip(grid, values, weights, strict=True)
        ]
        extremes = _alternating_extremes(errors, unknowns)
        if len(extremes) < unknowns:
            break
        nodes = [grid[k] for k in extremes]
    return coefficients


def _chebyshev(low: Any, high: Any, k: int, count: int) -> Any:
    return (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * count))


def _alternating_extremes(errors: list[Any], wanted: int) -> list[int]:
    """The index of the largest error of each sign run, trimmed at the ends to `wanted`."""
    extremes = [0]
    for k in range(1, len(errors)):
        if (errors[k] > 0) != (errors[extremes[-1]] > 0):
            extremes.append(k)
        elif abs(errors[k]) > abs(errors[extremes[-1]]):
            extremes[-1] = k
    while len(extremes) > wanted:
        extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
    return extremes


def rounded(coefficients: list[Any], dtype: Rounding) -> list[float]:
    """The coefficients as numbers of `dtype`."""
    return [float(dtype(mp.nstr(c, 30))) for c in coefficients]


def largest_error(fit: Fit, coefficients: list[float], points: int = 3001) -> Any:
    """The largest weighted error of the rounded polynomial."""
    grid = [_chebyshev(mp.mpf(fit.low), mp.mpf(fit.high), k, points) for k in range(points)]
    exact = [mp.mpf(c) for c in coefficients[::-1]]
    return max(abs(mp.polyval(exact, t) - fit.target(t)) * fit.weight(t) for t in grid)


# --- what is approximated -----------------------------------------------------------------------------------


def expm1_tail(r: Any) -> Any:
    """``(exp(r) - 1 - r) / r**2``."""
    return (mp.expm1(r) - r) / r**2 if abs(r) > 1e-12 else mp.mpf(1) / 2 + r / 6


def log1p_tail(f: Any) -> Any:
    """``(log(1 + f) - f + f**2 / 2) / f**3``."""
    return (mp.log1p(f) - f + f * f / 2) / f**3 if abs(f) > 1e-10 else mp.mpf(1) / 3 - f / 4


def atanh_tail(w: Any) -> Any:
    """``(log(1 + f) / s - 2) / w`` where ``s = f / (2 + f)`` and ``w = s**2``."""
    s = mp.sqrt(w)
    return (2 * mp.atanh(s) / s - 2) / w if w > 1e-20 else mp.mpf(2) / 3


LOG2_FIRST, LOG2_SECOND = 2 / mp.log(2), 2 / (3 * mp.log(2))


def log2_tail(w: Any) -> Any:
    """``((log2(1 + f) / s - a) / w - b) / w`` where ``s = f / (2 + f)``, ``w = s**2``, and a and b make it finite."""
    if w < mp.mpf(10) ** -8:
        return (mp.mpf(1) / 5 + w / 7 + w * w / 9) * LOG2_FIRST
    s = mp.sqrt(w)
    return ((LOG2_FIRST * mp.atanh(s) / s - LOG2_FIRST) / w - LOG2_SECOND) / w


def exp2_ratio(r: Any) -> Any:
    """``(2**r - 1) / r``."""
    return mp.expm1(r * mp.log(2)) / r if abs(r) > 1e-30 else mp.log(2)


def sin_tail(z: Any) -> Any:
    """``(sin(r) / r - 1) / z`` where ``z = r**2``."""
    r = mp.sqrt(z)
    return (mp.sin(r) / r - 1) / z if z > 1e-20 else -mp.mpf(1) / 6


def cos_tail(z: Any) -> Any:
    """``(cos(r) - 1 + z / 2) / z**2`` where ``z = r**2``."""
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > 1e-12 else mp.mpf(1) / 24 - z / 720


def erf_tail(z: Any) -> Any:
    """``erf(x) / x - 1`` where ``z = x**2``."""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if z > 1e-24 else 2 / mp.sqrt(mp.pi) - 1


def erfc_exponent(a: Any) -> Any:
    """``-log(erfc(a))``."""
    return -mp.log(mp.erfc(a))


def erfc_scaled(t: Any) -> Any:
    """``erfc(a) * exp(a**2)`` where ``t = (a - 2) / (a + 2)``."""
    a = 2 * (1 + t) / (1 - t)
    return mp.erfc(a) * mp.exp(a * a)


def _erfc_scaled_weight(t: Any) -> Any:
    a = 2 * (1 + t) / (1 - t)
    return mp.exp(-a * a) / mp.erf(a)


def normal_tail(t: Any) -> Any:
    """``(a + 4) * erfc(a / sqrt(2)) / 2 * exp(a**2 / 2)`` where ``t = (a - 4) / (a + 4)``."""
    a = 4 * (1 + t) / (1 - t)
    return (a + 4) * mp.erfc(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2)


def erf_inverse_ratio(w: Any) -> Any:
    """``x / erf(x)`` where ``w = -log(1 - erf(x)**2)``; for large w by Newton's method on the logarithm of erfc."""
    if w < 1e-15:
        return mp.sqrt(mp.pi) / 2
    y = mp.sqrt(-mp.expm1(-w))
    if w < 1:
        return mp.erfinv(y) / y
    log, x = -w - mp.log1p(y), mp.sqrt(w) if w > 3 else mp.mpf(1)
    for _ in range(60):
        step = (mp.log(mp.erfc(x)) - log) * mp.sqrt(mp.pi) / 2 * mp.exp(x * x) * mp.erfc(x)
        x += step
        if abs(step) < x * mp.mpf(10) ** -36:
            break
    return x / y


def erf_inverse_fit(degree: int, low: str, high: str, middle: str, kind: str) -> Fit:
    """In w or its root s less `middle`, or, over s, in ``(s - middle) / (s + middle)``."""
    a = mp.mpf(middle)
    ratio: Function = {
        "w": lambda t: erf_inverse_ratio(t + a),
        "s": lambda t: erf_inverse_ratio((t + a) ** 2),
        "t": lambda t: erf_inverse_ratio((a * (1 + t) / (1 - t)) ** 2) / (a * (1 + t) / (1 - t)),
    }[kind]
    ends = [(mp.mpf(x) - a) / (mp.mpf(x) + a if kind == "t" else 1) for x in (low, high)]
    return Fit(F64, ratio, lambda t: 1 / ratio(t), degree, *ends)


def _normal_far(a: str) -> Any:
    return (mp.mpf(a) - 4) / (mp.mpf(a) + 4)


def odd_tail(odd: Function) -> Function:
    """``(odd(x) / x - 1) / z`` where ``z = x**2``."""

    def tail(z: Any) -> Any:
        x = mp.sqrt(z)
        return (
            (odd(x) / x - 1) / z
            if z > 1e-12
            else mp.diff(lambda v: odd(mp.sqrt(v)) / mp.sqrt(v), mp.mpf("1e-8"))
        )

    return tail


def erfcx_ratio(t: Any) -> Any:
    """``(1 + 2 a) erfc(a) exp(a**2)`` where ``t = (a - 3.75) / (a + 3.75)``."""
    a = mp.mpf("3.75") * (1 + t) / (1 - t)
    with mp.extradps(400 if a < 30 else 0):
        scaled = mp.erfc(a) * mp.exp(a * a) if a < 30 else _erfcx_far(a)
    return (1 + 2 * a) * scaled


def _erfcx_far(a: Any) -> Any:
    total, term = mp.mpf(1), mp.mpf(1)
    for k in range(1, 25):
        term *= -(2 * k - 1) / (2 * a * a)
        total += term
    return total / (a * mp.sqrt(mp.pi))


def lgamma_slope(s: Any) -> Any:
    """``log(gamma(2 + s)) / s``."""
    return mp.loggamma(2 + s) / s if abs(s) > 1e-15 else mp.psi(0, 2) + s * mp.psi(1, 2) / 2


def bessel_far(order: int) -> Function:
    """``sqrt(x) exp(-x) I(x)`` of an order where ``t = 16 / x - 1``."""

    def scaled(t: Any) -> Any:
        x = 16 / (1 + t)
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return scaled


def bessel_over_zeros(order: int) -> Function:
    """J of an order over its first two factors ``x**2 - r**2`` (and over x) where ``t = 64 - x**2``."""
    squares = [mp.besseljzero(order, k) ** 2 for k in (1, 2)]

    def ratio(t: Any) -> Any:
        z = 64 - t
        x = mp.sqrt(z)
        value = mp.besselj(order, x) / x**order if z > 1e-20 else mp.mpf(1) / 2**order
        return value / ((z - squares[0]) * (z - squares[1]))

    return ratio


def bessel_second_regular(order: int) -> Function:
    """What Y adds to ``2/pi log(x) J`` (and to ``-2/(pi x)``; then over x) where ``t = x**2 / 32 - 1``."""

    def regular(t: Any) -> Any:
        x = mp.sqrt(32 * (1 + t))
        if x < 1e-12:
            inner = 2 * (mp.euler - mp.log(2)) / mp.pi
            return inner if order == 0 else (inner - 1 / mp.pi) / 2
        with mp.extradps(30):
            rest = mp.bessely(order, x) - 2 / mp.pi * mp.log(x) * mp.besselj(order, x)
            return rest if order == 0 else (rest + 2 / (mp.pi * x)) / x

    return regular


def bessel_wave(order: int, part: Function) -> Function:
    """P, or Q times x, where ``J + i Y = sqrt(2 / (pi x)) (P + i Q) exp(i phase)`` and ``(t + 1) / 2 = 64 / x**2``."""

    def wave(t: Any) -> Any:
        x = mp.sqrt(128 / (1 + t))
        phase = x - (2 * order + 1) * mp.pi / 4
        return part(
            x, (mp.besselj(order, x) + 1j * mp.bessely(order, x)) * mp.sqrt(mp.pi * x / 2) * mp.expj(-phase)
        )

    return wave


def real_part(_: Any, wave: Any) -> Any:
    """P of a wave ``P + i Q``."""
    return mp.re(wave)


def imag_part(x: Any, wave: Any) -> Any:
    """Q of a wave ``P + i Q``, times x."""
    return mp.im(wave) * x


def bessel_decay(order: int) -> Function:
    """``sqrt(x) exp(x) K(x)`` of an order where ``t = (x - 4) / (x + 2)``, for x from 1 on."""

    def scaled(t: Any) -> Any:
        x = (4 + 2 * t) / (1 - t)
        return mp.sqrt(x) * mp.exp(x) * mp.besselk(order, x)

    return scaled


def airy_near(t: Any) -> Any:
    """``exp(2/3 x**1.5) Ai(x)`` where ``t = sqrt(x) - 1``."""
    s = 1 + t
    return mp.exp(2 * s**3 / 3) * mp.airyai(s * s)


def airy_far(t: Any) -> Any:
    """``x**0.25 exp(u) Ai(x)`` where ``u = 2/3 x**1.5`` and ``t = 32 / (3 u) - 1``."""
    u = mp.mpf(32) / 3 / (1 + t)
    x = (3 * u / 2) ** (mp.mpf(2) / 3)
    return x ** mp.mpf("0.25") * mp.exp(u) * mp.airyai(x)


AIRY_ZEROS = [mp.airyaizero(k) for k in (1, 2)]


def airy_over_zeros(t: Any) -> Any:
    """Ai over its first two factors ``x - r`` where ``t = -x - 2.25``."""
    x = -(t + mp.mpf("2.25"))
    return mp.airyai(x) / ((x - AIRY_ZEROS[0]) * (x - AIRY_ZEROS[1]))


def inverse_of(f: Function) -> Function:
    """A weight by which errors are relative ones."""
    return lambda t: 1 / f(t)


def airy_wave(part: Function) -> Function:
    """P, or Q times u, where ``Ai - i Bi = a**-0.25 (P + i Q) exp(i (u - pi / 4))`` at ``x = -a``.

    With ``u = 2/3 a**1.5`` and ``(t + 1) / 2 = 40.5 / u**2``.
    """

    def wave(t: Any) -> Any:
        u = mp.sqrt(81 / (1 + t))
        a = (3 * u / 2) ** (mp.mpf(2) / 3)
        together = mp.airyai(-a) - 1j * mp.airybi(-a)
        return part(u, together * a ** mp.mpf("0.25") * mp.expj(-(u - mp.pi / 4)))

    return wave


F32, F64 = np.float32, np.float64
TINY_32, TINY_64 = mp.mpf(10) ** -9, mp.mpf(10) ** -19  # a weight must not be zero
LN2_HALF = mp.log(2) / 2 * mp.mpf("1.0002")
ROOT_HALF = mp.sqrt(mp.mpf(1) / 2)
S_MAX = (3 - 2 * mp.sqrt(2)) * mp.mpf("1.0005")  # f / (2 + f) at the ends of [sqrt(1/2) - 1, sqrt(2) - 1]
QUARTER = (mp.pi / 4 * mp.mpf("1.001")) ** 2
ERFC_LOW = mp.mpf("-1.11") / mp.mpf("2.89")  # (a - 2) / (a + 2) for a = 0.89
FITS = {
    "EXP_TAIL f32": Fit(F32, expm1_tail, lambda r: r * r / mp.exp(r) + TINY_32, 4, -LN2_HALF, LN2_HALF),
    "EXP_TAIL f64": Fit(F64, expm1_tail, lambda r: r * r / mp.exp(r) + TINY_64, 9, -LN2_HALF, LN2_HALF),
    "TANH_TAIL_32": Fit(
        F32, odd_tail(mp.tanh), lambda z: z / (1 + z * odd_tail(mp.tanh)(z)), 7, 0, mp.mpf("1.05") ** 2
    ),
    "LOG_TAIL_32": Fit(
        F32,
        log1p_tail,
        lambda f: abs(f**3 / mp.log1p(f)) if abs(f) > 1e-10 else f * f + mp.mpf(10) ** -9,
        7,
        ROOT_HALF - 1,
        mp.sqrt(2) - 1,
    ),
    "LOG_TAIL_64": Fit(F64, atanh_tail, lambda w: w / 2 + mp.mpf(10) ** -6, 6, 0, S_MAX**2),
    "POW_LOG": Fit(F64, atanh_tail, lambda w: w / 2 + mp.mpf(10) ** -6, 3, 0, S_MAX**2),
    "POW_LOG2": Fit(F64, log2_tail, lambda w: w * w / LOG2_FIRST + mp.mpf(10) ** -8, 8, 0, S_MAX**2),
    "POW_EXP": Fit(F64, exp2_ratio, lambda r: abs(r) + mp.mpf(10) ** -6, 5, "-0.5001", "0.5001"),
    "SIN_TAIL f32": Fit(F32, sin_tail, lambda z: z + mp.mpf(10) ** -6, 2, 0, QUARTER),
    "SIN_TAIL f64": Fit(F64, sin_tail, lambda z: z + mp.mpf(10) ** -6, 5, 0, QUARTER),
    "COS_TAIL f32": Fit(F32, cos_tail, lambda z: z * z + mp.mpf(10) ** -6, 2, 0, QUARTER),
    "COS_TAIL f64": Fit(F64, cos_tail, lambda z: z * z + mp.mpf(10) ** -6, 5, 0, QUARTER),
    "ERF_SMALL f32": Fit(F32, erf_tail, lambda z: 1 / (1 + erf_tail(z)), 5, 0, mp.mpf("0.93") ** 2),
    "ERF_SMALL f64": Fit(F64, erf_tail, lambda z: 1 / (1 + erf_tail(z)), 11, 0, mp.mpf("0.91") ** 2),
    "ERF_LARGE_32": Fit(F32, erfc_exponent, lambda a: mp.erfc(a) / mp.erf(a), 6, "0.92", "3.93"),
    "ERF_LARGE_64": Fit(F64, erfc_scaled, _erfc_scaled_weight, 13, ERFC_LOW, mp.mpf(1) / 2),
    "NORMAL_TAIL f32": Fit(F32, normal_tail, lambda t: 1 / normal_tail(t), 9, -1, _normal_far("14.375")),
    "NORMAL_TAIL f64": Fit(F64, normal_tail, lambda t: 1 / normal_tail(t), 22, -1, _normal_far("38.6")),
    "ATAN_TAIL": Fit(F64, odd_tail(mp.atan), lambda z: z + mp.mpf(10) ** -6, 10, 0, "0.172"),
    "ASIN_TAIL": Fit(F64, odd_tail(mp.asin), lambda z: z + mp.mpf(10) ** -6, 11, 0, "0.25"),
    "ERFCX": Fit(F64, erfcx_ratio, lambda t: 1, 24, -1, "0.9999"),
    "ERF_INVERSE_NEAR": erf_inverse_fit(22, "0", "6.2501", "3.125", "w"),
    "ERF_INVERSE_MIDDLE": erf_inverse_fit(18, "2.4999", "4.0001", "3.25", "s"),
    "ERF_INVERSE_FAR": erf_inverse_fit(21, "3.9999", "8.0001", "5.75", "t"),
    "ERF_INVERSE_FARTHEST": erf_inverse_fit(18, "7.9999", "27.4", "14.75", "t"),
    "ERF_INVERSE_NEAR_32": erf_inverse_fit(12, "0", "6.2501", "3.125", "w"),
    "ERF_INVERSE_MIDDLE_32": erf_inverse_fit(8, "2.4999", "4.0001", "3.25", "s"),
    "ERF_INVERSE_LAST": erf_inverse_fit(17, "3.9999", "6.02", "5", "s"),
    "LGAMMA_SLOPE": Fit(F64, lgamma_slope, lambda s: 2, 17, "-0.5001", "0.5001"),
    "BESSEL_0": Fit(F64, bessel_far(0), lambda t: mp.mpf("2.5"), 21, "-0.99999", 1),
    "BESSEL_1": Fit(F64, bessel_far(1), lambda t: mp.mpf("2.5"), 21, "-0.99999", 1),
    **{
        f"BESSEL_{name}{order}": fit
        for order in (0, 1)
        for name, fit in {
            "J": Fit(F64, bessel_over_zeros(order), inverse_of(bessel_over_zeros(order)), 15, 0, 64),
            "Y": Fit(F64, bessel_second_regular(order), lambda t: 1, 16, -1, 1),
            "P": Fit(F64, bessel_wave(order, real_part), lambda t: 1, 13, "-0.999999", 1),
            "Q": Fit(F64, bessel_wave(order, imag_part), lambda t: mp.mpf(1) / 8, 13, "-0.999999", 1),
            "K": Fit(F64, bessel_decay(order), lambda t: mp.mpf("0.8"), 26, -1, "0.9999"),
        }.items()
    },
    "AIRY_NEAR": Fit(F64, airy_near, lambda t: 4, 26, -1, 1),
    "AIRY_FAR": Fit(F64, airy_far, lambda t: mp.mpf("3.6"), 17, "-0.99999", 1),
    "AIRY_MIDDLE": Fit(F64, airy_over_zeros, inverse_of(airy_over_zeros), 25, "-2.25", "2.25"),
    "AIRY_P": Fit(F64, airy_wave(real_part), lambda t: mp.mpf("1.8"), 13, "-0.999999", 1),
    "AIRY_Q": Fit(F64, airy_wave(imag_part), lambda t: mp.mpf("0.3"), 13, "-0.999999", 1),
}
CONSTANTS = {
    "LN2": mp.log(2),
    "LOG2E": 1 / mp.log(2),
    "LOG10E": 1 / mp.log(10),
    "LOG10_2": mp.log(2) / mp.log(10),
    "LOG2_FIRST": LOG2_FIRST,
    "LOG2_SECOND": LOG2_SECOND,
    "HALF_PI": mp.pi / 2,
    **{f"BESSEL_J{order} zero {k}": mp.besseljzero(order, k) for order in (0, 1) for k in (1, 2)},
    **{f"AIRY zero {k}": AIRY_ZEROS[k - 1] for k in (1, 2)},
    "TWO_OVER_PI": 2 / mp.pi,
}


def parts(value: Any, dtype: Rounding, count: int = 3) -> list[float]:
    """`value` as a sum of numbers of `dtype`, each the nearest to what is left."""
    result = []
    for _ in range(count):
        result.append(float(dtype(mp.nstr(value, 30))))
        value -= mp.mpf(result[-1])
    return result


def main(wanted: list[str]) -> None:
    """Print the constants, then each fit whose name starts with a word of `wanted`."""
    for name, value in CONSTANTS.items():
        for dtype in (F32, F64):
            print(f"{name} {dtype.__name__}: {parts(value, dtype)}")
    for name, fit in FITS.items():
        if wanted and not name.startswith(tuple(wanted)):
            continue
        coefficients = rounded(remez(fit), fit.dtype)
        print(f"{name}: error {mp.nstr(largest_error(fit, coefficients), 3)}", flush=True)
        print("".join(f"    {c!r},\n" for c in coefficients), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
