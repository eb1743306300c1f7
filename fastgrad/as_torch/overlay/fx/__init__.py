"""Of graphs of programs, what modules use while they are defined. There is no tracing."""

from __future__ import annotations

from typing import Any

__all__ = ["wrap"]


def wrap(fn_or_name: Any) -> Any:
    """The same function, or its name: how a tracer would treat it does not matter where there is none."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"torch.fx.wrap expects a function or the name of one, but got {type(fn_or_name).__name__}"
        )
    return fn_or_name
