"""Tapes as records: the launches of a capture, and the memory that they write to.

A launch stands on the tape as what `LAUNCHED` says, and then the words of its frame.

Note [Captures]: a tape records what its own thread launches. One for a device (`record.device`) records the launches of
that device alone and lets none of them run; what they work on is kept by the device's pool of the capture, not by the
tape. Any other tape records what runs, and keeps all memory that is made or written.

Note [Numbers of a replay]: a replay draws random numbers as the calls that it repeats would. The tape knows where the
default generators stood when the capture began, and how far they came. A replay takes as many blocks from where they
stand by then, and moves the offsets of its launches by as much. A capture that ran nothing gives its blocks back.
"""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import caster, native, native_inline, native_once, runtime, tape, words
from fastgrad.native.base.pyapi import py_bytearray_text
from fastgrad.native.contracts.limits import N_DEVICES
from fastgrad.native.contracts.profiles import WATCHED_BY_TAPE
from fastgrad.native.contracts.records import HOOK_CELL, LAUNCHED, TAPE_HOOKS, TAPE_KIND
from fastgrad.native.contracts.status import OK
from fastgrad.native.memory.buffers import deallocate, grow, room
from fastgrad.native.memory.parts import CELLS
from fastgrad.native.memory.records import WORDS_TAPE, new_tape_record, retire_record
from fastgrad.native.memory.references import drop, retain

HEAD_WORDS = LAUNCHED.words
HEAD_BYTES = HEAD_WORDS * 8
launched = caster(LAUNCHED)


@native_inline
def recording():
    """Whether a tape records what the calling thread does."""
    rt = runtime()
    return rt.tape != 0 and tape(rt.tape).thread == rt.thread and tape(rt.tape).paused == 0


@native_inline
def records_hooks():
    """Whether the tape that records what the calling thread does calls hooks again at a replay."""
    return recording() and tape(runtime().tape).hooks != 0


@native
def pause_tape(paused):
    """Let the tape of the calling thread record nothing, or go on."""
    rt = runtime()
    if rt.tape != 0 and tape(rt.tape).thread == rt.thread:
        tape(rt.tape).paused = paused


@native_inline
def is_recorded(device):
    """Whether the tape records what the calling thread launches on a device."""
    of = tape(runtime().tape).device
    return recording() and (of == 0 or of == device)


@native_inline
def only_recorded(device):
    """Whether what the calling thread launches on a device is recorded and does not run."""
    return recording() and tape(runtime().tape).device == device


@native
def generator_words(device):
    """The address of seed and offset of a device's default generator; zero if it has none."""
    state = runtime().generator_states[device]
    return py_bytearray_text(state) if state != 0 else 0


@native
def begin_tape(what):
    """Begin to record the launches of this thread: the new tape, zero if one records already, or NO_MEMORY.

    `what`: the number of a device; if that is not the host, its launches alone are recorded, and do not run. With
    `TAPE_HOOKS` hooks are called again.
    """
    rt = runtime()
    if rt.tape != 0:
        return 0
    handle = new_tape_record()
    if not failed(handle):
        t = tape(handle)
        t.thread = rt.thread
        t.device = what & (TAPE_HOOKS - 1)
        t.hooks = what & TAPE_HOOKS
        for k in range(N_DEVICES):
            state = generator_words(k)
            if state != 0:
                t.seeds[k] = words(state)[0]
                t.firsts[k] = words(state)[1]
        rt.tape = handle
        rt.watched |= WATCHED_BY_TAPE
    return handle


@native
def end_tape(handle):
    """Stop recording."""
    rt = runtime()
    if rt.tape != handle:
        return
    rt.tape = 0
    rt.watched &= ~WATCHED_BY_TAPE
    t = tape(handle)
    for k in range(N_DEVICES):
        state = generator_words(k)
        same = state != 0 and words(state)[0] == t.seeds[k]
        t.ends[k] = max(words(state)[1], t.firsts[k]) if same else t.firsts[k]
        if same and k != 0 and k == t.device:
            words(state)[1] = t.firsts[k]


@native
def release_tape(handle):
    """Give the memory of a tape back, whose graphs are gone."""
    end_tape(handle)
    t = tape(handle)
    for k in range(t.n_kept):
        drop(words(t.kept)[k])
    if t.kept != 0:
        deallocate(t.kept, t.cap_kept * 8)
    if t.words != 0:
        deallocate(t.words, t.cap_words * 8)
    if t.pieces != 0:
        deallocate(t.pieces, t.cap_pieces * 8)
    retire_record(handle, TAPE_KIND, WORDS_TAPE)


@native_once
def append_hook(number):
    """Append the call of a hook to the tape that records. A status."""
    status = append_entry(HOOK_CELL, 0, 0, number, 0)
    if not failed(status):
        tape(runtime().tape).n_launches -= 1
    return status


@native_once
def append_launch(cell, frame, n_words, work):
    """Append a launch to the tape that records. A status."""
    drew = runtime().drew if runtime().draws[cell // CELLS] != 0 else 0
    return append_entry(cell, frame, n_words, work, drew)


@native_once
def append_entry(cell, frame, n_words, work, drew):
    """Append what `LAUNCHED` says, and a frame. A status."""
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
    entry.drew = drew
    target = words(t.words + t.n_words * 8 + HEAD_BYTES)
    for k in range(n_words):
        target[k] = words(frame)[k]
    t.n_words += HEAD_WORDS + n_words
    t.n_launches += 1
    return OK


@native_once
def keep_for_tape(handle):
    """Let the tape that records hold a storage that its launches write to, so that a replay finds it in place.

    A status; see Note [Captures].
    """
    t = tape(runtime().tape)
    if t.device != 0:
        return OK
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
