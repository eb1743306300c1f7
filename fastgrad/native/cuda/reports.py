"""What kernels report while nobody waits for them.

Note [Late reports]: kernels report what is wrong with an index to memory of the host's that the device reaches too,
so nobody has to wait for them. Whenever something has waited for the device, this is looked at. Launches take places
there in turn, and a place keeps what its launch was until `N_LATE` others were taken: what is reported after that is
raised under the name of a later launch.

A launch of a graph has a place of its own, in a table that is the graph's until it is destroyed, which is not before
somebody has heard what stands there. Tables are used again and never given back, as threads look at them without the
GIL.
"""

from __future__ import annotations

from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import (
    address_of,
    c_free,
    caster,
    malloc,
    memset,
    native,
    native_once,
    stack_small,
    words,
)
from fastgrad.native.contracts.cuda import LATE, LATE_TABLE, N_LATE, REPORTED, SHARED
from fastgrad.native.contracts.frame import FINE
from fastgrad.native.contracts.records import NOTE

note, late, table_at = map(caster, (NOTE, LATE, LATE_TABLE))
host_alloc = function_at("qqi")
LATE_BYTES, TABLE_BYTES = 8 * LATE.words, 8 * LATE_TABLE.words
_FEWEST = 64  # places of a table


@native
def keep_note(place, n):
    """Let a place say whose it is; its address."""
    place.reason = n.reason
    place.kernel = n.kernel
    place.dim = n.dim
    place.last = n.last
    return address_of(place)


# --- of single launches ----------------------------------------------------------------------------------------


@native
def report_place(g, n):
    """Where the launch of a `NOTE` reports to; zero if the launch that had the place before has reported something."""
    place = late(g.late + g.n_late % N_LATE * LATE_BYTES)
    if place.kind != FINE:
        return 0
    g.n_late += 1
    return keep_note(place, n)


@native_once
def forget_reports(g):
    """Begin anew where every launch is waited for: an op has failed of what was reported before, or is tried again."""
    for k in range(min(g.n_late, N_LATE)):
        late(g.late + k * LATE_BYTES).kind = FINE


# --- of graphs -------------------------------------------------------------------------------------------------


@native_once
def new_table(g, wanted):
    """A free table with so many places; zero without memory of the host's."""
    cap = _FEWEST
    while cap < wanted:
        cap *= 2
    place = words(stack_small())
    place[0] = 0
    room = malloc(TABLE_BYTES)
    if room == 0:
        return 0
    t = table_at(room)
    if host_alloc(g.cuMemHostAlloc, address_of(place), cap * LATE_BYTES, SHARED) != 0:
        c_free(room)
        return 0
    memset(place[0], 0, cap * LATE_BYTES)
    t.places = place[0]
    t.cap = cap
    t.taken = 0
    t.next = g.late_tables
    g.late_tables = room
    return room


@native_once
def take_table(g, wanted):
    """A table for so many launches of a graph; zero without memory of the host's."""
    at = g.late_tables
    while at != 0 and (table_at(at).taken != 0 or table_at(at).cap < wanted):
        at = table_at(at).next
    if at == 0:
        at = new_table(g, wanted)
    if at != 0:
        table_at(at).taken = wanted
    return at


@native
def leave_table(table):
    """Let others have a table, if there is one."""
    if table != 0:
        table_at(table).taken = 0


@native_once
def says_something(table):
    """Whether something stands in a table that nobody has heard of; there need be none."""
    if table != 0:
        t = table_at(table)
        for k in range(t.taken):
            if late(t.places + k * LATE_BYTES).kind != FINE:
                return True
    return False


@native_once
def look_for_reports(g):
    """What is to be said of the kernels that are done: `REPORTED`, or 0."""
    for k in range(min(g.n_late, N_LATE)):
        if late(g.late + k * LATE_BYTES).kind != FINE:
            return REPORTED
    at = g.late_tables
    while at != 0:
        if says_something(at):
            return REPORTED
        at = table_at(at).next
    return 0
