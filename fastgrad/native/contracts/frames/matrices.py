"""Matrix products, and triangles of matrices."""

from __future__ import annotations

from fastgrad.native.contracts.frame import Frame, number, reads, size, stride, writes
from fastgrad.native.contracts.split import Split

# out (m, n) = a (m, k) b (k, n), `batch` times. The rows of an operand are `row_...` apart, or its columns, if it is
# stored by columns; its matrices `step_...`.
GEMM = Frame(
    "gemm",
    out=writes("batch", "m", "n"), a=reads(), b=reads(), m=size(), n=size(), k=size(),
    row_a=stride(), a_by_columns=number(), row_b=stride(), b_by_columns=number(),
    batch=size(), step_out=stride(), step_a=stride(), step_b=stride(),
    splits=(Split("batch", {"out": ("step_out",), "a": ("step_a",), "b": ("step_b",)}),),
)  # fmt: skip

# What lies on one side of a diagonal stays.
TRIANGLE = Frame(
    "triangle",
    out=writes("matrices", "rows", "columns"), x=reads("matrices", "rows", "columns"),
    matrices=size(), rows=size(), columns=size(), diagonal=number(),
    splits=(Split("matrices", {"out": ("rows", "columns"), "x": ("rows", "columns")}),),
)  # fmt: skip
