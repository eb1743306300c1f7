"""The memory of storages: the host's from bins, that of another device from functions that the device brings.

Such a function is called like a kernel, with an `ALLOCATION` as its frame. A device that brings none works on the
host's memory. What lies in the memory of a device is touched by its kernels alone; `elements.transfer` moves bytes.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    address_of,
    call_kernel,
    caster,
    native_inline,
    native_once,
    nth,
    runtime,
    runtime_address,
    stack_small,
)
from fastgrad.native.contracts.limits import N_DEVICES
from fastgrad.native.contracts.records import ALLOCATION, DEVICE, RUNTIME
from fastgrad.native.contracts.status import NO_MEMORY
from fastgrad.native.memory.buffers import LARGEST, allocate, deallocate

HOST = 0  # the number of the device that compiled code runs on

device_record = caster(DEVICE)
allocation = caster(ALLOCATION)
DEVICES_OFFSET = RUNTIME.offset("devices")


@native_inline
def record_of(device):
    """What a device brought when it was registered."""
    return nth(device_record(runtime_address() + DEVICES_OFFSET), device)


@native_once
def allocate_on(device, nbytes):
    """The address of so many bytes of the memory of a device other than the host, or NO_MEMORY."""
    rt = runtime()
    if device < 0 or device >= N_DEVICES:
        return NO_MEMORY
    d = record_of(device)
    if d.allocate == 0:
        return allocate(nbytes)
    if nbytes > LARGEST or (rt.limit_bytes > 0 and rt.live_bytes + nbytes > rt.limit_bytes):
        return NO_MEMORY
    a = allocation(stack_small())
    a.nbytes = nbytes
    a.address = 0
    call_kernel(d.allocate, address_of(a))
    if a.address == 0:
        return NO_MEMORY
    rt.live_bytes += nbytes
    rt.peak_bytes = max(rt.peak_bytes, rt.live_bytes)
    return a.address


@native_once
def release_on(device, address, nbytes):
    """Give back memory of a device other than the host."""
    d = record_of(device)
    if d.release == 0:
        deallocate(address, nbytes)
        return
    a = allocation(stack_small())
    a.nbytes = nbytes
    a.address = address
    call_kernel(d.release, address_of(a))
    runtime().live_bytes -= nbytes


@native_inline
def allocate_memory(device, nbytes):
    """The address of so many bytes of a device's memory, or NO_MEMORY."""
    return allocate(nbytes) if device == HOST else allocate_on(device, nbytes)


@native_inline
def release_memory(device, address, nbytes):
    """Give back memory of a device."""
    if device == HOST:
        deallocate(address, nbytes)
    else:
        release_on(device, address, nbytes)
