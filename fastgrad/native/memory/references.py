"""Reference counts: who holds a record, and what goes with it when nobody does.

Note [Dropping]: `drop` takes one reference. A record without references goes onto a list, and one loop empties
the list, so that a chain of a million nodes is freed without recursion. Python may run inside that loop (the
owner of foreign memory, hooks); what it drops is appended to the same list.

Note [Nodes and their objects]: once Python has seen a node, its record and its object (`objects`) are one: each
native reference to the node also is a reference to the object, and the record goes when the object is destroyed.
So CPython's garbage collector sees who holds whom: a hook that holds its own node or tensor is collected.

Note [Objects that go]: a record knows objects, and a leaf its node, without holding them. Once an object is being
destroyed, any code may run (callbacks of weak references, destructors of what it holds), also before the runtime is
told: a subclass loses what stands in its slots first, and CPython puts off what is nested too deep. So whoever follows
such a link asks whether its end is still there (`living_object`, `living_accumulator`), and destroying an object starts
with cutting the link.
"""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    native_once,
    node,
    node_object,
    runtime,
    storage,
    tensor,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import is_going, py_decref, py_incref
from fastgrad.native.contracts.flags import OWN_COUNTER, PACKED, QUEUED, RETAINS_GRAD
from fastgrad.native.contracts.records import MAGIC, NODE_KIND, STORAGE_KIND, TENSOR_KIND
from fastgrad.native.memory.buffers import deallocate
from fastgrad.native.memory.devices import release_memory
from fastgrad.native.memory.flights import in_flight
from fastgrad.native.memory.places import delist
from fastgrad.native.memory.records import (
    ATTRS_OFFSET,
    EDGES_OFFSET,
    META_BYTES,
    META_OFFSET,
    SAVED_OFFSET,
    WORDS_NODE,
    WORDS_STORAGE,
    WORDS_TENSOR,
    retire_record,
)


@native_inline
def retain(handle):
    """Take a reference to a tensor or storage."""
    tensor(handle).refs += 1


@native_inline
def release_reference(handle):
    """Take one reference; a record without references goes onto the list of the dead."""
    record = tensor(handle)
    record.refs -= 1
    if record.refs == 0:
        rt = runtime()
        record.link = rt.dead
        rt.dead = handle


@native
def retain_counter(handle):
    """One more tensor has its changes counted in a storage that it does not lie in."""
    s = storage(handle)
    s.refs += 1
    s.counters += 1


@native
def release_counter(handle):
    """Take back what `retain_counter` gave."""
    storage(handle).counters -= 1
    release_reference(handle)


@native_inline
def release_storage(handle):
    """Take one reference from a storage; where only counting goes on there, its memory goes."""
    release_reference(handle)
    s = storage(handle)
    if s.refs == s.counters and s.refs != 0:
        free_memory(handle)


@native_inline
def retain_node(handle):
    """One more reference to a node; see Note [Nodes and their objects]."""
    n = node(handle)
    n.refs += 1
    if n.pyobj != 0:
        py_incref(n.pyobj)


@native_inline
def release_node(handle):
    """Take one reference from a node."""
    n = node(handle)
    n.refs -= 1
    if n.pyobj != 0:
        release_node_object(handle)
    elif n.refs == 0:
        mark_dead_node(handle)


@native_inline
def living_object(t):
    """The object that stands for a tensor, or zero; see Note [Objects that go]."""
    o = t.pyobj
    return 0 if o != 0 and is_going(o) else o


@native
def forget_leaf(handle):
    """Let an AccumulateGrad node give up the object of its leaf."""
    n = node(handle)
    o = n.leaf
    n.leaf = 0
    runtime().n_held_objects -= 1
    py_decref(o)


@native
def mark_dead_node(handle):
    """Put a node that nobody holds onto the list of the dead; its leaf does without it from now on."""
    n = node(handle)
    if n.variable != 0 and tensor(n.variable).accumulator == handle:
        tensor(n.variable).accumulator = 0
    rt = runtime()
    n.link = rt.dead
    rt.dead = handle


@native_once
def release_node_object(handle):
    """Take from a node's object the reference that belonged to a native one: the last one on the list of the dead,

    since destroying the object may run any code and may lead to the next node.
    """
    n = node(handle)
    if n.refs > 0 or n.flags & QUEUED:
        py_decref(n.pyobj)
        return
    n.flags |= QUEUED
    rt = runtime()
    n.link = rt.dead
    rt.dead = handle


@native
def retain_with_node(handle):
    """One more reference to a tensor, and one to its node: see Note [What the collector learns] in `collector`."""
    t = tensor(handle)
    t.refs += 1
    t.n_joint += 1
    if t.node != 0:
        retain_node(t.node)


@native
def release_with_node(handle):
    """Take back what `retain_with_node` gave."""
    t = tensor(handle)
    t.n_joint -= 1
    if t.node != 0:
        release_node(t.node)
    release_reference(handle)


@native
def enter_node(handle, node_handle):
    """Make a node that of a tensor which has none; takes over one reference."""
    t = tensor(handle)
    t.node = node_handle
    for _ in range(t.n_joint):
        retain_node(node_handle)


@native
def leave_node(handle):
    """Part a tensor from its node, if it has one."""
    t = tensor(handle)
    left = t.node
    t.node = 0
    if left != 0:
        for _ in range(1 + t.n_joint):
            release_node(left)


@native
def link_view(handle, base):
    """Make a tensor the base of another one, and put that onto the list of its views."""
    t = tensor(handle)
    b = tensor(base)
    retain_with_node(base)
    t.base = base
    t.view_prev = 0
    t.view_next = b.views
    if b.views != 0:
        tensor(b.views).view_prev = handle
    b.views = handle


@native
def unlink_view(handle):
    """Part a view from its base."""
    t = tensor(handle)
    base = t.base
    t.base = 0
    if t.view_prev != 0:
        tensor(t.view_prev).view_next = t.view_next
    else:
        tensor(base).views = t.view_next
    if t.view_next != 0:
        tensor(t.view_next).view_prev = t.view_prev
    release_with_node(base)


@native
def drop_node(handle):
    """Take one reference from a node, and bury what has none left."""
    release_node(handle)
    if runtime().dead != 0:
        drain()


@native
def part_node(handle):
    """The object of a node is being destroyed, and the node with it: nobody holds either. `drain` buries it."""
    node(handle).pyobj = 0
    node(handle).refs = 0
    runtime().n_held_objects -= 1
    mark_dead_node(handle)


@native_inline
def put_off(handle):
    """Whether the memory of a storage has to wait: see Note [Flights] in `flights`. Who waits holds the storage."""
    s = storage(handle)
    if runtime().n_flights == 0 or s.data == 0 or not in_flight(s):
        return False
    rt = runtime()
    s.refs += 1
    s.link = rt.waiting
    rt.waiting = handle
    return True


@native_once
def free_memory(handle):
    """Give back the memory of a storage, or let go of its owner. False where it has to wait."""
    if put_off(handle):
        return False
    s = storage(handle)
    owner = s.owner
    data = s.data
    if DEBUG and data != 0:
        delist(handle)
    s.owner = 0
    s.data = 0
    if owner != 0:
        py_decref(owner)
        enter()
    elif data != 0:
        release_memory(s.device, data, s.nbytes)
    s.nbytes = 0
    return True


@native
def bury_storage(handle):
    """Give back a storage that nobody holds, and its memory, unless a launch works on it."""
    if free_memory(handle):
        retire_record(handle, STORAGE_KIND, WORDS_STORAGE)


@native
def unlink_retained(handle):
    """Remove a tensor from its node's list of tensors that keep their gradient."""
    t = tensor(handle)
    if t.node == 0:
        return
    n = node(t.node)
    if n.retains == handle:
        n.retains = t.retain_next
        return
    current = n.retains
    while current != 0:
        following = tensor(current).retain_next
        if following == handle:
            tensor(current).retain_next = t.retain_next
            return
        current = following


@native
def link_retained(handle, n):
    """Put a tensor on the list of a node of those that keep their gradient."""
    tensor(handle).retain_next = node(n).retains
    node(n).retains = handle


@native
def bury_tensor(handle):
    """Give back a tensor that nobody holds, and let go of what it holds."""
    t = tensor(handle)
    if t.flags & RETAINS_GRAD:
        unlink_retained(handle)
    if t.storage != 0:
        release_storage(t.storage)
    if t.flags & OWN_COUNTER:
        release_counter(t.counter)
    if t.node != 0:
        release_node(t.node)
    if t.grad != 0:
        release_reference(t.grad)
    if t.base != 0:
        unlink_view(handle)
    retire_record(handle, TENSOR_KIND, WORDS_TENSOR)


@native
def release_saved(handle):
    """Drop what a node saved for backward."""
    n = node(handle)
    if n.n_saved == 0:
        return
    if n.flags & PACKED and n.pyobj != 0:
        x = node_object(n.pyobj)
        packed = x.packed
        x.packed = 0
        if packed != 0:
            py_decref(packed)
            enter()
    for k in range(n.n_places):
        release_place(words(n.saved), k)
    if n.flags & PACKED:  # else the next node of this record would find them packed
        for k in range(n.n_places):
            words(n.saved)[2 * k + 1] = 0
    n.n_saved = 0


@native
def release_place(saved, k):
    """Empty place `k` among those that a node saves tensors in."""
    h = saved[2 * k]
    saved[2 * k] = 0
    if h != 0:
        release_with_node(h)


@native
def bury_node(handle):
    """Give back a node that nobody holds.

    What it holds goes with it; the object of a node takes over if it has one.
    """
    n = node(handle)
    if n.pyobj != 0:
        n.flags &= ~QUEUED
        py_decref(n.pyobj)
        enter()
        return
    edges = words(n.edges)
    for k in range(n.n_in):
        if edges[2 * k] != 0:
            release_node(edges[2 * k])
    if n.edges != handle + EDGES_OFFSET:
        deallocate(n.edges, n.n_in * 16)
    if n.metas != handle + META_OFFSET:
        deallocate(n.metas, n.n_out * META_BYTES)
    if n.attrs != handle + ATTRS_OFFSET:
        deallocate(n.attrs, n.n_attrs * 8)
    release_saved(handle)
    if n.saved != handle + SAVED_OFFSET:
        deallocate(n.saved, n.n_places * 16)
    if n.variable != 0:
        release_reference(n.variable)
    if n.leaf != 0:
        forget_leaf(handle)
        enter()
    retire_record(handle, NODE_KIND, WORDS_NODE)


@native_once
def drain():
    """Bury the dead until none are left: see Note [Dropping]."""
    rt = runtime()
    if rt.draining != 0:
        return
    rt.draining = 1
    while rt.dead != 0:
        handle = rt.dead
        record = tensor(handle)
        rt.dead = record.link
        kind = record.magic - MAGIC
        if kind == TENSOR_KIND:
            bury_tensor(handle)
        elif kind == STORAGE_KIND:
            bury_storage(handle)
        elif kind == NODE_KIND:
            bury_node(handle)
    rt.draining = 0


@native
def drop(handle):
    """Take one reference from a record of any kind."""
    release_reference(handle)
    if runtime().dead != 0:
        drain()


@native
def drop_tensor(handle):
    """Take one reference from a tensor."""
    drop(handle)
