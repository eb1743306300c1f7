"""Stores of bytes by name that processes share, with PyTorch's interface.

MPI connects its processes by itself, so that process groups need none of them; programs use them to meet, count and
agree. What a store holds is bytes, which nothing here interprets but `add`, as a decimal number.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO
from weakref import finalize

from fastgrad.distributed.transport import DistError
from fastgrad.distributed.work import need_timeout
from fastgrad.functions.arguments import need_type

DEFAULT_TIMEOUT = timedelta(seconds=300)
PAUSE = 0.01
"""Seconds between two looks into a file that another process may write."""

HIDDEN = "\0"
"""What the names begin with that a store has for itself; they are neither counted nor listed."""


class DistStoreError(DistError):
    """A store did not get in time what was waited for, or is damaged."""


class DistNetworkError(DistError):
    """The process that keeps a store cannot be reached."""


DistStoreError.__module__ = DistNetworkError.__module__ = (
    "fastgrad.distributed"  # as which programs catch them
)

# --- what may be asked --------------------------------------------------------------------------------------------

Items = dict[str, bytes]
Operation = Callable[[Items, Sequence[str], Sequence[bytes]], list[bytes]]


def _set(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    items.update(zip(keys, values, strict=True))
    return []


def _get(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    return [items[key] for key in keys]


def _wait(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    return []


def _add(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    [key], before = keys, items.get(keys[0], b"0")
    try:
        items[key] = b"%d" % (int(before) + int(values[0]))
    except ValueError:
        raise ValueError(f"add(): key {key!r} holds {before[:40]!r}, which is no number") from None
    return [items[key]]


def _compare_set(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    [key], (expected, desired) = keys, values
    if items.get(key, b"") == expected and (key in items or not expected):
        items[key] = desired
    return [items.get(key, expected)]


def _append(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    items[keys[0]] = items.get(keys[0], b"") + values[0]
    return []


def _check(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    return [b"1"] if all(key in items for key in keys) else []


def _delete(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    return [] if items.pop(keys[0], None) is None else [b"1"]


def _list(items: Items, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes]:
    return [key.encode() for key in items if not key.startswith(HIDDEN)]


OPERATIONS: dict[str, Operation] = {
    "set": _set, "get": _get, "wait": _wait, "add": _add, "compare_set": _compare_set, "append": _append,
    "check": _check, "delete": _delete, "list": _list,
}  # fmt: skip
WAITING = ("get", "wait")
"""Those that first wait until all keys are there."""


class Shelf:
    """What a store holds, for the threads of one process."""

    def __init__(self) -> None:
        self.items: Items = {}
        self.changed = threading.Condition()

    def do(self, name: str, keys: Sequence[str], values: Sequence[bytes], seconds: float) -> list[bytes]:
        """Run one of `OPERATIONS`; TimeoutError if keys do not come in time."""
        with self.changed:
            if name in WAITING and not self.changed.wait_for(
                lambda: all(key in self.items for key in keys), seconds
            ):
                raise TimeoutError
            found = OPERATIONS[name](self.items, keys, values)
            self.changed.notify_all()
            return found


# --- the interface -------------------------------------------------------------------------------------------------


class Store:
    """The base class of stores: `HashStore`, `FileStore`, `TCPStore` and `PrefixStore`."""

    def __init__(self, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        self._limit = need_timeout(type(self).__name__, timeout, DEFAULT_TIMEOUT)

    def _do(self, name: str, keys: Sequence[str], values: Sequence[bytes], seconds: float) -> list[bytes]:
        raise NotImplementedError(
            f"{type(self).__name__} keeps nothing; use HashStore, FileStore or TCPStore"
        )

    def _ask(
        self, call: str, name: str, keys: Any, values: Sequence[Any] = (), timeout: timedelta | None = None
    ) -> list[bytes]:
        names = _need_keys(call, keys)
        data = [_need_bytes(call, value) for value in values]
        seconds = need_timeout(call, timeout, self._limit).total_seconds()
        try:
            return self._do(name, names, data, seconds)
        except TimeoutError:
            raise DistStoreError(
                f"{call}() of {self!r}: Wait timeout: after {seconds:g} s not all of the keys {names} are there; see "
                "whether the process that sets them has ended, or give more time with set_timeout()"
            ) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait, if not told otherwise."""
        return self._limit

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait.

        Parameters
        ----------
        timeout : timedelta
        """
        need_type("set_timeout", timeout, timedelta, "timeout")
        self._limit = need_timeout("set_timeout", timeout, DEFAULT_TIMEOUT)

    def set(self, key: str, value: str | bytes) -> None:
        """Keep bytes under a name, in place of those that are there.

        Parameters
        ----------
        key : str
        value : str or bytes
        """
        self._ask("set", "set", [key], [value])

    def get(self, key: str) -> bytes:
        """The bytes of a name; waits until there are some.

        Parameters
        ----------
        key : str

        Returns
        -------
        bytes

        Raises
        ------
        DistStoreError
            If there are none in time.
        """
        return self._ask("get", "get", [key])[0]

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins with 0.

        Parameters
        ----------
        key : str
        amount : int

        Returns
        -------
        int
            The sum.

        Raises
        ------
        ValueError
            If the name has bytes that are no number.
        """
        need_type("add", amount, int, "amount", 2)
        return int(self._ask("add", "add", [key], [b"%d" % amount])[0])

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Keep bytes under a name if it has the ones expected, or if it has none and none (``""``) are expected.

        Parameters
        ----------
        key : str
        expected_value, desired_value : str or bytes

        Returns
        -------
        bytes
            What the name has then; if it has nothing, those expected.
        """
        return self._ask("compare_set", "compare_set", [key], [expected_value, desired_value])[0]

    def append(self, key: str, value: str | bytes) -> None:
        """Put bytes behind those of a name.

        Parameters
        ----------
        key : str
        value : str or bytes
        """
        self._ask("append", "append", [key], [value])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all names have bytes.

        Parameters
        ----------
        keys : list of str
        timeout : timedelta, optional

        Raises
        ------
        DistStoreError
            If they do not in time.
        """
        self._ask("wait", "wait", keys, (), timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all names have bytes, without waiting.

        Parameters
        ----------
        keys : list of str

        Returns
        -------
        bool
        """
        return bool(self._ask("check", "check", keys))

    def delete_key(self, key: str) -> bool:
        """Forget a name.

        Parameters
        ----------
        key : str

        Returns
        -------
        bool
            Whether it was there.
        """
        return bool(self._ask("delete_key", "delete", [key]))

    def num_keys(self) -> int:
        """How many names there are."""
        return len(self.list_keys())

    def list_keys(self) -> list[str]:
        """The names."""
        return [name.decode() for name in self._ask("list_keys", "list", [])]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Keep bytes under several names at once.

        Parameters
        ----------
        keys : list of str
        values : list of str or bytes
            As many.
        """
        if len(keys) != len(values):
            raise ValueError(f"multi_set(): got {len(keys)} keys, but {len(values)} values")
        self._ask("multi_set", "set", keys, values)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The bytes of several names; waits until all have some.

        Parameters
        ----------
        keys : list of str

        Returns
        -------
        list of bytes
        """
        return self._ask("multi_get", "get", keys)

    def has_extended_api(self) -> bool:
        """Whether there are `append`, `multi_set` and `multi_get`; there are."""
        return True


def _need_keys(call: str, keys: Any) -> list[str]:
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Sequence):
        raise TypeError(f"{call}(): argument 'keys' must be a list of str, not {type(keys).__name__}")
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"{call}(): a key must be str, not {type(key).__name__}")
    return list(keys)


def _need_bytes(call: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"{call}(): a value must be str or bytes, not {type(value).__name__}")
    return bytes(value)


class HashStore(Store):
    """A store of this process, for its threads.

    Examples
    --------
    >>> store = HashStore()
    >>> store.set("where", "here")
    >>> store.get("where"), store.add("count", 2)
    (b'here', 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._shelf = Shelf()

    def _do(self, name: str, keys: Sequence[str], values: Sequence[bytes], seconds: float) -> list[bytes]:
        return self._shelf.do(name, keys, values, seconds)


class PrefixStore(Store):
    """A store of which all names begin with a prefix in another one.

    Parameters
    ----------
    prefix : str
        A name in it is ``prefix/name`` there.
    store : Store

    Examples
    --------
    >>> store = HashStore()
    >>> PrefixStore("a", store).set("b", "1")
    >>> store.get("a/b")
    b'1'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self.prefix = need_type("PrefixStore", prefix, str, "prefix")
        self.underlying_store = need_type("PrefixStore", store, Store, "store", 2)
        super().__init__(store.timeout)

    def __repr__(self) -> str:
        return f"PrefixStore({self.prefix!r}, {self.underlying_store!r})"

    def _do(self, name: str, keys: Sequence[str], values: Sequence[bytes], seconds: float) -> list[bytes]:
        before = f"{self.prefix}/"
        found = self.underlying_store._do(name, [before + key for key in keys], values, seconds)
        if name == "list":
            start = before.encode()
            return [key.removeprefix(start) for key in found if key.startswith(start)]
        return found


# --- frames, in files and on the way --------------------------------------------------------------------------------

LARGEST = 2**30
_LENGTH = struct.Struct("<Q")


def packed(parts: Sequence[bytes]) -> bytes:
    """Pieces of bytes as one, with their number and lengths."""
    lengths = (_LENGTH.pack(len(part)) + part for part in parts)
    return _LENGTH.pack(len(parts)) + b"".join(lengths)


def unpacked(read: Callable[[int], bytes]) -> list[bytes]:
    """Pieces that were packed, by a function that gives so many of their bytes; EOFError if there are fewer."""

    def number() -> int:
        found: int = _LENGTH.unpack(exactly(_LENGTH.size))[0]
        if found > LARGEST:
            raise EOFError(f"{found} bytes or pieces announced")
        return found

    def exactly(size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            piece = read(min(size - len(out), 2**20))
            if not piece:
                raise EOFError("the end came too early")
            out += piece
        return bytes(out)

    return [exactly(number()) for _ in range(number())]


class FileStore(Store):
    """A store in a file that processes of one machine, or with one file system, share.

    Parameters
    ----------
    file_name : str or path
        Made if it is not there. What an earlier program left there counts, so that every program needs its own.
    world_size : int
        How many stores there are; the last one that goes removes the file. By default it stays.

    Raises
    ------
    OSError
        If it cannot be opened.
    """

    def __init__(self, file_name: str | os.PathLike[str], world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        Path(self.path).touch()
        self._lock = threading.Lock()
        if world_size > 0:
            finalize(self, _leave_file, self.path, world_size)

    def __repr__(self) -> str:
        return f"FileStore({self.path!r})"

    def _do(self, name: str, keys: Sequence[str], values: Sequence[bytes], seconds: float) -> list[bytes]:
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                found = _do_in_file(self.path, name, keys, values)
            if found is not None:
                return found
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(PAUSE)


def _do_in_file(path: str, name: str, keys: Sequence[str], values: Sequence[bytes]) -> list[bytes] | None:
    """Run one of `OPERATIONS` on a file that no other process reads or writes meanwhile; None if keys lack yet."""
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # closing gives it back
        before = _items_of(path, file)
        items = dict(before)
        if name in WAITING and not all(key in items for key in keys):
            return None
        found = OPERATIONS[name](items, keys, values)
        if items != before:
            file.seek(0)
            file.write(packed([piece for key, value in items.items() for piece in (key.encode(), value)]))
            file.truncate()
        return found


def _items_of(path: str, file: BinaryIO) -> Items:
    if not os.fstat(file.fileno()).st_size:
        return {}
    try:
        pieces = unpacked(file.read)
        return {key.decode(): value for key, value in zip(pieces[::2], pieces[1::2], strict=True)}
    except (EOFError, ValueError) as error:
        raise DistStoreError(f"FileStore({path!r}): the file is damaged, or no store: {error}") from error


def _leave_file(path: str, world_size: int) -> None:
    """One of the stores of a file goes; the last one takes it along."""
    with contextlib.suppress(OSError, DistStoreError):
        left = _do_in_file(path, "add", [f"{HIDDEN}left"], [b"1"])
        if left is not None and int(left[0]) == world_size:
            os.unlink(path)
