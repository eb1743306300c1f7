"""Convolutions: x (n, c, h, w), weight (o, c / groups, kh, kw) and y (n, o, oh, ow), one computed from the others.

Note [Stages]: a kernel computes in up to three stages, each a launch over steps that do not depend on each other: what
all of the next stage read, weights in the order of tiles for instance, is made in one before. Called without scratch it
only writes into the frame how many steps each stage has and how much work, how much scratch a thread needs and how
much all of them share. So what is computed how, which decides on that by sizes alone, is known to the kernels alone.
"""

from __future__ import annotations

from fastgrad.native.contracts.frame import (
    SCRATCH,
    Field,
    Frame,
    number,
    reads,
    scratch,
    size,
    updates,
    writes,
)
from fastgrad.native.contracts.record import Part
from fastgrad.native.contracts.split import Split

STAGES = 3
STAGE = Part("stage", steps=1, work=1)
SHARED = Part("shared", data=1, nbytes=1)
"""Scratch that all threads share: its address, and how many bytes it has."""

_X, _Y = ("n", "c", "h", "w"), ("n", "o", "oh", "ow")

# `bias` is that of what is computed. What stands twice does so for down and across. A launch is `steps` of a stage,
# from the first on; they read and write where they belong.
CONVOLUTION = Frame(
    "convolution",
    x=reads(*_X), weight=reads(), y=writes(*_Y), bias=reads("o"), scratch=scratch(),
    shared=Field(SCRATCH, part=SHARED), stages=size(count=STAGES, part=STAGE),
    stage=number(), first=number(), steps=size(),
    n=size(), c=size(), size=size("h w"), o=size(), out=size("oh ow"), kernel=size("kh kw"),
    stride=number("sh sw"), padding=number("ph pw"), dilation=number("dh dw"), groups=size(),
    splits=(Split("steps", {"first": 1}),),
)  # fmt: skip
CONVOLUTION_INPUT = CONVOLUTION.variant(x=updates(*_X), y=reads(*_Y), bias=reads("c"))
CONVOLUTION_WEIGHT = CONVOLUTION.variant(weight=updates(), y=reads(*_Y))
