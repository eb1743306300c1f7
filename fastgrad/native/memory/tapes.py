"""Tapes as records: the launches of a capture, and the memory that they write to.

A launch stands on the tape as what `LAUNCHED` says, and then the words of its frame.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import caster, native, native_once, runtime, tape, words
from fastgrad.native.contracts.records import LAUNCHED, TAPE_KIND
from fastgrad.native.contracts.status import OK
from fastgrad.native.memory.buffers import deallocate, grow, room
from fastgrad.native.memory.records import WORDS_TAPE, new_tape_record, retire_record
from fastgrad.native.memory.references import drop, retain

HEAD_WORDS = LAUNCHED.words
HEAD_BYTES = HEAD_WORDS * 8
launched = caster(LAUNCHED)


@native
def begin_tape():
    """Begin to record launches: the new tape, zero if one records already, or NO_MEMORY."""
    rt = runtime()
    if rt.tape != 0:
        return 0
    handle = new_tape_record()
    if not failed(handle):
        rt.tape = handle
    return handle


@native
def end_tape(handle):
    """Stop recording."""
    rt = runtime()
    if rt.tape == handle:
        rt.tape = 0


@native
def release_tape(handle):
    """Give the memory of a tape back."""
    end_tape(handle)
    t = tape(handle)
    for k in range(t.n_kept):
        drop(words(t.kept)[k])
    if t.kept != 0:
        deallocate(t.kept, t.cap_kept * 8)
    if t.words != 0:
        deallocate(t.words, t.cap_words * 8)
    retire_record(handle, TAPE_KIND, WORDS_TAPE)


@native_once
def append_launch(cell, frame, n_words, work):
    """Append a launch to the tape that records. A status."""
    t = tape(runtime().tape)
    cap = room(t.n_words, t.cap_words, HEAD_WORDS + n_words)
    fresh = grow(t.words, t.n_words, t.cap_words, cap)
    if failed(fresh):
        return fresh
    t.words = fresh
    t.cap_words = cap
    entry = launched(t.words + t.n_words * 8)
    entry.n_words = n_words
    entry.cell = cell
    entry.work = work
    target = words(t.words + t.n_words * 8 + HEAD_BYTES)
    for k in range(n_words):
        target[k] = words(frame)[k]
    t.n_words += HEAD_WORDS + n_words
    t.n_launches += 1
    return OK


@native_once
def keep_for_tape(handle):
    """Let the tape that records hold a storage that its launches write to, so that a replay finds it in place.

    A status.
    """
    t = tape(runtime().tape)
    cap = room(t.n_kept, t.cap_kept, 1)
    fresh = grow(t.kept, t.n_kept, t.cap_kept, cap)
    if failed(fresh):
        return fresh
    t.kept = fresh
    t.cap_kept = cap
    words(t.kept)[t.n_kept] = handle
    t.n_kept += 1
    retain(handle)
    return OK
