"""Saved tensors in the keeping of saved-tensor hooks: what Python's `pack` returned stands in the node's object.

A place that is packed holds no tensor. What `unpack` gives back belongs to the pass at work alone: another pass over
the node, from within `unpack` or in another thread, asks for its own.
"""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, native_inline, native_once, node, runtime, tensor, words
from fastgrad.native.base.modes import enter, put_back
from fastgrad.native.base.pyapi import none, py_decref, py_incref, py_integer
from fastgrad.native.contracts.flags import (
    GRAD_ENABLED,
    IS_PACKED,
    MUTATION_HOOKS,
    PACKED,
    SAVED_FREED,
    WRAPPED_NUMBER,
)
from fastgrad.native.contracts.limits import SAVED_INPUTS, SAVED_SLOTS
from fastgrad.native.contracts.status import FREED_GRAPH, OK, RAISED
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.references import drop, drop_node, release_place, retain, retain_node
from fastgrad.native.memory.tapes import note_python
from fastgrad.native.objects.handles import never_made, object_handle, wrap, wrap_node
from fastgrad.native.tensors.tensors import own_memory


@native_once
def call_saved_hook(function, n, k, third):
    """Call ``function(node, k, third)`` with gradients off; takes over `third`. The answer, zero if it raised."""
    rt = runtime()
    mode = rt.mode
    rt.mode = mode & ~GRAD_ENABLED
    retain_node(n)
    o = wrap_node(n)
    number = py_integer(k)
    answer = 0
    if o != 0 and number != 0 and third != 0:
        answer = call_python(function, 3, o, number, third)
    for held in (o, number, third):
        if held != 0:
            py_decref(held)
    drop_node(n)
    enter()
    put_back(mode)
    return answer


@native_once
def show_tensor(function, h):
    """Call ``function(tensor)``. OK or RAISED."""
    retain(h)
    o = wrap(h)
    answer = call_python(function, 1, o) if o != 0 else 0
    if o != 0:
        py_decref(o)
    if answer == 0:
        return RAISED
    py_decref(answer)
    return OK


@native
def about_to_change(h):
    """To be called before a tensor changes in place: it gets memory of its own, and hooks see it. A status."""
    status = own_memory(h)
    if failed(status):
        return status
    if runtime().mode & MUTATION_HOOKS and failed(show_tensor(runtime().before_mutation, h)):
        return RAISED
    return 0


@native
def announce(n):
    """Tell those who want to know that a node was made. OK or RAISED."""
    note_python()
    answer = call_saved_hook(runtime().node_created, n, 0, new_reference(none()))
    if answer == 0:
        return RAISED
    py_decref(answer)
    return OK


@native
def pack_place(n, k, h):
    """Hand a tensor that is to be saved in place `k` of a node to the hooks. OK or RAISED."""
    retain(h)
    answer = call_saved_hook(runtime().pack_saved, n, k, wrap(h))
    if answer == 0:
        return RAISED
    py_decref(answer)
    mark_packed(n, k)
    return OK


@native
def mark_packed(n, k):
    """Place `k` of a node is in the keeping of hooks from now on."""
    record = node(n)
    words(record.saved)[2 * k + 1] = IS_PACKED
    record.flags |= PACKED
    record.n_saved += 1


@native_inline
def place_at(info, i):
    """The i-th of an op's saved places: see Note [One order] in `contracts.ops`."""
    return (info.saved_order >> (4 * i)) & 15


@native
def unpack_places(n, info, values):
    """Write what a node saved, as far as hooks have it what `unpack` gives back, in its op's order, with references.

    The mask of the places, or a negative status with none of them.
    """
    saved = words(node(n).saved)
    done = 0
    packed = 0
    for k in range(SAVED_SLOTS):
        values[k] = saved[2 * k]
        if values[k] != 0:
            retain(values[k])
            done |= 1 << k
        elif saved[2 * k + 1] == IS_PACKED:
            packed |= 1 << k
    for i in range(SAVED_SLOTS):
        k = place_at(info, i)
        if not packed & (1 << k):
            continue
        status = unpack_place(n, k, values)
        if failed(status):
            release_unpacked(done, values)
            return status
        done |= 1 << k
    return done


@native
def unpack_place(n, k, values):
    """Write what `unpack` gives back for one place of a node, with a reference. A status."""
    if node(n).flags & SAVED_FREED:  # by a pass that the hook of another place has run
        return FREED_GRAPH
    answer = call_saved_hook(runtime().unpack_saved, n, k, new_reference(none()))
    if answer == 0:
        return RAISED
    values[k] = object_handle(answer)
    if values[k] == 0:
        never_made()
    else:
        retain(values[k])
    py_decref(answer)
    return OK if values[k] != 0 else RAISED


@native
def release_unpacked(done, values):
    """Drop what `unpack_places` wrote, by its mask."""
    for k in range(SAVED_SLOTS):
        if done & (1 << k):
            drop(values[k])


@native
def new_reference(o):
    """A new reference to an object."""
    py_incref(o)
    return o


@native_once
def pack_inputs(handle, info, ins):
    """Let the saved-tensor hooks have the inputs that a node saved, but for numbers: see Note [One order] in
    `contracts.ops`. OK or RAISED.
    """
    saved = words(node(handle).saved)
    for i in range(SAVED_SLOTS):
        place = place_at(info, i)
        if place >= SAVED_INPUTS or saved[2 * place] == 0 or tensor(ins[place]).flags & WRAPPED_NUMBER:
            continue
        release_place(saved, place)
        if failed(pack_place(handle, place, ins[place])):
            return RAISED
    return OK


@native_once
def pack_outputs(handle, outs):
    """Let the saved-tensor hooks have the outputs that a node saved. OK or RAISED."""
    info = op_record(node(handle).op)
    saved = words(node(handle).saved)
    for i in range(SAVED_SLOTS):
        place = place_at(info, i)
        if place < SAVED_INPUTS or saved[2 * place] == 0:
            continue
        release_place(saved, place)
        if failed(pack_place(handle, place, outs[place - SAVED_INPUTS])):
            return RAISED
    return OK
