"""Progress of calls of MPI, by a thread of their own and by whoever waits for them.

Note [Progress]: MPI moves data while someone calls it, and a collective of ours begins its transfer when its check has
come back (Note [Checked calls] in `distributed.work`). Neither waits for Python: calls under way are *flights* in a
queue, and a *round* takes each as far as it gets, in the order in which they were made. Of one group no flight begins
its transfer before the one ahead of it has begun its own, so that this order is the same on all ranks.

Rounds are made by a thread, which is there once a call was left alone, and by threads of Python's that wait. Who makes
one holds the mutex. So a request belongs to its flight from when it is handed over until the state is OVER or the
flight is taken back; only a round asks MPI for it, completes it and has its status written, which others read
afterwards. The last thing that a round does with a flight is to write its state where Python reads it, without the
mutex: a flight that is seen to be OVER is out of the queue, and nobody touches it any more. What follows a transfer in
Python, the next stage of a future for instance, is run by who waits for it, never by the thread: that holds no object
of Python's and never the interpreter's lock.

The thread sleeps while there are no flights. While there are some that do not move it looks at them, and sleeps twice
as long after each round, up to `LONGEST`: MPI has no call that waits for any of several communicators without taking a
core, and the cores belong to the computation of the ranks. A round that moved something, or took more of the
processor's time than looking takes, did work that someone has to do: then the next one follows at once. Time in which
the thread wanted to run and could not does not count, or it would run most where there are too few cores.

Flights with a board are checked, and many of them moved, in shared memory instead: see Note [Boards] in `boards`. The
thread looks at all flights while there is one that it is to tend.
"""

from __future__ import annotations

from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.clock import thread_nanoseconds, usleep
from fastgrad.native.base.intrinsics import address_of, caster, i32s, native, native_once, words
from fastgrad.native.base.threads import (
    atomic_store,
    block_signals,
    condition_init,
    condition_wait,
    condition_wake_all,
    mutex_init,
    mutex_lock,
    mutex_unlock,
    sched_yield,
    start_routine,
    thread_create,
    thread_join,
)
from fastgrad.native.contracts.messages import (
    AGREED,
    BY_CALL,
    BY_NOTHING,
    CALL_WORDS,
    CHECKING,
    DIFFERS,
    FLIGHT,
    MOVING,
    OVER,
    QUEUE,
    SUMMED,
)
from fastgrad.native.messages import boards

SHORTEST, LONGEST = 20, 500
"""Microseconds between two rounds of the thread. With the longest, looking takes less than a hundredth of a core, and a
network's buffers do not run empty for long."""

LOOKING = 10_000
"""Nanoseconds of the processor that looking at one flight takes at most; the rest of a round moves data."""


flight = caster(FLIGHT)
queue = caster(QUEUE)
drive_address = start_routine("messages_drive")
test_request = function_at("qqq")
begin_transfer = function_at("q" * CALL_WORDS)

LINK, SEEN, OWN, FLAG = (FLIGHT.offset(field) for field in ("link", "seen", "own", "flag"))
FIRST = QUEUE.offset("first")


# --- one flight --------------------------------------------------------------------------------------------------


@native_once
def has_come(q, f):
    """Whether MPI has completed the request of a flight, or says what went wrong, which ends the flight."""
    flag = address_of(f) + FLAG
    words(flag)[0] = 0
    f.code = test_request(q.test, f.request, flag, f.status)
    if f.code != 0:
        f.state = OVER
        return False
    return i32s(flag)[0] != 0


@native_once
def depart(f):
    """All ranks made this call, and those before it are on their way: begin the transfer, unless Python does."""
    if f.board != 0 and boards.move(f):
        boards.consume(f)
        return
    if f.begin == BY_NOTHING:
        f.state = OVER
    elif f.begin == BY_CALL:
        f.request = address_of(f) + OWN
        a = f.arguments
        f.code = begin_transfer(f.function, a[0], a[1], a[2], a[3], a[4], a[5], a[6])
        f.state = MOVING if f.code == 0 else OVER
    if f.board != 0 and f.state != AGREED:
        boards.consume(f)


@native_once
def advance(q, f, first):
    """Get on with a flight as far as it goes; `first` says if no earlier one of its group waits to depart."""
    if f.state == CHECKING and f.board != 0:
        boards.compare(f)
    elif f.state == CHECKING and has_come(q, f):
        both = words(f.check)
        f.state = AGREED if both[0] == -both[1] else DIFFERS
    if f.state == AGREED and first:
        depart(f)
    if f.state == SUMMED:
        boards.follow(f)
    if f.state == MOVING and has_come(q, f):
        f.state = OVER


# --- all of them, with the mutex -----------------------------------------------------------------------------------


@native_once
def make_round(q):
    """Get on with all flights; whether any changed its state."""
    q.rounds += 1
    moved = False
    place = address_of(q) + FIRST
    while words(place)[0] != 0:
        f = flight(words(place)[0])
        before = f.state
        advance(q, f, f.gate == 0 or words(f.gate)[0] != q.rounds)
        after = f.state
        if after < MOVING and f.gate != 0:
            words(f.gate)[0] = q.rounds  # closed for the rest of this round
        moved = moved or after != before
        seen = address_of(f) + SEEN
        if after == OVER:
            words(place)[0] = f.link
        else:
            place = address_of(f) + LINK
        atomic_store(seen, after)
    return moved


@native_once
def count_flights(q):
    """How many there are; 0 if the thread is to tend none of them."""
    n, tended, at = 0, False, q.first
    while at != 0:
        n += 1
        tended = tended or flight(at).tended != 0
        at = flight(at).link
    return n if tended else 0


@native_once
def sleep_until_wanted(q):
    """Wait, while there is nothing to do, until there is or the thread is to end."""
    q.wanted = 0
    while q.wanted == 0 and q.closing == 0:
        condition_wait(address_of(q.condition), address_of(q.mutex))


@native_once
def drive(handle):
    """What the thread does from its beginning to its end."""
    q = queue(handle)
    block_signals()
    pause = SHORTEST
    mutex_lock(address_of(q.mutex))
    while q.closing == 0:
        n = count_flights(q)
        if n == 0:
            sleep_until_wanted(q)
            pause = SHORTEST
            continue
        before = thread_nanoseconds()
        moved = make_round(q)
        worked = moved or thread_nanoseconds() - before > n * LOOKING
        mutex_unlock(address_of(q.mutex))
        if worked:
            pause = SHORTEST
            sched_yield()
        else:
            usleep(pause)
            pause = min(2 * pause, LONGEST)
        mutex_lock(address_of(q.mutex))
    mutex_unlock(address_of(q.mutex))


# --- what Python calls, without the interpreter's lock: each gets an address ----------------------------------------


@native
def set_up(handle):
    """Make the mutex of a queue, and what its thread sleeps on."""
    q = queue(handle)
    mutex_init(address_of(q.mutex), 0)
    condition_init(address_of(q.condition), 0)


@native_once
def hand_over(handle):
    """Put a flight behind the others, and make a round."""
    flight(handle).link = 0
    q = queue(flight(handle).queue)
    mutex_lock(address_of(q.mutex))
    place = address_of(q) + FIRST
    while words(place)[0] != 0:
        place = words(place)[0] + LINK
    words(place)[0] = handle
    make_round(q)
    mutex_unlock(address_of(q.mutex))


@native_once
def take_back(handle):
    """Take a flight out, so that nobody looks at it any more, wherever it is."""
    q = queue(flight(handle).queue)
    mutex_lock(address_of(q.mutex))
    place = address_of(q) + FIRST
    while words(place)[0] != 0 and words(place)[0] != handle:
        place = words(place)[0] + LINK
    if words(place)[0] == handle:
        words(place)[0] = flight(handle).link
    mutex_unlock(address_of(q.mutex))


@native_once
def look(handle):
    """Make a round."""
    q = queue(handle)
    mutex_lock(address_of(q.mutex))
    make_round(q)
    mutex_unlock(address_of(q.mutex))


@native_once
def settle(handle):
    """Let Python see what was written before a state that it has read."""
    q = queue(flight(handle).queue)
    mutex_lock(address_of(q.mutex))
    mutex_unlock(address_of(q.mutex))


@native_once
def depart_by_python(handle):
    """Python has begun the transfer of a flight, whose request it has set; or there is none."""
    f = flight(handle)
    q = queue(f.queue)
    mutex_lock(address_of(q.mutex))
    f.state = OVER if f.request == 0 else MOVING
    f.seen = MOVING  # until a round has taken it out of the queue
    if f.board != 0:
        boards.consume(f)
    mutex_unlock(address_of(q.mutex))


@native_once
def want(handle):
    """Let a thread make progress with a flight, and until there is none that it is to tend."""
    q = queue(flight(handle).queue)
    mutex_lock(address_of(q.mutex))
    if q.running == 0 and thread_create(address_of(q.thread), 0, drive_address(), address_of(q)) == 0:
        q.running = 1
    q.wanted = 1
    flight(handle).tended = 1
    condition_wake_all(address_of(q.condition))
    mutex_unlock(address_of(q.mutex))


@native_once
def close(handle):
    """End the thread. Flights that are left get on where someone waits for them."""
    q = queue(handle)
    mutex_lock(address_of(q.mutex))
    q.closing = 1
    condition_wake_all(address_of(q.condition))
    running = q.running
    q.running = 0
    mutex_unlock(address_of(q.mutex))
    if running != 0:
        thread_join(q.thread[0], 0)
    q.closing = 0
