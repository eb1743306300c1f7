"""Files that hold compiled code: whole, made for the key they are asked for, and written by nobody else.

Loading such a file runs it, so nothing is taken on trust. A file begins with a header: a magic word, the lengths of its
key and of its code, and a digest of these lengths, the key and the code. It is written under another name, brought to
the disk and renamed; the file under that other name, a draft, is also the lock of whoever compiles.

Note [Drafts]: the lock is the kernel's (``flock``): it ends with the process, however that ends, and what is left is
an ordinary file that the next one takes over. Renaming moves the locked file itself, so a process that waited for it
looks whether it still has the draft's name, and if not, starts again. Where the lock cannot be had, because something
else lies there, the file system knows no locks, or its holder has been at it for too long, a process works on a draft
of its own: no lock is needed for the files to be right, only for nothing to be compiled twice.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import struct
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType

from fastgrad.native.build.digests import blake2b

FORMAT = 1
"""Counts changes of the header; part of the folder's name."""

PATIENCE = 300.0  # seconds after which one does what another process seems not to get done
PAUSE = 0.05

_HEADER = struct.Struct("<8sQQ32s")
_LENGTHS = struct.Struct("<QQ")
_MAGIC = b"fastgrad"


class UnusableError(Exception):
    """What keeps a file or folder from being used, as a part of a sentence: "it is empty"."""


def need_private(status: os.stat_result) -> None:
    """Refuse what somebody else may have written: only the user and root may own it and write to it."""
    if status.st_uid not in (os.geteuid(), 0):
        raise UnusableError(f"it belongs to another user ({status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnusableError(f"others may write to it (its mode is {stat.S_IMODE(status.st_mode):o})")


# --- contents --------------------------------------------------------------------------------------------------


def _digest(lengths: bytes, key: bytes, code: bytes) -> bytes:
    digest = blake2b(lengths, digest_size=32)
    digest.update(key)
    digest.update(code)
    return digest.digest()


def seal(key: str, code: bytes) -> bytes:
    """What a file with `code` holds."""
    name = key.encode()
    digest = _digest(_LENGTHS.pack(len(name), len(code)), name, code)
    return _HEADER.pack(_MAGIC, len(name), len(code), digest) + name + code


def unseal(key: str, data: bytes) -> bytes:
    """The code in what a file holds.

    Raises
    ------
    UnusableError
        If it is not what `seal` made for this key.
    """
    if not data:
        raise UnusableError("it is empty")
    if len(data) < _HEADER.size:
        raise UnusableError("it is cut off")
    magic, of_key, of_code, digest = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise UnusableError("it is no file of compiled code")
    start = _HEADER.size + of_key
    if len(data) != start + of_code:
        raise UnusableError(f"it has {len(data)} bytes and not {start + of_code}")
    found, code = data[_HEADER.size : start], data[start:]
    if _digest(_LENGTHS.pack(of_key, of_code), found, code) != digest:
        raise UnusableError("its contents have changed")
    if found != key.encode():
        raise UnusableError("it was made for something else")
    return code


def read(path: Path, key: str) -> bytes | None:
    """The code in a file; None if there is no file.

    Raises
    ------
    UnusableError
        If there is one whose contents cannot be trusted.
    """
    try:
        # A link would lead out of the folder that was looked at; a pipe would block.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _PLAIN)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnusableError("it is no ordinary file")
            need_private(status)
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        link = error.errno == errno.ELOOP
        raise UnusableError("it is a link" if link else f"it cannot be read ({error.strerror})") from None
    return unseal(key, data)


_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


# --- writing ---------------------------------------------------------------------------------------------------


class Draft:
    """A file in the making; as a context it leaves nothing behind but the finished file. See Note [Drafts].

    Parameters
    ----------
    target : Path
        The finished file.

    Attributes
    ----------
    mine : bool
        Whether it is this process's turn, `take` having seen to it.
    trouble : str
        Why nothing can be kept, or empty.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.draft")
        self.mine = False
        self.trouble = ""
        self._file: io.FileIO | None = None  # no number: what Ctrl-C keeps from being closed closes itself
        self._thread = threading.get_ident()
        self._begun = time.monotonic()

    @property
    def waited(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def take(self) -> None:
        """Try to get the turn; if it is another process's, wait for a moment."""
        try:
            file = self._file or self._open(self.path, os.O_CREAT)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if self.waited > PATIENCE or self._is_within_itself():
                self._work_alone()
            else:
                time.sleep(PAUSE)
        except OSError:
            self._work_alone()
        else:
            if self._has_its_name(file):
                self.mine = True
            else:
                self._close()

    def keep(self, data: bytes) -> None:
        """Make a file with `data` of it; `trouble` says why not, if not."""
        if self._file is None and not self.trouble:  # a fork has separated it from the lock
            self._work_alone()
        if self.trouble or self._file is None:
            return
        try:
            with open(self._file.fileno(), "wb", closefd=False) as file:
                file.truncate()
                file.write(data)
                file.flush()
                os.fsync(file)
            os.replace(self.path, self.target)
        except OSError as error:
            self.trouble = str(error)
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._close()

    def _work_alone(self) -> None:
        self._close()
        self.mine = True
        self.path = self.target.with_name(f"{self.target.name}.{os.urandom(8).hex()}.draft")
        try:
            self._open(self.path, os.O_CREAT | os.O_EXCL)
        except OSError as error:
            self.trouble = str(error)

    def _open(self, path: Path, flags: int) -> io.FileIO:
        self._file = io.FileIO(
            path, "r+", opener=lambda name, _: os.open(name, os.O_RDWR | _PLAIN | flags, 0o644)
        )
        _open_drafts[id(self)] = self
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "not a file of this user", os.fspath(path))
        return self._file

    def _is_within_itself(self) -> bool:
        """Whether this very thread has the turn already: a signal or a finalizer came while it was compiling."""
        mine = [draft for draft in _drafts() if draft.mine and draft._thread == self._thread]
        return any(draft.target == self.target for draft in mine)

    def _has_its_name(self, file: io.FileIO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _close(self) -> None:
        if self._file is not None:
            _open_drafts.pop(id(self), None)
            # Not by closing alone: a child forked in between has the lock as well.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
            self._file = None

    def __enter__(self) -> Draft:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.mine and self._file is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._close()


_open_drafts: weakref.WeakValueDictionary[int, Draft] = weakref.WeakValueDictionary()


def _drafts() -> list[Draft]:
    """All that are open, at one moment: other threads open and close theirs."""
    return [draft for held in _open_drafts.valuerefs() if (draft := held()) is not None]


def _leave_to_the_parent() -> None:
    """A child has no part in its parent's locks: closed here, they end when the parent does."""
    for draft in _drafts():
        if draft._file is not None:
            draft._file.close()
            draft._file = None
    _open_drafts.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)
