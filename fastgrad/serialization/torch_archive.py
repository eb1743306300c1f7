"""The file that `torch.save` writes: a zip archive with one folder, read without PyTorch.

====================  ===============================================================================================
``*/data.pkl``        a pickle of the object; for a tensor's memory stands ("storage", class, key, device, count)
``*/data/<key>``      the bytes of that memory
``*/byteorder``       "little" or "big"
``*/version``         of the format
====================  ===============================================================================================
"""

from __future__ import annotations

import codecs
import io
import pickle
import sys
import zipfile
from types import FunctionType
from typing import IO, Any

from fastgrad import dtypes
from fastgrad.functions.memory_format import strided
from fastgrad.functions.storage import Storage, rebuild, rebuild_conjugates, rebuild_meta
from fastgrad.nn.parameter import Parameter
from fastgrad.serialization import torch_names
from fastgrad.serialization.parts import Memories, Parts, write_part
from fastgrad.serialization.placement import Placement
from fastgrad.serialization.restricted import Load
from fastgrad.serialization.torch_names import NAMES, StorageKind
from fastgrad.tensor import Tensor

_OBJECT_ENTRY = "data.pkl"
_FOLDER = "archive/"
_VERSION, _VERSIONS = "3", range(1, 11)
_PROTOCOL = 2
_ORDERS = ("little", "big")


# --- reading -----------------------------------------------------------------------------------------------------


def folder_of(parts: Parts) -> str | None:
    """The folder in which an archive of `torch.save` has everything; None if this is no such archive."""
    folders = [
        name.removesuffix(_OBJECT_ENTRY)
        for name in parts.entries
        if name.endswith("/" + _OBJECT_ENTRY) and name.count("/") == 1
    ]
    return folders[0] if len(folders) == 1 else None


def read(parts: Parts, folder: str, placement: Placement, load: Load) -> Any:
    """Read the object of an archive.

    Raises
    ------
    pickle.UnpicklingError
        If it asks for what is not allowed.
    RuntimeError
        If it is damaged, of a later version, or of TorchScript.
    """
    if folder + "constants.pkl" in parts:
        raise RuntimeError(
            f"{parts.what} is an archive of TorchScript, which holds a program; in PyTorch, save the state_dict() of "
            "what torch.jit.load makes of it"
        )
    version = _text(parts, folder + "version", _VERSION)
    if not version.isascii() or not version.isdigit() or int(version[:9]) not in _VERSIONS:
        raise RuntimeError(
            f"{parts.what} has version {version!r} of PyTorch's format, but this fastgrad reads versions "
            f"{_VERSIONS[0]} to {_VERSIONS[-1]}"
        )
    order = _text(parts, folder + "byteorder", "little")
    if order not in _ORDERS:
        raise RuntimeError(f"{parts.what} has the unknown byte order {order!r}")
    memories = Memories(placement)

    def persistent_load(pid: Any) -> Any:
        kind, key, location, count = storage_id(pid, 5)

        def make() -> Storage:
            name = f"{folder}data/{key}"
            return parts.storage(name, kind.dtype, count, order != sys.byteorder and kind.typed)

        held = memories.get(key, kind.dtype, count, location, make)
        if order != sys.byteorder and not kind.typed:
            raise pickle.UnpicklingError(
                f"storage {key!r} has bytes in the order of another kind of machines"
            )
        return kind.over(held)

    return load(parts.read(folder + _OBJECT_ENTRY), persistent_load, NAMES)


def _text(parts: Parts, name: str, default: str) -> str:
    return parts.read(name).decode("ascii", "replace").strip() if name in parts else default


def storage_id(
    pid: Any, length: int, key_kinds: tuple[type, ...] = (str,)
) -> tuple[StorageKind, Any, str, int]:
    """Class, key, device and count of elements of a persistent id.

    Parameters
    ----------
    pid : object
    length : int
        Of the tuple that it has to be.
    key_kinds : tuple of type
        What the key may be.

    Raises
    ------
    pickle.UnpicklingError
        If it is none of a storage.
    """
    kinds = [(str, StorageKind, kind, str, int) for kind in key_kinds]
    if (
        type(pid) is not tuple
        or len(pid) != length
        or tuple(map(type, pid[:5])) not in kinds
        or pid[0] != "storage"
    ):
        raise pickle.UnpicklingError(
            "a persistent id is none of a storage of a dtype that fastgrad has: a storage is described by its class, "
            "key, device and count of elements"
        )
    _, kind, key, location, count = pid[:5]
    if count < 0:
        raise pickle.UnpicklingError(f"storage {key!r} has {count} elements")
    return kind, key, location, count


# --- writing -----------------------------------------------------------------------------------------------------


def described(held: Storage, key: Any) -> tuple[str, StorageKind, Any, str, int]:
    """The persistent id that stands for a memory; `storage_id` reads it."""
    kind = torch_names.KINDS.get(held.dtype.name, torch_names.BYTES)
    return "storage", kind, key, str(held.device), held.size() if kind.typed else held.nbytes()


class _Pickler(pickle._Pickler):
    """Python's pickler in Python, whose `save_global` can write names of what is not installed."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, _PROTOCOL)
        self.storages: dict[Storage, str] = {}

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not Storage:
            return None
        key = self.storages.setdefault(obj, str(len(self.storages)))
        return described(obj, key)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return _reduced(obj)
        if (
            type(obj) is bytes
        ):  # Python's own way names `bytes` for an empty one, which PyTorch does not allow
            return codecs.encode, (obj.decode("latin1"), "latin1")
        if obj is strided:
            return torch_names.get_layout, ("torch.strided",)
        if type(obj) in (dtypes.dtype, StorageKind):
            return torch_names.name_of(obj)
        return torch_names.reduced_value(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module, _, name = torch_names.name_of(obj).rpartition(".")
        this: Any = self  # the pickler in Python has methods that its description for type checkers lacks
        this.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        this.memoize(obj)

    dispatch = pickle._Pickler.dispatch | {type: save_global, FunctionType: save_global}  # type: ignore[assignment]


def _reduced(tensor: Any) -> Any:
    """A tensor as a call of one of PyTorch's functions."""
    reduced = tensor.__reduce_ex__(_PROTOCOL)
    if reduced[0] not in (rebuild, rebuild_conjugates, rebuild_meta) or reduced[1][0] not in (
        Tensor,
        Parameter,
    ):
        raise pickle.PicklingError(
            f"save(): format='torch' holds tensors, parameters and buffers, but not those of class "
            f"{type(tensor).__name__}; save tensor.as_subclass(fastgrad.Tensor)"
        )
    return torch_names.call_of(reduced)


def write(file: IO[bytes], obj: Any) -> None:
    """Write an object to a file that is open for writing.

    Raises
    ------
    pickle.PicklingError
        If PyTorch would not read it with ``weights_only=True``.
    """
    pickled = io.BytesIO()
    pickler = _Pickler(pickled)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        write_part(archive, _FOLDER + _OBJECT_ENTRY, pickled.getvalue())
        write_part(archive, _FOLDER + "byteorder", sys.byteorder.encode())
        for storage, key in pickler.storages.items():
            write_part(archive, f"{_FOLDER}data/{key}", storage.buffer)
        write_part(archive, _FOLDER + "version", f"{_VERSION}\n".encode())
