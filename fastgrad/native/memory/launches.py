"""Running kernels: the point that every launch passes."""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base import frames
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.clock import nanoseconds, usleep
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    call_kernel,
    kernel_table,
    native,
    native_inline,
    native_once,
    runtime,
    stack_small,
    storage,
    words,
    words_of,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    py_decref,
    py_err_occurred,
    py_integer,
    py_integer_value,
    py_restore_thread,
    py_save_thread,
)
from fastgrad.native.contracts.element_types import BOOL
from fastgrad.native.contracts.frame import (
    CONSTANT_FACTOR,
    FUNCTION_RAISED,
    MAX_FACTORS,
    MAX_REACHES,
    NO_ROOM,
    REPORT,
)
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.limits import HOST, N_DEVICES, N_DTYPES, N_LAYOUTS
from fastgrad.native.contracts.profiles import KERNEL_EVENT, RESOLVE_EVENT
from fastgrad.native.contracts.status import (
    CAPTURE_COPY,
    NO_KERNEL,
    NO_MEMORY,
    OK,
    RAISED,
    STRAY_ADDRESS,
    USER_RAISED,
)
from fastgrad.native.memory.devices import call_on, launch_on, launches_itself, record_of, status_of
from fastgrad.native.memory.flights import depart, land, mark_own, others_fly
from fastgrad.native.memory.parts import (
    CELLS,
    NO_SPLIT,
    count_parts,
    device_of,
    dtype_of,
    itemsize_behind,
    row_of,
    split_of,
)
from fastgrad.native.memory.places import is_live
from fastgrad.native.memory.pool import run_parts
from fastgrad.native.memory.profiles import begin_event, end_event, end_event_at, note_kernel
from fastgrad.native.memory.references import drain, release_storage
from fastgrad.native.memory.tapes import append_launch, append_noted, is_recorded, only_recorded

PATIENCE = 50  # microseconds between two looks
REPORT_BYTES = REPORT.words * 8


# --- waiting ---------------------------------------------------------------------------------------------------


@native
def arrive(place):
    """A launch is over: take it off the list of flights, and let go of the memory that waited for it."""
    land(place)
    rt = runtime()
    waiting = rt.waiting
    rt.waiting = 0
    while waiting != 0:  # what other flights work on will wait again
        following = storage(waiting).link
        release_storage(waiting)
        waiting = following
    if rt.dead != 0:
        drain()


@native_once
def wait_for_flights():
    """Wait until no other thread is in the middle of a launch; see Note [Flights]. Other threads may run."""
    rt = runtime()
    if rt.n_flights == 0 or not others_fly():
        return
    rt.waiters += 1
    mark_own(1)
    while others_fly():
        give_way()
    mark_own(0)
    rt.waiters -= 1


@native_once
def give_way():
    """Let other threads run for a moment."""
    state = py_save_thread()
    usleep(PATIENCE)
    py_restore_thread(state)
    enter()


# --- launches --------------------------------------------------------------------------------------------------


@native_inline
def cell_of(kernel, device, dtype, layout_class):
    """The cell of the kernel table that holds the address of a kernel."""
    return ((kernel * N_DEVICES + device) * N_DTYPES + dtype) * N_LAYOUTS + layout_class


@native_once
def answer_to(cell):
    """What Python answers to a question for a kernel, an integer, or a failure: see `host.devices`."""
    number = py_integer(cell)
    if number == 0:
        return RAISED
    answer = call_python(runtime().resolve, 1, number)
    py_decref(number)
    if answer == 0:
        return RAISED
    found = py_integer_value(answer)
    py_decref(answer)
    return RAISED if py_err_occurred() != 0 else found


@native_once
def resolve(cell):
    """Let Python find or compile the kernel of an empty cell: its address, or a failure."""
    address = answer_to(cell)
    if address == 0:
        return fail(NO_KERNEL, cell)
    if not failed(address):
        kernel_table()[cell] = address
    return address


@native_once
def need_dtype(kernel, device, dtype):
    """Whether a kernel exists for a dtype, where there is nothing to launch it over: a status. Nothing is compiled."""
    first = cell_of(kernel, device, dtype, 0)
    for k in range(N_LAYOUTS):
        if kernel_table()[first + k] != 0:
            return OK
    exists = answer_to(-1 - first)
    if exists == 0:
        return fail(NO_KERNEL, first)
    return exists if failed(exists) else OK


@native
def find_kernel(kernel, device, dtype, layout_class):
    """The address of a kernel, or a failure.

    One that was never needed is found or compiled now, by Python: any code may run meanwhile, other threads too. So
    whoever has written a frame puts it onto the list of flights before this call, until the launch is over.
    """
    cell = cell_of(kernel, device, dtype, layout_class)
    address = kernel_table()[cell]
    return address if address != 0 else resolve(cell)


@native_once
def run_beside_others(address, cell, frame, n_words, work):
    """Run a kernel while other Python threads may run: see Note [Flights]."""
    rt = runtime()
    split = split_of(cell, frame) if device_of(cell) == HOST else NO_SPLIT
    n_parts = count_parts(split, frame, work)
    rt.divided += n_parts > 1
    if rt.waiters != 0:
        run_parts(address, cell, frame, n_words, split, n_parts, work)
        ended = nanoseconds()
    else:
        place = depart(frame, n_words)
        state = py_save_thread()
        run_parts(address, cell, frame, n_words, split, n_parts, work)
        ended = nanoseconds()
        py_restore_thread(state)
        enter()
        arrive(place)
    rt.kernel_ended = ended  # for a profile, to which waiting for other threads is no part of the kernel
    rt.kernel_parts = n_parts


@native
def address_place(reach):
    """The place in a frame of the address that a reach belongs to (see `contracts.frame`); -1 if it is none."""
    return (reach & 0xFF) - 1


@native
def numel_behind(reach, frame):
    """How many elements lie behind an address, as its frame declares it."""
    numel = 1
    for k in range(2, 2 + MAX_FACTORS):
        factor = reach >> 8 * k & 0xFF
        if factor == 0:
            break
        numel *= factor & ~CONSTANT_FACTOR if factor & CONSTANT_FACTOR else words(frame)[factor - 1]
    return numel


@native
def bytes_behind(reach, frame, dtype):
    """How many bytes lie behind an address, for a kernel of this dtype."""
    return numel_behind(reach, frame) * itemsize_behind(reach >> 8 & 0xFF, dtype)


@native_once
def check_frame(cell, frame, n_words):
    """Whether what the addresses in the frame of a launch stand for lies in live storages: a status.

    Only debug mode asks.
    """
    rt = runtime()
    kernel = cell // CELLS
    row = row_of(cell)
    nothing = 0  # words behind which no elements lie: a view of an empty tensor may begin anywhere
    for j in range(MAX_REACHES):
        reach = rt.reaches[row * MAX_REACHES + j]
        k = address_place(reach)
        if k < 0:
            break
        address = words(frame)[k] if k < n_words else 0
        length = bytes_behind(reach, frame, dtype_of(cell))
        if length == 0:
            nothing |= 1 << k
        elif address != 0 and not is_live(address, length):
            return fail(STRAY_ADDRESS, kernel, k)
    for k in range(n_words):
        named = rt.addresses[row] & ~nothing
        if named >> k & 1 and words(frame)[k] != 0 and not is_live(words(frame)[k], 0):
            return fail(STRAY_ADDRESS, kernel, k)
    return 0


@native_once
def run_elsewhere(address, cell, device, frame, n_words):
    """Let another device launch a kernel; a status. While one brings bytes from there, other Python threads run."""
    rt = runtime()
    if rt.tape != 0 and only_recorded(device):
        return fail(CAPTURE_COPY) if has_to_wait(cell, frame) else OK
    if cell // CELLS != rt.download_kernel or rt.waiters != 0:
        return status_of(device, launch_on(device, address, frame, n_words, 0))
    place = depart(frame, n_words)
    state = py_save_thread()
    answer = launch_on(device, address, frame, n_words, 0)
    py_restore_thread(state)
    enter()
    arrive(place)
    return status_of(device, answer)


@native_inline
def has_to_wait(cell, frame):
    """Whether a launch copies between two devices in a way that the host or another stream has a part in."""
    rt, kernel = runtime(), cell // CELLS
    if kernel == rt.peer_kernel:
        return True
    return (kernel == rt.upload_kernel or kernel == rt.download_kernel) and frames.transfer(frame).queued == 0


@native_inline
def run(address, cell, device, frame, n_words, work):
    """Run one kernel, of a device; returns a status."""
    if DEBUG:
        status = check_frame(cell, frame, n_words)
        if failed(status):
            return status
    return run_as_it_is(address, cell, device, frame, n_words, work)


@native_inline
def run_as_it_is(address, cell, device, frame, n_words, work):
    """The same, for a frame whose addresses are known to be right."""
    runtime().launches += 1
    if launches_itself(device):
        return run_elsewhere(address, cell, device, frame, n_words)
    if work >= 2 * runtime().part_work:
        run_beside_others(address, cell, frame, n_words, work)
    else:
        call_kernel(address, frame)
    return 0


@native_once
def run_first(cell, device, frame, n_words, work):
    """Find a kernel that was never needed, and run it; returns a status."""
    place = depart(frame, n_words)
    token = begin_event(RESOLVE_EVENT, cell, 0)
    address = resolve(cell)
    end_event(token)
    status = run_noted(address, cell, device, frame, n_words, work) if not failed(address) else address
    arrive(place)
    return status


@native_inline
def launch(kernel, device, dtype, layout_class, frame, n_words, work):
    """Find a kernel and run it over `frame`: the single point that every launch passes. A status.

    So it is also the one that a capture records.
    """
    cell = cell_of(kernel, device, dtype, layout_class)
    address = kernel_table()[cell]
    if runtime().watched != 0:
        return launch_watched(address, cell, device, frame, n_words, work)
    if address != 0:
        return run(address, cell, device, frame, n_words, work)
    return run_first(cell, device, frame, n_words, work)


@native_once
def launch_watched(address, cell, device, frame, n_words, work):
    """Run a kernel that a tape records or a profile notes; a status. `address`: of the kernel, zero if not known."""
    if address != 0:
        status = run_noted(address, cell, device, frame, n_words, work)
    else:
        status = run_first(cell, device, frame, n_words, work)
    if runtime().tape != 0 and not failed(status) and is_recorded(device):
        return append_launch(cell, frame, n_words, work)
    return status


@native_once
def run_noted(address, cell, device, frame, n_words, work):
    """As `run`, and a profile notes it."""
    rt = runtime()
    token = begin_event(KERNEL_EVENT, cell, 0)
    rt.kernel_ended = 0
    status = run(address, cell, device, frame, n_words, work)
    end_event_at(token, rt.kernel_ended if rt.kernel_ended != 0 else nanoseconds())
    note_kernel(token, work, rt.kernel_parts if rt.kernel_ended != 0 else 1)
    return status


@native_once
def launch_transfer(out, out_device, source, device, nbytes, queued):
    """Copy bytes to or from the host's memory by a kernel of the other device; a status.

    `queued` is 1 if the host's memory is locked and nobody has to wait.
    """
    rt = runtime()
    f = frames.transfer(stack_small())
    f.out = out
    f.x = source
    f.nbytes = nbytes
    f.queued = queued
    f.other = 0
    kernel = rt.upload_kernel if device == HOST else rt.download_kernel
    where = out_device if device == HOST else device
    return launch(kernel, where, BOOL, FLAT, address_of(f), words_of(f), nbytes)


@native_once
def launch_peer_copy(out, out_device, source, device, nbytes):
    """Copy bytes from one device to another one of the same kind, by a kernel of the first one; a status."""
    if only_recorded(device) or only_recorded(out_device):
        return fail(CAPTURE_COPY)
    f = frames.transfer(stack_small())
    f.out = out
    f.x = source
    f.nbytes = nbytes
    f.queued = 1
    f.other = record_of(out_device).state
    return launch(runtime().peer_kernel, device, BOOL, FLAT, address_of(f), words_of(f), nbytes)


@native_once
def launch_noted(kernel, device, dtype, frame, n_words, work, note):
    """Launch a kernel with the `NOTE` at an address on a device that looks for reports itself; a status."""
    cell = cell_of(kernel, device, dtype, FLAT)
    address = kernel_table()[cell]
    if address == 0:
        place = depart(frame, n_words)
        address = resolve(cell)
        arrive(place)
    if failed(address):
        return address
    if DEBUG:
        status = check_frame(cell, frame, n_words)
        if failed(status):
            return status
    runtime().launches += 1
    recorded = runtime().tape != 0 and is_recorded(device)
    status = OK
    if not recorded or not only_recorded(device):
        token = begin_event(KERNEL_EVENT, cell, 0)
        status = status_of(device, launch_on(device, address, frame, n_words, note))
        end_event(token)
        note_kernel(token, work, 1)
    if recorded and not failed(status):
        return append_noted(cell, frame, n_words, work, note)
    return status


@native
def reported(r, reason, a=0, b=0):
    """The failure that a kernel's report tells of: `reason`, with two facts of the report's, if it is of no other."""
    if r.kind == NO_ROOM:
        return NO_MEMORY
    if r.kind == FUNCTION_RAISED:
        return fail(USER_RAISED, r.first)
    return fail(reason, r.first, r.second, a, b)


@native_once
def fetch_report(device, address, r):
    """Read the report of a kernel of another device than the host; a status."""
    f = frames.transfer(stack_small())
    f.out = address_of(r)
    f.x = address
    f.nbytes = REPORT_BYTES
    f.queued = 0
    f.other = 0
    place = depart(address_of(f), words_of(f))
    kernel = runtime().download_kernel
    found = find_kernel(kernel, device, BOOL, FLAT)
    status = call_on(device, found, address_of(f), words_of(f)) if not failed(found) else found
    arrive(place)
    return status
