"""Modules named ``torch...`` through which programs read, set and delete the names of fastgrad's modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from fastgrad import module_names
from fastgrad.as_torch import locations
from fastgrad.as_torch.absent import absent_class, absent_dtype
from fastgrad.as_torch.versions import VERSION
from fastgrad.module_names import AbsentNameError

NAME = "torch"
_OWN = frozenset(
    ("__cached__", "__class__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__")
)
"""What the import system writes to modules, and is the proxy's alone."""
_HIDDEN = frozenset(("__annotations__", "__dict__", "__fastgrad_places__", "__getattr__"))
"""What a module has and does not list."""
_VERSIONED = ("", "version")
_NOTHING: Any = object()
_own_names: Any = vars(ModuleType)["__dict__"].__get__


class Proxy(ModuleType):
    """A module of PyTorch's, answered by the modules that stand in `locations.places`.

    What is set or deleted is set or deleted there, so that all programs see it. Nothing is kept here: fastgrad's own
    changes are seen as well.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"{NAME}.{path}" if path else NAME)
        own = _own_names(self)
        del own["__doc__"]  # that of the module behind is read
        own["__path__"] = []  # in the folders of fastgrad, modules would be found that PyTorch does not have
        own["__fastgrad_places__"] = locations.places(path)
        own["__getattr__"] = _reader(self.__name__, path)
        if path in _VERSIONED:
            own["__version__"] = VERSION

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """What the module has, for programs that look through it; a copy."""
        found: dict[str, Any] = {}
        for name in dir(self):
            value = getattr(self, name, _NOTHING)
            if value is not _NOTHING:
                found[name] = value
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
            return
        place = self._place_of(name)
        if isinstance(value, Proxy):  # bound by an import, or put back by a program
            if name in vars(place):
                setattr(place, name, value.__fastgrad_places__[0])
            return
        setattr(place, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN:
            super().__delattr__(name)
            return
        delattr(self._place_of(name), name)

    def __dir__(self) -> list[str]:
        own = _own_names(self)
        path = self.__name__.partition(".")[2]
        names = {
            n for place in own["__fastgrad_places__"] for n in dir(place) if not _is_hidden(path, place, n)
        }
        return sorted((names | set(own)) - _HIDDEN)

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}, answered by fastgrad>"

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

    def _place_of(self, name: str) -> ModuleType:
        """The module in which a name is set: the one that has it."""
        places: tuple[ModuleType, ...] = _own_names(self)["__fastgrad_places__"]
        return next((place for place in places if name in vars(place)), places[0])


def _reader(module: str, path: str) -> Callable[[str], Any]:
    """What a module calls for names that it does not have itself.

    It stands in the module and not in its class, so that Python calls it without having made an error first.
    """
    places = locations.places(path)
    names = vars(places[0])

    def read(name: str) -> Any:
        value = names.get(name, _NOTHING)
        if value is not _NOTHING and not isinstance(value, _OTHERS):
            return value  # a function, as nearly always
        if name == "__all__":
            return [name for name in places[0].__all__ if not _is_hidden(path, places[0], name)]
        for place in places:
            try:
                value = getattr(place, name)
            except AttributeError:
                continue
            if isinstance(value, ModuleType):
                if not value.__name__.startswith(locations.PACKAGE):
                    return value
                break  # a module of fastgrad's is shown if PyTorch has one of that name
            if isinstance(value, type):
                _rename(value, module, name)
            return value
        return _inside(path, module, name)

    return read


_OTHERS = (type, ModuleType, list)


def _is_hidden(path: str, place: ModuleType, name: str) -> bool:
    """Whether a name is that of a module of fastgrad's which PyTorch does not have."""
    value = vars(place).get(name, _NOTHING)
    if value is _NOTHING:  # imported later, if it is a module
        module = not name.startswith("__") and find_spec(f"{place.__name__}.{name}") is not None
    else:
        module = isinstance(value, ModuleType) and value.__name__.startswith(locations.PACKAGE)
    return module and (f"{path}.{name}" if path else name) not in locations.known().modules


def _inside(path: str, module: str, name: str) -> Any:
    """A name that stands in no module behind: another module, a class that is missing, or nothing."""
    if not path and name == NAME:  # programs write torch.torch: PyTorch's own imports have bound it
        return sys.modules[NAME]
    imported = sys.modules.get(f"{module}.{name}")
    if imported is not None:
        return imported
    known = locations.known()
    inside = f"{path}.{name}" if path else name
    if inside in known.modules and locations.answered(inside):
        return importlib.import_module(f"{NAME}.{inside}")
    if name in known.classes[path]:
        return _of_parents(path, name) or absent_class(path, name)
    kind = None if path else absent_dtype(name)
    if kind is not None:
        return kind
    raise AbsentNameError(module, name)


_OF_THEIR_OWN = (("mtia", "device"), ("storage", "Storage"), ("xpu", "device"))
"""Classes of modules that have the name of another one in a package around them."""


def _of_parents(path: str, name: str) -> type | None:
    """A class that a module of PyTorch's has from a package around it, such as ``optim.lr_scheduler.Optimizer``."""
    while path and (path, name) not in _OF_THEIR_OWN:
        path = path.rpartition(".")[0]
        if name in locations.known().classes[path]:
            for place in locations.places(path):
                found = getattr(place, name, None)
                if isinstance(found, type):
                    return found
    return None


def _rename(kind: type, module: str, name: str) -> None:
    """Let a class of fastgrad's say that it belongs to the module of PyTorch's where it was found."""
    home = kind.__module__
    if not home.startswith(f"{locations.PACKAGE}.") and home != locations.PACKAGE:
        return
    if kind.__qualname__ != name or home.startswith(locations.OVERLAY):
        return
    path = locations.torch_path(home)
    if getattr(locations.places("")[0], name, None) is kind:
        module = NAME
    elif path:
        module = f"{NAME}.{path}"
    importlib.import_module(module)  # where those look who read sources and annotations
    try:
        line = vars(kind).get("__firstlineno__")
        kind.__module__ = module
        if line is not None:  # Python forgets it with the module
            type.__setattr__(kind, "__firstlineno__", line)
    except (AttributeError, TypeError):  # a class that is compiled code
        return
    module_names.homes[kind] = home
