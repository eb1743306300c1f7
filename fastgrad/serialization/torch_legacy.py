"""The file that `torch.save` wrote before it wrote zip archives: pickles, and behind them the memory of tensors.

Five pickles follow each other: a magic number, the version, what machine it was, the object, the keys of the storages.
Then comes each storage in the order of the keys: eight bytes with the number of its elements, and these.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import IO, Any

from fastgrad.functions.storage import Storage
from fastgrad.serialization import restricted
from fastgrad.serialization.parts import Memories, damage_reported, name_of_file, swap
from fastgrad.serialization.placement import Placement
from fastgrad.serialization.restricted import Load, Vocabulary
from fastgrad.serialization.torch_archive import storage_id
from fastgrad.serialization.torch_names import NAMES, StorageKind

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
MAGIC = b"\x80\x02\x8a\x0a" + _MAGIC_NUMBER.to_bytes(10, "little")
"""What such a file begins with: the pickle of the magic number, up to its last opcode."""

_VERSION = 1001
_NOTHING = Vocabulary({}, [])
_COUNT = struct.Struct("<q")


class _Bounded:
    """A file that gives no more than it has: asked for more, it says so before memory for it is taken."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        here = file.tell()
        self.end = file.seek(0, os.SEEK_END)
        file.seek(here)
        self.promised = 0

    def promise(self, count: int, key: str) -> None:
        """Expect so many bytes of a storage."""
        self.promised += count
        if self.promised > self.end:
            raise pickle.UnpicklingError(
                f"with storage {key!r}, of {count} bytes, there is more than the file has"
            )

    def left(self) -> int:
        return self.end - self.file.tell()

    def read(self, count: int) -> bytes:
        if count > self.left():
            raise ValueError(f"{count} bytes are announced, but {self.left()} are left")
        return self.file.read(count)

    def readline(self) -> bytes:
        return self.file.readline()

    def tell(self) -> int:
        return self.file.tell()


def read(file: IO[bytes], placement: Placement, load: Load) -> Any:
    """Read the object of a file that stands before its magic number.

    Raises
    ------
    pickle.UnpicklingError
        If it asks for what is not allowed.
    RuntimeError
        If it is damaged, or of another version.
    """
    what = name_of_file(file)
    source = _Bounded(file)
    _plain(source)
    version, machine = _plain(source), _plain(source)
    if version != _VERSION:
        raise RuntimeError(
            f"{what} has version {version!r} of PyTorch's older format, but there is only {_VERSION}"
        )
    little = machine.get("little_endian", True) if type(machine) is dict else True
    memories, kinds = Memories(placement), {}
    made: dict[str, Storage] = {}

    def persistent_load(pid: Any) -> Any:
        kind, key, location, count = storage_id(pid, 6)
        if pid[5] is not None:
            raise pickle.UnpicklingError(
                f"storage {key!r} is a view of another one, as PyTorch 0.3 wrote it; save the file anew in PyTorch"
            )

        def make() -> Storage:
            source.promise(count * kind.dtype.itemsize, key)
            made[key], kinds[key] = Storage.empty(kind.dtype, count), kind
            return made[key]

        return kind.over(memories.get(key, kind.dtype, count, location, make))

    result = load(source, persistent_load, NAMES)
    keys = _plain(source)
    if type(keys) is not list or any(type(key) is not str for key in keys) or sorted(keys) != sorted(made):
        raise pickle.UnpicklingError("the keys of the storages are not those that the object has")
    with damage_reported(what):
        for key in keys:
            _fill(source, key, kinds[key], made[key], little == (sys.byteorder == "little"))
    for key, (_, _, placed) in memories.found.items():
        if placed is not made[key]:
            placed.flat.copy_(made[key].flat)
    return result


def _plain(source: _Bounded) -> Any:
    """The object of a pickle that names nothing."""
    return restricted.loads(source, _no_storages, _NOTHING)  # type: ignore[arg-type]


def _no_storages(_: Any) -> Any:
    raise pickle.UnpicklingError("a storage where none belongs")


def _fill(source: _Bounded, key: str, kind: StorageKind, storage: Storage, native: bool) -> None:
    (count,) = _COUNT.unpack(source.read(_COUNT.size))
    if count != storage.size():
        raise ValueError(f"storage {key!r} has {count} elements instead of {storage.size()}")
    if storage.nbytes() > source.left():
        raise ValueError(f"storage {key!r} ends early: {source.left()} of {storage.nbytes()} bytes are left")
    storage.buffer[:] = source.read(storage.nbytes())
    if not native:
        if not kind.typed:
            raise ValueError(f"storage {key!r} has bytes in the order of another kind of machines")
        swap(storage)
