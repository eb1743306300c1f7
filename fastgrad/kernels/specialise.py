"""Copies of functions for one target: some of the names that they read stand for something else there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import CellType, FunctionType
from typing import Any

from fastgrad.kernels.keys import cells_of, globals_read


def specialised(
    function: Callable[..., Any],
    names: Mapping[str, Any],
    decorate: Callable[[Any], Any],
    kept: dict[Any, Any] | None = None,
) -> Any:
    """A decorated copy of a function for which `names` are globals; so are the functions that it calls, and theirs.

    Of what Numba compiles for the CPU it is the Python function that is copied. In `kept` are the copies of functions
    of modules, which are the same for whoever has the same names.
    """
    copies: dict[FunctionType, Any] = {}

    def made(value: Any) -> Any:
        if kept is not None and type(value).__name__ == "CPUDispatcher":
            value = value.py_func
        if type(value) is not FunctionType:
            return value
        place = copies if kept is None or not _is_of_module(value) else kept
        if value not in place:
            place[value] = decorate(copied(value))
        return place[value]

    def copied(value: FunctionType) -> FunctionType:
        read = {name: made(v) for name, v in globals_read(value, tuple(names)).items()}
        cells = tuple(CellType(made(v)) for v in cells_of(value).values())
        copy = FunctionType(
            value.__code__, {**value.__globals__, **read, **names}, value.__name__, value.__defaults__, cells
        )
        copy.__kwdefaults__ = value.__kwdefaults__
        return copy

    return made(function)


def _is_of_module(function: FunctionType) -> bool:
    """Whether there is one such function, and not one each time that another is called."""
    module = sys.modules.get(function.__module__)
    return function.__closure__ is None and module is not None and vars(module) is function.__globals__
