"""What programs ask PyTorch about and fastgrad has no use for. The folder has PyTorch's modules in their places.

`fastgrad.as_torch.proxies` looks here for names that fastgrad's own modules lack.
"""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.functions.storage import Storage

__all__ = [
    "Storage",
    "UntypedStorage",
    "are_deterministic_algorithms_enabled",
    "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_num_interop_threads",
    "has_lapack",
    "has_mkl",
    "has_openmp",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_distributed",
    "is_storage",
    "is_vulkan_available",
    "legacy_contiguous_format",
    "set_default_tensor_type",
    "set_flush_denormal",
    "set_num_interop_threads",
    "typename",
    "use_deterministic_algorithms",
]

UntypedStorage = Storage
legacy_contiguous_format = fg.contiguous_format
has_lapack, has_mkl, has_openmp = True, False, False

_deterministic = {"mode": False, "warn_only": False}
_interop = [1]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keep what a program asks for. On the CPU, results are the same in every run in any case."""
    _deterministic.update(mode=bool(mode), warn_only=bool(mode) and bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was called with."""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was called with."""
    return _deterministic["warn_only"]


def get_deterministic_debug_mode() -> int:
    """0 without `use_deterministic_algorithms`, 1 where it is to warn, else 2."""
    return 0 if not _deterministic["mode"] else 1 if _deterministic["warn_only"] else 2


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was called with; ops run one after the other in any case."""
    return _interop[0]


def set_num_interop_threads(threads: int) -> None:
    """Keep a number: ops run one after the other in any case."""
    if type(threads) is not int:
        raise TypeError(f"set_num_interop_threads expects an int, but got {type(threads).__name__}")
    if threads <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _interop[0] = threads


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers close to zero stay what they are, as on a processor that cannot flush them."""
    return False


def set_default_tensor_type(t: Any, /) -> None:
    """Let functions that make tensors use the dtype of a type such as ``torch.DoubleTensor``, or of its name."""
    if isinstance(t, str):
        name = t.rpartition(".")[2]
        if t.startswith("torch.cuda.") or name not in dir(fg):
            raise TypeError(
                f"invalid type object: {t!r}; torch.set_default_device says where tensors are made"
            )
        t = getattr(fg, name)
    dtype = getattr(t, "dtype", None)
    if not isinstance(t, type) or not isinstance(dtype, fg.dtype) or not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, but got {t!r}")
    fg.set_default_dtype(dtype)


def typename(obj: Any, /) -> str:
    """The full name of the class of an object; for a tensor, of its type."""
    if isinstance(obj, fg.Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None) or ""
    prefix = "" if module in ("", "builtins", "__builtin__") else f"{module}."
    return prefix + str(kind.__qualname__)


def is_storage(obj: Any, /) -> bool:
    """Whether an object is the memory of tensors."""
    return isinstance(obj, Storage)


def is_distributed(input: Any) -> bool:  # noqa: A002 - PyTorch's name
    """False: a tensor lives in one process."""
    return False


def is_vulkan_available() -> bool:
    """False: there is no code for it."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """True, as of all current builds of PyTorch; there is no C++ here."""
    return True


def get_device_module(device: Any = None) -> Any:
    """The module that speaks for a kind of device, such as ``torch.cuda``."""
    import importlib

    kind = fg.get_default_device() if device is None else fg.device(device)
    try:
        return importlib.import_module(f"torch.{kind.type}")
    except ModuleNotFoundError:
        raise RuntimeError(f"Invalid device {kind.type!r}: fastgrad has no module for it") from None
