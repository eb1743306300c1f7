"""Boundaries: a node that marks where values enter or leave a module, for hooks on the gradients that cross it."""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, node, runtime, tensor, words
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    none,
    py_decref,
    py_incref,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
)
from fastgrad.native.contracts.flags import GRAD_ENABLED, PASS_THROUGH, REQUIRES_GRAD, WATCHED
from fastgrad.native.graph.graph import new_node, write_absent, write_meta
from fastgrad.native.graph.packing import announce
from fastgrad.native.graph.versions import gradient_edge
from fastgrad.native.memory.records import META_BYTES
from fastgrad.native.memory.references import drop_node
from fastgrad.native.objects.handles import is_tensor, object_handle, wrap, wrap_node
from fastgrad.native.tensors.tensors import alias, mark_view, set_history


@native
def boundary(values):
    """A pair: a new node, or None if no gradient will cross, and the values of a tuple as outputs of the node.

    What requires no grad stays what it is. The others become views of themselves, so that a change in place of one
    reaches the history of the other.
    """
    enter()
    rt = runtime()
    crosses = False
    for k in range(py_tuple_size(values)):
        h = object_handle(py_tuple_item(values, k))
        if h != 0 and tensor(h).flags & REQUIRES_GRAD:
            crosses = True
    pair = py_tuple_new(2)
    if pair == 0:
        return 0
    if not crosses or not rt.mode & GRAD_ENABLED:
        py_incref(none())
        py_tuple_set(pair, 0, none())
        py_incref(values)
        py_tuple_set(pair, 1, values)
        return pair
    return cross(pair, values)


@native
def tensor_boundary(values):
    """Likewise where all values are tensors; None for any others."""
    for k in range(py_tuple_size(values)):
        if not is_tensor(py_tuple_item(values, k)):
            py_incref(none())
            return none()
    return boundary(values)


@native
def cross(pair, values):
    """Fill the pair with a node and what has crossed it; the pair, zero or a negative status."""
    rt = runtime()
    n = py_tuple_size(values)
    handle = new_node(rt.boundary_op, n, n, 0)
    if failed(handle):
        py_decref(pair)
        return handle
    node(handle).flags |= PASS_THROUGH
    answer = 0
    crossed = py_tuple_new(n)
    if crossed != 0:
        py_tuple_set(pair, 1, crossed)
        answer = cross_all(handle, values, crossed)
    if answer > 0 and rt.mode & WATCHED and failed(announce(handle)):
        answer = 0
    if answer > 0:
        answer = wrap_node(handle)
        if answer > 0:
            py_tuple_set(pair, 0, answer)
            answer = pair
    drop_node(handle)
    if answer <= 0:
        py_decref(pair)
    return answer


@native
def cross_all(n, values, crossed):
    """Fill the tuple of what has crossed; 1, zero with an exception set or a negative status."""
    for k in range(py_tuple_size(values)):
        write_absent(words(node(n).metas + k * META_BYTES))
    for k in range(py_tuple_size(values)):
        item = py_tuple_item(values, k)
        h = object_handle(item)
        if h != 0 and tensor(h).flags & REQUIRES_GRAD:
            item = cross_one(n, k, h)
            if item <= 0:
                return item
        else:
            if h != 0:  # hooks are shown zeros like it
                write_meta(words(node(n).metas + k * META_BYTES), h)
            py_incref(item)
        py_tuple_set(crossed, k, item)
    return 1


@native
def cross_one(n, k, h):
    """The object of a tensor behind the boundary; zero with an exception set or a negative status.

    The node at which the tensor stands gets an object: it is held by the boundary's node and by the view's base alike,
    and the collector is shown only what has one holder or an object.
    """
    edge = gradient_edge(h)
    if failed(edge):
        return edge
    target = wrap_node(edge)
    if target == 0:
        drop_node(edge)
        return 0
    py_decref(target)
    words(node(n).edges)[2 * k] = edge
    words(node(n).edges)[2 * k + 1] = tensor(h).output_nr
    a = alias(h)
    if failed(a):
        return a
    mark_view(a, h, False)
    set_history(a, n, k)
    write_meta(words(node(n).metas + k * META_BYTES), a)
    return wrap(a)
