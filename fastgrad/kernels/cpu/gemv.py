"""Products of a matrix and a vector: as fast as the matrix comes from memory, so it is read once and in order."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.gemm import by_frame, over_batch, plain_product
from fastgrad.kernels.cpu.micro import PANEL
from fastgrad.kernels.cpu.rows import blocked
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.kernels.reports import Builder
from fastgrad.native.base.intrinsics import advance, stack_scratch
from fastgrad.native.contracts.element_types import WIDE


def build(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Products of which one operand is a vector: by the frame a matrix of one row or of one column, without gaps."""
    if dtype not in WIDE:
        return over_batch(by_frame(plain_product(dtype)), dtype)
    with_vector = _vector_product(dtype)

    @njit(**KERNEL)
    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        if n == 1:
            with_vector(ta, m, k, a, lda, b, c)
        else:
            with_vector(not tb, n, k, b, ldb, a, c)

    return over_batch(by_frame(product), dtype)


CHUNK = 512  # elements of the result that stay in the cache while columns are added


def _vector_product(dtype: int) -> Any:
    """``product(by_columns, m, k, a, row_a, x, y)``: a matrix (m, k) times a vector.

    Rows of the matrix, or its columns if it is stored `by_columns`, are `row_a` apart. Rows are summed as in `reduce`'s
    Note [Order of sums]; columns one after the other, in blocks of `PANEL`.
    """
    zero, columns = ELEMENTS[dtype].constant(0), _sum_of_columns(dtype)

    @njit(**INLINE)
    def term(a, b, i, shift):  # type: ignore[no-untyped-def]
        return a[i] * b[i]

    dot = blocked(term, zero)

    @njit(**KERNEL)
    def product(by_columns, m, k, a, row_a, x, y):  # type: ignore[no-untyped-def]
        if by_columns:
            columns(m, k, a, row_a, x, y)
        else:
            for i in range(m):
                y[i] = dot(advance(a, i * row_a), x, k, 1, zero)

    return product


def _sum_of_columns(dtype: int) -> Any:
    """``columns(m, k, a, row, x, y)``: the sum of k columns, m long and `row` apart, each times an element of x."""
    pointer, memory = ELEMENTS[dtype].pointer, stack_scratch(CHUNK * ELEMENTS[dtype].scalar.bitwidth // 64)
    add, clear, (add_eight, add_one) = adding(), clearing(dtype), _multiples()

    @njit(**KERNEL)
    def columns(m, k, a, row, x, y):  # type: ignore[no-untyped-def]
        block = pointer(memory())
        clear(y, m)
        for at in range(0, m, CHUNK):
            n, target = min(CHUNK, m - at), advance(y, at)
            for start in range(0, k, PANEL):
                end, p = min(k, start + PANEL), start
                clear(block, n)
                while p + 8 <= end:
                    r = advance(a, p * row + at)
                    add_eight(
                        block, r, advance(r, row), advance(r, 2 * row), advance(r, 3 * row), advance(r, 4 * row),
                        advance(r, 5 * row), advance(r, 6 * row), advance(r, 7 * row),
                        x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5], x[p + 6], x[p + 7], n,
                    )  # fmt: skip
                    p += 8
                while p < end:
                    add_one(block, advance(a, p * row + at), x[p], n)
                    p += 1
                add(target, block, n)

    return columns


def _multiples() -> tuple[Any, Any]:
    """Loops that add multiples of eight rows, or of one, to a row."""

    @njit(**LOOP)
    def add_eight(y, a0, a1, a2, a3, a4, a5, a6, a7, x0, x1, x2, x3, x4, x5, x6, x7, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            first = x0 * a0[i] + x1 * a1[i] + x2 * a2[i] + x3 * a3[i]
            y[i] += first + (x4 * a4[i] + x5 * a5[i] + x6 * a6[i] + x7 * a7[i])

    @njit(**LOOP)
    def add_one(y, a, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            y[i] += x * a[i]

    return add_eight, add_one


def adding() -> Any:
    """A loop that adds one row to another."""

    @njit(**LOOP)
    def add(y, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            y[i] += x[i]

    return add


def clearing(dtype: int) -> Any:
    """A loop that fills a row with zeros."""
    zero = ELEMENTS[dtype].constant(0)

    @njit(**LOOP)
    def clear(y, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            y[i] = zero

    return clear
