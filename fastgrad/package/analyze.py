"""Looking into what packages are made of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType, ModuleType
from typing import Any

from fastgrad.package.errors import PackagingError
from fastgrad.package.mangling import is_mangled

__all__ = ["find_first_use_of_broken_modules", "is_from_package", "trace_dependencies"]


def is_from_package(obj: Any) -> bool:
    """Whether an object comes from a package: a module, or an instance of a class, of code that a package holds.

    Parameters
    ----------
    obj : object

    Returns
    -------
    bool

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.package.is_from_package(fg.nn.Linear(2, 2))
    False
    """
    name = obj.__name__ if type(obj) is ModuleType else type(obj).__module__
    return isinstance(name, str) and is_mangled(name)


def find_first_use_of_broken_modules(exc: PackagingError) -> dict[str, list[str]]:
    """How each module that could not be packaged came in first.

    Parameters
    ----------
    exc : PackagingError

    Returns
    -------
    dict of str to list of str
        By the name of the module the way to it: what was saved, what that needs, and so on.
    """
    if not isinstance(exc, PackagingError):
        raise AssertionError(f"exception must be a PackagingError, got {type(exc).__name__}")
    graph = exc.dependency_graph
    return {name: graph.first_path(name) for name, node in graph.nodes.items() if "error" in node}


def trace_dependencies(callable: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> list[str]:  # noqa: A002
    """The modules whose Python functions run when a function is called.

    Parameters
    ----------
    callable : callable
    inputs : iterable of tuple
        The arguments of each call.

    Returns
    -------
    list of str
    """
    used: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__")
        if event == "call" and isinstance(name, str):
            used[name] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for arguments in inputs:
            callable(*arguments)
    finally:
        sys.setprofile(before)
    return [name for name in used if name != __name__]
