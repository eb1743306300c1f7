"""The older names of tensors of a dtype: ``FloatTensor``, ``LongTensor``, ..."""

from __future__ import annotations

import types
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.creation import empty, tensor
from fastgrad.native.build.loader import TensorBase


class TensorType(type):
    """A class of which tensors of one dtype on the CPU are instances, and that makes such tensors."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, TensorBase)
            and instance.dtype is cls.dtype  # type: ignore[attr-defined]
            and instance.device.type == "cpu"  # type: ignore[attr-defined]
        )

    def __call__(cls, *data: Any) -> Any:
        """A tensor of data, or of so many elements that are not set."""
        if len(data) == 1 and not isinstance(data[0], int):
            return tensor(data[0], dtype=cls.dtype, device="cpu")
        if not all(isinstance(size, int) for size in data):
            raise TypeError(
                f"{cls.__name__}(): expected data, or sizes as ints, but got "
                f"{', '.join(type(size).__name__ for size in data)}"
            )
        return empty(*(data or (0,)), dtype=cls.dtype, device="cpu")


def _made(d: dtypes.dtype) -> TensorType:
    def fill(namespace: dict[str, Any]) -> None:
        namespace["dtype"] = d
        namespace["__doc__"] = f"Tensors of {d.name} on the CPU; ``tensor(data, dtype=...)`` says the same."
        namespace["__module__"] = "fastgrad"

    made: Any = types.new_class(f"{d.type_name}Tensor", (), {"metaclass": TensorType}, fill)
    return made  # type: ignore[no-any-return]


BY_NAME: dict[str, TensorType] = {
    f"{d.type_name}Tensor": _made(d) for d in dtypes.SUPPORTED if d.name not in ("uint16", "uint32", "uint64")
}
"""The classes by name."""
