"""Changes of memory: whether what nodes saved is unchanged, and views that take up the histories of their bases.

Note [Views of changed bases]: a view whose base was changed in place is an ``as_strided`` of the base from then on, by
its sizes and strides, whatever views it was made by. If it holds conjugates of what the base holds there, their node
stands behind that. Complex numbers and their parts are brought to one dtype first: the base is viewed as reals where
the view is real, and where the base is, the view comes from reals. So gradients go through nodes that exist anyway.
"""

from __future__ import annotations

from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    native_once,
    node,
    runtime,
    stack_frame,
    stack_small,
    storage,
    tensor,
    words,
)

# --- nodes -----------------------------------------------------------------------------------------------------
from fastgrad.native.contracts.flags import (
    CONJUGATED,
    DETACHED,
    FUNCTION_VIEW,
    IS_VIEW,
    MULTI_VIEW,
    NO_GRAD_VIEW,
    PYTHON_APPLY,
    REQUIRES_GRAD,
    SAVED_FREED,
    VIEW_ORIGIN,
)
from fastgrad.native.contracts.status import (
    FREED_GRAPH,
    FUNCTION_VIEW_INPLACE,
    INFERENCE_VIEW_INPLACE,
    MULTI_VIEW_INPLACE,
    NO_GRAD_VIEW_INPLACE,
    OK,
    SAVED_DETACHED,
    SAVED_MODIFIED,
)
from fastgrad.native.graph.graph import create_node, edge_of, rebase
from fastgrad.native.graph.packing import place_at
from fastgrad.native.launch.launch import op_record
from fastgrad.native.launch.promotion import is_complex
from fastgrad.native.memory.references import (
    drop,
    drop_node,
    retain,
)
from fastgrad.native.memory.storages import version_of
from fastgrad.native.tensors.elements import ITEMSIZE_OF
from fastgrad.native.tensors.reinterpretations import view_as_complex, view_as_real, view_conjugate
from fastgrad.native.tensors.tensors import alias, is_complex_of, set_history


@native
def gradient_edge(handle):
    """Like `edge_of`, for a tensor that may be a view which its base has left behind."""
    status = catch_up(handle)
    return edge_of(handle) if not failed(status) else status


@native
def check_saved(handle):
    """Whether a derivative may use what a node saved: it is still there and unchanged. A status with the facts.

    Inputs must have kept their histories as well.
    """
    n = node(handle)
    if n.flags & SAVED_FREED:
        return FREED_GRAPH
    if n.n_saved == 0:
        return 0
    for k in range(n.n_places):
        h = words(n.saved)[2 * k]
        if h == 0:
            continue
        if tensor(h).flags & DETACHED and lost_history(n, k, h):
            return SAVED_DETACHED
        if version_of(h) != words(n.saved)[2 * k + 1]:
            return first_changed(n)
    return 0


@native_once
def first_changed(n):
    """The failure of the first place, in the order in which places are unpacked, whose tensor was changed since."""
    info = op_record(n.op)
    for i in range(n.n_places):
        k = i if n.flags & PYTHON_APPLY else place_at(info, i)
        status = check_version(n, k) if words(n.saved)[2 * k] != 0 else 0
        if failed(status):
            return status
    return OK


@native
def check_readable(handle, k):
    """Whether what a node saved in place `k` is still there and unchanged, for those who only look at it."""
    n = node(handle)
    if n.flags & SAVED_FREED:
        return FREED_GRAPH
    return check_version(n, k) if words(n.saved)[2 * k] != 0 else 0


@native
def check_version(n, k):
    """Whether the tensor in place `k` of node `n` is unchanged. A status with the facts.

    Where it cannot follow its base, that comes first: whoever reads it asks for its history before its version.
    """
    h = words(n.saved)[2 * k]
    expected = words(n.saved)[2 * k + 1]
    if version_of(h) == expected:
        return OK
    t = tensor(h)
    if t.flags & VIEW_ORIGIN and t.flags & IS_VIEW and t.base != 0:
        status = catch_up(h)
        if failed(status):
            return status
    return fail(SAVED_MODIFIED, h, version_of(h), expected)


@native
def lost_history(n, k, h):
    """Whether a tensor that node `n` of an op saved as its input `k` had a history then, and has none now."""
    if k >= n.n_in or n.flags & PYTHON_APPLY or tensor(h).node != 0:
        return False
    edge = words(n.edges)[2 * k]
    return edge != 0 and node(edge).variable == 0


@native
def strided_plan(h, base_handle, plan):
    """How a view lies in its base, which has its dtype: rank, sizes, strides, offset in elements, then rank and
    strides of the base.

    Places are counted from the beginnings of the storages, which differ once one of the two was given other memory.
    Returns the number of integers.
    """
    t = tensor(h)
    base = tensor(base_handle)
    n = t.ndim
    place = t.data - storage(t.storage).data
    base_place = base.data - storage(base.storage).data
    plan[0] = n
    for k in range(n):
        plan[1 + k] = t.shape[k]
        plan[1 + n + k] = t.strides[k]
    plan[1 + 2 * n] = (place - base_place) // ITEMSIZE_OF[t.dtype]
    plan[2 + 2 * n] = base.ndim
    for k in range(base.ndim):
        plan[3 + 2 * n + k] = base.strides[k]
    return 3 + 2 * n + base.ndim


@native
def refuse_view(h, done):
    """The failure of a view that cannot follow its base: it is about to change, or (`done`) its base has changed."""
    t = tensor(h)
    origin = t.flags & VIEW_ORIGIN
    if origin & MULTI_VIEW:
        return fail(MULTI_VIEW_INPLACE, h, done)
    if origin == FUNCTION_VIEW:
        return fail(FUNCTION_VIEW_INPLACE, h, done)
    if origin == NO_GRAD_VIEW:
        return fail(NO_GRAD_VIEW_INPLACE, h, done)
    return fail(INFERENCE_VIEW_INPLACE, h, done)


@native_inline
def turns(h):
    """Whether a view holds the conjugates, or negatives, of what its base holds there."""
    return (tensor(h).flags ^ tensor(tensor(h).base).flags) & CONJUGATED != 0


@native_once
def node_behind(op, h, out):
    """The node of an op of one operand, `h`, that gives `out`; or a failure."""
    ins = words(stack_small())
    ins[0] = h
    outs = words(stack_small())
    outs[0] = out
    return create_node(op, 1, ins, 1, outs, 0, outs)


@native_once
def result_of(op, h, made):
    """A tensor, or a failure, as what an op gave for `h`: with a history, if `h` has one."""
    if failed(made) or not tensor(h).flags & REQUIRES_GRAD:
        return made
    created = node_behind(op, h, made)
    if failed(created):
        drop(made)
        return created
    set_history(made, created, 0)
    drop_node(created)
    return made


@native_once
def turning_op(h):
    """The op that gives the conjugates of a tensor, or its negatives, as a view."""
    return runtime().conj_op if is_complex(tensor(h).dtype) else runtime().neg_view_op


@native_once
def as_base_has_it(now, h):
    """What lies in the base of a view `h` for `now`, a tensor like it, which it takes over; or a failure.

    It has the dtype of the base, and holds conjugates where that does.
    """
    if not failed(now) and turns(h):
        plain = result_of(turning_op(h), now, view_conjugate(now))
        drop(now)
        now = plain
    if not failed(now) and is_complex_of(tensor(h).dtype, tensor(tensor(h).base).dtype):
        parts = result_of(runtime().view_as_real_op, now, view_as_real(now))
        drop(now)
        now = parts
    return now


@native_once
def as_view_has_it(base, h):
    """The base of a view `h` in its dtype, or in that of its parts: a new reference, or a failure."""
    if is_complex_of(tensor(base).dtype, tensor(h).dtype):
        return result_of(runtime().view_as_real_op, base, view_as_real(base))
    retain(base)
    return base


@native_once
def as_view(lying, created, h):
    """The node of a view `h` behind the node of what lies in its base for it, a reference to which it takes over."""
    retain(lying)
    if is_complex_of(tensor(h).dtype, tensor(lying).dtype):
        set_history(lying, created, 0)
        drop_node(created)
        plain = view_as_complex(lying)
        created = node_behind(runtime().view_as_complex_op, lying, plain) if not failed(plain) else plain
        drop(lying)
        if failed(plain):
            return plain
        lying = plain
    if not failed(created) and turns(h):
        set_history(lying, created, 0)
        drop_node(created)
        created = node_behind(turning_op(h), lying, h)
    drop(lying)
    return created


@native_once
def follow_base(h):
    """Give a view whose base was changed in place its new history: OK or a failure. Note [Views of changed bases]."""
    t = tensor(h)
    if t.flags & VIEW_ORIGIN:
        return refuse_view(h, 1)
    base = as_view_has_it(t.base, h)
    if failed(base):
        return base
    lying = as_base_has_it(alias(h), h)
    created = lying
    if not failed(lying):
        plan = words(stack_frame())
        n_plan = strided_plan(lying, base, plan)
        ins = words(stack_small())
        ins[0] = base
        outs = words(stack_small())
        outs[0] = lying
        created = create_node(runtime().as_strided_op, 1, ins, 1, outs, n_plan, plan)
        if not failed(created):
            created = as_view(lying, created, h)
        drop(lying)
    drop(base)
    if failed(created):
        return created
    t.followed = version_of(h)
    rebase(h, created)
    return OK


@native_inline
def catch_up(h):
    """Let a view whose memory was changed since it got its history catch up with its base. OK or a failure."""
    t = tensor(h)
    if not t.flags & IS_VIEW or t.base == 0 or t.followed == version_of(h):
        return OK
    if t.node == 0 and not tensor(t.base).flags & REQUIRES_GRAD:
        return OK
    return follow_base(h)


@native_inline
def catch_up_all(n, ins):
    """Let the views among the inputs of a call catch up with their bases. OK or a failure."""
    status = OK
    for k in range(n):
        if ins[k] != 0 and not failed(status):
            status = catch_up(ins[k])
    return status
