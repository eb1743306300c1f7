"""What a kernel says is wrong with what it reads: an index that is out of range, an operand of another length."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import INLINE
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import position
from fastgrad.native.contracts.frame import INDEX_OUTSIDE, WRONG_LENGTH

Builder = tuple[Any, dict[str, Any]]


@njit(**INLINE)
def report_index(f, index, size):  # type: ignore[no-untyped-def]
    """Say that an index is out of range."""
    report = frames.report(f.status)
    report.kind = INDEX_OUTSIDE
    report.first = index
    report.second = size


@njit(**INLINE)
def fits(f, operand, numel):  # type: ignore[no-untyped-def]
    """Whether an input of a frame that is called ``framed`` has so many elements; says so if not."""
    if operand.numel == numel:
        return True
    report = frames.report(f.status)
    report.kind = WRONG_LENGTH
    report.first = position(operand, f.inputs)
    return False
