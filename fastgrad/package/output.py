"""The archive that a package is written into."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import zipfile
from typing import IO, Any

from fastgrad.package.mangling import is_mangled
from fastgrad.package.records import need_inside
from fastgrad.serialization.files import is_path, replacing

_ROOT = "archive/"
_FORMAT = "6\n"  # of PyTorch's archives; it reads those without as of another kind


class Output:
    """A zip archive being written. A path has the new file when all of it is written, and not before.

    Parameters
    ----------
    f : str, PathLike or file object

    Attributes
    ----------
    is_open : bool
    lock : RLock
        Held while a part is written: threads may save into one package.
    """

    def __init__(self, f: str | os.PathLike[str] | IO[bytes]) -> None:
        self._stack = contextlib.ExitStack()
        target: Any = self._stack.enter_context(replacing(f)) if is_path(f) else f
        self._zip = self._stack.enter_context(zipfile.ZipFile(target, "w", zipfile.ZIP_STORED))
        self._names: set[str] = set()
        self.is_open = True
        self.lock = threading.RLock()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def write(self, name: str, content: Any) -> None:
        """Add a file, of text or bytes. If that fails midway, the archive is abandoned, as a part of it is broken.

        Raises
        ------
        RuntimeError
            If the archive is closed.
        AssertionError
            If there is one of that name, or the name is of a module from a package.
        ValueError
            If the name leads out of the archive.
        """
        need_inside(name)
        if is_mangled(name):
            raise AssertionError(
                f"Tried to save a module of a package as '{name}', which is not allowed; save it under its name within "
                "the package"
            )
        with self.lock:
            if not self.is_open:
                raise RuntimeError(f"the package was closed while {name!r} was saved into it")
            if name in self._names:
                raise AssertionError(
                    f"Tried to write file '{name}', but it already exists in this archive; save it under another name, "
                    "or once"
                )
            try:
                # An entry has the time of its ZipInfo, which is fixed: the same package gives the same bytes.
                self._zip.writestr(zipfile.ZipInfo(_ROOT + name), content)
            except BaseException as error:
                self.abandon(error)
                raise
            self._names.add(name)

    def finish(self) -> None:
        """Write the end of the archive."""
        with self.lock:
            self.write(".data/version", _FORMAT)
            self.write("byteorder", sys.byteorder)
            self.is_open = False
            self._stack.close()

    def abandon(self, error: BaseException) -> None:
        """Leave no file at the path; a file object gets an archive with what was written, which is no package."""
        with self.lock:
            self.is_open = False
            self._stack.__exit__(type(error), error, error.__traceback__)
