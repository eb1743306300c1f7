"""Tapes as records: the launches of a capture, and the memory that they write to.

A launch stands on the tape as what `LAUNCHED` says, and then the words of its frame.

Note [Captures]: a tape records what its own thread launches. One for a device (`record.device`) records the launches of
that device alone and lets none of them run; what they work on is kept by the device's pool of the capture, not by the
tape. Any other tape records what runs, and keeps all memory that is made or written.

Note [Numbers of a replay]: a replay draws random numbers as the calls that it repeats would. The tape knows where the
default generators stood when the capture began, and how far they came. A replay takes as many blocks from where they
stand by then, and moves the offsets of its launches by as much; for those of a graph the device does so. A capture that
ran nothing gives its blocks back.

Note [Values]: a value that Python reads while a tape records is what Python may decide by. A tape that is asked for it
(`record.values`) has an entry there, with the address of the value and its bits. A replay that finds another value ends
at this place, and says so: what Python would do then is not on the tape. Who replays it knows that nothing was changed
by then that others see. A value that the function does nothing with but return it is *given back*: a replay does not
compare it, and its program has it among the results.

Note [Codes]: a fused launch runs code of its own. Its cell is that of the row `fused` of the kernel table, or
`fused_rows`, which declare the frame and how it is divided; nothing stands there. The codes have numbers, from one on,
and their addresses stand in the runtime's record, beside the devices that
they run on.

Note [Editions]: an edition of a tape is a list of words. A number from 0 on is the launch of this number on the tape as
it stands, or the call of a hook that has it; they count together. `FUSED_LAUNCH` begins a fused launch: it is followed
by whether it needs room, its code, its work and the words of its frame. `MASK_LAUNCH` begins one that only draws the
mask of a dropout: the number of its launch follows. So launches can be left out, moved and replaced, and none is made
up but those whose frame the runtime knows.
"""

from __future__ import annotations

from numba import types

from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    caster,
    memcpy,
    native,
    native_inline,
    native_once,
    nth,
    runtime,
    stack_small,
    storage,
    tape,
    u8s,
    words,
)
from fastgrad.native.base.pyapi import py_bytearray_text
from fastgrad.native.contracts.flags import SWITCHES
from fastgrad.native.contracts.frames.framed import DROPOUT
from fastgrad.native.contracts.frames.fused import FUSED
from fastgrad.native.contracts.limits import N_CODES, N_DEVICES
from fastgrad.native.contracts.profiles import WATCHED_BY_TAPE
from fastgrad.native.contracts.records import (
    FUSED_LAUNCH,
    HOOK_CELL,
    LAUNCHED,
    MASK_LAUNCH,
    NOTE,
    PROGRAM,
    REGION,
    REGION_GIVEN,
    TAPE_HOOKS,
    TAPE_KIND,
    TAPE_VALUES,
    VALUE_CELL,
    VALUE_WORDS,
)
from fastgrad.native.contracts.status import OK, TAPE_BUSY, TAPE_EDITION
from fastgrad.native.memory.buffers import allocate, deallocate, grow, room
from fastgrad.native.memory.parts import CELLS
from fastgrad.native.memory.records import WORDS_TAPE, new_tape_record, retire_record
from fastgrad.native.memory.references import drain, drop, release_storage, retain

MADE = 1  # added to the handle of a kept storage: the capture made it
HEAD_WORDS = LAUNCHED.words
HEAD_BYTES = HEAD_WORDS * 8
launched, note = map(caster, (LAUNCHED, NOTE))
program, region = caster(PROGRAM), caster(REGION)
PROGRAM_BYTES = PROGRAM.words * 8


@native_inline
def recording():
    """Whether a tape records what the calling thread does."""
    rt = runtime()
    return rt.tape != 0 and tape(rt.tape).thread == rt.thread and tape(rt.tape).paused == 0


@native_inline
def records_values():
    """Whether the tape that records what the calling thread does notes values that Python reads."""
    return recording() and tape(runtime().tape).values != 0


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


@native_once
def note_read():
    """A value goes to Python, or memory of others comes in: note so if the calling thread records."""
    if recording():
        tape(runtime().tape).reads += 1


@native_once
def note_value(address, nbytes, dtype):
    """A number of the host's goes to Python, of 8 bytes or less: note so if the calling thread records. A status."""
    if not recording():
        return OK
    t = tape(runtime().tape)
    if t.values == 0:
        t.reads += 1
        return OK
    frame = words(stack_small())
    frame[0] = address
    frame[1] = value_bits(address, nbytes)
    at = t.n_words * 8
    status = append_entry(VALUE_CELL, address_of(frame), VALUE_WORDS, nbytes, 0, 0)
    if not failed(status):
        launched(t.words + at).dim = dtype
        launched(t.words + at).last = t.n_values
        t.n_launches -= 1
        t.n_values += 1
    return status


@native
def value_bits(address, nbytes):
    """The bits of a value of 8 bytes or less."""
    bits = 0
    for k in range(nbytes):
        bits |= types.int64(u8s(address)[k]) << (8 * k)
    return bits


@native
def note_pass():
    """A backward pass begins: note so if the calling thread records."""
    if recording():
        tape(runtime().tape).passes += 1


@native_once
def note_python():
    """Python is called for what a replay does not call it for: note so if the calling thread records."""
    if recording():
        tape(runtime().tape).python_calls += 1


@native
def generator_words(device):
    """The address of seed and offset of a device's default generator; zero if it has none."""
    state = runtime().generator_states[device]
    return py_bytearray_text(state) if state != 0 else 0


@native
def begin_tape(what):
    """Begin to record the launches of this thread: the new tape, zero if one records already, or NO_MEMORY.

    `what`: the number of a device; if that is not the host, its launches alone are recorded, and do not run. With
    `TAPE_HOOKS` hooks are called again, with `TAPE_VALUES` values that Python reads are compared.
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
        t.values = what & TAPE_VALUES
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
        t.seeds_now[k] = t.seeds[k]
        t.firsts_now[k] = t.firsts[k]


@native
def release_regions(t):
    """Let go of the memory that a bound tape holds."""
    p = program(t.program)
    for k in range(p.n_regions):
        r = nth(region(t.program + PROGRAM_BYTES), k)
        if r.kind != REGION_GIVEN and r.storage != 0:
            release_storage(r.storage)
            r.storage = 0


@native
def drop_kept(handle):
    """Let go of the memory that the capture of a tape made or wrote to."""
    t = tape(handle)
    n = t.n_kept
    t.n_kept = 0
    for k in range(n):
        kept = words(t.kept)[k] & ~MADE
        if storage(kept).tape == handle:
            storage(kept).tape = 0
        drop(kept)


@native
def release_tape(handle):
    """Give the memory of a tape back, whose graphs are gone."""
    end_tape(handle)
    t = tape(handle)
    drop_kept(handle)
    if t.kept != 0:
        deallocate(t.kept, t.cap_kept * 8)
    if t.words != 0:
        deallocate(t.words, t.cap_words * 8)
    if t.pieces != 0:
        deallocate(t.pieces, t.cap_pieces * 8)
    if t.program != 0:
        release_regions(t)
        drain()
        deallocate(t.program, t.n_program * 8)
    retire_record(handle, TAPE_KIND, WORDS_TAPE)


@native_once
def append_hook(number):
    """Append a call of Python to the tape that records, to be made in the modes of now. A status."""
    t = tape(runtime().tape)
    at = t.n_words * 8
    status = append_entry(HOOK_CELL, 0, 0, number, 0, 0)
    if not failed(status):
        t.n_launches -= 1
        launched(t.words + at).dim = runtime().mode & SWITCHES
    return status


@native_once
def append_launch(cell, frame, n_words, work):
    """Append a launch to the tape that records. A status."""
    return append_noted(cell, frame, n_words, work, 0)


@native_once
def append_noted(cell, frame, n_words, work, noted):
    """The same for a launch with a `NOTE`, of which the address is given, or 0."""
    drew = runtime().drew if runtime().draws[cell // CELLS] != 0 else 0
    return append_entry(cell, frame, n_words, work, drew, noted)


@native_once
def append_entry(cell, frame, n_words, work, drew, noted):
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
    entry.code = 0
    entry.reason = 0
    entry.joined = 0
    entry.moves = 0
    if noted != 0:
        n = note(noted)
        entry.reason = n.reason
        entry.dim = n.dim
        entry.last = n.last
    target = words(t.words + t.n_words * 8 + HEAD_BYTES)
    for k in range(n_words):
        target[k] = words(frame)[k]
    t.n_words += HEAD_WORDS + n_words
    t.n_launches += 1
    t.n_entries += 1
    return OK


@native_once
def append_joined(cell, frame, n_words, number, is_first):
    """Append one of the launches that run as one, which share a number. A status."""
    at = tape(runtime().tape).n_words
    status = append_entry(cell, frame, n_words, words(frame)[0], 0, 0)
    if failed(status):
        return status
    t = tape(runtime().tape)
    launched(t.words + at * 8).joined = number
    if not is_first:
        t.n_launches -= 1
    return OK


@native_inline
def references(handle):
    """How many references there are to a storage, but for that of the tape that records."""
    s = storage(handle)
    return s.refs - 1 if s.tape != 0 and s.tape == runtime().tape else s.refs


@native_once
def keep_for_tape(handle, made):
    """Let the tape that records hold a storage that its launches write to, so that a replay finds it in place.

    `made`: `MADE` for one that is made now, zero for one from before. A status; see Note [Captures].
    """
    t = tape(runtime().tape)
    if t.device != 0 or storage(handle).tape == runtime().tape:
        return OK
    cap = room(t.n_kept, t.cap_kept, 1)
    fresh = grow(t.kept, t.n_kept, t.cap_kept, cap)
    if failed(fresh):
        return fresh
    t.kept = fresh
    t.cap_kept = cap
    words(t.kept)[t.n_kept] = handle | made
    storage(handle).tape = runtime().tape
    t.n_kept += 1
    retain(handle)
    return OK


# --- editions --------------------------------------------------------------------------------------------------

FUSED_WORDS = FUSED.words
FUSED_HEAD = 4  # words of an edition before the frame of a fused launch
MASK_HEAD = 2  # words of an edition that are a launch which draws a mask
DROPPED = DROPOUT.place("out")


@native
def bytes_of(entry):
    """How far the next launch of a tape is from one."""
    return HEAD_BYTES + entry.n_words * 8


@native
def count_entries(t):
    """How many launches and calls of hooks stand on a tape."""
    count = 0
    at = 0
    while at < t.n_words * 8:
        at += bytes_of(launched(t.words + at))
        count += 1
    return count


@native
def count_compared(t):
    """How many values stand on a tape that a replay compares."""
    count = 0
    at = 0
    while at < t.n_words * 8:
        entry = launched(t.words + at)
        count += entry.cell == VALUE_CELL and entry.drew == 0
        at += bytes_of(entry)
    return count


@native
def write_places(t, places):
    """Write where each of them begins, in bytes."""
    count = 0
    at = 0
    while at < t.n_words * 8:
        words(places)[count] = at
        at += bytes_of(launched(t.words + at))
        count += 1


@native
def is_fused(edition, k, n):
    """Whether the word `k` of `n` of an edition begins a fused launch that is right as far as the runtime can tell."""
    if edition[k] != FUSED_LAUNCH or n - k < FUSED_HEAD + FUSED_WORDS:
        return False
    code = edition[k + 2]
    known = code > 0 and code < N_CODES and runtime().codes[code] != 0
    return known and (edition[k + 1] == 0 or edition[k + 1] == 1) and edition[k + 3] >= 0


@native
def is_mask(t, edition, k, n, places, count):
    """Whether the word `k` of `n` of an edition begins a launch that draws the mask of a dropout."""
    if edition[k] != MASK_LAUNCH or n - k < MASK_HEAD or edition[k + 1] < 0 or edition[k + 1] >= count:
        return False
    return launched(t.words + words(places)[edition[k + 1]]).cell // CELLS == runtime().dropout_kernel


@native
def cell_of_fused(code, needs_room):
    """The cell that stands for the code of a fused launch: of the device that it was compiled for."""
    rt = runtime()
    kernel = rt.fused_rows_kernel if needs_room else rt.fused_kernel
    return kernel * CELLS + rt.code_devices[code] * (CELLS // N_DEVICES)


@native
def words_of_edition(t, edition, n, places, count):
    """How many words the launches of an edition have; or a failure."""
    total = 0
    k = 0
    while k < n:
        if edition[k] >= 0 and edition[k] < count:
            total += HEAD_WORDS + launched(t.words + words(places)[edition[k]]).n_words
            k += 1
        elif t.device == 0 and is_fused(edition, k, n):
            total += HEAD_WORDS + FUSED_WORDS
            k += FUSED_HEAD + FUSED_WORDS
        elif is_mask(t, edition, k, n, places, count):
            total += HEAD_WORDS + launched(t.words + words(places)[edition[k + 1]]).n_words
            k += MASK_HEAD
        else:
            return fail(TAPE_EDITION, k)
    return total


@native
def write_fused(target, edition):
    """Write a fused launch to where it stands on a tape."""
    entry = launched(target)
    entry.n_words = FUSED_WORDS
    entry.cell = cell_of_fused(edition[2], edition[1] != 0)
    entry.code = edition[2]
    entry.reason = 0
    entry.joined = 0
    entry.moves = 0
    entry.work = edition[3]
    entry.drew = 0
    for j in range(FUSED_WORDS):
        words(target + HEAD_BYTES)[j] = edition[FUSED_HEAD + j]


@native
def write_edition(t, edition, n, places, target):
    """Write the launches of an edition one after the other; how many are no calls of hooks.

    Joined launches stay so where they still follow each other.
    """
    launches = 0
    k = 0
    before = 0  # the launch that was written last
    while k < n:
        if edition[k] == FUSED_LAUNCH:
            write_fused(target, advance(edition, k))
            k += FUSED_HEAD + FUSED_WORDS
        elif edition[k] == MASK_LAUNCH:
            source = t.words + words(places)[edition[k + 1]]
            memcpy(target, source, bytes_of(launched(source)))
            words(target + HEAD_BYTES)[DROPPED] = 0
            k += MASK_HEAD
        else:
            source = t.words + words(places)[edition[k]]
            memcpy(target, source, bytes_of(launched(source)))
            if launched(source).joined != 0:
                follows = k > 0 and edition[k] > 0 and edition[k - 1] == edition[k] - 1 and before != 0
                own = launched(t.words + words(places)[edition[k - 1]]).joined if follows else 0
                if own == launched(source).joined:
                    launched(target).joined = launched(before).joined
                else:
                    t.n_joined += 1
                    launched(target).joined = t.n_joined
            k += 1
        joined = (
            before != 0
            and launched(target).joined != 0
            and launched(target).joined == launched(before).joined
        )
        launches += launched(target).cell >= 0 and not joined
        before = target
        target += bytes_of(launched(target))
    return launches


@native
def replace_words(t, edition, n, places, count):
    """Let the launches of an edition stand on a tape in place of what stood there; a status."""
    total = words_of_edition(t, edition, n, places, count)
    if failed(total):
        return total
    cap = max(total, 64)
    fresh = allocate(cap * 8)
    if failed(fresh):
        return fresh
    t.n_launches = write_edition(t, edition, n, places, fresh)
    if t.words != 0:
        deallocate(t.words, t.cap_words * 8)
    t.words = fresh
    t.n_words = total
    t.cap_words = cap
    t.n_entries = count_entries(t)
    t.n_values = count_compared(t)
    t.n_pieces = 0
    return OK


@native_once
def edit(handle, edition, n):
    """Replace the launches of a tape, whose graphs are gone, by those of an edition of `n` words; a status.

    See Note [Editions].
    """
    t = tape(handle)
    if runtime().tape == handle or t.replaying != 0 or t.program != 0:
        return fail(TAPE_BUSY)
    count = count_entries(t)
    room_for = max(count, 1) * 8
    places = allocate(room_for)
    if failed(places):
        return places
    write_places(t, places)
    status = replace_words(t, edition, n, places, count)
    deallocate(places, room_for)
    return status
