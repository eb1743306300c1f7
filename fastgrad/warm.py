"""Filling the cache: compiling ahead what programs usually need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fastgrad.kernels.compile import object_code, unit_name
from fastgrad.native.build import cache
from fastgrad.native.build.loader import CompileNotice
from fastgrad.native.contracts.element_types import BOOL, FLOAT32, FLOAT64, INT64
from fastgrad.native.contracts.frames import FLAT, INPLACE, STRIDED
from fastgrad.ops.registry import KERNELS

_FORMS = (FLAT, STRIDED, INPLACE)
_FLOATS = (FLOAT32, FLOAT64)
_COPIES = (BOOL, INT64, FLOAT32, FLOAT64)


def _usual() -> Iterator[tuple[Any, int, int]]:
    """Kernels, dtypes and forms worth having before they are asked for."""
    for kernel in KERNELS:
        if kernel.builder != "elementwise:build":
            for dtype in (
                *_FLOATS,
                *((INT64,) if kernel.name in ("sum", "gather", "index", "integers") else ()),
            ):
                yield kernel, dtype, FLAT
        elif kernel.name.startswith("copy_from_"):
            if kernel.options["source"] in _COPIES:
                for dtype in _COPIES:
                    for form in _FORMS[:2]:
                        yield kernel, dtype, form
        elif not kernel.name.startswith("bitwise"):
            for dtype in _FLOATS:
                for form in _FORMS if kernel.name in ("add", "sub", "mul", "div") else _FORMS[:2]:
                    yield kernel, dtype, form


def warmup(progress: Callable[[int, int, str], None] | None = None) -> int:
    """Compile the usual kernels into the cache, so that later programs find them there.

    Parameters
    ----------
    progress : callable, optional
        Called with the number done, the number of all, and the name of each kernel.

    Returns
    -------
    int
        How many kernels were compiled now.
    """
    kept = CompileNotice.say
    CompileNotice.say = lambda text: None
    compiled = 0
    try:
        todo = list(_usual())
        for k, (kernel, dtype, form) in enumerate(todo):
            path = cache.folder() / f"{unit_name(kernel, dtype, form)}.o"
            if not path.exists():
                try:
                    object_code(kernel, dtype, form)
                    compiled += 1
                except _NOT_FOR_DTYPE:
                    pass
            if progress is not None:
                progress(k + 1, len(todo), kernel.name)
    finally:
        CompileNotice.say = kept
    return compiled


_NOT_FOR_DTYPE = (TypeError,)
