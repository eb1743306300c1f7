"""cuDNN, which fastgrad does not use: its switches are kept for programs that set them.

One of them has an effect: `allow_tf32` lets GPUs compute convolutions of float32 by tensor cores, which round their
factors to TF32. It reads True at first, as in PyTorch, but only where a program has set it, or `conv.fp32_precision`,
are they rounded.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from fastgrad.backends.settings import Value
from fastgrad.cuda import precision


class _Tf32(Value):
    """The switch that reads True also where nobody has set it."""

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else precision.convolutions_in_tf32() is not False

    def __set__(self, owner: Any, value: Any) -> None:
        super().__set__(owner, value)
        precision.allow_convolutions_in_tf32(value)


class _Module(ModuleType):
    enabled = Value(True, "set_enabled_cudnn")
    benchmark = Value(False, "set_benchmark_cudnn")
    benchmark_limit = Value(10, "set_benchmark_limit_cudnn")
    deterministic = Value(False, "set_deterministic_cudnn")
    allow_tf32 = _Tf32(True, "set_allow_tf32_cublas")


class _Convolutions:
    """How convolutions of float32 are computed."""

    __slots__ = ()

    @property
    def fp32_precision(self) -> str:
        """The same as "tf32" or "ieee"; "none" where nobody has said so, which is computed as "ieee" is."""
        return {None: "none", True: "tf32", False: "ieee"}[precision.convolutions_in_tf32()]

    @fp32_precision.setter
    def fp32_precision(self, value: Any) -> None:
        if value not in ("ieee", "tf32", "none"):
            raise RuntimeError(f"Unknown precision: {value!r}; expected 'ieee', 'tf32' or 'none'")
        precision.allow_convolutions_in_tf32(None if value == "none" else value == "tf32")


conv = _Convolutions()


_here: Any = sys.modules[__name__]
_here.__class__ = _Module
_NAMES = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")


def is_available() -> bool:
    """False: nothing runs by cuDNN.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.backends.cudnn.is_available(), fg.backends.cudnn.version()
    (False, None)
    """
    return False


def version() -> int | None:
    """None: nothing runs by cuDNN."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: nothing runs by cuDNN."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Set those of the switches that are given; what all of them were."""
    before = tuple(getattr(_here, name) for name in _NAMES)
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    for name, value in zip(_NAMES, given, strict=True):
        if value is not None:
            setattr(_here, name, value)
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool | None = None,
) -> Iterator[None]:
    """Set the switches for a while; `allow_tf32` reads True where it is not given, but allows nothing.

    Examples
    --------
    >>> import fastgrad as fg
    >>> with fg.backends.cudnn.flags(enabled=False):
    ...     fg.backends.cudnn.enabled
    False
    >>> fg.backends.cudnn.enabled
    True
    """
    asked = precision.convolutions_in_tf32()
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    if allow_tf32 is None:
        precision.allow_convolutions_in_tf32(None)
    try:
        yield
    finally:
        set_flags(*before[:-1])
        precision.allow_convolutions_in_tf32(asked)
