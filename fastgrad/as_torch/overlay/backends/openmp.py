"""OpenMP, which fastgrad does not use: it has threads of its own."""

from __future__ import annotations


def is_available() -> bool:
    """False: nothing runs by it."""
    return False
