"""cuDNN, which fastgrad does not use: its switches are kept for programs that set them, and have no effect."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from fastgrad.backends.settings import Value


class _Module(ModuleType):
    enabled = Value(True, "set_enabled_cudnn")
    benchmark = Value(False, "set_benchmark_cudnn")
    benchmark_limit = Value(10, "set_benchmark_limit_cudnn")
    deterministic = Value(False, "set_deterministic_cudnn")
    allow_tf32 = Value(True, "set_allow_tf32_cublas")


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
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Set the switches for a while.

    Examples
    --------
    >>> import fastgrad as fg
    >>> with fg.backends.cudnn.flags(enabled=False):
    ...     fg.backends.cudnn.enabled
    False
    >>> fg.backends.cudnn.enabled
    True
    """
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
