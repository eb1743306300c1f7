"""The operators of Python: over tensors, and over a tensor and a number."""

from __future__ import annotations

from fastgrad.native.base.failures import failed
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
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.graph.graph import any_requires_grad
from fastgrad.native.graph.recording import record
from fastgrad.native.launch.elementwise import elementwise, number_tensor
from fastgrad.native.launch.launch import op_record
from fastgrad.native.launch.promotion import dtype_with_number, number_dtype
from fastgrad.native.memory.profiles import begin_call, end_call
from fastgrad.native.memory.references import drop, retain


@native_inline
def recorded(op, n, ins, out):
    """The end of an operator: record the one output of an elementwise op."""
    if not failed(out) and runtime().mode & GRAD_ENABLED and any_requires_grad(n, ins):
        outs = words(stack_small())
        outs[0] = out
        status = record(op, n, ins, 1, outs, 0, ins)
        if failed(status):
            drop(out)
            return status
    return out


# What runs in between, hooks and other threads, may give the operands' objects other records: so the records are held.


@native
def binary_operator(op, a, b):
    """An operator over two tensors."""
    if is_watched():
        return watched_operator(op, 2, a, b)
    return binary_now(op, a, b)


@native_inline
def binary_now(op, a, b):
    """The operator itself."""
    ins = words(stack_small())
    ins[0] = a
    ins[1] = b
    retain(a)
    retain(b)
    out = recorded(op, 2, ins, elementwise(op, 2, ins))
    drop(a)
    drop(b)
    return out


@native
def unary_operator(op, a):
    """An operator over one tensor."""
    if is_watched():
        return watched_operator(op, 1, a, a)
    return unary_now(op, a)


@native_inline
def unary_now(op, a):
    """The operator itself."""
    ins = words(stack_small())
    ins[0] = a
    retain(a)
    out = recorded(op, 1, ins, elementwise(op, 1, ins))
    drop(a)
    return out


@native
def scalar_operator(op, a, kind, real, integer, swapped):
    """An operator over a tensor and a Python number; `swapped` if the number stands on the left."""
    watched = is_watched()
    info = op_record(op)
    first = 0
    if swapped != 0 and info.reflected != 0:
        if info.prepared != 0:
            first = unary_operator(info.prepared, a)
            if failed(first):
                return first
            a = first
        op = info.reflected
        swapped = 0
    elif swapped == 0 and info.numbered != 0:
        op = info.numbered
    retain(a)
    # The value in the dtype of the op, not a double that stands for it, is what a derivative may save.
    dtype = number_dtype(dtype_with_number(a, kind))
    number = number_tensor(kind, real, integer, dtype, tensor(a).device)
    out = with_number(op, a, number, swapped) if not watched else watched_number(op, a, number, swapped)
    drop(a)
    if first != 0:
        drop(first)
    return out


@native_once
def watched_operator(op, n, a, b):
    """An operator over one or two tensors while there is a profile."""
    ins = words(stack_small())
    ins[0] = a
    ins[1] = b
    token = begin_call(op, n, ins)
    out = binary_now(op, a, b) if n == 2 else unary_now(op, a)
    end_call(token, out)
    return out


@native_once
def watched_number(op, a, number, swapped):
    """As `with_number` while there is a profile."""
    ins = words(stack_small())
    ins[swapped] = a
    ins[1 - swapped] = number
    token = begin_call(op, 2, ins)
    out = with_number(op, a, number, swapped)
    end_call(token, out)
    return out


@native_inline
def with_number(op, a, number, swapped):
    """An op over a tensor and a number, which is taken over, in this order or `swapped`."""
    if failed(number):
        return number
    ins = words(stack_small())
    ins[swapped] = a
    ins[1 - swapped] = number
    out = recorded(op, 2, ins, elementwise(op, 2, ins))
    drop(number)
    return out
