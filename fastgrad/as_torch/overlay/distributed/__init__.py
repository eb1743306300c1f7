"""Training in several processes, which is not there, as in a PyTorch that was built without it."""

from __future__ import annotations

__all__ = ["is_available", "is_initialized"]


def is_available() -> bool:
    """False. What else PyTorch has in this module is missing."""
    return False


def is_initialized() -> bool:
    """False: there is no process group."""
    return False
