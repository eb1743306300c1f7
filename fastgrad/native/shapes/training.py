"""Negative log likelihood, and whether elements are probabilities."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import address_of, native, stack_frame, tensor, words_of
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frames.losses import EACH
from fastgrad.native.contracts.status import (
    MIXED_DTYPES,
    NO_PROBABILITY,
    OK,
    OPERAND_LENGTH,
    TARGET_DTYPE,
    TARGET_RANGE,
    TARGET_SIZES,
)
from fastgrad.native.launch.checked import launch_checked
from fastgrad.native.launch.launch import op_record
from fastgrad.native.launch.promotion import computed_dtype
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.tensors.tensors import alias, finished, new_tensor


@native
def nll_forward(op, n, ins, attrs, outs):
    """The loss and the total weight, both kept for the gradient.

    `ins`: log-probabilities (C,), (N, C) or (N, C, ...), targets of this shape without C, weights (C,) or absent;
    `attrs`: reduction, ignore_index.
    """
    x = tensor(ins[0])
    y = tensor(ins[1])
    loss = new_tensor(
        x.dtype, x.device, y.ndim if integers.class_loss(attrs).reduction == EACH else 0, y.shape
    )
    if failed(loss):
        return loss
    total = new_tensor(computed_dtype(x.dtype), x.device, 0, y.shape)
    if failed(total):
        drop(loss)
        return total
    source = ins[0]
    status = retained(source) if x.ndim <= 2 else contiguous(source)
    if not failed(status):
        source = status
        f = frames.nll(stack_frame())
        f.loss = tensor(loss).data
        f.total = tensor(total).data
        status = run_nll(f, op, source, ins[1], ins[2] if n > 2 else 0, attrs, 0)
        drop(source)
    if failed(status):
        drop(loss)
        drop(total)
        return status
    outs[0] = loss
    outs[1] = total
    return 2


@native
def retained(h):
    """The same tensor with a reference of the caller's."""
    retain(h)
    return h


@native
def check_targets(x, y):
    """Whether targets are int64 and of the shape of log-probabilities without their classes; a status."""
    batch = x.ndim > 1
    if y.dtype != INT64:
        return fail(TARGET_DTYPE, y.dtype)
    if x.ndim == 0 or y.ndim != x.ndim - 1:
        return fail(TARGET_SIZES, x.shape[0] if x.ndim > 0 else 0, y.shape[0] if y.ndim > 0 else 0)
    for d in range(y.ndim):
        if y.shape[d] != x.shape[d if d == 0 and batch else d + 1]:
            return fail(TARGET_SIZES, x.shape[0], y.shape[0])
    return OK


@native
def run_nll(f, op, source, target, weight, attrs, back):
    """Fill in x, targets, weights, sizes, strides, reduction, ignore_index, then launch; returns a status."""
    x = tensor(source)
    status = check_targets(x, tensor(target))
    if failed(status):
        return status
    batch = x.ndim > 1
    f.rows = x.shape[0] if batch else 1
    f.classes = x.shape[1 if batch else 0]
    f.row_stride = x.strides[0]
    f.class_stride = x.strides[1 if batch else 0]
    f.inner = 1
    for d in range(2, x.ndim):
        f.inner *= x.shape[d]
    f.inner_stride = 1
    if weight != 0 and tensor(weight).numel != f.classes:
        return fail(OPERAND_LENGTH, 2)
    if weight != 0 and tensor(weight).dtype != x.dtype:
        return fail(MIXED_DTYPES, tensor(weight).dtype, x.dtype)
    cy = contiguous(target)
    if failed(cy):
        return cy
    cw = 0
    if weight != 0:
        cw = contiguous(weight)
        if failed(cw):
            drop(cy)
            return cw
    f.x = x.data
    f.targets = tensor(cy).data
    f.weights = tensor(cw).data if cw != 0 else 0
    of = integers.class_loss(attrs)
    f.reduction = of.reduction
    f.ignore_index = of.ignore_index
    work = f.rows * f.inner * (1 + back * f.classes)
    status = launch_checked(
        op_record(op).kernel, x.device, x.dtype, address_of(f), words_of(f), work, TARGET_RANGE
    )
    drop(cy)
    if cw != 0:
        drop(cw)
    return status


@native
def nll_backward(op, n, ins, attrs):
    """The gradient of the log-probabilities.

    `ins`: gradient of the loss, log-probabilities, targets, weights or absent, total weight; `attrs`: reduction,
    ignore_index, sizes.
    """
    t = tensor(ins[0])
    of = integers.class_loss(attrs)
    if t.numel != (tensor(ins[2]).numel if of.reduction == EACH else 1):
        return fail(OPERAND_LENGTH, 0)
    if tensor(ins[4]).numel != 1 or tensor(ins[4]).dtype != computed_dtype(t.dtype):
        return fail(OPERAND_LENGTH, 4)
    target = integers.listed(of.rest)
    out = new_tensor(t.dtype, t.device, target.count, target.rest)
    if failed(out):
        return out
    cg = contiguous(ins[0])
    if failed(cg):
        return finished(out, cg)
    f = frames.nll(stack_frame())
    f.loss = tensor(cg).data
    f.total = tensor(ins[4]).data
    status = run_nll(f, op, out, ins[2], ins[3], attrs, 1)  # the kernel writes where the loss read x
    drop(cg)
    return finished(out, status)


@native
def probabilities(op, h):
    """The tensor as it is, without its history; a failure if an element does not lie in [0, 1]."""
    source = contiguous(h)
    if failed(source):
        return source
    t = tensor(source)
    f = frames.probabilities(stack_frame())
    f.x = t.data
    f.n = t.numel
    status = OK
    if t.numel > 0:
        status = launch_checked(
            op_record(op).kernel, t.device, t.dtype, address_of(f), words_of(f), t.numel, NO_PROBABILITY
        )
    drop(source)
    return alias(h) if not failed(status) else status
