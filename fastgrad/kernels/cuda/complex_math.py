"""The vocabulary `m` of formulas over complex numbers on the CUDA device.

What is made of functions of the parts is shared with the CPU (`kernels.complex_functions`). The functions that the CPU
takes from the C library are made here, in the dtype of the parts: branch cuts and special values are those of C's annex
G; the cuts of the inverse functions are those of the square roots that they are made of (Kahan 1987).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.complex_functions import Functions, shared_functions
from fastgrad.native.contracts.element_types import COMPLEX64


class _Limits(NamedTuple):
    """Numbers of a dtype of parts.

    Attributes
    ----------
    far : float
        From where on an exponential may overflow that is multiplied by a sine or a cosine.
    flat : float
        From where on the hyperbolic tangent is one.
    tiny, up, up_back, huge, down, down_back : float
        Below and above which numbers a square root is that of a multiple; which one, and what brings it back.
    """

    far: float
    flat: float
    tiny: float
    up: float
    up_back: float
    huge: float
    down: float
    down_back: float


_LIMITS = {
    np.float32: _Limits(80, 11, 2.0**-60, 2.0**80, 2.0**-40, 2.0**120, 2.0**-20, 2.0**10),
    np.float64: _Limits(700, 22, 2.0**-900, 2.0**600, 2.0**-300, 2.0**1000, 2.0**-40, 2.0**20),
}


def vocabulary(
    dtype: int, floats: Any, words: Mapping[str, Any], decorate: Callable[[Any], Any]
) -> ModuleType:
    """The namespace `m` of a complex dtype, from that of its parts."""
    part: Any = np.float32 if dtype == COMPLEX64 else np.float64
    w = SimpleNamespace(**words)
    w.floats, w.part, w.limits, w.decorate = floats, part, _LIMITS[part], decorate
    w.length, w.angle = _length_and_angle(w)
    w.log_of, w.sqrt_of, w.turned = _log(w), _sqrt(w), _turned(w)
    functions = _hyperbolic(w) | _inverse(w)
    around = SimpleNamespace(
        real=w.real, imag=w.imag, make=w.make, where=_where(w), length=w.length, angle=w.angle, log=w.log_of,
        sqrt=w.sqrt_of, power=_power(w),
    )  # fmt: skip
    module = ModuleType(f"fastgrad.kernels.cuda.complex_math.{dtype}")
    vars(module).update(functions | shared_functions(around, floats, part, decorate))
    return module


def _where(w: Any) -> Any:
    real, imag, make, choose = w.real, w.imag, w.make, w.where

    def where(condition, x, y):
        return make(choose(condition, real(x), real(y)), choose(condition, imag(x), imag(y)))

    return w.decorate(where)


def _length_and_angle(w: Any) -> tuple[Any, Any]:
    real, imag, hypot, atan2 = w.real, w.imag, w.hypot, w.atan2

    def length(x):
        return hypot(real(x), imag(x))

    def angle(x):
        return atan2(imag(x), real(x))

    return w.decorate(length), w.decorate(angle)


def _turned(w: Any) -> Any:
    make, sin, cos = w.make, w.sin, w.cos

    def turned(size, angle):
        """The number of a length and an angle; of none it is real, however long."""
        if angle == 0:
            return make(size, angle)
        return make(size * cos(angle), size * sin(angle))

    return w.decorate(turned)


def _log(w: Any) -> Any:
    real, imag, make, absolute, greater, smaller = w.real, w.imag, w.make, w.absolute, w.greater, w.smaller
    fma, log, log1p, where, atan2 = w.fma, w.log, w.log1p, w.where, w.atan2
    zero, half, one, two, inf = map(w.part, (0, 0.5, 1, 2, np.inf))

    def near_one(a, b):
        """``a**2 + b**2 - 1``: what rounding loses of the squares and of the first sum counts where that is small."""
        p, q = a * a, b * b
        lost = fma(a, a, -p) + fma(b, b, -q)
        total = p - one
        part = total - p
        lost += (p - (total - part)) + (-one - part)
        whole = total + q
        part = whole - total
        return whole + (lost + ((total - (whole - part)) + (q - part)))

    near_one = w.decorate(near_one)

    def log_of(x):
        re, im = real(x), imag(x)
        a, b = absolute(re), absolute(im)
        large, small = greater(a, b), smaller(a, b)
        if large >= half and large <= two:
            size = half * log1p(near_one(large, small))
        else:
            ratio = where(large == zero, zero, small / large)
            size = log(large) + half * log1p(ratio * ratio)
        both = a + b
        size = where(both != both, both, size)
        return make(where((a == inf) | (b == inf), inf, size), atan2(im, re))

    return w.decorate(log_of)


def _sqrt(w: Any) -> Any:
    real, imag, make, absolute, greater, where = w.real, w.imag, w.make, w.absolute, w.greater, w.where
    sqrt, hypot, copysign = w.sqrt, w.hypot, w.copysign
    zero, half, one, inf = map(w.part, (0, 0.5, 1, np.inf))
    tiny, up, up_back, huge, down, down_back = map(w.part, w.limits[2:])

    def sqrt_of(x):
        re, im = real(x), imag(x)
        a, b = absolute(re), absolute(im)
        large = greater(a, b)
        if b == inf:
            return make(b, im)
        if a == zero and b == zero:
            return make(zero, im)
        scale = where(large < tiny, up, where(large > huge, down, one))
        back = where(large < tiny, up_back, where(large > huge, down_back, one))
        a, b = a * scale, b * scale
        longer = sqrt(half * (a + hypot(a, b)))
        shorter = half * b / longer * back
        longer *= back
        if re >= zero:
            return make(longer, copysign(shorter, im))
        return make(shorter, copysign(longer, im))

    return w.decorate(sqrt_of)


def _power(w: Any) -> Any:
    real, imag, power, exp, turned = w.real, w.imag, w.power, w.exp, w.turned
    length, angle, log_of = w.length, w.angle, w.log_of

    def power_of(x, y):
        """A real exponent is one of the length: more exact than a product with a logarithm."""
        u, v, theta = real(y), imag(y), angle(x)
        if v == 0:
            return turned(power(length(x), u), u * theta)
        size = real(log_of(x))
        return turned(exp(u * size - v * theta), u * theta + v * size)

    return w.decorate(power_of)


# --- sines and their kind --------------------------------------------------------------------------------------


def _hyperbolic(w: Any) -> Functions:
    """The sine, cosine and tangent of ``a + bi`` and of ``i (a + bi)``."""
    decorate, make, real, imag = w.decorate, w.make, w.real, w.imag
    sinh, cosh, tanh = _sinh_and_cosh(w)[0], _sinh_and_cosh(w)[1], _tanh(w)

    def sin_of(x):
        y = sinh(make(-imag(x), real(x)))
        return make(imag(y), -real(y))

    def cos_of(x):
        return cosh(make(-imag(x), real(x)))

    def tan_of(x):
        y = tanh(make(-imag(x), real(x)))
        return make(imag(y), -real(y))

    circular = dict(zip(("sin", "cos", "tan"), map(decorate, (sin_of, cos_of, tan_of)), strict=True))
    return {"sinh": sinh, "cosh": cosh, "tanh": tanh, **circular}


def _sinh_and_cosh(w: Any) -> tuple[Any, Any]:
    real, imag, make, where, absolute, copysign = w.real, w.imag, w.make, w.where, w.absolute, w.copysign
    exp, sin, cos, sinh, cosh = w.exp, w.sin, w.cos, w.sinh, w.cosh
    zero, half, one, inf, far = map(w.part, (0, 0.5, 1, np.inf, w.limits.far))

    def factors(x):
        """Two factors of each hyperbolic function of the real part, whose product may overflow."""
        re = real(x)
        a = absolute(re)
        if a > far:
            e = exp(half * a)
            return half * copysign(e, re), half * e, e
        return sinh(re), cosh(re), one

    factors = w.decorate(factors)

    def circle(x):
        """The cosine and sine of the imaginary part; beside an infinite real one they are never none."""
        im = imag(x)
        across, up = cos(im), sin(im)
        lost = (absolute(real(x)) == inf) & (across != across)
        return where(lost, one, across), up

    circle = w.decorate(circle)

    def sinh_of(x):
        re, im = real(x), imag(x)
        s, c, more = factors(x)
        across, up = circle(x)
        return make(where(re == zero, re, s * across * more), where(im == zero, im, c * up * more))

    def cosh_of(x):
        re, im = real(x), imag(x)
        s, c, more = factors(x)
        across, up = circle(x)
        nothing = copysign(zero, re) * copysign(one, im)
        return make(c * across * more, where((re == zero) | (im == zero), nothing, s * up * more))

    return w.decorate(sinh_of), w.decorate(cosh_of)


def _tanh(w: Any) -> Any:
    real, imag, make, where, absolute, copysign = w.real, w.imag, w.make, w.where, w.absolute, w.copysign
    exp, sin, cos, sinh, cosh = w.exp, w.sin, w.cos, w.sinh, w.cosh
    zero, one, two, four, inf, flat = map(w.part, (0, 1, 2, 4, np.inf, w.limits.flat))

    def tanh_of(x):
        re, im = real(x), imag(x)
        a, across, up = absolute(re), cos(im), sin(im)
        if a > flat:
            slope = four * across * up * exp(-two * a)
            return make(copysign(one, re), where((a == inf) & (slope != slope), copysign(zero, im), slope))
        s, c = sinh(re), cosh(re)
        whole = s * s + across * across
        return make(where(re == zero, re, s * c / whole), where(im == zero, im, across * up / whole))

    return w.decorate(tanh_of)


# --- their inverses --------------------------------------------------------------------------------------------


def _inverse(w: Any) -> Functions:
    decorate, make, real, imag = w.decorate, w.make, w.real, w.imag
    asin, acos, acosh = _by_roots(w)
    atanh = _atanh(w)

    def asinh_of(x):
        y = asin(make(-imag(x), real(x)))
        return make(imag(y), -real(y))

    def atan_of(x):
        y = atanh(make(-imag(x), real(x)))
        return make(imag(y), -real(y))

    return {
        "asin": asin, "acos": acos, "acosh": acosh, "atanh": atanh, "asinh": decorate(asinh_of),
        "atan": decorate(atan_of),
    }  # fmt: skip


def _by_roots(w: Any) -> tuple[Any, Any, Any]:
    """From the roots of ``1 - x`` and ``1 + x``: products of their parts have no differences that cancel."""
    real, imag, make, absolute, copysign = w.real, w.imag, w.make, w.absolute, w.copysign
    sqrt_of, atan2, asinh = w.sqrt_of, w.atan2, w.asinh
    one, two, inf = map(w.part, (1, 2, np.inf))

    def is_infinite(x):
        return (absolute(real(x)) == inf) | (absolute(imag(x)) == inf)

    is_infinite = w.decorate(is_infinite)

    def asin_of(x):
        re, im = real(x), imag(x)
        if is_infinite(x):
            return make(atan2(re, absolute(im)), copysign(inf, im))
        r, s = sqrt_of(make(one - re, -im)), sqrt_of(make(one + re, im))
        root = real(r) * real(s) - imag(r) * imag(s)
        return make(atan2(re, root), asinh(real(r) * imag(s) - imag(r) * real(s)))

    def acos_of(x):
        re, im = real(x), imag(x)
        if is_infinite(x):
            return make(absolute(atan2(im, re)), -copysign(inf, im))
        r, s = sqrt_of(make(one - re, -im)), sqrt_of(make(one + re, im))
        return make(two * atan2(real(r), real(s)), asinh(real(s) * imag(r) - imag(s) * real(r)))

    def acosh_of(x):
        re, im = real(x), imag(x)
        if is_infinite(x):
            return make(inf, atan2(im, re))
        r, s = sqrt_of(make(re - one, im)), sqrt_of(make(re + one, im))
        return make(asinh(real(r) * real(s) + imag(r) * imag(s)), two * atan2(imag(r), real(s)))

    return w.decorate(asin_of), w.decorate(acos_of), w.decorate(acosh_of)


def _atanh(w: Any) -> Any:
    real, imag, make, where, absolute, copysign = w.real, w.imag, w.make, w.where, w.absolute, w.copysign
    hypot, log, log1p, atan2 = w.hypot, w.log, w.log1p, w.atan2
    zero, quarter, half, one, four, inf, right = map(w.part, (0, 0.25, 0.5, 1, 4, np.inf, np.pi / 2))

    def atanh_of(x):
        re, im = real(x), imag(x)
        a = absolute(re)
        if a == inf or absolute(im) == inf:
            return make(copysign(zero, re), where(im != im, im, copysign(right, im)))
        size = hypot(one - a, im)
        ratio = four * (a / size) / size
        stretch = quarter * log1p(ratio)
        if ratio == inf and size > zero:  # closer to one than a ratio can say
            stretch = quarter * log(four * a) - half * log(size)
        turn = half * atan2(im, half * ((one - a) * (one + a) - im * im))
        return make(copysign(stretch, re), turn)

    return w.decorate(atanh_of)
