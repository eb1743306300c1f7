"""Ops that write over their first input."""

from __future__ import annotations

from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    native_once,
    runtime,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.base.modes import is_watched
from fastgrad.native.contracts.flags import (
    CONJUGATED,
    GRAD_ENABLED,
    INFERENCE,
    INFERENCE_MODE,
    MUTATION_HOOKS,
)
from fastgrad.native.contracts.ops import FILLS, MASK_LAST, STRUCTURED
from fastgrad.native.contracts.status import (
    DEVICE_MISMATCH,
    INFERENCE_INPLACE,
    NOT_RECORDABLE,
    OK,
    OVERLAP,
    PARTIAL_OVERLAP,
    RAISED,
)
from fastgrad.native.graph.graph import any_requires_grad, create_node, save_again
from fastgrad.native.graph.inplace import check_inplace, move_history, stand_in
from fastgrad.native.graph.packing import show_tensor
from fastgrad.native.graph.versions import catch_up_all
from fastgrad.native.launch.elementwise import (
    any_conjugated,
    copy_into,
    drop_copies,
    elementwise_slow,
    resolve_all,
)
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.profiles import begin_call, end_call
from fastgrad.native.memory.references import drop, drop_node, retain
from fastgrad.native.shapes import run_forward
from fastgrad.native.tensors.overlap import DISJOINT, PARTLY, overlap, overlaps_itself
from fastgrad.native.tensors.tensors import on_one_device, own_memory

# --- in place --------------------------------------------------------------------------------------------------


@native_inline
def any_copied(written, read):
    """Whether one of two operands holds conjugates: then a copy of it is read or written."""
    return (tensor(written).flags | tensor(read).flags) & CONJUGATED != 0


@native
def check_apart(n, ins):
    """Whether what is read shares no memory with the first input. OK or a failure."""
    for k in range(1, n):
        if (
            ins[k] != 0
            and not any_copied(ins[0], ins[k])
            and tensor(ins[k]).storage == tensor(ins[0]).storage
            and overlap(ins[0], ins[k]) != DISJOINT
        ):
            return fail(PARTIAL_OVERLAP)
    return OK


@native_inline
def check_memory(info, n, ins):
    """Whether what an op reads may share memory with its first input, which it writes. OK or a failure.

    A tensor that gives the value to fill with is read like a number, and the mask says only where. An elementwise op
    may read what it writes; one that writes at indices may not.
    """
    if info.kind == STRUCTURED:
        return check_apart(n, ins)
    if info.flags & FILLS:
        return OK
    first = n - 1 if info.flags & MASK_LAST else 1
    if first == 1 and overlaps_itself(ins[0]):
        return OVERLAP
    status = OK
    for k in range(first, n):
        together = tensor(ins[k]).storage == tensor(ins[0]).storage and not any_copied(ins[0], ins[k])
        if together and overlap(ins[0], ins[k]) == PARTLY:
            status = PARTIAL_OVERLAP
    return status


@native
def inplace(op, n, ins, n_attrs, attrs):
    """An op that writes over its first input; returns that input (one more reference) or a status."""
    if is_watched():
        return watched_change(op, n, ins, n_attrs, attrs)
    return change(op, n, ins, n_attrs, attrs)


@native_once
def watched_change(op, n, ins, n_attrs, attrs):
    """The same while there is a profile."""
    token = begin_call(op, n, ins)
    out = change(op, n, ins, n_attrs, attrs)
    end_call(token, out)
    return out


@native_once
def change_copies(op, info, n, ins, n_attrs, attrs):
    """Run a structured op in place over copies of tensors of conjugates, and copy back what it wrote.

    See Note [Conjugates] in `launch.elementwise`. The first input with one more reference, or a failure.
    """
    copies = words(stack_small())
    status = resolve_all(n, ins, copies)
    if not failed(status):
        out = words(stack_small())
        out[0] = copies[0]
        status = run_forward(op, info.forward, n, copies, n_attrs, attrs, out)
        if not failed(status):
            drop(out[0])
            status = copy_into(ins[0], copies[0]) if copies[0] != ins[0] else OK
    drop_copies(n, ins, copies)
    if failed(status):
        return status
    retain(ins[0])
    return ins[0]


@native
def change(op, n, ins, n_attrs, attrs):
    """The same, in the modes of the calling thread."""
    rt = runtime()
    if tensor(ins[0]).flags & INFERENCE and not rt.mode & INFERENCE_MODE:
        return fail(INFERENCE_INPLACE)
    needs = rt.mode & GRAD_ENABLED != 0 and any_requires_grad(n, ins)
    if needs:
        status = check_inplace(ins[0])
        if not failed(status):
            status = catch_up_all(n, ins)
        if failed(status):
            return status
    status = own_memory(ins[0])
    if failed(status):
        return status
    info = op_record(op)
    status = check_memory(info, n, ins)
    if failed(status):
        return status
    if rt.mode & MUTATION_HOOKS and failed(show_tensor(rt.before_mutation, ins[0])):
        return RAISED
    out = words(stack_small())
    out[0] = ins[0]
    if info.kind == STRUCTURED:
        if needs:
            return fail(NOT_RECORDABLE)
        if not on_one_device(n, ins):
            return DEVICE_MISMATCH
        if any_conjugated(n, ins):
            return change_copies(op, info, n, ins, n_attrs, attrs)
        count = run_forward(op, info.forward, n, ins, n_attrs, attrs, out)
        return out[0] if count > 0 else count
    if not needs:
        return elementwise_slow(op, n, ins, ins[0])
    operands = words(stack_small())
    status = stand_in(n, ins, info, operands)
    if failed(status):
        return status
    # The node comes first: if a saved-tensor hook raises, nothing has changed.
    created = create_node(op, n, operands, 1, out, 0, ins)
    drop(operands[0])
    if failed(created):
        return created
    result = elementwise_slow(op, n, ins, ins[0])
    if failed(result):
        drop_node(created)
        return result
    save_again(created)
    return move_history(result, created)
