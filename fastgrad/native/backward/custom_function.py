"""Nodes of custom functions: made before `forward` runs, completed with its outputs, applied by calling `backward`.

The node's object is the `ctx` that both see. For each argument of the call the node keeps what it was: no tensor, a
tensor, a tensor that requires grad. Edges belong to the tensors among the arguments, in order.

The usual case (one fresh tensor comes out) is decided here; outputs that are inputs, views, marked in place or not
differentiable go to `autograd.function.finish_function`.
"""

from __future__ import annotations

from fastgrad.native.backward.hook_calls import optional_object
from fastgrad.native.base.callbacks import call_python, call_tuple, call_vector
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    native,
    native_inline,
    native_once,
    node,
    node_object,
    runtime,
    stack_frame,
    tensor,
    words,
)
from fastgrad.native.base.modes import enter, is_watched, put_back
from fastgrad.native.base.pyapi import (
    none,
    py_decref,
    py_err_clear,
    py_get_attribute,
    py_incref,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
)
from fastgrad.native.contracts.flags import (
    A_TENSOR,
    FUNCTION_VIEW,
    GRAD_ENABLED,
    INFERENCE,
    IS_VIEW,
    MULTI_VIEW,
    NEEDS_GRAD,
    NO_TENSOR,
    OUTPUT_ALIAS,
    PYTHON_APPLY,
    REQUIRES_GRAD,
    SAVED_FREED,
    SAVED_HOOKS,
    VIEW_ORIGIN,
    WATCHED,
)
from fastgrad.native.contracts.profiles import CUSTOM_EVENT
from fastgrad.native.contracts.python_types import NO_MATERIALIZE
from fastgrad.native.contracts.status import (
    FINISHED_TWICE,
    FREED_GRAPH,
    INFERENCE_SAVED,
    INTERNAL,
    OK,
    RAISED,
    SAVED_TWICE,
)
from fastgrad.native.graph.graph import new_node, requires_grad, save, write_absent, write_meta
from fastgrad.native.graph.inplace import change_history, check_inplace
from fastgrad.native.graph.packing import announce, mark_packed, new_reference, pack_place
from fastgrad.native.graph.versions import check_readable, gradient_edge
from fastgrad.native.launch.elementwise import fill_scalar
from fastgrad.native.launch.promotion import is_floating
from fastgrad.native.memory.buffers import allocate
from fastgrad.native.memory.profiles import begin_event, end_event, note_number, note_stack
from fastgrad.native.memory.records import META_BYTES, META_OFFSET
from fastgrad.native.memory.references import drop, drop_node, leave_node, release_place, retain
from fastgrad.native.memory.storages import version_of
from fastgrad.native.memory.tapes import note_python, records_hooks
from fastgrad.native.objects.handles import (
    is_batched,
    never_made,
    object_handle,
    optional_handle,
    wrap,
    wrap_node_as,
)
from fastgrad.native.objects.held import exact_tuple, is_tuple
from fastgrad.native.tensors.tensors import alias, bump_version, finished, new_tensor, set_history

INLINE_ARGUMENTS = 60
MOST_OUTPUTS = 1 << 32


# --- the call --------------------------------------------------------------------------------------------------


@native_once
def only_launches(function):
    """Whether a custom function is one of the library's that do nothing but launch: a tape then records launches."""
    says = py_get_attribute(function, runtime().only_launches_name)
    if says == 0:
        py_err_clear()
        return False
    py_decref(says)
    return says != none()


@native
def note_function(function):
    """Note on a tape that records that Python is called for a custom function, if it does more than launch."""
    if runtime().tape != 0 and not only_launches(function):
        note_python()


@native
def function_begin(kind, function, args):
    """The object of a new node, of type `kind`, for a call of `function` with a tuple of arguments."""
    enter()
    note_function(function)
    rt = runtime()
    n = py_tuple_size(args)
    n_in = 0
    needs = False
    for k in range(n):
        item = py_tuple_item(args, k)
        if is_batched(item):
            return call_python(rt.refuse_batched, 0)  # which raises
        h = object_handle(item)
        if h != 0:
            n_in += 1
            if requires_grad(h):
                needs = True
    handle = new_node(rt.function_op, n_in, 1, n)
    if failed(handle):
        return handle
    o = wrap_node_as(handle, kind)
    if o == 0:
        drop_node(handle)
        return 0
    x = node_object(o)
    py_incref(function)
    x.function = function
    record = node(handle)
    record.metas = handle + META_OFFSET
    record.n_out = 1
    write_absent(words(record.metas))
    executable = needs and rt.mode & GRAD_ENABLED != 0
    if executable:
        record.flags |= PYTHON_APPLY
    j = 0
    for k in range(n):
        h = object_handle(py_tuple_item(args, k))
        what = NO_TENSOR
        if h != 0:
            what = NEEDS_GRAD if requires_grad(h) else A_TENSOR
            if executable and what == NEEDS_GRAD:
                edge = gradient_edge(h)
                if failed(edge):
                    drop_node(handle)
                    py_decref(o)
                    return edge
                words(record.edges)[2 * j] = edge
                words(record.edges)[2 * j + 1] = tensor(h).output_nr
            j += 1
        words(record.attrs)[k] = what
    drop_node(handle)  # the object holds it
    return o


@native
def set_output_count(n, count):
    """Room for what a node keeps of its outputs, to be said once, before anything leads to one of them. A status."""
    record = node(n)
    if record.n_out != 1 or words(record.metas)[0] != -1:
        return FINISHED_TWICE
    if count < 0 or count > MOST_OUTPUTS:
        return fail(INTERNAL, record.n_out, count)
    if count > 1:
        metas = allocate(count * META_BYTES)
        if failed(metas):
            return metas
        record.metas = metas
    record.n_out = count
    for k in range(count):
        write_absent(words(record.metas + k * META_BYTES))
    return OK


@native
def set_output(n, k, h, connect, several):
    """Tell a node what its output `k` is and, to `connect` them, give the tensor its history. A status.

    A view can no longer follow its base, which the node would not know of; `several` outputs may have a gradient.
    """
    write_meta(words(node(n).metas + k * META_BYTES), h)
    t = tensor(h)
    if t.flags & IS_VIEW:
        t.flags = t.flags & ~VIEW_ORIGIN | FUNCTION_VIEW | (MULTI_VIEW if several != 0 else 0)
    if connect != 0:
        leave_node(h)
        t.followed = version_of(h)
        set_history(h, n, k)
    return OK


@native
def set_dirty_output(n, k, h):
    """A tensor that `forward` changed in place becomes output `k` of the node. A status."""
    enter()
    status = check_inplace(h)
    if failed(status):
        return status
    bump_version(h)
    write_meta(words(node(n).metas + k * META_BYTES), h)
    retain(h)
    fresh = change_history(h, n, k)
    drop(h)
    return OK if not failed(fresh) else fresh


@native
def function_finish(handle, args, result):
    """Complete the node of a call whose `forward` returned `result`; what the call returns, zero or a failure."""
    enter()  # `forward` may have let other threads in
    n = node(handle)
    o = n.pyobj
    x = node_object(o)
    if py_tuple_size(args) != n.n_attrs:
        return fail(INTERNAL, n.n_attrs, py_tuple_size(args))
    h = object_handle(result)
    if h != 0 and x.dirty == 0 and x.non_differentiable == 0:
        t = tensor(h)
        fresh = t.node == 0 and not t.flags & (REQUIRES_GRAD | IS_VIEW)
        for k in range(n.n_attrs):
            if py_tuple_item(args, k) == result:
                fresh = False
        if fresh and (is_floating(t.dtype) or not n.flags & PYTHON_APPLY):
            if n.flags & PYTHON_APPLY:
                set_output(handle, 0, h, 1, 0)
                if runtime().mode & WATCHED and failed(announce(handle)):
                    return 0
                if x.to_save != 0:
                    saved = save_all(handle)
                    if saved <= 0:
                        return saved
            else:
                forget_to_save(o)
            py_incref(result)
            return result
    if not is_tuple(result):
        return call_python(runtime().finish_function, 3, o, args, result)
    results = exact_tuple(result)
    answer = call_python(runtime().finish_function, 3, o, args, results) if results != 0 else 0
    if results != 0:
        py_decref(results)
    return answer


@native
def function_apply(kind, function, forward, args):
    """Call ``forward(ctx, *args)`` with gradients off and record it: the outputs, zero with an exception set."""
    if runtime().tape != 0 and records_hooks() and not only_launches(function):
        return call_python(runtime().record_function, 2, function, args)
    if is_watched():
        token = begin_event(CUSTOM_EVENT, 0, kind)
        note_number(token, runtime().seq + 2)
        note_stack(token)
        result = apply_here(kind, function, forward, args)
        end_event(token)
        return result
    return apply_here(kind, function, forward, args)


@native
def apply_here(kind, function, forward, args):
    """The same, in the modes of the calling thread."""
    o = function_begin(kind, function, args)
    if o <= 0:
        return o
    rt = runtime()
    mode = rt.mode
    rt.mode = mode & ~GRAD_ENABLED
    n = py_tuple_size(args)
    if n < INLINE_ARGUMENTS:
        frame = words(stack_frame())
        frame[0] = o
        for k in range(n):
            frame[1 + k] = py_tuple_item(args, k)
        result = call_vector(forward, address_of(frame), n + 1)
    else:
        result = call_with(forward, o, args)
    if result != 0:
        finished = function_finish(node_object(o).handle, args, result)
        py_decref(result)
        result = finished
    enter()
    put_back(mode)
    py_decref(o)
    return result


@native
def call_with(forward, o, args):
    """Call a function with an object and the items of a tuple."""
    n = py_tuple_size(args)
    longer = py_tuple_new(n + 1)
    if longer == 0:
        return 0
    py_incref(o)
    py_tuple_set(longer, 0, o)
    for k in range(n):
        item = py_tuple_item(args, k)
        py_incref(item)
        py_tuple_set(longer, k + 1, item)
    result = call_tuple(forward, longer)
    py_decref(longer)
    return result


# --- what it saves ---------------------------------------------------------------------------------------------


@native
def forget_to_save(o):
    """Drop what `save_for_backward` was given."""
    given = node_object(o).to_save
    node_object(o).to_save = 0
    if given != 0:
        py_decref(given)


@native
def save_all(handle):
    """Save what `save_for_backward` was given, if anything; a failure or 1."""
    enter()
    o = node(handle).pyobj
    given = node_object(o).to_save
    node_object(o).to_save = 0
    if given == 0:
        return 1
    status = save_given(o, given)
    py_decref(given)
    return status


@native
def save_given(o, given):
    """Save the tensors of a tuple; a failure or 1. Hooks that pack them may not save others."""
    handle = node_object(o).handle
    count = py_tuple_size(given)
    if node(handle).n_saved != 0:
        return SAVED_TWICE
    status = make_places(handle, count)
    if failed(status):
        return status
    node(handle).n_saved = 1  # even if all are None: there is something to free
    packs = runtime().mode & SAVED_HOOKS != 0
    for k in range(count):
        h = optional_handle(py_tuple_item(given, k))
        if failed(h):
            return save_refused(o, given)
        if h != 0 and packs:
            if failed(pack_place(handle, k, h)):
                return RAISED
        elif h != 0:
            status = save_one(handle, k, h)
            if failed(status):
                return status
    return 1


@native_once
def save_refused(o, given):
    """Let Python say what among the things to save is no tensor. RAISED."""
    answer = call_python(runtime().save_others, 2, o, given)
    if answer != 0:
        py_decref(answer)
        never_made()
    return RAISED


@native
def make_places(n, count):
    """Exactly `count` places for saved tensors. A status."""
    record = node(n)
    if count > record.n_places:
        saved = allocate(count * 16)
        if failed(saved):
            return saved
        record.saved = saved
    record.n_places = count
    for k in range(2 * count):
        words(record.saved)[k] = 0
    return OK


@native
def save_one(n, k, h):
    """Save a tensor in place `k`; an output of the node itself as an alias, so that it does not hold itself."""
    if tensor(h).flags & INFERENCE:
        return INFERENCE_SAVED
    if tensor(h).node != n:
        save(n, k, h)
        return OK
    a = alias(h)
    if failed(a):
        return a
    tensor(a).flags |= OUTPUT_ALIAS
    tensor(a).output_nr = tensor(h).output_nr
    save(n, k, a)
    drop(a)
    return OK


@native
def unpack_saved(n, k):
    """What place `k` of a node holds, with a reference for the caller; zero for None or a negative status."""
    h = words(node(n).saved)[2 * k]
    if h == 0:
        return 0
    if not tensor(h).flags & OUTPUT_ALIAS:
        retain(h)
        return h
    a = alias(h)
    if not failed(a):
        set_history(a, n, tensor(h).output_nr)
    return a


@native
def saved_place(n, k):
    """What place `k` of a node holds; None if nothing, a negative status if it was freed or changed."""
    enter()
    status = check_readable(n, k)
    return status if failed(status) else unpack_saved(n, k)


@native
def pack_now(n, k):
    """Give place `k` of a node, whose tensor Python has packed, into the keeping of hooks."""
    release_place(words(node(n).saved), k)
    mark_packed(n, k)


@native
def saved_tensors(n):
    """What the node of a custom function saved, as a tuple, a negative status, or zero with an exception set."""
    enter()
    record = node(n)
    if record.flags & SAVED_FREED:
        return FREED_GRAPH
    values = py_tuple_new(record.n_places if record.n_saved != 0 else 0)
    if values == 0 or record.n_saved == 0:
        return values
    for k in range(record.n_places):
        h = saved_place(n, k)
        item = h
        if h == 0:
            item = none()
            py_incref(item)
        elif h > 0:
            item = wrap(h)
        if item <= 0:
            py_decref(values)
            return item
        py_tuple_set(values, k, item)
    return values


# --- backward --------------------------------------------------------------------------------------------------


@native
def materialized(n, k, g):
    """The object of gradient `k` of a node: zeros if it is undefined and the function wants them; or a failure."""
    meta = words(node(n).metas + k * META_BYTES)
    if g != 0 or meta[0] < 0 or node_object(node(n).pyobj).options & NO_MATERIALIZE:
        return made_object(optional_object(g))
    h = new_tensor(meta[0], meta[1], meta[2], words(address_of(meta) + 24))
    if h > 0:
        h = finished(h, fill_scalar(h, 0, 0.0, 0))
    return made_object(wrap(h)) if not failed(h) else h


@native_inline
def made_object(o):
    """What making an object gave: the object, or RAISED."""
    return o if o != 0 else RAISED


@native
def apply_function(handle, grads, n_grads, results):
    """Call `backward` of a custom function with gradients; its results as handles. OK or a failure."""
    n = node(handle)
    o = n.pyobj
    function = node_object(o).function
    if function != runtime().segment_function:
        note_function(function)
    backward = py_get_attribute(function, runtime().backward_name)
    if backward == 0:
        return RAISED
    values = py_tuple_new(n_grads + 1)
    if values == 0:
        py_decref(backward)
        return RAISED
    py_incref(o)
    py_tuple_set(values, 0, o)
    status = OK
    for k in range(n_grads):
        item = materialized(handle, k, grads[k]) if not failed(status) else status
        if failed(item):
            status = item
        else:
            py_tuple_set(values, k + 1, item)
    if not failed(status):
        result = call_tuple(backward, values)
        status = RAISED
        if result != 0:
            status = take_gradients(o, result, results)
            py_decref(result)
    py_decref(values)
    py_decref(backward)
    return status


@native
def take_gradients(o, result, results):
    """Read what `backward` returned: a gradient or None for each argument that was a tensor. OK or RAISED."""
    n = node(node_object(o).handle)
    attrs = words(n.attrs)
    several = is_tuple(result)
    count = py_tuple_size(result) if several else 1
    while count > n.n_attrs and several and py_tuple_item(result, count - 1) == none():
        count -= 1
    good = count == n.n_attrs
    j = 0
    for k in range(n.n_attrs):
        if good:
            item = py_tuple_item(result, k) if several else result
            h = optional_handle(item)
            if attrs[k] == NO_TENSOR:
                good = h == 0
            elif failed(h):
                good = False
            else:
                if h != 0:
                    retain(h)
                results[j] = h
                j += 1
    if good:
        return OK
    values = exact_tuple(result) if several else new_reference(result)
    answer = call_python(runtime().check_gradients, 2, o, values) if values != 0 else 0
    if answer != 0:  # a tensor without a record
        py_decref(answer)
        never_made()
    if values != 0:
        py_decref(values)
    return RAISED
