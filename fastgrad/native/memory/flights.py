"""What waits while kernels run without the GIL.

Note [Flights]: a large kernel lets other Python threads run beside it, and so does a kernel that has to be compiled
first. Meanwhile any tensor may be dropped or given other memory. So what such a launch works on is known: while its
frame stands on the list of flights, memory to which a word of the frame points is not freed; it waits until a flight is
over (`references.bury_storage`). Small launches, which nobody can interrupt, pay nothing for this.

The frames on the list are copies: a thread may end in the middle of a launch, when the interpreter does or because
another one forked, and its stack with it. A forked child forgets the launches of threads that it lacks. Where the list
is full, nothing is freed until the launch is over.

Memory is one matter, sizes are another. An op may launch several kernels, and between them read sizes and strides of
its operands again. Whoever gives a tensor another layout waits until no other thread is in the middle of a launch
(`launches.wait_for_flights`); for that long no thread lets others run beside its kernels, so that the wait ends.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import caster, native, native_once, nth, runtime, runtime_address, words
from fastgrad.native.base.modes import is_running
from fastgrad.native.contracts.records import FLIGHT, N_FLIGHTS, RUNTIME

FLIGHTS_OFFSET = RUNTIME.offset("flights")
NOT_LISTED = -1

flight = caster(FLIGHT)


@native
def nth_flight(k):
    """A place on the list of flights; it is free if no thread stands there."""
    return nth(flight(runtime_address() + FLIGHTS_OFFSET), k)


@native_once
def depart(frame, n_words):
    """Put a launch of this thread on the list of flights; its place there, or NOT_LISTED."""
    rt = runtime()
    rt.n_flights += 1
    for k in range(N_FLIGHTS):
        f = nth_flight(k)
        if f.thread == 0:
            f.thread = rt.thread
            f.waits = 0
            f.n_words = n_words
            for j in range(n_words):
                f.frame[j] = words(frame)[j]
            return k
    rt.uncounted += 1
    return NOT_LISTED


@native
def land(place):
    """Take a launch off the list."""
    rt = runtime()
    rt.n_flights -= 1
    if place == NOT_LISTED:
        rt.uncounted -= 1
    else:
        nth_flight(place).thread = 0


@native_once
def in_flight(s):
    """Whether a launch that other threads run beside may work on the memory of a storage."""
    rt = runtime()
    if rt.uncounted != 0:
        return True
    left = rt.n_flights
    k = 0
    while left > 0 and k < N_FLIGHTS:
        f = nth_flight(k)
        k += 1
        if f.thread == 0:
            continue
        left -= 1
        for j in range(f.n_words):
            if s.data <= f.frame[j] < s.data + max(s.nbytes, 1):
                return True
    return False


@native
def others_fly():
    """Whether another thread is in the middle of a launch, other than such as wait themselves, or are gone."""
    rt = runtime()
    for k in range(N_FLIGHTS):
        f = nth_flight(k)
        if f.thread != 0 and f.thread != rt.thread and f.waits == 0 and is_running(f.thread):
            return True
    return False


@native
def mark_own(waits):
    """Say of the flights of this thread, which is in the middle of a callback, whether it waits for others."""
    for k in range(N_FLIGHTS):
        f = nth_flight(k)
        if f.thread == runtime().thread:
            f.waits = waits


@native
def forget_ended_launches():
    """Take the launches of threads that are gone off the list: in a forked child, all but the one that forked.

    What stands on no list stays counted, so that its memory is never freed. What another thread was recording is
    nobody's any more.
    """
    if runtime().recorder != 0 and not is_running(runtime().recorder_thread):
        runtime().recorder = 0
    for k in range(N_FLIGHTS):
        f = nth_flight(k)
        if f.thread != 0 and not is_running(f.thread):
            land(k)
