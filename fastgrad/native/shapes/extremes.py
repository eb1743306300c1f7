"""The greatest or smallest element of each row of one dimension, and its place."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, fail_dim, failed
from fastgrad.native.base.intrinsics import (
    native,
    native_once,
    product,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.ops import WITH_INDICES
from fastgrad.native.contracts.status import EMPTY_DIM
from fastgrad.native.launch.launch import launch_frame, op_record
from fastgrad.native.memory.launches import need_dtype
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.shapes.reductions import FEW, count_blocks
from fastgrad.native.shapes.rows import DIM_GOES, DIM_SHRINKS, row_sizes
from fastgrad.native.tensors.tensors import finished, new_tensor, wrap_dim


@native
def extremes(op, h, attrs, outs):
    """The places, or the values and then the places. Their number or a negative status."""
    t = tensor(h)
    of = integers.of_rows(attrs)
    dim = wrap_dim(of.dim, t.ndim)
    if dim < 0:
        return fail_dim(of.dim, t.ndim)
    f = frames.extremes(stack_frame())
    sizes = words(stack_small())
    rank = row_sizes(h, dim, DIM_SHRINKS if of.keepdim != 0 else DIM_GOES, f, sizes)
    if f.length == 0:
        return fail(EMPTY_DIM)
    places = new_tensor(INT64, t.device, rank, sizes)
    if failed(places):
        return places
    f.places = tensor(places).data
    f.values = 0
    outs[0] = places
    if op_record(op).flags & WITH_INDICES:
        values = new_tensor(t.dtype, t.device, rank, sizes)
        if failed(values):
            return finished(places, values)
        f.values = tensor(values).data
        outs[0] = values
        outs[1] = places
    kernel = op_record(op).kernel
    status = run_extremes(kernel, h, f) if t.numel > 0 else need_dtype(kernel, t.device, t.dtype)
    if failed(status):
        drop(places)
        if f.values != 0:
            drop(outs[0])
        return status
    return 2 if f.values != 0 else 1


@native
def run_extremes(kernel, h, f):
    """Launch the search of rows of `h`, whose extents the frame has; returns a status."""
    x = contiguous(h)
    if failed(x):
        return x
    t = tensor(x)
    f.x = t.data
    f.within = 0
    f.step = 0
    f.columns = f.after
    blocks = count_blocks(f.length, f.length, product(f.before, f.after), FEW, t.device)
    if blocks > 1:
        status = search_blocks(kernel, t.dtype, t.device, f, blocks)
    else:
        status = launch_frame(kernel, t.device, t.dtype, f, t.numel + 1)
    drop(x)
    return status


@native_once
def search_blocks(kernel, dtype, device, f, blocks):
    """Search blocks of the rows first, which several threads can do, and then what was found in them; a status."""
    count = blocks * f.before * f.after
    size = words(stack_small())
    size[0] = count
    values = new_tensor(dtype, device, 1, size)
    if failed(values):
        return values
    within = new_tensor(INT64, device, 1, size)
    if failed(within):
        return finished(values, within)
    found_values = f.values
    found_places = f.places
    f.values = tensor(values).data
    f.places = tensor(within).data
    f.before *= blocks
    f.length //= blocks
    status = launch_frame(kernel, device, dtype, f, f.length * count + 1)
    if not failed(status):
        f.x = f.values
        f.within = f.places
        f.values = found_values
        f.places = found_places
        f.before //= blocks
        f.step = f.length
        f.length = blocks
        status = launch_frame(kernel, device, dtype, f, count + 1)
    drop(within)
    drop(values)
    return status
