"""Products with a matrix that many tiles share: it is laid out once, by panels of columns.

A panel is `PANEL_COLUMNS` columns wide, its rows follow each other, and so do the panels. Tiles then read neighbouring
memory, where the rows of a wide matrix would lie in few places of the cache. Zeros fill up the last panel.

Note [Large products]: rows of the left operand go through all panels in strips of `STRIP_ROWS`, which the second level
of the cache holds, and the inner dimension in blocks, of which a panel's stays in the first level while the strip runs
over it. A block of a strip is laid out first, in the order in which tiles read it: the rows of a matrix whose width is
a power of two would otherwise meet in the same few places of the first level. A tile keeps its sums in registers, so
all that memory has to give is a few bytes for a hundred multiplications.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.gemm import by_blocks, by_frame, matrix_product, over_batch
from fastgrad.kernels.cpu.micro import (
    bounded_product,
    bounded_rows,
    lanes,
    prefetch,
    product_rows,
    transposed_elements,
    transposing,
)
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import address_of, advance, stack_scratch
from fastgrad.native.contracts.element_types import COMPLEX
from fastgrad.native.contracts.frames.matrices import FEW_STRIPS, PANEL_COLUMNS, STRIP_ROWS

ROWS_TOGETHER = 32  # rows that are read side by side, each of a page of its own
AHEAD = 12  # rows that are asked for before they are copied: what is far apart no processor foresees
SQUARE = 4  # rows and columns of what is transposed in registers where a strip is laid out
GAP = 16  # elements between the tiles of a strip: those of a power of two would meet in the same places of the cache
STRIP_BYTES = 1 << 17  # of a block of a strip
COLUMNS_TOGETHER = 4 * PANEL_COLUMNS
"""Columns that are laid out side by side: of short pieces of rows each would be a miss."""
PANEL_WORDS = STRIP_BYTES // STRIP_ROWS * COLUMNS_TOGETHER // 8


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


def _transpose(dtype: int) -> Any:
    """An inlined function that fills a panel from the rows of the transpose, squares of vectors in registers."""
    width, one, elements = lanes(dtype), ELEMENTS[dtype].constant(1), transposed_elements(PANEL_COLUMNS)
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


def _panel_of_columns(dtype: int) -> Any:
    """An inlined function ``pack(target, source, row, n, k)``: a panel of n rows of the transpose, `row` apart."""
    transpose, zero = _transpose(dtype), ELEMENTS[dtype].constant(0)

    @njit(**INLINE)
    def pack(target, source, row, n, k):  # type: ignore[no-untyped-def]
        transpose(target, source, row, n, k)
        for p in range(k):
            for j in range(n, PANEL_COLUMNS):
                target[p * PANEL_COLUMNS + j] = zero

    return pack


def _panel_of_rows(dtype: int) -> Any:
    """The same of a matrix whose rows, k of them and n long, are `row` apart."""
    line = _line(PANEL_COLUMNS, dtype)

    @njit(**INLINE)
    def pack(target, source, row, n, k):  # type: ignore[no-untyped-def]
        for p in range(k):
            prefetch(advance(source, (p + AHEAD) * row))
            prefetch(advance(source, (p + AHEAD) * row + n - 1))
            line(advance(target, p * PANEL_COLUMNS), advance(source, p * row), n)

    return pack


def _panels(dtype: int) -> Any:
    """``lay_out(panels, step, x, row, by_columns, n, k)``: n columns by panels, which begin `step` elements apart."""
    of_columns, of_rows = _panel_of_columns(dtype), _panel_of_rows(dtype)

    @njit(**KERNEL)
    def lay_out(panels, step, x, row, by_columns, n, k):  # type: ignore[no-untyped-def]
        if by_columns:
            for j in range(0, n, PANEL_COLUMNS):
                target, columns = advance(panels, j // PANEL_COLUMNS * step), min(PANEL_COLUMNS, n - j)
                of_columns(target, advance(x, j * row), row, columns, k)
        else:
            for p in range(0, k, ROWS_TOGETHER):
                rows = min(ROWS_TOGETHER, k - p)
                for j in range(0, n, PANEL_COLUMNS):
                    target = advance(panels, j // PANEL_COLUMNS * step + p * PANEL_COLUMNS)
                    of_rows(target, advance(x, p * row + j), row, min(PANEL_COLUMNS, n - j), rows)

    return lay_out


def build(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Matrices by panels of their columns."""
    pointer, lay_out = ELEMENTS[dtype].pointer, _panels(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.panels(frame)
        out, x, panel = pointer(f.out), pointer(f.x), f.k * PANEL_COLUMNS
        for i in range(f.batch):
            lay_out(
                advance(out, i * f.panels * panel),
                panel,
                advance(x, i * f.step),
                f.row,
                f.by_columns,
                f.n,
                f.k,
            )

    return run, KERNEL


def product(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Products of matrices, of which the right ones may lie in panels."""
    general = (by_blocks if dtype in COMPLEX else by_frame)(matrix_product(dtype))
    if not lanes(dtype):
        return over_batch(general, dtype)
    shared, single = _large_product(dtype), _product_of_few_strips(dtype)

    @njit(**INLINE)
    def either(f, c, a, b, row):  # type: ignore[no-untyped-def]
        if f.b_in_panels:
            shared(c, f.row_out, a, f.row_a, f.a_by_columns, b, f.m, f.n, f.k, row)
        elif f.laid_out:
            single(c, f.row_out, a, f.row_a, f.a_by_columns, b, f.row_b, f.b_by_columns, f.m, f.n, f.k, row)
        else:
            general(f, c, a, b, row)

    return over_batch(either, dtype)


def panel_product(dtype: int) -> Any:
    """``product(c, row_c, a, row_a, panels, m, n, k, accumulate)``, of `a` (m, k) and what lies in panels.

    The row-major product is written to `c`, or added to it if `accumulate` is not 0.
    """
    tiles = bounded_product(dtype, padded=True)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, panels, m, n, k, accumulate):  # type: ignore[no-untyped-def]
        for j in range(0, n, PANEL_COLUMNS):
            columns, panel = min(PANEL_COLUMNS, n - j), advance(panels, j * k)
            tiles(advance(c, j), row_c, a, row_a, 1, panel, PANEL_COLUMNS, m, columns, k, accumulate)

    return product


def _large_product(dtype: int) -> Any:
    """``product(c, row_c, a, row_a, a_by_columns, panels, m, n, k, row)``; see Note [Large products].

    What stands in `row` is added to all rows, unless it is null.
    """
    pointer, memory, depth = ELEMENTS[dtype].pointer, stack_scratch(_strip_words()), _depth(dtype)
    strip_of, across = _strip(dtype), _strip_by_panels(dtype)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, a_by_columns, panels, m, n, k, row):  # type: ignore[no-untyped-def]
        strip = pointer(memory())
        for p in range(0, k, depth):
            inner = min(depth, k - p)
            for i in range(0, m, STRIP_ROWS):
                rows, at_c = min(STRIP_ROWS, m - i), advance(c, i * row_c)
                strip_of(strip, a, row_a, a_by_columns, i, p, rows, inner)
                at_panels = advance(panels, p * PANEL_COLUMNS)
                across(at_c, row_c, strip, at_panels, k, rows, n, inner, p > 0, row)

    return product


def _product_of_few_strips(dtype: int) -> Any:
    """``product(c, row_c, a, row_a, a_by_columns, b, row_b, b_by_columns, m, n, k, row)``, of few strips.

    What few tiles share is laid out where they need it, `COLUMNS_TOGETHER` at a time: it never leaves the cache.
    """
    pointer, depth = ELEMENTS[dtype].pointer, _depth(dtype)
    strip_memory, panel_memory = stack_scratch(FEW_STRIPS * _strip_words()), stack_scratch(PANEL_WORDS)
    strip_of, panels_of, across = _strip(dtype), _panels(dtype), _strip_by_panels(dtype)
    step = _strip_words() * 8 // (ELEMENTS[dtype].scalar.bitwidth // 8)

    @njit(**KERNEL)
    def together(  # type: ignore[no-untyped-def]
        c, row_c, a, row_a, a_by_columns, b, row_b, b_by_columns, m, n, k, row
    ):  # fmt: skip
        strips, panels = pointer(strip_memory()), pointer(panel_memory())
        for p in range(0, k, depth):
            inner = min(depth, k - p)
            for i in range(0, m, STRIP_ROWS):
                strip, rows = advance(strips, i // STRIP_ROWS * step), min(STRIP_ROWS, m - i)
                strip_of(strip, a, row_a, a_by_columns, i, p, rows, inner)
            for j in range(0, n, COLUMNS_TOGETHER):
                some, panel = min(COLUMNS_TOGETHER, n - j), inner * PANEL_COLUMNS
                at_b = advance(b, j * row_b + p if b_by_columns else p * row_b + j)
                panels_of(panels, panel, at_b, row_b, b_by_columns, some, inner)
                for i in range(0, m, STRIP_ROWS):
                    strip, rows = advance(strips, i // STRIP_ROWS * step), min(STRIP_ROWS, m - i)
                    at_c, at_row = advance(c, i * row_c + j), advance(row, j) if address_of(row) != 0 else row
                    across(at_c, row_c, strip, panels, inner, rows, some, inner, p > 0, at_row)

    @njit(**INLINE)
    def product(c, row_c, a, row_a, a_by_columns, b, row_b, b_by_columns, m, n, k, row):  # type: ignore[no-untyped-def]
        most, step_a = FEW_STRIPS * STRIP_ROWS, 1 if a_by_columns else row_a
        for i in range(0, m, most):
            at_c, at_a, rows = advance(c, i * row_c), advance(a, i * step_a), min(most, m - i)
            together(at_c, row_c, at_a, row_a, a_by_columns, b, row_b, b_by_columns, rows, n, k, row)

    return product


def _strip_words() -> int:
    """What a strip takes, laid out in whole tiles."""
    tiles = -(-STRIP_ROWS // product_rows())
    return tiles * (product_rows() * (STRIP_BYTES // STRIP_ROWS // 8) + GAP)


def _depth(dtype: int) -> int:
    """How much of the inner dimension a block of a strip holds."""
    return STRIP_BYTES // (ELEMENTS[dtype].scalar.bitwidth // 8) // STRIP_ROWS


def _strip(dtype: int) -> Any:
    """``lay_out(strip, a, row_a, a_by_columns, i, p, m, k)``: the block of `a` at row i and column p, m by k."""
    by_rows, by_columns = _strip_of_rows(dtype), _strip_of_columns(dtype)

    @njit(**INLINE)
    def lay_out(strip, a, row_a, a_by_columns, i, p, m, k):  # type: ignore[no-untyped-def]
        if a_by_columns:
            by_columns(strip, advance(a, p * row_a + i), row_a, m, k)
        else:
            by_rows(strip, advance(a, i * row_a + p), row_a, m, k)

    return lay_out


def _strip_of_rows(dtype: int) -> Any:
    """``pack(strip, a, row_a, m, k)``: m rows, k long each, by tiles of `product_rows`, their columns in order."""
    tile = product_rows()
    move, elements = transposing(SQUARE, dtype, scaled=False), transposed_elements(tile)

    @njit(**KERNEL)
    def pack(strip, a, row_a, m, k):  # type: ignore[no-untyped-def]
        r = 0
        while r < m:
            target = advance(strip, r // tile * (tile * k + GAP) + r % tile)
            source, rows = advance(a, r * row_a), min(SQUARE, m - r, tile - r % tile)
            squares = k - k % SQUARE if rows == SQUARE else 0
            for q in range(0, squares, SQUARE):
                move(advance(target, q * tile), tile, advance(source, q), row_a)
            elements(advance(target, squares * tile), advance(source, squares), row_a, rows, k - squares)
            r += rows

    return pack


def _strip_of_columns(dtype: int) -> Any:
    """The same of a matrix that lies by columns, which are `row_a` apart."""
    tile, line_length = product_rows(), lanes(dtype)
    line = _line(tile, dtype)

    @njit(**KERNEL)
    def pack(strip, a, row_a, m, k):  # type: ignore[no-untyped-def]
        for q in range(k):
            for r in range(0, m, line_length):
                prefetch(advance(a, (q + AHEAD) * row_a + r))
            for r in range(0, m, tile):
                at = advance(strip, r // tile * (tile * k + GAP) + q * tile)
                line(at, advance(a, q * row_a + r), min(tile, m - r))

    return pack


def _strip_by_panels(dtype: int) -> Any:
    """``product(c, row_c, strip, panels, apart, m, n, k, further, row)``: of a strip and n columns, k rows of panels.

    The panels have `apart` rows. The product is added to what is there if it is a `further` one, else to `row`, which
    may be null.
    """
    rows, tile = bounded_rows(dtype, padded=True), product_rows()

    @njit(**KERNEL)
    def of_panel(c, row_c, strip, panel, m, n, k, accumulate, d, row_d):  # type: ignore[no-untyped-def]
        rows(c, row_c, strip, 1, tile * k + GAP, tile, panel, PANEL_COLUMNS, m, n, k, accumulate, d, row_d)

    @njit(**INLINE)
    def product(c, row_c, strip, panels, apart, m, n, k, further, row):  # type: ignore[no-untyped-def]
        d, row_d = (c, row_c) if further or address_of(row) == 0 else (row, 0)
        add = 1 if further or address_of(row) != 0 else 0
        for j in range(0, n, PANEL_COLUMNS):
            columns, panel = min(PANEL_COLUMNS, n - j), advance(panels, j * apart)
            of_panel(advance(c, j), row_c, strip, panel, m, columns, k, add, advance(d, j), row_d)

    return product
