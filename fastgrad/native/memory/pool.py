"""Threads that run a launch in parts.

Note [The pool]: one launch at a time has the threads; where several Python threads launch at once, the others run their
parts themselves. A launch is a job, whose parts fall into shares of neighbours, one for each thread: the thread that
launches begins with the first, worker `k` with the one that follows `k` others. So what a launch leaves in the cache of
a core is there when the next one goes over the same memory. A thread that has done its own share goes on with those of
the others, until none is left. It takes half of what is left of a share at a time, and runs these parts as one: long
runs of memory are read faster, and what a kernel does once for a launch it does less often.

Whoever takes parts stands *inside*, and enters only while the pool is *open*; the launching thread closes it when no
part is left, and goes on when nobody is inside. So a worker that wakes up late finds it closed, or a later job open.

A worker that has nothing to do looks for a new job for a moment, then it sleeps. It holds no object of Python's, and
never the interpreter's lock. A forked child has no workers, and gets a new pool.
"""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    call_kernel,
    caster,
    memset,
    native,
    native_once,
    posix_memalign,
    runtime,
    stack_frame,
    stack_small,
    words,
)
from fastgrad.native.base.threads import (
    atomic_add,
    atomic_load,
    atomic_store,
    atomic_take,
    block_signals,
    condition_init,
    condition_wait,
    condition_wake_all,
    mutex_init,
    mutex_lock,
    mutex_unlock,
    pause,
    sched_yield,
    start_routine,
    thread_create,
    thread_join,
)
from fastgrad.native.contracts.frame import FINE
from fastgrad.native.contracts.limits import CACHE_LINE, MAX_THREADS
from fastgrad.native.contracts.records import CURSOR_WORDS, JOB, POOL
from fastgrad.native.contracts.status import NO_MEMORY, OK
from fastgrad.native.memory.parts import CELLS, count_hands, count_seats, dtype_of, write_part

LOOKS = 20_000  # that a worker takes at what may become its next job before it sleeps: some tenths of a millisecond
SPINS = 2_000  # that the launching thread waits for the last parts before it lets other threads have its core

POOL_BYTES = POOL.words * 8

labour_address = start_routine("labour")
job = caster(JOB)
pool = caster(POOL)


# --- a job -----------------------------------------------------------------------------------------------------


@native
def keep_report(j, k, report):
    """Keep what the kernel reports of parts from `k` on, unless an earlier part has reported something."""
    while atomic_take(address_of(j.locked)) != 0:
        pause()
    if k < j.reported:
        j.reported = k
        kept = frames.report(words(j.frame)[j.report_place])
        kept.kind, kept.first, kept.second = report.kind, report.first, report.second
    atomic_store(address_of(j.locked), 0)


@native
def run_neighbours(j, seat, first, after, part, report):
    """Run some parts of a job as one; `part` and `report` are memory for their frame and what the kernel reports."""
    write_part(j.split, j.frame, j.n_words, j.dtype, seat, first, after, j.n_parts, part)
    if j.report_place != 0:
        report.kind = FINE
        words(part)[j.report_place] = address_of(report)
    call_kernel(j.address, part)
    if j.report_place != 0 and report.kind != FINE:
        keep_report(j, first, report)


@native
def how_many(left):
    """How many parts to take of those that are left of a share: half of them, so that the last ones are short."""
    return max(1, (left + 1) // 2)


@native_once
def run_shares(handle, number):
    """Run parts of a job until none is left, those of the share of this number first."""
    j = job(handle)
    seat = atomic_add(address_of(j.taken), 1)
    if seat >= j.seats:
        return
    part = stack_frame()
    report = frames.report(stack_small())
    n = j.n_shares
    for turn in range(n):
        share = (number + turn) % n
        cursor = j.cursors + share * CACHE_LINE
        begin, end = share * j.n_parts // n, (share + 1) * j.n_parts // n
        first = begin
        while first < end:
            taken = how_many(end - begin - atomic_load(cursor))
            first = begin + atomic_add(cursor, taken)
            if first < end:
                run_neighbours(j, seat, first, min(first + taken, end), part, report)


@native_once
def run_parts(address, cell, frame, n_words, split, n_parts, work):
    """Run a kernel in so many parts; one is the launch itself. The caller need not hold the interpreter's lock.

    One thread runs the launch as it is: parts give what the launch gives, and long runs of memory are read faster.
    """
    rt = runtime()
    if n_parts == 1 or rt.n_threads == 1:
        call_kernel(address, frame)
        return
    j = job(stack_frame())
    j.address = address
    j.frame = frame
    j.n_words = n_words
    j.split = split
    j.dtype = dtype_of(cell)
    j.n_parts = n_parts
    j.seats = count_seats(split, frame)
    j.report_place = rt.reports[cell // CELLS]
    j.reported = n_parts
    j.locked[0] = 0
    j.taken[0] = 0
    j.n_shares = 1
    j.cursors = address_of(j.cursor)
    j.cursor[0] = 0
    p = pool(rt.pool)
    if atomic_take(address_of(p.busy)) != 0:
        run_shares(address_of(j), 0)
        return
    n = min(rt.n_threads, n_parts, j.seats, count_hands(work))
    hire(p, n - 1)
    j.n_shares = n
    j.cursors = address_of(p.cursors)
    for k in range(n):
        p.cursors[k * CURSOR_WORDS] = 0
    p.job = address_of(j)
    atomic_store(address_of(p.open), 1)
    wake(p)
    run_shares(address_of(j), 0)
    atomic_store(address_of(p.open), 0)
    spins = 0
    while atomic_load(address_of(p.inside)) != 0:
        spins += 1
        if spins < SPINS:
            pause()
        else:
            sched_yield()
    atomic_store(address_of(p.busy), 0)


# --- workers ---------------------------------------------------------------------------------------------------


@native
def wake(p):
    """Say that something has changed: a job is there, or all are to go."""
    atomic_add(address_of(p.news), 1)
    if atomic_load(address_of(p.sleeping)) != 0:
        mutex_lock(address_of(p.mutex))
        condition_wake_all(address_of(p.condition))
        mutex_unlock(address_of(p.mutex))


@native_once
def wait_for_news(p, seen):
    """Wait until something has changed since `seen`; what is to be seen now."""
    news = address_of(p.news)
    looks = 0
    while atomic_load(news) == seen and looks < LOOKS:
        pause()
        looks += 1
    if atomic_load(news) == seen:
        mutex_lock(address_of(p.mutex))
        atomic_add(address_of(p.sleeping), 1)
        while atomic_load(news) == seen:
            condition_wait(address_of(p.condition), address_of(p.mutex))
        atomic_add(address_of(p.sleeping), -1)
        mutex_unlock(address_of(p.mutex))
    return atomic_load(news)


@native_once
def labour(handle):
    """What a worker does from its beginning to its end."""
    p = pool(handle)
    block_signals()
    number = 1 + atomic_add(address_of(p.named), 1)
    seen = 0
    while atomic_load(address_of(p.closing)) == 0:
        atomic_add(address_of(p.inside), 1)
        if atomic_load(address_of(p.open)) != 0:
            run_shares(p.job, number)
        atomic_add(address_of(p.inside), -1)
        seen = wait_for_news(p, seen)
    return 0


@native_once
def hire(p, n):
    """See that there are so many workers, or as many as the system gives."""
    while p.n_workers < n:
        if thread_create(address_of(p.threads) + 8 * p.n_workers, 0, labour_address(), address_of(p)) != 0:
            return
        p.n_workers += 1


# --- pools -----------------------------------------------------------------------------------------------------


@native
def new_pool():
    """Give the runtime a pool without workers; OK or a failure."""
    place = stack_small()
    if posix_memalign(place, CACHE_LINE, POOL_BYTES) != 0:
        return NO_MEMORY
    p = pool(words(place)[0])
    memset(address_of(p), 0, POOL_BYTES)
    mutex_init(address_of(p.mutex), 0)
    condition_init(address_of(p.condition), 0)
    runtime().pool = address_of(p)
    return OK


@native_once
def use_threads(n):
    """Let launches run on so many threads, the caller's among them; workers that are there end. OK or a failure."""
    rt = runtime()
    if rt.pool == 0 and failed(new_pool()):
        return NO_MEMORY
    p = pool(rt.pool)
    while atomic_take(address_of(p.busy)) != 0:
        sched_yield()
    atomic_store(address_of(p.closing), 1)
    wake(p)
    for k in range(p.n_workers):
        thread_join(p.threads[k], 0)
    p.n_workers = 0
    p.named[0] = 0
    atomic_store(address_of(p.closing), 0)
    rt.n_threads = max(1, min(n, MAX_THREADS))
    atomic_store(address_of(p.busy), 0)
    return OK


@native
def forget_workers():
    """A forked child has the pool of its parent, but not its threads: give it one of its own. OK or a failure."""
    runtime().pool = 0
    return use_threads(runtime().n_threads)
