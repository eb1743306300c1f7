"""What programs tell the compiler of PyTorch's that reads bytecode. Recorded steps need none of it."""

from __future__ import annotations

from typing import Any

from fastgrad.as_torch.overlay.compiler import allow_in_graph, assume_constant_result, disable
from fastgrad.as_torch.switches import Switches

__all__ = [
    "allow_in_graph", "assume_constant_result", "config", "disable", "graph_break", "is_compiling",
    "mark_dynamic", "mark_static", "maybe_mark_dynamic", "reset",
]  # fmt: skip

config = Switches()
"""Switches that are kept, and change nothing."""


def reset() -> None:
    """Nothing: what was recorded belongs to the compiled functions, and goes with them."""


def is_compiling() -> bool:
    """False: no bytecode is read."""
    return False


def graph_break(msg: str = "") -> None:
    """Nothing: Python between ops runs as Python."""


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Nothing: calls with other sizes are recorded anew."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Nothing: calls with other sizes are recorded anew."""


def mark_static(t: Any, index: Any = None) -> None:
    """Nothing: calls with other sizes are recorded anew."""
