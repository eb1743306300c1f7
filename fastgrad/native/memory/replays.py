"""Replays: the launches of a tape once more.

Note [Pieces]: a tape falls into pieces. Neighbouring launches of one device that makes graphs are one, and the device
runs them by one call, from the second replay on; the first one makes the graph. What the host has to see
or to do lies between such pieces: launches of other devices, copies between the host and a device, hooks. What a
launch of such a device reports is the device's own affair, and nobody waits for it. A device may ask for a graph to be
made again, for another stream for instance.
"""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base import frames
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    caster,
    kernel_table,
    native,
    native_inline,
    native_once,
    nth,
    runtime,
    stack_frame,
    stack_small,
    tape,
    words,
)
from fastgrad.native.base.modes import enter, is_watched, put_back
from fastgrad.native.base.pyapi import py_decref, py_integer
from fastgrad.native.contracts.frame import FINE, HOOK_RAISED, NO_PROBABILITY_THERE
from fastgrad.native.contracts.limits import HOST, N_DEVICES
from fastgrad.native.contracts.profiles import REPLAY_EVENT
from fastgrad.native.contracts.records import (
    GRAPH_STALE,
    HOOK_CELL,
    PIECE,
    VALUE_CELL,
)
from fastgrad.native.contracts.status import (
    NATIVE_HOOK_RAISED,
    OK,
    OTHER_VALUE,
    RAISED,
    REPLAY_PROBABILITY,
    REPLAY_RANGE,
)
from fastgrad.native.memory.buffers import grow, room
from fastgrad.native.memory.devices import (
    add_to_graph,
    begin_graph,
    drop_graph_of,
    end_graph,
    launch_on,
    makes_graphs,
    run_graph_on,
    status_of,
)
from fastgrad.native.memory.joined import run_joined
from fastgrad.native.memory.launches import (
    check_frame,
    fetch_report,
    has_to_wait,
    reported,
    run,
    run_as_it_is,
    run_noted,
)
from fastgrad.native.memory.parts import CELLS, device_of
from fastgrad.native.memory.profiles import begin_event, end_event
from fastgrad.native.memory.tapes import HEAD_BYTES, bytes_of, generator_words, launched, note, value_bits

piece = caster(PIECE)
PIECE_WORDS = PIECE.words


# --- pieces ----------------------------------------------------------------------------------------------------


@native
def add_piece(t, at, device):
    """Begin a piece; a status."""
    used = t.n_pieces * PIECE_WORDS
    cap = room(used, t.cap_pieces, PIECE_WORDS)
    fresh = grow(t.pieces, used, t.cap_pieces, cap)
    if failed(fresh):
        return fresh
    t.pieces = fresh
    t.cap_pieces = cap
    p = nth(piece(t.pieces), t.n_pieces)
    p.start = at
    p.end = at
    p.device = device
    p.graph = 0
    t.n_pieces += 1
    return OK


@native
def device_of_piece(entry, frame):
    """The device whose graph a launch may be part of, the host's number if it is to be launched alone."""
    if entry.cell < 0 or entry.moves != 0:
        return HOST
    device = device_of(entry.cell)
    return HOST if not makes_graphs(device) or has_to_wait(entry.cell, frame) else device


@native_once
def divide(t):
    """Divide a tape into pieces; a status. See Note [Pieces]."""
    at = 0
    last = -1
    while at < t.n_words * 8:
        entry = launched(t.words + at)
        device = device_of_piece(entry, t.words + at + HEAD_BYTES)
        if device != last:
            status = add_piece(t, at, device)
            if failed(status):
                t.n_pieces = 0
                return status
        at += bytes_of(entry)
        nth(piece(t.pieces), t.n_pieces - 1).end = at
        last = device
    for k in range(t.n_pieces):
        p = nth(piece(t.pieces), k)
        if p.end == p.start + bytes_of(launched(t.words + p.start)):
            p.device = HOST
    return OK


@native_once
def join_moves(t):
    """Let launches that run as one all move if one of them does."""
    at = 0
    first = 0  # of those that run as one
    while at < t.n_words * 8:
        entry = launched(t.words + at)
        head = launched(t.words + first)
        if entry.joined == 0 or entry.joined != head.joined or entry.cell != head.cell:
            first = at
        elif head.moves != 0:
            entry.moves = 1
        elif entry.moves != 0:
            while first < at:
                launched(t.words + first).moves = 1
                first += bytes_of(launched(t.words + first))
        at += bytes_of(entry)


@native_once
def divide_anew(handle):
    """Divide a tape again of which launches have been found to move."""
    t = tape(handle)
    drop_graphs(handle)
    t.n_pieces = 0
    t.moved = 0
    join_moves(t)


# --- graphs ----------------------------------------------------------------------------------------------------


@native
def drop_graph(p):
    """Give back the graph of a piece, if there is one."""
    if p.graph != 0:
        drop_graph_of(p.device, p.graph)
        p.graph = 0


@native
def drop_graphs(handle):
    """Give back the graphs of a tape."""
    t = tape(handle)
    for k in range(t.n_pieces):
        drop_graph(nth(piece(t.pieces), k))


@native_inline
def note_of(entry, room):
    """The address of the `NOTE` of a launch, for which there is room, or 0."""
    n = note(room)
    if entry.reason == 0:
        return 0
    n.place = runtime().reports[entry.cell // CELLS]
    n.reason = entry.reason
    n.kernel = entry.cell // CELLS
    n.dim = entry.dim
    n.last = entry.last
    return address_of(n)


@native_once
def notes_in(t, p):
    """How many launches of a piece have notes."""
    count = 0
    at = p.start
    while at < p.end:
        entry = launched(t.words + at)
        count += entry.reason != 0
        at += bytes_of(entry)
    return count


@native
def count_joined(t, p, at):
    """How many launches of a piece, from one on, run as one; see Note [Joined launches] in `memory.joined`."""
    first = launched(t.words + at)
    if first.joined == 0:
        return 1
    count = 1
    at += bytes_of(first)
    while at < p.end:
        entry = launched(t.words + at)
        if entry.joined != first.joined or entry.cell != first.cell or entry.n_words != first.n_words:
            break
        count += 1
        at += bytes_of(entry)
    return count


@native_once
def make_graph(t, p):
    """Make the graph of a piece; a status."""
    drop_graph(p)
    answer = begin_graph(p.device, notes_in(t, p))
    if answer != 0:
        return status_of(p.device, answer)
    status = OK
    room = stack_small()
    at = p.start
    while at < p.end and status == OK and answer == 0:
        entry = launched(t.words + at)
        frame = t.words + at + HEAD_BYTES
        if DEBUG and t.device == HOST:
            status = check_frame(entry.cell, frame, entry.n_words)
        if status == OK:
            kernel, draws = code_of(entry), draws_anew(t, entry, frame)
            noted, count = note_of(entry, room), count_joined(t, p, at)
            answer = add_to_graph(
                p.device, kernel, frame, entry.n_words, noted, draws, count, bytes_of(entry)
            )
            at += count * bytes_of(entry)
    made = end_graph(p.device)
    if status == OK and answer == 0 and made > 0:
        p.graph = made
        return OK
    if made > 0:
        drop_graph_of(p.device, made)
    if status != OK:
        return status
    return status_of(p.device, answer if answer != 0 else -made)


@native
def run_graph(t, p):
    """Run the graph of a piece, which is made if it has to be; a status."""
    answer = GRAPH_STALE
    seed, moved = t.seeds_now[p.device], t.firsts_now[p.device] - t.firsts[p.device]
    if p.graph != 0:
        answer = run_graph_on(p.device, p.graph, seed, moved)
    if answer == GRAPH_STALE:
        status = make_graph(t, p)
        if failed(status):
            return status
        answer = run_graph_on(p.device, p.graph, seed, moved)
    runtime().launches += 1
    return status_of(p.device, answer)


@native
def what_it_says(report):
    """OK or the failure that a report tells of."""
    if report.kind == FINE:
        return OK
    if report.kind == NO_PROBABILITY_THERE:
        return fail(REPLAY_PROBABILITY)
    return reported(report, NATIVE_HOOK_RAISED if report.kind == HOOK_RAISED else REPLAY_RANGE)


@native
def read_report(cell, frame):
    """What a launch of another device than the host reports; OK or a failure."""
    place = runtime().reports[cell // CELLS]
    if place == 0:
        return OK
    r = frames.report(stack_small())
    r.kind = FINE
    status = fetch_report(device_of(cell), words(frame)[place], r)
    return status if failed(status) else what_it_says(r)


# --- launches --------------------------------------------------------------------------------------------------


@native_once
def draw_again(t):
    """Take the random numbers of a replay: see Note [Numbers of a replay] in `memory.tapes`."""
    for k in range(N_DEVICES if t.follows == 0 else 0):
        if t.ends[k] > t.firsts[k]:
            state = generator_words(k)
            if state != 0:
                t.seeds_now[k] = words(state)[0]
                t.firsts_now[k] = words(state)[1]
                words(state)[1] += t.ends[k] - t.firsts[k]


@native_once
def give_back_numbers(t):
    """Let the generators stand where they stood before a replay that came to nothing."""
    for k in range(N_DEVICES if t.follows == 0 else 0):
        if t.ends[k] > t.firsts[k]:
            state = generator_words(k)
            if state != 0 and words(state)[0] == t.seeds_now[k]:
                words(state)[1] = t.firsts_now[k]


@native
def draws_anew(t, entry, frame):
    """Which word of a frame is a seed, counted from one, if a replay draws other numbers; else 0."""
    place = runtime().draws[entry.cell // CELLS]
    if entry.drew == 0 or place == 0:
        return 0
    device = device_of(entry.cell)
    seed, offset = words(frame)[place - 1], words(frame)[place]
    return place if seed == t.seeds[device] and t.firsts[device] <= offset < t.ends[device] else 0


@native_once
def with_numbers(t, entry, frame, copy):
    """Copy the frame of a launch that draws random numbers, to draw those of this replay."""
    for k in range(entry.n_words):
        words(copy)[k] = words(frame)[k]
    device = device_of(entry.cell)
    place = draws_anew(t, entry, frame)
    if place != 0:
        words(copy)[place - 1] = t.seeds_now[device]
        words(copy)[place] += t.firsts_now[device] - t.firsts[device]


@native_once
def call_again(o, number, mode):
    """Let the object of a tape make a call of Python again, in the modes of its capture; OK or RAISED."""
    before = runtime().mode
    put_back(mode)
    index = py_integer(number)
    answer = call_python(runtime().replay_hook, 2, o, index) if index != 0 else 0
    if index != 0:
        py_decref(index)
    enter()
    put_back(before)
    if answer == 0:
        return RAISED
    py_decref(answer)
    return OK


@native
def code_of(entry):
    """The address of what a launch of a tape runs."""
    return runtime().codes[entry.code] if entry.code != 0 else kernel_table()[entry.cell]


@native
def launch_again(o, t, entry, frame):
    """Run a launch of a tape; OK or a failure."""
    if entry.cell == HOOK_CELL:
        return call_again(o, entry.work, entry.dim)
    if entry.cell == VALUE_CELL:
        if entry.drew != 0:  # a number that the call gives back
            words(frame)[1] = value_bits(words(frame)[0], entry.work)
            return OK
        same = value_bits(words(frame)[0], entry.work) == words(frame)[1]
        return OK if same else fail(OTHER_VALUE)
    rt = runtime()
    cell = entry.cell
    place = rt.reports[cell // CELLS]
    device = device_of(cell)
    if entry.drew != 0:
        copy = stack_frame()
        with_numbers(t, entry, frame, copy)
        frame = copy
    if entry.reason != 0:
        if DEBUG and t.device == HOST:
            status = check_frame(cell, frame, entry.n_words)
            if failed(status):
                return status
        rt.launches += 1
        noted = note_of(entry, stack_small())
        return status_of(device, launch_on(device, kernel_table()[cell], frame, entry.n_words, noted))
    if place == 0 or device != HOST:
        if rt.profile != 0:
            status = run_noted(code_of(entry), cell, device, frame, entry.n_words, entry.work)
        elif t.device == HOST:
            status = run(code_of(entry), cell, device, frame, entry.n_words, entry.work)
        else:
            status = run_as_it_is(code_of(entry), cell, device, frame, entry.n_words, entry.work)
        return status if failed(status) or device == HOST else read_report(cell, frame)
    report = frames.report(words(frame)[place])
    report.kind = FINE
    status = run_noted(kernel_table()[cell], cell, device, frame, entry.n_words, entry.work)
    return status if failed(status) else what_it_says(report)


@native
def replay(o, handle):
    """Run the launches of a tape again, in order, up to one that reports what is wrong with what it reads.

    `o`: its object, which knows the hooks. OK or a failure.
    """
    if is_watched():
        token = begin_event(REPLAY_EVENT, 0, 0)
        result = replay_here(o, handle)
        end_event(token)
        return result
    return replay_here(o, handle)


@native
def replay_here(o, handle):
    """The same, in the modes of the calling thread."""
    t = tape(handle)
    t.replaying += 1
    if t.moved != 0:
        divide_anew(handle)
    result = divide(t) if t.n_pieces == 0 else OK
    if not failed(result):
        draw_again(t)
    k = 0
    while k < t.n_pieces and not failed(result):
        p = nth(piece(t.pieces), k)
        if p.device != HOST:
            result = run_graph(t, p)
        else:
            at = p.start
            while at < p.end and not failed(result):
                entry = launched(t.words + at)
                count = 1
                if entry.joined == 0:
                    result = launch_again(o, t, entry, t.words + at + HEAD_BYTES)
                else:
                    count = count_joined(t, p, at)
                    result = run_joined(
                        code_of(entry),
                        entry.cell,
                        t.words + at + HEAD_BYTES,
                        bytes_of(entry),
                        count,
                        entry.n_words,
                    )
                at += count * bytes_of(entry)
        k += 1
    t.replaying -= 1
    return result
