"""Triangular systems by register tiles: what is solved already is subtracted from some rows at a time, by a product.

Within these rows, `STEP` of them, the rest is done row by row, with all columns side by side.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.micro import bounded_product
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.native.base.intrinsics import advance, stack_scratch

STEP = 16  # rows
COLUMNS = 64  # at a time: they stay in the first level of the cache
LARGE_SYSTEM = 1 << 23
"""Multiply-adds up to which this is faster than BLAS."""


def triangular_solver(dtype: int) -> Any:
    """``solve(lower, transposed, unit, n, k, a, lda, b)`` solves in place for the k columns of b.

    `a` and `b` are pointers to matrices by rows. Of `a`, or of `a` transposed, the triangle that is lower or not is
    read, on whose diagonal are ones if `unit`.
    """
    tiles, pointer, one = bounded_product(dtype), ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(1)
    memory = stack_scratch(STEP * COLUMNS * ELEMENTS[dtype].scalar.bitwidth // 64)

    @njit(**KERNEL)
    def rows(forwards, unit, first, count, m, a, row_a, col_a, b, k, known):  # type: ignore[no-untyped-def]
        for step in range(count):
            i = first + (step if forwards else count - 1 - step)
            at, factors = advance(b, i * k), advance(a, i * row_a)
            _subtract(at, advance(known, (i - first) * COLUMNS), one, m)
            for other in range(first if forwards else i + 1, i if forwards else first + count):
                _subtract(at, advance(b, other * k), factors[other * col_a], m)
            if not unit:
                _divide(at, factors[i * col_a], m)

    @njit(**KERNEL)
    def solve(lower, transposed, unit, n, k, a, lda, b):  # type: ignore[no-untyped-def]
        known, forwards = pointer(memory()), lower != transposed
        row_a, col_a = (1, lda) if transposed else (lda, 1)
        for j in range(0, k, COLUMNS):
            m, at = min(COLUMNS, k - j), advance(b, j)
            for done in range(0, n, STEP):
                count = min(STEP, n - done)
                first = done if forwards else n - done - count
                solved = 0 if forwards else first + count
                of_solved = advance(a, first * row_a + solved * col_a)
                tiles(known, COLUMNS, of_solved, row_a, col_a, advance(at, solved * k), k, count, m, done, 0)
                rows(forwards, unit, first, count, m, a, row_a, col_a, at, k, known)

    return solve


@njit(**LOOP)
def _subtract(to, x, factor, n):  # type: ignore[no-untyped-def]
    for j in range(n):
        to[j] -= factor * x[j]


@njit(**LOOP)
def _divide(to, divisor, n):  # type: ignore[no-untyped-def]
    for j in range(n):
        to[j] /= divisor
