"""One way to call any op: `call` runs it by its kind, gives views their base and records the graph."""

from __future__ import annotations

from fastgrad.native.elementwise import (
    cast,
    elementwise,
    elementwise_slow,
    number_tensor,
    op_record,
    result_dtype,
)
from fastgrad.native.functions import reduction, rowwise, run_function
from fastgrad.native.graph import any_requires_grad, create_node, record, save_again
from fastgrad.native.inplace import check_inplace, move_history, stand_in
from fastgrad.native.intrinsics import (
    native,
    native_inline,
    native_once,
    runtime,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.layout import (
    COPY_ON_WRITE,
    ELEMENTWISE,
    FN_SPLIT,
    FN_UNBIND,
    FUNCTION,
    GRAD_ENABLED,
    INFERENCE,
    INFERENCE_INPLACE,
    INFERENCE_MODE,
    MULTI_VIEW,
    MUTATION_HOOKS,
    NO_MEMORY,
    NOT_RECORDABLE,
    OK,
    OVERLAP,
    PYTHON_RAISED,
    REDUCTION,
    ROWWISE,
    VIEW,
    VIEW_SELECT,
    VIEW_SLICE,
    WRAPPED_NUMBER,
)
from fastgrad.native.memory import drop, drop_node
from fastgrad.native.modes import enter
from fastgrad.native.packing import show_tensor
from fastgrad.native.tensors import mark_view, overlaps_itself, unshare
from fastgrad.native.views import fail, make_view


@native
def run_splits(kind, h, attrs, n, outs):
    """The outputs of unbind or split: as many views as the caller counted."""
    place = words(stack_small())
    at = 0
    for k in range(n):
        place[0] = attrs[0]
        if kind == FN_UNBIND:
            place[1] = k
            outs[k] = make_view(VIEW_SELECT, h, 2, place)
        else:
            place[1] = at
            at += attrs[1 + k]
            place[2] = at
            place[3] = 1
            outs[k] = make_view(VIEW_SLICE, h, 4, place)
        if outs[k] <= 0:
            status = outs[k]
            for j in range(k):
                drop(outs[j])
            return status
        mark_view(outs[k], h)
        tensor(outs[k]).flags |= MULTI_VIEW
    return n


@native_once
def call(op, n, ins, n_attrs, attrs, outs, n_outs):
    """Run an op and record it; handles of the results go to `outs`.

    `n_outs` is the number of outputs where only the caller knows it (split, unbind), else ignored. Returns the
    number of outputs or a negative status; after a failure nothing is left behind.
    """
    info = op_record(op)
    kind = info.kind
    count = 1
    if kind == ELEMENTWISE:
        outs[0] = elementwise(op, n, ins)
        count = 1 if outs[0] > 0 else outs[0]
    elif kind == VIEW:
        outs[0] = make_view(info.forward, ins[0], n_attrs, attrs)
        count = 1 if outs[0] > 0 else outs[0]
        if outs[0] > 0:
            mark_view(outs[0], ins[0])
    elif kind == REDUCTION:
        outs[0] = reduction(op, ins[0], n_attrs, attrs)
        count = 1 if outs[0] > 0 else outs[0]
    elif kind == ROWWISE:
        count = rowwise(op, n, ins, attrs, outs)
    elif info.forward == FN_UNBIND or info.forward == FN_SPLIT:
        count = run_splits(info.forward, ins[0], attrs, n_outs, outs)
    else:
        count = run_function(op, info.forward, n, ins, n_attrs, attrs, outs)
    if count <= 0:
        return count
    if runtime().mode & GRAD_ENABLED:
        status = record(op, n, ins, count, outs, n_attrs, attrs)
        if status != 0:
            for k in range(count):
                drop(outs[k])
            return -status
    return count


@native
def call_entry(op, n, ins, n_attrs, attrs, outs, n_outs):
    """`call` for Python."""
    enter()
    return call(op, n, ins, n_attrs, attrs, outs, n_outs)


@native_inline
def recorded(op, n, ins, out):
    """The end of an operator: record the one output of an elementwise op."""
    if out > 0 and runtime().mode & GRAD_ENABLED and any_requires_grad(n, ins):
        outs = words(stack_small())
        outs[0] = out
        status = record(op, n, ins, 1, outs, 0, ins)
        if status != 0:
            drop(out)
            return -status
    return out


@native
def binary_operator(op, a, b):
    """An operator over two tensors."""
    enter()
    ins = words(stack_small())
    ins[0] = a
    ins[1] = b
    return recorded(op, 2, ins, elementwise(op, 2, ins))


@native
def unary_operator(op, a):
    """An operator over one tensor."""
    enter()
    ins = words(stack_small())
    ins[0] = a
    return recorded(op, 1, ins, elementwise(op, 1, ins))


@native
def scalar_operator(op, a, kind, real, integer, swapped):
    """An operator over a tensor and a Python number; `swapped` if the number stands on the left."""
    enter()
    info = op_record(op)
    first = 0
    if swapped != 0 and info.reflected != 0:
        if info.prepared != 0:
            first = unary_operator(info.prepared, a)
            if first <= 0:
                return first
            a = first
        op = info.reflected
        swapped = 0
    elif swapped == 0 and info.numbered != 0:
        op = info.numbered
    out = with_number(op, a, number_tensor(kind, real, integer, -1, tensor(a).device), swapped)
    if first != 0:
        drop(first)
    return out


@native_inline
def with_number(op, a, number, swapped):
    """An op over a tensor and a number, which is taken over, in this order or `swapped`."""
    if number <= 0:
        return number
    ins = words(stack_small())
    ins[swapped] = a
    ins[1 - swapped] = number
    dtype = result_dtype(2, ins)
    if tensor(number).dtype != dtype:
        # The value, not the wrapped double, is what a derivative may save.
        converted = cast(number, dtype)
        drop(number)
        if converted <= 0:
            return converted
        number = converted
        tensor(number).flags |= WRAPPED_NUMBER
        ins[1 - swapped] = number
    out = recorded(op, 2, ins, elementwise(op, 2, ins))
    drop(number)
    return out


# --- in place --------------------------------------------------------------------------------------------------


@native
def inplace(op, n, ins, n_attrs, attrs):
    """An op that writes over its first input; returns that input (one more reference) or a status."""
    enter()
    rt = runtime()
    recording = rt.mode & GRAD_ENABLED != 0
    if tensor(ins[0]).flags & INFERENCE and not rt.mode & INFERENCE_MODE:
        return fail(INFERENCE_INPLACE, op, 0)
    needs = recording and any_requires_grad(n, ins)
    if recording:
        status = check_inplace(ins[0], needs)
        if status != 0:
            return -status
    if tensor(ins[0]).flags & COPY_ON_WRITE and unshare(ins[0]) != 0:
        return -NO_MEMORY
    if overlaps_itself(ins[0]):
        return fail(OVERLAP, op, 0)
    if rt.mode & MUTATION_HOOKS and show_tensor(rt.before_mutation, ins[0]) != OK:
        return -PYTHON_RAISED
    out = words(stack_small())
    out[0] = ins[0]
    info = op_record(op)
    if info.kind == FUNCTION:
        if needs:
            return fail(NOT_RECORDABLE, op, 0)
        count = run_function(op, info.forward, n, ins, n_attrs, attrs, out)
        return out[0] if count > 0 else count
    if not needs:
        return elementwise_slow(op, n, ins, ins[0])
    operands = words(stack_small())
    status = stand_in(n, ins, info, operands)
    if status != 0:
        return -status
    # The node comes first: if a saved-tensor hook raises, nothing has changed.
    created = create_node(op, n, operands, 1, out, 0, ins)
    drop(operands[0])
    if created <= 0:
        return created
    result = elementwise_slow(op, n, ins, ins[0])
    if result <= 0:
        drop_node(created)
        return result
    save_again(created)
    return move_history(result, created)
