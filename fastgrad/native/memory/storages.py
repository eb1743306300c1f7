"""Storages: the memory of tensors, as records."""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base.intrinsics import native, native_inline, runtime, storage, tensor
from fastgrad.native.contracts.flags import OWN_COUNTER
from fastgrad.native.contracts.records import STORAGE_KIND
from fastgrad.native.memory.devices import allocate_memory
from fastgrad.native.memory.places import enlist
from fastgrad.native.memory.records import WORDS_STORAGE, new_record, retire_record
from fastgrad.native.memory.references import drop
from fastgrad.native.memory.tapes import keep_for_tape


@native
def new_storage(nbytes, dtype, device):
    """A storage of `nbytes`, or zero."""
    handle = new_record(STORAGE_KIND, WORDS_STORAGE)
    if handle == 0:
        return 0
    s = storage(handle)
    s.owner = 0
    s.version = 0
    s.counters = 0
    s.device = device
    s.dtype = dtype
    s.nbytes = nbytes
    s.data = allocate_memory(device, nbytes)
    if s.data == 0:
        retire_record(handle, STORAGE_KIND, WORDS_STORAGE)
        return 0
    if DEBUG:
        enlist(handle)
    if runtime().tape != 0 and not keep_for_tape(handle):
        drop(handle)
        return 0
    return handle


@native
def foreign_storage(data, nbytes, dtype, device, owner):
    """A storage over memory of somebody else's, which takes over a reference to `owner`; zero if there is no memory."""
    handle = new_record(STORAGE_KIND, WORDS_STORAGE)
    if handle != 0:
        s = storage(handle)
        s.data = data
        s.nbytes = nbytes
        s.version = 0
        s.counters = 0
        s.device = device
        s.owner = owner
        s.dtype = dtype
        if DEBUG and data != 0:
            enlist(handle)
        if runtime().tape != 0 and not keep_for_tape(handle):
            drop(handle)
            return 0
    return handle


@native
def new_counter():
    """A storage without memory that counts changes alone, held by one counter; zero if there is no memory."""
    handle = new_record(STORAGE_KIND, WORDS_STORAGE)
    if handle != 0:
        s = storage(handle)
        s.owner = 0
        s.version = 0
        s.counters = 1
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
