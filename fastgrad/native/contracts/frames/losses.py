"""Negative log likelihood. A target that is no class is reported."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import COMPUTED, Frame, number, reads, size, status, stride, writes
from fastgrad.native.contracts.split import Split

# How losses of rows are put together.
EACH, MEAN = 0, 1

# Each of `rows` has classes for each of `inner` places. One loss for each place, or one for all; `total` is the sum of
# the weights that count.
NLL = Frame(
    "nll",
    loss=writes(), total=writes(element=COMPUTED), x=reads(), targets=reads("rows", "inner", element=INT64),
    weights=reads("classes"), rows=size(), classes=size(), inner=size(),
    row_stride=stride(), class_stride=stride(), inner_stride=stride(),
    reduction=number(), ignore_index=number(), status=status(),
)  # fmt: skip

# The same with the gradient of the loss in its place, and that of x, which is contiguous, in the place of x.
_ROW = {"x": ("row_stride",), "targets": ("inner",)}
NLL_BACKWARD = NLL.variant(
    loss=reads(), total=reads(element=COMPUTED), x=writes("rows", "classes", "inner"),
    splits=(
        Split("rows", {**_ROW, "loss": ("inner",)}, where={"reduction": EACH}),
        Split("rows", _ROW, unless={"reduction": EACH}),
    ),
)  # fmt: skip

# Whether all elements are probabilities: from 0 to 1.
PROBABILITIES = Frame("probabilities", x=reads("n"), n=size(), status=status())
