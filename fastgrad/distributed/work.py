"""Calls of several processes while they are under way.

Note [Checked calls]: every collective begins with a reduction of one number, which all ranks compute from the name of
the call, its place in the sequence of the group's calls, and what has to be equal (dtype, number of elements,
operation, root); ranks that share memory compare it there (Note [Boards] in `native.messages.boards`). Only if all
ranks have the same one does the transfer itself begin; else each learns what the others called, and raises. So no rank
ever hands MPI a buffer that does not fit those of the others. Calls of one group begin their transfers in the order in
which they were made, on every rank.

Checks, transfers and their order are those of flights, with which a thread gets on while nobody waits: see Note
[Progress] in `native.messages.progress`. What Python does for a call, one Python thread does at a time: it begins
transfers that need Python, and runs what follows when they are over, where someone waits for that.

Nothing here waits within MPI: who waits asks again and again, so that Ctrl-C works, notices are read
(Note [Notices] in `faults.py`), and there is an end to it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from fastgrad.distributed.boards import Note, Sharing, bits_of
from fastgrad.distributed.progress import Flight, Transfer, queue
from fastgrad.distributed.transport import DistBackendError, mpi, need_usable
from fastgrad.futures import Future
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.messages import AGREED, CHECKING, DIFFERS, OVER

if TYPE_CHECKING:
    from fastgrad.distributed.groups import ProcessGroup

IMPATIENT = 0.002
"""Seconds of asking without a pause; a collective between waiting ranks takes a few hundredths of that."""

PAUSE = 0.0001
PROGRESS = threading.RLock()
TEXT = 512
"""Bytes in which a rank describes its call to the others."""


def need_timeout(call: str, timeout: Any, default: timedelta) -> timedelta:
    """A time limit of a caller's, or that by default."""
    if timeout is None:
        return default
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"{call}(): Expected timeout argument to be of type datetime.timedelta, got {timeout!r}"
        )
    if timeout <= timedelta(0):
        raise ValueError(f"{call}(): argument 'timeout' must be more than zero, got {timeout}")
    return timeout


def fingerprint_of(text: str) -> int:
    """A number that stands for what a rank calls."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")


class Work:
    """A call under way, as collectives with ``async_op=True`` return it.

    Parameters
    ----------
    group : ProcessGroup
    name : str
        Of the call.
    begin : Transfer, callable or None
        What hands the buffers to MPI; a callable returns its request. None if nothing is to be sent.
    result : sequence of Tensor
        What the call gives.
    end : callable, optional
        Runs when everything has arrived.
    """

    def __init__(
        self,
        group: ProcessGroup,
        name: str,
        begin: Transfer | Callable[[], Any] | None,
        result: Sequence[Any] = (),
        end: Callable[[], Any] | None = None,
    ) -> None:
        self._group, self._name = group, name
        self._begin, self._end, self._result = begin, end, list(result)
        self._flight: Flight | None = None
        self._done = False
        self._error: BaseException | None = None
        self._future: Future[Any] | None = None

    # --- what PyTorch's have ---

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the call is done.

        Parameters
        ----------
        timeout : timedelta, optional
            By default that of the group.

        Returns
        -------
        bool
            True.

        Raises
        ------
        DistBackendError
            If it cannot be completed; the message names the call and the rank that is the reason.
        """
        seconds = need_timeout("Work.wait", timeout, self._group.timeout).total_seconds()
        start = time.monotonic()
        said = False
        while not self._progress():
            waited = time.monotonic() - start
            if waited < IMPATIENT:
                continue
            self._check_others()
            if waited > seconds / 2 and not said:
                said = True
                self._say_waiting()
            if waited > seconds:
                self._give_up(seconds)
            time.sleep(PAUSE)
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether the call is done, or has failed."""
        return self._progress()

    def is_success(self) -> bool:
        """Whether the call is done and has not failed."""
        return self._progress() and self._error is None

    def exception(self) -> BaseException | None:
        """Why the call failed, or None."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors that the call gave, once it is done."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """From whom `irecv` received.

        Raises
        ------
        RuntimeError
            For other calls.
        """
        raise RuntimeError(
            f"Work.source_rank(): {self._name} does not receive from one rank; only irecv does"
        )

    def get_future(self) -> Future[Any]:
        """A future of the tensors that the call gives; waiting for it waits for the call."""
        if self._future is None:
            self._future = Future.driven_by(self)
            if self._done:
                self._complete_future()
        return self._future

    # --- the source of its future ---

    def poll(self) -> None:
        """Look whether the call is done, without waiting."""
        self._progress()

    def complete(self) -> None:
        """Wait until the call is done or has failed; the future tells which."""
        try:
            self.wait()
        except Exception:
            if self._future is None or not self._done:
                raise

    # --- progress ---

    def _progress(self) -> bool:
        """Get on as far as possible; whether the call is over."""
        if not self._done:
            need_usable(self._name)
            with PROGRESS:
                try:
                    if not self._done:  # by another thread
                        self._advance()
                except Exception as error:
                    if self._done:  # of what follows
                        raise
                    self._fail(error)
        return self._done

    def leave_alone(self) -> Work:
        """Nobody waits for it yet: let it make progress by itself where that is possible."""
        if self._flight is not None and self._is_for_the_thread():
            queue().leave_alone(self._flight)
        return self

    def _is_for_the_thread(self) -> bool:
        return True

    def _advance(self) -> None:
        queue().look()
        self._finish_if_arrived()

    def _finish_if_arrived(self) -> None:
        assert self._flight is not None
        if self._flight.state == OVER:
            self._finish()

    def _finish(self) -> None:
        if self._end is not None:
            self._end()
        self._over()

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, DistBackendError):
            told = DistBackendError(f"{self.title()} failed: {error}")
            told.__cause__ = error
            error = told
        self._error = error
        self.forsake()
        self._over()
        self._group.give_up(error)

    def forsake(self) -> None:
        """Look after the transfer no more. MPI may still have its memory, so that this is kept."""
        if self._flight is not None:
            queue().take_back(self._flight)
            self._group.watch.kept.append((self._flight, self._result, self._begin, self._end))

    def abandon(self, error: BaseException) -> None:
        """Fail, because a call before this one did."""
        if not self._done:
            self._error = DistBackendError(f"{self.title()} was given up, because {error}")
            self.forsake()
            self._over()

    def _over(self) -> None:
        self._done = True
        self._group.flying.pop(self, None)
        self._flight = self._begin = self._end = None
        if self._future is not None:
            self._complete_future()

    def _complete_future(self) -> None:
        assert self._future is not None
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)

    # --- what goes wrong ---

    def title(self) -> str:
        """What messages call it."""
        return f"{self._name}() on rank {self._group.watch.rank}"

    def _trouble(self) -> str | None:
        return self._group.watch.trouble(self._group.ranks, self._group.id, 0)

    def _check_others(self) -> None:
        self._group.watch.read()
        why = self._trouble()
        if why is not None and not self._progress():
            self._lose(f"{self.title()} cannot be completed: {why}")

    def _say_waiting(self) -> None:
        """Only a call that all ranks of a group make is worth a notice."""

    def _give_up(self, seconds: float) -> None:
        text = f"{self.title()} timed out after {seconds:g} s: {self._missing()}"
        self._lose(f"{text}; init_process_group(timeout=...) and new_group(timeout=...) set the limit")

    def _lose(self, why: str) -> None:
        with PROGRESS:
            if not self._done:
                self._fail(DistBackendError(why))

    def _missing(self) -> str:
        return "nothing came from the other side"


class Collective(Work):
    """A call that every rank of a group makes; see Note [Checked calls].

    Parameters
    ----------
    facts : tuple
        What has to be equal on all ranks.
    sharing : Sharing, optional
        How the data moves in shared memory, which `facts` say as well; `begin` is a `Transfer` or None then.
    flight : Flight, optional
        Of a call like this one, for this one.
    """

    def __init__(
        self,
        group: ProcessGroup,
        name: str,
        facts: tuple[Any, ...],
        begin: Transfer | Callable[[], Any] | None,
        sharing: Sharing | None = None,
        flight: Flight | None = None,
        **more: Any,
    ) -> None:
        if rt.capturing():
            raise NotImplementedError(
                f"{name}(): calls between processes cannot be recorded on a tape or within a compiled function; "
                "make them outside of it"
            )
        group.need_working(name)
        super().__init__(group, name, begin, **more)
        self._facts = ", ".join(map(str, facts))
        self._texts: np.ndarray | None = None
        self._telling: Flight | None = None
        self._sharing = sharing
        with PROGRESS:
            self.number = group.next_number()
            self._flight = (
                self._checked(begin) if flight is None else flight.again(self.number, self._divisor())
            )
            queue().hand_over(self._flight)
            group.pending.append(self)
            group.flying[self] = None  # MPI writes to its buffers, whether the caller keeps it or not
            self._begin_in_order()

    def _checked(self, begin: Transfer | Callable[[], Any] | None) -> Flight:
        """A flight with its check."""
        group, text = self._group, f"{self._name} {self._facts}"
        if group.board is not None:
            note = Note(group.board, self.number, fingerprint_of(text), self._sharing)
            return Flight(gate=group.gate, begin=begin, note=note)
        fingerprint = fingerprint_of(f"{self.number} {text}")
        check = np.array([fingerprint, -fingerprint], np.int64)
        request = group.check.Iallreduce(mpi().IN_PLACE, check, op=mpi().MAX)
        return Flight(request, check, group.gate, begin)

    def _divisor(self) -> int:
        return 0 if self._sharing is None else self._sharing.divisor

    def _is_for_the_thread(self) -> bool:
        """Sums in place are work of this rank's own: no thread takes the cores of the computation for them."""
        board = self._group.board
        in_place = self._sharing is not None and self._sharing.place != 0
        return not in_place or board is None or board.has_idle_cores

    def _begin_in_order(self) -> None:
        """Begin the transfers of calls on which all agree, up to this one.

        None is finished here but by who waits for it: what then runs may make calls, and all ranks have to make them in
        the same order.
        """
        pending = self._group.pending
        while pending and self in pending and pending[0]._on_its_way():
            pending.popleft()

    def _advance(self) -> None:
        queue().look()
        self._begin_in_order()
        if not self._done and self not in self._group.pending:
            self._finish_if_arrived()

    def _on_its_way(self) -> bool:
        """Whether all ranks made the same call, and the transfer has begun; let it begin if Python is to do that.

        What goes wrong is kept, and raised by whoever waits for this call.
        """
        assert self._flight is not None
        try:
            state = self._flight.state
            if state == DIFFERS:
                return self._disagree()
            if state == AGREED and self._flight.by_python:
                assert callable(self._begin)
                self._flight.depart(self._begin())
                return True
        except Exception as error:  # noqa: BLE001 - as said
            self._fail(error)
            return False
        return state not in (CHECKING, AGREED)

    def _disagree(self) -> bool:
        """Tell the others what this rank called, and fail once it is known what they did; never on its way."""
        if self._telling is None:
            mine = f"{self._name}({self._facts}), call {self.number}".encode()[:TEXT]
            own = np.frombuffer(mine.ljust(TEXT), np.uint8).copy()
            self._texts = np.empty((len(self._group.ranks), TEXT), np.uint8)
            # by the communicator of transfers: all ranks have begun those of the calls before this one, and no other;
            # in that of checks some may already have begun to check later calls
            self._telling = Flight(self._group.comm.Iallgather(own, self._texts))
            queue().hand_over(self._telling)
        if self._telling.state != OVER:
            return False
        assert self._texts is not None
        told = [bytes(row).decode(errors="replace").strip() for row in self._texts]
        calls = "; ".join(f"rank {r} called {text}" for r, text in zip(self._group.ranks, told, strict=True))
        self._fail(
            DistBackendError(
                f"{self.title()} does not match the calls of the other ranks of the {self._group.title()}: {calls}. "
                "All ranks have to make the same calls in the same order, with the same sizes and dtypes"
            )
        )
        return False

    def forsake(self) -> None:
        """As for any call; texts that it waits for as well."""
        super().forsake()
        if self._telling is not None:
            queue().take_back(self._telling)
            self._group.watch.kept.append((self._telling, self._texts))

    def title(self) -> str:
        """What messages call it."""
        return f"{self._name}() (call {self.number}) on rank {self._group.watch.rank}"

    def _trouble(self) -> str | None:
        return self._group.watch.trouble(self._group.ranks, self._group.id, self.number)

    def _say_waiting(self) -> None:
        self._group.watch.tell("waiting", self._group.id, self.number, f"{self._name}({self._facts})")

    def _missing(self) -> str:
        return self._group.watch.missing(self._group.ranks, self._group.id, self.number)


class Repeated:
    """A call that is made again and again, with the same tensors; what can be prepared is.

    A rank computes for long between two of them, after which nothing that a call needs is in a cache: so the less it
    does the better.

    Parameters
    ----------
    group, name, facts, begin, sharing, **more
        As for `Collective`.
    """

    def __init__(
        self,
        group: ProcessGroup,
        name: str,
        facts: tuple[Any, ...],
        begin: Transfer | Callable[[], Any] | None,
        sharing: Sharing | None = None,
        **more: Any,
    ) -> None:
        self.group, self._given = group, (name, (", ".join(map(str, facts)),), begin, sharing)
        self._more = more
        self._flight: Flight | None = None
        self._last: Work | None = None
        self._sharing = sharing
        self._lasts = group.board is not None and not callable(begin)

    def average(self, count: int) -> Work:
        """Make the call, which adds up what each rank has, and divide that by a number before."""
        assert self._sharing is not None
        self._sharing.divisor = bits_of(count)
        return self.begin().leave_alone()

    def begin(self) -> Work:
        """Make the call, for which the caller waits."""
        flight = self._flight if self._last is not None and self._last._done else None
        work = Collective(self.group, *self._given, flight, **self._more)
        if self._lasts:
            self._flight, self._last = work._flight, work
        return work


class PointToPoint(Work):
    """A message between two ranks.

    Parameters
    ----------
    peer : int or None
        The other one, of all ranks; None for whoever sends first.
    expected : int, optional
        How many bytes have to come.
    """

    def __init__(
        self,
        group: ProcessGroup,
        name: str,
        begin: Callable[[], Any],
        peer: int | None,
        expected: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(group, name, begin, **more)
        self._peer, self._expected = peer, expected
        self._status = mpi().Status()
        group.flying[self] = None  # as above
        self._progress()

    def _advance(self) -> None:
        if self._flight is None:
            assert callable(self._begin)
            self._flight = Flight(self._begin(), status=self._status)
            queue().hand_over(self._flight)
        super()._advance()

    def _finish(self) -> None:
        if self._expected is not None:
            came = self._status.Get_count(mpi().BYTE)
            if came != self._expected:
                raise DistBackendError(
                    f"{self.title()} expected {self._expected} bytes, but rank {self.source_rank()} sent {came}; the "
                    "tensors of both ranks must have the same size and dtype"
                )
        super()._finish()

    def source_rank(self) -> int:
        """From whom `irecv` received."""
        if self._expected is None:
            return super().source_rank()
        if self._peer is not None:
            return self._peer
        return self._group.ranks[self._status.Get_source()]

    def title(self) -> str:
        """What messages call it."""
        whom = "any rank" if self._peer is None else f"rank {self._peer}"
        return f"{self._name}() of rank {self._group.watch.rank} with {whom}"

    def _trouble(self) -> str | None:
        """Why nothing will come: the other one is gone, or, if anyone may send, all are."""
        watch = self._group.watch
        others = [r for r in self._group.ranks if r != watch.rank] if self._peer is None else [self._peer]
        for rank in others:
            if rank in watch.failed:
                return f"rank {rank} failed: {watch.failed[rank]}"
        if others and all(rank in watch.left for rank in others):
            return f"rank {others[0]} left: its program ended, or called destroy_process_group()"
        return None
