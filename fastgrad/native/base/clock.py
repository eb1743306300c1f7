"""Time, as compiled code reads it, and waiting."""

from __future__ import annotations

import sys

from numba import types

from fastgrad.native.base.intrinsics import clock_gettime, extern, native, stack_small, words

usleep = extern("usleep", types.int32, types.int32)
CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1
CLOCK_THREAD = 16 if sys.platform == "darwin" else 3


@native
def _read(clock):
    """What a clock says."""
    place = stack_small()
    clock_gettime(clock, place)
    return words(place)[0] * 1000000000 + words(place)[1]


@native
def nanoseconds():
    """A clock that only goes forward."""
    return _read(CLOCK_MONOTONIC)


@native
def thread_nanoseconds():
    """How long the calling thread has had a processor."""
    return _read(CLOCK_THREAD)
