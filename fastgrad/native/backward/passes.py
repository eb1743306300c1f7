"""A pass over the graph as a record, a task: built from roots and wishes, asked by Python, released at its end."""

from __future__ import annotations

from fastgrad.native.backward.gradients import add_gradient
from fastgrad.native.backward.order import mark_needed
from fastgrad.native.backward.pass_plans import plan_of_pass_ends
from fastgrad.native.backward.slots import (
    SLOT_BYTES,
    find_slot,
    grads_of,
    push_ready,
    slot_at,
    slot_of,
)
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    capture,
    native,
    native_once,
    node,
    runtime,
    stack_small,
    task,
    words,
)
from fastgrad.native.base.modes import enter, put_back, set_setting
from fastgrad.native.base.pyapi import (
    none,
    py_decref,
    py_dict_delete,
    py_dict_get,
    py_dict_new,
    py_dict_set,
    py_incref,
)
from fastgrad.native.contracts.flags import ACCUMULATE, FILTERED, PASS_SETTINGS
from fastgrad.native.contracts.limits import MAX_NESTED
from fastgrad.native.contracts.records import CAPTURE_WORDS, TASK_KIND
from fastgrad.native.contracts.status import NESTED_TOO_DEEP, NO_MEMORY, NOT_FOUND, OK, RAISED
from fastgrad.native.memory.buffers import deallocate, grow, room
from fastgrad.native.memory.records import WORDS_TASK, new_task_record, retire_record
from fastgrad.native.memory.references import (
    drain,
    release_node,
    release_reference,
    retain,
    retain_node,
)


@native
def task_new(flags):
    """Begin a pass; returns the task's handle or a failure."""
    rt = runtime()
    outer = current_pass() if rt.current_task != 0 else 0
    depth = task(outer).depth + 1 if outer != 0 else 1
    if depth > MAX_NESTED:
        return NESTED_TOO_DEEP
    handle = new_task_record()
    if failed(handle):
        return handle
    t = task(handle)
    rt.task_id += 1
    t.id = rt.task_id
    t.flags = flags
    t.previous = rt.current_task
    t.thread = rt.thread
    for k in range(PASS_SETTINGS):
        t.settings[k] = rt.settings[k]
        if t.settings[k] != 0:
            py_incref(t.settings[k])
    t.depth = depth
    rt.current_task = handle
    return handle


@native
def current_pass():
    """The innermost pass of the calling thread, or 0."""
    enter()
    handle = runtime().current_task
    while handle != 0 and task(handle).thread != runtime().thread:
        handle = task(handle).previous
    return handle


@native
def current_pass_id():
    """The number of the innermost pass of the calling thread, unique in the process and increasing; 0 if none."""
    handle = current_pass()
    return task(handle).id if handle != 0 else 0


@native
def will_run(handle, n, hooks):
    """Whether a pass runs a node or, with `hooks`, at least the hooks of its tensors."""
    t = task(handle)
    index = find_slot(t, n)
    if index == NOT_FOUND:
        return 0
    s = slot_at(t, index)
    if not t.flags & FILTERED or s.needed != 0:
        return 1
    return 1 if hooks != 0 and s.capture != 0 else 0


@native
def add_capture(t, n, output_nr, result, following):
    """Append a capture to the list of a pass. A status."""
    cap = room(t.n_captures, t.cap_captures, 1)
    fresh = grow(
        t.captures, t.n_captures * CAPTURE_WORDS, t.cap_captures * CAPTURE_WORDS, cap * CAPTURE_WORDS
    )
    if failed(fresh):
        return fresh
    t.captures = fresh
    t.cap_captures = cap
    c = capture(t.captures + t.n_captures * CAPTURE_WORDS * 8)
    c.node = n
    c.output_nr = output_nr
    c.result = result
    c.next = following
    t.n_captures += 1
    return OK


@native
def add_root(handle, n, output_nr, gradient):
    """Start from output `output_nr` of a node. OK or a failure."""
    t = task(handle)
    index = slot_of(t, n)
    if failed(index):
        return index
    slot_at(t, index).deps += 1
    # Roots wait in the list of captures until `task_start` seeds them: their order is the caller's.
    status = add_capture(t, n, output_nr, gradient, -1)
    if failed(status):
        return status
    retain_node(n)
    retain(gradient)
    t.n_roots += 1
    return OK


@native
def discover(t):
    """Give every node that the roots reach a slot and count its producers."""
    at = 0
    while at < t.n_slots:
        n = node(slot_at(t, at).node)
        edges = words(n.edges)
        for k in range(n.n_in):
            following = edges[2 * k]
            if following == 0:
                continue
            index = slot_of(t, following)
            if failed(index):
                return index
            slot_at(t, index).deps += 1
        at += 1
    return 0


@native
def add_wanted(handle, n, output_nr):
    """Ask for the gradient that arrives at a node: captured, or where gradients accumulate by running the node.

    OK or a failure. Captures stand behind the roots, in the order in which they are asked for.
    """
    t = task(handle)
    index = find_slot(t, n) if n != 0 else NOT_FOUND
    if t.flags & ACCUMULATE:
        if index != NOT_FOUND:
            slot_at(t, index).needed = 1
        return OK
    if index == NOT_FOUND:  # the pass does not come there
        return add_capture(t, 0, 0, 0, 0)
    status = add_capture(t, n, output_nr, 0, slot_at(t, index).capture)
    if failed(status):
        return status
    slot_at(t, index).capture = t.n_captures  # index + 1
    return OK


@native
def task_start(handle):
    """Seed the roots; after this `sweep` may run. A status."""
    t = task(handle)
    if t.plan == 0 and t.flags & FILTERED and failed(mark_needed(t)):
        return NO_MEMORY
    for k in range(t.n_captures):
        c = capture(t.captures + k * CAPTURE_WORDS * 8)
        if c.next != -1:
            continue
        index = find_slot(t, c.node)
        gradient = c.result
        c.result = 0
        if gradient != 0:
            status = add_gradient(t, grads_of(t, index), c.output_nr, gradient)
            if failed(status):
                return status
        s = slot_at(t, index)
        s.deps -= 1
        if t.plan == 0 and s.deps == 0 and failed(push_ready(t, index)):
            return NO_MEMORY
    return 0


@native
def leave_chain(handle):
    """Take a pass out of the chain of those under way."""
    rt = runtime()
    if rt.current_task == handle:
        rt.current_task = task(handle).previous
        return
    current = rt.current_task
    while current != 0:
        if task(current).previous == handle:
            task(current).previous = task(handle).previous
            return
        current = task(current).previous


@native_once
def restore_settings(t):
    """Put back the settings that a pass began with. Any code may run."""
    rt = runtime()
    for k in range(PASS_SETTINGS):
        chain = t.settings[k]
        if rt.settings[k] != chain:
            if chain != 0:
                py_incref(chain)
            changed = set_setting(k, chain)
            if changed != 0:
                py_decref(changed)
                enter()


@native_once
def task_end(handle, mode):
    """End a pass, whether it came to its end or not: put back modes and settings and release all that it holds."""
    enter()
    t = task(handle)
    restore_settings(t)
    put_back(mode)
    leave_chain(handle)
    for index in range(t.n_slots):
        s = slot_at(t, index)
        n = node(s.node)
        grads = grads_of(t, index)
        for k in range(n.n_out):
            if grads[k] != 0:
                release_reference(grads[k])
                grads[k] = 0
        if s.grads != 0:
            deallocate(s.grads, n.n_out * 8)
            s.grads = 0
        if n.owner == t.id:
            n.owner = 0
    for k in range(t.n_results):
        if words(t.results)[k] != 0:
            release_reference(words(t.results)[k])
            words(t.results)[k] = 0
    for k in range(t.n_captures):
        c = capture(t.captures + k * CAPTURE_WORDS * 8)
        if c.result != 0:
            release_reference(c.result)
        if c.next == -1:
            release_node(c.node)
    if t.slots != 0:
        deallocate(t.slots, t.cap_slots * SLOT_BYTES)
    if t.heap != 0:
        deallocate(t.heap, t.cap_heap * 16)
    if t.table != 0:
        deallocate(t.table, t.cap_table * 16)
    if t.captures != 0:
        deallocate(t.captures, t.cap_captures * CAPTURE_WORDS * 8)
    if t.results != 0:
        deallocate(t.results, t.cap_results * 8)
    if t.key != 0:
        deallocate(t.key, t.cap_key * 8)
    plan_of_pass_ends(t)
    held = words(stack_small())
    for k in range(PASS_SETTINGS):
        held[k] = t.settings[k]
    held[PASS_SETTINGS] = t.kept
    held[PASS_SETTINGS + 1] = t.collected
    retire_record(handle, TASK_KIND, WORDS_TASK)
    if runtime().dead != 0:
        drain()
    for k in range(PASS_SETTINGS + 2):
        if held[k] != 0:
            py_decref(held[k])
    enter()


@native
def kept_by_pass(handle):
    """The dict of what Python keeps for a pass, a new reference; zero with an exception set."""
    t = task(handle)
    if t.kept == 0:
        t.kept = py_dict_new()
        if t.kept == 0:
            return 0
    py_incref(t.kept)
    return t.kept


@native
def keep_until(n, key, value):
    """Keep something for the pass under way, if that runs the node `n`, which is to take it. A status."""
    handle = current_pass()
    if handle == 0 or will_run(handle, n, 0) == 0:
        return OK
    kept = kept_by_pass(handle)
    if kept == 0:
        return RAISED
    status = py_dict_set(kept, key, value)
    py_decref(kept)
    return OK if status == 0 else RAISED


@native
def take_kept(key):
    """Take what `keep_until` keeps for the pass under way, a new reference; None if there is nothing."""
    handle = current_pass()
    kept = task(handle).kept if handle != 0 else 0
    value = 0
    if kept != 0:
        py_incref(kept)
        value = py_dict_get(kept, key)
        if value != 0:
            py_incref(value)
            if py_dict_delete(kept, key) != 0:
                py_decref(value)
                value = RAISED
        py_decref(kept)
    if value == 0:
        value = none()
        py_incref(value)
    return value
