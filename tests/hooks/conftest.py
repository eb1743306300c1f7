"""What runs in Python while something compiled runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def called_python() -> Iterator[Callable[[], list[str]]]:
    """The names of Python functions that a call has run."""
    names: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    def run(function: Callable[[], Any]) -> list[str]:
        names.clear()
        sys.setprofile(note)
        try:
            function()
        finally:
            sys.setprofile(None)
        return list(names)

    yield run
    sys.setprofile(None)
