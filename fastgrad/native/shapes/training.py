"""Negative log likelihood."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import advance, native, stack_small, tensor, words, words_of
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frames.losses import EACH
from fastgrad.native.contracts.status import MISFIT, OK, TARGET_DTYPE, TARGET_RANGE, TARGET_SIZES
from fastgrad.native.launch.checked import launch_checked
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import contiguous, zeros
from fastgrad.native.tensors.tensors import finished, new_tensor


@native
def check_nll(n, ins):
    """Whether log-probabilities, targets and weights fit: a status. Hooks may give back others than were saved."""
    x = tensor(ins[0])
    y = tensor(ins[1])
    if x.ndim != 2 or y.ndim != 1 or x.shape[0] != y.shape[0]:
        return fail(TARGET_SIZES, x.shape[0] if x.ndim > 0 else 0, y.shape[0] if y.ndim > 0 else 0)
    if y.dtype != INT64:
        return fail(TARGET_DTYPE, y.dtype)
    if n > 2 and ins[2] != 0 and (tensor(ins[2]).numel != x.shape[1] or tensor(ins[2]).dtype != x.dtype):
        return fail(MISFIT)
    return OK


@native
def nll_forward(op, n, ins, attrs, outs):
    """The loss and the total weight, both kept for the gradient.

    `ins`: log-probabilities (N, C), targets (N,), weights (C,) or absent; `attrs`: reduction, ignore_index.
    """
    status = check_nll(n, ins)
    if failed(status):
        return status
    x = tensor(ins[0])
    sizes = words(stack_small())
    sizes[0] = x.shape[0]
    loss = new_tensor(x.dtype, x.device, 1 if attrs[0] == EACH else 0, sizes)
    if loss <= 0:
        return loss
    total = new_tensor(x.dtype, x.device, 0, sizes)
    if total <= 0:
        drop(loss)
        return total
    f = frames.nll(stack_small())
    f.loss = tensor(loss).data
    f.total = tensor(total).data
    status = run_nll(f, op, n, ins, attrs, 0)
    if failed(status):
        drop(loss)
        drop(total)
        return status
    outs[0] = loss
    outs[1] = total
    return 2


@native
def run_nll(f, op, n, ins, attrs, back):
    """Fill in x, targets, weights, sizes, strides, reduction, ignore_index, then launch; returns a status."""
    x = tensor(ins[0])
    cy = contiguous(ins[1])
    if cy <= 0:
        return cy
    cw = 0
    if n > 2 and ins[2] != 0:
        cw = contiguous(ins[2])
        if cw <= 0:
            drop(cy)
            return cw
    f.x = x.data
    f.targets = tensor(cy).data
    f.weights = tensor(cw).data if cw != 0 else 0
    f.rows = x.shape[0]
    f.classes = x.shape[1]
    f.row_stride = x.strides[0]
    f.class_stride = x.strides[1]
    f.reduction = attrs[0]
    f.ignore_index = attrs[1]
    work = x.shape[0] * (1 + back * x.shape[1])
    status = launch_checked(op_record(op).kernel, x.device, x.dtype, f, words_of(f), work, TARGET_RANGE)
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
    total = tensor(ins[4])
    if total.numel != 1 or total.dtype != t.dtype or t.numel != (attrs[3] if attrs[0] == EACH else 1):
        return fail(MISFIT)
    out = zeros(t.dtype, t.device, attrs[2], advance(attrs, 3))
    if failed(out):
        return out
    cg = contiguous(ins[0])
    if cg <= 0:
        return finished(out, cg)
    operands = words(stack_small())
    operands[0] = out  # the kernel writes where the loss read x
    operands[1] = ins[2]
    operands[2] = ins[3]
    status = check_nll(3, operands)
    if not failed(status):
        f = frames.nll(stack_small())
        f.loss = tensor(cg).data
        f.total = total.data
        status = run_nll(f, op, 3, operands, attrs, 1)
    drop(cg)
    return finished(out, status)
