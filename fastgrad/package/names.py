"""PyTorch's names in packages.

A package is of PyTorch's format, and PyTorch's names stand in it: a tensor is made by
``torch._utils._rebuild_tensor_v2``, a layer is a ``torch.nn.Linear``, and the code of a package that PyTorch wrote
imports ``torch``. Here they mean what fastgrad has under them, in both directions.
"""

from __future__ import annotations

import contextlib
import importlib
import pickle
from types import ModuleType
from typing import Any

from fastgrad.functions.memory_format import layout, memory_format
from fastgrad.module_names import is_own, is_torch, pytorch_names
from fastgrad.overrides.asking import original
from fastgrad.package import tensors
from fastgrad.package.importer import attribute

_PACKAGES = ("torch.nn.modules", "torch.optim")  # some of what is in them is in files of other names here
_NAMESPACES = ("nn", "nn.functional", "optim", "")  # whose public names are written as PyTorch's


def module_of(name: str) -> ModuleType:
    """The module of fastgrad that has the place of one of PyTorch's; ModuleNotFoundError if there is none."""
    own = "fastgrad" + name.removeprefix("torch")
    try:
        return importlib.import_module(own)
    except ModuleNotFoundError as error:
        if error.name is None or not (own == error.name or own.startswith(error.name + ".")):
            raise
    package = _package_of(name)
    if package is not None:
        return package
    raise ModuleNotFoundError(
        f"No module named {name!r}: in a package PyTorch's names mean fastgrad's, and there is no {own}",
        name=name,
    )


def _package_of(name: str) -> ModuleType | None:
    found = next((package for package in _PACKAGES if name.startswith(package + ".")), None)
    return module_of(found) if found else None


def object_of(module: ModuleType, module_name: str, name: str) -> Any:
    """What a pickle means by a name in a module, which has been imported; UnpicklingError if it is missing."""
    for place in (module, _package_of(module_name)):
        with contextlib.suppress(AttributeError):
            if place is not None:
                return attribute(place, name)
    like = ", which fastgrad does not have" if is_torch(module_name) else ""
    raise pickle.UnpicklingError(f"the pickle asks for {module_name}.{name}{like or ', which is not there'}")


def torch_name(obj: Any) -> tuple[str, str] | None:
    """The module and the name that PyTorch has for an object of fastgrad; None if it has none, or `obj` is another."""
    known = tensors.name_of(obj)
    if known is not None:
        return known
    if isinstance(obj, (layout, memory_format)):
        return "torch", repr(obj).rpartition(".")[2]
    module, name = getattr(obj, "__module__", None), getattr(obj, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not is_own(module):
        return None
    for inside in _NAMESPACES:
        if name in pytorch_names()[inside]:
            full = f"fastgrad.{inside}".rstrip(".")
            if original(getattr(importlib.import_module(full), name, None)) is original(obj):
                return f"torch.{inside}".rstrip("."), name
    return None
