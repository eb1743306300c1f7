"""The backward pass: run ready nodes newest first, and call what Python has to do with them.

Hooks (see `hooks`), custom functions and, where the pass is recorded itself, the rules on tensors are called from here.
Everything lies in the task, so that Python may run ops, start another pass or raise.
"""

from __future__ import annotations

from fastgrad.native.backward.custom_function import apply_function
from fastgrad.native.backward.derivatives import any_defined, apply, is_recorded_here
from fastgrad.native.backward.gradients import accumulate, add_gradient, fit, fit_leaf, write_retained
from fastgrad.native.backward.hook_calls import (
    fire_post_accumulate,
    fire_post_hooks,
    fire_pre_hooks,
    fire_tensor_hooks,
    optional_object,
    show_values,
)
from fastgrad.native.backward.order import arrives, ends_rehearsal, hand_on
from fastgrad.native.backward.pass_plans import is_over, next_slot
from fastgrad.native.backward.passes import restore_settings
from fastgrad.native.backward.plain_steps import LEFT_TO_DO, NOT_PLAIN, plain_step
from fastgrad.native.backward.slots import find_slot, grads_of, is_wanted, pop_ready, prepare, slot_at
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    capture,
    native,
    native_inline,
    native_once,
    node,
    pass_plan,
    runtime,
    task,
    tensor,
    words,
)
from fastgrad.native.base.modes import enter, is_running
from fastgrad.native.base.pyapi import (
    py_decref,
    py_integer,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
)
from fastgrad.native.contracts.flags import (
    ACCUMULATE,
    CHECK_NAN,
    CREATE_GRAPH,
    FILTERED,
    GRAD_ENABLED,
    IN_VIEW,
    KEEP_GRAPH,
    KEEPS_LATE,
    PACKED,
    PASS_THROUGH,
    POST_ACCUMULATE,
    POST_HOOKS,
    PRE_HOOKS,
    PYTHON_APPLY,
    REHEARSAL,
    REQUIRES_GRAD,
    SAVED_FREED,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.limits import LAST
from fastgrad.native.contracts.ops import EVERY_GRADIENT
from fastgrad.native.contracts.profiles import NODE_EVENT
from fastgrad.native.contracts.records import CAPTURE_WORDS
from fastgrad.native.contracts.status import BAD_GRADIENT, NO_MEMORY, OK, RAISED
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.launches import give_way
from fastgrad.native.memory.profiles import begin_event, end_event, note_number
from fastgrad.native.memory.records import META_BYTES
from fastgrad.native.memory.references import drain, release_reference, release_saved, retain
from fastgrad.native.objects.handles import object_handle, type_of, wrap_node

SKIP = 2


@native
def fit_results(t):
    """Make the results of the current node fit its inputs; a status."""
    n = node(t.node)
    results = words(t.results)
    edges = words(n.edges)
    for k in range(n.n_in):
        if results[k] == 0:
            continue
        if edges[2 * k] == 0:
            # Post-hooks of custom functions and of some ops see it; it is of no dtype but its own.
            if not n.flags & PYTHON_APPLY and not op_record(n.op).flags & EVERY_GRADIENT:
                release_reference(results[k])
                results[k] = 0
            continue
        meta = words(node(edges[2 * k]).metas + edges[2 * k + 1] * META_BYTES)
        h = fit(t, results[k], meta)
        results[k] = 0
        if failed(h):
            if h == BAD_GRADIENT:
                runtime().error[0] = k
            return h
        results[k] = h
    return 0


@native
def distribute(t):
    """Hand the results of the current node to the nodes before it; a status."""
    n = node(t.node)
    results = words(t.results)
    edges = words(n.edges)
    planned = t.plan
    for k in range(n.n_in):
        if edges[2 * k] == 0:
            if results[k] != 0:
                release_reference(results[k])
                results[k] = 0
            continue
        index = find_slot(t, edges[2 * k])
        s = slot_at(t, index)
        if not is_wanted(t, s):
            if results[k] != 0:
                release_reference(results[k])
                results[k] = 0
            continue
        if results[k] != 0:
            h = results[k]
            results[k] = 0
            status = add_gradient(t, grads_of(t, index), edges[2 * k + 1], h)
            if failed(status):
                return status
        if planned == 0 and failed(arrives(t, index)):
            return NO_MEMORY
    if planned != 0 and t.plan == 0:  # it was left meanwhile
        return hand_on(t, t.slot)
    return 0


@native
def release_grads(t):
    """Drop the gradients that came to the current node."""
    n = node(t.node)
    grads = words(t.grads)
    for k in range(n.n_out):
        if grads[k] != 0:
            release_reference(grads[k])
            grads[k] = 0
    if runtime().dead != 0:
        drain()


@native
def write_captures(t):
    """Keep the gradients that were asked for at the current node."""
    at = slot_at(t, t.slot).capture
    while at > 0:
        c = capture(t.captures + (at - 1) * CAPTURE_WORDS * 8)
        g = words(t.grads)[c.output_nr]
        if g != 0:
            retain(g)
        c.result = g
        at = c.next


@native
def enter_pass(t):
    """Make the modes those of the calling thread inside of a pass: gradients are on if it creates a graph."""
    enter()
    rt = runtime()
    rt.mode = (rt.mode & ~GRAD_ENABLED) | (GRAD_ENABLED if t.flags & CREATE_GRAPH else 0)


@native_inline
def calls_hooks(t, n):
    """Whether hooks of a node are called: in a rehearsal those are not where its pass will not come, of leaves and of
    what it captures.
    """
    return not t.flags & REHEARSAL or (n.variable == 0 and not ends_rehearsal(t, slot_at(t, t.slot)))


@native_once
def fire_output_hooks(t):
    """Run the hooks of the outputs of the current node. OK or RAISED."""
    if failed(fire_tensor_hooks(t)):
        return RAISED
    enter_pass(t)
    return OK


@native_inline
def output_hooks(t):
    """Run the hooks of the outputs of the current node, if it has any. OK or RAISED."""
    n = node(t.node)
    if n.flags & TENSOR_HOOKS and calls_hooks(t, n):
        return fire_output_hooks(t)
    return OK


@native
def arrive(t):
    """What comes before the derivative of the current node, behind the hooks of its outputs.

    A status, or SKIP for a node that is not to run. The order is that of PyTorch: tensor hooks, retained gradients,
    captures, pre-hooks.
    """
    n = node(t.node)
    left_out = t.flags & FILTERED != 0 and slot_at(t, t.slot).needed == 0
    if n.retains != 0 and calls_hooks(t, n) and (left_out or not n.flags & KEEPS_LATE):
        status = write_retained(n, words(t.grads))
        if failed(status):
            return status
    if slot_at(t, t.slot).capture != 0:
        write_captures(t)
    if left_out:
        release_grads(t)
        return SKIP
    if n.flags & PRE_HOOKS and calls_hooks(t, n):
        if failed(fire_pre_hooks(t)):
            return RAISED
        enter_pass(t)
    t.had_posts = n.flags & POST_HOOKS
    return 0


@native
def accumulate_alone(t, n, g):
    """Add a gradient to a leaf when no other thread is in the middle of that; a status.

    A thread that was in the middle of it when another one forked does not exist in the child.
    """
    while n.busy != 0 and n.busy != runtime().thread and is_running(n.busy):
        give_way()
        enter_pass(t)
    before = n.busy
    n.busy = runtime().thread
    status = accumulate(t, n, g)
    n.busy = before
    return status


@native
def run_leaf(t, n):
    """Add the gradient that came to an AccumulateGrad node to its leaf; a status."""
    if not t.flags & ACCUMULATE:
        return 0
    g = words(t.grads)[0]
    if g != 0 and tensor(n.variable).flags & REQUIRES_GRAD:  # it may have been switched off since
        kept = fit_leaf(t, n, g)
        if failed(kept):
            words(t.grads)[0] = 0
            return kept
        words(t.grads)[0] = kept
        status = accumulate_alone(t, n, kept)
        if failed(status):
            return status
    if n.flags & POST_ACCUMULATE:
        if failed(fire_post_accumulate(t)):
            return RAISED
        enter_pass(t)
    return 0


@native
def run_derivative(t, n):
    """Run the derivative of a node that is no leaf's, by compiled code or a custom function; a status."""
    if n.flags & PYTHON_APPLY:
        if n.flags & IN_VIEW and not any_defined(words(t.grads), t.n_grads):
            return 0
        result = apply_function(t.node, words(t.grads), t.n_grads, words(t.results))
        if failed(result):
            return result
        enter_pass(t)
        return 0
    n.busy += 1
    status = apply(t)
    n.busy -= 1
    if n.flags & (PACKED | SAVED_FREED):
        if n.busy == 0 and n.flags & SAVED_FREED:  # no other thread is at work on what it saved
            release_saved(t.node)
        enter_pass(t)
    return status


@native
def pass_through(t):
    """Hand the gradients that came to a boundary on as they are; a status."""
    for k in range(t.n_grads):
        g = words(t.grads)[k]
        if g != 0:
            retain(g)
        words(t.results)[k] = g
    return 0


@native
def check_nan(t, n):
    """Raise if the results of the current node, or the gradient that came to a leaf, hold NaN. OK or RAISED."""
    if n.variable != 0:
        status = show_values(runtime().check_nan, t.node, words(t.grads), 1)
    else:
        status = show_values(runtime().check_nan, t.node, words(t.results), t.n_results)
    enter_pass(t)
    return status


@native
def leave(t):
    """What comes behind the derivative of the current node: post-hooks, freeing, handing on. A status."""
    n = node(t.node)
    if n.variable == 0:
        status = fit_results(t)
        if failed(status):
            return status
    if n.flags & POST_HOOKS and calls_hooks(t, n):
        if failed(fire_post_hooks(t)):
            return RAISED
        enter_pass(t)
    if t.flags & CHECK_NAN and failed(check_nan(t, n)):
        return RAISED
    if not t.flags & KEEP_GRAPH and n.variable == 0:
        n.flags |= SAVED_FREED
        if n.busy == 0:
            release_saved(t.node)
    status = distribute(t)
    if not failed(status):
        release_grads(t)
    return status


@native_once
def run_recorded(t, n):
    """Run the derivative of the current node so that what it computes is recorded; a status.

    See Note [Recorded derivatives] in `backward.derivatives`.
    """
    here = is_recorded_here(t, n)
    enter_pass(t)
    if failed(here):
        return here
    return run_derivative(t, n) if here else apply_rules(t)


@native
def apply_rules(t):
    """Let Python apply the rules of the current node on tensors; a status."""
    rt = runtime()
    o = wrap_node(t.node)
    number = py_integer(t.id)
    grads = py_tuple_new(t.n_grads)
    whole = o != 0 and number != 0 and grads != 0
    for k in range(t.n_grads):
        item = optional_object(words(t.grads)[k]) if whole else 0
        if item != 0:
            py_tuple_set(grads, k, item)
        else:
            whole = False
    answer = call_python(rt.apply_rules, 3, number, o, grads) if whole else 0
    if answer != 0:
        for k in range(min(t.n_results, py_tuple_size(answer))):
            h = object_handle(py_tuple_item(answer, k))
            if h != 0:
                retain(h)
            words(t.results)[k] = h
    for held in (o, number, grads, answer):
        if held != 0:
            py_decref(held)
    enter_pass(t)
    return 0 if answer != 0 else RAISED


@native
def run_node(t):
    """What the current node does with the gradients that came to it; a status."""
    n = node(t.node)
    if n.variable != 0:
        return run_leaf(t, n)
    if n.flags & PASS_THROUGH:
        return pass_through(t)
    if t.flags & CREATE_GRAPH and not n.flags & PYTHON_APPLY:
        return run_recorded(t, n)
    return run_derivative(t, n)


@native_inline
def step(t, index):
    """Run the node of a slot; a status."""
    status = prepare(t, index)
    if failed(status):
        return status
    if t.n_roots > 1 and not is_wanted(t, slot_at(t, index)):
        release_grads(t)  # one of several roots that leads nowhere; hooks of an only root do run
        return OK
    status = output_hooks(t)
    return status if failed(status) else go_on(t)


@native_inline
def go_on(t):
    """Run the current node, whose tensor hooks have run; a status."""
    status = arrive(t)
    if status == SKIP:
        return 0
    if not failed(status):
        status = run_node(t)
    if not failed(status):
        status = leave(t)
    return status


@native_once
def planned_step(t):
    """Run the node that the plan of a pass has next; a status."""
    known = words(pass_plan(t.plan).steps)[t.position]
    index = next_slot(t)
    if known == 0:
        status = step(t, index)
        t.finished += 1
        return status
    status = prepare(t, index)
    if not failed(status):
        status = output_hooks(t)
    if not failed(status):
        status = plain_step(t, known) if t.plan != 0 else NOT_PLAIN
    if status == NOT_PLAIN:
        status = go_on(t)
    elif status == LEFT_TO_DO:
        enter_pass(t)
        status = leave(t)
    t.finished += 1
    return status


@native
def sweep(handle):
    """Run until the pass is done. OK or a failure."""
    t = task(handle)
    rt = runtime()
    enter_pass(t)
    if rt.profile != 0:
        return sweep_watched(t)
    status = follow_plan(t) if t.plan != 0 else 0
    while not failed(status):
        if rt.settings[0] != t.settings[0] or rt.settings[1] != t.settings[1]:
            restore_settings(t)
            enter_pass(t)
        if t.plan != 0 or t.n_heap == 0:
            return OK
        status = step(t, pop_ready(t))
    return status


@native_once
def follow_plan(t):
    """Run until the plan of a pass is done, or the pass leaves it. OK or a failure."""
    rt = runtime()
    status = 0
    while not failed(status) and t.plan != 0 and not is_over(t):
        if rt.settings[0] != t.settings[0] or rt.settings[1] != t.settings[1]:
            restore_settings(t)
            enter_pass(t)
        status = planned_step(t)
    return status


@native_once
def sweep_watched(t):
    """The same while there is a profile, or was one when the pass began."""
    rt = runtime()
    status = 0
    while not failed(status):
        if rt.settings[0] != t.settings[0] or rt.settings[1] != t.settings[1]:
            restore_settings(t)
            enter_pass(t)
        if is_over(t):
            return OK
        index = next_slot(t)
        handle = slot_at(t, index).node
        n = node(handle)
        kind = 0
        if n.flags & PYTHON_APPLY and n.pyobj != 0:
            kind = type_of(n.pyobj)
        token = begin_event(NODE_EVENT, n.op, kind)
        note_number(token, n.seq + 1 if n.seq != LAST else 0)
        status = step(t, index)
        end_event(token)
        t.finished += 1
    return status
