"""Saved tensors in the keeping of saved-tensor hooks: what Python's `pack` returned stands in the node's object.

A place that is packed holds no tensor. For the time in which the derivative runs, it holds what `unpack` gave back.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, native_once, node, runtime, words
from fastgrad.native.base.modes import enter, put_back
from fastgrad.native.base.pyapi import none, py_decref, py_incref, py_integer, py_list_item, py_list_size
from fastgrad.native.contracts.flags import GRAD_ENABLED, IS_PACKED, MUTATION_HOOKS, PACKED
from fastgrad.native.contracts.status import OK, RAISED
from fastgrad.native.memory.references import drop_node, release_reference, retain, retain_node
from fastgrad.native.objects.handles import call_python, never_made, object_handle, wrap, wrap_node
from fastgrad.native.tensors.tensors import own_memory


@native_once
def ask(function, n, k, third):
    """Call ``function(node, k, third)`` with gradients off; takes over `third`. The answer, zero if it raised."""
    rt = runtime()
    mode = rt.mode
    rt.mode = mode & ~GRAD_ENABLED
    retain_node(n)
    o = wrap_node(n, rt.node_type)
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
    answer = call_python(function, 1, o, 0, 0) if o != 0 else 0
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
    answer = ask(runtime().node_created, n, 0, same(none()))
    if answer == 0:
        return RAISED
    py_decref(answer)
    return OK


@native
def pack_place(n, k, h):
    """Hand a tensor that is to be saved in place `k` of a node to the hooks. OK or RAISED."""
    retain(h)
    answer = ask(runtime().pack_saved, n, k, wrap(h))
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


@native
def unpack_places(n, mask):
    """Fill the packed places that `mask` (see `OpInfo.save`) names with what `unpack` gives back. OK or RAISED."""
    saved = words(node(n).saved)
    wanted = 0
    for k in range(node(n).n_places):
        if saved[2 * k + 1] == IS_PACKED and saved[2 * k] == 0 and mask & (1 << k if k < 4 else 16 << k):
            wanted |= 1 << k
    if wanted == 0:
        return OK
    answer = ask(runtime().unpack_saved, n, wanted, same(none()))
    if answer == 0:
        return RAISED
    at = 0
    for k in range(node(n).n_places):
        if wanted & (1 << k) and at < py_list_size(answer):
            h = object_handle(py_list_item(answer, at))
            at += 1
            if h == 0:
                never_made()
                py_decref(answer)
                return RAISED
            retain(h)
            saved[2 * k] = h
    py_decref(answer)
    return OK


@native
def same(o):
    """A new reference to an object."""
    py_incref(o)
    return o


@native
def forget_unpacked(n):
    """Drop what `unpack_places` put into the packed places."""
    saved = words(node(n).saved)
    for k in range(node(n).n_places):
        if saved[2 * k + 1] == IS_PACKED and saved[2 * k] != 0:
            release_reference(saved[2 * k])
            saved[2 * k] = 0
