"""Samples of distributions by rejection, each from the stream of random numbers that its key starts.

Block j of the stream of a key is Philox4x32-10 of the counter j (see `kernels.cpu.random`). All is float64.

===============  =======================================================================================
gamma            Marsaglia and Tsang: A simple method for generating gamma variables, ACM TOMS 26 (2000)
poisson          from 10 on Hörmann: The transformed rejection method for generating Poisson random
                 variables, Insurance: Mathematics and Economics 12 (1993); else products of uniform numbers
binomial         from a mean of 10 on Hörmann: The generation of binomial random variates, J. Stat. Comput.
                 Simul. 46 (1993); else the distances between successes, which are geometric
===============  =======================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels import vecmath
from fastgrad.kernels.cpu.random import TWO_PI, block_words, unit_64
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.kernels.reports import Builder
from fastgrad.kernels.scalar_ir import floor, sqrt
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import words
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

inline = njit(**INLINE)
log, log1p, exp = vecmath.F64.log, vecmath.F64.log1p, vecmath.F64.exp

SMALLEST = {FLOAT64: 2.0**-1022, FLOAT32: 2.0**-126, FLOAT16: 2.0**-14, BFLOAT16: 2.0**-126}
"""Of each dtype the smallest normal number, below which no sample of a positive distribution falls."""


@inline
def two(key, j):  # type: ignore[no-untyped-def]
    """Two uniform numbers of block j, in (0, 1] and in [0, 1)."""
    x0, x1, x2, x3 = block_words(key, j)
    return 1.0 - unit_64(x0, x1), unit_64(x2, x3)


@inline
def cosine(turn):  # type: ignore[no-untyped-def]
    """The cosine of a part of a turn."""
    return vecmath.F64.cos(TWO_PI * turn)


@inline
def stirling_rest(k):  # type: ignore[no-untyped-def]
    """The logarithm of the factorial of k, less ``(k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2``."""
    n = k + 1.0
    shift = 0.0
    while n < 10.0:  # what the series lacks for n is what it lacks for n + 1, and one difference
        shift += (n + 0.5) * log((n + 1.0) / n) - 1.0
        n += 1.0
    u = 1.0 / (n * n)
    return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - u / 1680) * u) * u) / n + shift


@inline
def log_factorial(k):  # type: ignore[no-untyped-def]
    return (k + 0.5) * log(k + 1.0) - (k + 1.0) + 0.9189385332046727 + stirling_rest(k)


@inline
def gamma_sample(shape, key):  # type: ignore[no-untyped-def]
    if not 0.0 <= shape < np.inf:
        return np.nan
    boost, j = 1.0, 0
    if shape < 1.0:
        u, _ = two(key, 0)
        boost = exp(log(u) / shape) if shape > 0.0 else 0.0
        shape += 1.0
        j = 1
    d = shape - 1.0 / 3.0
    scale = 1.0 / sqrt(9.0 * d)
    while True:
        u, turn = two(key, j)
        w, _ = two(key, j + 1)
        j += 2
        z = sqrt(-2.0 * log(u)) * cosine(turn)
        v = 1.0 + scale * z
        if v > 0.0:
            v = v * v * v
            if log(w) < 0.5 * z * z + d * (1.0 - v + log(v)):
                return boost * d * v


@inline
def poisson_sample(rate, key):  # type: ignore[no-untyped-def]
    if not 0.0 <= rate < np.inf:
        return np.nan
    j = 0
    if rate < 10.0:
        bound, product, count = exp(-rate), 1.0, -1.0
        while True:
            u, v = two(key, j)
            j += 1
            product *= u
            count += 1.0
            if product <= bound:
                return max(count, 0.0) if rate > 0.0 else 0.0
            product *= 1.0 - v
            count += 1.0
            if product <= bound:
                return count
    b = 0.931 + 2.53 * sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        v, u = two(key, j)
        j += 1
        u -= 0.5
        us = 0.5 - abs(u)
        k = floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= quick:
            return k
        if k < 0.0 or (us < 0.013 and v > us):
            continue
        if log(v) + log(inverse) - log(a / (us * us) + b) <= k * log(rate) - rate - log_factorial(k):
            return k


@inline
def few_successes(n, p, key):  # type: ignore[no-untyped-def]
    """How often a trial succeeds: the trials until the next success are geometric."""
    j, done, count = 0, 0.0, 0.0
    factor = 1.0 / log1p(-p)
    while True:
        u, v = two(key, j)
        j += 1
        done += floor(log(u) * factor) + 1.0
        if done > n:
            return count
        count += 1.0
        done += floor(log(1.0 - v) * factor) + 1.0
        if done > n:
            return count
        count += 1.0


@inline
def many_successes(n, p, key):  # type: ignore[no-untyped-def]
    q = 1.0 - p
    spread = sqrt(n * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = n * p + 0.5
    quick = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    ratio, mode = p / q, floor((n + 1.0) * p)
    j = 0
    while True:
        v, u = two(key, j)
        j += 1
        u -= 0.5
        us = 0.5 - abs(u)
        k = floor((2.0 * a / us + b) * u + center)
        if us >= 0.07 and v <= quick:
            return k
        if k < 0.0 or k > n:
            continue
        v = log(v * alpha / (a / (us * us) + b))
        bound = (mode + 0.5) * log((mode + 1.0) / (ratio * (n - mode + 1.0)))
        bound += stirling_rest(mode) + stirling_rest(n - mode)
        bound += (n + 1.0) * log((n - mode + 1.0) / (n - k + 1.0))
        bound += (k + 0.5) * log(ratio * (n - k + 1.0) / (k + 1.0))
        if v <= bound - stirling_rest(k) - stirling_rest(n - k):
            return k


@inline
def binomial_sample(n, p, key):  # type: ignore[no-untyped-def]
    if not (0.0 <= n < np.inf and 0.0 <= p <= 1.0):
        return np.nan
    n = floor(n)
    flipped = p > 0.5
    if flipped:
        p = 1.0 - p
    if n == 0.0 or p == 0.0:
        k = 0.0
    elif n * p >= 10.0:
        k = many_successes(n, p, key)
    else:
        k = few_successes(n, p, key)
    return n - k if flipped else k


def _build(draw: Any, with_second: bool, dtype: int, smallest: float = -np.inf) -> Builder:
    element = ELEMENTS[dtype]
    pointer, store = element.pointer, element.store

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.sample(frame)
        out, x, keys, p = pointer(f.out), pointer(f.x.data), words(f.keys.data), pointer(f.p.data)
        for i in range(f.x.numel):
            if with_second:
                value = draw(np.float64(x[i]), np.float64(p[i]), keys[i])
            else:
                value = draw(np.float64(x[i]), keys[i])
            store(out, i, smallest if value < smallest else value)

    return run, KERNEL


def standard_gamma(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Gamma distributed numbers of a shape and of scale 1."""
    return _build(gamma_sample, False, dtype, SMALLEST[dtype])


def poisson(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Counts of a rate."""
    return _build(poisson_sample, False, dtype)


def binomial(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Successes among so many trials."""
    return _build(binomial_sample, True, dtype)
