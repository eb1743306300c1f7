"""Ops that are one kernel over contiguous operands: the call brings the integers and the sizes of what comes out.

Such an op needs no shape rule of its own. Its integers are those that the op declares by name, which the kernel gets,
and then for each output its rank and sizes. A negative rank ``-1 - k`` stands for the sizes of input k, for the last
output ``ROWS_OF - k`` for these and the integer behind it, and ``AS_BEFORE`` for those of the output before. What
`contracts.frames.framed.batch_of` gives stands for the sizes of a batch of matrices, then integers of the call.

The sizes of what a kernel writes must follow from what it is told to write, never from a tensor that may have been
given other memory since. So these, and those of the operands, which a derivative may get from a saved-tensor hook, are
compared with the extents that its frame declares.
"""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    nth,
    product,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.frame import MAX_REACHES
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.framed import (
    AS_BEFORE,
    BATCH_OF,
    DROPOUT_BLOCK,
    FRAMED,
    INPUT,
    INPUT_BITS,
    INTEGER_BITS,
    MAX_FRAMED_INPUTS,
    ROWS_OF,
)
from fastgrad.native.contracts.limits import MAX_DIMS, N_LAYOUTS
from fastgrad.native.contracts.ops import AS_OPERANDS, CUBIC, DRAWS, FLOAT_ONLY, ZEROED
from fastgrad.native.contracts.status import (
    DTYPE_REFUSED,
    INTERNAL,
    MATRIX_NEEDED,
    MISFIT,
    MIXED_DTYPES,
    OK,
    OPERAND_DTYPE,
    OPERAND_LENGTH,
    ROW_RANGE,
)
from fastgrad.native.launch.checked import launch_checked
from fastgrad.native.launch.launch import op_record
from fastgrad.native.launch.promotion import is_floating
from fastgrad.native.memory.launches import address_place, numel_behind
from fastgrad.native.memory.parts import dtype_behind
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import in_order, in_strides, zero_fill
from fastgrad.native.shapes.creation import draw_default
from fastgrad.native.tensors.layouts import follow, lay_out, new_image
from fastgrad.native.tensors.tensors import new_tensor, same_shape

BEFORE_INPUTS, BEFORE_INTEGERS = FRAMED.place("inputs"), FRAMED.place("integers")  # words
INPUT_WORDS = INPUT.words


@native
def common_order(n, ins, order):
    """Write the strides of the result of an elementwise op on operands of one size to `order`; a status."""
    t = tensor(ins[0])
    for k in range(1, n):
        if not same_shape(ins[0], ins[k]):
            return fail(OPERAND_LENGTH, k)
    follow(n, ins, t.ndim, t.shape, order)
    return OK


@native
def framed_inputs(info, n, ins, made, f, last, ordered, order):
    """Operands in order, written to the frame and to `made`; a status.

    Floating operands are of one dtype, but for statistics, whose dtype `check_inputs` knows.
    """
    first = tensor(ins[0])
    status = 0
    for k in range(n):
        made[k] = 0
        if ins[k] == 0 or failed(status):
            continue
        t = tensor(ins[k])
        if is_floating(t.dtype) and t.dtype != first.dtype and not info.statistics >> k & 1:
            status = fail(MIXED_DTYPES, t.dtype, first.dtype)
        else:
            c = in_strides(ins[k], order) if ordered else in_order(ins[k], last)
            if failed(c):
                status = c
            else:
                made[k] = c
                nth(f.inputs, k).data = tensor(c).data
                nth(f.inputs, k).numel = t.numel
    return status


@native
def reach_of(info, j):
    """How far the ``j``-th address reaches that the frame of an op's kernel declares an extent of."""
    return runtime().reaches[(info.kernel * N_LAYOUTS + FLAT) * MAX_REACHES + j]


@native
def declared_output(info, k, dtype):
    """The dtype of output `k` of a kernel for a dtype, by its declaration."""
    for j in range(info.n_out):
        reach = reach_of(info, j)
        if address_place(reach) == k:
            return dtype_behind(reach >> 8 & 0xFF, dtype)
    return dtype


@native
def batch_output(info, code, dtype, n, ins, attrs):
    """An output of a batch of matrices: see `contracts.frames.framed.batch_of`."""
    k = code & (1 << INPUT_BITS) - 1
    if k >= n or ins[k] == 0 or tensor(ins[k]).ndim < 2:
        return fail(MATRIX_NEEDED, tensor(ins[k]).ndim if k < n and ins[k] != 0 else 0)
    like = tensor(ins[k])
    sizes = words(stack_small())
    rank = like.ndim - 2
    for j in range(rank):
        sizes[j] = like.shape[j]
    code >>= INPUT_BITS
    while code != 0:
        number = (code & (1 << INTEGER_BITS) - 1) - 1
        if number >= info.n_ints:
            return fail(INTERNAL, number, info.n_ints)
        sizes[rank] = attrs[number]
        rank += 1
        code >>= INTEGER_BITS
    return new_tensor(dtype, like.device, rank, sizes)


@native
def framed_output(info, k, n, ins, n_attrs, attrs, at, outs, last):
    """Output `k`, its rank and sizes at ``attrs[at]``."""
    first = tensor(ins[0])
    dtype = declared_output(info, k, first.dtype)
    if at >= n_attrs:
        return fail(INTERNAL, at, n_attrs)
    target = integers.listed(advance(attrs, at))
    rank = target.count
    if rank <= BATCH_OF:
        return batch_output(info, BATCH_OF - rank, dtype, n, ins, attrs)
    if rank == AS_BEFORE:
        if k == 0:
            return fail(INTERNAL, at, rank)
        like = tensor(outs[k - 1])
        return new_image(dtype, first.device, like.ndim, like.shape, last)
    if rank <= ROWS_OF:
        k = ROWS_OF - rank
        if k >= n or ins[k] == 0 or tensor(ins[k]).ndim == MAX_DIMS or at + 1 >= n_attrs:
            return fail(INTERNAL, at, rank)
        like = tensor(ins[k])
        sizes = words(stack_small())
        for j in range(like.ndim):
            sizes[j] = like.shape[j]
        sizes[like.ndim] = target.rest[0]
        return new_tensor(dtype, first.device, like.ndim + 1, sizes)
    if rank < 0:
        if -rank > n or ins[-1 - rank] == 0:
            return fail(INTERNAL, at, rank)
        like = tensor(ins[-1 - rank])
        return new_image(dtype, first.device, like.ndim, like.shape, last)
    if rank > MAX_DIMS or at + 1 + rank > n_attrs:
        return fail(INTERNAL, at, rank)
    return new_tensor(dtype, first.device, rank, target.rest)


@native
def check_inputs(info, n, ins, f):
    """Whether each operand has the elements that the kernel will read, by its declaration: a status."""
    dtype = tensor(ins[0]).dtype
    for j in range(MAX_REACHES):
        reach = reach_of(info, j)
        k = (address_place(reach) - BEFORE_INPUTS) // INPUT_WORDS
        if 0 <= k < n and ins[k] != 0:
            t = tensor(ins[k])
            expected = dtype_behind(reach >> 8 & 0xFF, dtype)
            if t.dtype != expected:
                return fail(OPERAND_DTYPE, k, t.dtype, expected)
            if t.numel != numel_behind(reach, address_of(f)):
                return fail(OPERAND_LENGTH, k)
    return OK


@native
def check_output(info, k, out, f):
    """Whether output `k` has as many elements as the kernel will write, by its declaration: a status."""
    for j in range(info.n_out):
        reach = reach_of(info, j)
        numel = tensor(out).numel
        if address_place(reach) == k and numel_behind(reach, address_of(f)) != numel:
            return fail(MISFIT)  # a saved operand may have got other sizes by its `data`
    return OK


@native
def framed(op, n, ins, n_attrs, attrs, outs, last):
    """Run such an op; returns the number of outputs or a negative status.

    Operands and outputs are contiguous; where channels lie `last`, those with three dimensions and more lie so. Those
    of an op that says `AS_OPERANDS`, which are all of the same sizes, lie as results of elementwise ops do.
    """
    info = op_record(op)
    if n > MAX_FRAMED_INPUTS or info.n_ints > n_attrs:
        return fail(INTERNAL, n, n_attrs)
    first = tensor(ins[0])
    if info.flags & FLOAT_ONLY and not is_floating(first.dtype):
        return fail(DTYPE_REFUSED, first.dtype)
    frame = stack_frame()
    for k in range(BEFORE_INTEGERS):
        words(frame)[k] = 0
    f = frames.framed(frame)
    for k in range(info.n_ints):
        f.integers[k] = attrs[k]
    made = words(stack_small())
    order = words(stack_small())
    ordered = info.flags & AS_OPERANDS != 0
    status = common_order(n, ins, order) if ordered else OK
    if not failed(status):
        status = framed_inputs(info, n, ins, made, f, last, ordered, order)
    if not failed(status):
        status = check_inputs(info, n, ins, f)
    count = 0
    at = info.n_ints
    work = first.numel
    while not failed(status) and count < info.n_out:
        out = framed_output(info, count, n, ins, n_attrs, attrs, at, outs, last)
        if failed(out):
            status = out
            break
        outs[count] = lay_out(out, order) if ordered else out
        f.outputs[count] = tensor(out).data
        status = check_output(info, count, out, f)
        if info.flags & ZEROED and not failed(status):
            status = zero_fill(out)
        at += 1 + max(attrs[at], 0)
        work += tensor(out).numel
        count += 1
    if not failed(status):
        if info.flags & DRAWS:
            blocks = (first.numel + DROPOUT_BLOCK - 1) // DROPOUT_BLOCK
            status = draw_default(f.integers, first.device, blocks)
    if info.flags & CUBIC and first.ndim > 0:
        work = max(product(work, max(first.shape[first.ndim - 1], 1)), work)
    if not failed(status):
        n_words = BEFORE_INTEGERS + info.n_ints
        status = launch_checked(
            info.kernel, first.device, first.dtype, address_of(f), n_words, work, ROW_RANGE
        )
    for k in range(n):
        if made[k] != 0:
            drop(made[k])
    if failed(status):
        for k in range(count):
            drop(outs[k])
        return status
    return count
