"""One pass from its beginning to its end, as one call.

Note [Whole passes]: Python handles signals between instructions of its own, so what it begins in one call and ends in
another may stay half done. Here a pass begins, runs, calls whatever Python has to do with it (hooks, rules on tensors,
final callbacks), and ends: modes and settings are put back, and nothing is left of it, whether it came to its end or
something raised. Python is asked before anything begins where arguments are not what they usually are.
"""

from __future__ import annotations

from fastgrad.native.backward.gradients import fits
from fastgrad.native.backward.hook_calls import optional_object
from fastgrad.native.backward.pass_keys import walk
from fastgrad.native.backward.pass_plans import choose_plan
from fastgrad.native.backward.passes import add_root, add_wanted, discover, task_end, task_new, task_start
from fastgrad.native.backward.slots import NOT_FOUND, find_slot, slot_at, slot_of
from fastgrad.native.backward.sweep import sweep
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    capture,
    native,
    native_once,
    node,
    runtime,
    stack_small,
    task,
    tensor,
    words,
)
from fastgrad.native.base.modes import enter, is_watched
from fastgrad.native.base.pyapi import (
    ellipsis,
    list_type,
    none,
    not_implemented,
    py_decref,
    py_err_clear,
    py_err_fetch,
    py_err_normalize,
    py_err_occurred,
    py_err_restore,
    py_incref,
    py_integer,
    py_integer_value,
    py_list_item,
    py_list_size,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
    tuple_type,
)
from fastgrad.native.contracts.flags import (
    ACCUMULATE,
    ANOMALY,
    ANOMALY_UNCHECKED,
    CHECK_NAN,
    COMPILED,
    COMPILED_PASSES,
    EAGER_PASSES,
    FILTERED,
    REHEARSAL,
)
from fastgrad.native.contracts.profiles import PASS_EVENT
from fastgrad.native.contracts.records import CAPTURE_WORDS
from fastgrad.native.contracts.status import NESTED_TOO_DEEP, OK, RAISED, UNUSUAL
from fastgrad.native.graph.graph import requires_grad, retain_gradient
from fastgrad.native.graph.packing import new_reference
from fastgrad.native.graph.versions import gradient_edge
from fastgrad.native.launch.elementwise import fill_scalar
from fastgrad.native.launch.promotion import is_complex, is_floating
from fastgrad.native.memory.profiles import begin_event, end_event, note_stack
from fastgrad.native.memory.records import META_BYTES
from fastgrad.native.memory.references import drop, drop_node, retain, retain_node
from fastgrad.native.memory.tapes import note_pass
from fastgrad.native.objects.failures import facts_of, noted_call
from fastgrad.native.objects.handles import (
    is_tensor,
    node_handle,
    object_handle,
    operand_handle,
    type_of,
    wrap_node,
)
from fastgrad.native.tensors.tensors import finished, new_tensor

# --- arguments -------------------------------------------------------------------------------------------------


@native
def is_one(o):
    """Whether an object stands for one place of the graph: a tensor, or an edge."""
    return object_handle(o) != 0 or type_of(o) == runtime().edge_type


@native
def count_of(o):
    """How many places an argument stands for; -1 where Python has to look at it."""
    if is_one(o):
        return 1
    if type_of(o) == tuple_type():
        return py_tuple_size(o)
    return py_list_size(o) if type_of(o) == list_type() else -1


@native
def item_of(o, k):
    """The object of place `k` of an argument, a new reference; zero if a list has become shorter meanwhile."""
    item = o
    if not is_one(o):
        if type_of(o) == tuple_type():
            item = py_tuple_item(o, k)
        else:
            item = py_list_item(o, k) if k < py_list_size(o) else 0
    if item != 0:
        py_incref(item)
    return item


@native
def find_place(o, place):
    """Write where the gradient of a tensor or an edge arrives: the node, with one reference for the caller, and the

    number of its output; zero for the node of a view that was made without history. OK, UNUSUAL or a failure.
    """
    h = object_handle(o)
    if h != 0:
        if not requires_grad(h):
            return UNUSUAL
        edge = gradient_edge(h)
        place[0] = edge
        place[1] = tensor(h).output_nr
        return min(edge, OK)
    if type_of(o) != runtime().edge_type or py_tuple_size(o) < 2:
        return UNUSUAL
    n = node_handle(py_tuple_item(o, 0))
    output_nr = py_integer_value(py_tuple_item(o, 1))
    if py_err_occurred() != 0:
        py_err_clear()
        return UNUSUAL
    if n == 0 or output_nr < 0 or output_nr >= node(n).n_out:
        return UNUSUAL
    retain_node(n)
    place[0] = n
    place[1] = output_nr
    return OK


@native_once
def leads_elsewhere(outputs, inputs):
    """Whether the graph behind a tuple of tensors has an end that is none of a tuple of leaves: 1, 0 or a failure.

    A task finds the nodes, as for a pass, and ends before anything runs.
    """
    enter()
    mode = runtime().mode
    handle = task_new(FILTERED)
    if handle == NESTED_TOO_DEEP:
        return 1
    if failed(handle):
        return handle
    t = task(handle)
    place = words(stack_small())
    result = OK
    for k in range(py_tuple_size(outputs)):
        if not failed(result) and find_place(py_tuple_item(outputs, k), place) == OK and place[0] != 0:
            result = min(slot_of(t, place[0]), OK)
            drop_node(place[0])  # the tensor holds it
    if not failed(result):
        result = discover(t)
    ends = 0
    for index in range(t.n_slots if not failed(result) else 0):
        if is_end(node(slot_at(t, index).node)):
            ends += 1
    for k in range(py_tuple_size(inputs)):
        if not failed(result) and find_place(py_tuple_item(inputs, k), place) == OK and place[0] != 0:
            if find_slot(t, place[0]) != NOT_FOUND:
                ends -= 1
            drop_node(place[0])
    task_end(handle, mode)
    return result if failed(result) else (1 if ends > 0 else 0)


@native
def is_end(n):
    """Whether no edge of a node leads on."""
    for k in range(n.n_in):
        if words(n.edges)[2 * k] != 0:
            return False
    return True


@native
def ones_like(meta):
    """The gradient of a root for which none is given: its handle, zero if there has to be one, or a failure."""
    numel = 1
    for k in range(meta[2]):
        numel *= meta[3 + k]
    if numel != 1 or not is_floating(meta[0]) or is_complex(meta[0]):
        return 0
    h = new_tensor(meta[0], meta[1], meta[2], advance(meta, 3))
    return finished(h, fill_scalar(h, 1, 1.0, 0)) if not failed(h) else h


@native
def root(handle, o, gradient):
    """Let a pass start from a tensor or an edge, with the object of a gradient or None. OK, UNUSUAL or a failure."""
    place = words(stack_small())
    result = find_place(o, place)
    if failed(result) or place[0] == 0:
        # Python raises what is wrong with the gradients of all roots before what is wrong with one of the roots.
        return result if result == RAISED else UNUSUAL
    meta = words(node(place[0]).metas + place[1] * META_BYTES)
    h = ones_like(meta) if gradient == none() else operand_handle(gradient)
    if h > 0 and gradient != none():
        retain(h)
    if failed(h):
        result = h
    elif h == 0 or not fits(h, meta):
        result = UNUSUAL
    else:
        result = add_root(handle, place[0], place[1], h)
    if h > 0:
        drop(h)
    drop_node(place[0])
    return result


@native
def want(handle, o):
    """Ask for the gradient of a tensor or an edge. OK, UNUSUAL or a failure."""
    place = words(stack_small())
    result = find_place(o, place)
    if not failed(result):
        if task(handle).flags & ACCUMULATE and is_tensor(o):
            retain_gradient(object_handle(o))
        result = add_wanted(handle, place[0], place[1])
        if place[0] != 0:
            drop_node(place[0])
    return result


# --- the pass --------------------------------------------------------------------------------------------------


@native_once
def begin(handle, outputs, gradients, wanted):
    """Build a pass from its arguments. OK, UNUSUAL or a failure."""
    n = count_of(outputs)
    if n < 0 or (gradients != none() and count_of(gradients) != n):
        return UNUSUAL
    for k in range(n):
        output = item_of(outputs, k)
        gradient = new_reference(none()) if gradients == none() else item_of(gradients, k)
        result = root(handle, output, gradient) if output != 0 and gradient != 0 else UNUSUAL
        for held in (output, gradient):
            if held != 0:
                py_decref(held)
        if failed(result):
            return result
    t = task(handle)
    result = walk(t) if t.flags & COMPILED else discover(t)
    if not failed(result) and wanted != none():
        n = count_of(wanted)
        result = OK if n > 0 else UNUSUAL
        for k in range(n):
            if not failed(result):
                o = item_of(wanted, k)
                result = want(handle, o) if o != 0 else UNUSUAL
                if o != 0:
                    py_decref(o)
    if not failed(result) and t.flags & COMPILED:
        result = choose_plan(t)
    return task_start(handle) if not failed(result) else result


@native
def captured(t):
    """The gradients that were asked for as a tuple, None where they are undefined; zero with an exception set."""
    n = t.n_captures - t.n_roots
    values = py_tuple_new(n)
    for k in range(n):
        if values != 0:
            item = optional_object(capture(t.captures + (t.n_roots + k) * CAPTURE_WORDS * 8).result)
            if item == 0:
                py_decref(values)
                values = 0
            else:
                py_tuple_set(values, k, item)
    return values


@native_once
def fail_in_python(handle, result):
    """Let Python raise what the failure of a pass stands for."""
    facts = facts_of(result)
    number = py_integer(result)
    n = task(handle).node
    o = wrap_node(n) if n != 0 else new_reference(none())
    noted = noted_call()
    answer = 0
    if facts != 0 and number != 0 and o != 0 and noted != 0:
        answer = call_python(runtime().pass_failed, 4, o, number, facts, noted)
    for held in (facts, number, o, noted, answer):
        if held != 0:
            py_decref(held)


@native_once
def end_failed(handle, mode):
    """End a pass in which an exception was raised; in anomaly mode Python says where its node was made."""
    error = words(stack_small())
    at = address_of(error)
    py_err_fetch(at, at + 8, at + 16)
    n = task(handle).node
    if runtime().mode & ANOMALY and n != 0:
        py_err_normalize(at, at + 8, at + 16)
        o = wrap_node(n)
        answer = call_python(runtime().explain_failure, 2, o, error[1]) if o != 0 else 0
        for held in (o, answer):
            if held != 0:
                py_decref(held)
        if answer == 0:
            py_err_clear()
    task_end(handle, mode)
    py_err_restore(error[0], error[1], error[2])


@native_once
def run_pass(outputs, gradients, wanted, flags):
    """Differentiate: see Note [Whole passes].

    `outputs`: a tensor or an edge, or a tuple or list of such; `gradients`: the same for their gradients, or None;
    `wanted`: the same for what gradients are wanted of, or None. Returns these gradients as a tuple, None if they are
    accumulated, NotImplemented if Python has to look at the arguments, Ellipsis if this thread has too many passes
    under way, zero with an exception set, or a failure.
    """
    if is_watched():
        token = begin_event(PASS_EVENT, 0, 0)
        note_stack(token)
        answer = run_here(outputs, gradients, wanted, flags)
        end_event(token)
        return answer
    return run_here(outputs, gradients, wanted, flags)


@native
def are_compiled(mode):
    """Whether passes follow plans, in modes of a thread."""
    return mode & COMPILED_PASSES or (runtime().compile_passes != 0 and not mode & EAGER_PASSES)


@native_once
def run_here(outputs, gradients, wanted, flags):
    """The same, in the modes of the calling thread."""
    rt = runtime()
    mode = rt.mode
    if mode & (ANOMALY | ANOMALY_UNCHECKED) == ANOMALY:
        flags |= CHECK_NAN
    if not flags & REHEARSAL and are_compiled(mode):
        flags |= COMPILED
    handle = task_new(flags)
    if handle == NESTED_TOO_DEEP:
        py_incref(ellipsis())
        return ellipsis()
    if failed(handle):
        return handle
    note_pass()
    t = task(handle)
    answer = 0
    result = begin(handle, outputs, gradients, wanted)
    if not failed(result):
        result = sweep(handle)
    if not failed(result) and t.kept != 0:
        done = call_python(rt.run_callbacks, 1, t.kept)
        if done == 0:
            result = RAISED
        else:
            py_decref(done)
    if result == UNUSUAL:
        answer = not_implemented()
        py_incref(answer)
    elif not failed(result) and flags & ACCUMULATE:
        answer = none()
        py_incref(answer)
    elif not failed(result):
        answer = captured(t)
    elif result != RAISED:
        fail_in_python(handle, result)
    if answer != 0:
        task_end(handle, mode)
    else:
        end_failed(handle, mode)
    return answer
