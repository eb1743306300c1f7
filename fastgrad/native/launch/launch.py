"""Finding a kernel, running it, and recording that it ran: the point that every launch passes."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    address_of,
    call_kernel,
    call_native,
    native,
    native_inline,
    opinfo,
    runtime,
    runtime_address,
    tape,
    words,
    words_of,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import py_restore_thread, py_save_thread
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.limits import N_DEVICES, N_DTYPES, N_LAYOUTS, RULES
from fastgrad.native.contracts.records import OPINFO, RUNTIME
from fastgrad.native.contracts.status import NO_KERNEL, NO_MEMORY
from fastgrad.native.memory.tapes import append_launch

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


@native
def find_kernel(kernel, device, dtype, layout_class):
    """The address of a kernel, compiled now if it never was; zero if there is none."""
    rt = runtime()
    index = ((kernel * N_DEVICES + device) * N_DTYPES + dtype) * N_LAYOUTS + layout_class
    address = rt.kernels[index]
    if address == 0:
        address = call_native(rt.resolve, index)
        enter()
        rt.kernels[index] = address
    return address


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
    if rt.tape != 0 and not append_launch(address, frame, n_words):
        return NO_MEMORY
    return 0


@native_inline
def launch(kernel, device, dtype, layout_class, frame, n_words, work):
    """Find a kernel and run it over `frame`; returns a status."""
    address = find_kernel(kernel, device, dtype, layout_class)
    if address == 0:
        return NO_KERNEL
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
