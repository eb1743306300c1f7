"""The op table: every op with its domain, oracle, special values, ways to call it and errors."""

from __future__ import annotations

from . import (
    arithmetic,
    attention,
    convolution,
    creation,
    elementwise,
    index,
    inplace,
    layers,
    losses,
    matmul,
    mixed,
    nn,
    orders,
    pooling,
    recurrent,
    reduce,
    scatter,
    searching,
    shape,
    special,
)
from .common import ErrorCase, GradPoint, OpCase, Sample

__all__ = ["OP_CASES", "ErrorCase", "GradPoint", "OpCase", "Sample"]

FAMILIES = (
    creation,
    arithmetic,
    elementwise,
    mixed,
    reduce,
    matmul,
    shape,
    index,
    scatter,
    searching,
    orders,
    nn,
    attention,
    recurrent,
    inplace,
    special,
    layers,
    losses,
    convolution,
    pooling,
)

OP_CASES: list[OpCase] = [case for family in FAMILIES for case in family.CASES]
