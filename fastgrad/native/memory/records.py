"""Records from free lists, one a kind; they are never given back to the system.

Destructors may run until the very end of the interpreter. In debug mode a freed record waits in a quarantine, its words
poisoned.
"""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    memset,
    native,
    native_inline,
    native_once,
    runtime,
    task,
    tensor,
    words,
)
from fastgrad.native.contracts.limits import QUARANTINE
from fastgrad.native.contracts.records import (
    FREED,
    MAGIC,
    NODE,
    POISON,
    STORAGE,
    TAPE,
    TAPE_KIND,
    TASK,
    TASK_KIND,
    TENSOR,
)
from fastgrad.native.contracts.status import OK
from fastgrad.native.memory.buffers import system_allocate

SLAB = 64  # records to each request of the system
RECORD_WORDS = (STORAGE.words, TENSOR.words, NODE.words, TASK.words, TAPE.words)
WORDS_STORAGE, WORDS_TENSOR, WORDS_NODE, WORDS_TASK, WORDS_TAPE = RECORD_WORDS
EDGES_OFFSET = NODE.offset("inline_edges")
SAVED_OFFSET = NODE.offset("inline_saved")
META_OFFSET = NODE.offset("inline_meta")
ATTRS_OFFSET = NODE.offset("inline_attrs")
META_BYTES = 8 * NODE.fields["inline_meta"][1]


# --- records ---------------------------------------------------------------------------------------------------


@native_once
def refill(kind, size):
    """Put a slab of fresh records on the free list of `kind`. A status."""
    rt = runtime()
    slab = system_allocate(SLAB * size * 8)
    if failed(slab):
        return slab
    memset(slab, 0, SLAB * size * 8)
    for k in range(SLAB):
        record = tensor(slab + k * size * 8)
        record.magic = FREED
        record.link = rt.free[kind]
        rt.free[kind] = slab + k * size * 8
    return OK


@native_inline
def new_record(kind, size):
    """A record of `kind` with one reference, or NO_MEMORY. Only its header is filled."""
    rt = runtime()
    handle = rt.free[kind]
    if handle == 0:
        status = refill(kind, size)
        if failed(status):
            return status
        handle = rt.free[kind]
    record = tensor(handle)
    rt.free[kind] = record.link
    record.magic = MAGIC + kind
    record.refs = 1
    rt.live[kind] += 1
    return handle


@native
def retire_record(handle, kind, size):
    """Free a record: to the free list, or in debug mode to the end of the quarantine."""
    rt = runtime()
    record = tensor(handle)
    record.magic = FREED
    record.generation += 1
    rt.live[kind] -= 1
    if DEBUG:
        for k in range(4, size):
            words(handle)[k] = POISON
        record.link = 0
        if rt.quarantine[kind] == 0:
            rt.quarantine[kind] = handle
        else:
            tensor(rt.quarantine_tail[kind]).link = handle
        rt.quarantine_tail[kind] = handle
        rt.quarantine_n[kind] += 1
        if rt.quarantine_n[kind] <= QUARANTINE:
            return
        handle = rt.quarantine[kind]
        record = tensor(handle)
        rt.quarantine[kind] = record.link
        rt.quarantine_n[kind] -= 1
    record.link = rt.free[kind]
    rt.free[kind] = handle


@native
def new_task_record():
    """A record of a pass whose fields are zero, with one reference, or NO_MEMORY."""
    handle = new_record(TASK_KIND, WORDS_TASK)
    if not failed(handle):
        t = task(handle)
        for k in range(4, WORDS_TASK):
            words(handle)[k] = 0
        t.refs = 1
    return handle


@native
def new_tape_record():
    """A record of a tape whose fields are zero, with one reference, or NO_MEMORY."""
    handle = new_record(TAPE_KIND, WORDS_TAPE)
    if not failed(handle):
        for k in range(4, WORDS_TAPE):
            words(handle)[k] = 0
    return handle
