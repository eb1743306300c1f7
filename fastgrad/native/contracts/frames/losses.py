"""Negative log likelihood. A target that is no class is reported."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import Frame, number, reads, size, status, stride, updates, writes
from fastgrad.native.contracts.split import Split

# How losses of rows are put together.
EACH, MEAN = 0, 1

# One loss for each row, or one for all; `total` is the sum of the weights that count.
NLL = Frame(
    "nll",
    loss=writes(), total=writes(), x=reads(), targets=reads("rows", element=INT64), weights=reads("classes"),
    rows=size(), classes=size(), row_stride=stride(), class_stride=stride(),
    reduction=number(), ignore_index=number(), status=status(),
)  # fmt: skip

# The same with the gradient of the loss in its place, and that of x, which is zero before, in the place of x.
_ROW = {"x": ("row_stride",), "targets": ()}
NLL_BACKWARD = NLL.variant(
    loss=reads(), total=reads(), x=updates(),
    splits=(
        Split("rows", {**_ROW, "loss": ()}, where={"reduction": EACH}),
        Split("rows", _ROW, unless={"reduction": EACH}),
    ),
)  # fmt: skip
