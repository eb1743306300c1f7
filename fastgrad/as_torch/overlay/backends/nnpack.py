"""NNPACK, which fastgrad does not use."""

from __future__ import annotations


def is_available() -> bool:
    """False: nothing runs by it."""
    return False
