"""Checks and conversions that the functions share."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import GRAD_ENABLED

LIMIT = 1 << 63
LEAST = -LIMIT
TOO_LONG = "Overflow when unpacking long long"


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, TensorBase)


def is_plain_number(value: object) -> bool:
    """Whether a value is a number, and no tensor."""
    return isinstance(value, (int, float, complex, np.number, np.bool_))


def is_number(value: object) -> bool:
    """Whether a value is a tensor or a number, as most second operands may be."""
    return isinstance(value, (TensorBase, int, float, complex, np.number, np.bool_))


def need_tensor(name: str, value: Any, argument: str = "input", position: int = 1) -> Any:
    """The value, if it is a tensor; a TypeError naming the argument and its position otherwise."""
    if not isinstance(value, TensorBase):
        asks = hasattr(type(value), "__torch_function__")
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
            + (
                "; call fastgrad.overrides.install() first, so that its __torch_function__ is asked"
                if asks
                else ""
            )
        )
    return value


def records(*tensors: Any) -> bool:
    """Whether what is computed of tensors is recorded."""
    return bool(rt.get_mode() & GRAD_ENABLED) and any(t.requires_grad for t in tensors)


def need_optional(name: str, value: Any, argument: str, position: int) -> Any:
    """The value, if it is a tensor or None; a TypeError naming the argument and its position otherwise."""
    return None if value is None else need_tensor(name, value, argument, position)


def need_tensors(name: str, values: Any, argument: str = "tensors", position: int = 1) -> list[Any]:
    """The values as a list, if they are an iterable of tensors; a TypeError naming argument and element otherwise."""
    if isinstance(values, TensorBase) or not isinstance(values, Iterable):
        kind = type(values).__name__
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be iterable of Tensors, not {kind}"
        )
    found = list(values)
    for k, value in enumerate(found):
        if not isinstance(value, TensorBase):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be iterable of Tensors, but found "
                f"element of type {type(value).__name__} at pos {k}"
            )
    return found


def need_type(name: str, value: Any, kind: type, argument: str, position: int = 1) -> Any:
    """The value, if it is of the type; a TypeError naming the argument and its position otherwise."""
    if not isinstance(value, kind):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be {kind.__name__}, not "
            f"{type(value).__name__}"
        )
    return value


def as_index(name: str, argument: str, value: Any) -> int:
    """An integer, from anything that Python takes as an index; TypeError otherwise."""
    if type(value) is int and LEAST <= value < LIMIT:
        return value
    if isinstance(value, bool):
        raise TypeError(f"{name}(): argument '{argument}' must be int, not bool")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}(): argument '{argument}' must be int, not {type(value).__name__}") from None
    if not LEAST <= number < LIMIT:
        raise ValueError(f"{name}(): argument '{argument}': {TOO_LONG}, the number is {number}")
    return number


def as_float(name: str, argument: str, value: Any) -> float:
    """A float, from a number or a tensor of one element; TypeError otherwise."""
    if type(value) is float:
        return value
    one = isinstance(value, TensorBase) and value.numel() == 1  # type: ignore[attr-defined]
    if not one and not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name}(): argument '{argument}' must be float, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise OverflowError(f"{name}(): argument '{argument}' is too large for a float") from None


def as_flag(name: str, argument: str, value: Any) -> int:
    """1 or 0 for a bool; TypeError for anything else, a 1 or 0 as well."""
    if value is True:
        return 1
    if value is not False:
        raise TypeError(f"{name}(): argument '{argument}' must be bool, not {type(value).__name__}")
    return 0


def as_truth(name: str, argument: str, value: Any) -> bool:
    """A bool, from a bool or an integer: for what PyTorch takes integers, too. TypeError for anything else."""
    return value if isinstance(value, bool) else as_index(name, argument, value) != 0


def as_sizes(name: str, sizes: Sequence[Any], argument: str = "size") -> tuple[int, ...]:
    """Sizes given one by one or as one sequence, as a tuple of integers that fit into 64 bits.

    A bool is none. As in PyTorch only the first is asked: ``zeros(2, True)`` runs there.
    """
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    found = tuple(sizes)  # as they are now: an element that is asked for its index may change a list
    for size in found:
        if type(size) is not int or not LEAST <= size < LIMIT:
            return _unusual_sizes(name, found, argument)
    return found


def _unusual_sizes(name: str, sizes: tuple[Any, ...], argument: str) -> tuple[int, ...]:
    """Sizes that are not plain integers of 64 bits, or not all of them."""
    try:
        found = tuple(map(operator.index, sizes))
    except TypeError:
        wrong = next(k for k, s in enumerate(sizes) if not _is_index(s))
        raise _no_size(name, argument, wrong, sizes) from None
    if found and isinstance(sizes[0], bool):
        raise _no_size(name, argument, 0, sizes)
    for k, size in enumerate(found):
        if not -LIMIT <= size < LIMIT:
            raise TypeError(
                f"{name}(): argument '{argument}' failed to unpack the object at pos {k + 1} with error "
                f'"{TOO_LONG}", the number is {size}'
            )
    return found


def as_sequence(name: str, value: Any, argument: str, position: int) -> tuple[int, ...]:
    """Integers that fit into 64 bits, from a tuple or list of them; a TypeError naming the argument otherwise."""
    if type(value) is tuple:
        for size in value:
            if type(size) is not int or not LEAST <= size < LIMIT:
                break
        else:
            return value
    if not isinstance(value, (tuple, list)):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be tuple of ints, not {type(value).__name__}"
        )
    return as_sizes(name, (value,), argument)


def need_sizes(name: str, given: Sequence[Any], argument: str = "size") -> tuple[int, ...]:
    """Like `as_sizes`, where something has to be given, if only an empty tuple."""
    for size in given:
        if type(size) is not int or not LEAST <= size < LIMIT:
            return as_sizes(name, given, argument)
    if not given:
        raise TypeError(f"{name}(): missing required argument '{argument}'")
    return tuple(given)


def _no_size(name: str, argument: str, k: int, sizes: Sequence[Any]) -> TypeError:
    return TypeError(
        f"{name}(): argument '{argument}' must be tuple of ints, but found element of type {type(sizes[k]).__name__} "
        f"at pos {k}"
    )


def _is_index(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def product(*factors: int) -> int:
    """The product of sizes, -1 if it does not fit into 63 bits: as `product` in compiled code."""
    out = math.prod(factors)
    return out if out < LIMIT else -1


def multiplied(name: str, *factors: int) -> int:
    """The product of sizes; RuntimeError where no tensor can have as many elements."""
    out = product(*factors)
    if out < 0:
        raise RuntimeError(
            f"{name}(): numel: integer multiplication overflow in the product of {list(factors)}"
        )
    return out


def as_dims(name: str, dim: Any) -> tuple[int, ...]:
    """Dimensions given as None (all), an integer or a sequence."""
    if dim is None:
        return ()
    if isinstance(dim, (tuple, list)):
        return as_sizes(name, (dim,), "dim")
    return (as_index(name, "dim", dim),)
