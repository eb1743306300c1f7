"""Nodes of a compiled pass at which nothing is due but a derivative of its inputs one by one.

Note [Plain steps]: a plan knows of such a node where its gradients go, which ops or programs give them, and in which
places what these read was saved (`write_step`). Whether anything else is due (a hook, gradients that are kept, what was
freed or changed in place) is looked at when the node's turn comes: it then runs as any other.
"""

from __future__ import annotations

from fastgrad.native.backward.derivatives import run_program
from fastgrad.native.backward.gradients import add_gradient, fit, fits
from fastgrad.native.backward.order import hand_on
from fastgrad.native.backward.slots import find_slot, grads_of, slot_at
from fastgrad.native.base.failures import failed, noted
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    native_once,
    node,
    nth,
    plain_edge,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
    words_of,
)
from fastgrad.native.contracts.flags import (
    CHECK_NAN,
    CREATE_GRAPH,
    DETACHED,
    FILTERED,
    KEEP_GRAPH,
    QUEUED,
    SAVED_FREED,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.limits import RULES, SAVED_SLOTS
from fastgrad.native.contracts.ops import (
    ENV_ABSENT,
    ENV_GRADS,
    ENV_SAVED,
    EVERY_GRADIENT,
    FUSED,
    HOLOMORPHIC,
    IDENTITY,
    PROGRAM,
)
from fastgrad.native.contracts.status import BAD_GRADIENT, OK
from fastgrad.native.graph.graph import version_of
from fastgrad.native.launch.elementwise import elementwise
from fastgrad.native.launch.launch import op_record, rule_of
from fastgrad.native.launch.promotion import is_complex
from fastgrad.native.memory.records import META_BYTES
from fastgrad.native.memory.references import drain, drop, release_reference, release_saved, retain

NOT_PLAIN, LEFT_TO_DO = 1, 2  # see `plain_step`


# --- what a plan knows -----------------------------------------------------------------------------------------


@native
def is_plain(t, n, info):
    """Whether a node can be run by a plain step in passes like this one."""
    if (
        t.flags & (CREATE_GRAPH | CHECK_NAN | FILTERED)
        or n.flags & ~(QUEUED | TENSOR_HOOKS)
        or n.variable != 0
    ):
        return False
    if n.n_out != 1 or n.n_in > RULES or info.joint != 0 or info.flags & EVERY_GRADIENT:
        return False
    if info.flags & HOLOMORPHIC and is_complex(words(n.metas)[0]):
        return False
    for k in range(n.n_in):
        kind = info.grad_kind[rule_of(k)]
        if words(n.edges)[2 * k] != 0 and kind != FUSED and kind != IDENTITY and kind != PROGRAM:
            return False
    return n.op != runtime().copy_slices_op


@native
def places_of(mask):
    """The places of a mask as a word: their number in the lowest four bits, then four bits for each."""
    found = 0
    count = 0
    for place in range(SAVED_SLOTS):
        if mask & (1 << place):
            count += 1
            found |= place << (4 * count)
    return found | count


@native
def write_step(t, index, out):
    """Write how a plain step runs a slot's node: the number of its edges, then of each what it says. Returns how many

    words that are, 0 for a node that no plain step runs.
    """
    n = node(slot_at(t, index).node)
    info = op_record(n.op)
    if not is_plain(t, n, info):
        return 0
    order = info.order >> (16 * (n.n_in - 1))
    count = 0
    at = 1
    for i in range(n.n_in):
        k = (order >> (4 * i)) & 15
        if words(n.edges)[2 * k] == 0:
            continue
        edge = plain_edge(out + 8 * at)
        edge.input = k
        edge.op = info.grad[rule_of(k)] if info.grad_kind[rule_of(k)] == FUSED else 0
        edge.program = info.grad[rule_of(k)] if info.grad_kind[rule_of(k)] == PROGRAM else 0
        edge.places = places_of(info.reads[rule_of(k)])
        edge.slot = find_slot(t, words(n.edges)[2 * k])
        edge.output_nr = words(n.edges)[2 * k + 1]
        count += 1
        at += words_of(edge)
    words(out)[0] = count
    return at


# --- the step --------------------------------------------------------------------------------------------------


@native_inline
def is_unchanged(n):
    """Whether all that a node saved is as it was."""
    saved = words(n.saved)
    left = n.n_saved
    k = 0
    while left > 0 and k < n.n_places:
        h = saved[2 * k]
        if h != 0:
            left -= 1
            if tensor(h).flags & DETACHED or version_of(h) != saved[2 * k + 1]:
                return False
        k += 1
    return True


@native_once
def program_gradient(t, n, edge):
    """The gradient of an edge that a program gives; a handle, or a failure."""
    env = words(stack_frame())
    env[ENV_GRADS] = words(t.grads)[0]
    env[ENV_GRADS + 1] = 0
    env[ENV_ABSENT] = 0
    for place in range(SAVED_SLOTS):
        env[ENV_SAVED + place] = words(n.saved)[2 * place]
    return run_program(edge.program, t.node, edge.input, env, words(t.grads))


@native_inline
def edge_gradient(t, n, edge, g):
    """The gradient of an edge; a handle, 0 if a program gives none, or a failure."""
    if edge.program != 0:
        return program_gradient(t, n, edge)
    if edge.op == 0:
        retain(g)
        return g
    ins = words(stack_small())
    ins[0] = g
    places = edge.places
    count = places & 15
    for k in range(count):
        places >>= 4
        ins[k + 1] = words(n.saved)[2 * (places & 15)]
    return noted(elementwise(edge.op, count + 1, ins), count + 1, ins, 0, ins)


@native_once
def drop_results(results, n):
    """Drop what a step gave before it failed."""
    for k in range(n):
        if results[k] > 0:
            drop(results[k])


@native_inline
def derive_plainly(t, n, step, g, results):
    """Write the gradients of a node's edges, made to fit. OK or a failure, with nothing left."""
    n.busy += 1
    count = words(step)[0]
    status = OK
    for i in range(count):
        edge = nth_edge(step, i)
        h = edge_gradient(t, n, edge, g)
        if failed(h):
            drop_results(results, i)
            status = h
            break
        results[i] = h
    n.busy -= 1
    if failed(status):
        return status
    for i in range(count):
        edge = nth_edge(step, i)
        target = node(words(n.edges)[2 * edge.input])
        meta = words(target.metas + edge.output_nr * META_BYTES)
        if results[i] != 0 and not fits(results[i], meta):
            h = fit(t, results[i], meta)
            results[i] = h
            if failed(h):
                drop_results(results, count)
                if h == BAD_GRADIENT:
                    runtime().error[0] = edge.input
                return h
    return OK


@native_inline
def nth_edge(step, i):
    """The i-th edge of a plain step."""
    return nth(plain_edge(step + 8), i)


@native_inline
def release_plainly(t, n):
    """A node has run: free what it saved, unless that is kept or another thread is at work on it."""
    if not t.flags & KEEP_GRAPH:
        n.flags |= SAVED_FREED
    if n.flags & SAVED_FREED and n.busy == 0:
        release_saved(t.node)


@native_inline
def hand_out(t, n, step, results):
    """Add the gradients of a node's edges to those that wait in the slots that they go to. A status."""
    count = words(step)[0]
    for i in range(count):
        edge = nth_edge(step, i)
        if results[i] == 0:
            continue
        grads = grads_of(t, edge.slot)
        if grads[edge.output_nr] == 0:
            grads[edge.output_nr] = results[i]
            continue
        status = add_gradient(t, grads, edge.output_nr, results[i])
        if failed(status):
            for j in range(i + 1, count):
                if results[j] != 0:
                    drop(results[j])
            return status
    return OK if t.plan != 0 else hand_on(t, t.slot)  # the pass may have left its plan meanwhile


@native_inline
def plain_step(t, step):
    """Run the current node, whose tensor hooks have run, if nothing else is due.

    OK, a failure, or NOT_PLAIN: nothing was done then. LEFT_TO_DO: the derivative ran, its results are those of the
    task, and something has become due meanwhile.
    """
    n = node(t.node)
    g = words(t.grads)[0]
    if n.flags & ~(QUEUED | TENSOR_HOOKS) or n.retains != 0 or g == 0 or not is_unchanged(n):
        return NOT_PLAIN
    results = words(stack_small())
    status = derive_plainly(t, n, step, g, results)
    if failed(status):
        return status
    if n.flags & ~(QUEUED | TENSOR_HOOKS | SAVED_FREED):
        return give_back(t, step, results)
    release_plainly(t, n)
    status = hand_out(t, n, step, results)
    words(t.grads)[0] = 0
    release_reference(g)
    if runtime().dead != 0:
        drain()
    return status


@native_once
def give_back(t, step, results):
    """Let the results of a step be those of the task. Returns LEFT_TO_DO."""
    t.had_posts = 0
    for i in range(words(step)[0]):
        words(t.results)[nth_edge(step, i).input] = results[i]
    return LEFT_TO_DO
