"""Python data (numbers, nested sequences, arrays) as arrays of supported dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions.arguments import is_tensor


def array_of(data: Any, floats: Any = None) -> np.ndarray:
    """Python data as an array of a supported dtype; floats become `floats`, or the default dtype."""
    if isinstance(data, np.ndarray):
        return data
    if isinstance(data, (list, tuple)):
        data = _plain(data)
        _need_equal_lengths(data, _shape_of(data), 0)
    try:
        array = np.asarray(data)
    except ValueError as error:  # arrays of different sizes in a list
        raise ValueError(f"tensor(): expected parts of equal sizes: {error}") from None
    if array.dtype == object or array.dtype.kind in "USOV":
        odd = _odd_one(data)
        if odd in ("str", "bytes"):
            raise TypeError(f"tensor(): invalid data type '{odd}'")
        raise RuntimeError(f"tensor(): Could not infer dtype of {odd}")
    if array.dtype == np.float64 and not isinstance(data, np.generic):
        return array.astype(floats or dtypes.get_default_dtype().numpy)
    return array


def _shape_of(data: Any) -> list[int]:
    """The sizes of a nested sequence, as its first elements have them."""
    shape = []
    while isinstance(data, (list, tuple)):
        shape.append(len(data))
        if not data:
            break
        data = data[0]
    return shape


def _need_equal_lengths(data: Any, shape: list[int], level: int) -> None:
    """Refuse a nested sequence whose parts differ in length or depth."""
    nested = isinstance(data, (list, tuple))
    if nested != (level < len(shape)):
        raise TypeError(f"tensor(): a sequence and a {type(data).__name__} stand side by side at dim {level}")
    if not nested:
        return
    if len(data) != shape[level]:
        raise ValueError(
            f"tensor(): expected sequence of length {shape[level]} at dim {level} (got {len(data)})"
        )
    for part in data if level + 1 < len(shape) or any(isinstance(x, (list, tuple)) for x in data) else ():
        _need_equal_lengths(part, shape, level + 1)


def _plain(data: Any) -> Any:
    if is_tensor(data):
        return data.item() if data.dim() == 0 else _plain(data.tolist())
    if isinstance(data, (list, tuple)):
        return [_plain(x) for x in data]
    return data


def _odd_one(data: Any) -> str:
    while isinstance(data, (list, tuple)) and data:
        data = next((x for x in data if not isinstance(x, (int, float, bool))), data[0])
    return type(data).__name__
