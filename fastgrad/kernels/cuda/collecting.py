"""Adding up what indices name, always in the order of the indices: the core of the transposes of gathering.

A block has some of the places to which something may be added, and alone writes there. Its threads look through all
indices, so many at a time as there are threads, and where some name a place of the block go through these together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.device import Target, barrier, barrier_any, thread
from fastgrad.native.contracts.element_types import BOOL, INT32

PLACES = 16
"""Places of a block."""


def collecting(target: Target, place_of: Any, add: Any, threads: int) -> Any:
    """A function ``collect(f, line, n, first)`` for a block's places from `first` on.

    ``place_of(f, line, i)`` is the place that the i-th of n indices names, or -1; all threads call
    ``add(f, line, i, place)``, and each has elements of its own there.
    """
    room, get, put = (
        target.elements[INT32].shared(threads),
        target.elements[INT32].get,
        target.elements[INT32].put,
    )

    def collect(f, line, n, first):
        found, start = room(), np.int64(0)
        while start < n:
            i, near = start + thread(), np.int64(-1)
            if i < n:
                near = place_of(f, line, i) - first
            mine = near >= 0 and near < PLACES
            if barrier_any(mine):
                put(found, thread(), near if mine else -1)
                barrier()
                k = 0
                while k < threads:
                    place = get(found, k)
                    if place >= 0:
                        add(f, line, start + k, first + place)
                    k += 1
                barrier()
            start += threads

    return collect


def adding(dtype: int) -> Any:
    """What two elements come to."""
    boolean = dtype == BOOL

    def plus(a, b):
        return a | b if boolean else a + b

    return plus


def combining(dtype: int, how: str) -> Any:
    """What becomes of an element and of one that is scattered to it: NaN stays the largest and the smallest."""
    boolean = dtype == BOOL

    def latest(a, b):
        return b

    def times(a, b):
        return a & b if boolean else a * b

    def largest(a, b):
        return b if b > a or b != b else a

    def smallest(a, b):
        return b if b < a or b != b else a

    return {"set": latest, "add": adding(dtype), "mul": times, "amax": largest, "amin": smallest}[how]
