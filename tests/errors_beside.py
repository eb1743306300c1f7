"""What tests of errors share: the classes that one mistake raises here and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastgrad as fg


def kinds_raised(mistake: Callable[[Any], Any]) -> tuple[type[BaseException], type[BaseException]]:
    """The classes of what a function of the library raises: here, and in PyTorch."""
    raised = []
    for lib in (fg, pytest.importorskip("torch")):
        with pytest.raises(Exception) as error:  # noqa: PT011 - which one is compared by who asks
            mistake(lib)
        raised.append(error.type)
    return raised[0], raised[1]
