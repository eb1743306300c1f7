"""Modules whose calls are recorded and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.compiler.compiled import Compiled
from fastgrad.nn.modules.module import Module


class OptimizedModule(Module):
    """A module whose calls replay those of another one: what `compile` returns for a module.

    Parameters
    ----------
    module : Module
    fullgraph : bool
        Whether a call that cannot be replayed is an error.
    """

    _orig_mod: Module

    def __init__(self, module: Module, fullgraph: bool = False) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_compiled"] = Compiled(module, fullgraph)
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the other module, or replay such a call."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            return getattr(self._orig_mod, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return OptimizedModule, (self._orig_mod, self.__dict__["_compiled"].fullgraph)


def compiled(function: Callable[..., Any], fullgraph: bool) -> Any:
    """What `compile` returns."""
    if isinstance(function, Module):
        return OptimizedModule(function, fullgraph)
    return Compiled(function, fullgraph)


def compiled_of(function: Any) -> Compiled:
    """The compiled function that something is, or that a module calls.

    Raises
    ------
    TypeError
        If it is none.
    """
    found = function.__dict__["_compiled"] if isinstance(function, OptimizedModule) else function
    if not isinstance(found, Compiled):
        raise TypeError(f"explain: expected what compile() returned, but got {type(function).__name__}")
    return found
