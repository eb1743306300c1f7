"""What programs tell PyTorch's compiler about functions. Recorded steps need none of it."""

from __future__ import annotations

from typing import Any, TypeVar

import fastgrad as fg

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
]

Function = TypeVar("Function")


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The same function, or a decorator: what it launches is recorded like everything else."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Function) -> Function:
    """The same function."""
    return fn


def assume_constant_result(fn: Function) -> Function:
    """The same function, which is called whenever it is called."""
    return fn


def is_dynamo_compiling() -> bool:
    """What `torch.compiler.is_compiling` says."""
    return bool(fg.compiler.is_compiling())


def is_exporting() -> bool:
    """False: nothing is exported."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Nothing: tensors that a step returned keep their values."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that choose how functions are compiled, of which there is one way."""
    return ["inductor"]
