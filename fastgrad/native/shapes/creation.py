"""Tensors that are made of numbers: constants, sequences, random numbers, and the places of what is not zero.

A generator's state is a bytearray of two words: its seed, and the offset of the next block. The blocks of a fill
are taken when it runs, and nothing comes between reading the offset and moving it on: Python's lock is held.
"""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    float_of,
    native,
    native_once,
    runtime,
    stack_frame,
    stack_small,
    storage,
    tensor,
    words,
)
from fastgrad.native.base.pyapi import bytearray_type, py_bytearray_size, py_bytearray_text
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frames.filling import BETWEEN, BY_STEP, IN_WORDS, PER_BLOCK, TRIANGLE
from fastgrad.native.contracts.frames.indexing import NONZERO_PIECE
from fastgrad.native.contracts.integers import UNSET
from fastgrad.native.contracts.limits import HOST, N_RANDOM_KERNELS
from fastgrad.native.contracts.ops import SHAPE_FILLED, SHAPE_SEQUENCE
from fastgrad.native.contracts.status import INTERNAL, OK
from fastgrad.native.launch.elementwise import fill_scalar
from fastgrad.native.launch.launch import launch_frame, op_record
from fastgrad.native.memory.references import drop
from fastgrad.native.memory.tapes import note_value
from fastgrad.native.objects.handles import type_of
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.tensors.elements import on_host
from fastgrad.native.tensors.tensors import finished, new_tensor

STATE_BYTES = 16
SEED, OFFSET = 0, 1
WORD_BYTES = 8


@native
def state_of(o):
    """The address of the words of a generator's state, zero for what is none."""
    if type_of(o) != bytearray_type() or py_bytearray_size(o) != STATE_BYTES:
        return 0
    return py_bytearray_text(o)


@native
def draw(state, blocks):
    """Take so many blocks of a generator, which no later call gets: the offset of the first."""
    offset = words(state)[OFFSET]
    words(state)[OFFSET] = offset + blocks
    return offset


@native
def default_state(device):
    """The address of the state of a device's default generator, of the host's if it has none; zero for a wrong one."""
    state = runtime().generator_states[device]
    return state_of(state if state != 0 else runtime().generator_states[HOST])


@native
def draw_default(target, device, blocks):
    """Take blocks of a device's default generator, and write its seed and their offset for a kernel; a status."""
    state = default_state(device)
    if state == 0:
        return fail(INTERNAL, device, blocks)
    target[SEED] = words(state)[SEED]
    target[OFFSET] = draw(state, blocks)
    runtime().drew = 1
    return OK


@native
def fill_random(which, h, state, a, b):
    """Fill a tensor without gaps with the next numbers of a generator, as it lies in memory; a status.

    `state` is zero for what is no generator's; `a`, `b`: bit patterns.
    """
    t = tensor(h)
    if state == 0:
        return fail(INTERNAL, which, t.ndim)
    if t.numel == 0:
        return OK
    f = frames.random(stack_small())
    f.n = t.numel
    f.out = t.data
    f.a = a
    f.b = b
    f.per_block = PER_BLOCK[which][1 if t.dtype in IN_WORDS else 0]
    f.seed = words(state)[SEED]
    runtime().drew = state == default_state(t.device)
    f.offset = draw(state, (t.numel + f.per_block - 1) // f.per_block)
    return launch_frame(runtime().random_kernels[which], t.device, t.dtype, f, t.numel)


@native
def fill_sequence(h, which, start, by):
    """Fill a contiguous tensor with numbers that are equally far from each other; a status.

    `start` and `by`, the step or the end, are bit patterns of float64, or integers.
    """
    t = tensor(h)
    if t.numel == 0:
        return OK
    f = frames.sequence(stack_small())
    f.n = t.numel
    f.out = t.data
    f.start = start
    f.step = by if which == BY_STEP else 0
    f.turn = t.numel if which == BY_STEP else max(t.numel // 2, 1)
    f.end = by if which == BETWEEN else 0
    return launch_frame(runtime().sequence_kernel, t.device, t.dtype, f, t.numel)


@native
def fill_places(h, columns, which):
    """Fill a contiguous tensor of two rows with the places in a triangle of a matrix; a status.

    `which`: twice the number of its diagonal, and one more for the upper triangle.
    """
    t = tensor(h)
    if t.numel == 0:
        return OK
    f = frames.triangle_places(stack_small())
    f.n = t.numel
    f.out = t.data
    f.columns = columns
    f.diagonal = which >> 1
    f.upper = which & 1
    return launch_frame(runtime().places_kernel, t.device, t.dtype, f, t.numel)


@native_once
def created(op, kind, attrs):
    """A new tensor, filled; a handle or a failure."""
    of = integers.created(attrs)
    sizes = integers.listed(of.rest)
    limit = (
        TRIANGLE + 1 if kind == SHAPE_SEQUENCE else UNSET + 1 if kind == SHAPE_FILLED else N_RANDOM_KERNELS
    )
    if not 0 <= of.which < limit:
        return fail(INTERNAL, op, of.which)
    out = new_tensor(of.dtype, of.device, sizes.count, sizes.rest)
    if failed(out) or (kind == SHAPE_FILLED and of.which == UNSET):
        return out
    if kind == SHAPE_FILLED:
        status = fill_scalar(out, of.which, float_of(of.a), of.a)
    elif kind == SHAPE_SEQUENCE and of.which == TRIANGLE:
        status = fill_places(out, of.a, of.b)
    elif kind == SHAPE_SEQUENCE:
        status = fill_sequence(out, of.which, of.a, of.b)
    else:
        status = fill_random(of.which, out, default_state(of.device), of.a, of.b)
    return finished(out, status)


# --- places of what is not zero ---------------------------------------------------------------------------------


@native
def word_in(h):
    """The int64 that a tensor holds, no less than zero, or a failure."""
    t = tensor(h)
    if t.device == HOST:
        status = note_value(t.data, WORD_BYTES, INT64)
        return status if failed(status) else words(t.data)[0]
    staged = on_host(t.data, t.device, WORD_BYTES)
    if failed(staged):
        return staged
    status = note_value(storage(staged).data, WORD_BYTES, INT64)
    word = words(storage(staged).data)[0]
    drop(staged)
    return status if failed(status) else word


@native
def nonzero(op, h, by_rows):
    """The places of what is not zero, in order: a row for each, or else a row for each dimension."""
    source = contiguous(h)
    if failed(source):
        return source
    t = tensor(source)
    sizes = words(stack_small())
    sizes[0] = 1 + (t.numel + NONZERO_PIECE - 1) // NONZERO_PIECE
    count = new_tensor(INT64, t.device, 1, sizes)
    if failed(count):
        return finished(source, count)
    f = frames.nonzero(stack_frame())
    f.places = 0
    f.count = tensor(count).data
    f.x = t.data
    f.n = t.numel
    f.rank = t.ndim if by_rows or t.ndim > 0 else 1
    f.by_rows = by_rows
    f.sizes[0] = 1
    for k in range(t.ndim):
        f.sizes[k] = t.shape[k]
    f.found = 0
    f.launches = 2
    found = 0
    if t.numel > 0:
        status = launch_frame(op_record(op).kernel, t.device, t.dtype, f, t.numel)
        found = word_in(count) if not failed(status) else status
    if failed(found):
        drop(count)
        return finished(source, found)
    sizes[0] = found if by_rows else f.rank
    sizes[1] = f.rank if by_rows else found
    out = new_tensor(INT64, t.device, 2, sizes)
    if not failed(out) and tensor(out).numel > 0:
        f.places = tensor(out).data
        f.found = found
        f.launches = 1
        out = finished(out, launch_frame(op_record(op).kernel, t.device, t.dtype, f, t.numel))
    drop(count)
    drop(source)
    return out
