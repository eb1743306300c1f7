"""What libraries ask of ``torch.cuda`` besides its public names."""

from __future__ import annotations

from typing import Any

import fastgrad as fg

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """Whether GPUs are in use already, which libraries read before they note states of generators."""
    if name == "_initialized":
        return fg.cuda.is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
