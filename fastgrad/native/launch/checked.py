"""Launching a kernel that reports what is wrong with what it reads, and reading its report."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import fail
from fastgrad.native.base.intrinsics import address_of, native, runtime, stack_small
from fastgrad.native.contracts.frame import FINE, WRONG_LENGTH
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.status import OPERAND_LENGTH
from fastgrad.native.memory.launches import launch


@native
def launch_checked(kernel, device, dtype, f, n_words, work, reason, dim=0, last=0):
    """Launch a kernel whose frame has the place of a status; `reason`, `dim` and `last` tell of an index outside.

    Returns a status. The report lies on the stack: another thread may launch while this kernel runs. Only a capture
    needs a place that stays.
    """
    rt = runtime()
    f.status = address_of(rt.report) if rt.tape != 0 else stack_small()
    r = frames.report(f.status)
    r.kind = FINE
    status = launch(kernel, device, dtype, FLAT, address_of(f), n_words, work)
    if status != 0 or r.kind == FINE:
        return status
    if r.kind == WRONG_LENGTH:
        return -fail(OPERAND_LENGTH, r.first)
    return -fail(reason, r.first, r.second, dim, last)
