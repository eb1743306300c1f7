"""The parts of a zip archive: uncompressed, aligned when written, and none trusted to be what it says when read."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions.data import elements_of
from fastgrad.functions.sharing import from_numpy
from fastgrad.functions.storage import Storage
from fastgrad.serialization.placement import Placement

PACKAGE_MARK = "/.data/extern_modules"
"""What the name of one part of each package ends in, and of nothing else."""

MAGIC = b"PK\x03\x04"
ALIGNMENT = 64  # of the bytes of a part within its file, so that a mapped file can be computed with
_LOCAL_HEADER, _LENGTHS = (
    30,
    26,
)  # bytes of one without name and extra field, and where the lengths of these stand
_PADDING = struct.Struct("<HH")
_PADDING_ID = 0xD935  # an extra field that means nothing but alignment
_ZIP64_FIELD = 20


def write_part(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Add a part to an archive. Its time is fixed: the same object gives the same bytes."""
    info = zipfile.ZipInfo(name)
    large = memoryview(data).nbytes * 1.05 > zipfile.ZIP64_LIMIT  # where `zipfile` puts a field of its own
    here: int = archive.fp.tell()  # type: ignore[union-attr]
    header = _LOCAL_HEADER + len(name.encode()) + _PADDING.size + _ZIP64_FIELD * large
    fill = -(here + header) % ALIGNMENT
    info.extra = _PADDING.pack(_PADDING_ID, fill) + bytes(fill)
    archive.writestr(info, data)


@contextlib.contextmanager
def damage_reported(what: str = "the file") -> Iterator[None]:
    """Turn what readers raise for a damaged file into one exception."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        struct.error,
        ValueError,
        NotImplementedError,
        RuntimeError,
        OSError,
        EOFError,
    ) as e:
        raise RuntimeError(
            f"{what} is corrupted: {e}. It may not have been written or transferred to its end, or was changed since."
        ) from e


def name_of_file(file: Any) -> str:
    """How messages call a file."""
    name = getattr(file, "name", None)
    return f"the file {name}" if isinstance(name, str) else "the file"


def mapped(file: IO[bytes]) -> np.ndarray:
    """The bytes of a file as memory of this process: pages are read when they are touched, changes stay here."""
    return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


def over(data: np.ndarray, dtype: dtypes.dtype) -> Any:
    """A flat tensor over bytes, or None if they are not aligned for its elements."""
    if data.ctypes.data % dtype.itemsize:
        return None
    if dtype.numpy is None:
        return from_numpy(data.view(np.int16)).view(dtype)
    return from_numpy(data.view(dtype.numpy))


def swap(storage: Storage) -> None:
    """Turn around the bytes of each number of a memory on the CPU."""
    numbers = elements_of(storage.flat)
    if numbers.dtype.kind == "c":
        numbers = numbers.view(numbers.real.dtype)
    numbers.byteswap(inplace=True)


class Parts:
    """The parts of an archive, read when they are asked for.

    Parameters
    ----------
    file : file object
    as_memory : bool
        Whether memory of tensors is the file's, instead of a copy.

    Raises
    ------
    RuntimeError
        If the archive is damaged, or parts lie over each other.
    """

    def __init__(self, file: IO[bytes], as_memory: bool = False) -> None:
        self.file = file
        self.what = name_of_file(file)
        start = file.tell()
        size = file.seek(0, os.SEEK_END)
        file.seek(start)
        with damage_reported(self.what):
            if size <= start:  # devices that never end have no size either, and `zipfile` would read them
                raise ValueError("it is empty")
            self.archive = zipfile.ZipFile(file)
            infos = sorted(self.archive.infolist(), key=lambda info: info.header_offset)
            self.entries = {info.filename: info for info in infos}
            if len(self.entries) < len(infos):
                raise ValueError("two of its parts have one name")
            if sum(info.file_size for info in infos) > size - start:
                raise ValueError("its parts are larger than the whole")
            ends = [*(info.header_offset for info in infos[1:]), size]
            self.ends = {info.filename: end for info, end in zip(infos, ends, strict=True)}
            for one, other in itertools.pairwise(infos):
                if one.header_offset + _LOCAL_HEADER + one.compress_size > other.header_offset:
                    raise ValueError(f"its parts {one.filename!r} and {other.filename!r} overlap")
        self.bytes = mapped(file) if as_memory else None

    def close(self) -> None:
        """No part is read any more. Memory of a mapped file stays as long as a tensor needs it."""
        self.archive.close()

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def read(self, name: str) -> bytes:
        """The bytes of a part."""
        with damage_reported(self.what):
            return self.archive.read(self.entry(name))

    def entry(self, name: str) -> zipfile.ZipInfo:
        """What the directory says of a part."""
        if name not in self.entries:
            raise ValueError(f"it has no part {name!r}")
        info = self.entries[name]
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"its part {name!r} is compressed")
        return info

    def storage(self, name: str, dtype: dtypes.dtype, count: int, swapped: bool = False) -> Storage:
        """New memory with the bytes of a part, or, if the file is mapped, that memory itself."""
        with damage_reported(self.what):
            info = self.entry(name)
            if info.file_size != count * dtype.itemsize:
                raise ValueError(
                    f"storage {name!r} has {info.file_size} bytes instead of {count} elements of {dtype.itemsize}"
                )
            storage = self._mapped(info, dtype) or self._copied(info, dtype, count)
        if swapped:
            swap(storage)
        return storage

    def _mapped(self, info: zipfile.ZipInfo, dtype: dtypes.dtype) -> Storage | None:
        if self.bytes is None or not info.file_size:
            return None
        self.file.seek(info.header_offset + _LENGTHS)
        start = info.header_offset + _LOCAL_HEADER + sum(struct.unpack("<HH", self.file.read(4)))
        if start + info.file_size > self.ends[info.filename]:
            raise ValueError(f"its part {info.filename!r} overlaps the next one")
        flat = over(self.bytes[start : start + info.file_size], dtype)
        return None if flat is None else Storage(flat)

    def _copied(self, info: zipfile.ZipInfo, dtype: dtypes.dtype, count: int) -> Storage:
        storage = Storage.empty(dtype, count)
        with self.archive.open(info) as source:
            if source.readinto(storage.buffer) != info.file_size:  # type: ignore[attr-defined]
                raise ValueError(f"storage {info.filename!r} ends early")
        return storage


class Memories:
    """The memories that an object is made of, by their keys in the file; each is made once.

    Parameters
    ----------
    placement : callable
    as_any_dtype : bool
        Whether the same memory may be asked for as elements of several dtypes.
    """

    def __init__(self, placement: Placement, as_any_dtype: bool = False) -> None:
        self.placement = placement
        self.as_any_dtype = as_any_dtype
        self.found: dict[str, tuple[dtypes.dtype, int, Storage]] = {}

    def get(
        self, key: str, dtype: dtypes.dtype, count: int, location: str, make: Callable[[], Storage]
    ) -> Storage:
        """The memory of a key.

        Raises
        ------
        pickle.UnpicklingError
            If it was of another size before, or of another dtype that it may not have, too.
        """
        if key not in self.found:
            self.found[key] = (dtype, count, self.placement(make(), location))
        of, held, storage = self.found[key]
        if (of, held) == (dtype, count):
            return storage
        if not self.as_any_dtype or held * of.itemsize != count * dtype.itemsize:
            raise pickle.UnpicklingError(f"two descriptions of storage {key!r} differ")
        return Storage(storage.flat.view(dtype))
