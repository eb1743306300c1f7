"""Ops that are one kernel over contiguous operands: the call brings the integers and the sizes of what comes out.

Such an op needs no shape rule of its own. Its integers are those that the op declares by name, which the kernel gets,
and then for each output its rank and sizes; a negative rank ``-1 - k`` stands for the sizes of input k. The kernel
checks that the operands have as many elements as the integers say (`kernels.framed`), because what a derivative
gets may come from a saved-tensor hook.
"""

from __future__ import annotations

from fastgrad.native.base.failures import fail
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.element_types import BOOL, INT64
from fastgrad.native.contracts.frames import (
    FLAT,
    FRAME_INPUTS,
    FRAME_INTS,
    FRAME_NUMELS,
    FRAME_OUTPUTS,
    FRAME_STATUS,
    MAX_FRAME_INPUTS,
)
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.ops import FLOAT_ONLY, OUT_INT64, WITH_INDICES, WITH_MASK
from fastgrad.native.contracts.status import (
    DEVICE_MISMATCH,
    DTYPE_REFUSED,
    INTERNAL,
    MIXED_DTYPES,
    OPERAND_LENGTH,
    ROW_RANGE,
)
from fastgrad.native.launch.launch import launch, op_record
from fastgrad.native.launch.promotion import is_floating
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.tensors.tensors import new_tensor


@native
def framed_inputs(n, ins, made, f):
    """Contiguous operands, written to the frame and to `made`; a status. Floating operands are of one dtype."""
    first = tensor(ins[0])
    status = 0
    for k in range(n):
        made[k] = 0
        if ins[k] == 0 or status != 0:
            continue
        t = tensor(ins[k])
        if is_floating(t.dtype) and t.dtype != first.dtype:
            status = -fail(MIXED_DTYPES, t.dtype, first.dtype)
        elif t.device != first.device:
            status = DEVICE_MISMATCH
        else:
            c = contiguous(ins[k])
            if c <= 0:
                status = -c
            else:
                made[k] = c
                f[FRAME_INPUTS + k] = tensor(c).data
                f[FRAME_NUMELS + k] = t.numel
    return status


@native
def framed_output(info, k, n, ins, n_attrs, attrs, at):
    """Output `k`, its rank and sizes at ``attrs[at]``."""
    first = tensor(ins[0])
    dtype = first.dtype
    if k == 0 and info.flags & OUT_INT64:
        dtype = INT64
    elif k == 1 and info.flags & WITH_INDICES:
        dtype = INT64
    elif k == 1 and info.flags & WITH_MASK:
        dtype = BOOL
    if at >= n_attrs:
        return fail(INTERNAL, at, n_attrs)
    rank = attrs[at]
    if rank < 0:
        if -rank > n or ins[-1 - rank] == 0:
            return fail(INTERNAL, at, rank)
        like = tensor(ins[-1 - rank])
        return new_tensor(dtype, first.device, like.ndim, like.shape)
    if rank > MAX_DIMS or at + 1 + rank > n_attrs:
        return fail(INTERNAL, at, rank)
    return new_tensor(dtype, first.device, rank, advance(attrs, at + 1))


@native
def launch_framed(info, device, dtype, frame, work):
    """Launch, and tell of a bad index or of operands that are not as long as the integers say; a status."""
    rt = runtime()
    words(frame)[FRAME_STATUS] = address_of(rt.error) + 32
    rt.error[4] = 0
    status = launch(info.kernel, device, dtype, FLAT, frame, FRAME_INTS + info.n_ints, work)
    if status == 0 and rt.error[4] != 0:
        kind = rt.error[4]
        a = rt.error[5]
        status = -fail(ROW_RANGE, a, rt.error[6]) if kind == 1 else -fail(OPERAND_LENGTH, a)
    return status


@native
def framed(op, n, ins, n_attrs, attrs, outs):
    """Run such an op; returns the number of outputs or a negative status."""
    info = op_record(op)
    if n > MAX_FRAME_INPUTS or info.n_ints > n_attrs:
        return fail(INTERNAL, n, n_attrs)
    first = tensor(ins[0])
    if info.flags & FLOAT_ONLY and not is_floating(first.dtype):
        return fail(DTYPE_REFUSED, first.dtype)
    frame = stack_frame()
    f = words(frame)
    for k in range(FRAME_INTS):
        f[k] = 0
    for k in range(info.n_ints):
        f[FRAME_INTS + k] = attrs[k]
    made = words(stack_small())
    status = framed_inputs(n, ins, made, f)
    count = 0
    at = info.n_ints
    work = first.numel
    while status == 0 and count < info.n_out:
        out = framed_output(info, count, n, ins, n_attrs, attrs, at)
        if out <= 0:
            status = -out
            break
        at += 1 + max(attrs[at], 0)
        outs[count] = out
        f[FRAME_OUTPUTS + count] = tensor(out).data
        work += tensor(out).numel
        count += 1
    if status == 0:
        status = launch_framed(info, first.device, first.dtype, frame, work)
    for k in range(n):
        if made[k] != 0:
            drop(made[k])
    if status != 0:
        for k in range(count):
            drop(outs[k])
        return -status
    return count
