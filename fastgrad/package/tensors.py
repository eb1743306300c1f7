"""Tensors in the pickles of packages, as PyTorch writes them.

A tensor is a layout over a storage; the storage is a persistent id ``("storage", kind, key, device, count)``, and its
bytes are the part ``.data/<key>.storage``.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions import storage
from fastgrad.functions.storage import Storage
from fastgrad.nn import Linear
from fastgrad.nn.parameter import Parameter
from fastgrad.serialization.placement import Placement
from fastgrad.serialization.torch_names import (
    BYTES,
    KINDS,
    UNTYPED,
    StorageKind,
    UntypedBytes,
    get_layout,
    rebuild_parameter,
    rebuild_parameter_with_state,
    rebuild_tensor_v2,
    rebuild_tensor_v3,
)
from fastgrad.tensor import Tensor

# --- writing ---------------------------------------------------------------------------------------------------


def reduced(tensor: Any) -> tuple[Any, ...]:
    """A tensor as a call of one of the functions below; attributes go along, hooks and ``grad`` do not."""
    tensor._warn_unserializable()
    _, (kind, held, offset, sizes, strides, requires_grad, _), *more = storage.reduced(tensor)
    attributes = more[0] if more else {}
    hooks: OrderedDict[int, Any] = OrderedDict()  # there are none
    if kind is Parameter:
        data = storage.rebuild(Tensor, held, offset, sizes, strides, False, {})
        made = (data, requires_grad, hooks)
        return (
            (rebuild_parameter_with_state, (*made, attributes)) if attributes else (rebuild_parameter, made)
        )
    function: Callable[..., Any] = rebuild_tensor_v2
    arguments: tuple[Any, ...] = (held, offset, sizes, strides, requires_grad, hooks)
    if tensor.dtype.name in UNTYPED:
        function, arguments = rebuild_tensor_v3, (*arguments, tensor.dtype)
    if kind is Tensor and not attributes:
        return function, arguments
    return rebuild_from_type_v2, (function, kind, arguments, attributes)


class Writer:
    """The storages of one package, each with its number.

    Parameters
    ----------
    write : callable
        Takes the name of a part and its bytes.
    """

    def __init__(self, write: Callable[[str, Any], None]) -> None:
        self._write = write
        self._keys: dict[tuple[str, int], int] = {}
        self._held: list[Storage] = []  # an address is unique as long as the memory is there

    def persistent_id(self, held: Storage) -> tuple[Any, ...]:
        """What stands for a memory in a pickle; its bytes are written at the first time."""
        flat = held.flat
        place = str(flat.device), flat.data_ptr() if flat.numel() else -1 - len(self._held)
        key = self._keys.get(place)
        if key is None:
            key = self._keys[place] = len(self._held)
            self._held.append(held)
            self._write(f".data/{key}.storage", held.buffer)
        kind = KINDS.get(flat.dtype.name, BYTES)
        count = flat.numel() if kind.typed else flat.nbytes
        return "storage", kind, key, str(flat.device), count


# --- reading ---------------------------------------------------------------------------------------------------


class Reader:
    """The storages that one pickle asks for.

    Parameters
    ----------
    fill : callable
        Takes the name of a part, a dtype and a number of elements, and gives new memory with them.
    placement : callable
    """

    def __init__(self, fill: Callable[[str, dtypes.dtype, int], Storage], placement: Placement) -> None:
        self._fill = fill
        self._placement = placement
        self._storages: dict[int | str, Storage] = {}

    def persistent_load(self, parts: tuple[Any, ...]) -> Storage | UntypedBytes:
        """The memory that a persistent id means; UnpicklingError if it is none."""
        kinds = [type(part) for part in parts]
        if kinds not in ([StorageKind, int, str, int], [StorageKind, str, str, int]):  # older ones have texts
            raise pickle.UnpicklingError(
                f"a storage is described by {parts!r}, not by its kind, key, device and size"
            )
        kind, key, location, count = parts
        if key not in self._storages:
            filled = self._fill(f".data/{key}.storage", kind.dtype, count)
            self._storages[key] = self._placement(filled, location)
        found = self._storages[key]
        if found.nbytes() != count * kind.dtype.itemsize:
            raise pickle.UnpicklingError(f"two descriptions of storage {key!r} differ")
        if not kind.typed:
            return UntypedBytes(found)
        return found if found.flat.dtype is kind.dtype else UntypedBytes(found).of(kind.dtype)


def rebuild_from_type_v2(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor of a class, with attributes."""
    made = function(*arguments)
    if not isinstance(made, Tensor):
        raise pickle.UnpicklingError(f"a tensor was expected, but {type(made).__name__} was made")
    if type(made) is not kind:
        made = storage.rebuild(kind, *storage.reduced(made)[1][1:])
    if hasattr(kind, "__setstate__"):
        made.__setstate__(state)
    else:
        storage.restore(made, state)
    return made


READ: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor_v3,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter_with_state,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild_from_type_v2,
    ("torch.serialization", "_get_layout"): get_layout,
    ("torch.nn.modules.linear", "NonDynamicallyQuantizableLinear"): Linear,
    ("torch.storage", "UntypedStorage"): BYTES,
    **{("torch", f"{kind.dtype.type_name}Storage"): kind for kind in KINDS.values()},
}
"""What PyTorch's pickles name and fastgrad has under no such name."""
_WRITTEN = {id(made): name for name, made in READ.items() if made is not Linear}


def name_of(obj: Any) -> tuple[str, str] | None:
    """The name under which `READ` has an object."""
    return _WRITTEN.get(id(obj))
