"""What libraries ask before they choose a profiler."""

from __future__ import annotations

__all__ = ["kineto_available"]


def kineto_available() -> bool:
    """False: profiles are fastgrad's own, and that library is not there."""
    return False
