"""NCCL without GPUs: its functions as the library declares them, in the queues of `FakeDriver`, over MPI between ranks.

Calls are made when something waits for their stream, as on a GPU; so are mistakes found as late as there.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fastgrad.distributed.nccl import ID_BYTES, SIGNATURES, TEXTS, UniqueId
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16
from tests.cuda.fake_driver import FakeDriver
from tests.cuda_halves import kind_of, read, rounded

OK, INVALID, REMOTE = 0, 4, 6
_KINDS = {0: "i1", 1: "u1", 2: "i4", 4: "i8", 7: "f4", 8: "f8"}
_HALVES = {6: FLOAT16, 9: BFLOAT16}
_COMBINED: dict[int, Callable[..., Any]] = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum}
PATIENCE = 60  # seconds in which ranks that were given one identity have to meet
_TEXT = b"the stand-in's reason"


def _communicator(identity: bytes, size: int, rank: int) -> Any:
    """A communicator of those that know an identity: who they are stands in files, as addresses do behind NCCL's.

    None if they are not so many, or are other ranks of theirs.
    """
    from mpi4py import MPI

    meeting = Path(tempfile.gettempdir()) / f"fake_nccl_{identity.hex()[:32]}"
    meeting.mkdir(exist_ok=True)
    (meeting / f".{rank}").write_text(str(MPI.COMM_WORLD.Get_rank()))
    (meeting / f".{rank}").rename(meeting / str(rank))
    end = time.monotonic() + PATIENCE
    while not all((meeting / str(k)).exists() for k in range(size)):
        if time.monotonic() > end:
            return None
        time.sleep(0.001)
    ranks = [int((meeting / str(k)).read_text()) for k in range(size)]
    comm = MPI.COMM_WORLD.Create_group(MPI.COMM_WORLD.Get_group().Incl(ranks))
    comm.Barrier()
    if rank == 0:
        shutil.rmtree(meeting)
    return comm if (comm.Get_size(), comm.Get_rank()) == (size, rank) else None


class FakeNccl:
    """The functions of `SIGNATURES` and `TEXTS` for one rank."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.calls: Counter[str] = Counter()
        self.says: dict[str, int] = {}
        """What functions answer, in place of what they do."""
        self.communicators: dict[int, Any] = {}
        self._handles = itertools.count(500)
        self._group: list[tuple[int, Callable[[], Any]]] | None = None
        tables = ((SIGNATURES, ctypes.c_int), (TEXTS, ctypes.c_void_p))
        self._functions = {
            name: ctypes.CFUNCTYPE(result, *given)(self._function(name))
            for table, result in tables
            for name, given in table.items()
        }
        self._text = ctypes.create_string_buffer(_TEXT)

    def address(self, name: str) -> int:
        """As `libraries.load` gives it."""
        return ctypes.cast(self._functions[name], ctypes.c_void_p).value or 0

    def _function(self, name: str) -> Callable[..., int]:
        def function(*args: Any) -> int:
            self.calls[name] += 1
            if name in TEXTS:
                return ctypes.addressof(self._text) if name == "ncclGetErrorString" else 0
            if name in self.says:
                return self.says[name]
            return getattr(self, f"_{name}")(*(a or 0 for a in args)) or OK

        return function

    # --- communicators -------------------------------------------------------------------------------------------

    def _ncclGetUniqueId(self, out: int) -> None:
        ctypes.memmove(out, b"\1" + os.urandom(ID_BYTES - 1), ID_BYTES)

    def _ncclCommInitRank(self, out: int, size: int, identity: UniqueId, rank: int) -> int:
        known = bytes(identity)
        if known[0] != 1 or not 0 <= rank < size:
            return INVALID
        found = _communicator(known, size, rank)
        if found is None:
            return INVALID
        handle = next(self._handles)
        self.communicators[handle] = found
        ctypes.c_int64.from_address(out).value = handle
        return OK

    def _ncclCommDestroy(self, handle: int) -> int:
        if handle not in self.communicators:
            return INVALID
        self.communicators.pop(handle).Free()
        return OK

    def _ncclCommAbort(self, handle: int) -> int:
        return OK if self.communicators.pop(handle, None) is not None else INVALID

    # --- streams -------------------------------------------------------------------------------------------------

    def _ncclGroupStart(self) -> int:
        if self._group is not None:
            return INVALID
        self._group = []
        return OK

    def _ncclGroupEnd(self) -> int:
        if self._group is None:
            return INVALID
        group, self._group = self._group, None
        for stream in dict.fromkeys(s for s, _ in group):
            calls = [do for s, do in group if s == stream]

            def together(calls: list[Callable[[], Any]] = calls) -> None:
                with self.driver.enclave:
                    later = [more for do in calls if (more := do()) is not None]
                    for _, finish in sorted(later, key=lambda one: one[0]):
                        finish()  # receives before sends, which wait for them

            self.driver.put(stream, together)
        return OK

    def _put(self, handle: int, kind: int, stream: int, do: Callable[[Any], Any]) -> int:
        if handle not in self.communicators or kind not in {*_KINDS, *_HALVES}:
            return INVALID
        if self._group is None:
            return INVALID  # the calls of fastgrad stand in groups
        comm = self.communicators[handle]
        self._group.append((stream, lambda: do(comm)))
        return OK

    # --- calls ---------------------------------------------------------------------------------------------------

    def _ncclAllReduce(
        self, given: int, out: int, n: int, kind: int, op: int, handle: int, stream: int
    ) -> int:
        return self._put(
            handle, kind, stream, lambda comm: _write(out, kind, _combined(comm, given, n, kind, op))
        )

    def _ncclReduce(
        self, given: int, out: int, n: int, kind: int, op: int, root: int, handle: int, stream: int
    ) -> int:
        def do(comm: Any) -> None:
            found = _combined(comm, given, n, kind, op)
            if comm.Get_rank() == root:
                _write(out, kind, found)

        return self._put(handle, kind, stream, do)

    def _ncclReduceScatter(
        self, given: int, out: int, n: int, kind: int, op: int, handle: int, stream: int
    ) -> int:
        def do(comm: Any) -> None:
            found = _combined(comm, given, n * comm.Get_size(), kind, op)
            _write(out, kind, found[comm.Get_rank() * n :][:n])

        return self._put(handle, kind, stream, do)

    def _ncclBroadcast(
        self, given: int, out: int, n: int, kind: int, root: int, handle: int, stream: int
    ) -> int:
        def do(comm: Any) -> None:
            _write(out, kind, comm.bcast(_read(given, n, kind), root=root))

        return self._put(handle, kind, stream, do)

    def _ncclAllGather(self, given: int, out: int, n: int, kind: int, handle: int, stream: int) -> int:
        def do(comm: Any) -> None:
            _write(out, kind, np.concatenate(comm.allgather(_read(given, n, kind))))

        return self._put(handle, kind, stream, do)

    def _ncclSend(self, given: int, n: int, kind: int, peer: int, handle: int, stream: int) -> int:
        return self._put(handle, kind, stream, lambda comm: (1, comm.isend(_read(given, n, kind), peer).wait))

    def _ncclRecv(self, out: int, n: int, kind: int, peer: int, handle: int, stream: int) -> int:
        def receive(comm: Any) -> None:
            _write(out, kind, comm.recv(source=peer))

        return self._put(handle, kind, stream, lambda comm: (0, lambda: receive(comm)))


def _memory(address: int, n: int, kind: int) -> Any:
    dtype = np.dtype(_KINDS[kind]) if kind in _KINDS else np.dtype(kind_of(_HALVES[kind]))
    if not n:
        return np.empty(0, dtype)
    return np.frombuffer((ctypes.c_char * (n * dtype.itemsize)).from_address(address), dtype)


def _read(address: int, n: int, kind: int) -> Any:
    """Numbers, copied."""
    found = _memory(address, n, kind).copy()
    return read(found, _HALVES[kind]) if kind in _HALVES else found


def _write(address: int, kind: int, values: Any) -> None:
    _memory(address, len(values), kind)[...] = rounded(values, _HALVES[kind]) if kind in _HALVES else values


def _combined(comm: Any, address: int, n: int, kind: int, op: int) -> Any:
    parts = comm.allgather(_read(address, n, kind))
    found = parts[0]
    for part in parts[1:]:
        found = _COMBINED[op](found, part)
    return found
