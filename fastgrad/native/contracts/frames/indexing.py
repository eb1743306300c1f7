"""Gathering and scattering, indexing by tensors. An index that is out of range is reported."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import Frame, number, reads, size, status, stride, updates, writes
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.split import Split

_FIRST = {"out": ("out_strides",), "index": ("index_strides",)}
_ACROSS = Split("sizes", {**_FIRST, "x": ("x_strides",)}, unless={"dim": 0})

# `sizes` are those of the index; along `dim`, where it points, x has `length` elements.
GATHER = Frame(
    "gather",
    out=writes(), x=reads(), index=reads(element=INT64), rank=size(), sizes=size(count=MAX_DIMS),
    out_strides=stride(count=MAX_DIMS), x_strides=stride(count=MAX_DIMS), index_strides=stride(count=MAX_DIMS),
    length=size(), dim=number(), status=status(),
    splits=(_ACROSS, Split("sizes", _FIRST, unless={"rank": 0})),
)  # fmt: skip

# The same with what is added to x in the place of the result.
SCATTER = GATHER.variant(out=reads(), x=updates(), splits=(_ACROSS,))

# `count` index tensors of `n` elements each stand one after the other. They index as many neighbouring dimensions of
# x, with `before` elements before them and `after` behind. The place of an element in x depends on all of `lengths`, so
# that no step has one length.
INDEX = Frame(
    "index",
    out=writes("before", "n", "after"), x=reads(), indices=reads("count", "n", element=INT64),
    count=size(), n=size(), before=size(), after=size(), accumulate=number(), lengths=size(count=MAX_DIMS),
    status=status(),
)  # fmt: skip

# The same with what is put into x, or added to it, in the place of the result.
INDEX_PUT = INDEX.variant(out=reads("before", "n", "after"), x=updates())
