"""Calls of MPI under way, as the thread that makes progress knows them: see Note [Progress] in
`native.messages.progress`.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fastgrad import flags
from fastgrad.distributed.boards import Note
from fastgrad.distributed.transport import is_usable, library, mpi
from fastgrad.native.contracts.messages import (
    BY_CALL,
    BY_NOTHING,
    BY_PYTHON,
    CHECKING,
    FLIGHT,
    MOVING,
    OVER,
    QUEUE,
)
from fastgrad.native.messages.unit import progress_routines


def mpi_function(name: str) -> int:
    """The address of a function of MPI's."""
    return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0


@cache
def _routine(name: str) -> Callable[[int], None]:
    """A compiled function of an address, which runs without the interpreter's lock."""
    found: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_int64)(progress_routines()[name])
    return found


def _word(value: int) -> int:
    """A handle or an address as a word with a sign."""
    return value - (1 << 64) if value >= 1 << 63 else value


class Transfer:
    """How a transfer begins that needs no Python.

    Parameters
    ----------
    function : str
        Of MPI, which takes `arguments` and the address of a request.
    arguments : sequence
        Ints, arrays and what mpi4py calls handles.
    """

    def __init__(self, function: str, *arguments: Any) -> None:
        self.function, self._kept = function, arguments
        self.words = [_word(_argument(value)) for value in arguments]


def _argument(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    return int(value) if hasattr(value, "__int__") else int(mpi()._handleof(value))


def elements(data: np.ndarray) -> tuple[int, Any]:
    """How many elements an array has, and what MPI calls their type."""
    return data.size, mpi()._typedict[data.dtype.char]


def fits(data: np.ndarray) -> bool:
    """Whether MPI's functions can count the elements of an array with an int."""
    return data.size < 1 << 31


class Flight:
    """A transfer, with the check before it if there is one.

    Parameters
    ----------
    request : Request, optional
        Of mpi4py, of the check or of the transfer; the flight has it until it is over.
    check : array, optional
        What the check combines.
    gate : array, optional
        What all flights with checks of a group share.
    begin : Transfer, callable or None
        How the transfer begins after the check; None if there is none.
    status : Status, optional
        Of mpi4py, written by MPI when the transfer is over.
    note : Note, optional
        Instead of a check by MPI.
    """

    def __init__(
        self,
        request: Any = None,
        check: np.ndarray | None = None,
        gate: np.ndarray | None = None,
        begin: Transfer | Callable[[], Any] | None = None,
        status: Any = None,
        note: Note | None = None,
    ) -> None:
        self._words = np.zeros(FLIGHT.words, np.int64)
        self.address = self._words.ctypes.data
        self._kept = [check, gate, begin, status, request, note]  # MPI and the thread have their addresses
        self.by_python = begin is not None and not isinstance(begin, Transfer)
        self._set("queue", queue().address)
        self._set("status", mpi()._addressof(status) if status is not None else self._place("scratch"))
        self._set("request", 0 if request is None else mpi()._addressof(request))
        for field in ("state", "seen"):
            self._set(field, MOVING if check is None and note is None else CHECKING)
        if check is not None:
            self._set("check", check.ctypes.data)
        if gate is not None:
            self._set("gate", gate.ctypes.data)
        for field, value in () if note is None else note.words().items():
            self._set(field, value)
        self._set("begin", BY_NOTHING if begin is None else BY_PYTHON)
        if isinstance(begin, Transfer):
            self._set("begin", BY_CALL)
            self._set("function", mpi_function(begin.function))
            words = [*begin.words, self._place("own")]
            at = FLIGHT.fields["arguments"][0]
            self._words[at : at + len(words)] = words
        self._fresh = None if note is None else self._words.copy()

    def _place(self, field: str) -> int:
        return self.address + FLIGHT.offset(field)

    def _set(self, field: str, value: int) -> None:
        self._words[FLIGHT.fields[field][0]] = value

    def _get(self, field: str) -> int:
        return int(self._words[FLIGHT.fields[field][0]])

    @property
    def state(self) -> int:
        """How far it is: one of `native.contracts.messages`.

        Raises
        ------
        Exception
            What MPI says went wrong.
        """
        state = self._get("seen")
        if state == OVER:
            _routine("settle")(self.address)
            if self._get("code"):
                raise mpi().Exception(self._get("code"))
        return state

    def depart(self, request: Any) -> None:
        """Python has begun the transfer; None stands for one that is over."""
        self._kept.append(request)
        self._set("request", 0 if request is None else mpi()._addressof(request))
        _routine("depart_by_python")(self.address)

    def again(self, number: int, divisor: int) -> Flight:
        """Let the flight, which is over and had a note, be that of another call of the same kind."""
        assert self._fresh is not None
        self._words[:] = self._fresh
        self._set("number", number)
        self._set("divisor", divisor)
        return self


class Queue:
    """All flights of this process, and the thread that gets on with them."""

    def __init__(self) -> None:
        self._words = np.zeros(QUEUE.words, np.int64)
        self.address = self._words.ctypes.data
        self._words[QUEUE.fields["test"][0]] = mpi_function("MPI_Test")
        _routine("set_up")(self.address)
        self.threaded = flags.PROGRESS_THREAD and mpi().Query_thread() >= mpi().THREAD_MULTIPLE
        atexit.register(self.close)
        # programs may end MPI themselves, which first deletes what is kept with this communicator
        ending = mpi().Comm.Create_keyval(delete_fn=lambda *_: self.close())
        mpi().COMM_SELF.Set_attr(ending, True)

    def hand_over(self, flight: Flight) -> None:
        """Look after a flight from now on, and get on with all as far as they go."""
        _routine("hand_over")(flight.address)

    def take_back(self, flight: Flight) -> None:
        """Look after a flight no more; MPI may still write to its memory."""
        _routine("take_back")(flight.address)

    def look(self) -> None:
        """Get on with all flights as far as they go."""
        _routine("look")(self.address)

    def leave_alone(self, flight: Flight) -> None:
        """Nobody waits for a flight: let the thread make progress, if MPI allows for one."""
        if self.threaded:
            _routine("want")(flight.address)

    def rounds(self) -> int:
        """How often flights were looked at, by whomever."""
        return int(self._words[QUEUE.fields["rounds"][0]])

    def close(self) -> None:
        """End the thread."""
        if is_usable():  # a forked child has none
            _routine("close")(self.address)


@cache
def queue() -> Queue:
    """The one of this process."""
    return Queue()
