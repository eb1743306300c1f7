"""Ops over the rows of one dimension."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, fail_dim, failed
from fastgrad.native.base.intrinsics import native, stack_small, tensor, words
from fastgrad.native.contracts.frames.reductions import BY_BLOCKS, BY_COLUMNS, COLUMNS
from fastgrad.native.contracts.limits import ALL_DIMS
from fastgrad.native.contracts.ops import ACCUMULATES_INT, FLOAT_ONLY, REDUCES
from fastgrad.native.contracts.status import DTYPE_REFUSED, MISFIT
from fastgrad.native.launch.launch import launch_frame, op_record
from fastgrad.native.launch.promotion import is_floating, summed_dtype
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.tensors.tensors import finished, new_tensor, wrap_dim

DIM_GOES, DIM_SHRINKS, DIM_STAYS = 0, 1, 2


@native
def row_sizes(h, dim, fate, f, sizes):
    """Write the extents of the rows to the frame and the sizes of the result to `sizes`; returns its rank.

    Where `dim` is `ALL_DIMS`, the tensor is one row.
    """
    t = tensor(h)
    f.before = 1
    f.length = t.numel if dim == ALL_DIMS else 1
    f.after = 1
    rank = 0
    if dim == ALL_DIMS:
        if fate == DIM_GOES:
            return 0
        for d in range(t.ndim):
            sizes[d] = t.shape[d] if fate == DIM_STAYS else 1
        return t.ndim
    for d in range(t.ndim):
        size = t.shape[d]
        if d < dim:
            f.before *= size
        elif d > dim:
            f.after *= size
        else:
            f.length = size
            if fate == DIM_GOES:
                continue
            if fate == DIM_SHRINKS:
                size = 1
        sizes[rank] = size
        rank += 1
    return rank


@native
def extents_in_memory(h, dim, f):
    """Write how many elements lie outside and inside of a dimension in the memory of a tensor without gaps."""
    t = tensor(h)
    f.before = 1
    f.after = 1
    for d in range(t.ndim):
        if d == dim:
            continue
        if t.strides[d] > t.strides[dim] or (t.strides[d] == t.strides[dim] and d < dim):
            f.before *= t.shape[d]
        else:
            f.after *= t.shape[d]


@native
def run_rows(op, n, ins, f):
    """Complete the frame with contiguous inputs and launch; returns a status."""
    t = tensor(ins[0])
    made = words(stack_small())
    count = 0
    status = 0
    while count < n and not failed(status):
        c = contiguous(ins[count])
        if failed(c):
            status = c
            break
        if count == 0:
            f.x = tensor(c).data
        else:
            f.second = tensor(c).data
        made[count] = c
        count += 1
        if tensor(c).dtype != t.dtype or tensor(c).numel != t.numel:
            status = MISFIT
    if not failed(status):
        status = launch_frame(op_record(op).kernel, t.device, t.dtype, f, t.numel + 1)
    for k in range(count):
        drop(made[k])
    return status


@native
def rowwise(op, n, ins, attrs):
    """An op over one dimension."""
    info = op_record(op)
    t = tensor(ins[0])
    of = integers.of_rows(attrs)
    dim = of.dim if of.dim == ALL_DIMS else wrap_dim(of.dim, t.ndim)
    if dim < 0:
        return fail_dim(of.dim, t.ndim)
    if info.flags & FLOAT_ONLY and not is_floating(t.dtype):
        return fail(DTYPE_REFUSED, t.dtype)
    fate = DIM_STAYS
    if info.flags & REDUCES:
        fate = DIM_SHRINKS if of.keepdim != 0 else DIM_GOES
    f = frames.rows(stack_small())
    sizes = words(stack_small())
    rank = row_sizes(ins[0], dim, fate, f, sizes)
    f.pitch = f.after
    f.divided = BY_COLUMNS if f.after // COLUMNS > f.before else BY_BLOCKS
    dtype = t.dtype
    if info.flags & ACCUMULATES_INT:
        dtype = summed_dtype(dtype)
    out = new_tensor(dtype, t.device, rank, sizes)
    if failed(out):
        return out
    f.out = tensor(out).data
    f.second = 0
    return finished(out, run_rows(op, n, ins, f) if tensor(out).numel > 0 else 0)
