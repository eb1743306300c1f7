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
from fastgrad.native.base.pyapi import (
    bytes_type,
    py_bytes_text,
    py_incref,
    py_size,
    py_tuple_item,
    py_tuple_size,
    tuple_type,
)
from fastgrad.native.contracts.flags import (
    CONJUGATED,
    CONTIGUOUS,
    COPY_ON_WRITE,
    PASS_THROUGH,
    POST_HOOKS,
    PRE_HOOKS,
    REQUIRES_GRAD,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.records import LAID, REGION_FRESH
from fastgrad.native.contracts.status import INTERNAL, OK
from fastgrad.native.graph.graph import new_node, write_absent
from fastgrad.native.memory.bindings import laid, lies_within, move, region_of
from fastgrad.native.memory.references import drain, drop, drop_node, release_storage, retain
from fastgrad.native.memory.storages import new_storage
from fastgrad.native.objects.handles import object_handle, type_of
from fastgrad.native.python.tape_calls import lies_like, set_gradient, tensor_in
from fastgrad.native.tensors.tensors import same_shape

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
def take_memory(h, source):
    """Let a gradient that hooks see lie where another tensor of its sizes does, in memory of its own from now on.

    OK or a failure.
    """
    enter()
    t, s = tensor(h), tensor(source)
    if t.dtype != s.dtype or t.device != s.device or not same_shape(h, source):
        return fail(INTERNAL, t.ndim, s.ndim)
    retain(s.storage)
    release_storage(t.storage)
    t.storage = s.storage
    t.data = s.data
    for k in range(t.ndim):
        t.strides[k] = s.strides[k]
    t.flags = t.flags & ~(COPY_ON_WRITE | CONTIGUOUS | CONJUGATED) | s.flags & (CONTIGUOUS | CONJUGATED)
    drain()
    return OK


@native
def tape_input(o, where):
    """The object of such a tensor behind a boundary of the graph: it requires gradients, and a pass ends there."""
    enter()
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
def tape_leaf(o, pair):
    """A new reference to a leaf, whose gradient lies where a replay has it by now; or a failure.

    `pair`: the leaf, and how its gradient lies.
    """
    enter()
    if type_of(pair) != tuple_type() or py_tuple_size(pair) != 2:
        return fail(INTERNAL, 0, 0)
    leaf = py_tuple_item(pair, 0)
    h = object_handle(leaf)
    at = place_of(o, py_tuple_item(pair, 1))
    if h == 0 or at == 0:
        return fail(INTERNAL, h != 0, at != 0)
    t = tape(context_object(o).tape)
    x = laid(at)
    g = tensor(h).grad
    if g == 0 or tensor(g).data != region_of(t, x.region).base + x.offset or not lies_like(g, x):
        g = tensor_in(t, x)
        if failed(g):
            return g
        set_gradient(leaf, g)
    py_incref(leaf)
    return leaf


@native
def keep_apart(o, where):
    """Let anyone keep the memory of a region of the host's who holds it: the rest of the replay goes on in a copy.

    A status.
    """
    enter()
    at = place_of(o, where)
    if at == 0:
        return fail(INTERNAL, 0, 0)
    t = tape(context_object(o).tape)
    r = region_of(t, laid(at).region)
    if r.device != HOST:
        return fail(INTERNAL, r.device, 0)
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
