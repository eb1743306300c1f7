"""What libraries ask before they look at values."""

from __future__ import annotations

__all__ = ["get_proxy_mode"]


def get_proxy_mode() -> None:
    """None: nothing traces a function with tensors that stand for others."""
