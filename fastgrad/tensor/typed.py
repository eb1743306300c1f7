"""The older names of tensors of a dtype on a kind of device: ``FloatTensor``, ``LongTensor``, ..."""

from __future__ import annotations

import types
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.creation import empty, tensor
from fastgrad.native.build.loader import TensorBase


class TensorType(type):
    """A class of which tensors of one dtype on one kind of device are instances, and that makes such tensors."""

    dtype: dtypes.dtype
    device_type: str

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, TensorBase)
            and instance.dtype is cls.dtype  # type: ignore[attr-defined]
            and instance.device.type == cls.device_type  # type: ignore[attr-defined]
        )

    def __call__(cls, *data: Any) -> Any:
        """A tensor of data, or of so many elements that are not set."""
        if len(data) == 1 and not isinstance(data[0], int):
            return tensor(data[0], dtype=cls.dtype, device=cls.device_type)
        if not all(isinstance(size, int) for size in data):
            raise TypeError(
                f"{cls.__name__}(): expected data, or sizes as ints, but got "
                f"{', '.join(type(size).__name__ for size in data)}"
            )
        return empty(*(data or (0,)), dtype=cls.dtype, device=cls.device_type)


def _made(d: dtypes.dtype, device_type: str) -> TensorType:
    def fill(namespace: dict[str, Any]) -> None:
        module = "fastgrad" if device_type == "cpu" else f"fastgrad.{device_type}"
        namespace.update(dtype=d, device_type=device_type, __module__=module)
        namespace["__doc__"] = (
            f"Tensors of {d.name} on '{device_type}'; ``tensor(data, dtype=...)`` says the same."
        )

    made: Any = types.new_class(f"{d.type_name}Tensor", (), {"metaclass": TensorType}, fill)
    return made  # type: ignore[no-any-return]


def by_name(device_type: str) -> dict[str, TensorType]:
    """Classes for a kind of device, by name."""
    named = (d for d in dtypes.SUPPORTED if d.name not in ("uint16", "uint32", "uint64"))
    return {f"{d.type_name}Tensor": _made(d, device_type) for d in named}


BY_NAME = by_name("cpu")
"""Those of the CPU."""
