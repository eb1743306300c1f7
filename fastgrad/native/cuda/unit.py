"""The compiled code of the CUDA device, from the cache or compiled now, and where it is called."""

from __future__ import annotations

import functools
from collections.abc import Callable

from fastgrad.native.build import cache
from fastgrad.native.build.loader import load_object

ROUTINES = {
    "allocate": "memory", "release": "memory", "empty_cache": "memory", "new_arena": "memory",
    "record_use": "memory", "launch": "launches", "graph": "graphs",
}  # fmt: skip
"""What leaves the unit, and the module that it stands in: functions ``void(int64 frame)``."""

_SOURCES = ("native/base", "native/build/compiler.py", "native/contracts", "native/cuda")
_SECONDS = 3.0


@functools.cache
def routines() -> dict[str, int]:
    """The addresses of these functions in this process."""
    name = f"cuda-{cache.hash_package(*_SOURCES)}"
    unit = cache.get(name, "the CUDA device", lambda: _compile(name), _SECONDS)
    address: Callable[[str], int] = load_object(unit.code)
    return {routine: address(f"fastgrad_cuda_{routine}") for routine in ROUTINES}


def _compile(name: str) -> bytes:
    import importlib

    from fastgrad.native.build.compiler import compile_unit
    from fastgrad.native.contracts.entries import Export

    exports = [
        Export(f"cuda_{routine}", getattr(importlib.import_module(f"fastgrad.native.cuda.{module}"), routine))
        for routine, module in ROUTINES.items()
    ]
    return compile_unit(name, exports)
