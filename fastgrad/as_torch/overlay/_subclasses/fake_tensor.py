"""What libraries ask before they look at values."""

from __future__ import annotations

__all__ = ["is_fake"]


def is_fake(x: object) -> bool:
    """False: nothing traces a function with tensors that have no values."""
    return False
