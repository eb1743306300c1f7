"""Imports of ``torch`` and of what is in it, answered by `proxies`."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import spec_from_loader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from fastgrad.as_torch import locations
from fastgrad.as_torch.absent import what_pytorch_has
from fastgrad.as_torch.proxies import NAME, Proxy
from fastgrad.as_torch.versions import VERSION
from fastgrad.module_names import pytorch_names


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A proxy."""
        return Proxy(spec.name.partition(".")[2])

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: what it answers with has been imported."""


class Finder(MetaPathFinder):
    """Finds ``torch``, and those modules in it that fastgrad answers for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module named ``torch...``.

        Raises
        ------
        ModuleNotFoundError
            If fastgrad has no such module and somebody imports it. Who only asks whether there is one gets None.
        ImportError
            If it needs a package that is missing, likewise.
        """
        root, _, inside = fullname.partition(".")
        if root != NAME:
            return None
        if locations.answered(inside):
            return spec_from_loader(fullname, _Loader(), is_package=True)
        if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":  # the import statement
            locations.places(inside)  # raises if a package is missing, and says which
            raise _not_found(fullname, is_asked_for=not _is_listed(sys._getframe(2)))
        return None

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """What `importlib.metadata` says of the package ``torch``."""
        if context is not None and context.name is not None and context.name.lower() == NAME:
            yield _Distribution()


_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_OF_IMPORTS = ("importlib._bootstrap", "_frozen_importlib")


def _is_listed(frame: FrameType | None) -> bool:
    """Whether a module is looked for because it stands in the list of a call: ``__import__("torch", fromlist=["x"])``.

    Such lists hold anything, so that the call gives the inner module, and what is not there does not matter.
    """
    listed = False
    while frame is not None and frame.f_globals.get("__name__") in _OF_IMPORTS:
        listed = frame.f_code.co_name == "_handle_fromlist"
        frame = frame.f_back
    return listed and frame is not None and frame.f_code.co_code[frame.f_lasti] != _IMPORT_NAME


def _not_found(fullname: str, is_asked_for: bool) -> ModuleNotFoundError:
    """The error of an import. Its name is that of the module inside which nothing was found.

    With the name that was looked for, ``from torch import x`` would say that it cannot import x, and no more; where
    nobody asked for the module, Python waits for it.
    """
    parent, _, last = fullname.rpartition(".")
    text = f"No module named {fullname!r}, and no such name in {parent!r}"
    path = parent.partition(".")[2]
    if last in pytorch_names().get(path, ()) or fullname.partition(".")[2] in locations.known().modules:
        text += f": {what_pytorch_has(parent, last)}"
    return ModuleNotFoundError(text, name=parent if is_asked_for else fullname)


class _Distribution(Distribution):
    """The package ``torch`` as far as its version is asked for."""

    def read_text(self, filename: str) -> str | None:
        """Its metadata; no other file is there."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nSummary: answered by fastgrad\n"

    def locate_file(self, path: Any) -> Path:
        """Where a file would be."""
        return Path(__file__).parent / path
