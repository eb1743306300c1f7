"""The graph: nodes, edges, what an op saves for its derivative, and the history of tensors.

A node belongs to one op call. Its edges point at the nodes whose outputs were the inputs of the call (a leaf
stands behind an AccumulateGrad node, which it knows weakly). The op's table entry says, for each input, what its
derivative reads; only what the inputs that require grad need is saved.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    native_once,
    node,
    runtime,
    tensor,
    words,
)
from fastgrad.native.base.pyapi import is_going, py_incref
from fastgrad.native.contracts.flags import (
    INFERENCE,
    IS_VIEW,
    LEAF_HOOKS,
    LEAF_POST_HOOKS,
    POST_ACCUMULATE,
    REQUIRES_GRAD,
    RETAINS_GRAD,
    SAVED_HOOKS,
    TENSOR_HOOKS,
    WATCHED,
)
from fastgrad.native.contracts.limits import (
    ATTR_WORDS,
    INLINE_EDGES,
    LAST,
    RULES,
    SAVED_INPUTS,
    SAVED_OUTPUTS,
    SAVED_SLOTS,
)
from fastgrad.native.contracts.ops import NO_GRAD, ONE_DIFFERENTIABLE
from fastgrad.native.contracts.records import NODE_KIND
from fastgrad.native.contracts.status import (
    INFERENCE_SAVED,
    NO_MEMORY,
    RAISED,
)
from fastgrad.native.graph.packing import announce, pack_inputs
from fastgrad.native.launch.launch import op_record, rule_of
from fastgrad.native.memory.buffers import allocate
from fastgrad.native.memory.records import (
    ATTRS_OFFSET,
    EDGES_OFFSET,
    META_BYTES,
    META_OFFSET,
    SAVED_OFFSET,
    WORDS_NODE,
    new_record,
)
from fastgrad.native.memory.references import (
    drop_node,
    enter_node,
    leave_node,
    link_retained,
    living_object,
    release_reference,
    retain,
    retain_node,
    retain_with_node,
    unlink_retained,
)
from fastgrad.native.memory.storages import version_of
from fastgrad.native.tensors.tensors import alias

# --- nodes -----------------------------------------------------------------------------------------------------


@native_once
def new_node(op, n_in, n_out, n_attrs):
    """A node with room for its edges, outputs and integers, or NO_MEMORY."""
    handle = new_record(NODE_KIND, WORDS_NODE)
    if failed(handle):
        return handle
    n = node(handle)
    rt = runtime()
    rt.seq += 1
    n.seq = rt.seq
    n.op = op
    n.flags = 0
    n.n_in = n_in
    n.n_out = n_out
    n.owner = 0
    n.slot = 0
    n.pyobj = 0
    n.variable = 0
    n.leaf = 0
    n.busy = 0
    n.retains = 0
    n.n_saved = 0
    n.saved = handle + SAVED_OFFSET
    n.n_places = SAVED_SLOTS
    for k in range(SAVED_SLOTS):
        n.inline_saved[2 * k] = 0
    n.n_attrs = n_attrs
    n.edges = handle + EDGES_OFFSET
    n.metas = handle + META_OFFSET
    n.attrs = handle + ATTRS_OFFSET
    if n_in > INLINE_EDGES:
        n.edges = allocate(n_in * 16)
    if n_out > 1:
        n.metas = allocate(n_out * META_BYTES)
    if n_attrs > ATTR_WORDS:
        n.attrs = allocate(n_attrs * 8)
    if not failed(n.edges):
        edges = words(n.edges)
        for k in range(2 * n_in):
            edges[k] = 0
    if failed(n.edges) or failed(n.metas) or failed(n.attrs):
        if failed(n.edges):
            n.n_in = 0
            n.edges = handle + EDGES_OFFSET
        if failed(n.metas):
            n.metas = handle + META_OFFSET
        if failed(n.attrs):
            n.attrs = handle + ATTRS_OFFSET
        drop_node(handle)
        return NO_MEMORY
    return handle


@native_inline
def write_meta(target, handle):
    """Write what a node has to know of one of its outputs."""
    t = tensor(handle)
    target[0] = t.dtype
    target[1] = t.device
    target[2] = t.ndim
    for k in range(t.ndim):
        target[3 + k] = t.shape[k]


@native_inline
def write_absent(meta):
    """What a node keeps of an output that has no gradient."""
    meta[0] = -1
    meta[1] = 0
    meta[2] = 0


@native_inline
def living_accumulator(t):
    """The AccumulateGrad node of a leaf, which only knows it, or zero; one that is being destroyed is none."""
    found = t.accumulator
    if found != 0 and node(found).pyobj != 0 and is_going(node(found).pyobj):
        return 0
    return found


@native
def tell_accumulator(handle):
    """Let the AccumulateGrad node of a leaf with hooks know of them, and hold the object in whose dict they stand."""
    t = tensor(handle)
    created = living_accumulator(t)
    if created == 0:
        return
    n = node(created)
    if t.flags & LEAF_HOOKS:
        n.flags |= TENSOR_HOOKS
    if t.flags & LEAF_POST_HOOKS:
        n.flags |= POST_ACCUMULATE
    o = living_object(t)
    if o != 0 and n.leaf == 0:
        py_incref(o)
        n.leaf = o
        runtime().n_held_objects += 1


@native
def accumulator(handle):
    """The AccumulateGrad node of a leaf, with one reference for the caller, or NO_MEMORY."""
    t = tensor(handle)
    created = living_accumulator(t)
    if created != 0:
        retain_node(created)
        return created
    created = new_node(0, 0, 1, 0)
    if failed(created):
        return created
    n = node(created)
    runtime().seq -= 1
    n.seq = LAST
    n.variable = handle
    retain(handle)
    write_meta(words(n.metas), handle)
    t.accumulator = created
    if t.flags & (LEAF_HOOKS | LEAF_POST_HOOKS):
        tell_accumulator(handle)
    return created


@native_inline
def is_leaf(handle):
    """Whether a tensor has no history of ops: none at all, or a stand-in's for a leaf that hooks packed."""
    n = tensor(handle).node
    return n == 0 or node(n).variable != 0


@native
def edge_of(handle):
    """The node that a tensor's gradient arrives at, with one reference for the caller, or a failure.

    Zero for a view that was made without history: gradients are wanted of it because its base wants them, but none
    arrives anywhere.
    """
    t = tensor(handle)
    if t.node != 0:
        retain_node(t.node)
        return t.node
    if not t.flags & REQUIRES_GRAD:
        return 0
    return accumulator(handle)


@native
def retain_gradient(handle):
    """Let a pass write the gradient of a tensor with history, which has caught up, to its `grad`."""
    t = tensor(handle)
    if not t.flags & RETAINS_GRAD and not is_leaf(handle):
        t.flags |= RETAINS_GRAD
        link_retained(handle, t.node)


@native
def save(n, k, handle):
    """Save a tensor in place `k` of a node, with the version of its memory."""
    record = node(n)
    retain_with_node(handle)
    words(record.saved)[2 * k] = handle
    words(record.saved)[2 * k + 1] = version_of(handle)
    record.n_saved += 1


@native
def save_again(handle):
    """The results that a node saved were written after they were saved."""
    saved = words(node(handle).saved)
    for k in range(SAVED_INPUTS, SAVED_SLOTS):
        if saved[2 * k] != 0:
            saved[2 * k + 1] = version_of(saved[2 * k])


@native_inline
def requires_grad(h):
    """Whether gradients are wanted of a tensor: by itself, or by the base that it is a view of."""
    t = tensor(h)
    flags = t.flags
    if flags & IS_VIEW and t.base != 0:
        flags |= tensor(t.base).flags
    return flags & REQUIRES_GRAD != 0


@native_inline
def any_requires_grad(n, ins):
    """Whether gradients are wanted of any of the tensors; some may be absent (0)."""
    found = False
    for k in range(n):
        if ins[k] != 0 and requires_grad(ins[k]):
            found = True
    return found


@native_once
def saved_anyway(info, n_edges):
    """What a node saves whose operands are views without history: what every one of its derivatives reads."""
    mask = (1 << SAVED_SLOTS) - 1
    derivatives = 0
    for k in range(min(n_edges, RULES)):
        if info.grad_kind[k] != NO_GRAD:
            mask &= info.save[k]
            derivatives += 1
    return mask if derivatives != 0 else 0


@native_once
def create_node(op, n, ins, n_out, outs, n_attrs, attrs):
    """The node of a call whose inputs require grad and were looked at; returns its handle or a failure.

    Numbers, masks and indices stand behind the inputs that may have a gradient, and have no edge; outputs without a
    gradient do not count. Where the call writes in place, `outs[0]` is `ins[0]`; what has to be kept of it was
    cloned by the caller.
    """
    info = op_record(op)
    n_edges = min(n, info.n_in)
    n_grads = 1 if info.flags & ONE_DIFFERENTIABLE else n_out
    handle = new_node(op, n_edges, n_grads, n_attrs)
    if failed(handle):
        return handle
    record = node(handle)
    edges = words(record.edges)
    for k in range(n_attrs):
        words(record.attrs)[k] = attrs[k]
    if n_attrs <= 6:  # programs may read past what a call gave: an absent integer is zero
        for k in range(n_attrs, 8):
            words(record.attrs)[k] = 0
    mask = 0
    histories = False
    for k in range(n_edges):
        if ins[k] == 0 or not tensor(ins[k]).flags & REQUIRES_GRAD:
            continue
        edge = edge_of(ins[k])
        if failed(edge):
            drop_node(handle)
            return edge
        edges[2 * k] = edge
        edges[2 * k + 1] = tensor(ins[k]).output_nr
        mask |= info.save[rule_of(k)]
        histories = histories or edge != 0
    if not histories:
        mask = saved_anyway(info, n_edges)
    for k in range(min(n, SAVED_INPUTS)):
        if mask & (1 << k) and ins[k] != 0:
            if tensor(ins[k]).flags & INFERENCE:
                drop_node(handle)
                return INFERENCE_SAVED
            save(handle, k, ins[k])
    if mask != 0 and runtime().mode & SAVED_HOOKS:
        if failed(pack_inputs(handle, info, ins)):
            drop_node(handle)
            return RAISED
    for k in range(n_grads):
        write_meta(words(record.metas + k * META_BYTES), outs[k])
    for k in range(min(n_out, SAVED_OUTPUTS)):
        if mask & (1 << SAVED_INPUTS + k):
            copy = alias(outs[k])  # an output saved as it is would own its own node: a cycle
            if failed(copy):
                drop_node(handle)
                return copy
            save(handle, SAVED_INPUTS + k, copy)
            release_reference(copy)
    if runtime().mode & WATCHED and failed(announce(handle)):
        drop_node(handle)
        return RAISED
    return handle


@native
def rebase(handle, node_handle):
    """Make `node_handle` the history of a tensor that was changed in place; takes over the reference."""
    t = tensor(handle)
    keeps = t.flags & RETAINS_GRAD != 0
    if keeps:
        unlink_retained(handle)
    leave_node(handle)
    enter_node(handle, node_handle)
    t.output_nr = 0
    t.flags |= REQUIRES_GRAD
    if keeps:
        link_retained(handle, node_handle)
