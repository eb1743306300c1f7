"""What shape rules launch kernels with: records of ops, frames of one layout class."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    address_of,
    native_inline,
    opinfo,
    runtime,
    runtime_address,
    words_of,
)
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.limits import HOST, RULES
from fastgrad.native.contracts.records import OPINFO, RUNTIME
from fastgrad.native.memory.launches import launch

OPS_OFFSET = RUNTIME.offset("ops")
OP_BYTES = OPINFO.words * 8


@native_inline
def op_record(op):
    """The native record of an op."""
    return opinfo(runtime_address() + OPS_OFFSET + op * OP_BYTES)


@native_inline
def rule_of(k):
    """Which of an op's derivatives is that of input `k`."""
    return k if k < RULES else RULES - 1


@native_inline
def most_threads(device, work):
    """On how many threads of this process a launch of so much work may run at most."""
    rt = runtime()
    return max(1, min(rt.n_threads, work // rt.part_work)) if device == HOST else 1


@native_inline
def launch_frame(kernel, device, dtype, f, work):
    """Find a kernel that has one layout class and run it over a frame; returns a status."""
    return launch(kernel, device, dtype, FLAT, address_of(f), words_of(f), work)
