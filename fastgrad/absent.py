"""What is said about names that PyTorch has and fastgrad does not."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "pytorch_names.txt"
"""The public names of PyTorch by modules; written by ``tools/pytorch_names.py``."""


@functools.cache
def pytorch_names() -> dict[str, frozenset[str]]:
    """PyTorch's public names by modules, ``""`` for the package itself."""
    lines = (line.partition(":") for line in FILE.read_text().splitlines())
    return {module: frozenset(names.split()) for module, _, names in lines}


class AbsentNameError(AttributeError):
    """A module has no such name; the text says whether PyTorch has it, and what is nearest.

    The text is looked for when it is read: `hasattr` costs no more than for any other module.
    """

    def __init__(self, module: str, name: str) -> None:
        super().__init__(module, name, name=name, obj=sys.modules.get(module))
        self._module = module

    def __str__(self) -> str:
        name = str(self.name)
        plain = f"module {self._module!r} has no attribute {name!r}"
        inside = self._module.partition(".")[2]
        if name in pytorch_names().get(inside, ()):
            full = ".".join(filter(None, ("torch", inside, name)))
            plain += f": PyTorch has {full}, which fastgrad does not have yet"
        near = nearest(self._module, name)
        return plain + (f"; the nearest name here is {near}" if near else "")


def nearest(module: str, name: str) -> str | None:
    """The name in a module of fastgrad that looks most like another one, in full; None if none does."""
    import difflib

    found = sys.modules.get(module)
    names = [n for n in dir(found) if not n.startswith("_")]
    close = difflib.get_close_matches(name, names, 1, 0.75)
    return f"{module}.{close[0]}" if close else None


def absent_from(module: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for a module: it raises, and says what is known about the name."""

    def absent(name: str) -> Any:
        raise AbsentNameError(module, name)

    return absent
