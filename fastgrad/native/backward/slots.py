"""What a pass knows of each node: pending gradients, dependency counts, and the heap of ready nodes.

Note [Slots]: what belongs to a pass lies in the task's slots. A node knows its slot of the one task that owns it; other
tasks under way over the same node find theirs in a hash table.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    native,
    native_inline,
    node,
    runtime,
    slot,
    task,
    words,
)
from fastgrad.native.contracts.flags import FILTERED
from fastgrad.native.contracts.records import SLOT, SLOT_WORDS
from fastgrad.native.contracts.status import NOT_FOUND, OK
from fastgrad.native.memory.buffers import allocate, deallocate, grow, room

SLOT_BYTES = SLOT_WORDS * 8
INLINE_GRADS = SLOT.offset("inline")


# --- slots -----------------------------------------------------------------------------------------------------


@native_inline
def slot_at(t, index):
    """The record of a slot by its index."""
    return slot(t.slots + index * SLOT_BYTES)


@native_inline
def grads_of(t, index):
    """The pending gradients of a slot, one word per output of its node."""
    s = slot_at(t, index)
    return words(s.grads if s.grads != 0 else t.slots + index * SLOT_BYTES + INLINE_GRADS)


@native
def owner_lives(owner):
    """Whether the pass of number `owner`, which has slots in nodes, is still under way."""
    current = runtime().current_task
    while current != 0:
        if task(current).id == owner:
            return True
        current = task(current).previous
    return False


@native
def hash_place(t, n):
    """Where node `n` is or would be in the hash table of a task."""
    mask = t.cap_table - 1
    at = ((n >> 6) * 0x9E3779B97F4A7C1) & mask
    table = words(t.table)
    while table[2 * at] != 0 and table[2 * at] != n:
        at = (at + 1) & mask
    return at


@native
def hash_insert(t, n, index):
    """Let the hash table of a task say where the slot of a node is. A status."""
    if t.cap_table == 0 or 2 * (t.n_table + 1) > t.cap_table:
        old = t.table
        old_cap = t.cap_table
        cap = max(64, 2 * old_cap)
        fresh = allocate(cap * 16)
        if failed(fresh):
            return fresh
        for k in range(2 * cap):
            words(fresh)[k] = 0
        t.table = fresh
        t.cap_table = cap
        for k in range(old_cap):
            if words(old)[2 * k] != 0:
                at = hash_place(t, words(old)[2 * k])
                words(fresh)[2 * at] = words(old)[2 * k]
                words(fresh)[2 * at + 1] = words(old)[2 * k + 1]
        if old != 0:
            deallocate(old, old_cap * 16)
    at = hash_place(t, n)
    words(t.table)[2 * at] = n
    words(t.table)[2 * at + 1] = index
    t.n_table += 1
    return OK


@native_inline
def find_slot(t, n):
    """The slot of a node in a task, or NOT_FOUND."""
    record = node(n)
    if record.owner == t.id:
        return record.slot
    return find_hashed(t, n)


@native
def find_hashed(t, n):
    """The slot of a node whose own place belongs to another pass, or NOT_FOUND."""
    if t.cap_table == 0:
        return NOT_FOUND
    at = hash_place(t, n)
    return words(t.table)[2 * at + 1] if words(t.table)[2 * at] == n else NOT_FOUND


@native
def new_slot(t, n):
    """A slot for a node that has none yet; its index or NO_MEMORY."""
    cap = room(t.n_slots, t.cap_slots, 1)
    fresh = grow(t.slots, t.n_slots * SLOT_WORDS, t.cap_slots * SLOT_WORDS, cap * SLOT_WORDS)
    if failed(fresh):
        return fresh
    t.slots = fresh
    t.cap_slots = cap
    index = t.n_slots
    record = node(n)
    s = slot_at(t, index)
    s.node = n
    s.deps = 0
    s.needed = 0
    s.capture = 0
    s.grads = 0
    s.inline[0] = 0
    s.inline[1] = 0
    if record.n_out > 2:
        grads = allocate(record.n_out * 8)
        if failed(grads):
            return grads
        s.grads = grads
        for k in range(record.n_out):
            words(s.grads)[k] = 0
    t.n_slots += 1
    if record.owner == 0 or not owner_lives(record.owner):
        record.owner = t.id
        record.slot = index
    else:
        status = hash_insert(t, n, index)
        if failed(status):
            return status
    return index


@native
def slot_of(t, n):
    """The slot of a node in a task, made if it has none yet, or NO_MEMORY."""
    index = find_slot(t, n)
    return new_slot(t, n) if index == NOT_FOUND else index


@native
def is_wanted(t, s):
    """Whether a pass has to do with a slot's node: runs it, or at least captures its gradients."""
    return not t.flags & FILTERED or s.needed != 0 or s.capture != 0


@native
def prepare(t, index):
    """Make a slot's node the current one; a status."""
    n = node(slot_at(t, index).node)
    t.slot = index
    t.node = slot_at(t, index).node
    t.grads = address_of(grads_of(t, index))
    t.n_grads = n.n_out
    cap = room(0, t.cap_results, max(n.n_in, 1))
    fresh = grow(t.results, 0, t.cap_results, cap)
    if failed(fresh):
        return fresh
    t.results = fresh
    t.cap_results = cap
    t.n_results = n.n_in
    for k in range(n.n_in):
        words(t.results)[k] = 0
    return 0


# --- the heap of ready nodes -----------------------------------------------------------------------------------
# The same sifting as C++'s std::push_heap and std::pop_heap, so that nodes with equal sequence numbers leave in
# the order in which they leave PyTorch's queue.


@native
def sift_up(q, hole, key, value):
    """Let a pair of key and value rise in the heap `q` from the place `hole` to where it belongs."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if q[2 * parent] >= key:
            break
        q[2 * hole] = q[2 * parent]
        q[2 * hole + 1] = q[2 * parent + 1]
        hole = parent
    q[2 * hole] = key
    q[2 * hole + 1] = value


@native
def push_ready(t, index):
    """Put a slot on the heap of those that may run. A status."""
    cap = room(t.n_heap, t.cap_heap, 1)
    fresh = grow(t.heap, t.n_heap * 2, t.cap_heap * 2, cap * 2)
    if failed(fresh):
        return fresh
    t.heap = fresh
    t.cap_heap = cap
    t.n_heap += 1
    sift_up(words(t.heap), t.n_heap - 1, node(slot_at(t, index).node).seq, index)
    return OK


@native
def pop_ready(t):
    """Take the slot whose node was made last from the heap, which must not be empty; returns its index."""
    q = words(t.heap)
    top = q[1]
    t.n_heap -= 1
    n = t.n_heap
    if n == 0:
        return top
    key = q[2 * n]
    value = q[2 * n + 1]
    hole = 0
    child = 0
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if q[2 * child] < q[2 * (child - 1)]:
            child -= 1
        q[2 * hole] = q[2 * child]
        q[2 * hole + 1] = q[2 * child + 1]
        hole = child
    if n & 1 == 0 and child == (n - 2) // 2:
        child = 2 * child + 1
        q[2 * hole] = q[2 * child]
        q[2 * hole + 1] = q[2 * child + 1]
        hole = child
    sift_up(q, hole, key, value)
    return top
