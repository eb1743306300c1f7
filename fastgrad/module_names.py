"""Names of modules: what is imported when a program asks for it, and what is said about what is missing."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

FILE = Path(__file__).parent / "pytorch_names.txt"
"""The public names of PyTorch by modules; written by ``tools/pytorch_names.py``."""

shown = "fastgrad"
"""The package's name in what programs read, such as ``str(dtype)``; `fastgrad.as_torch` lets it be ``torch``."""

homes: dict[type, str] = {}
"""The modules of classes whose ``__module__`` reads otherwise meanwhile."""


def is_own(module: str) -> bool:
    """Whether a name is that of the package or of a module in it, as programs read it at present or by itself."""
    return module.partition(".")[0] in ("fastgrad", shown)


def is_torch(module: str) -> bool:
    """Whether a name is that of PyTorch or of a module in it."""
    return module.partition(".")[0] == "torch"


NOTHING: Mapping[str, str | None] = MappingProxyType({})


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


def getattr_of(module: str, later: Mapping[str, str | None] = NOTHING) -> Callable[[str], Any]:
    """A ``__getattr__`` for a module: it imports what is imported when a program asks for it, and refuses other names.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    later : dict
        What is imported so: for a module inside None, for another name the module inside that has it.
    """

    def find(name: str) -> Any:
        if name not in later:
            raise AbsentNameError(module, name)
        place = later[name]
        found = importlib.import_module(f"{module}.{place or name}")
        if place is not None:
            found = getattr(found, name)
            setattr(sys.modules[module], name, found)
        return found

    return find
