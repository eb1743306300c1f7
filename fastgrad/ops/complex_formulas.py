"""Formulas of elementwise ops over complex numbers, where they are others than over real ones.

What `m` stands for is `kernels.complexmath`.
"""

from __future__ import annotations

from typing import Any

from fastgrad.ops.vocabulary import c, m

BY_LN_2 = 1.4426950408889634
BY_LN_10 = 0.4342944819032518
LN_2 = 0.6931471805599453


def lerp(x: Any, end: Any, weight: Any) -> Any:
    return m.where(m.is_small(weight), x + weight * (end - x), end - (end - x) * (c(1) - weight))


def isinf(x: Any) -> Any:
    return m.isinf(x)


def log2(x: Any) -> Any:
    return m.log(x) * c(BY_LN_2)


def log10(x: Any) -> Any:
    return m.log(x) * c(BY_LN_10)


def log1p(x: Any) -> Any:
    return m.log1p(x)


def logaddexp(a: Any, b: Any) -> Any:
    """Real parts say which one is large; where both are infinite, so is their difference no number."""
    of_a, of_b = m.real(a), m.real(b)
    low, high = m.where(of_a < of_b, a, b), m.where(of_a < of_b, b, a)
    both = m.where(of_a < 0, low, m.log(m.exp(a) + m.exp(b)))
    sums = m.where((of_a == of_b) & (of_a - of_a != 0), both, high + m.log1p(m.exp(low - high)))
    return m.where(m.isnan(a) | m.isnan(b), a + b, sums)


def expm1(x: Any) -> Any:
    return m.expm1(x)


def exp2(x: Any) -> Any:
    return m.exp(x * c(LN_2))


def tan(x: Any) -> Any:
    return m.tan(x)


def asin(x: Any) -> Any:
    return m.asin(x)


def acos(x: Any) -> Any:
    return m.acos(x)


def atan(x: Any) -> Any:
    return m.atan(x)


def sinh(x: Any) -> Any:
    return m.sinh(x)


def cosh(x: Any) -> Any:
    return m.cosh(x)


def asinh(x: Any) -> Any:
    return m.asinh(x)


def acosh(x: Any) -> Any:
    return m.acosh(x)


def acosh_derivative(g: Any, x: Any) -> Any:
    """The root of the product has another branch cut than the product of the roots."""
    return g * (m.rsqrt(x - c(1)) * m.rsqrt(x + c(1)))


def atanh(x: Any) -> Any:
    return m.atanh(x)
