"""Convolutions: x (n, c, h, w), weight (o, c / groups, kh, kw) and y (n, o, oh, ow), one computed from the others.

Note [Scratch]: a launch without scratch only writes into the frame how many bytes a thread needs. So what is computed
how, which decides on that, is known to the kernels alone.
"""

from __future__ import annotations

from fastgrad.native.contracts.frame import Frame, number, reads, scratch, size, updates, writes
from fastgrad.native.contracts.split import Split

_IMAGES = (Split("n", {"x": ("c", "h", "w"), "y": ("o", "oh", "ow")}),)
_X, _Y = ("n", "c", "h", "w"), ("n", "o", "oh", "ow")

# `bias` is that of what is computed. What stands twice does so for down and across.
CONVOLUTION = Frame(
    "convolution",
    x=reads(*_X), weight=reads(), y=writes(*_Y), bias=reads("o"), scratch=scratch(),
    n=size(), c=size(), size=size("h w"), o=size(), out=size("oh ow"), kernel=size("kh kw"),
    stride=number("sh sw"), padding=number("ph pw"), dilation=number("dh dw"), groups=size(), splits=_IMAGES,
)  # fmt: skip
CONVOLUTION_INPUT = CONVOLUTION.variant(x=updates(*_X), y=reads(*_Y), bias=reads("c"))
CONVOLUTION_WEIGHT = CONVOLUTION.variant(weight=updates(), y=reads(*_Y), splits=())  # a sum over all images
