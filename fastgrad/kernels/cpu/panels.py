"""Products with a matrix that many tiles share: it is laid out once, by panels of columns.

A panel is `PANEL_COLUMNS` columns wide, its rows follow each other, and so do the panels. Tiles then read neighbouring
memory, where the rows of a wide matrix would lie in few places of the cache. The last panel may be filled in part.

Note [Large products]: rows of the left operand go through all panels in strips of `STRIP_ROWS`, which the second level
of the cache holds, and the inner dimension in blocks, of which a panel's stays in the first level while the strip runs
over it. What lies by columns is copied, a block of a strip at a time, as tiles read neighbouring rows. A tile keeps its
sums in registers, so all that memory has to give is a few bytes for a hundred multiplications.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.gemm import by_frame, matrix_product, over_batch
from fastgrad.kernels.cpu.micro import PANEL, bounded_product, lanes, transposing
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, stack_scratch
from fastgrad.native.contracts.element_types import WIDE
from fastgrad.native.contracts.frames.matrices import PANEL_COLUMNS, STRIP_ROWS

ROWS_TOGETHER = 32  # rows that are read side by side, each of a page of its own
STRIP_WORDS = 4096
"""Words of the stack for a block of a strip that lies by columns."""


def _line(length: int) -> Any:
    """An inlined function that copies n neighbours, and that many, the usual case, by whole vectors."""

    @njit(**INLINE)
    def copy(to, at, n):  # type: ignore[no-untyped-def]
        if n == length:
            for j in range(length):
                to[j] = at[j]
        else:
            for j in range(n):
                to[j] = at[j]

    return copy


def _elements(dtype: int) -> Any:
    """An inlined function that writes the transpose of some rows, `k` long, element by element."""

    @njit(**INLINE)
    def transpose(target, source, row, n, k):  # type: ignore[no-untyped-def]
        for p in range(k):
            for j in range(n):
                target[p * PANEL_COLUMNS + j] = source[j * row + p]

    return transpose


def _transpose(dtype: int) -> Any:
    """An inlined function that fills a panel from the rows of the transpose, squares of vectors in registers."""
    width, one, elements = lanes(dtype), ELEMENTS[dtype].constant(1), _elements(dtype)
    if not width:
        return elements
    move = transposing(width, dtype)

    @njit(**INLINE)
    def transpose(target, source, row, n, k):  # type: ignore[no-untyped-def]
        squares = k - k % width
        for j in range(0, n, width):
            at, rows = advance(target, j), advance(source, j * row)
            if j + width <= n:
                for p in range(0, squares, width):
                    move(advance(at, p * PANEL_COLUMNS), PANEL_COLUMNS, advance(rows, p), row, one)
                elements(
                    advance(at, squares * PANEL_COLUMNS), advance(rows, squares), row, width, k - squares
                )
            else:
                elements(at, rows, row, n - j, k)

    return transpose


def build(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Matrices by panels of their columns."""
    pointer, transpose, line = ELEMENTS[dtype].pointer, _transpose(dtype), _line(PANEL_COLUMNS)

    @njit(**INLINE)
    def copy(target, source, row, n, k):  # type: ignore[no-untyped-def]
        for p in range(k):
            line(advance(target, p * PANEL_COLUMNS), advance(source, p * row), n)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.panels(frame)
        out, x = pointer(f.out), pointer(f.x)
        for i in range(f.batch):
            whole, matrix = advance(out, i * f.panels * f.k * PANEL_COLUMNS), advance(x, i * f.step)
            if f.by_columns:
                for j in range(0, f.n, PANEL_COLUMNS):
                    at, n = advance(matrix, j * f.row), min(PANEL_COLUMNS, f.n - j)
                    transpose(advance(whole, j * f.k), at, f.row, n, f.k)
            else:
                for p in range(0, f.k, ROWS_TOGETHER):
                    rows = min(ROWS_TOGETHER, f.k - p)
                    for j in range(0, f.n, PANEL_COLUMNS):
                        at, n = advance(matrix, p * f.row + j), min(PANEL_COLUMNS, f.n - j)
                        copy(advance(whole, j * f.k + p * PANEL_COLUMNS), at, f.row, n, rows)

    return run, KERNEL


def product(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Products of matrices, of which the right ones may lie in panels."""
    general = by_frame(matrix_product(dtype))
    if dtype not in WIDE or not lanes(dtype):
        return over_batch(general, dtype)
    shared = _large_product(dtype)

    @njit(**INLINE)
    def either(f, c, a, b):  # type: ignore[no-untyped-def]
        if f.b_in_panels:
            shared(c, f.row_out, a, f.row_a, f.a_by_columns, b, f.m, f.n, f.k)
        else:
            general(f, c, a, b)

    return over_batch(either, dtype)


def panel_product(dtype: int) -> Any:
    """``product(c, row_c, a, row_a, panels, m, n, k, accumulate)``, of `a` (m, k) and what lies in panels.

    The row-major product is written to `c`, or added to it if `accumulate` is not 0.
    """
    tiles = _through_panels(dtype)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, panels, m, n, k, accumulate):  # type: ignore[no-untyped-def]
        tiles(c, row_c, a, row_a, 1, panels, k, m, n, k, accumulate)

    return product


def _through_panels(dtype: int) -> Any:
    """``product(c, row_c, a, row_a, col_a, panels, rows, m, n, k, accumulate)``: the product with k rows of panels.

    The panels have `rows` rows; without vector registers for tiles `a` has to lie by rows.
    """
    if lanes(dtype):
        tiles = bounded_product(dtype)
    else:
        general = matrix_product(dtype)

        @njit(**INLINE)
        def tiles(c, row_c, a, row_a, col_a, b, row_b, m, n, k, accumulate):  # type: ignore[no-untyped-def]
            general(0, 0, m, n, k, a, row_a, b, row_b, accumulate, c, row_c)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, col_a, panels, rows, m, n, k, accumulate):  # type: ignore[no-untyped-def]
        for j in range(0, n, PANEL_COLUMNS):
            columns, panel = min(PANEL_COLUMNS, n - j), advance(panels, j * rows)
            tiles(advance(c, j), row_c, a, row_a, col_a, panel, PANEL_COLUMNS, m, columns, k, accumulate)

    return product


def _large_product(dtype: int) -> Any:
    """``product(c, row_c, a, row_a, a_by_columns, panels, m, n, k)``; see Note [Large products]."""
    pointer, memory = ELEMENTS[dtype].pointer, stack_scratch(STRIP_WORDS)
    depth = STRIP_WORDS * 8 // (ELEMENTS[dtype].scalar.bitwidth // 8) // STRIP_ROWS
    through, line = _through_panels(dtype), _line(STRIP_ROWS)

    @njit(**INLINE)
    def strip_by_columns(c, row_c, a, row_a, panels, m, n, k):  # type: ignore[no-untyped-def]
        strip = pointer(memory())
        for p in range(0, k, depth):
            inner = min(depth, k - p)
            for q in range(inner):
                line(advance(strip, q * STRIP_ROWS), advance(a, (p + q) * row_a), m)
            rows = advance(panels, p * PANEL_COLUMNS)
            through(c, row_c, strip, 1, STRIP_ROWS, rows, k, m, n, inner, 1 if p > 0 else 0)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, a_by_columns, panels, m, n, k):  # type: ignore[no-untyped-def]
        for i in range(0, m, STRIP_ROWS):
            rows, at_c = min(STRIP_ROWS, m - i), advance(c, i * row_c)
            if a_by_columns:
                strip_by_columns(at_c, row_c, advance(a, i), row_a, panels, rows, n, k)
            else:
                for p in range(0, k, PANEL):
                    at_a, at_b = advance(a, i * row_a + p), advance(panels, p * PANEL_COLUMNS)
                    inner = min(PANEL, k - p)
                    through(at_c, row_c, at_a, row_a, 1, at_b, k, rows, n, inner, 1 if p > 0 else 0)

    return product
