"""Ranges that programs name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from fastgrad.native.build.loader import rt, runtime_set_object

Function = TypeVar("Function", bound=Callable[..., Any])

PROFILED = "profile"
"""Stands among the global hooks of modules while a profile notes the calls of modules; see Note [Profiles]."""
runtime_set_object("profile_name", PROFILED)


class record_function:  # noqa: N801 - a context manager
    """Give a name to what the block does in the profile that is on, if there is one; also decorates a function.

    Parameters
    ----------
    name : str
    args : str, optional
        Stands beside the name in the trace.

    Raises
    ------
    TypeError
        If they are no strings.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.profiler import profile, record_function
    >>> with profile() as prof:
    ...     with record_function("square"):
    ...         _ = fg.ones(2) ** 2
    >>> [e.name for e in prof.events() if e.is_user_annotation]
    ['square']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        for value in (name, args or ""):
            if not isinstance(value, str):
                raise TypeError(
                    f"record_function(): name and args must be str, but got {type(value).__name__}"
                )
        self.name = name
        self.args = args
        self._tokens: list[int] = []

    def __enter__(self) -> record_function:
        self._tokens.append(rt.begin_range(self.name if self.args is None else (self.name, self.args)))
        return self

    def __exit__(self, *_: object) -> None:
        if not self._tokens:
            raise RuntimeError("record_function(): a range that was not entered is left")
        rt.end_range(self._tokens.pop())

    def __call__(self, function: Function) -> Function:
        """Name each call of a function."""

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return called  # type: ignore[return-value]


def noted_hook(kind: int, hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook whose calls the profile notes as those of a kind: for hooks that Python calls."""

    @functools.wraps(hook)
    def called(*args: Any) -> Any:
        token = rt.begin_hook(kind, hook)
        try:
            return hook(*args)
        finally:
            rt.end_range(token)

    return called
