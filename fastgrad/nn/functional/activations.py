"""Activation functions."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.functions import elementwise, reduce
from fastgrad.ops.call import apply
from fastgrad.ops.registry import BY_NAME

_RELU = BY_NAME["relu"].id


def relu(input: Any, inplace: bool = False) -> Any:
    """``max(input, 0)``, element by element."""
    if inplace:
        return input.relu_()
    return apply(_RELU, 1, 0, input)


def tanh(input: Any) -> Any:
    """The hyperbolic tangent, element by element."""
    return elementwise.tanh(input)


def sigmoid(input: Any) -> Any:
    """``1 / (1 + exp(-input))``, element by element."""
    return elementwise.sigmoid(input)


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``exp(x) / sum(exp(x))`` along a dimension."""
    return reduce._softmax("softmax", input, _implicit(dim, "softmax", _stacklevel), dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return reduce._softmax("log_softmax", input, _implicit(dim, "log_softmax", _stacklevel), dtype)


def _implicit(dim: int | None, name: str, level: int) -> int | None:
    if dim is None:
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
            "argument.",
            stacklevel=level,
        )
    return dim
