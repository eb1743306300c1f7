"""Memory that the ranks of one machine share, by windows of MPI's: see Note [Boards] in `native.messages.boards`."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import finalize

import numpy as np

from fastgrad import dtypes, flags
from fastgrad.distributed.transport import ReduceOp, mpi
from fastgrad.native.contracts.messages import (
    ADDS,
    ADDS_IN_PLACE,
    AREA_BYTES,
    BOARD,
    BYTES,
    COPIES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    LINE,
    PAYLOAD,
)

KINDS = {dtypes.float32: FLOAT32, dtypes.float64: FLOAT64, dtypes.int32: INT32, dtypes.int64: INT64}
"""What is added."""

POPULATE = 23
"""`MADV_POPULATE_WRITE` of Linux: have all pages now, or say that there is no room, instead of a signal later."""

FILES = "/dev/shm"
"""Where Linux keeps memory that processes share."""


def starts_of(sizes: Sequence[int]) -> list[int]:
    """Where memory of so many bytes each begins, one behind the other at multiples of a line; and the end of all."""
    return list(itertools.accumulate((-(-size // LINE) * LINE for size in sizes), initial=0))


# --- windows -----------------------------------------------------------------------------------------------------


class Window:
    """Memory of each rank that all of them can read and write; all make it at once, by `window`.

    Parameters
    ----------
    comm : communicator
        Of ranks on one machine.
    size : int
        Bytes of each rank's part.
    number : int
        By which the ranks of a group know it.
    """

    def __init__(self, comm: Any, size: int, number: int = 0) -> None:
        self._window = mpi().Win.Allocate_shared(size, 1, comm=comm)
        self.size, self.number = size, number
        places = [self._window.Shared_query(rank)[0].address for rank in range(comm.Get_size())]
        self.places = np.array(places, np.int64)
        self.own = int(self.places[comm.Get_rank()])
        self._used = 0

    def populate(self) -> bool:
        """Have the memory of this rank's part, full of zeros; whether there is enough."""
        if sys.platform == "linux":
            start = self.own // os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PAGESIZE")
            libc = ctypes.CDLL(None, use_errno=True)
            length = ctypes.c_size_t(self.own + self.size - start)
            failed = libc.madvise(ctypes.c_void_p(start), length, POPULATE)
            if failed and ctypes.get_errno() != 22:  # EINVAL: kernels before 5.14 do not know it
                return False
        ctypes.memset(self.own, 0, self.size)
        return True

    def memory(self, start: int, size: int, dtype: Any) -> np.ndarray:
        """Some bytes of this rank's part as an array; the window is there for as long as that is."""
        part = (ctypes.c_char * size).from_address(self.own + start)
        self._used += 1
        finalize(part, self._leave).atexit = False
        return np.frombuffer(memoryview(part), dtype)

    def _leave(self) -> None:
        self._used -= 1

    def is_used(self) -> bool:
        """Whether there are arrays of it on this rank."""
        return self._used > 0

    def offset(self, data: np.ndarray) -> int | None:
        """Where an array lies in this rank's part; None if it lies elsewhere."""
        start = data.ctypes.data - self.own
        return start if start >= 0 and start + data.nbytes <= self.size else None

    def free(self) -> None:
        """Give it back; all ranks at once."""
        self._window.Free()


def window(comm: Any, size: int, number: int = 0) -> Window | None:
    """Memory for each rank of a communicator, or None on all if there is not enough; all call it at once.

    Parameters
    ----------
    comm, size, number
        As for `Window`.

    Returns
    -------
    Window or None
    """
    if not all_say(comm, _has_room(size * comm.Get_size())):
        return None
    try:
        made = Window(comm, size, number)
    except mpi().Exception:  # of an MPI without such windows
        made = None
    if all_say(comm, made is not None and made.populate()):
        return made
    if made is not None:
        made.free()
    return None


class Retired:
    """Windows of groups that this rank has destroyed: others may not have, and MPI frees a window on all at once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], tuple[tuple[int, ...], Window]] = {}

    def add(self, epoch: int, group: Any) -> None:
        """Keep the windows of a group that is destroyed.

        Parameters
        ----------
        epoch : int
            Which default group there is.
        group : ProcessGroup
        """
        windows = group.windows if group.board is None else [group.board.areas, *group.windows]
        self._kept.update({(epoch, group.id, w.number): (group.ranks, w) for w in windows})

    def free(self, world: Any) -> None:
        """Give back what no rank uses any more; all ranks of all call it at once.

        Parameters
        ----------
        world : communicator
        """
        told = world.allgather({key for key, (_, w) in self._kept.items() if not w.is_used()})
        for key, (ranks, window) in sorted(self._kept.items()):
            if all(key in told[rank] for rank in ranks):
                del self._kept[key]
                window.free()


def _has_room(size: int) -> bool:
    try:
        found = os.statvfs(FILES)
    except OSError:  # it is kept elsewhere
        return True
    return found.f_bavail * found.f_frsize >= size


def all_say(comm: Any, here: bool) -> bool:
    """Whether all ranks of a communicator say so."""
    return bool(comm.allreduce(int(here), op=mpi().MIN))


# --- boards ------------------------------------------------------------------------------------------------------


class Board:
    """Where the ranks of a group, all on one machine, tell each other of their calls; made by `board`.

    Parameters
    ----------
    comm : communicator
        Of the group.
    areas : Window
    """

    def __init__(self, comm: Any, areas: Window) -> None:
        self.areas = areas
        self._words = np.zeros(BOARD.words, np.int64)
        values = {"members": comm.Get_size(), "own": comm.Get_rank(), "areas": areas.places.ctypes.data}
        for field, value in values.items():
            self._words[BOARD.fields[field][0]] = value
        self.address = self._words.ctypes.data
        self.has_idle_cores = _has_idle_cores(comm)


def board(comm: Any) -> Board | None:
    """A board for the ranks of a communicator; None on all if they share no memory, or do not want to.

    Parameters
    ----------
    comm : communicator

    Returns
    -------
    Board or None
    """
    if comm.Get_size() == 1 or not all_say(comm, flags.SHARED_MEMORY):
        return None
    here = comm.Split_type(mpi().COMM_TYPE_SHARED)
    together = here.Get_size() == comm.Get_size()
    here.Free()
    areas = window(comm, AREA_BYTES) if together else None
    return None if areas is None else Board(comm, areas)


def _has_idle_cores(comm: Any) -> bool:
    """Whether the ranks of a machine may use more cores than their threads take."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    told = comm.allgather((cores, flags.NUM_THREADS or len(cores)))
    return len(set[int]().union(*(one for one, _ in told))) > sum(threads for _, threads in told)


# --- data --------------------------------------------------------------------------------------------------------


@cache
def bits_of(number: float) -> int:
    """The bits of a float64 as a word."""
    return int(np.float64(number).view(np.int64))


class Sharing:
    """How the data of a call moves in shared memory.

    Parameters
    ----------
    sharing : int
        `COPIES`, `ADDS` or `ADDS_IN_PLACE`.
    data : array
        What this rank has.
    kind : int
        Of its elements; bytes are of none.
    root : int
        Whose elements are copied.
    place : int
        By which all ranks know the memory that is added up.
    places : array, optional
        Its addresses on all ranks.

    Attributes
    ----------
    divisor : int
        By what floating-point elements are divided before they are added, as `bits_of` gives it; 0 if they are not.
    """

    def __init__(
        self,
        sharing: int,
        data: np.ndarray,
        kind: int,
        root: int = 0,
        place: int = 0,
        places: np.ndarray | None = None,
    ) -> None:
        self.sharing, self.data, self.kind, self.root = sharing, data, kind, root
        self.place, self.places = place, places
        self.divisor = 0

    def words(self) -> dict[str, int]:
        """The words of a flight."""
        return {
            "sharing": self.sharing,
            "data": self.data.ctypes.data,
            "count": self.data.size,
            "kind": self.kind,
            "root": self.root,
            "place": self.place,
            "places": 0 if self.places is None else self.places.ctypes.data,
            "divisor": self.divisor,
        }


class Note:
    """What a rank tells the others of a call, by a board.

    Parameters
    ----------
    board : Board
    number, fingerprint : int
        Of the call.
    sharing : Sharing, optional
        How its data moves, if MPI does not move it.
    """

    def __init__(self, board: Board, number: int, fingerprint: int, sharing: Sharing | None) -> None:
        self.board, self.sharing = board, sharing
        self._told = {"board": board.address, "number": number, "fingerprint": fingerprint}

    def words(self) -> dict[str, int]:
        """The words of a flight."""
        return self._told if self.sharing is None else self._told | self.sharing.words()


def copying(group: Any, data: np.ndarray, root: int) -> Sharing | None:
    """How a broadcast moves, if that is in shared memory."""
    if group.board is None or data.nbytes > PAYLOAD:
        return None
    return Sharing(COPIES, data.view(np.uint8), BYTES, root)


def adding(group: Any, data: np.ndarray, op: ReduceOp, dtype: Any) -> Sharing | None:
    """How a sum moves, if that is in shared memory on all ranks, or may be if all have it in the same window."""
    kind = KINDS.get(dtype)
    if group.board is None or op is not ReduceOp.SUM or kind is None:
        return None
    if data.nbytes <= PAYLOAD:
        return Sharing(ADDS, data, kind)
    for found in group.windows:
        start = found.offset(data)
        if start is not None:
            place = found.number << 48 | start + 1
            return Sharing(ADDS_IN_PLACE, data, kind, 0, place, found.places + start)
    return Sharing(ADDS_IN_PLACE, data, kind)
