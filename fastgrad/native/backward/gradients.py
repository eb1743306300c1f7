"""Gradients on their way: added up, written to leaves and to tensors that retain theirs, made to fit."""

from __future__ import annotations

from fastgrad.native.base.failures import note_sizes
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    native_inline,
    runtime,
    stack_small,
    storage,
    tensor,
    words,
)
from fastgrad.native.contracts.flags import CONTIGUOUS, CREATE_GRAPH
from fastgrad.native.contracts.status import BAD_GRADIENT, SIZES_WORDS
from fastgrad.native.dispatch.call import call
from fastgrad.native.launch.elementwise import elementwise, elementwise_slow
from fastgrad.native.memory.references import drain, drop, release_reference, retain
from fastgrad.native.tensors.tensors import same_shape


@native_inline
def owned_alone(h):
    """Whether nobody else can see a gradient, so that it may be changed or kept as it is."""
    t = tensor(h)
    return t.refs == 1 and t.pyobj == 0 and t.base == 0 and storage(t.storage).refs == 1


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
            if owned_alone(old) and a.flags & CONTIGUOUS:
                result = elementwise_slow(add, 2, ins, old)
                release_reference(g)
                drain()
                if result <= 0:
                    return -result
                release_reference(old)  # elementwise_slow returned one more
                return 0
        result = elementwise(add, 2, ins)
    else:
        outs = words(stack_small())
        count = call(add, 2, ins, 0, ins, outs, 1)
        result = outs[0] if count > 0 else count
    if result <= 0:
        release_reference(g)
        drain()
        return -result
    grads[k] = result
    release_reference(old)
    release_reference(g)
    drain()
    return 0


@native
def accumulate(t, n, g):
    """Add a gradient to the leaf of an AccumulateGrad node; a status. `g` stays the caller's."""
    leaf = tensor(n.variable)
    outs = words(stack_small())
    ins = words(stack_small())
    rt = runtime()
    if leaf.grad == 0:
        x = tensor(g)
        # The one reference is the pass's own, given up right after.
        if not t.flags & CREATE_GRAPH and owned_alone(g) and x.flags & CONTIGUOUS:
            retain(g)
            leaf.grad = g
            return 0
        ins[0] = g
        count = call(rt.clone_op, 1, ins, 0, ins, outs, 1)
        if count <= 0:
            return -count
        leaf.grad = outs[0]
        return 0
    ins[0] = leaf.grad
    ins[1] = g
    if t.flags & CREATE_GRAPH:
        count = call(rt.add_op, 2, ins, 0, ins, outs, 1)
        if count <= 0:
            return -count
        drop(leaf.grad)
        leaf.grad = outs[0]
        return 0
    result = elementwise_slow(rt.add_op, 2, ins, leaf.grad)
    if result <= 0:
        return -result
    release_reference(result)
    return 0


@native
def write_retained(t, n, grads):
    """Give their gradient to the tensors of this node that asked to retain it; a status."""
    current = n.retains
    while current != 0:
        x = tensor(current)
        g = grads[x.output_nr]
        if g != 0:
            ins = words(stack_small())
            outs = words(stack_small())
            ins[0] = x.grad if x.grad != 0 else g
            ins[1] = g
            rt = runtime()
            if x.grad != 0:
                count = call(rt.add_op, 2, ins, 0, ins, outs, 1)
            else:
                count = call(rt.clone_op, 1, ins, 0, ins, outs, 1)
            if count <= 0:
                return -count
            if x.grad != 0:
                drop(x.grad)
            x.grad = outs[0]
        current = x.retain_next
    return 0


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
            note_sizes(1, g.ndim, g.shape)  # the caller notes which input it was
            note_sizes(1 + SIZES_WORDS, meta[2], advance(meta, 3))
            drop(h)
            return -BAD_GRADIENT
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
