"""The records of calls of MPI under way; see Note [Progress] in `messages.progress` and Note [Boards] in
`messages.boards`.
"""

from __future__ import annotations

from fastgrad.native.contracts.record import Record

CALL_WORDS = 7
"""Arguments of the longest function that begins a transfer, `MPI_Iallreduce`."""

FLIGHT = Record(
    "mpi_flight",
    queue=1, link=1, state=1, seen=1, code=1, check=1, gate=1, begin=1, function=1, arguments=CALL_WORDS,
    request=1, own=1, status=1, scratch=8, flag=1, tended=1,
    board=1, number=1, fingerprint=1, posted=1, sharing=1, root=1, place=1, data=1, places=1, count=1, kind=1,
    divisor=1,
)  # fmt: skip
"""A transfer, and the check before it. `queue`: the address of that of the process; `link`: the next one; `state`: of
those below, and `seen`, what it was after the last round; `code`: that of MPI for what went wrong, or 0; `check`: the
address of the two numbers that the check combines; `gate`: the address of a word that all flights of a group share;
`begin`: how the transfer begins, of those below; `function` and `arguments`: the call that begins it; `request` and
`status`: the addresses of MPI's, which may be `own` and `scratch`; `tended`: whether the thread is to get on with it.

With a board: `board`: its address; `number` and `fingerprint` of the call; `posted`: whether this rank has told the
others; `sharing`: how the data moves in shared memory, of those below; `root`: the rank that has it; `place`: by which
the ranks of a sum know the memory that they share, or 0; `data`: where the elements lie, and `places`, a table of where
they lie for each rank; `count` and `kind`: how many elements, or bytes, of which kind, of those below; `divisor`: by
what each rank's floating-point elements are divided before they are added, as the bits of a float64, or 0."""

BOARD = Record("mpi_board", members=1, own=1, areas=1)
"""`members`: how many ranks there are, and which of them this is, `own`; `areas`: the address of a table of addresses
of their areas."""

AREA = Record("mpi_area", consumed=8, summed=8)
"""What a rank tells the others, each in a line of memory of its own; then come its notes. `consumed`: the last call
whose notes this rank has read; `summed`: the last call of which it has added up its part."""

NOTE = Record("mpi_note", number=1, fingerprint=1, place=1, rest=5)
"""What a rank says of one call, followed by `PAYLOAD` bytes of data. `number` is written last."""

NOTES = 8
"""How many calls a rank may be ahead of the slowest one."""

PAYLOAD = 8192
"""Bytes that go with a note."""

LINE = 64
"""Bytes of a line of memory; two ranks never write to one at once."""

AREA_BYTES = 8 * AREA.words + NOTES * (8 * NOTE.words + PAYLOAD)

QUEUE = Record(
    "mpi_queue",
    first=1, test=1, running=1, wanted=1, closing=1, rounds=1, thread=2, mutex=16, condition=16,
)  # fmt: skip
"""`first`: the oldest flight; `test`: the address of `MPI_Test`; `running`: whether there is a thread; `wanted`:
whether it is to make progress; `closing`: whether it is to end; `rounds`: how often flights were looked at."""

# States of flights.
CHECKING = 0  # the check is under way
AGREED = 1  # all ranks made the same call; Python begins the transfer
DIFFERS = 2  # they did not
MOVING = 3  # the transfer is under way
OVER = 4
SUMMED = 5  # this rank has added up its part in shared memory, others may not have

# How transfers begin.
BY_NOTHING, BY_PYTHON, BY_CALL = range(3)

# How the data of flights with a board moves.
BY_MPI, COPIES, ADDS, ADDS_IN_PLACE = range(4)

# Of what kind elements are; bytes are copied only.
FLOAT32, FLOAT64, INT32, INT64, BYTES = range(5)
