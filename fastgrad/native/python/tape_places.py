"""Tensors over the memory of bound tapes, for the calls of Python in their replays: see `host.hook_calls`.

How such a tensor lies says a `LAID`, whose words come as an object of bytes.
"""

from __future__ import annotations

from fastgrad.native.backward.boundary import cross_one
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    context_object,
    memcpy,
    native,
    node,
    runtime,
    storage,
    tape,
    tensor,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import bytes_type, py_bytes_text, py_size
from fastgrad.native.contracts.flags import (
    COPY_ON_WRITE,
    PASS_THROUGH,
    POST_HOOKS,
    PRE_HOOKS,
    REQUIRES_GRAD,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.records import LAID, REGION_FRESH
from fastgrad.native.contracts.status import INTERNAL, OK
from fastgrad.native.graph.graph import new_node, write_absent
from fastgrad.native.memory.bindings import laid, lies_within, move, region_of
from fastgrad.native.memory.devices import HOST
from fastgrad.native.memory.references import drain, drop, drop_node, release_storage
from fastgrad.native.memory.storages import new_storage
from fastgrad.native.objects.handles import type_of
from fastgrad.native.python.tape_calls import tensor_in

LAID_BYTES = LAID.words * 8
HOOKED = TENSOR_HOOKS | PRE_HOOKS | POST_HOOKS


@native
def place_of(o, where):
    """The address of what says how a tensor lies, if it can lie so in a region of a bound tape; zero otherwise."""
    handle = context_object(o).tape
    if handle == 0 or tape(handle).program == 0:
        return 0
    if type_of(where) != bytes_type() or py_size(where) != LAID_BYTES:
        return 0
    at = py_bytes_text(where)
    return at if laid(at).region >= 0 and lies_within(tape(handle), at) else 0


@native
def tape_tensor(o, where):
    """A tensor that lies in a region of a bound tape, where that is now; a failure if it cannot lie there."""
    enter()
    at = place_of(o, where)
    if at == 0:
        return fail(INTERNAL, 0, 0)
    return tensor_in(tape(context_object(o).tape), laid(at))


@native
def tape_alias(o, where):
    """The same for memory that others see as well: a change of the tensor gives it memory of its own."""
    h = tape_tensor(o, where)
    if not failed(h):
        tensor(h).flags |= COPY_ON_WRITE
    return h


@native
def tape_input(o, where):
    """The object of such a tensor behind a boundary of the graph: it requires gradients, and a pass ends there."""
    h = tape_tensor(o, where)
    if failed(h):
        return h
    tensor(h).flags |= REQUIRES_GRAD
    n = new_node(runtime().boundary_op, 1, 1, 0)
    if failed(n):
        drop(h)
        return n
    node(n).flags |= PASS_THROUGH
    write_absent(words(node(n).metas))
    crossed = cross_one(n, 0, h)
    drop_node(n)
    drop(h)
    return crossed


@native
def keep_apart(o, where):
    """Let anyone keep the memory of a region who holds it: the rest of the replay goes on in a copy. A status."""
    enter()
    at = place_of(o, where)
    if at == 0:
        return fail(INTERNAL, 0, 0)
    t = tape(context_object(o).tape)
    r = region_of(t, laid(at).region)
    if r.kind != REGION_FRESH or r.storage == 0 or storage(r.storage).refs == 1:
        return OK
    fresh = new_storage(r.nbytes, storage(r.storage).dtype, HOST)
    if failed(fresh):
        return fresh
    memcpy(storage(fresh).data, r.base, r.nbytes)
    release_storage(r.storage)
    r.storage = fresh
    move(t, r, storage(fresh).data)
    drain()
    return OK


@native
def is_hooked(h):
    """Whether the node of a tensor has hooks or keeps gradients."""
    n = tensor(h).node
    return 1 if n != 0 and (node(n).flags & HOOKED or node(n).retains != 0) else 0
