"""Products with a matrix that many tiles share: it is laid out once, by panels of columns.

A panel is `PANEL_COLUMNS` columns wide, its rows follow each other, and so do the panels. Tiles then read neighbouring
memory, where the rows of a wide matrix would lie in few places of the cache. Zeros fill up the last panel.

Note [Large products]: rows of the left operand go through all panels in strips of `STRIP_ROWS`, which the second level
of the cache holds, and the inner dimension in blocks, of which a panel's stays in the first level while the strip runs
over it. A block of a strip is laid out first, in the order in which tiles read it: the rows of a matrix whose width is a
power of two would otherwise meet in the same few places of the first level. A tile keeps its sums in registers, so all
that memory has to give is a few bytes for a hundred multiplications.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.gemm import by_frame, matrix_product, over_batch
from fastgrad.kernels.cpu.micro import bounded_product, bounded_strip, lanes, transposing
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, stack_scratch
from fastgrad.native.contracts.element_types import WIDE
from fastgrad.native.contracts.frames.matrices import PANEL_COLUMNS, STRIP_ROWS

ROWS_TOGETHER = 32  # rows that are read side by side, each of a page of its own
TILE_ROWS = 8  # of a tile of a large product
SQUARE = 4  # rows and columns of what is transposed in registers where a strip is laid out
STRIP_WORDS = 16384
"""Words of the stack for a block of a strip."""
GAP = 16  # elements between its tiles: blocks of a power of two would meet in the same places of the cache


def _line(length: int, dtype: int) -> Any:
    """An inlined function that copies n neighbours to a line: the usual case, a whole one, by whole vectors."""
    zero = ELEMENTS[dtype].constant(0)

    @njit(**INLINE)
    def copy(to, at, n):  # type: ignore[no-untyped-def]
        if n == length:
            for j in range(length):
                to[j] = at[j]
        else:
            for j in range(n):
                to[j] = at[j]
            for j in range(n, length):
                to[j] = zero

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
    pointer, transpose, line = ELEMENTS[dtype].pointer, _transpose(dtype), _line(PANEL_COLUMNS, dtype)
    zero = ELEMENTS[dtype].constant(0)

    @njit(**INLINE)
    def copy(target, source, row, n, k):  # type: ignore[no-untyped-def]
        for p in range(k):
            line(advance(target, p * PANEL_COLUMNS), advance(source, p * row), n)

    @njit(**INLINE)
    def fill_up(target, n, k):  # type: ignore[no-untyped-def]
        for p in range(k):
            for j in range(n, PANEL_COLUMNS):
                target[p * PANEL_COLUMNS + j] = zero

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.panels(frame)
        out, x = pointer(f.out), pointer(f.x)
        for i in range(f.batch):
            whole, matrix = advance(out, i * f.panels * f.k * PANEL_COLUMNS), advance(x, i * f.step)
            if f.by_columns:
                for j in range(0, f.n, PANEL_COLUMNS):
                    at, n = advance(matrix, j * f.row), min(PANEL_COLUMNS, f.n - j)
                    transpose(advance(whole, j * f.k), at, f.row, n, f.k)
                    fill_up(advance(whole, j * f.k), n, f.k)
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
        tiles = bounded_product(dtype, padded=True)
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
    pointer, memory = ELEMENTS[dtype].pointer, stack_scratch(STRIP_WORDS + STRIP_ROWS // TILE_ROWS * GAP)
    depth = STRIP_WORDS * 8 // (ELEMENTS[dtype].scalar.bitwidth // 8) // STRIP_ROWS
    by_rows, by_columns, through = _strip_of_rows(dtype), _strip_of_columns(dtype), _strip_through_panels(dtype)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, a_by_columns, panels, m, n, k):  # type: ignore[no-untyped-def]
        strip = pointer(memory())
        for p in range(0, k, depth):
            inner = min(depth, k - p)
            for i in range(0, m, STRIP_ROWS):
                rows, at_c = min(STRIP_ROWS, m - i), advance(c, i * row_c)
                if a_by_columns:
                    by_columns(strip, advance(a, p * row_a + i), row_a, rows, inner)
                else:
                    by_rows(strip, advance(a, i * row_a + p), row_a, rows, inner)
                through(at_c, row_c, strip, advance(panels, p * PANEL_COLUMNS), k, rows, n, inner, 1 if p > 0 else 0)

    return product


def _strip_of_rows(dtype: int) -> Any:
    """``pack(strip, a, row_a, m, k)``: m rows, k long each, by tiles of `TILE_ROWS`, whose columns follow each other."""
    move = transposing(SQUARE, dtype, scaled=False)

    @njit(**INLINE)
    def elements(target, source, row_a, begin, m, k):  # type: ignore[no-untyped-def]
        for q in range(begin, k):
            for r in range(m):
                target[q * TILE_ROWS + r] = source[r * row_a + q]

    @njit(**KERNEL)
    def pack(strip, a, row_a, m, k):  # type: ignore[no-untyped-def]
        squares = k - k % SQUARE
        for r in range(0, m, SQUARE):
            target = advance(strip, r // TILE_ROWS * (TILE_ROWS * k + GAP) + r % TILE_ROWS)
            source, rows = advance(a, r * row_a), min(SQUARE, m - r)
            if rows == SQUARE:
                for q in range(0, squares, SQUARE):
                    move(advance(target, q * TILE_ROWS), TILE_ROWS, advance(source, q), row_a)
            elements(target, source, row_a, squares if rows == SQUARE else 0, rows, k)

    return pack


def _strip_of_columns(dtype: int) -> Any:
    """The same of a matrix that lies by columns, which are `row_a` apart."""
    line = _line(TILE_ROWS, dtype)

    @njit(**KERNEL)
    def pack(strip, a, row_a, m, k):  # type: ignore[no-untyped-def]
        for q in range(k):
            for r in range(0, m, TILE_ROWS):
                at = advance(strip, r // TILE_ROWS * (TILE_ROWS * k + GAP) + q * TILE_ROWS)
                line(at, advance(a, q * row_a + r), min(TILE_ROWS, m - r))

    return pack


def _strip_through_panels(dtype: int) -> Any:
    """``product(c, row_c, strip, panels, rows, m, n, k, accumulate)``: of a strip and k rows of panels that have `rows`."""
    by_8, by_4, by_2, by_1 = (bounded_strip(rows, lanes(dtype), dtype, padded=True) for rows in (TILE_ROWS, 4, 2, 1))

    @njit(**KERNEL)
    def product(c, row_c, strip, panels, rows, m, n, k, accumulate):  # type: ignore[no-untyped-def]
        whole = m - m % TILE_ROWS
        tile = TILE_ROWS * k + GAP
        rest, at_c = advance(strip, whole // TILE_ROWS * tile), advance(c, whole * row_c)
        for j in range(0, n, PANEL_COLUMNS):
            columns, b, to = min(PANEL_COLUMNS, n - j), advance(panels, j * rows), advance(at_c, j)
            for r in range(0, whole, TILE_ROWS):
                of, at = advance(strip, r // TILE_ROWS * tile), advance(c, r * row_c + j)
                by_8(at, row_c, of, 1, TILE_ROWS, b, PANEL_COLUMNS, columns, k, accumulate)
            r = 0
            if m & 4:
                by_4(to, row_c, rest, 1, TILE_ROWS, b, PANEL_COLUMNS, columns, k, accumulate)
                r = 4
            if m & 2:
                of, at = advance(rest, r), advance(to, r * row_c)
                by_2(at, row_c, of, 1, TILE_ROWS, b, PANEL_COLUMNS, columns, k, accumulate)
                r += 2
            if m & 1:
                of, at = advance(rest, r), advance(to, r * row_c)
                by_1(at, row_c, of, 1, TILE_ROWS, b, PANEL_COLUMNS, columns, k, accumulate)

    return product
