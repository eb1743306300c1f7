"""Sorting along a dimension: the first elements of rows, and their places."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import native, product, stack_frame, stack_small, tensor, total, words
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frames.sorting import (
    BUCKETS,
    COLUMNS,
    COUNT,
    COUNTERS,
    DEAL,
    DIGIT_PIECE,
    DIGITS,
    FEW_ROWS,
    FITS,
    LONG,
    MARKS,
    MOST_PLACES,
    ORDER,
    PADDING,
    PASSES,
    PIECE,
    ROWS,
    SOUGHT,
)
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.ops import AS_OPERANDS
from fastgrad.native.contracts.status import INTERNAL, SORT_LENGTH
from fastgrad.native.launch.launch import launch_frame, most_threads, op_record
from fastgrad.native.memory.launches import need_dtype
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import contiguous, in_strides
from fastgrad.native.shapes.rows import DIM_STAYS, extents_in_memory, row_sizes
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.layouts import follow, lay_out
from fastgrad.native.tensors.tensors import new_tensor

WORK = 16  # of sorting an element, in elements of a sum
FEW = 4  # a larger part of a row is not sought, but sorted with all of it


@native
def plan_elsewhere(x, f):
    """Decide in how many launches, of how many blocks, another device sorts, and how much room it needs: words.

    See Note [Digits] in `contracts.frames.sorting`.
    """
    rows = f.before * f.columns
    sought = f.k <= FITS and (rows >= FEW_ROWS or f.length <= SOUGHT)
    if f.length <= FITS:
        width = 1
        while width < f.length:
            width *= 2
        f.steps = (rows + FITS // width - 1) // (FITS // width)
        return 0
    f.steps = rows
    if sought:
        return 0
    f.launches = PASSES * itemsize(tensor(x).dtype)
    pieces = (f.length + DIGIT_PIECE - 1) // DIGIT_PIECE
    f.steps = product(rows, pieces)
    counters = product(rows * DIGITS, 1 + pieces)
    return total(product(2, tensor(x).numel), (counters + 1) // 2)


@native
def scratch_for(x, work, f):
    """Room for the counters and rows of each thread, or what another device needs: a new tensor."""
    t = tensor(x)
    size = words(stack_small())
    # Words of each row, as many to sort by digits, and the elements of each row.
    rows = product(1 + 2 * min(f.columns, COLUMNS), f.length + PADDING)
    size[0] = total(rows, COUNTERS)
    f.scratch.nbytes = size[0] * 8
    f.scratch.count = most_threads(t.device, work)
    size[0] = product(size[0], f.scratch.count)
    f.launches = 1
    if t.device != HOST:
        size[0] = max(size[0], plan_elsewhere(x, f))
    return new_tensor(INT64, t.device, 1, size)


@native
def scratch_for_long(x, work, f):
    """Room for the counters of each thread, and behind them for what all share: see `kernels.cpu.sorting`."""
    t = tensor(x)
    size = words(stack_small())
    f.scratch.nbytes = COUNTERS * 8
    f.scratch.count = most_threads(t.device, work)
    pieces = (f.length + PIECE - 1) // PIECE
    size[0] = f.scratch.count * COUNTERS + 2 * f.length + (1 + pieces) * BUCKETS + (f.length + 7) // 8
    return new_tensor(INT64, t.device, 1, size)


@native
def run_long(kernel, x, f, work):
    """Launch the stages in which a long row is sorted; a status."""
    t = tensor(x)
    f.shared = f.scratch.data + f.scratch.count * f.scratch.nbytes
    pieces = (f.length + PIECE - 1) // PIECE
    for stage in range(MARKS, ORDER + 1):
        f.stage = stage
        f.first = 0
        f.steps = 1
        if stage == COUNT or stage == DEAL:
            f.steps = pieces
        elif stage == ORDER:
            f.steps = BUCKETS
        status = launch_frame(kernel, t.device, t.dtype, f, work if f.steps > 1 else 1)
        if failed(status):
            return status
    return 0


@native
def run_select(op, x, values, places, f):
    """Complete the frame, which has sizes, and launch; a status."""
    t = tensor(x)
    if t.numel == 0 or f.k == 0:
        return need_dtype(op_record(op).kernel, t.device, t.dtype)
    work = t.numel * WORK
    long = t.device == HOST and t.numel == f.length and f.length >= LONG and f.k >= f.length // FEW
    scratch = scratch_for_long(x, work, f) if long else scratch_for(x, work, f)
    if failed(scratch):
        return scratch
    f.scratch.data = tensor(scratch).data
    f.x = t.data
    f.values = tensor(values).data
    f.places = tensor(places).data
    kernel = op_record(op).kernel
    f.shared = 0
    f.stage = ROWS
    status = run_long(kernel, x, f, work) if long else launch_frame(kernel, t.device, t.dtype, f, work)
    drop(scratch)
    return status


@native
def select_sorted(op, x, attrs, outs):
    """The first elements of the rows along a dimension, and their places.

    What is sorted as a whole by an op that says `AS_OPERANDS` lies in memory as it did.
    Returns the number of outputs or a negative status.
    """
    t = tensor(x)
    of = integers.sorted(attrs)
    dim = of.dim
    if dim < 0 or dim >= max(t.ndim, 1):
        return fail(INTERNAL, dim, t.ndim)
    f = frames.sorting(stack_frame())
    sizes = words(stack_small())
    row_sizes(x, dim, DIM_STAYS, f, sizes)
    if t.ndim > 0:
        sizes[dim] = of.k
    f.columns = f.after
    f.k = of.k
    f.largest = of.largest
    if f.k < 0 or f.k > f.length:
        return fail(INTERNAL, f.k, f.length)
    if f.length > MOST_PLACES:
        return fail(SORT_LENGTH, f.length)
    keeps = op_record(op).flags & AS_OPERANDS != 0 and f.k == f.length
    order = words(stack_small())
    if keeps:
        ins = words(stack_small())
        ins[0] = x
        follow(1, ins, t.ndim, t.shape, order)
    rows = in_strides(x, order) if keeps else contiguous(x)
    if failed(rows):
        return rows
    outs[0] = new_tensor(t.dtype, t.device, t.ndim, sizes)
    outs[1] = outs[0] if failed(outs[0]) else new_tensor(INT64, t.device, t.ndim, sizes)
    if keeps and not failed(outs[1]):
        lay_out(outs[0], order)
        lay_out(outs[1], order)
        extents_in_memory(outs[0], dim, f)
        f.columns = f.after
    status = outs[1] if failed(outs[1]) else run_select(op, rows, outs[0], outs[1], f)
    drop(rows)
    if not failed(status):
        return 2
    for k in range(2):
        if not failed(outs[k]):
            drop(outs[k])
    return status
