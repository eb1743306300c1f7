"""What a kernel says is wrong with what it reads: an index that is out of range."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import INLINE
from fastgrad.native.base import frames
from fastgrad.native.contracts.frame import INDEX_OUTSIDE

Builder = tuple[Any, dict[str, Any]]


@njit(**INLINE)
def report_index(f, index, size):  # type: ignore[no-untyped-def]
    """Say that an index is out of range."""
    report = frames.report(f.status)
    report.kind = INDEX_OUTSIDE
    report.first = index
    report.second = size
