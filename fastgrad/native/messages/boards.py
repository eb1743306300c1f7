"""What the ranks of one machine tell each other, and how they add up, through memory that they share.

Note [Boards]: where all ranks of a group share memory (a window of MPI's), the checks of its calls need no messages.
Each rank has an *area* there, which it alone writes to: a ring of `NOTES` notes, one for each of its latest calls, with
the call's number, its fingerprint and some bytes of data. A flight is agreed on when the notes of all ranks for its
number are there and have one fingerprint. A note is overwritten only after every rank has consumed it, which a rank
says when the transfer of the call begins: transfers begin in the order of the calls, so one counter tells of all.

What is small moves with the notes. A broadcast is copied out of the note of its root; a sum is added up out of the
notes of all by every rank. Both are over when the transfer begins. Sums of large tensors that lie in shared memory
themselves (`ADDS_IN_PLACE`) are divided between the ranks: each adds up its part of the tensors of all, writes the
result to all, and says so; the call is over when all ranks have. Notes have the place of the tensor in them; where
places differ, or a tensor lies elsewhere, every rank sees that, and MPI moves the data.

Sums are added in the order of the ranks, whoever does it, so that all ranks have the same bits.

A number is written after what it tells of, and read before; both are atomic operations that compilers and processors
keep in order. Nobody waits here: who finds a note missing looks again in the next round (Note [Progress]). A rank that
dies leaves numbers that do not grow, which the others find as they find an answer of MPI's that does not come.
"""

from __future__ import annotations

from numba import types

from fastgrad.native.base.intrinsics import (
    address_of,
    caster,
    f32s,
    f64s,
    float_of,
    i32s,
    memcpy,
    native,
    native_once,
    stack_scratch,
    words,
)
from fastgrad.native.base.threads import atomic_load, atomic_store
from fastgrad.native.contracts.messages import (
    ADDS,
    ADDS_IN_PLACE,
    AGREED,
    AREA,
    BOARD,
    BYTES,
    COPIES,
    DIFFERS,
    FLOAT32,
    FLOAT64,
    INT32,
    LINE,
    NOTE,
    NOTES,
    OVER,
    PAYLOAD,
    SUMMED,
)

CONSUMED, SUMS = AREA.offset("consumed"), AREA.offset("summed")
HEAD, NOTE_HEAD = 8 * AREA.words, 8 * NOTE.words
NOTE_BYTES = NOTE_HEAD + PAYLOAD
BLOCK_WORDS = 1024
"""What is added up before it is written: it stays in the first cache."""

board = caster(BOARD)
note = caster(NOTE)
block = stack_scratch(BLOCK_WORDS)


@native
def area_of(b, rank):
    """The address of what a rank tells."""
    return words(b.areas)[rank]


@native
def note_of(b, rank, number):
    """The address of the note of a rank on a call."""
    return area_of(b, rank) + HEAD + number % NOTES * NOTE_BYTES


@native
def all_reached(b, offset, number):
    """Whether a counter of every rank has come to a number."""
    reached = True
    for rank in range(b.members):
        reached = reached and atomic_load(area_of(b, rank) + offset) >= number
    return reached


# --- arithmetic --------------------------------------------------------------------------------------------------

REST = (1 << 52) - 1
"""The bits of a float64 that are 0 in powers of two, apart from sign and exponent."""


@native
def width_of(kind):
    """The bytes of an element."""
    if kind == BYTES:
        return 1
    return 4 if kind == FLOAT32 or kind == INT32 else 8


def _adding(pointer):
    def add(result, first, second, count):
        a, b, c = pointer(result), pointer(first), pointer(second)
        for k in range(count):
            a[k] = b[k] + c[k]

    return native_once(add)


add_float32, add_float64, add_int32, add_int64 = map(_adding, (f32s, f64s, i32s, words))


@native
def add(kind, result, first, second, count):
    """Write the sums of elements that lie at two addresses to a third one."""
    if kind == FLOAT32:
        add_float32(result, first, second, count)
    elif kind == FLOAT64:
        add_float64(result, first, second, count)
    elif kind == INT32:
        add_int32(result, first, second, count)
    else:
        add_int64(result, first, second, count)


@native
def times(a, b):
    """The product."""
    return a * b


@native
def over(a, b):
    """The quotient."""
    return a / b


def _scaling(pointer, real, scale):
    def fill(result, given, count, number):
        a, b, c = pointer(result), pointer(given), real(number)
        for k in range(count):
            a[k] = scale(b[k], c)

    return native_once(fill)


times_32, over_32 = _scaling(f32s, types.float32, times), _scaling(f32s, types.float32, over)
times_64, over_64 = _scaling(f64s, types.float64, times), _scaling(f64s, types.float64, over)


@native_once
def divide(kind, result, given, count, divisor):
    """Write the quotients of elements and a divisor, whose bits these are: of powers of two by products, with the same
    bits.
    """
    number = float_of(divisor)
    if kind == FLOAT32 and divisor & REST == 0:
        times_32(result, given, count, 1.0 / number)
    elif kind == FLOAT32:
        over_32(result, given, count, number)
    elif kind == FLOAT64 and divisor & REST == 0:
        times_64(result, given, count, 1.0 / number)
    elif kind == FLOAT64:
        over_64(result, given, count, number)


@native_once
def add_up(f, result, members, at, count):
    """Write the sum of what lies `at` so many bytes behind the places of all ranks, in their order; of no more elements
    than a block has.
    """
    quotients = block()
    for rank in range(members):
        given = words(f.places)[rank] + at
        if f.divisor != 0:
            divide(f.kind, quotients, given, count, f.divisor)
            given = quotients
        if rank == 0:
            memcpy(result, given, count * width_of(f.kind))
        else:
            add(f.kind, result, result, given, count)


@native
def divide_own(f):
    """Divide what this rank has by the divisor of a call, if it has one."""
    if f.divisor != 0:
        divide(f.kind, f.data, f.data, f.count, f.divisor)


@native_once
def add_own_part(b, f):
    """Add up the part of this rank of tensors that lie in shared memory, and write it to all."""
    width = width_of(f.kind)
    step = BLOCK_WORDS * 8 // width
    line = LINE // width
    share = (f.count + b.members * line - 1) // (b.members * line) * line
    start = min(share * b.own, f.count)
    end = min(start + share, f.count)
    result = block()
    while start < end:
        count = min(step, end - start)
        at = start * width
        add_up(f, result, b.members, at, count)
        for rank in range(b.members):
            memcpy(words(f.places)[rank] + at, result, count * width)
        start += count


# --- flights -----------------------------------------------------------------------------------------------------


@native_once
def post(f):
    """Tell the others of a call, if all have read what would be overwritten; whether they are told."""
    b = board(f.board)
    if f.posted == 0 and all_reached(b, CONSUMED, f.number - NOTES):
        own = note(note_of(b, b.own, f.number))
        own.fingerprint = f.fingerprint
        own.place = f.place
        if f.sharing == ADDS:
            divide_own(f)
        if f.sharing == ADDS or (f.sharing == COPIES and f.root == b.own):
            memcpy(address_of(own) + NOTE_HEAD, f.data, f.count * width_of(f.kind))
        atomic_store(address_of(own), f.number)
        f.posted = 1
    return f.posted != 0


@native_once
def compare(f):
    """Whether all ranks make the same call, as far as they have come: CHECKING, AGREED or DIFFERS as the state."""
    if not post(f):
        return
    b = board(f.board)
    same = True
    for rank in range(b.members):
        theirs = note_of(b, rank, f.number)
        if atomic_load(theirs) != f.number:
            return
        same = same and note(theirs).fingerprint == f.fingerprint
        if note(theirs).place != f.place:
            f.place = 0
    f.state = AGREED if same else DIFFERS


@native_once
def move(f):
    """Move the data of a call in shared memory, if that is how it moves; whether it is."""
    b = board(f.board)
    if f.sharing == COPIES:
        if f.root != b.own:
            theirs = note_of(b, f.root, f.number) + NOTE_HEAD
            memcpy(f.data, theirs, f.count * width_of(f.kind))
        f.state = OVER
    elif f.sharing == ADDS:
        add_notes(b, f)
        f.state = OVER
    elif f.sharing == ADDS_IN_PLACE and f.place != 0:
        add_own_part(b, f)
        atomic_store(area_of(b, b.own) + SUMS, f.number)
        f.state = SUMMED
        follow(f)
    elif f.sharing == ADDS_IN_PLACE:
        divide_own(f)
    return f.state >= OVER


@native_once
def add_notes(b, f):
    """Add up what goes with the notes of all ranks."""
    for rank in range(b.members):
        theirs = note_of(b, rank, f.number) + NOTE_HEAD
        if rank == 0:
            memcpy(f.data, theirs, f.count * width_of(f.kind))
        else:
            add(f.kind, f.data, f.data, theirs, f.count)


@native
def follow(f):
    """After this rank's part of a sum: it is over when all have added up theirs."""
    if all_reached(board(f.board), SUMS, f.number):
        f.state = OVER


@native
def consume(f):
    """The transfer of a call has begun: nothing of its notes is read any more."""
    b = board(f.board)
    atomic_store(area_of(b, b.own) + CONSUMED, f.number)
