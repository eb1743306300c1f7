"""Time, as compiled code reads it, and waiting."""

from __future__ import annotations

import sys

from numba import types

from fastgrad.native.base.intrinsics import clock_gettime, extern, native, stack_small, words

usleep = extern("usleep", types.int32, types.int32)
CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1


@native
def nanoseconds():
    """A clock that only goes forward."""
    place = stack_small()
    clock_gettime(CLOCK_MONOTONIC, place)
    return words(place)[0] * 1000000000 + words(place)[1]
