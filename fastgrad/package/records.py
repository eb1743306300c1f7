"""Where the files of a package are read from: a zip archive, or a directory that one was unpacked into."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import IO, Any

from fastgrad import dtypes
from fastgrad.functions.storage import Storage, from_bytes
from fastgrad.serialization.files import is_path, need_readable
from fastgrad.serialization.parts import PACKAGE_MARK, Parts, damage_reported

EXTERN = PACKAGE_MARK.removeprefix("/")
STORAGE = ".storage"


def need_inside(name: str) -> None:
    """ValueError unless a name, with its parts between slashes, stays within the directory that it is put into."""
    parts = name.split("/")
    if not all(parts) or {".", ".."} & set(parts) or any(mark in name for mark in "\\\0:"):
        raise ValueError(
            f"the name {name!r} leads out of a package, or is empty in a part: names of files and modules must be "
            "relative, with no part that is empty, '.' or '..', and without backslashes and colons"
        )


class MissingFileError(FileNotFoundError, RuntimeError):
    """A package has no such file. PyTorch raises a RuntimeError, `importlib.resources` expects the other one."""


class ZipRecords:
    """The files of a zip archive; checked as a whole, but for the bytes of tensors, when it is opened.

    Parameters
    ----------
    f : str, PathLike or file object
        A file object must be open for reading of bytes, and seekable.

    Raises
    ------
    RuntimeError
        If it is no package or damaged, or a name leads out of it.
    """

    def __init__(self, f: Any) -> None:
        if is_path(f):
            file: IO[bytes] = open(f, "rb")  # noqa: SIM115 - open as long as its parts are
            weakref.finalize(self, file.close)
        else:
            file = f
        file.seek(0)
        self._parts = Parts(file)
        files = [name for name in self._parts.entries if not name.endswith("/")]
        with damage_reported():
            for name in files:
                need_inside(name)
        self._full = {name.partition("/")[2]: name for name in files}
        if len({name.partition("/")[0] for name in files}) != 1 or EXTERN not in self._full:
            raise RuntimeError(f"the file is no package: a package has one directory, and in it {EXTERN}")
        for name in self._full:
            if not name.endswith(STORAGE):
                self.read(name)

    def names(self) -> list[str]:
        """Of all files."""
        return list(self._full)

    def read(self, name: str) -> bytes:
        """The content of a file; MissingFileError if there is none of that name."""
        if name not in self._full:
            raise MissingFileError(f"the package has no file {name!r}")
        return self._parts.read(self._full[name])

    def storage(self, name: str, dtype: dtypes.dtype, count: int) -> Storage:
        """New memory with the content of a file."""
        return self._parts.storage(self._full.get(name, name), dtype, count)


class DirectoryRecords:
    """The files of a directory; see `ZipRecords`. What links lead to is not read."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        files = sorted(p for p in self.directory.rglob("*") if p.is_file() and not p.is_symlink())
        self._paths = {path.relative_to(self.directory).as_posix(): path for path in files}
        if EXTERN not in self._paths:
            raise RuntimeError(f"the directory {self.directory} is no package: it has no {EXTERN}")

    def names(self) -> list[str]:
        """Of all files."""
        return list(self._paths)

    def read(self, name: str) -> bytes:
        """The content of a file; MissingFileError if there is none of that name."""
        if name not in self._paths:
            raise MissingFileError(f"the package has no file {name!r}")
        return self._paths[name].read_bytes()

    def storage(self, name: str, dtype: dtypes.dtype, count: int) -> Storage:
        """New memory with the content of a file."""
        data = self.read(name)
        if len(data) != count * dtype.itemsize:
            raise RuntimeError(
                f"the package is corrupted: {name!r} has {len(data)} bytes instead of {count} elements of "
                f"{dtype.itemsize}"
            )
        return from_bytes(dtype, data)


Records = ZipRecords | DirectoryRecords


def records_of(f: Any) -> tuple[Records, str]:
    """The files of a package, and what messages call it.

    Raises
    ------
    AttributeError
        If `f` is neither a path nor a seekable file object.
    """
    if is_path(f):
        name = os.fspath(f)
        return (DirectoryRecords(name) if os.path.isdir(name) else ZipRecords(name)), str(name)
    need_readable("PackageImporter", f)
    return ZipRecords(f), "<binary>"
