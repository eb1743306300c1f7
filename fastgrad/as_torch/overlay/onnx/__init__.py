"""Of exporting to ONNX, what packages say of their ops while they are imported. There is no exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def is_in_onnx_export() -> bool:
    """False: nothing is ever exported."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Nothing: there is no exporter that would look for it."""
    _need_qualified(symbolic_name)


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Nothing: there is no exporter that would look for it."""
    _need_qualified(symbolic_name)


def _need_qualified(name: str) -> None:
    if len(name.split("::")) != 2:
        raise ValueError(
            f"Failed to register operator {name}. The symbolic name must match the format domain::name"
        )
