"""Gradients on their way: added up, written to leaves and to tensors that retain theirs, made to fit."""

from __future__ import annotations

from fastgrad.native.base.failures import failed, note_sizes, noted
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    native_inline,
    runtime,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.flags import CONTIGUOUS, CREATE_GRAPH
from fastgrad.native.contracts.formats import CONTIGUOUS_FORMAT, GIVEN_STRIDES
from fastgrad.native.contracts.status import BAD_GRADIENT, SIZES_WORDS
from fastgrad.native.dispatch.call import call
from fastgrad.native.launch.elementwise import elementwise, elementwise_slow
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.references import drain, drop, release_reference, retain
from fastgrad.native.memory.tapes import references
from fastgrad.native.tensors.layouts import obeys, without_gaps
from fastgrad.native.tensors.tensors import same_shape


@native_inline
def owned_alone(h):
    """Whether nobody else can see a gradient, so that it may be changed or kept as it is."""
    t = tensor(h)
    return t.refs == 1 and t.pyobj == 0 and t.base == 0 and references(t.storage) == 1


@native
def add_gradient(t, grads, k, g):
    """Add `g`, whose reference is taken over, to pending gradient `k`; a status."""
    old = grads[k]
    if old == 0:
        grads[k] = g
        return 0
    ins = words(stack_small())
    ins[0] = old
    ins[1] = g
    add = runtime().add_op
    if not t.flags & CREATE_GRAPH:
        a = tensor(old)
        b = tensor(g)
        if a.dtype == b.dtype and same_shape(old, g):
            if owned_alone(old) and without_gaps(a):
                result = elementwise_slow(add, 2, ins, old)
                release_reference(g)
                drain()
                if failed(result):
                    return result
                release_reference(old)  # elementwise_slow returned one more
                return 0
        result = elementwise(add, 2, ins)
    else:
        outs = words(stack_small())
        count = call(add, 2, ins, 0, ins, outs, 1)
        result = outs[0] if count > 0 else count
    if failed(noted(result, 2, ins, 0, ins)):
        release_reference(g)
        drain()
        return result
    grads[k] = result
    release_reference(old)
    release_reference(g)
    drain()
    return 0


@native
def accumulate(t, n, g):
    """Add a gradient to the leaf of an AccumulateGrad node; a status. `g` stays the caller's."""
    leaf = tensor(n.variable)
    before = leaf.grad
    if t.flags & CREATE_GRAPH:
        return add_to_grad(n.variable, g)
    if before == 0:
        # The one reference is the pass's own, given up right after.
        if owned_alone(g) and obeys(g, n.variable):
            retain(g)
            leaf.grad = g
            return 0
        return add_to_grad(n.variable, g)
    ins = words(stack_small())
    ins[0] = before
    ins[1] = g
    retain(before)
    result = elementwise_slow(runtime().add_op, 2, ins, before)
    if not failed(noted(result, 2, ins, 0, ins)):
        release_reference(result)
    drop(before)
    return 0 if not failed(result) else result


@native
def layout_of(h, layout):
    """Write in which layout the gradient of a tensor is copied: that of a leaf, if it has no gaps. Returns its length.

    So the gradient of a leaf lies in memory as the leaf does, and optimizers run over both from one end to the other.
    What others retain lies row by row, as in PyTorch.
    """
    t = tensor(h)
    layout[0] = CONTIGUOUS_FORMAT
    if t.node != 0 or t.flags & CONTIGUOUS or not without_gaps(t):
        return 1
    layout[0] = GIVEN_STRIDES
    for d in range(t.ndim):
        layout[1 + d] = t.strides[d]
    return 1 + t.ndim


@native
def add_to_grad(h, g):
    """Make a gradient, or its sum with what is there, the `grad` of a tensor, as a new tensor; a status."""
    rt = runtime()
    ins = words(stack_small())
    outs = words(stack_small())
    before = tensor(h).grad
    if before == 0:
        ins[0] = g
        layout = words(stack_small())
        count = call(rt.clone_op, 1, ins, layout_of(h, layout), layout, outs, 1)
    else:
        retain(before)
        ins[0] = before
        ins[1] = g
        count = call(rt.add_op, 2, ins, 0, ins, outs, 1)
        drop(before)
    if count <= 0:
        return count
    replaced = tensor(h).grad
    tensor(h).grad = outs[0]
    if replaced != 0:
        drop(replaced)
    return 0


@native
def write_retained(n, grads):
    """Give their gradient to the tensors of this node that asked to retain it; a status.

    Whoever watches how graphs are made may meanwhile drop any of them: they are held.
    """
    count = 0
    current = n.retains
    while current != 0:
        count += 1
        current = tensor(current).retain_next
    held = allocate(count * 8)
    if failed(held):
        return held
    current = n.retains
    for k in range(count):
        words(held)[k] = current
        retain(current)
        current = tensor(current).retain_next
    status = 0
    for k in range(count):
        h = words(held)[k]
        if not failed(status) and grads[tensor(h).output_nr] != 0:
            status = add_to_grad(h, grads[tensor(h).output_nr])
        drop(h)
    deallocate(held, count * 8)
    return status


@native
def fits(h, meta):
    """Whether a gradient has sizes and dtype of what it belongs to."""
    g = tensor(h)
    if g.dtype != meta[0] or g.ndim != meta[2]:
        return False
    for k in range(g.ndim):
        if g.shape[k] != meta[3 + k]:
            return False
    return True


@native
def fit(t, h, meta):
    """A gradient made to fit what it belongs to: summed down, cast. Takes over `h`; a handle or a status."""
    g = tensor(h)
    same = g.ndim == meta[2]
    if same:
        for k in range(g.ndim):
            if g.shape[k] != meta[3 + k]:
                same = False
    outs = words(stack_small())
    ins = words(stack_small())
    rt = runtime()
    if not same:
        allowed = g.ndim >= meta[2]
        for k in range(meta[2]):
            if allowed:
                size = g.shape[g.ndim - meta[2] + k]
                if meta[3 + k] != size and meta[3 + k] != 1:
                    allowed = False
        if not allowed:
            note_sizes(BAD_GRADIENT, 1, g.ndim, g.shape)  # the caller notes which input it was
            note_sizes(BAD_GRADIENT, 1 + SIZES_WORDS, meta[2], advance(meta, 3))
            drop(h)
            return BAD_GRADIENT
        ins[0] = h
        count = call(rt.sum_to_op, 1, ins, meta[2] + 1, words(address_of(meta) + 16), outs, 1)
        drop(h)
        if count <= 0:
            return count
        h = outs[0]
    if tensor(h).dtype != meta[0]:
        ins[0] = h
        count = call(rt.cast_op, 1, ins, 1, meta, outs, 1)
        drop(h)
        if count <= 0:
            return count
        h = outs[0]
    return h


@native
def fit_leaf(t, n, g):
    """A gradient made to fit its leaf; takes over and gives back one reference."""
    leaf = tensor(n.variable)
    meta = words(stack_small())
    meta[0] = leaf.dtype
    meta[1] = leaf.device
    meta[2] = leaf.ndim
    for k in range(leaf.ndim):
        meta[3 + k] = leaf.shape[k]
    return fit(t, g, meta)
