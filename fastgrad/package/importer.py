"""Environments that modules are imported from."""

from __future__ import annotations

import functools
import importlib
import sys
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

from fastgrad.package.mangling import demangle, is_mangled, prefix_of


class ObjNotFoundError(Exception):
    """An importer does not find an object under its name."""


class ObjMismatchError(Exception):
    """An importer finds another object under the name of the one that was asked for."""


class Importer(ABC):
    """An environment of modules.

    What `get_name` returns leads back to the object: it is the attribute of that name in the module that
    `import_module` gives.
    """

    modules: dict[str, ModuleType]

    @abstractmethod
    def import_module(self, module_name: str) -> Any:
        """The module of a name, as `importlib.import_module` gives it."""

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """Where an object is found.

        Parameters
        ----------
        obj : object
            A class or a function.
        name : str, optional
            Its name in the module, instead of its own.

        Returns
        -------
        tuple of (str, str)
            A module and the name in it, which has dots for what stands within a class.

        Raises
        ------
        ObjNotFoundError
            If it is not there.
        ObjMismatchError
            If another object is.
        """
        if name is None:
            name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
        if not isinstance(name, str):
            raise ObjNotFoundError(f"an object of class {type(obj).__name__} has no name to be found by")
        # The module of what comes from a package has a name that only its importer knows.
        module_name = demangle(self.whichmodule(obj, name))
        try:
            found = attribute(self.import_module(module_name), name)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {module_name}.{name}") from None
        if found is not obj:
            raise ObjMismatchError(self._mismatch(obj, found, name))
        return module_name, name

    def whichmodule(self, obj: Any, name: str) -> str:
        """The name of the module that an object belongs to, ``__main__`` if none is known."""
        module_name = getattr(obj, "__module__", None)
        if isinstance(module_name, str):
            return module_name
        for module_name, module in list(self.modules.items()):
            if module_name not in ("__main__", "__mp_main__") and _has(module, name, obj):
                return module_name
        return "__main__"

    def _mismatch(self, obj: Any, found: Any, name: str) -> str:
        def described(thing: Any) -> tuple[str, str, str]:
            module = self.whichmodule(thing, name)
            if not is_mangled(module):
                return module, "the current Python environment", "'sys_importer'"
            return module, prefix_of(module), f"the importer for {prefix_of(module)}"

        module, place, needed = described(obj)
        other_module, other_place, other = described(found)
        return (
            f"\n\nThe object provided is from '{module}', which is coming from {place}.\nHowever, when we import "
            f"'{other_module}', it's coming from {other_place}.\nTo fix this, make sure this 'PackageExporter's "
            f"importer lists {needed} before {other}."
        )


def attribute(module: Any, name: str) -> Any:
    """What a name with dots means in a module."""
    return functools.reduce(getattr, name.split("."), module)


def _has(module: Any, name: str, obj: Any) -> bool:
    try:
        return attribute(module, name) is obj
    except Exception:  # noqa: BLE001 - modules may answer for any name, and raise what they like
        return False


class _SysImporter(Importer):
    """Python's own environment."""

    def import_module(self, module_name: str) -> ModuleType:
        return importlib.import_module(module_name)


sys_importer: Importer = _SysImporter()
"""Python's own environment, the one of ``import``."""
sys_importer.modules = sys.modules


class OrderedImporter(Importer):
    """Several environments; what is asked for comes from the first one that has it.

    Parameters
    ----------
    *args : Importer

    Raises
    ------
    TypeError
        If an argument is no importer.

    Examples
    --------
    >>> import collections
    >>> from fastgrad.package import OrderedImporter, sys_importer
    >>> OrderedImporter(sys_importer).get_name(collections.OrderedDict)
    ('collections', 'OrderedDict')
    """

    def __init__(self, *args: Importer) -> None:
        for importer in args:
            if not isinstance(importer, Importer):
                raise TypeError(
                    f"{importer} is not a Importer. All importers in OrderedImporter must inherit from Importer."
                )
        self._importers = args

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """Where an object is found, from the first importer that has it; `ObjNotFoundError` if none does."""
        reasons = []
        for importer in self._importers:
            try:
                return importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as error:
                reasons.append(str(error).strip())
        raise ObjNotFoundError(
            f"Could not find obj {obj} and name {name} in any of the importers {list(self._importers)}: "
            + "; ".join(reasons)
        )

    def import_module(self, module_name: str) -> Any:
        """The module of a name, from the first importer that has it; `ModuleNotFoundError` if none does."""
        error = ModuleNotFoundError(f"No module named {module_name!r}", name=module_name)
        for importer in self._importers:
            try:
                module = importer.import_module(module_name)
            except ModuleNotFoundError as missing:
                error = missing
                continue
            if not _stands_in(module):
                return module
        raise error

    def whichmodule(self, obj: Any, name: str) -> str:
        """The name of the module that an object belongs to, ``__main__`` if none is known."""
        found = (importer.whichmodule(obj, name) for importer in self._importers)
        return next((module for module in found if module != "__main__"), "__main__")


def _stands_in(module: Any) -> bool:
    """Whether a module of a package has no source: it is there for what is within it, a later importer may have it."""
    return (
        getattr(module, "__torch_package__", False)
        and hasattr(module, "__path__")
        and getattr(module, "__file__", None) is None
    )
