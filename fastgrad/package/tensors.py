"""Tensors in the pickles of packages, as PyTorch writes them.

A tensor is a layout over a storage; the storage is a persistent id ``("storage", kind, key, device, count)``, and its
bytes are the part ``.data/<key>.storage``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.storage import Storage
from fastgrad.nn import Linear
from fastgrad.serialization import torch_names
from fastgrad.serialization.parts import Memories
from fastgrad.serialization.placement import Placement
from fastgrad.serialization.torch_archive import described, storage_id
from fastgrad.serialization.torch_names import UntypedBytes
from fastgrad.tensor import Tensor

# --- writing ---------------------------------------------------------------------------------------------------


class Writer:
    """The storages of one package, each with its number.

    Parameters
    ----------
    write : callable
        Takes the name of a part and its bytes.
    """

    def __init__(self, write: Callable[[str, Any], None]) -> None:
        self._write = write
        self._keys: dict[tuple[str, int, int], int] = {}
        self._held: list[Storage] = []  # an address is unique as long as the memory is there

    def persistent_id(self, held: Storage) -> tuple[Any, ...]:
        """What stands for a memory in a pickle; its bytes are written at the first time."""
        # Storages of several dtypes may lie over one memory; arrays of NumPy at one address may differ in length.
        place = str(held.device), held.data_ptr() if held.size() else id(held), held.nbytes()
        key = self._keys.get(place)
        if key is None:
            key = len(self._held)
            self._write(f".data/{key}.storage", held.buffer)
            self._held.append(held)
            self._keys[place] = key
        return described(held, key)


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
        self._memories = Memories(placement, as_any_dtype=True)

    def persistent_load(self, pid: Any) -> Storage | UntypedBytes:
        """The memory that a persistent id means; UnpicklingError if it is none."""
        kind, key, location, count = storage_id(pid, 5, (int, str))  # older packages have texts

        def make() -> Storage:
            return self._fill(f".data/{key}.storage", kind.dtype, count)

        return kind.over(self._memories.get(str(key), kind.dtype, count, location, make))


def rebuild_from_type_v2(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor of a class, with attributes. Packages run code, so what makes it may be anything, and the class' own."""
    made = function(*arguments)
    if not isinstance(made, Tensor):
        raise pickle.UnpicklingError(f"a tensor was expected, but {type(made).__name__} was made")
    made = torch_names.as_kind(kind, made)
    if hasattr(kind, "__setstate__"):
        made.__setstate__(state)
        return made
    return torch_names.with_state(made, state)


_NAMED: dict[tuple[str, str], Any] = {
    (full.rpartition(".")[0], full.rpartition(".")[2]): obj
    for full, obj in torch_names.NAMES.known.items()
    if full.startswith("torch.")
}
READ = _NAMED | {
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild_from_type_v2,
    ("torch.nn.modules.linear", "NonDynamicallyQuantizableLinear"): Linear,
}
"""What PyTorch's pickles name and fastgrad has under another name, or under none."""
_WRITTEN = {id(obj): name for name, obj in reversed(_NAMED.items())}  # the first name of each


def name_of(obj: Any) -> tuple[str, str] | None:
    """The name that an object has in PyTorch's files; None if there is none."""
    return _WRITTEN.get(id(obj))
