"""The Python objects of tensors and nodes: how they are made, what the garbage collector learns, how they go.

A tensor's object holds one reference to the record, and the record knows its object, so that a tensor keeps one
identity in Python. A node's object is one with the record: see Note [Nodes and their objects] in `memory`.

Note [What the collector learns]: an object may tell the collector only of references that it owns, each one once. The
object of a tensor owns what its record holds if nobody else holds the record, and so on along the graph: what an
object owns alone is found by counting how often a walk from the object arrives at a record. If that is as often as
there are references, the walk goes on behind the record. It ends at nodes with an object, which are shown.

A tensor that others hold too, nodes that saved it or views of it, would end the walk, and its node would look
referenced from outside for ever. So those hold the node as well (`retain_with_node`): each of them may show that
reference, and the tensor's object that of the record. Whoever of them is alive keeps the node.

If several objects share a tensor without an object in this way, the first that comes to it in a collection shows what
the tensor itself holds, too, as often as it is asked in this collection.

A node that two objects share, but that has no object, ends the walks from both. In a full collection such nodes are
noted, and at its end they get an object (`collection_ends`), so that the next one sees further.

The walk starts only where nodes have or hold objects at all, and it gives up after `WALK_LIMIT` records. Giving up
never frees too much; a cycle that long stays.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    handle_object,
    native,
    native_inline,
    node,
    node_object,
    runtime,
    stack_walk,
    tensor,
    tensor_object,
    words,
)
from fastgrad.native.base.pyapi import (
    TP_FREE,
    call_free,
    call_visit,
    py_clear_weakrefs,
    py_decref,
    py_get_slot,
    py_untrack,
)
from fastgrad.native.contracts.flags import FUNCTION_VIEW
from fastgrad.native.contracts.limits import WALK_STACK
from fastgrad.native.contracts.python_types import N_HOOK_PLACES, NODE_FIELDS, NODE_OBJECT
from fastgrad.native.contracts.records import MAGIC, NODE_KIND
from fastgrad.native.contracts.status import OK, RAISED
from fastgrad.native.memory.buffers import deallocate, grow, room
from fastgrad.native.memory.references import drain, drop, drop_node, part_node, retain_node
from fastgrad.native.memory.storages import version_of
from fastgrad.native.objects.handles import type_of, wrap_node

WALK_LIMIT = 2048
WALK_STEP = 1 << 32  # more than a walk arrives at one record
FIRST_FIELD = NODE_OBJECT.fields["tensor_hooks"][0]
N_FIELDS = len(NODE_FIELDS)


# --- what the collector learns ---------------------------------------------------------------------------------


@native_inline
def push(stack, count, handle):
    """Put a reference that a record holds, if any, onto a stack; returns the new height."""
    if handle != 0 and count < WALK_STACK:
        stack[count] = handle
        count += 1
    return count


@native
def push_tensor(handle, stack, count):
    """Put onto a stack what a tensor holds: its node, its base and the node that comes with it; the new height."""
    t = tensor(handle)
    count = push(stack, count, t.node)
    count = push(stack, count, t.grad)
    if t.base != 0:
        count = push(stack, count, t.base)
        count = push(stack, count, tensor(t.base).node)
    return count


@native
def push_node(handle, stack, count):
    """Put onto a stack what a node holds: other nodes, and the tensors that it saved with theirs; the new height."""
    n = node(handle)
    edges = words(n.edges)
    for k in range(n.n_in):
        count = push(stack, count, edges[2 * k])
    if n.n_saved != 0:
        for k in range(n.n_places):
            h = words(n.saved)[2 * k]
            if h != 0:
                count = push(stack, count, h)
                count = push(stack, count, tensor(h).node)
    return push(stack, count, n.variable)


@native
def visit_held(handle, visit, argument):
    """Show the node of a tensor whose other holders hold it as well, and that of its base, to which it leads."""
    t = tensor(handle)
    answer = 0
    if t.node != 0 and node(t.node).pyobj != 0:
        answer = call_visit(visit, node(t.node).pyobj, argument)
    if answer == 0 and t.node != 0 and t.base != 0 and not t.flags & FUNCTION_VIEW:
        base = tensor(t.base)
        if t.followed == version_of(handle) and base.node != 0 and node(base.node).pyobj != 0:
            answer = call_visit(visit, node(base.node).pyobj, argument)
    return answer


@native
def claims(record, root):
    """Whether `root` is the first object that comes to a tensor in this collection; `link` is free in live records."""
    if record.mark < runtime().collection:
        record.link = root
    return record.link == root and record.pyobj == 0


@native
def visit_owned(root, stack, count, visit, argument):
    """Show the collector the objects of nodes behind what one object owns: see Note [What the collector learns]."""
    rt = runtime()
    rt.walk += WALK_STEP
    others = words(stack_walk())  # what may turn out to be shared
    n_others = 0
    for _ in range(WALK_LIMIT):
        if count == 0:
            break
        count -= 1
        handle = stack[count]
        record = tensor(handle)  # every record starts alike
        is_node = record.magic == MAGIC + NODE_KIND
        if is_node and node(handle).pyobj != 0:
            answer = call_visit(visit, node(handle).pyobj, argument)
            if answer != 0:
                return answer
            continue
        if record.mark < rt.walk:
            if is_node or claims(record, root):
                n_others = push(others, n_others, handle)
            record.mark = rt.walk
        record.mark += 1
        if record.mark != rt.walk + record.refs:
            continue
        if is_node and node(handle).leaf != 0:
            answer = call_visit(visit, node(handle).leaf, argument)
            if answer != 0:
                return answer
        count = push_node(handle, stack, count) if is_node else push_tensor(handle, stack, count)
    return visit_shared(others, n_others, visit, argument)


@native
def visit_shared(others, n_others, visit, argument):
    """The end of a walk: of the records that it came to, see to those that other objects hold, too."""
    rt = runtime()
    for k in range(n_others):
        record = tensor(others[k])
        if record.mark == rt.walk + record.refs:
            continue
        if record.magic == MAGIC + NODE_KIND:
            if rt.promoting != 0:
                note_shared(others[k])
        elif record.refs == record.n_joint:
            answer = visit_held(others[k], visit, argument)
            if answer != 0:
                return answer
    return 0


@native
def note_shared(handle):
    """Note a node without object that several objects share, and hold it until the collection ends."""
    rt = runtime()
    cap = room(rt.n_shared, rt.cap_shared, 1)
    fresh = grow(rt.shared, rt.n_shared, rt.cap_shared, cap)
    if not failed(fresh):
        rt.shared = fresh
        rt.cap_shared = cap
        words(fresh)[rt.n_shared] = handle
        rt.n_shared += 1
        retain_node(handle)


@native
def collection_begins(full):
    """The collector is about to ask what objects hold."""
    rt = runtime()
    rt.walk += WALK_STEP
    rt.collection = rt.walk
    rt.promoting = 1 if full != 0 and rt.n_held_objects > 0 else 0


@native
def collection_ends():
    """Give an object to each node that was found to be shared, and let go of it. A status."""
    rt = runtime()
    rt.promoting = 0
    status = OK
    while rt.n_shared > 0:
        rt.n_shared -= 1
        handle = words(rt.shared)[rt.n_shared]
        if not failed(status):
            o = wrap_node(handle)
            if o == 0:
                status = RAISED
            else:
                py_decref(o)
        drop_node(handle)
    if rt.shared != 0:
        deallocate(rt.shared, rt.cap_shared * 8)
        rt.shared = 0
        rt.cap_shared = 0
    return status


@native
def traverse_tensor(o, visit, argument):
    """`tp_traverse` of a tensor's object."""
    x = tensor_object(o)
    if x.dict != 0:
        answer = call_visit(visit, x.dict, argument)
        if answer != 0:
            return answer
    if x.handle != 0 and runtime().n_held_objects > 0:
        t = tensor(x.handle)
        stack = words(stack_walk())
        answer = 0
        if t.refs == 1:
            answer = visit_owned(o, stack, push_tensor(x.handle, stack, 0), visit, argument)
        elif t.refs == 1 + t.n_joint:
            answer = visit_held(x.handle, visit, argument)
        if answer != 0:
            return answer
    return call_visit(visit, x.type, argument)


@native
def traverse_node(o, visit, argument):
    """`tp_traverse` of a node's object."""
    for k in range(N_FIELDS):
        held = words(o)[FIRST_FIELD + k]
        if held != 0:
            answer = call_visit(visit, held, argument)
            if answer != 0:
                return answer
    x = node_object(o)
    if x.handle != 0:
        leaf = node(x.handle).leaf
        answer = call_visit(visit, leaf, argument) if leaf != 0 else 0
        if answer != 0:
            return answer
        stack = words(stack_walk())
        answer = visit_owned(o, stack, push_node(x.handle, stack, 0), visit, argument)
        if answer != 0:
            return answer
    return call_visit(visit, x.type, argument)


# --- how objects go --------------------------------------------------------------------------------------------


@native
def clear_tensor(o):
    """`tp_clear` of a tensor's object."""
    x = tensor_object(o)
    held = x.dict
    x.dict = 0
    if held != 0:
        py_decref(held)
    return 0


@native
def clear_node(o):
    """`tp_clear` of a node's object."""
    for k in range(N_FIELDS):
        held = words(o)[FIRST_FIELD + k]
        words(o)[FIRST_FIELD + k] = 0
        if k < N_HOOK_PLACES:
            node_object(o).lone[k] = 0  # before any destructor looks
        if held != 0:
            py_decref(held)
    return 0


@native
def free_object(o):
    """Give back the memory of an object whose fields are clear."""
    kind = type_of(o)
    call_free(py_get_slot(kind, TP_FREE), o)
    py_decref(kind)


@native
def dealloc_tensor(o):
    """`tp_dealloc` of a tensor's object."""
    x = tensor_object(o)
    py_untrack(o)
    handle = x.handle
    x.handle = 0
    if handle != 0 and tensor(handle).pyobj == o:
        tensor(handle).pyobj = 0
    if x.weaklist != 0:
        py_clear_weakrefs(o)
    clear_tensor(o)
    if handle != 0:
        drop(handle)
    free_object(o)


@native
def dealloc_node(o):
    """`tp_dealloc` of a node's object: nobody holds the node any more, and its record goes too."""
    x = node_object(o)
    py_untrack(o)
    handle = x.handle
    x.handle = 0
    if handle != 0:
        part_node(handle)
    if x.weaklist != 0:
        py_clear_weakrefs(o)
    if handle != 0:
        drain()
    clear_node(o)
    free_object(o)


@native
def dealloc_handle(o):
    """`tp_dealloc` of the handle of a hook."""
    x = handle_object(o)
    if x.weaklist != 0:
        py_clear_weakrefs(o)
    hooks = x.hooks
    extra = x.extra
    x.hooks = 0
    x.extra = 0
    if hooks != 0:
        py_decref(hooks)
    if extra != 0:
        py_decref(extra)
    free_object(o)
