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
    matmul,
    mixed,
    nn,
    pooling,
    recurrent,
    reduce,
    shape,
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
    nn,
    attention,
    recurrent,
    convolution,
    pooling,
    inplace,
)

OP_CASES: list[OpCase] = [case for family in FAMILIES for case in family.CASES]
