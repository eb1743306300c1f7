"""Reductions over any dimensions, and ops over the rows of one dimension."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import Frame, number, reads, size, stride, writes
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.record import Part
from fastgrad.native.contracts.split import Last, PerStep, Split

# Dimensions from the innermost on, neighbours merged; at least one.
DIMS = Part("dims", rank=1, sizes=MAX_DIMS, strides=MAX_DIMS)

# `count` elements are reduced to each of the results. Whether sums run along a row or along columns depends on whether
# the innermost of the kept dimensions has one element: hence the grain.
REDUCTION = Frame(
    "reduction",
    out=writes("results"), x=reads(), count=size(), results=size(), kept=size(part=DIMS), gone=size(part=DIMS),
    splits=(
        Split(
            Last("kept.sizes", "kept.rank"),
            {"out": (PerStep("results"),), "x": (Last("kept.strides", "kept.rank"),)}, ("results",), grain=2,
        ),
    ),
)  # fmt: skip

# A row has `length` elements, `after` apart from each other; there are `before` times `after` of them.
ROWS = Frame(
    "rows",
    out=writes("before", "length", "after"),
    x=reads("before", "length", "after"), second=reads("before", "length", "after"),
    before=size(), length=size(), after=size(),
    splits=(
        Split("before", {"out": ("length", "after"), "x": ("length", "after"), "second": ("length", "after")}),
    ),
)  # fmt: skip

# The same with one result for each row.
REDUCED_ROWS = ROWS.variant(
    out=writes("before", "after"), splits=(Split("before", {"out": ("after",), "x": ("length", "after")}),),
)  # fmt: skip

# The extreme value of each row and its place. There are `before` times `columns` rows, those of the columns beside each
# other; the elements of a row are `after` apart, which is the number of columns of the whole launch. Values are only
# written where there is room for them. Where x holds those of blocks of `step` elements, `within` says the place of
# each in its block.
_STEP = {
    "values": ("columns",),
    "places": ("columns",),
    "x": ("length", "after"),
    "within": ("length", "after"),
}
EXTREMES = Frame(
    "extremes",
    values=writes("before", "columns"), places=writes("before", "columns", element=INT64),
    x=reads("before", "length", "columns"), within=reads("before", "length", "columns", element=INT64),
    before=size(), length=size(), after=stride(), columns=size(), step=number(),
    splits=(
        Split("before", _STEP, unless={"before": 1}),
        Split("columns", dict.fromkeys(_STEP, ()), grain=64),
    ),
)  # fmt: skip
