"""Small functions of PyTorch's that libraries took for their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate as _accumulate
from typing import Any

import fastgrad as fg

__all__ = ["_accumulate", "_flatten_dense_tensors", "_get_device_index", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """The elements of tensors, one behind the other."""
    return fg.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """What `_flatten_dense_tensors` joined, in the sizes of tensors."""

    def parts() -> Iterator[Any]:
        start = 0
        for tensor in tensors:
            yield flat[start : start + tensor.numel()].view_as(tensor)
            start += tensor.numel()

    return tuple(parts())


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    where = None if device is None else fg.device(device)
    if where is not None and where.type == "cpu" and allow_cpu:
        return -1
    if where is not None and where.index is not None:
        return where.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return fg.cuda.current_device()
