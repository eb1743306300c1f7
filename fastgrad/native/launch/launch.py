"""Finding a kernel, running it, and recording that it ran: the point that every launch passes."""

from __future__ import annotations

from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    call_kernel,
    native,
    native_inline,
    native_once,
    opinfo,
    runtime,
    runtime_address,
    tape,
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
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.limits import N_DEVICES, N_DTYPES, N_LAYOUTS, RULES
from fastgrad.native.contracts.records import OPINFO, RUNTIME
from fastgrad.native.contracts.status import NO_KERNEL, NO_MEMORY, RAISED
from fastgrad.native.memory.tapes import append_launch
from fastgrad.native.objects.handles import call_python

OPS_OFFSET = RUNTIME.offset("ops")
OP_BYTES = OPINFO.words * 8
RELEASE_GIL = 1 << 16  # elements from which on other Python threads may run beside a kernel


@native_inline
def op_record(op):
    """The native record of an op."""
    return opinfo(runtime_address() + OPS_OFFSET + op * OP_BYTES)


@native_inline
def rule_of(k):
    """Which of an op's derivatives is that of input `k`."""
    return k if k < RULES else RULES - 1


# --- launch ----------------------------------------------------------------------------------------------------


@native_once
def resolve_kernel(cell):
    """Let Python find or compile the kernel of a cell of the table: its address, or a failure."""
    number = py_integer(cell)
    answer = call_python(runtime().resolve, 1, number, 0, 0) if number != 0 else 0
    if number != 0:
        py_decref(number)
    if answer == 0:
        return RAISED
    address = py_integer_value(answer)
    py_decref(answer)
    if py_err_occurred() != 0:
        return RAISED
    if address == 0:
        return fail(NO_KERNEL, cell)
    runtime().kernels[cell] = address
    return address


@native
def find_kernel(kernel, device, dtype, layout_class):
    """The address of a kernel, or a failure.

    One that was never needed is found or compiled now, by Python: any code may run meanwhile, other threads too. So
    whoever has written addresses into a frame must hold the memory behind them from before this call.
    """
    cell = ((kernel * N_DEVICES + device) * N_DTYPES + dtype) * N_LAYOUTS + layout_class
    address = runtime().kernels[cell]
    return address if address != 0 else resolve_kernel(cell)


@native_inline
def launch_address(address, frame, n_words, work):
    """Run one kernel: the single point that every launch passes, and so the one that a capture records."""
    rt = runtime()
    rt.launches += 1
    if work >= RELEASE_GIL:
        state = py_save_thread()
        call_kernel(address, frame)
        py_restore_thread(state)
        enter()
    else:
        call_kernel(address, frame)
    if rt.tape != 0 and failed(append_launch(address, frame, n_words)):
        return NO_MEMORY
    return 0


@native_inline
def launch(kernel, device, dtype, layout_class, frame, n_words, work):
    """Find a kernel and run it over `frame`; returns a status."""
    address = find_kernel(kernel, device, dtype, layout_class)
    if failed(address):
        return address
    return launch_address(address, frame, n_words, work)


@native_inline
def launch_frame(kernel, device, dtype, f, work):
    """Find a kernel that has one layout class and run it over a frame; returns a status."""
    return launch(kernel, device, dtype, FLAT, address_of(f), words_of(f), work)


@native
def replay(handle):
    """Run the launches of a tape again, in order."""
    t = tape(handle)
    at = t.words
    end = t.words + t.n_words * 8
    while at < end:
        call_kernel(words(at)[1], at + 16)
        at += 16 + words(at)[0] * 8
