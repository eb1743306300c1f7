"""What a kernel of the CUDA device says is wrong with what it reads: an index that is out of range, a number that is
no probability.

Several threads may find one; whose is kept nobody can tell.
"""

from __future__ import annotations

from typing import Any

from fastgrad.kernels.cuda.device import Target
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import INDEX_OUTSIDE, NO_PROBABILITY_THERE, REPORT

KIND, FIRST, SECOND = (REPORT.fields[name][0] for name in ("kind", "first", "second"))


def reporting(target: Target) -> Any:
    """A function that says that an index is out of range."""
    store = target.elements[INT64].store

    def report_index(f, index, size):
        store(f.status, FIRST, index)
        store(f.status, SECOND, size)
        store(f.status, KIND, INDEX_OUTSIDE)

    return report_index


def doubting(target: Target) -> Any:
    """A function that says that an element does not lie in [0, 1]."""
    store = target.elements[INT64].store

    def report_no_probability(f):
        store(f.status, KIND, NO_PROBABILITY_THERE)

    return report_no_probability


def checking(target: Target) -> Any:
    """``fits(f, index, size)``: whether an index is from 0 on below a size; where it is not, that is reported."""
    report = reporting(target)

    def fits(f, index, size):
        if index < 0 or index >= size:
            report(f, index, size)
            return False
        return True

    return fits
