"""Dividing what several devices compute, and putting it together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad.functions.arguments import is_tensor
from fastgrad.functions.shape import cat

__all__ = ["gather", "is_namedtuple", "scatter"]


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is a tuple with names."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Tensors, or containers of tensors that are built alike, joined on one device.

    Parameters
    ----------
    outputs : sequence
        What each device computed.
    target_device : device, str or int
        A negative number stands for the CPU.
    dim : int
        Along which tensors are joined; those without dimensions become a vector.
    """
    where = "cpu" if isinstance(target_device, int) and target_device < 0 else target_device
    first = outputs[0]
    if is_tensor(first):
        return cat([output.to(where).reshape(output.shape or (1,)) for output in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([output[key] for output in outputs], where, dim)) for key in first)
    parts = [gather(items, where, dim) for items in zip(*outputs, strict=True)]
    return type(first)(*parts) if is_namedtuple(first) else type(first)(parts)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Inputs for each of several devices: parts of tensors, in containers like the given ones; others as they are.

    Parameters
    ----------
    inputs : object
    target_gpus : sequence of device
    dim : int
        Along which tensors are divided.
    """
    if is_tensor(inputs):
        parts = inputs.chunk(len(target_gpus), dim)
        return [part.to(where) for part, where in zip(parts, target_gpus, strict=False)]
    if isinstance(inputs, (tuple, list, dict)) and inputs:
        values = inputs.items() if isinstance(inputs, dict) else inputs
        made = zip(*(scatter(value, target_gpus, dim) for value in values), strict=False)
        if is_namedtuple(inputs):
            return [type(inputs)(*items) for items in made]
        return [type(inputs)(items) for items in made]  # type: ignore[arg-type]
    return [inputs for _ in target_gpus]
