"""How functions are traced that are mapped over batches, which nothing here needs."""

from __future__ import annotations

from contextlib import nullcontext

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(nullcontext[None]):
    """Let tensors index tensors within `vmap`, as they do in any case."""
