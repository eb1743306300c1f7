"""Devices that fastgrad does not use: there is none."""

from __future__ import annotations

__all__ = ["device_count", "empty_cache", "is_available", "is_initialized", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    """False: there is no code for them."""
    return False


def is_initialized() -> bool:
    """False: there is no code for them."""
    return False


def device_count() -> int:
    """0: there is no code for them."""
    return 0


def empty_cache() -> None:
    """Nothing: there is no memory to give back."""


def manual_seed(seed: int) -> None:
    """Nothing: there are no generators."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there are no generators."""
