"""Decompositions of matrices, for parametrizations that need some."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def decomposition(name: str, wanted_by: str) -> Callable[..., Any]:
    """A function of `fastgrad.linalg`.

    Raises
    ------
    NotImplementedError
        If there is no such function.
    """
    found = getattr(import_module("fastgrad.linalg"), name, None)
    if found is None:
        raise NotImplementedError(f"{wanted_by} needs fastgrad.linalg.{name}, which does not exist yet")
    return found  # type: ignore[no-any-return]
