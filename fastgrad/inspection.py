"""What programs ask about objects and about the package."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fastgrad import module_names
from fastgrad.functions.arguments import is_tensor, need_tensor
from fastgrad.functions.storage import Storage
from fastgrad.places import device as Device  # noqa: N812
from fastgrad.places import get_default_device

__all__ = [
    "get_device",
    "get_device_module",
    "get_file_path",
    "is_distributed",
    "is_same_size",
    "is_storage",
    "typename",
]


def typename(obj: Any, /) -> str:
    """The full name of the class of an object; for a tensor, of its type.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.typename(fg.ones(1)), fg.typename(3)
    ('fastgrad.FloatTensor', 'int')
    """
    if is_tensor(obj):
        return str(obj.type())  # type: ignore[attr-defined]
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None) or ""
    prefix = "" if module in ("", "builtins", "__builtin__") else f"{module}."
    return prefix + str(kind.__qualname__)


def is_storage(obj: Any, /) -> bool:
    """Whether an object is the memory of tensors."""
    return isinstance(obj, Storage)


def get_device(input: Any) -> int:  # noqa: A002 - PyTorch's name
    """The number of the GPU that a tensor is on; -1 on the CPU."""
    return int(need_tensor("get_device", input).get_device())


def is_same_size(input: Any, other: Any) -> bool:  # noqa: A002 - PyTorch's name
    """Whether two tensors have the same sizes."""
    sizes = need_tensor("is_same_size", input).shape
    return bool(sizes == need_tensor("is_same_size", other, "other", 2).shape)


def is_distributed(input: Any) -> bool:  # noqa: A002 - PyTorch's name
    """False: a tensor lives in one process."""
    return False


def get_device_module(device: Any = None) -> Any:
    """The module that speaks for a kind of device, such as `fastgrad.cuda`; without one, for the default device.

    Raises
    ------
    RuntimeError
        If there is none.
    """
    if device is not None and not isinstance(device, (str, Device)):
        raise RuntimeError(f"Invalid value of device '{device}', expect fastgrad.device, str, or None")
    kind = (get_default_device() if device is None else Device(device)).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(f"Device '{kind}' does not have a module of its own")
    return importlib.import_module(f"{module_names.shown}.{kind}")


def get_file_path(*path_components: str) -> str:
    """The path of a file of the package."""
    return str(Path(__file__).parent.joinpath(*path_components))
