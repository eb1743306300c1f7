"""Kernels of exponentials of matrices, and of their derivatives, on the CUDA device: a block has one matrix.

As on the CPU a matrix is divided by a power of two until a diagonal Pade approximant is exact to rounding, and the
result is squared as often.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Element, Target, barrier, block, thread
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.systems import THREADS, copying, filling, multiplying, of_each_matrix, solving
from fastgrad.kernels.cuda.teams import TOGETHER, folding_one
from fastgrad.kernels.pade import PADE


def _norming(target: Target, dtype: int, threads: int) -> Any:
    """``norm(a, n)``: the largest sum of a row's absolute values, NaN if there is one."""
    e = target.elements[dtype]
    load, zero, absolute, maximum = e.load, e.constant(0), e.math.abs, e.math.maximum
    fold = folding_one(target, maximum, dtype, threads)

    def norm(a, n):
        most, i = zero, np.int64(thread())
        while i < n:
            total, j = zero, np.int64(0)
            while j < n:
                total += absolute(load(a, i * n + j))
                j += 1
            most = maximum(most, total)
            i += threads
        return fold(most, TOGETHER)

    return norm


def _elements(e: Element, threads: int) -> tuple[Any, Any, Any]:
    """``scale(to, x, count, factor)``, ``add_diagonal(x, n, c)``, and ``sum_and_difference(x, y, count)``."""
    load, store = e.load, e.store

    def scale(to, x, count, factor):
        i = np.int64(thread())
        while i < count:
            store(to, i, load(x, i) * factor)
            i += threads
        barrier()

    def add_diagonal(x, n, c):
        i = np.int64(thread())
        while i < n:
            store(x, i * n + i, load(x, i * n + i) + c)
            i += threads
        barrier()

    def sum_and_difference(x, y, count):
        i = np.int64(thread())
        while i < count:
            a, b = load(x, i), load(y, i)
            store(x, i, a + b)
            store(y, i, a - b)
            i += threads
        barrier()

    return scale, add_diagonal, sum_and_difference


def _polynomial(target: Target, dtype: int, threads: int, parity: int) -> Any:
    """``polynomial(to, spare, square, n)``: the coefficients of one parity as a polynomial of the square of a matrix.

    By Horner's rule, which is written out; it gives where the result lies, and what is free then.
    """
    e = target.elements[dtype]
    multiply, (scale, add_diagonal, _) = multiplying(e, threads), _elements(e, threads)
    coefficients = [e.constant(c) for c in PADE[e.size][0]]
    first = len(coefficients) - 1 - (len(coefficients) - 1 + parity) % 2
    rest = tuple(coefficients[j] for j in range(first - 2, -1, -2))
    first_one, steps = coefficients[first], len(rest)

    def polynomial(to, spare, square, n):
        one = np.int64(1)
        scale(to, square, n * n, first_one)
        add_diagonal(to, n, rest[0])
        for j in range(1, steps):
            multiply(spare, to, n, one, square, n, one, n, n, n)
            to, spare = spare, to
            add_diagonal(to, n, rest[j])
        return to, spare

    return polynomial


def _exponential(target: Target, dtype: int, threads: int) -> Any:
    """``expm(x, n, work)`` of the matrix x, which becomes something else; it gives where the result lies.

    The work is that of `room_of_exponential`, of which x is the beginning.
    """
    e = target.elements[dtype]
    half, one_element, zero, nan = e.constant(0.5), e.constant(1), e.constant(0), e.constant(np.nan)
    size, largest, norm = e.size, e.constant(PADE[e.size][1]), _norming(target, dtype, threads)
    multiply, fill, (scale, _, sum_and_difference) = (
        multiplying(e, threads),
        filling(e, threads),
        _elements(e, threads),
    )
    of_even, of_odd = (_polynomial(target, dtype, threads, parity) for parity in (0, 1))
    solve_by = solving(target, dtype, threads)

    def expm(x, n, work):
        one, bytes_of = np.int64(1), n * n * size
        square, even, odd, spare = (
            work + bytes_of, work + 2 * bytes_of, work + 3 * bytes_of, work + 4 * bytes_of,
        )  # fmt: skip
        length, doublings, factor = norm(x, n), np.int32(0), one_element
        if not length - length == zero:
            fill(even, n * n, nan)
            barrier()
            return even
        while length * factor > largest:
            factor *= half
            doublings = np.int32(doublings + 1)
        scale(x, x, n * n, factor)
        multiply(square, x, n, one, x, n, one, n, n, n)
        even, spare = of_even(even, spare, square, n)
        odd, spare = of_odd(odd, spare, square, n)
        multiply(spare, x, n, one, odd, n, one, n, n, n)
        sum_and_difference(even, spare, n * n)
        solve_by(spare, even, n, n, work + 5 * bytes_of)
        while doublings > 0:
            multiply(square, even, n, one, even, n, one, n, n, n)
            even, square = square, even
            doublings = np.int32(doublings - 1)
        return even

    return expm


def exponential(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Exponentials of matrices."""
    e = target.elements[dtype]
    size, copy, expm = e.size, copying(e, threads), _exponential(target, dtype, threads)

    def run(f):
        b, n = np.int64(block()), f.n
        work = f.work + b * f.room * size
        copy(work, f.a.data + b * n * n * size, n * n)
        copy(f.out + b * n * n * size, expm(work, n, work), n * n)

    return of_each_matrix(run, threads)


def exponential_derivative(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """The derivative at a in the direction g: the upper right block of the exponential of ``[[a, g], [0, a]]``."""
    e = target.elements[dtype]
    load, store, zero, size, expm = (
        e.load,
        e.store,
        e.constant(0),
        e.size,
        _exponential(target, dtype, threads),
    )

    def fill_block(x, a, g, n):
        at = np.int64(thread())
        while at < 4 * n * n:
            i, j = split(at, 2 * n)
            row, column = i - n if i >= n else i, j - n if j >= n else j
            value = zero
            if (i >= n) == (j >= n):
                value = load(a, row * n + column)
            elif i < n:
                value = load(g, row * n + column)
            store(x, at, value)
            at += threads
        barrier()

    def run(f):
        b, n = np.int64(block()), f.n
        work, out = f.work + b * f.room * size, f.out + b * n * n * size
        fill_block(work, f.a.data + b * n * n * size, f.g.data + b * n * n * size, n)
        found, at = expm(work, 2 * n, work), np.int64(thread())
        while at < n * n:
            i, j = split(at, n)
            store(out, at, load(found, i * 2 * n + n + j))
            at += threads

    return of_each_matrix(run, threads)
