"""Writing a file so that there is always a whole one: the old until the new is on the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The path of a temporary file in the same folder; it replaces `path` when the block has ended well.

    The file keeps the permissions of the one that it replaces; links are followed. If the block raises, or the
    process dies, what was at `path` is still there. What is no ordinary file, such as a pipe, is written directly.

    Raises
    ------
    IsADirectoryError
        If `path` is a folder.
    RuntimeError
        If the folder does not exist.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not target.parent.is_dir():
        raise RuntimeError(f"Parent directory {target.parent} does not exist.")
    if target.exists() and not target.is_file():
        yield target
        return
    temporary = target.with_name(f".fastgrad-{os.urandom(8).hex()}.tmp")
    try:
        yield temporary
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        _sync(temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # not every file system can sync a folder
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_path(f: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a file is given by its path."""
    return isinstance(f, (str, os.PathLike))


def need_readable(name: str, f: Any) -> None:
    """AttributeError unless a file object can be read at any place; `name` is the function that got it."""
    for method in ("seek", "tell", "read"):
        if not hasattr(f, method):
            raise AttributeError(
                f"{name}(): {type(f).__name__!r} object has no attribute '{method}'; expected a path, or a file object "
                "that is seekable and open for reading of bytes; read other data into an io.BytesIO first"
            )
