"""Rotations of vectors until they are orthogonal, on the CUDA device, and what is done with vectors then.

Note [Rotations]: vectors are rotated two by two until all are orthogonal to each other (M. Hestenes, Inversion of
matrices by biorthogonalization and related results, J. SIAM 6, 1958). Of the columns of a matrix what remains is U S,
and the same rotations of an identity give V. In each round every vector has one partner, so that warps rotate pairs
side by side; a sweep brings each together with every other. A symmetric matrix is made positive definite by a multiple
of the identity, so that its singular vectors are its eigenvectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.device import (
    WARP,
    Element,
    Target,
    barrier,
    barrier_any,
    thread,
    warp_barrier,
    where,
)
from fastgrad.kernels.cuda.systems import seeking, swapping
from fastgrad.kernels.cuda.teams import TOGETHER, WARPS, folding_one, plain_sum
from fastgrad.native.contracts.element_types import DTYPES

SWEEPS = 60  # a dozen is usual
SAFE = 2.0**40  # squares of numbers up to here, and of one over it, are far from the ends of float32


class Words(NamedTuple):
    """What all of these kernels are made of."""

    element: Element
    fold: Any
    fold_greatest: Any
    threads: int
    epsilon: Any


def words_of(target: Target, dtype: int, threads: int) -> Words:
    e = target.elements[dtype]
    fold = folding_one(target, plain_sum, dtype, threads)
    fold_greatest = folding_one(target, e.math.maximum, dtype, threads)
    return Words(e, fold, fold_greatest, threads, e.constant(np.finfo(DTYPES[dtype]).eps))


def _pairing(w: Words) -> Any:
    """``pair(x, v, p, q, length, apart, along, v_length, v_apart, v_along, small, none)`` rotates two vectors.

    It gives whether they were not orthogonal yet. See `rotating`.
    """
    e, fold = w.element, w.fold
    load, store, zero, one, two = e.load, e.store, e.constant(0), e.constant(1), e.constant(2)
    sqrt, absolute, copysign = e.math.sqrt, e.math.abs, e.math.copysign

    def turn(x, p, q, length, along, c, s):
        i = np.int64(thread() % WARP)
        while i < length:
            a, b = load(x, p + i * along), load(x, q + i * along)
            store(x, p + i * along, c * a - s * b)
            store(x, q + i * along, s * a + c * b)
            i += WARP

    def pair(x, v, p, q, length, apart, along, v_length, v_apart, v_along, small, none):
        first, second, both, i = zero, zero, zero, np.int64(thread() % WARP)
        while i < length:
            a, b = load(x, p * apart + i * along), load(x, q * apart + i * along)
            first += a * a
            second += b * b
            both += a * b
            i += WARP
        first, second, both = fold(first, WARPS), fold(second, WARPS), fold(both, WARPS)
        long, other = sqrt(first), sqrt(second)
        if not (absolute(both) > small * long * other and min(long, other) > none):
            return False
        ratio = (second - first) / (two * both)
        t = copysign(one, ratio) / (absolute(ratio) + sqrt(one + ratio * ratio))
        c = one / sqrt(one + t * t)
        warp_barrier()  # all have read
        turn(x, p * apart, q * apart, length, along, c, c * t)
        if v != 0:
            turn(v, p * v_apart, q * v_apart, v_length, v_along, c, c * t)
        return True

    return pair


def rotating(w: Words) -> Any:
    """``rotate(x, v, n, length, apart, along, v_length, v_apart, v_along, none)``: n vectors until they are orthogonal.

    Vectors are `apart` from each other and their elements `along`; those of v, if there is one, take part. A vector
    that is no longer than `none` is done. It gives whether that came to an end.
    """
    warps, pair, sqrt, wide = w.threads // WARP, _pairing(w), w.element.math.sqrt, w.element.constant
    unit = w.element.constant(4) * w.epsilon

    def rotate(x, v, n, length, apart, along, v_length, v_apart, v_along, none):
        even, small = n + n % 2, unit * sqrt(wide(length))
        sweep, turning = np.int32(0), True
        while turning and sweep < SWEEPS:
            mine, turn_of = False, np.int64(0)
            while turn_of < even - 1:
                k = np.int64(thread() // WARP)
                while k < even // 2:
                    p = turn_of + k
                    p = p - (even - 1) if p >= even - 1 else p
                    q = turn_of - k
                    q = q + even - 1 if q < 0 else q
                    q = even - 1 if k == 0 else q
                    if p < n and q < n:
                        first, second = min(p, q), max(p, q)
                        turned = pair(
                            x, v, first, second, length, apart, along, v_length, v_apart, v_along, small, none
                        )
                        mine = mine or turned
                    k += warps
                barrier()
                turn_of += 1
            turning = barrier_any(mine)
            sweep = np.int32(sweep + 1)
        return not turning

    return rotate


def greatest_of(w: Words) -> Any:
    """``greatest(a, count)``: the largest absolute value of so many elements, NaN if there is one."""
    load, maximum, absolute, fold = (
        w.element.load,
        w.element.math.maximum,
        w.element.math.abs,
        w.fold_greatest,
    )
    zero, threads = w.element.constant(0), w.threads

    def greatest(a, count):
        best, i = zero, np.int64(thread())
        while i < count:
            best = maximum(best, absolute(load(a, i)))
            i += threads
        return fold(best, TOGETHER)

    return greatest


def unit_of_squares(w: Words) -> Any:
    """``unit(greatest)``: what elements are divided by, so that squares are in range; one where they are."""
    one, low, high = w.element.constant(1), w.element.constant(1 / SAFE), w.element.constant(SAFE)

    def unit(greatest):
        return where((greatest > high) | ((greatest < low) & (greatest > 0)), greatest, one)

    return unit


def norming(w: Words) -> Any:
    """``norm(x, at, length, along)``: the length of a vector, found by a warp."""
    load, zero, sqrt, fold = w.element.load, w.element.constant(0), w.element.math.sqrt, w.fold

    def norm(x, at, length, along):
        total, i = zero, np.int64(thread() % WARP)
        while i < length:
            a = load(x, at + i * along)
            total += a * a
            i += WARP
        return sqrt(fold(total, WARPS))

    return norm


def dividing(w: Words) -> Any:
    """``divide(x, at, length, along, by)``: a vector by a number, in a warp."""
    load, store = w.element.load, w.element.store

    def divide(x, at, length, along, by):
        i = np.int64(thread() % WARP)
        while i < length:
            store(x, at + i * along, load(x, at + i * along) / by)
            i += WARP

    return divide


def sorting(w: Words, target: Target, dtype: int, ascending: bool) -> Any:
    """``sort(values, n, x, apart, length, along, v, v_apart, v_length, v_along)``: values, and vectors with them."""
    load, store, sign = w.element.load, w.element.store, w.element.constant(-1 if ascending else 1)
    swap = swapping(w.element, w.threads)

    def order(x):
        return sign * x

    seek = seeking(target, dtype, w.threads, order)

    def sort(values, n, x, apart, length, along, v, v_apart, v_length, v_along):
        j = np.int64(0)
        while j < n:
            other = seek(values, j, n, np.int64(1), np.int64(0))
            if other != j:
                swap(x, j * apart, other * apart, along, length)
                if v != 0:
                    swap(v, j * v_apart, other * v_apart, v_along, v_length)
                if thread() == 0:
                    first, second = load(values, j), load(values, other)
                    store(values, j, second)
                    store(values, other, first)
            barrier()
            j += 1

    return sort
