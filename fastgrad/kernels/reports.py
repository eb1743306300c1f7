"""What a kernel says is wrong with what it reads: an index that is out of range, a number that is no probability."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import INLINE
from fastgrad.native.base import frames
from fastgrad.native.contracts.frame import INDEX_OUTSIDE, NO_PROBABILITY_THERE, NO_ROOM

Builder = tuple[Any, dict[str, Any]]


@njit(**INLINE)
def report_index(f, index, size):  # type: ignore[no-untyped-def]
    """Say that an index is out of range."""
    report = frames.report(f.status)
    report.kind = INDEX_OUTSIDE
    report.first = index
    report.second = size


@njit(**INLINE)
def has_steps(f, steps):  # type: ignore[no-untyped-def]
    """Whether there are as many steps as a part is to do, from its first on; if not, that is reported."""
    if f.first < 0 or f.count < 0 or f.first > steps - f.count:
        report_index(f, f.first, steps - f.count + 1)
        return False
    return True


@njit(**INLINE)
def report_no_probability(f):  # type: ignore[no-untyped-def]
    """Say that an element does not lie in [0, 1]."""
    frames.report(f.status).kind = NO_PROBABILITY_THERE


@njit(**INLINE)
def report_no_room(f):  # type: ignore[no-untyped-def]
    """Say that there is no memory for what the kernel works with."""
    frames.report(f.status).kind = NO_ROOM
