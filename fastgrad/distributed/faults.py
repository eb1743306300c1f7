"""What ranks tell each other when something goes wrong, and how a process leaves so that no other one hangs.

Note [Notices]: beside the communicators of groups there is one for notices: small messages that a rank sends to all
others, and that are read by whoever waits for longer than a moment. A rank says that it *failed* (an exception that
nobody caught), that it *left* (its process or process group ended, after so many calls of each group), or that it is
*waiting* (in which call). So a rank that waits in vain learns for whom, and says so.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import socket
import stat
import sys
import termios
import time
from collections.abc import Callable, Sequence
from traceback import format_exception, format_exception_only
from types import TracebackType
from typing import Any

from fastgrad.distributed.transport import DistBackendError, is_usable, mpi

TAG = 1
FAREWELL = 10.0
"""Seconds that a rank which failed waits for the others to notice, before it ends them."""

READ_IN = 1.0
"""Seconds that a rank waits for what it printed to be read, before all are ended."""

LOOK = 0.2
"""Seconds between two looks at whether the other processes of this machine live."""


class Watch:
    """What this rank knows of the others.

    Parameters
    ----------
    world : communicator
        Of all ranks.
    epoch : int
        How often a process group was made before; notices of earlier ones are dropped.
    """

    def __init__(self, world: Any, epoch: int) -> None:
        self.comm = world.Dup()
        self.rank, self.size = world.Get_rank(), world.Get_size()
        self.epoch = epoch
        here = socket.gethostname()
        processes = world.allgather((here, os.getpid()))
        self.processes = {
            r: pid for r, (host, pid) in enumerate(processes) if host == here and r != self.rank
        }
        self.failed: dict[int, str] = {}
        self.left: dict[int, dict[int, int]] = {}
        self.waiting: dict[tuple[int, int], tuple[int, str]] = {}
        self.begun: dict[int, int] = {}  # calls of each group, also of those that are gone
        self.broken = False
        self.kept: list[Any] = []
        self._looked = 0.0

    def tell(self, kind: str, *facts: Any) -> None:
        """Send a notice to every other rank; one that has left waits for the others to leave too, and for no more."""
        for rank in range(self.size):
            if rank != self.rank and rank not in self.failed and (rank not in self.left or kind == "left"):
                self.kept.append(self.comm.isend((self.epoch, kind, self.rank, *facts), rank, TAG))

    def read(self) -> None:
        """Take in the notices that have come, and see which processes are gone."""
        while (message := self.comm.improbe(tag=TAG)) is not None:
            epoch, kind, rank, *facts = message.recv()
            if epoch != self.epoch:
                continue
            if kind == "failed":
                self.failed.setdefault(rank, facts[0])
            elif kind == "left":
                self.left[rank] = facts[0]
            else:
                self.waiting[rank, facts[0]] = (facts[1], facts[2])
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            for rank, pid in self.processes.items():
                if rank not in self.failed and not _lives(pid):
                    self.failed[rank] = f"its process ({pid}) is gone"

    def gone(self) -> set[int]:
        """The ranks that take part in nothing any more."""
        return {*self.failed, *self.left, self.rank}

    def trouble(self, ranks: tuple[int, ...], group: int, number: int) -> str | None:
        """Why the call of a group will not be completed, if one of its ranks is the reason."""
        for rank in ranks:
            if rank in self.failed:
                return f"rank {rank} failed: {self.failed[rank]}"
            calls = self.left.get(rank)
            if calls is not None and calls.get(group, 0) < number:
                return (
                    f"rank {rank} left after {calls.get(group, 0)} calls of this group: its program ended, or called "
                    "destroy_process_group()"
                )
        return None

    def missing(self, ranks: tuple[int, ...], group: int, number: int) -> str:
        """Which ranks did not say that they wait in a call of a group, in words."""
        late = [r for r in ranks if r != self.rank and self.waiting.get((r, group), (0, ""))[0] < number]
        others = [
            f"rank {r} waits in {self.waiting[r, group][1]}"
            for r in ranks
            if r not in late and r != self.rank
        ]
        who = (
            f"rank{'s' * (len(late) > 1)} {', '.join(map(str, late))} did not come"
            if late
            else "nobody is late"
        )
        return "; ".join([who, *others])


def _lives(pid: int) -> bool:
    """Whether a process of this machine runs; one that only waits for its parent does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return not os.path.isdir("/proc/self")  # without /proc nobody knows


def meet(world: Any, seconds: float) -> None:
    """Wait for all ranks, before there is anything by which they could send notices."""
    request, end = world.Ibarrier(), time.monotonic() + seconds
    while not request.Test():
        if time.monotonic() > end:
            atexit.register(end_all)  # MPI would wait for the others at the end
            raise DistBackendError(
                f"init_process_group() on rank {world.Get_rank()} timed out after {seconds:g} s: not all "
                f"{world.Get_size()} ranks called it; see whether one has ended, or is late"
            )
        time.sleep(0.0001)


def unname_shared_memory() -> None:
    """Take the name from the memory that the ranks of this machine share, once all of them have it.

    It is gone with the last of them then. MPICH 5 keeps the name until MPI ends, and so for ever if ranks are killed.
    Names are those by which the kernel knows memory of this process, so that nothing of other programs is touched.
    """
    with contextlib.suppress(OSError):
        for name in segments():
            with contextlib.suppress(FileNotFoundError):  # another rank was faster
                os.unlink(name)


def segments() -> set[str]:
    """The files in which MPICH shares memory between the ranks of this machine, as far as they have names."""
    with open("/proc/self/maps") as file:
        paths = [line.split(maxsplit=5)[-1].rstrip("\n") for line in file]
    return {path for path in paths if re.fullmatch(r"/dev/shm/mpich_shm_[0-9a-f]+_[0-9]+", path)}


def hand_over() -> None:
    """Wait until ``mpiexec`` has read what was printed: when a rank ends all, what lies in their pipes is lost."""
    end = time.monotonic() + READ_IN
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # it is closed, or something else
            stream.flush()
        with contextlib.suppress(OSError):
            while _unread(number) and time.monotonic() < end:
                time.sleep(0.0005)


def _unread(number: int) -> int:
    """How many bytes lie in a pipe that this process writes to; 0 if it is none."""
    if not stat.S_ISFIFO(os.fstat(number).st_mode):
        return 0
    return int.from_bytes(fcntl.ioctl(number, termios.FIONREAD, bytes(4)), sys.byteorder)


def end_all() -> None:
    """End the processes of all ranks at once."""
    unname_shared_memory()
    hand_over()
    mpi().COMM_WORLD.Abort(1)
    os._exit(1)  # where aborting takes a while


class Farewell:
    """How this process leaves: what happens at an uncaught exception, and when the program ends.

    Parameters
    ----------
    watch : Watch
    groups : callable
        Gives the process groups.
    """

    def __init__(self, watch: Watch, groups: Callable[[], Sequence[Any]]) -> None:
        self.watch, self.groups = watch, groups
        self.previous = sys.excepthook
        self.over = False
        sys.excepthook = self.uncaught
        atexit.register(self.leave)

    def uncaught(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        """Print the traceback, in one piece where it is the usual one, and tell the others of it."""
        text = f"fastgrad.distributed: rank {self.watch.rank} of {self.watch.size} failed:\n"
        usual = self.previous is sys.__excepthook__
        if usual:
            text += "".join(format_exception(kind, error, traceback))
        sys.stderr.write(text)
        if not usual:
            self.previous(kind, error, traceback)
        hand_over()
        if not self.over and is_usable():
            self.watch.broken = True
            self.watch.tell("failed", "".join(format_exception_only(kind, error)).strip()[:2000])

    def leave(self) -> None:
        """The program ends: wait for calls that nobody waited for, and for the others; see that all end."""
        self.release()
        if not is_usable():  # as in a forked child
            return
        if not self.watch.broken:
            try:
                for group in self.groups():
                    group.finish()
            except Exception as error:  # noqa: BLE001 - nobody above would report it
                print(f"fastgrad.distributed: at the end of rank {self.watch.rank}: {error}", file=sys.stderr)
        self.say_left()
        self.wait_for_others()
        if self.watch.broken:
            self.end_with_others()

    def say_left(self) -> None:
        """Tell the others that this rank takes part in nothing any more, after how many calls."""
        self.watch.tell("left", dict(self.watch.begun))

    def release(self) -> None:
        """Put back what was there before."""
        self.over = True
        atexit.unregister(self.leave)
        if sys.excepthook == self.uncaught:
            sys.excepthook = self.previous

    def wait_for_others(self) -> None:
        """Wait until all others have left too, as MPI would; but it would also wait for one that failed."""
        while not self.watch.broken and len(self.watch.gone()) < self.watch.size:
            self.watch.read()
            self.watch.broken = bool(self.watch.failed)
            time.sleep(0.001)

    def end_with_others(self) -> None:
        """Let the others notice and report; then end those that did not: they would wait for this rank forever."""
        end = time.monotonic() + FAREWELL
        while len(self.watch.gone()) < self.watch.size and time.monotonic() < end:
            self.watch.read()
            time.sleep(0.005)
        end_all()
