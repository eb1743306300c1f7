"""Reading the frame of `native.shapes.framed`, and saying what is wrong with it."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import INLINE
from fastgrad.native.base.intrinsics import words
from fastgrad.native.contracts.frames import FRAME_INPUTS, FRAME_INTS, FRAME_NUMELS, FRAME_STATUS

BAD_LENGTH = 2


@njit(**INLINE)
def integer(f, k):  # type: ignore[no-untyped-def]
    """Integer `k` of the call."""
    return f[FRAME_INTS + k]


@njit(**INLINE)
def given(f, k):  # type: ignore[no-untyped-def]
    """Whether the call has an input `k`."""
    return f[FRAME_INPUTS + k] != 0


@njit(**INLINE)
def fits(f, k, numel):  # type: ignore[no-untyped-def]
    """Whether input `k` has so many elements; says so in the status if not."""
    if f[FRAME_NUMELS + k] == numel:
        return True
    status = words(f[FRAME_STATUS])
    status[0] = BAD_LENGTH
    status[1] = k
    return False


@njit(**INLINE)
def bad_index(f, value, size):  # type: ignore[no-untyped-def]
    """Say that an index is out of range."""
    status = words(f[FRAME_STATUS])
    status[0] = 1
    status[1] = value
    status[2] = size


Builder = tuple[Any, dict[str, Any]]
