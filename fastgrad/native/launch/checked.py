"""Launching a kernel that reports what is wrong with what it reads, and reading its report."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    caster,
    native,
    native_once,
    runtime,
    stack_small,
    storage,
    words,
    words_of,
)
from fastgrad.native.contracts.element_types import BOOL, INT64
from fastgrad.native.contracts.frame import FINE
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.records import NOTE
from fastgrad.native.memory.devices import launches_itself
from fastgrad.native.memory.launches import REPORT_BYTES, fetch_report, launch, launch_noted, reported
from fastgrad.native.memory.references import drop
from fastgrad.native.memory.storages import new_storage
from fastgrad.native.memory.tapes import recording

note = caster(NOTE)


@native
def launch_checked(kernel, device, dtype, frame, n_words, work, reason, dim=0, last=0):
    """Launch a kernel that reports; `frame` is an address, and `reason`, `dim` and `last` tell of an index outside.

    Returns a status. The report lies on the stack: another thread may launch while this kernel runs. Only a capture
    needs a place that stays, and another device one in its own memory. One that launches itself reports later.
    """
    if launches_itself(device):
        n = note(stack_small())
        n.place = runtime().reports[kernel]
        n.reason = reason
        n.kernel = kernel
        n.dim = dim
        n.last = last
        return launch_noted(kernel, device, dtype, frame, n_words, work, address_of(n))
    r = frames.report(stack_small())
    if device == HOST:
        if recording():
            r = frames.report(address_of(runtime().report))
        words(frame)[runtime().reports[kernel]] = address_of(r)
        r.kind = FINE
        status = launch(kernel, device, dtype, FLAT, frame, n_words, work)
    else:
        status = launch_elsewhere(kernel, device, dtype, frame, n_words, work, r)
    if failed(status) or r.kind == FINE:
        return status
    return reported(r, reason, dim, last)


@native_once
def launch_elsewhere(kernel, device, dtype, frame, n_words, work, r):
    """Launch such a kernel of another device than the host, and bring its report; a status."""
    there = new_storage(REPORT_BYTES, INT64, device)
    if failed(there):
        return there
    address = storage(there).data
    words(frame)[runtime().reports[kernel]] = address
    z = frames.zero(stack_small())
    z.out = address
    z.nbytes = REPORT_BYTES
    status = launch(runtime().zero_kernel, device, BOOL, FLAT, address_of(z), words_of(z), REPORT_BYTES)
    if not failed(status):
        status = launch(kernel, device, dtype, FLAT, frame, n_words, work)
    r.kind = FINE
    if not failed(status):
        status = fetch_report(device, address, r)
    drop(there)
    return status
