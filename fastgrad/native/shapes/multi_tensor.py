"""One call for many tensors: a kernel over each of a list of groups, in place, as optimizer steps need it."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    native_once,
    runtime,
    stack_small,
    storage,
    tensor,
    words,
)
from fastgrad.native.contracts.cuda import MOST_CHUNKS
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64, ITEMSIZES
from fastgrad.native.contracts.flags import CONTIGUOUS, INFERENCE, INFERENCE_MODE
from fastgrad.native.contracts.frame import ROOM
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.multi_tensor import COUNTS, GROUP, NOTES, SUMS
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.status import (
    INFERENCE_INPLACE,
    INTERNAL,
    NOT_A_NUMBER,
    OK,
    OVERLAP,
    UNLIKE_FIRST,
)
from fastgrad.native.graph.packing import about_to_change
from fastgrad.native.launch.elementwise import copy_into
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.devices import launches_itself
from fastgrad.native.memory.joined import launch_joined, may_go_on
from fastgrad.native.memory.launches import find_kernel, launch
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.tensors.layouts import lies_like, without_gaps
from fastgrad.native.tensors.overlap import overlaps_itself
from fastgrad.native.tensors.tensors import bump_version, new_tensor, same_shape

BEFORE_TENSORS, ROOM_WORDS = GROUP.place("tensors"), ROOM.words


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
    if present & info.needed != info.needed or present >> info.places != 0 or n == 0 or n % size != 0:
        return fail(INTERNAL, present, n)
    status = find_kernels(info, n, ins, size)
    if failed(status):
        return status
    for k in range(0, n, size):
        status = check_group(info, advance(ins, k), present)
        if failed(status):
            return status
    room = room_for_sums(info, n // size, tensor(ins[0]).device)
    if failed(room):
        return room
    status = OK
    if may_join(info, n, ins, size, present):
        status = run_joinable(info, n, ins, size, n_attrs, attrs, room)
    else:
        for k in range(0, n, size):
            if not failed(status):
                status = run_group(info, advance(ins, k), n_attrs, attrs, room)
    if room != 0:
        drop(room)
    if failed(status):
        return status
    retain(ins[0])
    return ins[0]


@native
def room_for_sums(info, n_groups, device):
    """A tensor for what the blocks of a call find where their kernel adds that up, else 0; or a failure."""
    if not runtime().joins[info.kernel] & SUMS or not launches_itself(device):
        return 0
    size = words(stack_small())
    size[0] = MOST_CHUNKS + n_groups
    return new_tensor(FLOAT64, device, 1, size)


@native
def may_join(info, n, ins, size, present):
    """Whether the launches of a call may become one: see Note [Joined launches] in `memory.joined`."""
    device = tensor(ins[0]).device
    joins = runtime().joins[info.kernel]
    if joins & SUMS:
        return launches_itself(device) and write_to_one(info, n, ins, size, present)
    if joins & NOTES and not write_to_one(info, n, ins, size, present):
        return False
    if joins == 0 or (device != HOST and not launches_itself(device)):
        return False
    return have_stamps(info, n, ins, size, present)


@native
def write_to_one(info, n, ins, size, present):
    """Whether all groups of a call write to the same single number, and read it nowhere else."""
    at = 0  # of that number, in a group
    for place in range(info.places):
        if info.written & info.single & (1 << place):
            break
        at += present >> place & 1
    total = tensor(ins[at])
    for k in range(n):
        t = tensor(ins[k])
        if t.data != total.data if k % size == at else t.storage == total.storage:
            return False
    return True


@native
def find_kernels(info, n, ins, size):
    """Find the kernels that the groups of a call need, which may call Python; a status."""
    found_for = -1
    for k in range(0, n, size):
        t = tensor(ins[k])
        if t.dtype == found_for or (t.device == HOST and t.dtype != FLOAT32 and t.dtype != FLOAT64):
            continue
        found_for = t.dtype
        found = find_kernel(info.kernel, t.device, t.dtype, FLAT)
        if not failed(found) and t.device == HOST:
            found = find_kernel(runtime().joined_kernel, HOST, t.dtype, FLAT)
        if failed(found):
            return found
    return OK


@native
def have_stamps(info, n, ins, size, present):
    """Whether no tensor of a call is written to that lies in the same memory as another one; if so, all get a stamp.

    If they have nothing to do either with those of the launches that a tape ends with, it is the stamp of these.
    """
    if may_go_on(tensor(ins[0]).device) and are_apart(info, n, ins, size, present):
        return True
    runtime().stamp += 1
    return are_apart(info, n, ins, size, present)


@native_once
def are_apart(info, n, ins, size, present):
    """Whether what is written of each tensor of a call is memory that no other tensor with the last stamp lies in.

    The number that all groups note something in does not count.
    """
    rt = runtime()
    shared = info.single if rt.joins[info.kernel] & NOTES else 0
    for written in (1, 0):
        for k in range(0, n, size):
            j = k
            for place in range(info.places):
                if not present >> place & 1:
                    continue
                s = storage(tensor(ins[j]).storage)
                j += 1
                if info.written >> place & 1 != written or shared >> place & 1:
                    continue
                if s.stamp == rt.stamp or (written and s.read_stamp == rt.stamp):
                    return False
                if written:
                    s.stamp = rt.stamp
                else:
                    s.read_stamp = rt.stamp
    return True


@native
def is_joinable(info, group, present):
    """Whether a kernel takes the tensors of a group as they lie."""
    first = tensor(group[0])
    if first.device == HOST and first.dtype != FLOAT32 and first.dtype != FLOAT64:
        return False
    if not first.flags & CONTIGUOUS:
        return lie_alike(info, group, present)
    j = 0
    for k in range(info.places):
        if present >> k & 1:
            if not tensor(group[j]).flags & CONTIGUOUS:
                return False
            j += 1
    return True


@native
def write_settings(info, n_attrs, attrs, room, f):
    """Write what stands behind the tensors of a group; how many words the frame has."""
    behind = advance(f.tensors, info.places)
    n = n_attrs - 1
    for k in range(n):
        behind[k] = integers.groups(attrs).rest[k]
    if room != 0:
        behind[n] = tensor(room).data
        behind[n + 1] = tensor(room).numel * ITEMSIZES[FLOAT64]
        behind[n + 2] = 1
        n += ROOM_WORDS
    return BEFORE_TENSORS + info.places + n


@native
def write_frame(info, group, n_attrs, attrs, room, f):
    """Write the frame of a group whose tensors are taken as they lie, and count changes of those that are written."""
    first = tensor(group[0])
    present = integers.groups(attrs).present
    f.n = first.numel
    f.single = first.dtype
    f.counted = 0
    j = 0
    for k in range(info.places):
        f.tensors[k] = 0
        if present >> k & 1:
            t = tensor(group[j])
            f.tensors[k] = t.data
            if info.single >> k & 1:
                f.single = t.dtype
            if info.written >> k & 1:
                bump_version(group[j])
            j += 1
    write_settings(info, n_attrs, attrs, room, f)


@native
def run_joinable(info, n, ins, size, n_attrs, attrs, room):
    """Run the kernel over groups that have nothing to do with each other, as one launch where they lie well; a status.

    See Note [Joined launches] in `memory.joined`.
    """
    n_words = BEFORE_TENSORS + info.places + n_attrs - 1 + (ROOM_WORDS if room != 0 else 0)
    nbytes = n // size * n_words * 8
    table = allocate(nbytes)
    if failed(table):
        return table
    status = OK
    count = 0
    dtype = 0
    for k in range(0, n + size, size):
        group = advance(ins, k)
        joinable = k < n and is_joinable(info, group, integers.groups(attrs).present)
        if count > 0 and not failed(status) and (not joinable or tensor(group[0]).dtype != dtype):
            status = launch_joined(info.kernel, tensor(ins[0]).device, dtype, table, count, n_words)
            count = 0
        if failed(status) or k == n:
            break
        if joinable:
            dtype = tensor(group[0]).dtype
            write_frame(info, group, n_attrs, attrs, room, frames.group(table + count * n_words * 8))
            count += 1
        else:
            status = run_group(info, group, n_attrs, attrs, room)
    deallocate(table, nbytes)
    return status


@native
def check_group(info, group, present):
    """Whether the tensors of a group fit together and may change: 0 or a negative status."""
    first = tensor(group[0])
    single = -1  # the dtype of single numbers is one word of the frame
    j = 0
    for k in range(info.places):
        if not present >> k & 1:
            continue
        h = group[j]
        j += 1
        t = tensor(h)
        if info.single >> k & 1:
            fits = t.numel == 1 and (t.dtype == FLOAT32 or t.dtype == FLOAT64)
            fits = fits and (single == -1 or t.dtype == single)
            single = t.dtype
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
def run_group(info, group, n_attrs, attrs, room):
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
    n_words = write_settings(info, n_attrs, attrs, room, f)
    kernel = info.kernel
    if not failed(status):
        in_parts = first.numel >= 2 * runtime().part_work and not launches_itself(first.device)
        if runtime().joins[kernel] & COUNTS and in_parts:  # see Note [Steps count themselves]
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
