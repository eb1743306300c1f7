"""The key of a compiled pass: words that say how its graph is built, compared with a plan's while they are found.

Note [Keys of passes]: the walk that finds the nodes of a pass meets them in an order that roots and edges alone decide,
and gives them slots in it. The key holds, node by node, the op, the slots that edges lead to, dtypes, devices and
numbers of dimensions of outputs and of what is saved, whether a leaf wants gradients, and how many hooks there are at
which place. Sizes, numbers, strides, which tensors these are and which hooks are not in it: a plan does not depend on
them. The words are compared one by one with those of the plan that is expected (`guess`); only from where they part on
are they written down (`part`).
"""

from __future__ import annotations

from fastgrad.native.backward.hook_dicts import at_place, is_several, leaf_hooks
from fastgrad.native.backward.pass_store import let_go
from fastgrad.native.backward.slots import find_slot, slot_at, slot_of
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    capture,
    memcpy,
    native,
    native_inline,
    native_once,
    node,
    node_object,
    pass_plan,
    runtime,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.base.pyapi import (
    py_decref,
    py_dict_next,
    py_dict_size,
    py_err_clear,
    py_incref,
    py_integer_value,
    py_is_subtype,
    py_list_append,
    py_list_new,
    py_tuple_item,
    py_tuple_size,
)
from fastgrad.native.contracts.flags import (
    ACCUMULATE,
    FILTERED,
    IN_VIEW,
    IS_PACKED,
    PACKED,
    PASS_THROUGH,
    POST_ACCUMULATE,
    POST_HOOKS,
    PRE_HOOKS,
    PYTHON_APPLY,
    REQUIRES_GRAD,
    SAVED_FREED,
    TENSOR_HOOKS,
)
from fastgrad.native.contracts.pass_plans import (
    A_FUNCTION,
    A_LEAF,
    A_NODE,
    A_PASS,
    A_ROOT,
    A_SAVED,
    A_WISH,
    AN_EDGE,
    AN_OUTPUT,
    OP_BITS,
    PLAN_GUESSES,
    SOME_HOOKS,
    TAG_SHIFT,
)
from fastgrad.native.contracts.python_types import OUTPUT_PLACE, POST_PLACE, PRE_PLACE
from fastgrad.native.contracts.records import CAPTURE_WORDS
from fastgrad.native.contracts.status import NO_MEMORY, NOT_FOUND, OK, RAISED
from fastgrad.native.memory.buffers import grow, room
from fastgrad.native.memory.records import META_BYTES
from fastgrad.native.objects.handles import type_of, wrap_node

AFTER_PLACE = 3  # of post-accumulate hooks, in keys
UNREADABLE = 0xFFFF  # in place of a number of hooks, where something else stands in place of their dict
WORD = (1 << TAG_SHIFT) - 1
HOPS = 4  # along the first edges from the root, to tell apart graphs that begin alike


# --- words -----------------------------------------------------------------------------------------------------


@native_inline
def put(t, tag, word):
    """Let a word be the next one of a key."""
    word |= tag << TAG_SHIFT
    at = t.n_key
    t.n_key = at + 1
    if t.guess != 0:
        p = pass_plan(t.guess)
        if at < p.n_key and words(p.key)[at] == word:
            return
        part(t, at)
    if at < t.cap_key:
        words(t.key)[at] = word
    else:
        put_beyond(t, at, word)


@native_once
def part(t, at):
    """From word `at` on the key is another one than the expected one."""
    p = pass_plan(t.guess)
    t.parted = at + 1
    t.expected = words(p.key)[at] if at < p.n_key else 0
    cap = room(0, t.cap_key, at + 1)
    fresh = grow(t.key, 0, t.cap_key, cap)
    if failed(fresh):
        t.parted = NO_MEMORY
    else:
        memcpy(fresh, p.key, at * 8)
        t.key = fresh
        t.cap_key = cap
    let_go(t.guess)
    t.guess = 0


@native_once
def put_beyond(t, at, word):
    """Likewise where there is no room yet. Without memory for it the pass fails when it looks for its plan."""
    if t.parted == NO_MEMORY:
        return
    cap = room(at, t.cap_key, 1)
    fresh = grow(t.key, at, t.cap_key, cap)
    if failed(fresh):
        t.parted = NO_MEMORY
        return
    t.key = fresh
    t.cap_key = cap
    words(fresh)[at] = word


# --- hooks -----------------------------------------------------------------------------------------------------


@native_once
def collect_later(t, o):
    """Note an object that says itself what belongs to the key; it is asked when all nodes are found. OK or RAISED."""
    py_incref(o)  # the collector may run, and destructors do anything
    if t.collected == 0:
        t.collected = py_list_new(0)
    status = OK if t.collected != 0 and py_list_append(t.collected, o) == 0 else RAISED
    py_decref(o)
    return status


@native
def is_class_hook(hook, place):
    """Whether a hook is one of those that are written as classes."""
    if place == AFTER_PLACE:
        return py_is_subtype(type_of(hook), runtime().post_accumulate_class) != 0
    return type_of(hook) == runtime().class_hook_type


@native
def put_hooks(t, place, output_nr, hooks, lone):
    """Put how many hooks there are in a place: the lone one, or those of a dict. OK or RAISED."""
    count = 1
    status = OK
    if lone != 0:
        if is_class_hook(hooks, place):
            status = collect_later(t, hooks)
    else:
        py_incref(hooks)
        count = min(py_dict_size(hooks), UNREADABLE - 1)
        walk = stack_small()
        words(walk)[0] = 0
        while not failed(status) and py_dict_next(hooks, walk, walk + 8, walk + 16) != 0:
            hook = words(walk)[2]
            if is_class_hook(hook, place):
                status = collect_later(t, hook)
        py_decref(hooks)
    if count > 0:
        put(t, SOME_HOOKS, place << 48 | min(output_nr, 0xFFFF) << 20 | count)
    return status


@native_once
def put_tensor_hooks(t, o):
    """Put the hooks of the outputs of a node, by its object. OK or RAISED."""
    held = at_place(o, OUTPUT_PLACE)
    if held == 0:
        return OK
    if node_object(o).lone[OUTPUT_PLACE] != 0 or not is_several(held):
        return put_hooks(t, OUTPUT_PLACE, 0, held, node_object(o).lone[OUTPUT_PLACE])
    status = OK
    py_incref(held)
    for k in range(py_tuple_size(held)):
        pair = py_tuple_item(held, k)
        if not failed(status):
            output_nr = py_integer_value(py_tuple_item(pair, 0))
            status = put_hooks(t, OUTPUT_PLACE, output_nr, py_tuple_item(pair, 1), 0)
    py_decref(held)
    return status


@native_once
def put_node_hooks(t, n):
    """Put the hooks of a node that is no leaf's. OK or RAISED."""
    o = n.pyobj
    if o == 0:
        return OK
    py_incref(o)
    status = put_tensor_hooks(t, o)
    for place in (PRE_PLACE, POST_PLACE):
        hooks = at_place(o, place)
        if hooks != 0 and not failed(status):
            status = put_hooks(t, place, 0, hooks, node_object(o).lone[place])
    py_decref(o)
    return status


@native_once
def put_leaf_hooks(t, n):
    """Put the hooks of a leaf, and of its node. OK or RAISED.

    What stands in place of their dicts and is none raises when the pass comes to it.
    """
    status = put_node_hooks(t, n)
    for post in (0, 1):
        place = AFTER_PLACE if post != 0 else OUTPUT_PLACE
        hooks = leaf_hooks(n.variable, post) if not failed(status) else 0
        if failed(hooks):
            py_err_clear()
            put(t, SOME_HOOKS, place << 48 | UNREADABLE)
        elif hooks != 0:
            status = put_hooks(t, place, 0, hooks, 0)
    return status


# --- nodes -----------------------------------------------------------------------------------------------------


@native
def put_saved(t, n):
    """Put what a node saved: where, of which dtype and on which device, of how many dimensions."""
    saved = words(n.saved)
    for k in range(n.n_places):
        h = saved[2 * k]
        if n.flags & PACKED and saved[2 * k + 1] == IS_PACKED:
            put(t, A_SAVED, k << 32 | 1 << 31)
        elif h != 0:
            s = tensor(h)
            wants = 1 if s.flags & REQUIRES_GRAD else 0
            put(t, A_SAVED, k << 32 | wants << 30 | s.ndim << 16 | s.device << 8 | s.dtype)


@native_once
def put_function(t, handle):
    """Put which custom function a node is of, and note it if that has a key of its own. OK or RAISED."""
    o = wrap_node(handle)
    if o == 0:
        return RAISED
    put(t, A_FUNCTION, type_of(o) & WORD)
    status = collect_later(t, o) if runtime().function_keys != 0 else OK
    py_decref(o)
    return status


@native_inline
def put_edges(t, n):
    """Put where the edges of a node lead, and give slots to the nodes that have none yet. OK or NO_MEMORY."""
    edges = words(n.edges)
    for k in range(n.n_in):
        if edges[2 * k] == 0:
            put(t, AN_EDGE, 0)
            continue
        index = slot_of(t, edges[2 * k])
        if failed(index):
            return index
        put(t, AN_EDGE, (index + 1) << 20 | edges[2 * k + 1])
    return OK


@native
def put_node(t, handle):
    """Put what belongs to the key of a node. OK or a failure."""
    n = node(handle)
    flags = n.flags & (PYTHON_APPLY | IN_VIEW | PASS_THROUGH | PACKED | SAVED_FREED)
    retains = 1 if n.retains != 0 else 0
    rest = retains | n.n_in << 1 | n.n_out << 17 | flags << 33
    put(t, A_NODE, rest << OP_BITS | n.op)
    status = put_edges(t, n)
    for k in range(n.n_out):
        meta = words(n.metas + k * META_BYTES)
        put(t, AN_OUTPUT, (meta[2] & 0xFF) << 16 | (meta[1] & 0xFF) << 8 | meta[0] & 0xFF)
    if n.n_saved != 0:
        put_saved(t, n)
    if n.variable != 0:
        put(t, A_LEAF, 1 if tensor(n.variable).flags & REQUIRES_GRAD else 0)
    if n.flags & PYTHON_APPLY and not failed(status):
        status = put_function(t, handle)
    if n.flags & (TENSOR_HOOKS | PRE_HOOKS | POST_HOOKS | POST_ACCUMULATE) and not failed(status):
        status = put_leaf_hooks(t, n) if n.variable != 0 else put_node_hooks(t, n)
    return status


@native
def guess_place(t):
    """Where the plan is noted that was last used for a graph that begins like this one."""
    mixed = t.flags * 31 + t.n_roots
    handle = node_of_root(t, 0) if t.n_roots > 0 else 0
    for _ in range(HOPS):
        if handle != 0:
            n = node(handle)
            mixed = (mixed * 31 + n.op) * 7 + (n.flags & (PRE_HOOKS | POST_HOOKS | TENSOR_HOOKS)) + n.n_in
            handle = words(n.edges)[0] if n.n_in > 0 else 0
    return mixed & (PLAN_GUESSES - 1)


@native_inline
def node_of_root(t, k):
    """The node of the k-th root."""
    return capture(t.captures + k * CAPTURE_WORDS * 8).node


@native
def walk(t):
    """Give every node that the roots reach a slot, and put it into the key. OK or a failure."""
    t.guess = runtime().plan_guesses[guess_place(t)]
    if t.guess != 0:
        pass_plan(t.guess).users += 1
    put(t, A_PASS, t.flags << 20 | t.n_roots)
    for k in range(t.n_roots):
        c = capture(t.captures + k * CAPTURE_WORDS * 8)
        put(t, A_ROOT, find_slot(t, c.node) << 20 | c.output_nr)
    at = 0
    while at < t.n_slots:
        status = put_node(t, slot_at(t, at).node)
        if failed(status):
            return status
        at += 1
    return OK


@native
def put_wishes(t):
    """Put what gradients are asked for."""
    for k in range(t.n_roots, t.n_captures):
        c = capture(t.captures + k * CAPTURE_WORDS * 8)
        index = find_slot(t, c.node) if c.node != 0 else NOT_FOUND
        put(t, A_WISH, (index + 1 if index != NOT_FOUND else 0) << 20 | c.output_nr)
    if t.flags & FILTERED and t.flags & ACCUMULATE:
        for k in range(t.n_slots):
            if slot_at(t, k).needed != 0:
                put(t, A_WISH, (k + 1) << 20)
