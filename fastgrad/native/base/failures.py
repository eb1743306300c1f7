"""Leaving facts for the message of an error."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native_once, runtime


@native_once
def fail(status, a, b):
    """Leave two facts for the message and return the status as a negative number."""
    e = runtime().error
    e[0] = a
    e[1] = b
    return -status
