"""All gradients of layer and root-mean-square normalisation at once, in two launches."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import native, product, stack_frame, stack_small, tensor, words
from fastgrad.native.contracts.element_types import FLOAT64
from fastgrad.native.contracts.frames.norm_gradients import COLUMNS
from fastgrad.native.contracts.status import MISFIT
from fastgrad.native.launch.launch import launch_frame, op_record
from fastgrad.native.launch.promotion import computed_dtype, is_floating
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.tensors.tensors import new_tensor

OPERANDS = 5  # gradient, operand, weight, means, reciprocal deviations
MOST_ROWS, MOST_BLOCKS = 64, 16


@native
def rows_of_block(rows):
    """How many rows a block has: few where there are few, so that there is something to divide; a multiple of four."""
    return max(min(rows // MOST_BLOCKS, MOST_ROWS), 4) & ~3


@native
def norm_frame(f, operands, centred, attrs):
    """The sizes in a frame, from the integers of the call; whether the operands fit them.

    `attrs`: eps, then the extents n, g, c and s, of which g and s are 1.
    """
    x = tensor(operands[1])
    of = integers.extents(attrs)
    f.rows = of.n
    f.length = of.c
    f.block = rows_of_block(f.rows)
    f.blocks = (f.rows + f.block - 1) // f.block
    if of.groups != 1 or of.s != 1 or f.rows < 0 or f.length < 0 or not is_floating(x.dtype):
        return False
    for k in range(OPERANDS):
        t = tensor(operands[k])
        numel = product(f.rows, f.length) if k < 2 else f.length
        if k > 2:
            numel = f.rows if centred or k == 4 else 0
        if t.dtype != (computed_dtype(x.dtype) if k > 2 else x.dtype) or t.numel != numel:
            return False
    return True


@native
def run_norm_gradients(op, f, operands, outs, n_out):
    """Launch both stages over contiguous operands and new results; a status."""
    x = tensor(operands[1])
    f.out = tensor(outs[0]).data
    f.weight_out = tensor(outs[1]).data
    f.bias_out = tensor(outs[2]).data if n_out > 2 else 0
    f.grad = tensor(operands[0]).data
    f.x = x.data
    f.weight = tensor(operands[2]).data
    f.mean = tensor(operands[3]).data
    f.rstd = tensor(operands[4]).data
    size = words(stack_small())
    size[0] = product(f.blocks * (n_out - 1), f.length)
    sums = new_tensor(FLOAT64, x.device, 1, size)
    if failed(sums):
        return sums
    f.sums = tensor(sums).data
    status = 0
    for stage in range(2):
        f.stage = stage
        f.first = 0
        f.steps = f.blocks if stage == 0 else (f.length + COLUMNS - 1) // COLUMNS
        work = 2 * x.numel if stage == 0 else size[0]
        if not failed(status) and f.steps > 0:
            status = launch_frame(op_record(op).kernel, x.device, x.dtype, f, work)
    drop(sums)
    return status


@native
def norm_results(n_out, operands, outs):
    """New tensors for the gradients: of the operand, and one or two in the sizes of the weight. A status."""
    for k in range(n_out):
        like = tensor(operands[1 if k == 0 else 2])
        dtype = like.dtype if k == 0 else computed_dtype(like.dtype)
        outs[k] = new_tensor(dtype, like.device, like.ndim, like.shape)
        if failed(outs[k]):
            for i in range(k):
                drop(outs[i])
            return outs[k]
    return 0


@native
def norm_gradients(op, ins, attrs, outs):
    """Gradients of operand, weight and, where the op has three results, bias; their number, or a failure.

    `ins`: gradient of the result, operand, weight, means (empty without centring), reciprocal deviations.
    """
    n_out = op_record(op).n_out
    f = frames.norm_gradients(stack_frame())
    if not norm_frame(f, ins, n_out > 2, attrs):
        return fail(MISFIT)
    operands = words(stack_small())
    count = 0
    status = 0
    while count < OPERANDS and not failed(status):
        operands[count] = contiguous(ins[count])
        status = min(operands[count], 0)
        count += 1 if not failed(status) else 0
    if not failed(status):
        status = norm_results(n_out, operands, outs)
    if not failed(status):
        status = run_norm_gradients(op, f, operands, outs, n_out)
        if failed(status):
            for k in range(n_out):
                drop(outs[k])
    for k in range(count):
        drop(operands[k])
    return status if failed(status) else n_out
