"""Switches read from the environment, once, when fastgrad is imported.

FASTGRAD_DEBUG=1
    Check the handle of every tensor that Python passes in, poison freed memory, and put guard words around
    buffers.
FASTGRAD_CACHE=<folder>
    Where compiled code is kept; by default a folder of the user's cache.
"""

from __future__ import annotations

import os

DEBUG: bool = os.environ.get("FASTGRAD_DEBUG", "0") not in ("", "0")
CACHE: str | None = os.environ.get("FASTGRAD_CACHE") or None
