"""Where the live storages are, in debug mode: addresses that a launch gets must lie in one of them.

Storages stand on lists by the part of memory that they begin in. Those that reach further than into the next part
stand on a list of their own.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native, native_once, runtime, storage
from fastgrad.native.contracts.records import N_PLACES

PART = 1 << 14  # bytes
LARGE = 0  # the list of those that are larger than a part


@native
def list_of(address, nbytes):
    """The list on which a storage stands."""
    return LARGE if nbytes > PART else 1 + address // PART % (N_PLACES - 1)


@native
def enlist(handle):
    """Put a storage that has memory onto its list."""
    rt = runtime()
    s = storage(handle)
    k = list_of(s.data, s.nbytes)
    s.previous = 0
    s.next = rt.places[k]
    if s.next != 0:
        storage(s.next).previous = handle
    rt.places[k] = handle


@native
def delist(handle):
    """Take a storage whose memory goes off its list."""
    rt = runtime()
    s = storage(handle)
    if s.next != 0:
        storage(s.next).previous = s.previous
    if s.previous != 0:
        storage(s.previous).next = s.next
    else:
        rt.places[list_of(s.data, s.nbytes)] = s.next


@native
def lies_on(k, address, nbytes):
    """Whether so many bytes from an address on lie in a storage of a list; none may also lie right behind it."""
    handle = runtime().places[k]
    while handle != 0:
        s = storage(handle)
        if s.data <= address and address + nbytes <= s.data + s.nbytes:
            return True
        handle = s.next
    return False


@native_once
def is_live(address, nbytes):
    """Whether so many bytes from an address on lie in one live storage."""
    return (
        lies_on(LARGE, address, nbytes)
        or lies_on(list_of(address, 0), address, nbytes)
        or lies_on(list_of(address - PART, 0), address, nbytes)
    )
