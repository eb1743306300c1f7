"""One call for many tensors: a kernel over each of a list of groups, in place, as optimizer steps need it."""

from __future__ import annotations

from fastgrad.native.elementwise import copy_into, launch, op_record
from fastgrad.native.functions.copies import contiguous
from fastgrad.native.intrinsics import advance, native, runtime, stack_small, tensor, words
from fastgrad.native.layout import (
    BAD_SIZE,
    DEVICE_MISMATCH,
    FLAT,
    FLOAT32,
    FLOAT64,
    INFERENCE,
    INFERENCE_INPLACE,
    INFERENCE_MODE,
    OVERLAP,
)
from fastgrad.native.memory import drop, retain
from fastgrad.native.packing import about_to_change
from fastgrad.native.tensors import bump_version, overlaps_itself, same_shape
from fastgrad.native.views import fail

UNLIKE = -13  # the reason in an error of status BAD_SIZE


@native
def each(op, n, ins, n_attrs, attrs):
    """Run the kernel of an op over groups of tensors; returns the first tensor, with a reference.

    `ins`: the groups one after the other; 0 where a tensor is absent. `attrs`: tensors in a group; a bit for each
    that the kernel writes; a bit for each that is a single number of any float dtype; then the kernel's settings.
    The other tensors of a group have sizes and dtype of its first. Nothing is written unless every group fits.
    """
    width = attrs[0]
    for k in range(0, n, width):
        status = check_group(op, width, advance(ins, k), attrs[1], attrs[2])
        if status != 0:
            return status
    for k in range(0, n, width):
        status = run_group(op, width, advance(ins, k), attrs[1], attrs[2], n_attrs - 3, advance(attrs, 3))
        if status != 0:
            return -status
    retain(ins[0])
    return ins[0]


@native
def check_group(op, width, group, written, single):
    """Whether the tensors of a group fit together and may change: 0 or a negative status."""
    first = tensor(group[0])
    for k in range(width):
        h = group[k]
        if h == 0:
            continue
        t = tensor(h)
        if t.device != first.device:
            return fail(DEVICE_MISMATCH, op, 0)
        if single >> k & 1:
            fits = t.numel == 1 and (t.dtype == FLOAT32 or t.dtype == FLOAT64)
        else:
            fits = same_shape(h, group[0]) and t.dtype == first.dtype
        if not fits:
            runtime().error[2] = group[0]
            runtime().error[3] = k
            return fail(BAD_SIZE, UNLIKE, h)
        if written >> k & 1:
            if t.flags & INFERENCE and not runtime().mode & INFERENCE_MODE:
                return fail(INFERENCE_INPLACE, op, 0)
            status = about_to_change(h)
            if status != 0:
                return -status
            if overlaps_itself(h):
                return fail(OVERLAP, op, 0)
    return 0


@native
def run_group(op, width, group, written, single, n_settings, settings):
    """Run the kernel over one group, by way of contiguous copies where the memory has gaps; a status.

    Frame: elements, dtype of the last single number, the addresses, the settings.
    """
    first = tensor(group[0])
    frame = stack_small()
    f = words(frame)
    held = words(stack_small())
    f[0] = first.numel
    f[1] = first.dtype
    status = 0
    for k in range(width):
        f[2 + k] = 0
        held[k] = 0
        if group[k] != 0 and status == 0:
            h = contiguous(group[k])
            if h <= 0:
                status = -h
            else:
                held[k] = h
                f[2 + k] = tensor(h).data
                if single >> k & 1:
                    f[1] = tensor(h).dtype
    for k in range(n_settings):
        f[2 + width + k] = settings[k]
    if status == 0:
        n_words = 2 + width + n_settings
        status = launch(op_record(op).kernel, first.device, first.dtype, FLAT, frame, n_words, first.numel)
    for k in range(width):
        if held[k] != 0:
            if status == 0 and written >> k & 1:
                if held[k] != group[k]:
                    status = copy_into(group[k], held[k])
                bump_version(group[k])
            drop(held[k])
    return status
