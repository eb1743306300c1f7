"""The compiled code of the CUDA device, and where it is called."""

from __future__ import annotations

import functools

from fastgrad.native.build.routines import load_routines

ROUTINES = {
    "allocate": "memory", "release": "memory", "empty_cache": "memory", "new_arena": "memory",
    "record_use": "memory", "launch": "launches", "graph": "graphs",
}  # fmt: skip
"""What leaves the unit, and the module that it stands in: functions ``void(int64 frame)``."""


@functools.cache
def routines() -> dict[str, int]:
    """The addresses of these functions in this process."""
    return load_routines("cuda", "the CUDA device", ROUTINES)
