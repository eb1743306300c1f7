"""Tapes as records: the launches of a capture, and the memory that they write to.

A launch stands on the tape as its number of words, its kernel and the words of its frame.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, native_once, runtime, tape, words
from fastgrad.native.contracts.records import TAPE_KIND
from fastgrad.native.contracts.status import OK
from fastgrad.native.memory.buffers import deallocate, grow, room
from fastgrad.native.memory.records import WORDS_TAPE, new_tape_record, retire_record
from fastgrad.native.memory.references import drop, retain


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
def append_launch(address, frame, n_words):
    """Append a launch to the tape that records. A status."""
    t = tape(runtime().tape)
    cap = room(t.n_words, t.cap_words, n_words + 2)
    fresh = grow(t.words, t.n_words, t.cap_words, cap)
    if failed(fresh):
        return fresh
    t.words = fresh
    t.cap_words = cap
    target = words(t.words + t.n_words * 8)
    target[0] = n_words
    target[1] = address
    for k in range(n_words):
        target[2 + k] = words(frame)[k]
    t.n_words += n_words + 2
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
