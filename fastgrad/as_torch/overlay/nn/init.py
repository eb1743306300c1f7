"""The initializers by the names that libraries take from within PyTorch's."""

from __future__ import annotations

from typing import Any

from fastgrad.nn import init

__all__: list[str] = []


def _no_grad_uniform_(tensor: Any, a: float, b: float, generator: Any = None) -> Any:
    """Uniform numbers, without recording."""
    return init.uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Any, mean: float, std: float, generator: Any = None) -> Any:
    """Normal numbers, without recording."""
    return init.normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: Any, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Any:
    """Normal numbers within bounds, without recording."""
    return init.trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Any, val: float) -> Any:
    """One number everywhere, without recording."""
    return init.constant_(tensor, val)


def _no_grad_zero_(tensor: Any) -> Any:
    """Zeros, without recording."""
    return init.zeros_(tensor)
