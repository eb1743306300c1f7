"""Launches of indexing by tensors, also of more dimensions than a frame has room for."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    native,
    native_inline,
    native_once,
    product,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
    words_of,
)
from fastgrad.native.contracts.element_types import INT64, ITEMSIZES
from fastgrad.native.contracts.frames.filling import BY_STEP
from fastgrad.native.contracts.integers import FROM_FRONT
from fastgrad.native.contracts.limits import FRAME_DIMS
from fastgrad.native.contracts.status import INDEX_RANGE, INDICES_RANGE, OK, OPERAND_LENGTH
from fastgrad.native.launch.checked import launch_checked
from fastgrad.native.launch.elementwise import copy_into
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.creation import fill_sequence
from fastgrad.native.tensors.tensors import finished, new_tensor, new_view


@native_inline
def launch_index(kernel, f, tx, n_found, count, dim, last):
    """Launch indexing over `count` neighbouring dimensions, whose lengths the frame has; returns a status.

    What is wrong with an index is said of the dimensions from `dim` to `last`.
    """
    f.x = tx.data if tx.numel > 0 else 0  # a view of an empty tensor may begin anywhere
    f.count = count
    reason = INDEX_RANGE if dim == last else INDICES_RANGE
    return launch_checked(
        kernel, tx.device, tx.dtype, address_of(f), words_of(f), n_found + 1, reason, dim, last
    )


@native
def run_index(kernel, out, x, places, count, first, accumulate, form):
    """Launch indexing of contiguous `x` into `out`, or the writing of `out` into `x`; returns a status.

    `places` is as many index tensors, one after the other.
    """
    tx = tensor(x)
    f = frames.index(stack_frame())
    f.out = tensor(out).data
    f.indices = tensor(places).data
    f.n = tensor(places).numel // count
    f.before = 1
    f.after = 1
    f.accumulate = accumulate
    f.from_front = form & FROM_FRONT
    for d in range(first):
        f.before *= tx.shape[d]
    for d in range(first + count, tx.ndim):
        f.after *= tx.shape[d]
    if tensor(out).numel != product(product(f.before, f.n), f.after):  # a gradient's indices come from a hook
        return fail(OPERAND_LENGTH, 1)
    if count > FRAME_DIMS:
        return run_folded(kernel, f, out, x, places, count, first)
    for k in range(count):
        f.lengths[k] = tx.shape[first + k]
    return launch_index(kernel, f, tx, tensor(out).numel, count, first, first + count - 1)


@native_once
def run_folded(kernel, f, out, x, places, count, first):
    """Launch indexing over more dimensions than a frame has room for: the last ones become one, until there are fewer.

    The places in these are found by indexing the numbers of their elements.
    """
    lengths = words(stack_small())
    for k in range(count):
        lengths[k] = tensor(x).shape[first + k]
    left = count
    status = OK
    held = places
    retain(held)
    while left > FRAME_DIMS and not failed(status):
        gone = min(left - FRAME_DIMS + 1, FRAME_DIMS)
        folded = fold(held, lengths, left, gone, f.from_front, first, first + count - 1)
        drop(held)
        held = folded
        status = min(folded, OK)
        left -= gone - 1
    if not failed(status):
        f.indices = tensor(held).data
        for k in range(left):
            f.lengths[k] = lengths[k]
        status = launch_index(kernel, f, tensor(x), tensor(out).numel, left, first, first + count - 1)
        drop(held)
    return status


@native
def fold(places, lengths, count, gone, from_front, dim, last):
    """The indices of `count` dimensions as those of fewer: the last `gone` of them are one, also in `lengths`.

    A tensor, or a failure.
    """
    t = tensor(places)
    n = t.numel // count
    kept = count - gone
    sizes = words(stack_small())
    sizes[0] = (kept + 1) * n
    out = new_tensor(INT64, t.device, 1, sizes)
    if failed(out):
        return out
    f = frames.index(stack_frame())
    f.out = tensor(out).data + kept * n * ITEMSIZES[INT64]
    f.indices = t.data + kept * n * ITEMSIZES[INT64]
    f.n = n
    f.before = 1
    f.after = 1
    f.accumulate = 0
    f.from_front = from_front
    for k in range(gone):
        f.lengths[k] = lengths[kept + k]
        sizes[k] = lengths[kept + k]
    numbers = new_tensor(INT64, t.device, gone, sizes)
    if failed(numbers):
        return finished(out, numbers)
    lengths[kept] = tensor(numbers).numel
    status = fill_sequence(numbers, BY_STEP, 0, 1)
    if not failed(status):
        kernel = op_record(runtime().index_op).kernel
        status = launch_index(kernel, f, tensor(numbers), n, gone, dim, last)
    if not failed(status):
        status = copy_first(out, places, kept * n)
    drop(numbers)
    return finished(out, status)


@native
def copy_first(out, source, count):
    """Copy the first elements of a contiguous tensor to the beginning of another; a status."""
    length = words(stack_small())
    step = words(stack_small())
    length[0] = count
    step[0] = 1
    to = new_view(out, 1, length, step, tensor(out).data)
    if failed(to):
        return to
    of = new_view(source, 1, length, step, tensor(source).data)
    status = of
    if not failed(of):
        status = copy_into(to, of)
        drop(of)
    drop(to)
    return status
