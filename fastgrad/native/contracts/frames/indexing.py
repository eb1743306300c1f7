"""Gathering and scattering, indexing by tensors. An index that is out of range is reported."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import Frame, number, reads, size, status, stride, updates, writes
from fastgrad.native.contracts.limits import FRAME_DIMS, MAX_DIMS
from fastgrad.native.contracts.split import Last, Split

_STRIDES = {"out": "out_strides", "x": "x_strides", "index": "index_strides"}
_FIRST = Split("sizes", {name: (strides,) for name, strides in _STRIDES.items()}, unless={"along": 0})
_LAST = Split(
    Last("sizes", "rank"), {name: (Last(strides, "rank"),) for name, strides in _STRIDES.items()}, grain=16
)

# `sizes` are those of the index, neighbours merged; at least one. The dimension where it points is the one with number
# `along`, if it is more than one element long: there x has `length` elements, `step` apart, and its stride is zero.
GATHER = Frame(
    "gather",
    out=writes(), x=reads(), index=reads(element=INT64), rank=size(), sizes=size(count=FRAME_DIMS),
    out_strides=stride(count=FRAME_DIMS), x_strides=stride(count=FRAME_DIMS), index_strides=stride(count=FRAME_DIMS),
    length=size(), step=stride(), along=number(), status=status(), splits=(_FIRST, _LAST),
)  # fmt: skip

# The same with what is added to x in the place of the result. No two parts may add to one element.
SCATTER = GATHER.variant(
    out=reads(), x=updates(), splits=(_FIRST, _LAST._replace(unless={"rank": 1})),
)  # fmt: skip

_BY_INDEX = Split("n", {"out": ("after",), "indices": ()}, grain=16, where={"before": 1, "count": 1})
_BY_OUTER = Split("before", {"out": ("n", "after"), "x": ("lengths", "after")}, where={"count": 1})

# `count` index tensors of `n` elements each stand one after the other. They index as many neighbouring dimensions of
# x, with `before` elements before them and `after` behind. The place of an element in x depends on all of `lengths`, so
# that no step has one length.
INDEX = Frame(
    "index",
    out=writes("before", "n", "after"), x=reads(), indices=reads("count", "n", element=INT64),
    count=size(), n=size(), before=size(), after=size(), accumulate=number(), from_front=number(),
    lengths=size(count=FRAME_DIMS), status=status(), splits=(_BY_INDEX, _BY_OUTER),
)  # fmt: skip

# The same with what is put into x, or added to it, in the place of the result. Two indices may be one place.
INDEX_PUT = INDEX.variant(out=reads("before", "n", "after"), x=updates(), splits=(_BY_OUTER,))

# The places of the elements that are not zero, `rank` numbers for each of the `found` first, side by side or else
# apart. Without an address for them their number goes to `count`. A device of many blocks keeps behind it how many
# stand before each piece, and is told how many `launches` there are: counting takes two.
NONZERO_PIECE = 4096
NONZERO = Frame(
    "nonzero",
    places=writes("rank", "found", element=INT64), count=updates(element=INT64), x=reads("n"), n=size(), rank=size(),
    found=size(), by_rows=number(), launches=size(), sizes=size(count=MAX_DIMS),
)  # fmt: skip
