"""Hooks: where they live, how they are registered and how the sweep runs them.

The hooks of a non-leaf belong to its node: they stand in the node's object, under the number of the output. Those
of a leaf stand in the `__dict__` of the leaf's object, where the AccumulateGrad node finds them through the leaf. Each
kind is an ordered dict from the handle's id to the callable; while one runs, the callables are those that stood in
the dict when its turn came.

Rules for what a hook may return are those of `autograd.hooks`; here only the usual cases are decided: None, the same
object, a tensor of the same dtype and sizes.
"""

from __future__ import annotations

from fastgrad.native.base.clock import nanoseconds
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    handle_object,
    native,
    native_inline,
    node,
    node_object,
    runtime,
    stack_small,
    storage,
    tensor,
    tensor_object,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    none,
    py_alloc,
    py_call,
    py_decref,
    py_dict_get,
    py_dict_next,
    py_dict_set,
    py_dict_size,
    py_generic_dict,
    py_incref,
    py_integer,
    py_integer_value,
    py_keys,
    py_list_item,
    py_list_size,
    py_set_item,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
    py_values,
    py_weakref,
    raises,
    system_error,
    tuple_type,
)
from fastgrad.native.contracts.flags import (
    CONTIGUOUS,
    COPY_ON_WRITE,
    LEAF_HOOKS,
    LEAF_POST_HOOKS,
    REQUIRES_GRAD,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.python_types import HELD_HOOKS, HELD_POST_HOOKS
from fastgrad.native.contracts.status import OK, RAISED
from fastgrad.native.graph.graph import is_leaf, look, tell_accumulator
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.objects.handles import (
    call_python,
    object_handle,
    type_of,
    wrap,
    wrap_node,
    wrap_optional,
)
from fastgrad.native.objects.held import exact_tuple, is_tuple, need_kind
from fastgrad.native.tensors.tensors import alias, same_shape

# --- registering -----------------------------------------------------------------------------------------------


@native
def add_hook(hooks, function):
    """Put a callable into a dict of hooks; returns the new handle, or zero with an exception set."""
    rt = runtime()
    key = py_integer(rt.hook_id)
    if key == 0:
        return 0
    o = py_alloc(rt.handle_type, 0)
    if o != 0:
        handle = handle_object(o)
        handle.id = rt.hook_id
        rt.hook_id += 1
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
    if failed(need_kind(HELD_HOOKS, hooks)):
        return RAISED
    return 0 if hold_output_hooks(node(n).pyobj, output_nr, hooks) else RAISED


@native
def register_hook(h, function):
    """Register a tensor hook on a non-leaf that requires grad: its handle; None for any other tensor."""
    enter()
    status = look(h)
    if failed(status):
        return status
    t = tensor(h)
    if is_leaf(h):
        py_incref(none())
        return none()
    o = wrap_node(t.node, runtime().node_type)
    if o == 0:
        return 0
    hooks = find_output_hooks(o, t.output_nr)
    if hooks == 0:
        hooks = py_call(runtime().hooks_type)
        if hooks != 0:
            held = hold_output_hooks(o, t.output_nr, hooks)
            py_decref(hooks)
            if not held:
                hooks = 0
    handle = add_hook(hooks, function) if hooks != 0 else 0
    py_decref(o)
    return handle


@native
def register_node_hook(n, which, flag, function):
    """Register a hook in field `which` of a node's object: its handle."""
    o = node(n).pyobj
    hooks = words(o)[which]
    if hooks == 0:
        hooks = py_call(runtime().hooks_type)
        if hooks == 0:
            return 0
        words(o)[which] = hooks
    node(n).flags |= flag
    return add_hook(hooks, function)


@native
def output_hooks(h):
    """The hooks of a non-leaf, None if there are none."""
    enter()
    status = look(h)
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


# --- running ---------------------------------------------------------------------------------------------------


# Words of a run of hooks: the list of the callables, or the callable itself if there is only one; if hooks are measured
# the list of their ids, else zero; whether there is only one.
TODO, KEYS, ONE = 0, 1, 2


@native
def begin_run(hooks, run):
    """Take the callables of a dict, which hooks may change, and note them in `run`: how many there are, or RAISED.

    `end_run` follows in either case.
    """
    run[TODO] = 0
    run[KEYS] = 0
    count = py_dict_size(hooks)
    run[ONE] = 1 if count == 1 else 0
    if count <= 0:
        return 0
    if count == 1:
        place = stack_small()
        words(place)[0] = 0
        py_dict_next(hooks, place, place + 8, place + 16)
        run[TODO] = words(place)[2]
        py_incref(run[TODO])
    else:
        run[TODO] = py_values(hooks)
        if run[TODO] == 0:
            return RAISED
        count = py_list_size(run[TODO])  # a class derived from dict may give more values, or fewer
    if runtime().measuring != 0:
        run[KEYS] = py_keys(hooks)
        if run[KEYS] == 0:
            return RAISED
    return count


@native
def end_run(run):
    """The hooks of a dict have run, or cannot: drop the list of callables and that of ids."""
    if run[TODO] != 0:
        py_decref(run[TODO])
    if run[KEYS] != 0:
        py_decref(run[KEYS])


@native_inline
def hook_at(run, i):
    """The i-th of `count` hooks, borrowed.

    `todo` is the hook itself if there is one, a list of them if there are several.
    """
    return run[TODO] if run[ONE] != 0 else py_list_item(run[TODO], i)


@native
def gradient_object(h):
    """A new reference to the object of a gradient for hooks, None for zero; zero with an exception set.

    Hooks may change it in place. What others hold too, or what shares memory within itself, goes out as an alias that
    gets memory of its own when that happens. A gradient that is differentiated itself goes out as it is.
    """
    if h == 0:
        return wrap_optional(0)
    t = tensor(h)
    alone = t.refs == 1 and storage(t.storage).refs == 1 and t.flags & CONTIGUOUS != 0
    if alone or t.flags & REQUIRES_GRAD:
        retain(h)
        return wrap(h)
    a = alias(h)
    if failed(a):
        return 0
    tensor(a).flags |= COPY_ON_WRITE
    return wrap(a)


@native
def take_changes(array, k, o):
    """A hook got `o` for gradient `k` and may have changed it in place: then that is the gradient now."""
    h = object_handle(o)
    if h != 0 and array[k] != 0 and h != array[k] and tensor(h).storage != tensor(array[k]).storage:
        put(array, k, h)


@native
def call_hook(run, i, n, a, b):
    """Call hook `i` of a run with one or two arguments and, if hooks are measured, note how long it took.

    The result, or zero with an exception set.
    """
    keys = run[KEYS]
    start = nanoseconds() if keys != 0 else 0
    result = call_python(hook_at(run, i), n, a, b, 0)
    if keys != 0 and result != 0 and i < py_list_size(keys):
        took = py_integer(nanoseconds() - start)
        answer = call_python(runtime().note_hook, 2, py_list_item(keys, i), took, 0) if took != 0 else 0
        if took != 0:
            py_decref(took)
        if answer == 0:
            py_decref(result)
            return 0
        py_decref(answer)
    return result


@native_inline
def optional_object(h):
    """A new reference to the object of a gradient that stays where it is; None for zero."""
    if h != 0:
        retain(h)
    return wrap_optional(h)


@native
def put(array, k, h):
    """Put a tensor, or zero, in the place of gradient `k`."""
    before = array[k]
    if h != 0:
        retain(h)
    array[k] = h
    if before != 0:
        drop(before)


@native
def replace(array, k, hook, old, new):
    """Put what a hook returned for gradient `k` in its place, if that is allowed. OK or RAISED."""
    handle = object_handle(new)
    before = array[k]
    usual = handle != 0 and before != 0
    if usual:
        usual = tensor(handle).dtype == tensor(before).dtype and same_shape(handle, before)
    if not usual:
        answer = call_python(runtime().check_replacement, 3, hook, old, new)
        if answer == 0:
            return RAISED
        py_decref(answer)
    put(array, k, handle)
    return OK


@native
def run_tensor_hooks(hooks, array, k):
    """Run one tensor's hooks over gradient `k` of an array. OK or RAISED."""
    run = words(stack_small())
    count = begin_run(hooks, run)
    if count <= 0:
        end_run(run)
        return count
    status = OK
    gradient = gradient_object(array[k])
    for i in range(count):
        if gradient == 0:
            status = RAISED
            break
        result = call_hook(run, i, 1, gradient, 0)
        if result == 0:
            status = RAISED
            break
        if array[k] != 0:
            take_changes(array, k, gradient)
        if result == none() or result == gradient:
            py_decref(result)
            continue
        status = replace(array, k, hook_at(run, i), gradient, result)
        py_decref(gradient)
        gradient = result
        if failed(status):
            break
    if gradient != 0:
        py_decref(gradient)
    end_run(run)
    return status


@native
def fire_tensor_hooks(t):
    """The tensor hooks of the current node. OK or RAISED."""
    n = node(t.node)
    grads = words(t.grads)
    if n.variable != 0:
        hooks = leaf_hooks(n.variable, 0)
        return run_held(hooks, grads, 0) if hooks > 0 else hooks
    if n.pyobj == 0 or node_object(n.pyobj).tensor_hooks == 0:
        return OK
    held = node_object(n.pyobj).tensor_hooks
    if type_of(held) != tuple_type():
        return run_held(held, grads, 0)
    status = OK
    py_incref(held)
    for k in range(py_tuple_size(held)):
        pair = py_tuple_item(held, k)
        if not failed(status):
            status = run_held(py_tuple_item(pair, 1), grads, py_integer_value(py_tuple_item(pair, 0)))
    py_decref(held)
    return status


@native
def run_held(hooks, grads, k):
    """Run hooks whose dict might otherwise vanish meanwhile."""
    py_incref(hooks)
    status = run_tensor_hooks(hooks, grads, k)
    py_decref(hooks)
    return status


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
        hooks = py_call(rt.hooks_type)
        if hooks != 0 and py_dict_set(attributes, name, hooks) != 0:
            py_decref(hooks)
            hooks = 0
    py_decref(attributes)
    if hooks <= 0:
        return hooks
    tensor(h).flags |= LEAF_POST_HOOKS if post != 0 else LEAF_HOOKS
    tell_accumulator(h)
    return hooks


@native
def tuple_of(array, n):
    """The objects of gradients as a tuple, a new reference; zero with an exception set."""
    values = py_tuple_new(n)
    for k in range(n):
        if values != 0:
            item = gradient_object(array[k])
            if item == 0:
                py_decref(values)
                values = 0
            else:
                py_tuple_set(values, k, item)
    return values


@native
def run_tuple_hooks(hooks, array, n, others):
    """Run node hooks over a tuple of gradients; `others`, if not zero, is their second argument. OK or RAISED."""
    run = words(stack_small())
    count = begin_run(hooks, run)
    if count <= 0:
        end_run(run)
        return count
    status = OK
    values = tuple_of(array, n)
    first = values
    if values != 0:
        py_incref(first)
    for i in range(count):
        if values == 0:
            status = RAISED
            break
        result = call_hook(run, i, 1 if others == 0 else 2, values, others)
        if result == 0:
            status = RAISED
            break
        if result == none() or result == values:
            py_decref(result)
            continue
        result = checked_tuple(hook_at(run, i), values, result)
        if result == 0:
            status = RAISED
            break
        py_decref(values)
        values = result
    if not failed(status):
        take_tuple(array, n, values, first)
    if values != 0:
        py_decref(values)
    if first != 0:
        py_decref(first)
    end_run(run)
    return status


no_tuple_of_gradients = raises(
    system_error, "what a node hook returned passed its check, but is no tuple of gradients"
)


@native
def checked_tuple(hook, values, result):
    """What a node hook returned in place of `values`, if that is allowed, as an exact tuple of as many.

    Takes over the reference; zero with an exception set.
    """
    if is_tuple(result):
        whole = exact_tuple(result)
        py_decref(result)
        result = whole
        if result == 0:
            return 0
    answer = call_python(runtime().check_tuple, 3, hook, values, result)
    if answer != 0:
        py_decref(answer)
        if is_tuple(result) and py_tuple_size(result) == py_tuple_size(values):
            return result
        no_tuple_of_gradients()
    py_decref(result)
    return 0


@native
def take_tuple(array, n, values, first):
    """Put what node hooks made of gradients, or changed in place, in their places."""
    for k in range(n):
        item = py_tuple_item(values, k)
        if item == py_tuple_item(first, k):
            if array[k] != 0:
                take_changes(array, k, item)
        else:
            put(array, k, 0 if item == none() else object_handle(item))


@native
def show_values(function, n, array, count):
    """Call ``function(node, gradients)``. OK or RAISED."""
    values = tuple_of(array, count)
    o = wrap_node(n, runtime().node_type)
    answer = call_python(function, 2, o, values, 0) if values != 0 and o != 0 else 0
    for held in (values, o, answer):
        if held != 0:
            py_decref(held)
    return OK if answer != 0 else RAISED


@native
def fire_pre_hooks(t):
    """The pre-hooks of the current node. OK or RAISED."""
    o = node(t.node).pyobj
    hooks = node_object(o).pres if o != 0 else 0
    if hooks == 0:
        return OK
    py_incref(hooks)
    status = run_tuple_hooks(hooks, words(t.grads), t.n_grads, 0)
    py_decref(hooks)
    return status


@native
def fire_post_hooks(t):
    """The post-hooks of the current node. OK or RAISED.

    A node that got its first post-hook while it ran shows it no gradients of outputs, as in PyTorch.
    """
    o = node(t.node).pyobj
    hooks = node_object(o).posts if o != 0 else 0
    if hooks == 0:
        return OK
    py_incref(hooks)
    others = tuple_of(words(t.grads), t.n_grads if t.had_posts != 0 else 0)
    status = RAISED
    if others != 0:
        status = run_tuple_hooks(hooks, words(t.results), t.n_results, others)
        py_decref(others)
    py_decref(hooks)
    return status


@native
def fire_post_accumulate(t):
    """The post-accumulate hooks of the leaf of the current node. OK or RAISED."""
    leaf = node(t.node).variable
    hooks = leaf_hooks(leaf, 1)
    if hooks <= 0:
        return hooks
    py_incref(hooks)
    run = words(stack_small())
    count = begin_run(hooks, run)
    py_decref(hooks)
    if count <= 0:
        end_run(run)
        return count
    status = OK
    o = optional_object(leaf)
    for i in range(count):
        result = call_hook(run, i, 1, o, 0) if o != 0 else 0
        if result == 0:
            status = RAISED
            break
        if result != none() and result != o:
            answer = call_python(runtime().check_post_accumulate, 2, hook_at(run, i), result, 0)
            if answer != 0:
                py_decref(answer)
            else:
                status = RAISED
        py_decref(result)
        if failed(status):
            break
    if o != 0:
        py_decref(o)
    end_run(run)
    return status
