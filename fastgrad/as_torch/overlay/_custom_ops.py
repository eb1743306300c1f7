"""The older name of what functions for ``torch.library.register_fake`` ask."""

from __future__ import annotations

from fastgrad.library import get_ctx

__all__ = ["get_ctx"]
