"""How the sweep runs hooks.

While a hook runs, the callables that follow are those that stood in the dict when its turn came; where the dicts live
says `hook_dicts`.

Rules for what a hook may return are those of `autograd.hooks`; here only the usual cases are decided: None, the same
object, a tensor of the same dtype and sizes.
"""

from __future__ import annotations

from fastgrad.native.backward.hook_dicts import at_place, is_several, leaf_hooks
from fastgrad.native.backward.native_hooks import is_native, run_over, run_over_all, run_over_leaf
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.clock import nanoseconds
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    node,
    node_object,
    runtime,
    stack_small,
    storage,
    tensor,
    words,
)
from fastgrad.native.base.pyapi import (
    none,
    py_decref,
    py_dict_next,
    py_dict_size,
    py_incref,
    py_integer,
    py_integer_value,
    py_is_subtype,
    py_keys,
    py_list_item,
    py_list_new,
    py_list_set,
    py_list_size,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
    py_values,
    raises,
    system_error,
)
from fastgrad.native.contracts.flags import (
    CHECK_NAN,
    COPY_ON_WRITE,
    REQUIRES_GRAD,
)
from fastgrad.native.contracts.profiles import (
    POST_ACCUMULATE_HOOK,
    POST_HOOK,
    PRE_HOOK,
    TENSOR_HOOK,
)
from fastgrad.native.contracts.python_types import OUTPUT_PLACE, POST_PLACE, PRE_PLACE
from fastgrad.native.contracts.status import OK, RAISED
from fastgrad.native.memory.profiles import begin_hook, end_event
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.memory.tapes import records_hooks, references
from fastgrad.native.objects.handles import object_handle, type_of, wrap, wrap_node, wrap_optional
from fastgrad.native.objects.held import exact_tuple, is_tuple
from fastgrad.native.tensors.layouts import without_gaps
from fastgrad.native.tensors.tensors import alias, same_shape

# Words of a run of hooks: the list of the callables, or the callable itself if there is only one; if hooks are measured
# the list of their ids, else zero; whether there is only one; their kind.
TODO, KEYS, ONE, KIND, TOKEN = 0, 1, 2, 3, 4


@native
def begin_run(hooks, lone, run, kind):
    """Take the callables of a dict, which hooks may change, and note them in `run`: how many there are, or RAISED.

    `kind`: which hooks they are, for profiles. If `lone` is not zero, `hooks` is the only callable, and the id of its
    handle `lone` less one. `end_run` follows in either case.
    """
    run[TODO] = 0
    run[KEYS] = 0
    run[KIND] = kind
    if lone != 0:
        run[ONE] = 1
        run[TODO] = hooks
        py_incref(hooks)
        if runtime().measuring != 0:
            run[KEYS] = list_of_integer(lone - 1)
        return RAISED if runtime().measuring != 0 and run[KEYS] == 0 else 1
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
def list_of_integer(value):
    """A list of one integer, a new reference; zero with an exception set."""
    number = py_integer(value)
    made = py_list_new(1) if number != 0 else 0
    if made != 0:
        py_list_set(made, 0, number)
    elif number != 0:
        py_decref(number)
    return made


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

    Hooks may change it in place. What others hold too, the owner of foreign memory for instance, or what shares memory
    within itself, goes out as an alias that gets memory of its own when that happens. A gradient that is differentiated
    itself goes out as it is.
    """
    if h == 0:
        return wrap_optional(0)
    t = tensor(h)
    s = storage(t.storage)
    alone = t.refs == 1 and references(t.storage) == 1 and s.owner == 0 and without_gaps(t)
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
def start_of(run, i):
    """Begin to note hook `i` of a run, if hooks are measured or a profile is on: the time."""
    if run[KEYS] == 0:
        return 0
    run[TOKEN] = begin_hook(run[KIND], hook_at(run, i))
    return nanoseconds()


@native
def note_time(run, i, start, done):
    """Note how long hook `i` of a run took, if hooks are measured and it did not raise. OK or RAISED."""
    keys = run[KEYS]
    if keys == 0:
        return OK
    end_event(run[TOKEN])
    if not done or runtime().noting == 0 or i >= py_list_size(keys):
        return OK
    took = py_integer(nanoseconds() - start)
    answer = call_python(runtime().note_hook, 2, py_list_item(keys, i), took) if took != 0 else 0
    for held in (took, answer):
        if held != 0:
            py_decref(held)
    return OK if answer != 0 else RAISED


@native
def call_hook(run, i, n, a, b):
    """Call hook `i` of a run with one or two arguments and, if hooks are measured, note how long it took.

    The result, or zero with an exception set.
    """
    start = start_of(run, i)
    hook = hook_at(run, i)
    if runtime().tape != 0 and records_hooks() and not is_native(hook):
        result = call_python(runtime().record_hook, n + 1, hook, a, b)
    else:
        result = call_python(hook, n, a, b, 0)
    if failed(note_time(run, i, start, result != 0)):
        py_decref(result)
        return 0
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
def run_tensor_hooks(hooks, lone, array, k, checks):
    """Run one tensor's hooks, as `begin_run` takes them, over gradient `k` of an array. OK or RAISED.

    `checks`: whether the pass looks for NaN. Native hooks need no object of the gradient.
    """
    run = words(stack_small())
    count = begin_run(hooks, lone, run, TENSOR_HOOK)
    if count <= 0:
        end_run(run)
        return count
    status = OK
    gradient = 0
    for i in range(count):
        if is_native(hook_at(run, i)):
            if gradient != 0:
                py_decref(gradient)
                gradient = 0
            start = start_of(run, i)
            status = run_over(hook_at(run, i), array, k, checks)
            status = min(status, note_time(run, i, start, not failed(status)))
            if failed(status):
                break
            continue
        if gradient == 0:
            gradient = gradient_object(array[k])
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
        return run_held(hooks, 0, grads, 0, t.flags & CHECK_NAN) if hooks > 0 else hooks
    if n.pyobj == 0 or node_object(n.pyobj).tensor_hooks == 0:
        return OK
    held = node_object(n.pyobj).tensor_hooks
    lone = node_object(n.pyobj).lone[OUTPUT_PLACE]
    if lone != 0 or not is_several(held):
        return run_held(held, lone, grads, 0, t.flags & CHECK_NAN)
    status = OK
    py_incref(held)
    for k in range(py_tuple_size(held)):
        pair = py_tuple_item(held, k)
        if not failed(status):
            output_nr = py_integer_value(py_tuple_item(pair, 0))
            status = run_held(py_tuple_item(pair, 1), 0, grads, output_nr, t.flags & CHECK_NAN)
    py_decref(held)
    return status


@native
def run_held(hooks, lone, grads, k, checks):
    """Run hooks whose dict might otherwise vanish meanwhile."""
    py_incref(hooks)
    status = run_tensor_hooks(hooks, lone, grads, k, checks)
    py_decref(hooks)
    return status


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
def run_natives(run, count, array, n, checks):
    """Run the hooks of a run that begins with native ones as far as these go, over all gradients of an array.

    How many ran, or RAISED.
    """
    for i in range(count):
        if not is_native(hook_at(run, i)):
            return i
        start = start_of(run, i)
        status = run_over_all(hook_at(run, i), array, n, checks)
        if failed(note_time(run, i, start, not failed(status))) or failed(status):
            return RAISED
    return count


@native
def run_tuple_hooks(hooks, lone, t, array, n, post):
    """Run node hooks, as `begin_run` takes them, over a tuple of gradients. OK or RAISED.

    Those that run behind the derivative (`post`) get the gradients of the outputs besides. Native hooks that no other
    one comes before need no objects.
    """
    run = words(stack_small())
    count = begin_run(hooks, lone, run, POST_HOOK if post != 0 else PRE_HOOK)
    if count <= 0:
        end_run(run)
        return count
    others = 0
    n_native = run_natives(run, count, array, n, t.flags & CHECK_NAN)
    if n_native < 0 or n_native == count:
        end_run(run)
        return OK if n_native == count else RAISED
    status = OK
    values = tuple_of(array, n)
    if post != 0 and values != 0:
        others = tuple_of(words(t.grads), t.n_grads if t.had_posts != 0 else 0)
        if others == 0:
            py_decref(values)
            values = 0
    first = values
    if values != 0:
        py_incref(first)
    for i in range(n_native, count):
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
    for held in (first, others):
        if held != 0:
            py_decref(held)
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
    o = wrap_node(n)
    answer = call_python(function, 2, o, values) if values != 0 and o != 0 else 0
    for held in (values, o, answer):
        if held != 0:
            py_decref(held)
    return OK if answer != 0 else RAISED


@native
def fire_pre_hooks(t):
    """The pre-hooks of the current node. OK or RAISED."""
    o = node(t.node).pyobj
    hooks = at_place(o, PRE_PLACE) if o != 0 else 0
    if hooks == 0:
        return OK
    py_incref(hooks)
    status = run_tuple_hooks(hooks, node_object(o).lone[PRE_PLACE], t, words(t.grads), t.n_grads, 0)
    py_decref(hooks)
    return status


@native
def fire_post_hooks(t):
    """The post-hooks of the current node. OK or RAISED.

    A node that got its first post-hook while it ran shows it no gradients of outputs, as in PyTorch.
    """
    o = node(t.node).pyobj
    hooks = at_place(o, POST_PLACE) if o != 0 else 0
    if hooks == 0:
        return OK
    lone = node_object(o).lone[POST_PLACE]
    py_incref(hooks)
    status = run_tuple_hooks(hooks, lone, t, words(t.results), t.n_results, 1)
    py_decref(hooks)
    return status


@native
def takes_saved(hook):
    """Whether a compiled pass calls a post-accumulate hook by `apply_with_saved`; no tape puts that down."""
    if runtime().tape != 0 and records_hooks():
        return False
    return py_is_subtype(type_of(hook), runtime().post_accumulate_class) != 0


@native
def call_saved(run, i, leaf, collected):
    """Call hook `i` of a run over a leaf with what hooks collected for the pass; the result, or zero."""
    start = start_of(run, i)
    result = call_python(runtime().apply_with_saved, 3, hook_at(run, i), leaf, collected)
    if failed(note_time(run, i, start, result != 0)):
        py_decref(result)
        return 0
    return result


@native
def fire_post_accumulate(t):
    """The post-accumulate hooks of the leaf of the current node. OK or RAISED."""
    leaf = node(t.node).variable
    hooks = leaf_hooks(leaf, 1)
    if hooks <= 0:
        return hooks
    py_incref(hooks)
    run = words(stack_small())
    count = begin_run(hooks, 0, run, POST_ACCUMULATE_HOOK)
    py_decref(hooks)
    if count <= 0:
        end_run(run)
        return count
    status = OK
    o = 0
    for i in range(count):
        if is_native(hook_at(run, i)):
            start = start_of(run, i)
            status = run_over_leaf(hook_at(run, i), leaf)
            status = min(status, note_time(run, i, start, not failed(status)))
            if failed(status):
                break
            continue
        if o == 0:
            o = optional_object(leaf)
        if o == 0:
            result = 0
        elif t.collected != 0 and takes_saved(hook_at(run, i)):
            result = call_saved(run, i, o, t.collected)
        else:
            result = call_hook(run, i, 1, o, 0)
        if result == 0:
            status = RAISED
            break
        if result != none() and result != o:
            answer = call_python(runtime().check_post_accumulate, 2, hook_at(run, i), result)
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
