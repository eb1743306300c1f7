"""What libraries ask before they compile a function of theirs."""

from __future__ import annotations

from typing import Any

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """False: there is no compiler for whole functions, whatever the device is."""
    return False
