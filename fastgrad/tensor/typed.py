"""The older names of tensors of a dtype on a kind of device: ``FloatTensor``, ``LongTensor``, ..."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions.creation import empty, tensor
from fastgrad.native.build.loader import TensorBase
from fastgrad.tensor.size import Size


class TensorType(type):
    """A class of which tensors of one dtype on one kind of device are instances, and that makes such tensors."""

    dtype: dtypes.dtype
    device_type: str
    is_cuda: bool

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, TensorBase)
            and instance.dtype is cls.dtype  # type: ignore[attr-defined]
            and instance.device.type == cls.device_type  # type: ignore[attr-defined]
        )

    def __call__(cls, *data: Any) -> Any:
        """A tensor of data, or of so many elements that are not set."""
        return older(cls.__name__, data, cls.dtype, cls.device_type)


def older(name: str, given: tuple[Any, ...], dtype: dtypes.dtype, device: Any) -> Any:
    """A tensor as PyTorch's oldest constructors make it.

    Parameters
    ----------
    name : str
        What messages call the constructor.
    given : tuple
        Sizes, or one `Size`: elements are not set then. Else one sequence, array or tensor, which is copied.
    dtype : dtype
    device : device or str or None

    Raises
    ------
    TypeError
        If something else is given; a number that is no size is no data.
    """
    sizes: Any = (0,)
    if len(given) == 1 and isinstance(given[0], Size):
        sizes = given[0]
    elif given:
        if not all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in given):
            if len(given) == 1 and isinstance(given[0], (Sequence, np.ndarray, TensorBase)):
                return tensor(given[0], dtype=dtype, device=device)
            raise TypeError(
                f"{name}(): expected data as one sequence, array or tensor, or sizes as ints, but got "
                f"{', '.join(type(size).__name__ for size in given)}; tensor(data) takes a number as well"
            )
        sizes = given
    return empty(*sizes, dtype=dtype, device=device)


def _made(d: dtypes.dtype, device_type: str) -> TensorType:
    def fill(namespace: dict[str, Any]) -> None:
        module = "fastgrad" if device_type == "cpu" else f"fastgrad.{device_type}"
        namespace.update(dtype=d, device_type=device_type, is_cuda=device_type == "cuda", __module__=module)
        namespace["__doc__"] = (
            f"Tensors of {d.name} on '{device_type}'; ``tensor(data, dtype=...)`` says the same."
        )

    made: Any = types.new_class(f"{d.type_name}Tensor", (), {"metaclass": TensorType}, fill)
    return made  # type: ignore[no-any-return]


def by_name(device_type: str) -> dict[str, TensorType]:
    """Classes for a kind of device, by name."""
    return {f"{d.type_name}Tensor": _made(d, device_type) for d in dtypes.TYPED}


BY_NAME = by_name("cpu")
"""Those of the CPU."""
