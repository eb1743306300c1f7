"""Products with a matrix that many of them share: it is laid out once, by panels of columns.

A panel is `PANEL_COLUMNS` columns wide, its rows follow each other, and so do the panels. Tiles then read neighbouring
memory, where the rows of a wide matrix would lie in few places of the cache. The last panel may be filled in part.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.gemm import matrix_product
from fastgrad.kernels.cpu.micro import bounded_product, lanes, transposing
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.kernels.reports import Builder, report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance
from fastgrad.native.contracts.frames.recurrent import PANEL_COLUMNS


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
    """A matrix of k rows and n columns by panels, from itself or from its transpose."""
    pointer, transpose = ELEMENTS[dtype].pointer, _transpose(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.panels(frame)
        out, x = pointer(f.out), pointer(f.x.data)
        if f.n > min(f.row, f.panels * PANEL_COLUMNS):
            report_index(f, f.n, f.row)
            return
        for j in range(0, f.n, PANEL_COLUMNS):
            panel, columns = advance(out, j * f.k), min(PANEL_COLUMNS, f.n - j)
            if f.transposed:
                transpose(panel, advance(x, j * f.k), f.k, columns, f.k)
            else:
                for p in range(f.k):
                    for c in range(columns):
                        panel[p * PANEL_COLUMNS + c] = x[p * f.row + j + c]

    return run, KERNEL


def panel_product(dtype: int) -> Any:
    """``product(c, row_c, a, row_a, panels, m, n, k, accumulate)``, of `a` (m, k) and what lies in panels.

    The row-major product is written to `c`, or added to it if `accumulate` is not 0.
    """
    if lanes(dtype):
        tiles = bounded_product(dtype)
    else:
        general = matrix_product(dtype)

        @njit(**INLINE)
        def tiles(c, row_c, a, row_a, col_a, b, row_b, m, n, k, accumulate):  # type: ignore[no-untyped-def]
            general(0, 0, m, n, k, a, row_a, b, row_b, accumulate, c, row_c)

    @njit(**KERNEL)
    def product(c, row_c, a, row_a, panels, m, n, k, accumulate):  # type: ignore[no-untyped-def]
        for j in range(0, n, PANEL_COLUMNS):
            columns, panel = min(PANEL_COLUMNS, n - j), advance(panels, j * k)
            tiles(advance(c, j), row_c, a, row_a, 1, panel, PANEL_COLUMNS, m, columns, k, accumulate)

    return product
