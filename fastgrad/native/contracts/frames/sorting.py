"""Sorting: the k first of each row in order, with their places in the row.

Note [A long row]: a single row that is long is sorted in stages, of which 0 is that of other rows. `MARKS`: what
divides its elements into buckets, all of one bucket before all of the next. `COUNT`: the words of a piece, and how many
fall into each bucket. `BEGIN`: where those of each piece and bucket begin. `DEAL`: each word to its bucket. `ORDER`: a
bucket is sorted, and written. A step is a piece or a bucket, so the result does not depend on how many go to a part.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import Frame, number, reads, scratch, size, stride, updates, writes
from fastgrad.native.contracts.split import Split

COLUMNS = 16
"""Rows with a stride are sorted this many at a time, so that what lies side by side is read once."""
COUNTERS, PADDING = 3 << 11, 8
"""Words of scratch for counters, and behind each row, so that rows do not begin at multiples of a page."""
BUCKETS, PIECE = 16, 16384
"""Of a long row: how many buckets, and elements of a piece."""
LONG = 1 << 18
"""Elements from which on a row is long."""
ROWS, MARKS, COUNT, BEGIN, DEAL, ORDER = range(6)
MOST_PLACES = 1 << 32
"""Elements of the longest row: a place has half a word."""

# A row has stride `after`; `columns` of them lie side by side, which are as many, but in a part of a launch.
SORTING = Frame(
    "sorting",
    values=writes("before", "k", "after"), places=writes("before", "k", "after", element=INT64),
    x=reads("before", "length", "after"), scratch=scratch(), shared=updates(element=INT64),
    before=size(), length=size(), columns=size(), after=stride(), k=size(), largest=number(),
    stage=number(), first=number(), steps=size(),
    splits=(
        Split(
            "before", {"values": ("k", "after"), "places": ("k", "after"), "x": ("length", "after")},
            where={"stage": ROWS}, unless={"before": 1},
        ),
        Split("columns", {"values": (), "places": (), "x": ()}, grain=COLUMNS, where={"stage": ROWS}),
        Split("steps", {"first": 1}, unless={"stage": ROWS}),
    ),
)  # fmt: skip
