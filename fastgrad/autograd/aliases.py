"""Leaves that transforms make for themselves: they are no reason to keep a history of what is made of them."""

from __future__ import annotations

import threading
from typing import Any


class _Noted(threading.local):
    def __init__(self) -> None:
        self.lists: list[list[Any]] = []


_noted = _Noted()


def note(leaf: Any) -> Any:
    """Remember a leaf in the block that is under way, if there is one; returns it."""
    if _noted.lists:
        _noted.lists[-1].append(leaf)
    return leaf


class noted:  # noqa: N801 - a context manager
    """A block that gives a list of its leaves and those of blocks in it; they belong to the one around it, too."""

    def __enter__(self) -> list[Any]:
        self._list: list[Any] = []
        _noted.lists.append(self._list)
        return self._list

    def __exit__(self, *_: object) -> None:
        _noted.lists.pop()
        if _noted.lists:
            _noted.lists[-1] += self._list
