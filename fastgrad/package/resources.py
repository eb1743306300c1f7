"""Files within packages for `importlib.resources`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib.resources.abc import Traversable, TraversableResources
from typing import IO, Any

from fastgrad.package.records import Records


class PackageResources(TraversableResources):
    """The resources of a module.

    Parameters
    ----------
    records : ZipRecords or DirectoryRecords
    path : str
        The directory of the module.
    """

    def __init__(self, records: Records, path: str) -> None:
        self._files = PackagePath(records, path)

    def files(self) -> PackagePath:
        """The directory of the module."""
        return self._files


class PackagePath(Traversable):
    """A file or a directory of a package.

    Parameters
    ----------
    records : ZipRecords or DirectoryRecords
    path : str
    """

    def __init__(self, records: Records, path: str) -> None:
        self._records = records
        self._path = path

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._path.rpartition("/")[2]

    def iterdir(self) -> Iterator[PackagePath]:
        """What is in a directory."""
        start = self._path + "/"
        inside = (
            name[len(start) :].partition("/")[0] for name in self._records.names() if name.startswith(start)
        )
        return (PackagePath(self._records, start + name) for name in dict.fromkeys(inside))

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return any(True for _ in self.iterdir())

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self._path in self._records.names()

    def joinpath(self, *descendants: Any) -> PackagePath:
        """What is within a directory under a name."""
        return PackagePath(self._records, "/".join((self._path, *map(str, descendants))))

    __truediv__ = joinpath

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:
        """The file, open for reading of text or of bytes."""
        if mode not in ("r", "rb"):
            raise ValueError(f"a file of a package is opened as 'r' or 'rb', not {mode!r}")
        data = io.BytesIO(self.read_bytes())
        return data if mode == "rb" else io.TextIOWrapper(data, *args, **kwargs)

    def read_bytes(self) -> bytes:
        """The content; FileNotFoundError if there is no such file."""
        return self._records.read(self._path)

    def read_text(self, encoding: str | None = None) -> str:
        """The content as text."""
        return self.read_bytes().decode(encoding or "utf-8")
