"""Where hooks live, and how they are registered.

The hooks of a non-leaf belong to its node: they stand in the node's object, under the number of the output. Those
of a leaf stand in the `__dict__` of the leaf's object, where the AccumulateGrad node finds them through the leaf. Each
kind is an ordered dict from the handle's id to the callable.
"""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    handle_object,
    native,
    node,
    node_object,
    runtime,
    tensor,
    tensor_object,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    none,
    py_alloc,
    py_decref,
    py_dict_get,
    py_dict_set,
    py_generic_dict,
    py_incref,
    py_integer,
    py_integer_value,
    py_set_item,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
    py_weakref,
    tuple_type,
)
from fastgrad.native.contracts.flags import (
    LEAF_HOOKS,
    LEAF_POST_HOOKS,
    POST_HOOKS,
    PRE_HOOKS,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.python_types import HELD_HOOKS, HELD_POST_HOOKS, NODE_OBJECT
from fastgrad.native.contracts.status import RAISED
from fastgrad.native.graph.graph import catch_up, is_leaf, tell_accumulator
from fastgrad.native.objects.handles import (
    type_of,
    wrap_node,
)
from fastgrad.native.objects.held import need_kind

PRES, POSTS = (NODE_OBJECT.fields[name][0] for name in ("pres", "posts"))


@native
def add_hook(hooks, function):
    """Put a callable into a dict of hooks; returns the new handle, or zero with an exception set."""
    rt = runtime()
    number = rt.hook_id
    rt.hook_id += 1  # now: the collector may run below, and a destructor add a hook
    key = py_integer(number)
    if key == 0:
        return 0
    o = py_alloc(rt.handle_type, 0)
    if o != 0:
        handle = handle_object(o)
        handle.id = number
        handle.hooks = py_weakref(hooks, 0)
        if handle.hooks == 0 or py_set_item(hooks, key, function) != 0:
            py_decref(o)
            o = 0
    py_decref(key)
    return o


@native
def next_hook_id():
    """An id for a handle that Python makes."""
    runtime().hook_id += 1
    return runtime().hook_id - 1


@native
def new_pair(output_nr, hooks):
    """``(output_nr, hooks)``, a new reference; zero with an exception set."""
    number = py_integer(output_nr)
    pair = py_tuple_new(2) if number != 0 else 0
    if pair == 0:
        if number != 0:
            py_decref(number)
        return 0
    py_tuple_set(pair, 0, number)
    py_incref(hooks)
    py_tuple_set(pair, 1, hooks)
    return pair


@native
def with_pair(held, output_nr, hooks):
    """What a node's object is to hold of hooks with one dict more, a new reference; zero with an exception set."""
    several = held != 0 and type_of(held) == tuple_type()
    n = py_tuple_size(held) if several else (1 if held != 0 else 0)
    pairs = py_tuple_new(n + 1)
    for k in range(n + 1):
        if pairs == 0:
            break
        if k < n and several:
            pair = py_tuple_item(held, k)
            py_incref(pair)
        else:
            pair = new_pair(output_nr, hooks) if k == n else new_pair(0, held)
        if pair == 0:
            py_decref(pairs)
            pairs = 0
        else:
            py_tuple_set(pairs, k, pair)
    return pairs


@native
def find_output_hooks(o, output_nr):
    """The dict of hooks that a node's object has for one of its outputs, borrowed; zero if none."""
    held = node_object(o).tensor_hooks
    if held == 0:
        return 0
    if type_of(held) != tuple_type():
        return held if output_nr == 0 else 0
    for k in range(py_tuple_size(held)):
        pair = py_tuple_item(held, k)
        if py_integer_value(py_tuple_item(pair, 0)) == output_nr:
            return py_tuple_item(pair, 1)
    return 0


@native
def hold_output_hooks(o, output_nr, hooks):
    """Let a node's object hold a dict of hooks for one of its outputs; false with an exception set."""
    x = node_object(o)
    before = x.tensor_hooks
    fresh = hooks
    if before == 0 and output_nr == 0:
        py_incref(hooks)
    else:
        fresh = with_pair(before, output_nr, hooks)
        if fresh == 0:
            return False
    node(x.handle).flags |= TENSOR_HOOKS
    x.tensor_hooks = fresh
    if before != 0:
        py_decref(before)
    return True


@native
def hold_hooks(n, output_nr, hooks):
    """Let a node run a dict of hooks over the gradient of one of its outputs. A status."""
    return 0 if hold_output_hooks(node(n).pyobj, output_nr, hooks) else RAISED


@native
def register_hook(h, function):
    """Register a tensor hook on a non-leaf that requires grad: its handle; None for any other tensor."""
    enter()
    status = catch_up(h)
    if failed(status):
        return status
    t = tensor(h)
    if is_leaf(h):
        py_incref(none())
        return none()
    o = wrap_node(t.node)
    if o == 0:
        return 0
    hooks = find_output_hooks(o, t.output_nr)
    if hooks == 0:
        fresh = call_python(runtime().hooks_type, 0)
        if fresh != 0:
            hooks = find_output_hooks(
                o, t.output_nr
            )  # the collector may have run, and a destructor been faster
            if hooks == 0 and hold_output_hooks(o, t.output_nr, fresh):
                hooks = fresh
            py_decref(fresh)
    handle = add_hook(hooks, function) if hooks != 0 else 0
    py_decref(o)
    return handle


@native
def register_node_hook(n, post, function):
    """Register a pre-hook of a node, or a post-hook: its handle."""
    o = node(n).pyobj
    which = POSTS if post != 0 else PRES
    hooks = words(o)[which]
    if hooks == 0:
        fresh = call_python(runtime().hooks_type, 0)
        if fresh == 0:
            return 0
        hooks = words(o)[which]  # the collector may have run, and a destructor been faster
        if hooks == 0:
            words(o)[which] = fresh
            hooks = fresh
        else:
            py_decref(fresh)
    node(n).flags |= POST_HOOKS if post != 0 else PRE_HOOKS
    return add_hook(hooks, function)


@native
def output_hooks(h):
    """The hooks of a non-leaf, None if there are none."""
    enter()
    status = catch_up(h)
    if failed(status):
        return status
    t = tensor(h)
    found = 0
    if t.node != 0 and node(t.node).pyobj != 0:
        found = find_output_hooks(node(t.node).pyobj, t.output_nr)
    if found == 0:
        found = none()
    py_incref(found)
    return found


@native
def leaf_hooks(leaf, post):
    """The dict of a leaf's tensor hooks, or post-accumulate hooks, borrowed; zero if there is none, or RAISED."""
    o = tensor(leaf).pyobj
    if o == 0 or tensor_object(o).dict == 0:
        return 0
    return hooks_in(tensor_object(o).dict, post)


@native
def hooks_in(attributes, post):
    """Likewise in the `__dict__` of an object, where anything may stand."""
    rt = runtime()
    hooks = py_dict_get(attributes, rt.post_accumulate_name if post != 0 else rt.hooks_name)
    if hooks == none():
        return 0
    if hooks != 0 and failed(need_kind(HELD_POST_HOOKS if post != 0 else HELD_HOOKS, hooks)):
        return RAISED
    return hooks


@native
def leaf_hook_dict(h, post):
    """The dict of a leaf's tensor hooks, or post-accumulate hooks, made when it is first asked for; a new reference.

    Zero with an exception set.
    """
    rt = runtime()
    attributes = py_generic_dict(tensor(h).pyobj, 0)
    if attributes == 0:
        return 0
    hooks = hooks_in(attributes, post)
    if hooks > 0:
        py_incref(hooks)
    elif hooks == 0:
        name = rt.post_accumulate_name if post != 0 else rt.hooks_name
        fresh = call_python(rt.hooks_type, 0)
        hooks = hooks_in(attributes, post) if fresh != 0 else 0  # a destructor may have been faster
        if hooks > 0:
            py_incref(hooks)
        elif hooks == 0 and fresh != 0 and py_dict_set(attributes, name, fresh) == 0:
            py_incref(fresh)
            hooks = fresh
        if fresh != 0:
            py_decref(fresh)
    py_decref(attributes)
    if hooks <= 0:
        return hooks
    tensor(h).flags |= LEAF_POST_HOOKS if post != 0 else LEAF_HOOKS
    tell_accumulator(h)
    return hooks
