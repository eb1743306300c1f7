"""Changes in place: what autograd allows, and the histories of tensors, bases and views after one.

Note [Records of changed tensors]: nodes that saved a tensor hold its record, and would hold the new history with it:
a cycle if that leads to them. So they keep the old record, with the history of the time of saving, and the object of
the tensor moves to a new one. A base takes along its views in so far as they have objects; what nodes saved of other
views stays with the old record.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    native,
    native_once,
    node,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    tensor_object,
    words,
)
from fastgrad.native.contracts.flags import (
    IN_VIEW,
    IS_VIEW,
    REQUIRES_GRAD,
    RETAINS_GRAD,
    SAVED_FREED,
    SAVED_HOOKS,
    VIEW_ORIGIN,
)
from fastgrad.native.contracts.status import LEAF_INPLACE, LEAF_VIEW_INPLACE, OK, RAISED
from fastgrad.native.graph.graph import create_node, is_leaf, rebase, requires_grad
from fastgrad.native.graph.packing import pack_outputs
from fastgrad.native.graph.versions import (
    as_base_has_it,
    as_view_has_it,
    catch_up,
    follow_base,
    node_behind,
    refuse_view,
    strided_plan,
)
from fastgrad.native.launch.elementwise import cast
from fastgrad.native.launch.launch import rule_of
from fastgrad.native.memory.references import (
    drop,
    drop_node,
    enter_node,
    forget_leaf,
    link_retained,
    link_view,
    release_reference,
    retain,
    retain_node,
    unlink_retained,
    unlink_view,
)
from fastgrad.native.tensors.tensors import alias, set_history


@native
def check_inplace(handle):
    """Whether `handle` may change in place by an op of which gradients are wanted. OK or a failure."""
    t = tensor(handle)
    if t.flags & IS_VIEW and t.base != 0:
        if t.flags & VIEW_ORIGIN:
            return refuse_view(handle, 0)
        if requires_grad(handle) and is_leaf(t.base):
            return LEAF_VIEW_INPLACE
        status = catch_up(handle)
        if failed(status):
            return status
    if requires_grad(handle) and is_leaf(handle):
        return LEAF_INPLACE
    return OK


@native_once
def stand_in(n, ins, info, operands):
    """The operands of an op in place as its node shall see them: the first as it was before. A status.

    What stands in carries the history of the old tensor while the node is made.
    """
    mask = 0
    for k in range(n):
        operands[k] = ins[k]
        if tensor(ins[k]).flags & REQUIRES_GRAD:
            mask |= info.save[rule_of(k)]
    for k in range(1, n):
        if ins[k] == ins[0] and mask & (1 << k):
            mask |= 1
    if mask & 1:
        # The derivative reads the old value: it is copied before it is gone.
        before = cast(ins[0], tensor(ins[0]).dtype)
    else:
        before = alias(ins[0])
    if failed(before):
        return before
    for k in range(n):
        if ins[k] == ins[0]:
            operands[k] = before
    t = tensor(ins[0])
    if t.flags & REQUIRES_GRAD:
        old = tensor(before)
        old.flags |= REQUIRES_GRAD
        old.node = t.node
        old.output_nr = t.output_nr
        if old.node != 0:
            retain_node(old.node)
    return 0


@native
def reborn(handle):
    """A new record for a tensor, to which its object moves: everything but base and views. Zero references are given
    if there is an object, else one; a negative status without memory.
    """
    t = tensor(handle)
    fresh = alias(handle)
    if failed(fresh):
        return fresh
    f = tensor(fresh)
    f.flags = t.flags
    f.followed = t.followed
    f.grad = t.grad
    t.grad = 0
    f.output_nr = t.output_nr
    if t.node != 0:
        retain_node(t.node)
        enter_node(fresh, t.node)
    if t.flags & RETAINS_GRAD:
        unlink_retained(handle)
        t.flags &= ~RETAINS_GRAD
        link_retained(fresh, t.node)
    o = t.pyobj
    if o != 0:
        t.pyobj = 0
        if t.accumulator != 0 and node(t.accumulator).leaf == o:
            forget_leaf(t.accumulator)
        tensor_object(o).handle = fresh
        tensor_object(o).generation = f.generation
        f.pyobj = o
        release_reference(handle)
    return fresh


@native
def held_by_nodes(handle, view):
    """Whether a tensor that has changed, or a view of it, is held by others than objects, views and the caller.

    The caller holds one reference to what changed: the view, or where that is zero the tensor.
    """
    t = tensor(handle)
    others = t.refs - (1 if t.pyobj != 0 else 0) - (1 if view == 0 else 0)
    found = False
    v = t.views
    while v != 0:
        others -= 1
        w = tensor(v)
        if w.refs > (1 if w.pyobj != 0 else 0) + (1 if v == view else 0):
            found = True
        v = w.view_next
    return found or others > 0


@native_once
def renewed(handle, view):
    """The record that goes on as a tensor which changes in place: itself, or a new one.

    `view` is the view through which it changes, or zero. See Note [Records of changed tensors]. A negative status
    without memory.
    """
    t = tensor(handle)
    if (t.pyobj == 0 and view == 0) or not held_by_nodes(handle, view):
        return handle
    owned = t.pyobj != 0
    fresh = reborn(handle)
    if failed(fresh):
        return fresh
    v = t.views
    while v != 0:
        w = tensor(v)
        following = w.view_next
        if w.pyobj != 0 or v == view:
            goes_on = v
            if w.pyobj != 0 and w.refs > (2 if v == view else 1):
                goes_on = reborn(v)
            if failed(goes_on) or goes_on == v:
                unlink_view(v)
                goes_on = v
            link_view(goes_on, fresh)
        v = following
    if not owned:
        release_reference(fresh)  # its views hold it
    return fresh


@native
def move_history(result, created):
    """Give a tensor that was changed in place its new history; takes over both references.

    Returns the record that the tensor has from now on, with a reference, or a negative status.
    """
    fresh = change_history(result, created, 0)
    status = fresh
    if not failed(fresh):
        status = OK
        if fresh != result:
            retain(fresh)
            drop(result)
            result = fresh
        out = words(stack_small())
        out[0] = result
        if runtime().mode & SAVED_HOOKS and failed(pack_outputs(created, out)):
            status = RAISED
            node(created).flags |= SAVED_FREED  # the history stands, but cannot be followed, as in PyTorch
    drop_node(created)
    if failed(status):
        drop(result)
        return status
    return result


@native
def change_history(h, created, output_nr):
    """Make a tensor that was changed in place an output of a node; the caller holds a reference to it.

    Returns the record that the tensor has from now on, or a negative status.
    """
    t = tensor(h)
    if t.flags & IS_VIEW and t.base != 0:
        return rebase_view(h, created, output_nr)
    fresh = renewed(h, 0)
    if not failed(fresh):
        retain_node(created)
        rebase(fresh, created)
        tensor(fresh).output_nr = output_nr
    return fresh


@native_once
def merged_into(base, source, h):
    """The node of a base after a change of its view `h`, which lies there as `source` does; or a failure."""
    rt = runtime()
    changed = as_view_has_it(base, h)
    if failed(changed):
        return changed
    plan = words(stack_frame())
    n_plan = strided_plan(source, changed, plan)
    ins = words(stack_small())
    outs = words(stack_small())
    ins[0] = changed
    ins[1] = source
    outs[0] = changed
    merged = create_node(rt.copy_slices_op, 2, ins, 1, outs, n_plan, plan)
    if not failed(merged) and changed != base:
        after = alias(changed)
        if failed(after):
            drop_node(merged)
            merged = after
        else:
            set_history(after, merged, 0)
            drop_node(merged)
            merged = node_behind(rt.view_as_complex_op, after, base)
            drop(after)
    drop(changed)
    return merged


@native_once
def rebase_view(h, created, output_nr):
    """A view was changed in place by the op of node `created`, whose output it is: base and view get new histories.

    The base's new node takes the base's old gradient outside of the view and that of the op's result inside; the
    view becomes an as_strided of the base. Other views follow when they are next looked at. Returns the record that
    the view has from now on, or a negative status.
    """
    o = tensor(h).pyobj
    base = renewed(tensor(h).base, h)
    if failed(base):
        return base
    if o != 0:
        h = tensor_object(o).handle
    source = alias(h)
    if failed(source):
        return source
    set_history(source, created, output_nr)
    node(created).flags |= IN_VIEW
    source = as_base_has_it(source, h)
    if failed(source):
        return source
    merged = merged_into(base, source, h)
    drop(source)
    if failed(merged):
        return merged
    rebase(base, merged)
    status = follow_base(h)
    return h if not failed(status) else status
