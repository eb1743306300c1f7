"""The functions on integers and booleans that formulas call `m`; see `vecmath`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.scalar_ir import divide, formula, like, namespace, where

__all__ = ["BOOL", "INT", "is_at_least_zero", "sign"]


@formula
def sign(x):
    """-1, 0 or 1, of floats too; 0 for NaN, as in PyTorch."""
    one, zero = like(x, 1), like(x, 0)
    return where(x > zero, one, where(x < zero, like(x, -1), zero))


@formula
def is_at_least_zero(x):
    """Whether a number, of floats too, is not negative."""
    return x >= like(x, 0)


@formula
def int_trunc_div(x, y):
    return divide(x, y)[0]


@formula
def int_fmod(x, y):
    return divide(x, y)[1]


@formula
def int_remainder(x, y):
    rest = divide(x, y)[1]
    return where((rest != 0) & ((rest < 0) != (y < 0)), like(x, rest + y), rest)


@formula
def int_floor_div(x, y):
    quotient, rest = divide(x, y)
    return where((rest != 0) & ((rest < 0) != (y < 0)), like(x, quotient - like(x, 1)), quotient)


@formula
def int_abs(x):
    return where(x < 0, like(x, -x), x)


@formula
def int_maximum(x, y):
    return where(x > y, x, y)


@formula
def int_minimum(x, y):
    return where(x < y, x, y)


@formula
def int_pow(x, n):
    """``x**n`` by squaring, wrapping around; for negative n, 1 / x**-n rounded towards zero (0 for x = 0)."""
    result, base, left = like(x, 1), x, np.uint64(where(n < like(n, 0), like(n, 0), n))
    while left != 0:
        if left & np.uint64(1):
            result = like(x, result * base)
        base = like(x, base * base)
        left >>= np.uint64(1)
    inverse = where(x == like(x, -1), where(n & like(n, 1) != 0, x, like(x, 1)), where(x == 1, x, like(x, 0)))
    return where(n < 0, inverse, result)


@formula
def either(x, y):
    return x | y


@formula
def both(x, y):
    return x & y


@formula
def negate(x):
    return not x


@formula
def invert(x):
    return like(x, ~x)


INT: Any = namespace(
    "INT", abs=int_abs, sign=sign, pow=int_pow, maximum=int_maximum, minimum=int_minimum, where=where,
    fmod=int_fmod, remainder=int_remainder, floor_div=int_floor_div, trunc_div=int_trunc_div,
    bitwise_not=invert,
)  # fmt: skip
BOOL: Any = namespace("BOOL", maximum=either, minimum=both, bitwise_not=negate, where=where)
