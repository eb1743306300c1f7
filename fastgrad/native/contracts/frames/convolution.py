"""Convolutions: x (n, c, h, w), weight (o, c / groups, kh, kw) and y (n, o, oh, ow), one computed from the others.

Note [Stages]: a kernel computes in up to three stages, each a launch over steps that do not depend on each other: what
all of the next stage read, weights in the order of tiles for instance, is made in one before. Called without scratch it
only writes into the frame how many steps each stage has and how much work, how much scratch a thread needs and how
much all of them share. So what is computed how, which decides on that by sizes alone, is known to the kernels alone.

Note [Tiles]: kernels of a device that launches itself cannot be called for that. Their stages and scratch follow from
the sizes of the tiles below, see `native.shapes.convolution.plan_tiles`: in the first stage a block computes a tile of
the result, or of one part of its sums, of which each has a piece of the scratch; in the second the parts are added.
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

THREADS = 256
"""Of a block."""
FEW, NARROW = 4, 32
"""Rows, which are channels of a group, up to which there are tiles of other shapes."""
NARROW_TILE, BROAD_TILE = (32, 256), (64, 128)
"""Rows and columns of tiles."""
COLUMNS_OF_FEW = (THREADS, THREADS, THREADS // 32)
"""Columns of tiles of few rows: a thread has one, or for the gradients of weights a warp."""
MOST_BLOCKS, LEAST_TERMS = 512, 128
"""Sums are divided into parts up to so many blocks, and so many terms of a part."""

STAGES = 3
STAGE = Part("stage", steps=1, work=1)
SHARED = Part("shared", data=1, nbytes=1)
"""Scratch that all threads share: its address, and how many bytes it has."""

_X, _Y = ("n", "c", "h", "w"), ("n", "o", "oh", "ow")

# `bias` is that of what is computed. `tf32`: whether factors of float32 may be rounded to TF32, which GPUs alone do.
# What stands twice does so for down and across. A launch is `steps` of a stage,
# from the first on; they read and write where they belong.
CONVOLUTION = Frame(
    "convolution",
    x=reads(*_X), weight=reads(), y=writes(*_Y), bias=reads("o"), scratch=scratch(),
    shared=Field(SCRATCH, part=SHARED), stages=size(count=STAGES, part=STAGE),
    stage=number(), first=number(), steps=size(), tf32=number(),
    n=size(), c=size(), size=size("h w"), o=size(), out=size("oh ow"), kernel=size("kh kw"),
    stride=number("sh sw"), padding=number("ph pw"), dilation=number("dh dw"), groups=size(),
    splits=(Split("steps", {"first": 1}),),
)  # fmt: skip
CONVOLUTION_INPUT = CONVOLUTION.variant(x=updates(*_X), y=reads(*_Y), bias=reads("c"))
CONVOLUTION_WEIGHT = CONVOLUTION.variant(weight=updates(), y=reads(*_Y))
