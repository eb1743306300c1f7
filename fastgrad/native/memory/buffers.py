"""Buffers: memory in bins, four sizes to each doubling, 64-byte aligned; arrays of words that grow.

In debug mode every buffer lies between two guard words.
"""

from __future__ import annotations

import sys

from fastgrad.flags import DEBUG
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    c_free,
    leading_zeros,
    madvise,
    memset,
    native,
    native_inline,
    native_once,
    posix_memalign,
    runtime,
    stack_small,
    words,
)
from fastgrad.native.contracts.limits import N_BINS
from fastgrad.native.contracts.records import GUARD
from fastgrad.native.contracts.status import NO_MEMORY

HUGE = 4 << 20  # buffers from here on ask for large pages
LINUX = sys.platform == "linux"
MADV_HUGEPAGE = 14
LARGEST = 1 << 60  # no system has more, and sums of bytes stay far from 63 bits


# --- buffers ---------------------------------------------------------------------------------------------------


@native_inline
def bin_of(nbytes):
    """The smallest bin whose buffers hold `nbytes`."""
    if nbytes <= 64:
        return 0
    e = 63 - leading_zeros(nbytes - 1)
    return (e - 6) * 4 + (((nbytes - 1) >> (e - 2)) & 3) + 1


@native_inline
def bin_size(index):
    """Bytes of a buffer of bin `index`."""
    if index == 0:
        return 64
    e = ((index - 1) >> 2) + 6
    return (1 << e) + ((((index - 1) & 3) + 1) << (e - 2))


@native
def system_allocate(nbytes):
    """The address of `nbytes` from the system, 64-byte aligned, or NO_MEMORY."""
    slot = stack_small()
    if LINUX and nbytes >= HUGE:
        if posix_memalign(slot, 1 << 21, nbytes) != 0:
            return NO_MEMORY
        madvise(words(slot)[0], nbytes, MADV_HUGEPAGE)
    elif posix_memalign(slot, 64, nbytes) != 0:
        return NO_MEMORY
    return words(slot)[0]


@native
def empty_cache():
    """Give the cached buffers back to the system; returns the number of bytes."""
    rt = runtime()
    freed = 0
    for index in range(N_BINS):
        address = rt.bins[index]
        while address != 0:
            following = words(address)[0]
            base = address - 64 if DEBUG else address
            c_free(base)
            freed += bin_size(index)
            address = following
        rt.bins[index] = 0
    rt.cached_bytes -= freed
    return freed


@native_once
def refused(nbytes):
    """Count an allocation, for a profile: whether so many bytes are more than there may be."""
    rt = runtime()
    rt.allocations += 1
    return rt.limit_bytes > 0 and rt.live_bytes + nbytes > rt.limit_bytes


@native_once
def limit_memory(nbytes):
    """Let there be at most so many bytes in use; 0 for no limit."""
    rt = runtime()
    rt.limit_bytes = max(nbytes, 0)
    if rt.profile == 0:
        rt.counting = 1 if nbytes > 0 else 0
    elif nbytes > 0:
        rt.counting = 1


@native
def allocate(nbytes):
    """The address of a buffer of at least `nbytes`, 64-byte aligned, or NO_MEMORY."""
    rt = runtime()
    if nbytes > LARGEST:
        return NO_MEMORY
    index = bin_of(nbytes)
    size = bin_size(index)
    address = rt.bins[index]
    if rt.counting != 0 and refused(size):
        return NO_MEMORY
    if address != 0:
        rt.bins[index] = words(address)[0]
        rt.cached_bytes -= size
    else:
        wanted = size + 128 if DEBUG else size
        address = system_allocate(wanted)
        if failed(address) and empty_cache() != 0:
            address = system_allocate(wanted)
        if failed(address):
            return address
        if DEBUG:
            address += 64
    if DEBUG:
        memset(address, 0xCB, size)
        words(address)[-1] = GUARD
        words(address + size)[0] = GUARD
    rt.live_bytes += size
    if rt.live_bytes > rt.peak_bytes:
        rt.peak_bytes = rt.live_bytes
    return address


@native
def deallocate(address, nbytes):
    """Return a buffer of `nbytes` to its bin."""
    rt = runtime()
    index = bin_of(nbytes)
    size = bin_size(index)
    if DEBUG:
        if words(address)[-1] != GUARD or words(address + size)[0] != GUARD:
            rt.overruns += 1  # a kernel wrote outside its buffer: reported by debug.check()
        memset(address, 0xCB, size)
    words(address)[0] = rt.bins[index]
    rt.bins[index] = address
    rt.live_bytes -= size
    rt.cached_bytes += size


# --- growing arrays --------------------------------------------------------------------------------------------


@native
def grow(address, used, cap, wanted):
    """An array of words with room for `wanted`: the old one, a larger copy, or NO_MEMORY."""
    if wanted <= cap:
        return address
    fresh = allocate(wanted * 8)
    if failed(fresh):
        return fresh
    for k in range(used):
        words(fresh)[k] = words(address)[k]
    if address != 0:
        deallocate(address, cap * 8)
    return fresh


@native_inline
def room(used, cap, needed):
    """The capacity to ask for."""
    return cap if used + needed <= cap else max(used + needed, max(64, cap * 2))
