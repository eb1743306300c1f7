"""All gradients of layer and root-mean-square normalisation at once.

Note [Stages of gradients]: the operand is a matrix of rows that are normalised. In the first stage a step is a block of
`block` rows: their gradients, and the sums over them that weight and bias need, in float64. In the second a step is a
run of columns, over which the sums of all blocks are added in their order. So the result does not depend on the number
of threads.
"""

from __future__ import annotations

from functools import partial

from fastgrad.native.contracts.element_types import FLOAT64
from fastgrad.native.contracts.frame import COMPUTED, Frame, number, reads, size, updates, writes
from fastgrad.native.contracts.split import Split

COLUMNS = 512
"""Columns of a step of the second stage."""

_ROWS, _ROW = ("rows", "length"), ("length",)
_total = partial(writes, element=COMPUTED)
_statistics = partial(reads, element=COMPUTED)
NORM_GRADIENTS = Frame(
    "norm_gradients",
    out=writes(*_ROWS), weight_out=_total(*_ROW), bias_out=_total(*_ROW),
    grad=reads(*_ROWS), x=reads(*_ROWS), weight=reads(*_ROW), mean=_statistics("rows"), rstd=_statistics("rows"),
    sums=updates(element=FLOAT64),  # by weight, then by bias, of each block
    rows=size(), length=size(), blocks=size(), block=size(), stage=number(), first=number(), steps=size(),
    splits=(Split("steps", {"first": 1}),),
)  # fmt: skip
NORM_UNCENTRED_GRADIENTS = NORM_GRADIENTS.variant(bias_out=_total(0), mean=_statistics(0))
