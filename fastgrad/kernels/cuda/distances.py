"""Kernels of distances between all rows of two matrices, and of their derivatives, on the CUDA device.

Nothing is held but the operands and the result: a block goes along the rows of a square of distances, or along the
distances of a row where gradients are sums over them, see `squares`. Differences are taken as they are, see
`kernels.cpu.distances`. A launch computes all rows, never a part of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cpu.distances import COUNT, EUCLIDEAN, LARGEST, POWERS, SIZES, kind_of
from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Element, Target, float_of, thread, where
from fastgrad.kernels.cuda.squares import ACROSS, DEPTH, EACH, PITCH, THREADS, Square, each_square

FEW = 2
"""Rows and columns of a thread where an addition is long, or there would be few squares."""


# --- distances ---------------------------------------------------------------------------------------------------


def _additions(e: Element) -> dict[int, Any]:
    """What a difference adds to a distance, by kinds of orders."""
    m, cast, zero, one = e.math, e.constant, e.constant(0), e.constant(1)
    absolute, maximum, power = m.abs, m.maximum, m.pow

    def steps(f, total, a, b):
        d = a - b
        return total + where(d == zero, zero, where(d != d, d, one))

    def sizes(f, total, a, b):
        return total + absolute(a - b)

    def squares(f, total, a, b):
        d = a - b
        return total + d * d

    def largest(f, total, a, b):
        return maximum(total, absolute(a - b))

    def powers(f, total, a, b):
        return total + power(absolute(a - b), cast(float_of(f.order)))

    return {COUNT: steps, SIZES: sizes, EUCLIDEAN: squares, LARGEST: largest, POWERS: powers}


def _by_rows(e: Element, side: int) -> Any:
    """``fill`` of squares of distances, so many rows and columns large."""
    load, put, zero = e.load, e.put, e.constant(0)

    def fill(f, left, right, batch, top, first, k):
        at = thread()
        while at < side * DEPTH:  # neighbouring threads read neighbours in memory
            line, d = at // DEPTH, at % DEPTH
            i, j, there = top + line, first + line, k + d < f.m
            x = load(f.x1.data, (batch * f.n + i) * f.m + k + d) if there and i < f.n else zero
            put(left, d * PITCH + line, x)
            x = load(f.x2.data, (batch * f.k + j) * f.m + k + d) if there and j < f.k else zero
            put(right, d * PITCH + line, x)
            at += THREADS

    return fill


def _by_order(
    rooms: Any, of_sizes: Any, euclidean: Any, of_largest: Any, counting: Any, of_powers: Any
) -> Any:
    """A kernel that does what the kind of its order asks for, in rooms for both sides."""
    room_left, room_right = rooms

    def run(f):
        left, right, kind = room_left(), room_right(), kind_of(float_of(f.order))
        if kind == EUCLIDEAN:
            euclidean(f, left, right)
        elif kind == SIZES:
            of_sizes(f, left, right)
        elif kind == LARGEST:
            of_largest(f, left, right)
        elif kind == COUNT:
            counting(f, left, right)
        else:
            of_powers(f, left, right)

    return run


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The distances of all rows of one side from all of the other."""
    e = target.elements[dtype]
    store, zero, cast, sqrt, power = e.store, e.constant(0), e.constant, e.math.sqrt, e.math.pow
    room_left, room_right = e.shared(DEPTH * PITCH), e.shared(DEPTH * PITCH)

    def keep(f, batch, i, j, total):
        store(f.out, (batch * f.n + i) * f.k + j, total)

    def keep_root(f, batch, i, j, total):
        store(f.out, (batch * f.n + i) * f.k + j, sqrt(total))

    def keep_other_root(f, batch, i, j, total):
        store(f.out, (batch * f.n + i) * f.k + j, power(total, cast(1.0 / float_of(f.order))))

    def sizes(f):
        return f.n, f.k, f.m

    def going(kind: int, finish: Any, each: int = EACH) -> Any:
        what = Square(_by_rows(e, ACROSS * each), zero, _additions(e)[kind], finish, None, each, each == EACH)
        return each_square(target, dtype, what, sizes)

    of_sizes, euclidean, of_largest = going(SIZES, keep), going(EUCLIDEAN, keep_root), going(LARGEST, keep)
    counting, of_powers = going(COUNT, keep, FEW), going(POWERS, keep_other_root, FEW)
    run = _by_order((room_left, room_right), of_sizes, euclidean, of_largest, counting, of_powers)
    return Body(run, ("batch", "n", "k"), (ACROSS * FEW) ** 2, THREADS, resident=512)


# --- derivatives -------------------------------------------------------------------------------------------------


def _slopes(e: Element) -> dict[int, Any]:
    """What a distance adds to a gradient, by kinds of orders: a is its weight, c the distance, x and b the elements."""
    m, cast, zero = e.math, e.constant, e.constant(0)
    absolute, sign, power = m.abs, m.sign, m.pow

    def signs(f, total, a, b, x, c):
        return total + a * sign(x - b)

    def differences(f, total, a, b, x, c):
        return total + a * (x - b)

    def signs_of_largest(f, total, a, b, x, c):
        d = x - b
        return total + where(absolute(d) == c, a * sign(d), zero)

    def powers(f, total, a, b, x, c):
        d = x - b
        return total + where(d == zero, zero, a * sign(d) * power(absolute(d), cast(float_of(f.order) - 1.0)))

    return {SIZES: signs, EUCLIDEAN: differences, LARGEST: signs_of_largest, POWERS: powers}


def _by_weights(e: Element, kind: int, side: int) -> Any:
    """``fill`` of squares of gradients: weights of distances, and these, and the elements of the other side."""
    load, put, cast, zero, one, power = e.load, e.put, e.constant, e.constant(0), e.constant(1), e.math.pow

    def weight(f, g, y):
        """The gradient of a distance over what its slopes have in common."""
        if kind == SIZES or kind == LARGEST:
            return g
        apart = where(y == zero, one, y)
        common = apart if kind == EUCLIDEAN else power(apart, cast(float_of(f.order) - 1.0))
        return where(y == zero, zero, g / common)

    def fill(f, left, right, batch, top, first, k):
        at = thread()
        while at < side * DEPTH:
            i, d = at // DEPTH, at % DEPTH
            there, place = top + i < f.n and k + d < f.k, (batch * f.n + top + i) * f.k + k + d
            y = load(f.y.data, place) if there else zero
            put(left, d * PITCH + i, weight(f, load(f.g.data, place), y) if there else zero)
            put(left, (DEPTH + d) * PITCH + i, y)
            j, d = at % side, at // side
            there = first + j < f.m and k + d < f.k
            x = load(f.x2.data, (batch * f.k + k + d) * f.m + first + j) if there else zero
            put(right, d * PITCH + j, x)
            at += THREADS

    return fill


def backward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The gradients by the rows of the first side. Where rows are equal, the slope is taken for zero."""
    e = target.elements[dtype]
    load, store, zero = e.load, e.store, e.constant(0)
    room_left, room_right = e.shared(2 * DEPTH * PITCH), e.shared(DEPTH * PITCH)
    side = ACROSS * FEW

    def own(f, batch, i, j):
        return load(f.x1.data, (batch * f.n + i) * f.m + j)

    def keep(f, batch, i, j, total):
        store(f.out, (batch * f.n + i) * f.m + j, total)

    def sizes(f):
        return f.n, f.m, f.k

    def no_sizes(f):
        return f.n, f.m, np.int64(0)

    def going(kind: int, of: Any = sizes) -> Any:
        what = Square(_by_weights(e, kind, side), zero, _slopes(e)[kind], keep, own, FEW, kind != POWERS)
        return each_square(target, dtype, what, of)

    of_sizes, euclidean, of_largest, of_powers = (going(k) for k in (SIZES, EUCLIDEAN, LARGEST, POWERS))
    of_none = going(SIZES, no_sizes)  # how many differ has no slope
    run = _by_order((room_left, room_right), of_sizes, euclidean, of_largest, of_none, of_powers)
    return Body(run, ("batch", "n", "m"), side * side, THREADS, resident=512)
