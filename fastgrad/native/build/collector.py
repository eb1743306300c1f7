"""Compiling without the garbage collector."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

MANY = 1 << 20
"""New objects that are collected at once: the collector would walk over them once for each generation."""


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Without the garbage collector: what a compiler makes lives as long as it works, and looking at it takes time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > MANY:
                gc.collect()
            gc.enable()
