"""Matrix products, and triangles of matrices."""

from __future__ import annotations

from fastgrad.native.contracts.frame import Frame, number, reads, size, stride, writes
from fastgrad.native.contracts.split import Split

BY_MATRICES, BY_ROWS, BY_COLUMNS = range(3)
"""What of a product is divided."""

LARGE_PRODUCT = 1 << 25
"""Multiply-adds up to which register tiles compute a product of operands as they lie, and BLAS beyond."""

LAID_OUT_PRODUCT = 1 << 23
"""Multiply-adds beyond which both operands are worth laying out for register tiles, if there are `SHARED_ROWS`."""

SHARED_ROWS = 16
"""Rows of a product that share what is laid out of its right operand, at least."""

PANEL_COLUMNS = 32
"""Columns of a panel of a matrix that is laid out once for many tiles to read."""
STRIP_ROWS = 128
"""Rows of the other operand that go through all panels while the cache holds them."""
FEW_STRIPS = 2
"""Strips that the second level of the cache holds, so that they share panels that are laid out as they are needed."""

# out (m, n) = a (m, k) b (k, n), `batch` times; where neither m nor n is 1 plus the row `added`, on the host, unless it
# is null. The rows of an operand are `row_...` apart, or its columns, if it is stored by columns; its matrices
# `step_...`. The right one may lie in panels (see `PANELS`), or both are laid out where they are multiplied. How it is
# divided, and into parts of a multiple of how many rows or columns, is decided with the sizes, as what each part costs
# beyond its share depends on them. On a GPU, floats may be multiplied by a factor and added to what stands in `out`,
# times another one: bits of float64. Elsewhere, these are one and zero.
GEMM = Frame(
    "gemm",
    out=writes("batch", "m", "n"), a=reads(), b=reads(), added=reads("n"), m=size(), n=size(), k=size(),
    row_out=stride(), row_a=stride(), a_by_columns=number(),
    row_b=stride(), b_by_columns=number(), b_in_panels=number(), laid_out=number(),
    batch=size(), step_out=stride(), step_a=stride(), step_b=stride(), divided=number(), grain=size(),
    alpha=number(), beta=number(),
    splits=(
        Split("batch", {"out": ("step_out",), "a": ("step_a",), "b": ("step_b",)}, where={"divided": BY_MATRICES}),
        Split(
            "m", {"out": ("row_out",), "a": ("row_a",)}, grain="grain",
            where={"divided": BY_ROWS, "a_by_columns": 0},
        ),
        Split("m", {"out": ("row_out",), "a": ()}, grain="grain", where={"divided": BY_ROWS, "a_by_columns": 1}),
        Split(
            "n", {"out": (), "b": (), "added": ()}, grain="grain",
            where={"divided": BY_COLUMNS, "b_by_columns": 0, "b_in_panels": 0},
        ),
        Split(
            "n", {"out": (), "b": ("row_b",), "added": ()}, grain="grain",
            where={"divided": BY_COLUMNS, "b_by_columns": 1},
        ),
    ),
)  # fmt: skip

# The columns of matrices (k, n), whose rows or columns are `row` apart, by panels, of which a matrix has `panels`.
PANELS = Frame(
    "panels",
    out=writes("batch", "panels", "k", PANEL_COLUMNS), x=reads(), batch=size(), panels=size(), n=size(), k=size(),
    step=stride(), row=stride(), by_columns=number(),
    splits=(
        Split("batch", {"out": ("panels", "k", PANEL_COLUMNS), "x": ("step",)}, unless={"batch": 1}),
        Split("n", {"out": ("k",), "x": ()}, grain=PANEL_COLUMNS, where={"by_columns": 0}),
        Split("n", {"out": ("k",), "x": ("row",)}, grain=PANEL_COLUMNS, where={"by_columns": 1}),
    ),
)  # fmt: skip

# What lies on one side of a diagonal stays.
TRIANGLE = Frame(
    "triangle",
    out=writes("matrices", "rows", "columns"), x=reads("matrices", "rows", "columns"),
    matrices=size(), rows=size(), columns=size(), diagonal=number(),
    splits=(Split("matrices", {"out": ("rows", "columns"), "x": ("rows", "columns")}),),
)  # fmt: skip
