"""Storages: the memory of tensors, as records."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native, runtime, storage
from fastgrad.native.contracts.records import STORAGE_KIND
from fastgrad.native.memory.buffers import allocate
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
    s.device = device
    s.dtype = dtype
    s.nbytes = nbytes
    s.data = allocate(nbytes)
    if s.data == 0:
        retire_record(handle, STORAGE_KIND, WORDS_STORAGE)
        return 0
    if runtime().tape != 0 and not keep_for_tape(handle):
        drop(handle)
        return 0
    return handle
