"""Reductions over any dimensions, and ops over the rows of one dimension."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import Frame, number, reads, size, stride, writes
from fastgrad.native.contracts.limits import FRAME_DIMS
from fastgrad.native.contracts.record import Part
from fastgrad.native.contracts.split import Last, PerStep, Split

# Dimensions from the innermost on, neighbours merged; at least one.
DIMS = Part("dims", rank=1, sizes=FRAME_DIMS, strides=FRAME_DIMS)

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

COLUMNS = 64
"""Rows that lie side by side are worked on in tiles of so many, which parts keep whole."""
BY_BLOCKS, BY_COLUMNS = range(2)
"""What of the rows is divided: the blocks one behind the other, or the rows that lie side by side in each."""

# A row has `length` elements, `pitch` apart from each other; `after` rows lie side by side, in each of `before` blocks
# of `pitch` rows.
_BLOCK, _SIDE = ("length", "pitch"), ()


def _ways(**moves: tuple[str, ...]) -> tuple[Split, ...]:
    return (
        Split("before", moves, where={"divided": BY_BLOCKS}),
        Split("after", dict.fromkeys(moves, _SIDE), grain=COLUMNS, where={"divided": BY_COLUMNS}),
    )


ROWS = Frame(
    "rows",
    out=writes("before", "length", "after"),
    x=reads("before", "length", "after"), second=reads("before", "length", "after"),
    before=size(), length=size(), after=size(), pitch=stride(), divided=number(),
    splits=_ways(out=_BLOCK, x=_BLOCK, second=_BLOCK),
)  # fmt: skip

# The same with one result for each row.
REDUCED_ROWS = ROWS.variant(
    out=writes("before", "after"), splits=_ways(out=("pitch",), x=_BLOCK),
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
