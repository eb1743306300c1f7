"""The op table: every op with its domain, oracle, special values, ways to call it and errors."""

from __future__ import annotations

from . import (
    arithmetic,
    arrangement,
    attention,
    convolution,
    creation,
    decompositions,
    elementwise,
    functions,
    index,
    inplace,
    layers,
    losses,
    matmul,
    mixed,
    nn,
    orders,
    places,
    pooling,
    products,
    recurrent,
    reduce,
    resizing,
    running,
    scatter,
    searching,
    shape,
    special,
    summaries,
)
from .common import ErrorCase, GradPoint, OpCase, Sample

__all__ = ["OP_CASES", "ErrorCase", "GradPoint", "OpCase", "Sample"]

FAMILIES = (
    creation,
    arithmetic,
    elementwise,
    mixed,
    reduce,
    summaries,
    resizing,
    running,
    matmul,
    products,
    decompositions,
    shape,
    arrangement,
    index,
    scatter,
    searching,
    orders,
    nn,
    attention,
    recurrent,
    inplace,
    special,
    functions,
    layers,
    losses,
    convolution,
    places,
    pooling,
)

OP_CASES: list[OpCase] = [case for family in FAMILIES for case in family.CASES]
