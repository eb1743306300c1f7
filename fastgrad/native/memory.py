"""Records, buffers and reference counts.

Records come from free lists, one a kind, and are never given back to the system: destructors may run until the
very end of the interpreter. Buffers come from bins, four sizes to each doubling. In debug mode a freed record
waits in a quarantine, its words poisoned, and every buffer lies between two guard words.

Note [Dropping]: `drop` takes one reference. A record without references goes onto a list, and one loop empties
the list, so that a chain of a million nodes is freed without recursion. Python may run inside that loop (the
owner of foreign memory, hooks); what it drops is appended to the same list.

Note [Nodes and their objects]: once Python has seen a node, its record and its object (`pyobjects`) are one: each
native reference to the node also is a reference to the object, and the record goes when the object is destroyed.
So CPython's garbage collector sees who holds whom: a hook that holds its own node or tensor is collected.
"""

from __future__ import annotations

import sys

from fastgrad.flags import DEBUG
from fastgrad.native.intrinsics import (
    leading_zeros,
    madvise,
    memset,
    native,
    native_inline,
    native_once,
    node,
    node_object,
    posix_memalign,
    release,
    runtime,
    stack_small,
    storage,
    tape,
    task,
    tensor,
    words,
)
from fastgrad.native.layout import (
    FREED,
    GUARD,
    IS_PACKED,
    MAGIC,
    N_BINS,
    NODE,
    NODE_KIND,
    PACKED,
    POISON,
    QUARANTINE,
    QUEUED,
    RETAINS_GRAD,
    STORAGE,
    STORAGE_KIND,
    TAPE,
    TAPE_KIND,
    TASK,
    TASK_KIND,
    TENSOR,
    TENSOR_KIND,
)
from fastgrad.native.modes import enter
from fastgrad.native.pyapi import py_decref, py_incref

SLAB = 64  # records to each request of the system
HUGE = 4 << 20  # buffers from here on ask for large pages
LINUX = sys.platform == "linux"
MADV_HUGEPAGE = 14
RECORD_WORDS = (STORAGE.words, TENSOR.words, NODE.words, TASK.words, TAPE.words)
WORDS_STORAGE, WORDS_TENSOR, WORDS_NODE, WORDS_TASK, WORDS_TAPE = RECORD_WORDS
EDGES_OFFSET = NODE.offset("inline_edges")
SAVED_OFFSET = NODE.offset("inline_saved")
META_OFFSET = NODE.offset("inline_meta")
ATTRS_OFFSET = NODE.offset("inline_attrs")
META_BYTES = 8 * NODE.fields["inline_meta"][1]


# --- buffers ---------------------------------------------------------------------------------------------------


@native_inline
def bin_of(nbytes):
    """The smallest bin whose buffers hold `nbytes`."""
    if nbytes <= 64:
        return 0
    e = 63 - leading_zeros(nbytes - 1)
    return (e - 6) * 4 + (((nbytes - 1) >> (e - 2)) & 3) + 1


@native_inline
def bin_size(index):
    """Bytes of a buffer of bin `index`."""
    if index == 0:
        return 64
    e = ((index - 1) >> 2) + 6
    return (1 << e) + ((((index - 1) & 3) + 1) << (e - 2))


@native
def system_allocate(nbytes):
    """`nbytes` from the system, 64-byte aligned; zero if there are none."""
    slot = stack_small()
    if LINUX and nbytes >= HUGE:
        if posix_memalign(slot, 1 << 21, nbytes) != 0:
            return 0
        madvise(words(slot)[0], nbytes, MADV_HUGEPAGE)
    elif posix_memalign(slot, 64, nbytes) != 0:
        return 0
    return words(slot)[0]


@native
def empty_cache():
    """Give the cached buffers back to the system; returns the number of bytes."""
    rt = runtime()
    freed = 0
    for index in range(N_BINS):
        address = rt.bins[index]
        while address != 0:
            following = words(address)[0]
            base = address - 64 if DEBUG else address
            release(base)
            freed += bin_size(index)
            address = following
        rt.bins[index] = 0
    rt.cached_bytes -= freed
    return freed


@native
def allocate(nbytes):
    """The address of a buffer of at least `nbytes`, 64-byte aligned, or zero."""
    rt = runtime()
    index = bin_of(nbytes)
    size = bin_size(index)
    address = rt.bins[index]
    if rt.limit_bytes > 0 and rt.live_bytes + size > rt.limit_bytes:
        return 0
    if address != 0:
        rt.bins[index] = words(address)[0]
        rt.cached_bytes -= size
    else:
        wanted = size + 128 if DEBUG else size
        address = system_allocate(wanted)
        if address == 0:
            if empty_cache() == 0:
                return 0
            address = system_allocate(wanted)
            if address == 0:
                return 0
        if DEBUG:
            address += 64
    if DEBUG:
        memset(address, 0xCB, size)
        words(address)[-1] = GUARD
        words(address + size)[0] = GUARD
    rt.live_bytes += size
    if rt.live_bytes > rt.peak_bytes:
        rt.peak_bytes = rt.live_bytes
    return address


@native
def deallocate(address, nbytes):
    """Return a buffer of `nbytes` to its bin."""
    rt = runtime()
    index = bin_of(nbytes)
    size = bin_size(index)
    if DEBUG:
        if words(address)[-1] != GUARD or words(address + size)[0] != GUARD:
            rt.error[7] += 1  # a kernel wrote outside its buffer: reported by debug.check()
        memset(address, 0xCB, size)
    words(address)[0] = rt.bins[index]
    rt.bins[index] = address
    rt.live_bytes -= size
    rt.cached_bytes += size


# --- records ---------------------------------------------------------------------------------------------------


@native_once
def refill(kind, size):
    """Put a slab of fresh records on the free list of `kind`."""
    rt = runtime()
    slab = system_allocate(SLAB * size * 8)
    if slab == 0:
        return 0
    memset(slab, 0, SLAB * size * 8)
    for k in range(SLAB):
        record = tensor(slab + k * size * 8)
        record.magic = FREED
        record.link = rt.free[kind]
        rt.free[kind] = slab + k * size * 8
    return 1


@native_inline
def new_record(kind, size):
    """A record of `kind` with one reference, or zero. Only its header is filled."""
    rt = runtime()
    handle = rt.free[kind]
    if handle == 0:
        if refill(kind, size) == 0:
            return 0
        handle = rt.free[kind]
    record = tensor(handle)
    rt.free[kind] = record.link
    record.magic = MAGIC + kind
    record.refs = 1
    rt.live[kind] += 1
    return handle


@native
def retire_record(handle, kind, size):
    """Free a record: to the free list, or in debug mode to the end of the quarantine."""
    rt = runtime()
    record = tensor(handle)
    record.magic = FREED
    record.generation += 1
    rt.live[kind] -= 1
    if DEBUG:
        for k in range(4, size):
            words(handle)[k] = POISON
        record.link = 0
        if rt.quarantine[kind] == 0:
            rt.quarantine[kind] = handle
        else:
            tensor(rt.quarantine_tail[kind]).link = handle
        rt.quarantine_tail[kind] = handle
        rt.quarantine_n[kind] += 1
        if rt.quarantine_n[kind] <= QUARANTINE:
            return
        handle = rt.quarantine[kind]
        record = tensor(handle)
        rt.quarantine[kind] = record.link
        rt.quarantine_n[kind] -= 1
    record.link = rt.free[kind]
    rt.free[kind] = handle


@native_inline
def retain(handle):
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


@native
def mark_dead_node(handle):
    n = node(handle)
    if n.variable != 0:
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
    """One more reference to a tensor, and one to its node: see Note [What the collector learns] in `pyobjects`."""
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
def node_object_gone(handle):
    """The object of a node is being destroyed, and the node with it: nobody holds either."""
    node(handle).pyobj = 0
    node(handle).refs = 0
    mark_dead_node(handle)
    drain()


@native
def bury_storage(handle):
    s = storage(handle)
    if s.owner != 0:
        py_decref(s.owner)
        enter()
    elif s.data != 0:
        deallocate(s.data, s.nbytes)
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
def bury_tensor(handle):
    t = tensor(handle)
    if t.flags & RETAINS_GRAD:
        unlink_retained(handle)
    if t.storage != 0:
        release_reference(t.storage)
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
    n.n_saved = 0


@native
def release_place(saved, k):
    """Empty place `k` among those that a node saves tensors in."""
    h = saved[2 * k]
    saved[2 * k] = 0
    if h == 0:
        return
    if saved[2 * k + 1] == IS_PACKED:  # what a hook gave back for the moment
        release_reference(h)
    else:
        release_with_node(h)


@native
def bury_node(handle):
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


@native
def new_storage(nbytes, dtype, device):
    """A storage of `nbytes`, or zero."""
    handle = new_record(STORAGE_KIND, WORDS_STORAGE)
    if handle == 0:
        return 0
    s = storage(handle)
    s.owner = 0
    s.version = 0
    s.device = device
    s.dtype = dtype
    s.nbytes = nbytes
    s.data = allocate(nbytes)
    if s.data == 0:
        retire_record(handle, STORAGE_KIND, WORDS_STORAGE)
        return 0
    if runtime().tape != 0 and not keep_for_tape(handle):
        drop(handle)
        return 0
    return handle


@native
def keep_for_tape(handle):
    """Let the capture under way hold a storage that its launches write to, so that a replay finds it in place."""
    t = tape(runtime().tape)
    if t.n_kept == t.cap_kept:
        cap = max(64, 2 * t.cap_kept)
        fresh = allocate(cap * 8)
        if fresh == 0:
            return False
        for k in range(t.n_kept):
            words(fresh)[k] = words(t.kept)[k]
        if t.kept != 0:
            deallocate(t.kept, t.cap_kept * 8)
        t.kept = fresh
        t.cap_kept = cap
    words(t.kept)[t.n_kept] = handle
    t.n_kept += 1
    retain(handle)
    return True


@native
def new_task_record():
    handle = new_record(TASK_KIND, WORDS_TASK)
    if handle != 0:
        t = task(handle)
        for k in range(4, WORDS_TASK):
            words(handle)[k] = 0
        t.refs = 1
    return handle


@native
def new_tape_record():
    handle = new_record(TAPE_KIND, WORDS_TAPE)
    if handle != 0:
        for k in range(4, WORDS_TAPE):
            words(handle)[k] = 0
    return handle
