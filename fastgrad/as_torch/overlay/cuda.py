"""The older names of GPUs' tensors of a dtype: ``torch.cuda.FloatTensor``, ..."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.tensor.typed import by_name

_TYPES = by_name("cuda")
globals().update(_TYPES)

__all__ = [*_TYPES]


def __getattr__(name: str) -> Any:
    """Whether GPUs are in use already, which libraries read before they note states of generators."""
    if name == "_initialized":
        return fg.cuda.is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
