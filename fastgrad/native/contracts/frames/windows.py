"""Pooling and padding: what is done to the last dimensions of a tensor.

A place of a plane has one element, or where channels lie last one of each channel.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import COMPUTED, Frame, number, reads, size, status, writes
from fastgrad.native.contracts.split import Split

_X, _OUT = ("height", "width", "channels"), ("out_height", "out_width", "channels")
_PLANES = {
    "out": writes("planes", *_OUT), "indices": writes("planes", *_OUT, element=INT64), "x": reads("planes", *_X),
    "planes": size(), "channels": size(), "extent": size("height width"), "out_extent": size("out_height out_width"),
}  # fmt: skip
_EACH_PLANE = (Split("planes", {"out": _OUT, "indices": _OUT, "x": _X}),)

# From planes to planes; only maxima have indices: where in its plane each of them is.
PLANES = Frame("planes", **_PLANES, splits=_EACH_PLANE)

# With windows: the integers of the call stand behind the sizes.
POOLING = Frame("pooling", **_PLANES, settings=number(count=8))
_WINDOW = "kernel_h kernel_w stride_h stride_w padding_h padding_w"
MAX_POOLING = POOLING.named("max_pooling", splits=_EACH_PLANE, settings=f"{_WINDOW} dilation_h dilation_w")
MEAN_POOLING = POOLING.named("mean_pooling", splits=_EACH_PLANE, settings=f"{_WINDOW} counts_padding divisor")

# Indices say where in larger planes each element of smaller ones is; one that is outside is reported. What stands in
# the smaller planes goes to the larger ones, where it is added up.
TO_PLACES = Frame(
    "places",
    **_PLANES | {"indices": reads("planes", *_X, element=INT64), "out": writes("planes", *_OUT, element=COMPUTED)},
    status=status(),
    splits=(Split("planes", {"out": _OUT, "indices": _X, "x": _X}),),
)  # fmt: skip
# What stands there in the larger planes goes to the smaller ones.
FROM_PLACES = TO_PLACES.variant(
    out=_PLANES["out"], indices=reads("planes", *_OUT, element=INT64), splits=_EACH_PLANE
)

# One dimension: `rows` before it, its lengths in x and in the result, elements after it; the result begins `begin`
# before x does. The value is the bits of a float64, or an integer.
PADDING = Frame(
    "padding",
    out=writes("rows", "out_length", "after"), x=reads("rows", "length", "after"),
    rows=size(), length=size(), out_length=size(), after=size(), begin=number(), mode=number(), value=number(),
    splits=(Split("rows", {"out": ("out_length", "after"), "x": ("length", "after")}),),
)  # fmt: skip
CONSTANT, REFLECT, REPLICATE, CIRCULAR = range(4)
"""Modes of padding."""
