"""Bessel's and Airy's functions by integrals and power series, for tables of cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .common import quiet

_PANELS = 16
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(30)


def _integral(f: Callable[[np.ndarray], np.ndarray], high: float) -> np.ndarray:
    """The integral of a function from 0 on, along a new last dimension."""
    half = high / _PANELS / 2
    points = (half * (_NODES + 1) + 2 * half * np.arange(_PANELS)[:, None]).ravel()
    return (f(points) * np.tile(_WEIGHTS, _PANELS)).sum(-1) * half


def bessel_j(order: int) -> Callable[..., Any]:
    """The first kind."""

    def value(x: Any) -> Any:
        wide = np.asarray(x, np.float64)[..., None]
        return _integral(lambda t: np.cos(order * t - wide * np.sin(t)), np.pi) / np.pi

    return quiet(value)


def bessel_y(order: int) -> Callable[..., Any]:
    """The second kind, from 0.1 on."""

    def value(x: Any) -> Any:
        wide = np.asarray(x, np.float64)[..., None]
        turning = _integral(lambda t: np.sin(wide * np.sin(t) - order * t), np.pi)
        growth = lambda t: np.exp(order * t) + (-1) ** order * np.exp(-order * t)  # noqa: E731
        return (turning - _integral(lambda t: growth(t) * np.exp(-wide * np.sinh(t)), 8)) / np.pi

    return quiet(value)


def bessel_k(order: int, scaled: bool) -> Callable[..., Any]:
    """The modified second kind, from 0.1 on, times ``exp(x)`` if it is `scaled`."""

    def value(x: Any) -> Any:
        wide = np.asarray(x, np.float64)[..., None]
        less = 1 if scaled else 0
        return _integral(lambda t: np.exp(-wide * (np.cosh(t) - less)) * np.cosh(order * t), 8)

    return quiet(value)


def airy_ai(x: float) -> float:
    """Airy's function for numbers up to about 5."""
    wide, total = np.longdouble(x), np.longdouble(0)
    even, odd = np.longdouble("0.355028053887817239260"), np.longdouble("0.258819403792806798405") * wide
    for k in range(1, 60):
        total += even - odd
        even *= wide**3 / ((3 * k - 1) * (3 * k))
        odd *= wide**3 / ((3 * k) * (3 * k + 1))
    return float(total)
