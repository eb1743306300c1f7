"""Checks and conversions that the functions share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad.native.build.loader import TensorBase


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, TensorBase)


def is_number(value: object) -> bool:
    """Whether a value is a tensor or a number, as most second operands may be."""
    return isinstance(value, (TensorBase, int, float, np.number, np.bool_))


def need_tensor(name: str, value: Any, argument: str = "input", position: int = 1) -> Any:
    """The value, if it is a tensor; a TypeError naming the argument and its position otherwise."""
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
        )
    return value


def as_index(name: str, argument: str, value: Any) -> int:
    """An integer, from anything that Python takes as an index; TypeError otherwise."""
    if isinstance(value, bool):
        raise TypeError(f"{name}(): argument '{argument}' must be int, not bool")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}(): argument '{argument}' must be int, not {type(value).__name__}") from None


def as_sizes(name: str, sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence, as a tuple of integers."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    for s in sizes:
        if isinstance(s, (float, str)) or s is None:
            raise TypeError(f"{name}(): argument 'size' must be tuple of ints, but found {type(s).__name__}")
    return tuple(operator.index(s) for s in sizes)


def as_dims(name: str, dim: Any) -> tuple[int, ...]:
    """Dimensions given as None (all), an integer or a sequence."""
    if dim is None:
        return ()
    if isinstance(dim, (tuple, list)):
        return tuple(as_index(name, "dim", d) for d in dim)
    return (as_index(name, "dim", dim),)
