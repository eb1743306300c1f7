"""One call for many tensors: a kernel over each of a list of groups, in place, as optimizer steps need it."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import address_of, advance, native, runtime, stack_small, tensor, words
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.flags import CONTIGUOUS, INFERENCE, INFERENCE_MODE
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.multi_tensor import GROUP
from fastgrad.native.contracts.status import (
    INFERENCE_INPLACE,
    INTERNAL,
    NOT_A_NUMBER,
    OVERLAP,
    UNLIKE_FIRST,
)
from fastgrad.native.graph.packing import about_to_change
from fastgrad.native.launch.elementwise import copy_into
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.launches import launch
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.tensors.layouts import lies_like, without_gaps
from fastgrad.native.tensors.overlap import overlaps_itself
from fastgrad.native.tensors.tensors import bump_version, same_shape

BEFORE_TENSORS = GROUP.place("tensors")  # words


@native
def each(op, n, ins, n_attrs, attrs):
    """Run the kernel of an op over groups of tensors; returns the first tensor, with a reference.

    `ins`: the groups one after the other. `attrs`: a mask of the places that a group has tensors for; then the kernel's
    settings. What the places are stands in the op's record. Tensors that are no single numbers have sizes and dtype of
    the group's first. Nothing is written unless all fit.
    """
    info = op_record(op)
    present = integers.groups(attrs).present
    size = 0
    for k in range(info.places):
        size += present >> k & 1
    if present & info.needed != info.needed or present >> info.places != 0 or n % size != 0:
        return fail(INTERNAL, present, n)
    for k in range(0, n, size):
        status = check_group(info, advance(ins, k), present)
        if failed(status):
            return status
    for k in range(0, n, size):
        status = run_group(info, advance(ins, k), n_attrs, attrs)
        if failed(status):
            return status
    retain(ins[0])
    return ins[0]


@native
def check_group(info, group, present):
    """Whether the tensors of a group fit together and may change: 0 or a negative status."""
    first = tensor(group[0])
    j = 0
    for k in range(info.places):
        if not present >> k & 1:
            continue
        h = group[j]
        j += 1
        t = tensor(h)
        if info.single >> k & 1:
            fits = t.numel == 1 and (t.dtype == FLOAT32 or t.dtype == FLOAT64)
        else:
            fits = same_shape(h, group[0]) and t.dtype == first.dtype
        if not fits:
            return fail(NOT_A_NUMBER, k, h) if info.single >> k & 1 else fail(UNLIKE_FIRST, k, h, group[0])
        if info.written >> k & 1:
            if t.flags & INFERENCE and not runtime().mode & INFERENCE_MODE:
                return fail(INFERENCE_INPLACE)
            status = about_to_change(h)
            if failed(status):
                return status
            if overlaps_itself(h):
                return fail(OVERLAP)
    return 0


@native
def lie_alike(info, group, present):
    """Whether the tensors of a group, but for single numbers, lie in memory the same way and without gaps."""
    first = tensor(group[0])
    if not without_gaps(first):
        return False
    j = 0
    for k in range(info.places):
        if present >> k & 1:
            if not info.single >> k & 1 and not lies_like(tensor(group[j]), first.strides):
                return False
            j += 1
    return True


@native
def run_group(info, group, n_attrs, attrs):
    """Run the kernel over one group, by way of contiguous copies where its tensors do not lie alike; a status."""
    first = tensor(group[0])
    present = integers.groups(attrs).present
    f = frames.group(stack_small())
    held = words(stack_small())
    f.n = first.numel
    f.single = first.dtype
    f.counted = 0
    status = 0
    alike = not first.flags & CONTIGUOUS and lie_alike(
        info, group, present
    )  # what is contiguous is taken as it is
    j = 0
    for k in range(info.places):
        f.tensors[k] = 0
        held[k] = 0
        if present >> k & 1:
            h = 0
            if not failed(status) and alike:
                h = group[j]
                retain(h)
            elif not failed(status):
                h = contiguous(group[j])
            j += 1
            if h > 0:
                held[k] = h
                f.tensors[k] = tensor(h).data
                if info.single >> k & 1:
                    f.single = tensor(h).dtype
            elif failed(h):
                status = h
    settings = advance(f.tensors, info.places)
    for k in range(n_attrs - 1):
        settings[k] = integers.groups(attrs).rest[k]
    n_words = BEFORE_TENSORS + info.places + n_attrs - 1
    kernel = info.kernel
    if not failed(status):
        if (
            info.written & info.single and first.numel >= 2 * runtime().part_work
        ):  # see Note [Steps count themselves]
            f.n = 0
            status = launch(kernel, first.device, first.dtype, FLAT, address_of(f), n_words, 0)
            f.n = first.numel
            f.counted = 1
    if not failed(status):
        status = launch(kernel, first.device, first.dtype, FLAT, address_of(f), n_words, first.numel)
    j = 0
    for k in range(info.places):
        if held[k] != 0:
            if not failed(status) and info.written >> k & 1:
                if held[k] != group[j]:
                    status = copy_into(group[j], held[k])
                bump_version(group[j])
            drop(held[k])
        j += present >> k & 1
    return status
