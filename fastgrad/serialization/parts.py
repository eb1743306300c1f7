"""The parts of an archive: entries of a zip file, uncompressed. None is trusted to have the size that it says."""

from __future__ import annotations

import contextlib
import struct
import zipfile
from collections.abc import Iterator

from fastgrad import dtypes
from fastgrad.functions.storage import Storage

PACKAGE_MARK = "/.data/extern_modules"
"""What the name of one part of each package ends in, and of nothing else."""


@contextlib.contextmanager
def damage_reported() -> Iterator[None]:
    """Turn what `zipfile` raises for a damaged archive into one exception."""
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
            f"the file is corrupted: {e}. It may not have been written or transferred to its end, or was changed since."
        ) from e


class Parts:
    """The parts of an archive that is open.

    Parameters
    ----------
    archive : zipfile.ZipFile
    size : int
        Bytes of the whole file.

    Raises
    ------
    RuntimeError
        If the parts cannot be what they say they are.
    """

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        self._entries = {info.filename: info for info in archive.infolist()}
        with damage_reported():
            if len(self._entries) < len(archive.infolist()):
                raise ValueError("two of its parts have one name")
            if sum(info.file_size for info in archive.infolist()) > size:
                raise ValueError("its parts are larger than the whole")

    def names(self) -> list[str]:
        """Of all parts, in the order of the file."""
        return list(self._entries)

    def read(self, name: str) -> bytes:
        """The bytes of a part; RuntimeError if it is missing or damaged."""
        with damage_reported():
            return self._archive.read(self._entry(name))

    def storage(self, name: str, dtype: dtypes.dtype, count: int) -> Storage:
        """New memory with the bytes of a part; RuntimeError unless it has so many elements."""
        with damage_reported():
            info = self._entry(name)
            if info.file_size != count * dtype.itemsize:
                raise ValueError(
                    f"storage {name!r} has {info.file_size} bytes instead of {count} elements of {dtype.itemsize}"
                )
            storage = Storage.empty(dtype, count)
            with self._archive.open(info) as source:
                if source.readinto(storage.buffer) != info.file_size:  # type: ignore[attr-defined]
                    raise ValueError(f"storage {name!r} ends early")
        return storage

    def _entry(self, name: str) -> zipfile.ZipInfo:
        if name not in self._entries:
            raise ValueError(f"it has no part {name!r}")
        info = self._entries[name]
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"its part {name!r} is compressed")
        return info
