"""Storages: the memory of tensors, as records."""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, native_inline, storage, tensor
from fastgrad.native.contracts.flags import OWN_COUNTER
from fastgrad.native.contracts.records import STORAGE_KIND
from fastgrad.native.contracts.status import NO_MEMORY
from fastgrad.native.memory.devices import allocate_memory
from fastgrad.native.memory.places import enlist
from fastgrad.native.memory.records import WORDS_STORAGE, new_record, retire_record
from fastgrad.native.memory.references import drop
from fastgrad.native.memory.tapes import MADE, keep_for_tape, note_read, recording


@native
def new_storage(nbytes, dtype, device):
    """A storage of `nbytes`, or NO_MEMORY."""
    handle = new_record(STORAGE_KIND, WORDS_STORAGE)
    if failed(handle):
        return handle
    s = storage(handle)
    s.owner = 0
    s.version = 0
    s.counters = 0
    s.tape = 0
    s.device = device
    s.dtype = dtype
    s.nbytes = nbytes
    data = allocate_memory(device, nbytes)
    if failed(data):
        retire_record(handle, STORAGE_KIND, WORDS_STORAGE)
        return data
    s.data = data
    if DEBUG:
        enlist(handle)
    if recording() and failed(keep_for_tape(handle, MADE)):
        drop(handle)
        return NO_MEMORY
    return handle


@native
def foreign_storage(data, nbytes, dtype, device, owner):
    """A storage over memory of somebody else's, which takes over a reference to `owner`; or NO_MEMORY."""
    handle = new_record(STORAGE_KIND, WORDS_STORAGE)
    if not failed(handle):
        s = storage(handle)
        s.data = data
        s.nbytes = nbytes
        s.version = 0
        s.counters = 0
        s.tape = 0
        s.device = device
        s.owner = owner
        s.dtype = dtype
        if DEBUG and data != 0:
            enlist(handle)
        note_read()
        if recording() and failed(keep_for_tape(handle, MADE)):
            drop(handle)
            return NO_MEMORY
    return handle


@native
def new_counter():
    """A storage without memory that counts changes alone, held by one counter, or NO_MEMORY."""
    handle = new_record(STORAGE_KIND, WORDS_STORAGE)
    if not failed(handle):
        s = storage(handle)
        s.owner = 0
        s.version = 0
        s.counters = 1
        s.tape = 0
        s.device = 0
        s.dtype = 0
        s.nbytes = 0
        s.data = 0
    return handle


@native_inline
def counter_of(handle):
    """The record that counts the changes of the memory under a tensor."""
    t = tensor(handle)
    return t.counter if t.flags & OWN_COUNTER else t.storage


@native_inline
def version_of(handle):
    """How often the memory under a tensor was changed, as far as autograd shall know."""
    return storage(counter_of(handle)).version
