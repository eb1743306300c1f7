"""Values of a module or an object that are set like attributes, and checked."""

from __future__ import annotations

from typing import Any


class Value:
    """An attribute of a type; setting it to another type raises what PyTorch raises.

    Parameters
    ----------
    default : bool or int
    called : str
        What messages call it.
    """

    def __init__(self, default: Any, called: str) -> None:
        self.kind, self.called = type(default), called
        self.value = default

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else self.value

    def __set__(self, owner: Any, value: Any) -> None:
        if type(value) is not self.kind:
            raise RuntimeError(
                f"{self.called} expects a {self.kind.__name__}, but got {type(value).__name__}"
            )
        self.value = value
