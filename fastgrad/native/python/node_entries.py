"""What Python sees of nodes: their objects, edges and facts, as entries of the runtime."""

from __future__ import annotations

from fastgrad.native.backward.gradients import write_retained
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import native, node, task, tensor, words
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import none, py_incref
from fastgrad.native.contracts.flags import KEEPS_LATE
from fastgrad.native.contracts.status import INTERNAL
from fastgrad.native.graph import versions
from fastgrad.native.graph.graph import is_leaf, living_accumulator
from fastgrad.native.graph.versions import catch_up, gradient_edge
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.records import META_BYTES
from fastgrad.native.memory.references import drop_node, retain, retain_node
from fastgrad.native.objects.handles import wrap_node
from fastgrad.native.tensors import tensors
from fastgrad.native.tensors.tensors import alias


@native
def object_of(n):
    """The object of a node, whose reference is taken over, or None for zero; a new reference."""
    if n == 0:
        py_incref(none())
        return none()
    o = wrap_node(n)
    drop_node(n)
    return o


@native
def shared_object(n):
    """The object of a node that somebody else holds, or None for zero; a new reference."""
    if n != 0:
        retain_node(n)
    return object_of(n)


@native
def grad_fn(h):
    """The node of a non-leaf; None for a leaf."""
    enter()
    status = catch_up(h)
    if failed(status):
        return status
    return shared_object(0 if is_leaf(h) else tensor(h).node)


@native
def leaf_now(h):
    """Whether a tensor has no history of ops, after a view has caught up with its base. 0, 1 or a failure."""
    enter()
    status = catch_up(h)
    return status if failed(status) else (1 if is_leaf(h) else 0)


@native
def gradient_node(h):
    """The node that a tensor's gradient arrives at, a leaf's AccumulateGrad node; None if it arrives nowhere."""
    enter()
    edge = gradient_edge(h)
    return edge if failed(edge) else object_of(edge)


@native
def current_node(h):
    """The node that a tensor has now; for a leaf its AccumulateGrad node, None if there is none."""
    t = tensor(h)
    return shared_object(t.node if t.node != 0 else living_accumulator(t))


@native
def node_target(n, k):
    """The node that edge `k` points at, None for no edge."""
    return shared_object(words(node(n).edges)[2 * k])


@native
def node_field(n, k):
    """Word `k` of a node's record (see `layout.NODE`)."""
    return words(n)[k]


@native
def node_output(n, k):
    """The number of the output that edge `k` points at, -1 for no edge."""
    edges = words(node(n).edges)
    return edges[2 * k + 1] if edges[2 * k] != 0 else -1


@native
def node_meta(n, k, out):
    """What a node knows of its output `k`: dtype, device, sizes."""
    return read_meta(words(node(n).metas + k * META_BYTES), out)


@native
def saved_meta(n, k, out):
    """What is known of the tensor that a node holds in place `k`: dtype, device, sizes; nothing if it holds none."""
    h = words(node(n).saved)[2 * k]
    if h == 0:
        return 0
    t = tensor(h)
    words(out)[0] = t.dtype
    words(out)[1] = t.device
    for j in range(t.ndim):
        words(out)[2 + j] = t.shape[j]
    return 2 + t.ndim


@native
def input_meta(n, k, out):
    """What a node's edge `k` says of its input: dtype, device, sizes."""
    edges = words(node(n).edges)
    if edges[2 * k] == 0:
        return fail(INTERNAL, n, k)
    return read_meta(words(node(edges[2 * k]).metas + edges[2 * k + 1] * META_BYTES), out)


@native
def read_meta(meta, out):
    """Write what is known of an output, dtype, device and sizes, to an array; returns the number of words."""
    words(out)[0] = meta[0]
    words(out)[1] = meta[1]
    for j in range(meta[2]):
        words(out)[2 + j] = meta[3 + j]
    return 2 + meta[2]


@native
def node_attr(n, k):
    """Integer `k` of the call that made a node."""
    return words(node(n).attrs)[k]


@native
def node_variable(n):
    """The leaf of an AccumulateGrad node."""
    v = node(n).variable
    if v != 0:
        retain(v)
    return v


@native
def attach_input(n, k, h):
    """An alias of what stands for input `k` of a node, with the history of that input."""
    enter()
    a = alias(h)
    edges = words(node(n).edges)
    if not failed(a) and 0 <= k < node(n).n_in and edges[2 * k] != 0:
        tensors.set_history(a, edges[2 * k], edges[2 * k + 1])
    return a


@native
def check_saved(n):
    """Fail if a derivative may not use what a node saved; see `versions.check_saved`."""
    enter()
    return versions.check_saved(n)


@native
def keep_late(n):
    """Let the function of a node write the gradients that are kept of its outputs, by `keep_gradient`."""
    node(n).flags |= KEEPS_LATE


@native
def keep_gradient(n, k, g):
    """Give a gradient to the tensors that are output `k` of a node and keep theirs; a status."""
    enter()
    n_bytes = node(n).n_out * 8
    grads = allocate(n_bytes)
    if failed(grads):
        return grads
    for j in range(node(n).n_out):
        words(grads)[j] = 0
    words(grads)[k] = g
    status = write_retained(node(n), words(grads))
    deallocate(grads, n_bytes)
    return status


@native
def attach_output(n, k, h):
    """See `tensors.alias_of_output`."""
    enter()
    return tensors.alias_of_output(h, n, k)


@native
def task_node(handle):
    """The node at which a pass stands, None before the first."""
    return shared_object(task(handle).node)
