"""In which order a pass runs its nodes, and which of them it runs."""

from __future__ import annotations

from fastgrad.native.backward.slots import SLOT_BYTES, find_slot, is_wanted, pop_ready, push_ready, slot_at
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import capture, memcpy, native, native_inline, node, task, words
from fastgrad.native.base.pyapi import py_decref, py_list_append, py_list_new
from fastgrad.native.contracts.flags import FILTERED, REHEARSAL
from fastgrad.native.contracts.records import CAPTURE_WORDS, TASK_KIND
from fastgrad.native.contracts.status import NO_MEMORY, OK
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.records import WORDS_TASK, new_task_record, retire_record
from fastgrad.native.objects.handles import wrap_node


@native
def root_at(t, k):
    """The slot of the k-th root of a pass."""
    return find_slot(t, capture(t.captures + k * CAPTURE_WORDS * 8).node)


@native_inline
def ends_rehearsal(t, s):
    """Whether a rehearsal ends at a node: another pass goes on from what it captures there."""
    return t.flags & REHEARSAL != 0 and s.capture > t.n_roots


@native
def count_edges(t, k, by):
    """Let the slots know to which the node of a slot hands on that there is one place more, or less, to wait for."""
    n = node(slot_at(t, k).node)
    for j in range(n.n_in):
        if words(n.edges)[2 * j] != 0:
            slot_at(t, find_slot(t, words(n.edges)[2 * j])).deps += by


@native
def count_producers(t):
    """Let each slot know from how many places gradients come to it."""
    for k in range(t.n_slots):
        slot_at(t, k).deps = 0
    for k in range(t.n_slots):
        if not t.flags & REHEARSAL or slot_at(t, k).needed != 0:
            count_edges(t, k, 1)
    for k in range(t.n_roots):
        slot_at(t, root_at(t, k)).deps += 1


@native
def leave_out(t, order, count, reached):
    """Let a rehearsal not come to what lies behind the nodes where it ends, nor wait for it.

    `order`: slots, producers first; `reached`: room for a word for each slot.
    """
    for k in range(t.n_slots):
        reached[k] = 0
    for k in range(t.n_roots):
        reached[root_at(t, k)] = 1
    for at in range(count):
        s = slot_at(t, order[at])
        s.needed &= reached[order[at]]
        n = node(s.node)
        for j in range(n.n_in if s.needed != 0 else 0):
            if words(n.edges)[2 * j] != 0:
                reached[find_slot(t, words(n.edges)[2 * j])] = 1
    for k in range(t.n_slots):
        if slot_at(t, k).needed == 0:
            count_edges(t, k, -1)


@native
def mark_needed(t):
    """Find the nodes with a path to what was asked for: children before parents, by counting producers."""
    n_slots = t.n_slots
    order = allocate(n_slots * 8)
    waiting = allocate(n_slots * 8)
    if failed(order) or failed(waiting):
        if not failed(order):
            deallocate(order, n_slots * 8)
        if not failed(waiting):
            deallocate(waiting, n_slots * 8)
        return NO_MEMORY
    count = 0
    for k in range(n_slots):
        words(waiting)[k] = slot_at(t, k).deps
    for k in range(t.n_captures):
        c = capture(t.captures + k * CAPTURE_WORDS * 8)
        if c.next == -1:  # a root: its seed counts as a producer
            words(waiting)[find_slot(t, c.node)] -= 1
    for k in range(n_slots):
        if words(waiting)[k] == 0:
            words(order)[count] = k
            count += 1
    at = 0
    while at < count:
        n = node(slot_at(t, words(order)[at]).node)
        for k in range(n.n_in):
            following = words(n.edges)[2 * k]
            if following != 0:
                index = find_slot(t, following)
                words(waiting)[index] -= 1
                if words(waiting)[index] == 0:
                    words(order)[count] = index
                    count += 1
        at += 1
    for k in range(count - 1, -1, -1):
        s = slot_at(t, words(order)[k])
        if ends_rehearsal(t, s):
            continue
        n = node(s.node)
        for j in range(n.n_in):
            following = words(n.edges)[2 * j]
            if following != 0:
                f = slot_at(t, find_slot(t, following))
                if f.needed != 0 or f.capture != 0:
                    s.needed = 1
    if t.flags & REHEARSAL:
        leave_out(t, words(order), count, words(waiting))
    deallocate(order, n_slots * 8)
    deallocate(waiting, n_slots * 8)
    return 0


@native_inline
def arrives(t, index):
    """One of the gradients that a slot waits for has come, or will not come. A status."""
    s = slot_at(t, index)
    s.deps -= 1
    return push_ready(t, index) if s.deps == 0 else OK


@native
def hand_on(t, index):
    """Let the slots know that wait for what a node gives, but for those that the pass does not want. A status."""
    s = slot_at(t, index)
    if t.flags & FILTERED and s.needed == 0:
        return OK
    n = node(s.node)
    for k in range(n.n_in):
        if words(n.edges)[2 * k] == 0:
            continue
        following = find_slot(t, words(n.edges)[2 * k])
        if is_wanted(t, slot_at(t, following)) and failed(arrives(t, following)):
            return NO_MEMORY
    return OK


@native
def go_through(t, n_begun, n_done, order):
    """Bring counts and heap of a pass to where they stand when so many nodes have begun, and so many handed on.

    Returns how many have begun, or NO_MEMORY. `order` is where to write their slots, or 0.
    """
    count_producers(t)
    t.n_heap = 0
    for k in range(t.n_roots):
        if failed(arrives(t, root_at(t, k))):
            return NO_MEMORY
    at = 0
    while t.n_heap > 0 and at < n_begun:
        index = pop_ready(t)
        if order != 0:
            words(order)[at] = index
        at += 1
        if at <= n_done and failed(hand_on(t, index)):
            return NO_MEMORY
    return at


@native
def execution_order(handle):
    """The nodes that a pass comes to, in this order and from its beginning, as a list; a negative status.

    A copy of the task goes through the motions over a copy of its slots.
    """
    t = task(handle)
    other = new_task_record()
    if failed(other):
        return other
    p = task(other)
    p.flags = t.flags
    p.id = t.id
    p.n_roots = t.n_roots
    p.n_slots = t.n_slots
    p.captures = t.captures
    p.table = t.table
    p.cap_table = t.cap_table
    answer = NO_MEMORY
    p.slots = allocate(t.n_slots * (SLOT_BYTES + 8))
    if not failed(p.slots):
        memcpy(p.slots, t.slots, t.n_slots * SLOT_BYTES)
        order = p.slots + t.n_slots * SLOT_BYTES
        answer = go_through(p, t.n_slots, t.n_slots, order)
        if not failed(answer):
            answer = nodes_at(t, words(order), answer)
        deallocate(p.slots, t.n_slots * (SLOT_BYTES + 8))
    if p.heap != 0:
        deallocate(p.heap, p.cap_heap * 16)
    retire_record(other, TASK_KIND, WORDS_TASK)
    return answer


@native
def nodes_at(t, order, n):
    """The nodes of slots as a list, without roots that lead nowhere; zero with an exception set."""
    found = py_list_new(0)
    for k in range(n):
        s = slot_at(t, order[k])
        if found == 0 or not (is_wanted(t, s) or t.n_roots == 1):
            continue
        o = wrap_node(s.node)
        if o == 0 or py_list_append(found, o) != 0:
            py_decref(found)
            found = 0
        if o != 0:
            py_decref(o)
    return found
