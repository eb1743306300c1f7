"""Sorting: the k first of each row in order, with their places in the row.

Note [A long row]: a single row that is long is sorted in stages, of which 0 is that of other rows. `MARKS`: what
divides its elements into buckets, all of one bucket before all of the next. `COUNT`: the words of a piece, and how many
fall into each bucket. `BEGIN`: where those of each piece and bucket begin. `DEAL`: each word to its bucket. `ORDER`: a
bucket is sorted, and written. A step is a piece or a bucket, so the result does not depend on how many go to a part.

Note [Digits]: a device of many blocks sorts rows that no block has room for by the digits of their keys, from the
lowest on. For each digit there are three launches: how many elements of each piece have which digit, where those begin,
and the elements go there. The last digit takes them to their places in the result.
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
DIGITS, DIGIT_PIECE, PASSES = 256, 4096, 3
"""Of a device that sorts by digits: values of a digit, elements of a piece, launches for each digit."""
FITS = 2048
"""Elements of the longest row that a block has room for, and of the longest part of a row that is sought."""
FEW_ROWS, SOUGHT = 64, 1 << 18
"""Of fewer rows than this, those that are longer than that are sorted by digits, because too few blocks would seek."""
MOST_PLACES = 1 << 32
"""Elements of the longest row: a place has half a word."""

# A row has stride `after`; `columns` of them lie side by side, which are as many, but in a part of a launch. A device
# of many blocks is told how many `launches` there are, one or those of Note [Digits], and by `steps` how many blocks.
SORTING = Frame(
    "sorting",
    values=writes("before", "k", "after"), places=writes("before", "k", "after", element=INT64),
    x=reads("before", "length", "after"), scratch=scratch(), shared=updates(element=INT64),
    before=size(), length=size(), columns=size(), after=stride(), k=size(), largest=number(),
    stage=number(), first=number(), steps=size(), launches=size(),
    splits=(
        Split(
            "before", {"values": ("k", "after"), "places": ("k", "after"), "x": ("length", "after")},
            where={"stage": ROWS}, unless={"before": 1},
        ),
        Split("columns", {"values": (), "places": (), "x": ()}, grain=COLUMNS, where={"stage": ROWS}),
        Split("steps", {"first": 1}, unless={"stage": ROWS}),
    ),
)  # fmt: skip
