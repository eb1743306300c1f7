"""Where hooks live, and how they are registered.

The hooks of a non-leaf belong to its node: they stand in the node's object, under the number of the output. Those
of a leaf stand in the `__dict__` of the leaf's object, where the AccumulateGrad node finds them through the leaf. Each
kind is an ordered dict from the handle's id to the callable.

Note [Lone hooks]: most places of a node's object get one hook in their life. The first is therefore held as it is, and
`lone` of the place is its id plus one; the handle notes the node and the place instead of a weak reference to a dict.
That takes a third of the time of an ordered dict with its weak reference. A second hook, or who asks for the dict,
makes it. The handle does not hold the node: whether that is still the same tells the generation of its record, as the
memory of records is never given back.
"""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    handle_object,
    native,
    native_inline,
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
from fastgrad.native.contracts.python_types import (
    HELD_HOOKS,
    HELD_POST_HOOKS,
    NODE_OBJECT,
    OUTPUT_PLACE,
    POST_PLACE,
    PRE_PLACE,
)
from fastgrad.native.contracts.status import OK, RAISED
from fastgrad.native.graph.graph import is_leaf, tell_accumulator
from fastgrad.native.graph.versions import catch_up
from fastgrad.native.objects.handles import (
    type_of,
    wrap_node,
)
from fastgrad.native.objects.held import need_kind

FIRST_PLACE = NODE_OBJECT.fields["tensor_hooks"][0]


# --- handles ---------------------------------------------------------------------------------------------------


@native
def new_handle():
    """The handle of a hook that has no place yet, a new reference; zero with an exception set."""
    rt = runtime()
    number = rt.hook_id
    rt.hook_id += 1  # now: the collector may run below, and a destructor add a hook
    o = py_alloc(rt.handle_type, 0)
    if o != 0:
        handle_object(o).id = number
    return o


@native
def put_into(hooks, o, function):
    """Put a callable into a dict of hooks; takes over the handle and returns it, or zero with an exception set."""
    key = py_integer(handle_object(o).id)
    handle_object(o).hooks = py_weakref(hooks, 0)
    if key == 0 or handle_object(o).hooks == 0 or py_set_item(hooks, key, function) != 0:
        py_decref(o)
        o = 0
    if key != 0:
        py_decref(key)
    return o


@native
def add_hook(hooks, function):
    """Put a callable into a dict of hooks; returns the new handle, or zero with an exception set."""
    o = new_handle()
    return put_into(hooks, o, function) if o != 0 else 0


@native
def next_hook_id():
    """An id for a handle that Python makes."""
    runtime().hook_id += 1
    return runtime().hook_id - 1


@native_inline
def place_lives(x):
    """Whether the node is still there that a handle notes."""
    return node(x.node).generation == x.generation and node(x.node).pyobj != 0


@native
def remove_lone_hook(handle):
    """Take away the hook of a handle that notes a place, if it stands there alone; whether no dict can have it."""
    x = handle_object(handle)
    if x.node == 0:
        return 0
    if not place_lives(x):
        return 1
    o = node(x.node).pyobj
    number = node_object(o).lone[x.place]
    if number == 0 and at_place(o, x.place) != 0:
        return 0
    if number != 0 and number == x.id + 1:
        function = at_place(o, x.place)
        node_object(o).lone[x.place] = 0
        words(o)[FIRST_PLACE + x.place] = 0
        py_decref(function)
    return 1


@native
def get_hooks_dict(handle):
    """The weak reference to the dict that a handle is about, a new reference; None if it is about nothing."""
    x = handle_object(handle)
    if x.node != 0:
        hooks = 0
        if place_lives(x):
            o = node(x.node).pyobj
            place = x.place
            py_incref(o)
            hooks = need_output_hooks(o, 0) if place == OUTPUT_PLACE else need_dict(o, place)
            if hooks != 0:
                py_incref(hooks)
            py_decref(o)
            if hooks == 0:
                return 0
            if type_of(hooks) != runtime().hooks_type:  # one of the user's has taken the place
                py_decref(hooks)
                hooks = 0
        if hooks == 0:
            hooks = call_python(runtime().hooks_type, 0)  # goes at once: a reference to what is gone
        reference = py_weakref(hooks, 0) if hooks != 0 else 0
        if hooks != 0:
            py_decref(hooks)
        if reference == 0:
            return 0
        set_hooks_dict(handle, reference)
        py_decref(reference)
    held = x.hooks
    if held == 0:
        held = none()
    py_incref(held)
    return held


@native
def set_hooks_dict(handle, reference):
    """Let a handle hold what it takes for the weak reference to a dict."""
    x = handle_object(handle)
    before = x.hooks
    py_incref(reference)
    x.hooks = reference
    x.node = 0
    if before != 0:
        py_decref(before)


# --- the hooks of a node ---------------------------------------------------------------------------------------


@native_inline
def at_place(o, place):
    """What a node's object holds at one of its places for hooks, borrowed; zero if nothing."""
    return words(o)[FIRST_PLACE + place]


@native
def add_to_place(o, place, function):
    """Register a hook at a place of a node's object: its handle, or zero with an exception set."""
    handle = new_handle()
    if handle == 0:
        return 0
    if at_place(o, place) != 0:
        hooks = need_dict(o, place)
        if hooks != 0:
            return put_into(hooks, handle, function)
        py_decref(handle)
        return 0
    x = handle_object(handle)
    n = node_object(o).handle
    x.node = n
    x.generation = node(n).generation
    x.place = place
    hold_lone(o, place, x.id, function)
    return handle


@native_inline
def hold_lone(o, place, number, function):
    """Let a place that is empty hold a hook."""
    py_incref(function)
    words(o)[FIRST_PLACE + place] = function
    node_object(o).lone[place] = number + 1


@native
def need_dict(o, place):
    """The dict of the hooks at a place, made if there is none yet, borrowed; zero with an exception set."""
    while node_object(o).lone[place] != 0 or at_place(o, place) == 0:
        fresh = dict_of_lone(o, place)
        if fresh == 0:
            return 0
        py_decref(fresh)
    return at_place(o, place)


@native
def dict_of_lone(o, place):
    """Put a dict in the place of the lone hook, or of nothing, unless a destructor was faster.

    A new reference to a dict that is to be let go; zero with an exception set.
    """
    function = at_place(o, place)
    number = node_object(o).lone[place]
    if number != 0:
        py_incref(function)
    fresh = call_python(runtime().hooks_type, 0)
    if number != 0:
        key = py_integer(number - 1) if fresh != 0 else 0
        if key == 0 or py_set_item(fresh, key, function) != 0:
            if fresh != 0:
                py_decref(fresh)
            fresh = 0
        if key != 0:
            py_decref(key)
    if fresh != 0 and at_place(o, place) == function and node_object(o).lone[place] == number:
        node_object(o).lone[place] = 0
        words(o)[FIRST_PLACE + place] = fresh
        py_incref(fresh)
        if number != 0:
            py_decref(function)
    if number != 0:
        py_decref(function)
    return fresh


@native
def no_lone_hook(o, place):
    """Let a dict hold the lone hook of a place, if there is one. OK or RAISED."""
    if node_object(o).lone[place] != 0 and need_dict(o, place) == 0:
        return RAISED
    return OK


@native
def node_hooks(n, place):
    """What the object of a node holds at a place, a new reference, a lone hook in a dict; None if nothing."""
    o = node(n).pyobj
    if failed(no_lone_hook(o, place)):
        return 0
    held = at_place(o, place)
    if held == 0:
        held = none()
    py_incref(held)
    return held


@native_inline
def is_several(held):
    """Whether what a node's object holds of tensor hooks is pairs of output number and dict."""
    return held != 0 and type_of(held) == tuple_type()


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
    several = is_several(held)
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
    """The dict of hooks that a node's object has for one of its outputs, borrowed; zero if none.

    A lone hook is no dict: `no_lone_hook` comes first.
    """
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
    o = node(n).pyobj
    if failed(no_lone_hook(o, OUTPUT_PLACE)) or not hold_output_hooks(o, output_nr, hooks):
        return RAISED
    return OK


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
    several = node_object(o).lone[OUTPUT_PLACE] == 0 and is_several(at_place(o, OUTPUT_PLACE))
    if t.output_nr == 0 and not several:
        node(t.node).flags |= TENSOR_HOOKS
        handle = add_to_place(o, OUTPUT_PLACE, function)
    else:
        hooks = need_output_hooks(o, t.output_nr)
        handle = add_hook(hooks, function) if hooks != 0 else 0
    py_decref(o)
    return handle


@native
def need_output_hooks(o, output_nr):
    """The dict of hooks of one output of several, made if there is none yet, borrowed; zero with an exception set."""
    if failed(no_lone_hook(o, OUTPUT_PLACE)):
        return 0
    hooks = find_output_hooks(o, output_nr)
    if hooks != 0:
        return hooks
    fresh = call_python(runtime().hooks_type, 0)
    if fresh == 0:
        return 0
    if not failed(no_lone_hook(o, OUTPUT_PLACE)):  # the collector may have run, and a destructor been faster
        hooks = find_output_hooks(o, output_nr)
        if hooks == 0 and hold_output_hooks(o, output_nr, fresh):
            hooks = fresh
    py_decref(fresh)
    return hooks


@native
def register_node_hook(n, post, function):
    """Register a pre-hook of a node, or a post-hook: its handle."""
    node(n).flags |= POST_HOOKS if post != 0 else PRE_HOOKS
    return add_to_place(node(n).pyobj, POST_PLACE if post != 0 else PRE_PLACE, function)


@native
def hold_node_hook(n, post, function):
    """Register a hook of a node that nobody will take away. A status."""
    o = node(n).pyobj
    place = POST_PLACE if post != 0 else PRE_PLACE
    if at_place(o, place) != 0:
        handle = register_node_hook(n, post, function)
        if handle == 0:
            return RAISED
        py_decref(handle)
        return OK
    node(n).flags |= POST_HOOKS if post != 0 else PRE_HOOKS
    hold_lone(o, place, next_hook_id(), function)
    return OK


@native
def output_hooks(h):
    """The hooks of a non-leaf, None if there are none."""
    enter()
    status = catch_up(h)
    if failed(status):
        return status
    t = tensor(h)
    found = 0
    o = node(t.node).pyobj if t.node != 0 else 0
    if o != 0:
        if failed(no_lone_hook(o, OUTPUT_PLACE)):
            return RAISED
        found = find_output_hooks(o, t.output_nr)
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
