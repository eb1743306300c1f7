"""Launches of one kernel over many frames as one launch.

Note [Joined launches]: the step of an optimizer runs the same kernel over one parameter after the other. Their frames
stand in a table, one behind the other at equal distances, and become one launch, whose parts begin and end at any
element of any of them (`joined` in `kernels.cpu.optim`). Whoever joins launches knows that none of them reads
or writes what another one writes. Kernels that may be joined have a word in the runtime's record: bits of the words of
their frames that are addresses with an element for each step, and `COUNTS` for those that count (see Note [Steps count
themselves]); where there are parts, such a kernel counts before.

Another device that launches itself gets all frames by one call (`LAUNCHING`), and makes of them what it can: see Note
[Many frames] in `cuda.many`.

On a tape the frames stay launches of their own, so that programs link their words and editions name them; neighbours
with the same number in `LAUNCHED.joined` run as one. Those of a next call, of another group of parameters, are joined
to them as well if nothing stands between.
"""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base import frames
from fastgrad.native.base.clock import nanoseconds
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    call_kernel,
    kernel_table,
    native,
    native_inline,
    native_once,
    runtime,
    stack_frame,
    tape,
    words,
    words_of,
)
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.multi_tensor import COUNTS, GROUP
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.profiles import KERNEL_EVENT
from fastgrad.native.contracts.status import OK
from fastgrad.native.memory.devices import launch_many_on, launches_itself, status_of
from fastgrad.native.memory.launches import cell_of, check_frame, find_kernel, run_beside_others
from fastgrad.native.memory.parts import CELLS, device_of, dtype_of
from fastgrad.native.memory.profiles import begin_event, end_event_at, note_kernel
from fastgrad.native.memory.tapes import append_joined, is_recorded, only_recorded

AT_N, AT_COUNTED = GROUP.place("n"), GROUP.place("counted")


@native
def work_of(table, pitch, count):
    """How many elements there are in so many frames."""
    work = 0
    for k in range(count):
        work += words(table + k * pitch)[AT_N]
    return work


@native_once
def check_frames(cell, table, pitch, count, n_words):
    """Whether what the addresses in frames stand for lies in live storages: a status."""
    for k in range(count):
        status = check_frame(cell, table + k * pitch, n_words)
        if failed(status):
            return status
    return OK


@native
def count_first(address, table, pitch, count, n_words):
    """Let a kernel count its steps, over no elements of each frame."""
    copy = stack_frame()
    for k in range(count):
        for j in range(n_words):
            words(copy)[j] = words(table + k * pitch)[j]
        frames.group(copy).n = 0
        call_kernel(address, copy)


@native_once
def run_in_parts(address, cell, table, pitch, count, n_words, work):
    """Run a kernel over frames with much work, in parts; a status."""
    dtype = dtype_of(cell)
    kernel = runtime().joined_kernel
    joined = find_kernel(kernel, HOST, dtype, FLAT)
    if failed(joined):
        return joined
    joins = runtime().joins[cell // CELLS]
    if joins & COUNTS:
        count_first(address, table, pitch, count, n_words)
    f = frames.joined(stack_frame())
    f.n = work
    f.first = 0
    f.kernel = address
    f.table = table
    f.pitch = pitch
    f.count = count
    f.n_words = n_words
    f.moves = joins & ~COUNTS
    f.own_n = AT_N
    f.own_counted = AT_COUNTED
    run_beside_others(joined, cell_of(kernel, HOST, dtype, FLAT), address_of(f), words_of(f), work)
    return OK


@native_inline
def run_elsewhere(address, device, table, pitch, count, n_words):
    """Let another device launch a kernel over frames, unless a tape only records that; a status."""
    if runtime().tape != 0 and only_recorded(device):
        return OK
    return status_of(device, launch_many_on(device, address, table, pitch, count, n_words))


@native_once
def run_joined(address, cell, table, pitch, count, n_words):
    """Run a kernel over frames that stand at equal distances as one launch; a status."""
    if DEBUG:
        status = check_frames(cell, table, pitch, count, n_words)
        if failed(status):
            return status
    rt = runtime()
    rt.launches += 1
    work = work_of(table, pitch, count)
    token = begin_event(KERNEL_EVENT, cell, 0)
    rt.kernel_ended = 0
    status = OK
    if launches_itself(device_of(cell)):
        status = run_elsewhere(address, device_of(cell), table, pitch, count, n_words)
    elif work >= 2 * rt.part_work:
        status = run_in_parts(address, cell, table, pitch, count, n_words, work)
    else:
        for k in range(count):
            call_kernel(address, table + k * pitch)
    if token != 0:
        end_event_at(token, rt.kernel_ended if rt.kernel_ended != 0 else nanoseconds())
        note_kernel(token, work, rt.kernel_parts if rt.kernel_ended != 0 else 1)
    return status


@native_once
def launch_joined(kernel, device, dtype, table, count, n_words):
    """Run a kernel, which was found before, over frames one behind the other; a status.

    A tape that records appends them.
    """
    cell = cell_of(kernel, device, dtype, FLAT)
    status = run_joined(kernel_table()[cell], cell, table, 8 * n_words, count, n_words)
    if failed(status) or runtime().tape == 0 or not is_recorded(device):
        return status
    t = tape(runtime().tape)
    goes_on = may_go_on(device) and t.joined_cell == cell
    t.n_joined += not goes_on
    for k in range(count):
        frame = table + 8 * n_words * k
        status = append_joined(cell, frame, n_words, t.n_joined, k == 0 and not goes_on)
        if failed(status):
            return status
    t.joined_end = t.n_words
    t.joined_cell = cell
    t.joined_stamp = runtime().stamp
    return OK


@native
def may_go_on(device):
    """Whether a tape records what a device launches, and ends with joined launches that have got the last stamp."""
    rt = runtime()
    if rt.tape == 0 or not is_recorded(device):
        return False
    t = tape(rt.tape)
    return t.n_joined != 0 and t.joined_end == t.n_words and t.joined_stamp == rt.stamp
