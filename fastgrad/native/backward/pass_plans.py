"""Plans of passes: in which order the nodes of a graph run, found once for all graphs that are built alike.

Note [Plans of passes]: where passes are compiled (`autograd.compiled`), a pass looks for the plan of its key
(see Note [Keys of passes]). If there is none, it makes one, before it runs: it goes through the motions of the heap and
writes down which slot follows which. Then it takes slot after slot from the plan, new or old, without counts, heap and
marks of what is needed. What is done at each node is what any pass does there: hooks, captures, flags are read when
their turn comes, so nothing that changes in the course of a pass is missed. Only the order is fixed, and it depends on
sequence numbers besides: a plan knows the order of these (`ranks`), and a pass whose nodes were made in another one is
not its own. Python can give a node of a running pass another number; the pass then leaves its plan, with counts and
heap as they would be (`leave_plan`).
"""

from __future__ import annotations

from fastgrad.native.backward.order import count_producers, go_through, mark_needed
from fastgrad.native.backward.pass_keys import guess_place, part, put, put_wishes
from fastgrad.native.backward.pass_store import keep_plan, let_go
from fastgrad.native.backward.plain_steps import write_step
from fastgrad.native.backward.slots import find_slot, pop_ready, push_ready, slot_at
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    c_free,
    malloc,
    memcpy,
    native,
    native_inline,
    native_once,
    node,
    pass_plan,
    plain_edge,
    runtime,
    task,
    words,
    words_of,
)
from fastgrad.native.base.pyapi import py_decref, py_incref, py_integer_value, py_tuple_item
from fastgrad.native.contracts.flags import FILTERED
from fastgrad.native.contracts.pass_plans import (
    A_NODE,
    COLLECTED,
    FIRST,
    LENGTH,
    OP_BITS,
    ORDER,
    PLAN_BUCKETS,
    SOME_HOOKS,
    TAG_SHIFT,
)
from fastgrad.native.contracts.status import NO_MEMORY, NOT_FOUND, OK, RAISED

OP_MASK = (1 << OP_BITS) - 1


@native
def sequence_number(t, index):
    """The sequence number of a slot's node."""
    return node(slot_at(t, index).node).seq


@native
def fits_order(t, p):
    """Whether the nodes of a pass were made in the order that a plan knows."""
    ranks = words(p.ranks)
    for k in range(p.n_order - 1):
        newer = sequence_number(t, ranks[k] >> 1)
        older = sequence_number(t, ranks[k + 1] >> 1)
        if (newer <= older) if ranks[k] & 1 == 0 else (newer != older):
            return False
    return True


@native_once
def collect(t):
    """Ask hooks and custom functions what belongs to the key. OK or RAISED. Any code may run."""
    objects = t.collected
    t.collected = 0
    answer = call_python(runtime().collect_args, 1, objects)
    py_decref(objects)
    if answer == 0:
        return RAISED
    put(t, COLLECTED, py_integer_value(py_tuple_item(answer, 0)))
    t.collected = py_tuple_item(answer, 1)
    py_incref(t.collected)
    py_decref(answer)
    return OK


# --- finding a plan --------------------------------------------------------------------------------------------


@native
def hash_of(t):
    """The hash of a key that was written down."""
    h = t.n_key
    for k in range(t.n_key):
        h = (h ^ words(t.key)[k]) * 0x9E3779B97F4A7C1
        h ^= h >> 29
    return h & 0x7FFFFFFFFFFFFFFF


@native
def same_key(t, p):
    """Whether a plan has the key that was written down."""
    if p.n_key != t.n_key:
        return False
    for k in range(t.n_key):
        if words(p.key)[k] != words(t.key)[k]:
            return False
    return True


@native_once
def find_plan(t, key_hash):
    """The plan of a key that was written down, and of the order of a pass's nodes; held. Zero if there is none."""
    address = runtime().pass_plans[key_hash & (PLAN_BUCKETS - 1)]
    while address != 0:
        p = pass_plan(address)
        if p.hash == key_hash and same_key(t, p):
            if fits_order(t, p):
                p.users += 1
                return address
            t.parted = t.n_key + 1
            t.expected = ORDER << TAG_SHIFT
        address = p.next
    return 0


@native
def choose_plan(t):
    """Let a pass have a plan: that of its key, or a new one. OK or a failure."""
    put_wishes(t)
    if t.collected != 0 and failed(collect(t)):
        return RAISED
    rt = runtime()
    if t.guess != 0:
        p = pass_plan(t.guess)
        if t.n_key == p.n_key and fits_order(t, p):
            t.plan = t.guess
            t.guess = 0
        else:
            last = (LENGTH if t.n_key != p.n_key else ORDER) << TAG_SHIFT
            part(t, t.n_key)
            t.expected = last
    if t.parted == NO_MEMORY:
        return NO_MEMORY
    if t.plan == 0:
        key_hash = hash_of(t)
        t.plan = find_plan(t, key_hash)
        if t.plan == 0:
            return make_plan(t, key_hash)
    p = pass_plan(t.plan)
    p.hits += 1
    rt.pass_hits += 1
    if p.doomed == 0:
        rt.plan_guesses[guess_place(t)] = t.plan
    if t.flags & FILTERED:
        for k in range(p.n_slots):
            slot_at(t, k).needed = words(p.needed)[k]
    return OK


# --- making a plan ---------------------------------------------------------------------------------------------


@native
def note_reason(t, p):
    """Write why a plan is made: where the key parted from the one that was expected."""
    p.reason = FIRST
    p.place = -1
    p.op = 0
    if t.parted <= 0:
        return
    expected = t.expected >> TAG_SHIFT
    at = t.parted - 1
    found = words(t.key)[at] >> TAG_SHIFT if at < t.n_key else expected
    p.reason = expected if expected > COLLECTED or expected == SOME_HOOKS else found
    for k in range(min(t.parted, t.n_key)):
        if words(t.key)[k] >> TAG_SHIFT == A_NODE:
            p.place += 1
            p.op = words(t.key)[k] & OP_MASK


@native
def rank(t, p):
    """Write the slots of a plan from the node made last to that made first. A status."""
    t.n_heap = 0
    for k in range(p.n_order):
        if failed(push_ready(t, words(p.order)[k])):
            return NO_MEMORY
    for k in range(p.n_order):
        words(p.ranks)[k] = pop_ready(t) << 1
    for k in range(p.n_order - 1):
        if sequence_number(t, words(p.ranks)[k] >> 1) == sequence_number(t, words(p.ranks)[k + 1] >> 1):
            words(p.ranks)[k] |= 1
    return OK


@native
def count_edges(t):
    """How many edges the nodes of a pass have."""
    count = 0
    for k in range(t.n_slots):
        count += node(slot_at(t, k).node).n_in
    return count


@native
def write_steps(t, p):
    """Write what plain steps know of the nodes of a plan."""
    at = p.steps + 8 * p.n_slots
    for k in range(p.n_order):
        n_words = write_step(t, words(p.order)[k], at)
        words(p.steps)[k] = at if n_words != 0 else 0
        at += 8 * n_words


@native_once
def make_plan(t, key_hash):
    """Make the plan of a pass whose key was written down. OK or a failure."""
    count_producers(t)
    if t.flags & FILTERED and failed(mark_needed(t)):
        return NO_MEMORY
    head = words_of(pass_plan(0))
    nbytes = 8 * (head + t.n_key + 5 * t.n_slots + words_of(plain_edge(0)) * count_edges(t))
    address = malloc(nbytes)
    if address == 0:
        return NO_MEMORY
    p = pass_plan(address)
    p.users = 1
    p.doomed = 0
    p.hits = 0
    p.hash = key_hash
    p.bytes = nbytes
    p.key = address + 8 * head
    p.n_key = t.n_key
    p.order = p.key + 8 * p.n_key
    p.ranks = p.order + 8 * t.n_slots
    p.needed = p.ranks + 8 * t.n_slots
    p.steps = p.needed + 8 * t.n_slots
    p.n_slots = t.n_slots
    p.flags = t.flags
    memcpy(p.key, t.key, 8 * t.n_key)
    for k in range(t.n_slots):
        words(p.needed)[k] = slot_at(t, k).needed
    p.n_order = go_through(t, t.n_slots, t.n_slots, p.order)
    if failed(p.n_order) or failed(rank(t, p)):
        c_free(address)
        return NO_MEMORY
    write_steps(t, p)
    note_reason(t, p)
    keep_plan(address)
    t.plan = address
    runtime().pass_captures += 1
    runtime().plan_guesses[guess_place(t)] = address
    return OK


# --- following a plan ------------------------------------------------------------------------------------------


@native_inline
def is_over(t):
    """Whether no slot is left to run."""
    if t.plan != 0:
        return t.position == pass_plan(t.plan).n_order
    return t.n_heap == 0


@native_inline
def next_slot(t):
    """The slot that runs next."""
    if t.plan != 0:
        at = t.position
        t.position = at + 1
        return words(pass_plan(t.plan).order)[at]
    return pop_ready(t)


@native_once
def leave_plan(t):
    """Let a pass go on without its plan, which it holds to its end: a step may be reading it. OK or NO_MEMORY."""
    if failed(go_through(t, t.position, t.finished, 0)):
        return NO_MEMORY
    t.guess = t.plan
    t.plan = 0
    return OK


@native_once
def set_sequence_nr(n, number):
    """Give a node another place in the order of passes. OK or a failure."""
    current = runtime().current_task
    while current != 0:
        t = task(current)
        if t.plan != 0 and find_slot(t, n) != NOT_FOUND and failed(leave_plan(t)):
            return NO_MEMORY
        current = t.previous
    node(n).seq = number
    return OK


@native
def plan_of_pass_ends(t):
    """A pass ends: it holds no plan any more."""
    for address in (t.plan, t.guess):
        if address != 0:
            let_go(address)
    t.plan = 0
    t.guess = 0
