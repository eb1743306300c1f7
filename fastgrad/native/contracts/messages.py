"""The records of calls of MPI under way; see Note [Progress] in `messages.progress`."""

from __future__ import annotations

from fastgrad.native.contracts.record import Record

CALL_WORDS = 7
"""Arguments of the longest function that begins a transfer, `MPI_Iallreduce`."""

FLIGHT = Record(
    "mpi_flight",
    link=1, state=1, seen=1, code=1, check=1, gate=1, begin=1, function=1, arguments=CALL_WORDS,
    request=1, own=1, status=1, scratch=8, flag=1,
)  # fmt: skip
"""A transfer, and the check before it. `link`: the next one; `state`: of those below, and `seen`, what Python has read
of it; `code`: that of MPI for what went wrong, or 0; `check`: the address of the two numbers that the check combines;
`gate`: the address of a word that all flights of a group share; `begin`: how the transfer begins, of those below;
`function` and `arguments`: the call that begins it; `request` and `status`: the addresses of MPI's, which may be `own`
and `scratch`."""

QUEUE = Record(
    "mpi_queue",
    first=1, test=1, running=1, wanted=1, closing=1, rounds=1, thread=2, mutex=16, condition=16,
)  # fmt: skip
"""`first`: the oldest flight; `test`: the address of `MPI_Test`; `running`: whether there is a thread; `wanted`:
whether it is to make progress; `closing`: whether it is to end; `rounds`: how often flights were looked at."""

HANDING = Record("mpi_handing", queue=1, flight=1)
"""What functions get that do something with one flight."""

# States of flights.
CHECKING = 0  # the check is under way
AGREED = 1  # all ranks made the same call; Python begins the transfer
DIFFERS = 2  # they did not
MOVING = 3  # the transfer is under way
OVER = 4

# How transfers begin.
BY_NOTHING, BY_PYTHON, BY_CALL = range(3)
