"""The vocabulary `m` of formulas on the CUDA device: functions on scalars made of the words of `device`.

Names and special values are those of the CPU's vocabulary, `vecmath` and `intmath`, which are PyTorch's; what is made
of selects and exact operations there is taken from there. Exponentials and the like are those of the toolkit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from fastgrad.kernels import intmath, vecmath
from fastgrad.kernels.cuda import device
from fastgrad.kernels.cuda.device import (
    absolute,
    complement_of_erf,
    copysign,
    exp,
    fma,
    greater,
    like,
    log,
    log1p,
    reciprocal_near,
    smaller,
    where,
)
from fastgrad.kernels.normal import NORMAL_FAR_32, NORMAL_TAIL_32
from fastgrad.kernels.specialise import specialised
from fastgrad.native.contracts.element_types import BOOL, FLOAT32, FLOATS

SQRT_2, SQRT_HALF, INVERSE_SQRT_2PI = 1.4142135623730951, 0.7071067811865476, 0.3989422804014327
NORMAL_FAR = 38.6  # both tails of the normal distribution are lost beyond


def maximum(x, y):
    """The greater one, or NaN."""
    return where(x != x, x, where(y != y, y, greater(x, y)))


def minimum(x, y):
    """The smaller one, or NaN."""
    return where(x != x, x, where(y != y, y, smaller(x, y)))


def isinf(x):
    """Whether a number is infinite."""
    return absolute(x) == like(x, np.inf)


def isfinite(x):
    """Whether a number is neither infinite nor NaN."""
    return absolute(x) < like(x, np.inf)


def softplus(x):
    """``log(1 + exp(x))``."""
    return maximum(x, like(x, 0)) + log1p(exp(-absolute(x)))


def _bell(x, far):
    """``(a, exp(-a**2 / 2))`` with ``a = |x|``, at most `far`; heeds what the square loses."""
    a = absolute(x)
    a = where(a > far, far, a)
    half = like(x, -0.5) * a
    power = half * a
    e = exp(power)
    return a, fma(e, fma(half, a, -power), e)


def normal_density(x):
    """The density of the normal distribution."""
    _, e = _bell(x, like(x, NORMAL_FAR))
    return e * like(x, INVERSE_SQRT_2PI)


def normal_cdf(x):
    """The weight of the normal distribution up to x, exact far below too: heeds what the argument loses."""
    near = where(absolute(x) > like(x, NORMAL_FAR), copysign(like(x, NORMAL_FAR), x), x)
    half, root = like(x, 0.5), like(x, SQRT_HALF)
    y = near * root
    lost = fma(near, root, -y) + near * (fma(-root, root, half) * root)
    return fma(like(x, SQRT_2) * lost, normal_density(x), half * complement_of_erf(-y))


def normal_density_32(x):
    """`normal_density` of a float32."""
    _, e = _bell(x, like(x, NORMAL_FAR_32))
    return e * like(x, INVERSE_SQRT_2PI)


def normal_cdf_32(x):
    """`normal_cdf` of a float32, as that of `kernels.normal`: a polynomial, at half the cost of the error function."""
    a, e = _bell(x, like(x, NORMAL_FAR_32))
    inverse = reciprocal_near(a + like(x, 4))
    beyond = _tail((a - like(x, 4)) * inverse) * inverse * e
    return where(x < like(x, 0), beyond, like(x, 1) - beyond)


def _tail(t):
    """The polynomial of `NORMAL_TAIL`, by its even and its odd powers."""
    square = t * t
    even, odd = like(t, NORMAL_TAIL_32[8]), like(t, NORMAL_TAIL_32[9])
    even, odd = fma(even, square, like(t, NORMAL_TAIL_32[6])), fma(odd, square, like(t, NORMAL_TAIL_32[7]))
    even, odd = fma(even, square, like(t, NORMAL_TAIL_32[4])), fma(odd, square, like(t, NORMAL_TAIL_32[5]))
    even, odd = fma(even, square, like(t, NORMAL_TAIL_32[2])), fma(odd, square, like(t, NORMAL_TAIL_32[3]))
    even, odd = fma(even, square, like(t, NORMAL_TAIL_32[0])), fma(odd, square, like(t, NORMAL_TAIL_32[1]))
    return fma(odd, t, even)


def xlogy(x, y):
    """``x log(y)``, zero where x is."""
    return where((x == like(x, 0)) & (y == y), like(x, 0), x * log(y))


_SHARED = (
    "rsqrt", "reciprocal", "sign", "remainder", "floor_div", "trunc_div", "isnan", "of_dtype", "whole_power",
    "masked_fill", "logical_and", "sigmoid", "is_at_least_zero",
)  # fmt: skip
_OWN = {
    "maximum": maximum, "minimum": minimum, "isinf": isinf, "isfinite": isfinite, "softplus": softplus, "xlogy": xlogy,
    "normal_density": normal_density, "normal_cdf": normal_cdf,
}  # fmt: skip
_OWN_32 = {"normal_density": normal_density_32, "normal_cdf": normal_cdf_32}
_WORDS = {
    "exp": "exp", "exp_of_negative": "exp", "expm1": "expm1", "exp2": "exp2", "log": "log", "log1p": "log1p",
    "log2": "log2", "log10": "log10", "sqrt": "sqrt", "tanh": "tanh", "sin": "sin", "cos": "cos", "sinpi": "sinpi",
    "cospi": "cospi", "erf": "erf", "fma": "fma", "where": "where", "abs": "absolute", "copysign": "copysign",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round_half_even", "fmod": "fmod", "pow": "power",
    "greater": "greater",  # not NaN if one of the two is a number; no formula asks for it
}  # fmt: skip


def vocabulary(dtype: int, words: Mapping[str, Any], decorate: Callable[[Any], Any]) -> Any:
    """The namespace `m` of a dtype.

    Parameters
    ----------
    dtype : int
    words : dict
        What stands for the words of `device`.
    decorate : callable
        What functions are decorated with.
    """
    found = {name: words.get(name, getattr(device, name)) for name in device.WORDS}
    found["exp_of_negative"] = found["exp"]
    kept: dict[Any, Any] = {}

    def made(function: Any) -> Any:
        return specialised(function, found, decorate, kept)

    if dtype in FLOATS:
        functions = {name: found[word] for name, word in _WORDS.items()}
        own = _OWN | _OWN_32 if dtype == FLOAT32 else _OWN
        functions |= {name: made(function) for name, function in own.items()}
        functions |= {name: made(getattr(vecmath.F32, name)) for name in _SHARED}
        functions["make"] = found["make"]
    else:
        namespace = vars(intmath.BOOL if dtype == BOOL else intmath.INT)
        functions = {name: made(f) for name, f in namespace.items() if hasattr(f, "py_func")}
        functions["where"] = found["where"]
    module = ModuleType(f"fastgrad.kernels.cuda.scalar_math.{dtype}")
    vars(module).update(functions)
    return module
