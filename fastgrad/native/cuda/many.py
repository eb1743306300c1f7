"""Launches of one kernel over many frames.

Note [Many frames]: a step of an optimizer runs the same kernel over one parameter after the other. Their frames differ
in sizes and addresses alone, so one launch takes the words of the first frame and a table of what the others have in
their place (`contracts.cuda.MANY_HEAD`), as parameters: a graph keeps them as it keeps those of any launch, and nothing
lies in the device's memory that would have to be there before and to be freed later. A launch has as many frames as its
parameters have room for, and ends before a frame with other numbers.

All chunks of a call are of one length, which follows from the sizes of all frames. The kernel of a frame with several
chunks may count steps that its numbers depend on; then the steps of the launch are counted by a launch before it.
"""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import caster, native, native_once, stack_scratch, words
from fastgrad.native.contracts.cuda import (
    COUNTING_TURN,
    COUNTS_BEFORE,
    MANY_HEAD,
    MANY_PARAMETERS,
    MOST_CHUNKS,
    SUMMING_TURN,
    SUMS_AFTER,
)
from fastgrad.native.contracts.frames.multi_tensor import GROUP
from fastgrad.native.cuda.queues import launch_blocks

many = caster(MANY_HEAD)
HEAD_WORDS, OWN_WORDS = MANY_HEAD.words, 2  # and of a frame in the table, before its addresses
AT_ADDRESSES, AT_COUNTED = GROUP.place("tensors"), GROUP.place("counted")

_parameters = stack_scratch(MANY_PARAMETERS)


@native
def chunk_of(k, c):
    """How many elements are a chunk of the frames of a call."""
    total = 0
    for j in range(c.count):
        total += frames.group(c.frame + j * c.pitch).n
    most = MOST_CHUNKS * k.per_block
    return max((total + most - 1) // most, 1) * k.per_block


@native
def are_alike(k, one, other):
    """Whether two frames differ in their sizes and addresses alone."""
    for j in range(1, k.n_words):
        of_group = AT_ADDRESSES <= j and j < AT_ADDRESSES + k.moved
        if not of_group and words(one)[j] != words(other)[j]:
            return False
    return True


@native
def write_group(k, place, frame, chunks):
    """Write to the table what a frame has in place of that of the first; `chunks` are those up to its own."""
    target = words(place)
    target[0] = chunks
    target[1] = frames.group(frame).n
    for j in range(k.moved):
        target[OWN_WORDS + j] = words(frame)[AT_ADDRESSES + j]


@native_once
def launch_some(g, stream, k, parameters, chunks):
    """Launch what the parameters say; what the driver says."""
    head = many(parameters + 8 * k.n_words)
    code = 0
    if k.turns & COUNTS_BEFORE and chunks > head.n_frames and words(parameters)[AT_COUNTED] == 0:
        chunk = head.chunk
        head.chunk = COUNTING_TURN
        code = launch_blocks(g, stream, k, parameters, MANY_PARAMETERS, 1)
        head.chunk = chunk
        words(parameters)[AT_COUNTED] = 1
    return code if code != 0 else launch_blocks(g, stream, k, parameters, MANY_PARAMETERS, chunks)


@native_once
def launch_many(g, stream, k, c):
    """Launch a kernel over the frames of a `LAUNCHING`; what the driver says. See Note [Many frames]."""
    parameters = _parameters()
    head = many(parameters + 8 * k.n_words)
    table = parameters + 8 * (k.n_words + HEAD_WORDS)
    pitch = 8 * (OWN_WORDS + k.moved)
    most = (MANY_PARAMETERS - k.n_words - HEAD_WORDS) * 8 // pitch
    chunk = chunk_of(k, c)
    at, before, code = 0, 0, 0
    while at < c.count and code == 0:
        first = c.frame + at * c.pitch
        for j in range(k.n_words):
            words(parameters)[j] = words(first)[j]
        n, chunks = 0, 0
        while n < most and at < c.count and are_alike(k, first, c.frame + at * c.pitch):
            frame = c.frame + at * c.pitch
            chunks += max((frames.group(frame).n + chunk - 1) // chunk, 1)
            write_group(k, table + n * pitch, frame, chunks)
            n += 1
            at += 1
        head.n_frames = n
        head.chunk = chunk
        head.before = before
        code = launch_some(g, stream, k, parameters, chunks)
        before += chunks
    if code == 0 and k.turns & SUMS_AFTER and before > 0:
        head.chunk = SUMMING_TURN
        head.before = before
        code = launch_blocks(g, stream, k, parameters, MANY_PARAMETERS, 1)
    return code
