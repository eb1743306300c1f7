"""Sorting: the k first of each row in order, with their places in the row."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import Frame, number, reads, scratch, size, stride, writes
from fastgrad.native.contracts.split import Split

COLUMNS = 16
"""Rows with a stride are sorted this many at a time, so that what lies side by side is read once."""
COUNTERS, PADDING = 3 << 11, 8
"""Words of scratch for counters, and behind each row, so that rows do not begin at multiples of a page."""
MOST_PLACES = 1 << 32
"""Elements of the longest row: a place has half a word."""

# A row has stride `after`; `columns` of them lie side by side, which are as many, but in a part of a launch.
SORTING = Frame(
    "sorting",
    values=writes("before", "k", "after"), places=writes("before", "k", "after", element=INT64),
    x=reads("before", "length", "after"), scratch=scratch(),
    before=size(), length=size(), columns=size(), after=stride(), k=size(), largest=number(),
    splits=(
        Split(
            "before", {"values": ("k", "after"), "places": ("k", "after"), "x": ("length", "after")},
            unless={"before": 1},
        ),
        Split("columns", {"values": (), "places": (), "x": ()}, grain=COLUMNS),
    ),
)  # fmt: skip
