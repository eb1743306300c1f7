"""Kernels of the CUDA device in plain Python over the host's memory: `run` is a launch.

Blocks run one after the other, and so do threads of a block. Those that wait for each other are greenlets, which let
others run where they wait; threads of Python's would take ten times as long to take turns.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from greenlet import getcurrent, greenlet

from fastgrad.kernels.cuda import device
from fastgrad.kernels.cuda.compile import body_of
from fastgrad.kernels.cuda.frames import view
from fastgrad.kernels.keys import cells_of, globals_read
from fastgrad.native.contracts.cuda import (
    COUNTING_TURN,
    COUNTS_BEFORE,
    DIVIDED,
    DIVISOR_SHIFT,
    DIVISORS,
    MANY,
    MANY_HEAD,
    MANY_PARAMETERS,
    MOST_CHUNKS,
    STEPPED,
    SUMMING_TURN,
    SUMS_AFTER,
    TILE,
)
from fastgrad.native.contracts.frame import Frame
from fastgrad.native.contracts.frames.multi_tensor import GROUP

TARGET = device.simulated()
AT_ADDRESSES, AT_COUNTED = GROUP.place("tensors"), GROUP.place("counted")
_TOGETHER = {device.barrier, device.barrier_any, device.exchanged}


class Meeting:
    """Where so many threads wait for each other."""

    def __init__(self, threads: int) -> None:
        self.threads, self.waiting, self.turn = threads, 0, 0


class Team:
    """The threads of a block, of a warp of them, and what they share."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.blocks = blocks
        self.block = Meeting(threads)
        self.warps = [Meeting(min(device.WARP, threads)) for _ in range(0, threads, device.WARP)]
        self.values: list[object] = [None] * threads
        self.flags: list[bool] = [False] * threads
        self.rooms: dict[int, list[object]] = {}
        self.moved = False

    def meet(self, meeting: Meeting) -> None:
        """Let others run until all are here."""
        turn = meeting.turn
        meeting.waiting += 1
        if meeting.waiting == meeting.threads:
            meeting.waiting, meeting.turn, self.moved = 0, turn + 1, True
        while meeting.turn == turn:
            getcurrent().parent.switch()

    def wait(self) -> None:
        self.meet(self.block)

    def any(self, value: bool) -> bool:
        self.flags[device.here.thread] = value
        self.wait()
        found = any(self.flags)
        self.wait()
        return found

    def exchange(self, value: object) -> list[object]:
        """The values of all threads; those of other warps mean nothing."""
        warp = self.warps[device.here.thread // device.WARP]
        self.values[device.here.thread] = value
        self.meet(warp)
        found = list(self.values)
        self.meet(warp)
        return found

    def add(self, room: list[int], i: int, value: int) -> int:
        before = room[i]
        room[i] = before + value
        return before

    def room(self, key: int, count: int) -> list[object]:
        return self.rooms.setdefault(key, [None] * count)

    def enter(self, block: int, thread: int) -> None:
        """What runs from now on is a thread of it."""
        device.here.thread, device.here.block, device.here.team = thread, block, self
        device.here.blocks = self.blocks


def run_block(run, f, block: int, threads: int, blocks: int) -> None:
    team = Team(threads, blocks)
    with np.errstate(all="ignore"):
        if waits(run):
            run_in_turns(team, run, f, block, threads)
            return
        for k in range(threads):
            team.enter(block, k)
            run(f)


def run_in_turns(team: Team, run, f, block: int, threads: int) -> None:
    """Run threads that wait for each other, each from one meeting to the next."""

    def quietly() -> None:
        with np.errstate(all="ignore"):  # a greenlet does not know what was said outside of it
            run(f)

    running = [(k, greenlet(quietly)) for k in range(threads)]
    while running:
        team.moved = False
        for k, one in running:
            team.enter(block, k)
            one.switch()
        left = [(k, one) for k, one in running if not one.dead]
        if len(left) == len(running) and not team.moved:
            raise RuntimeError(f"threads {[k for k, _ in left]} of block {block} wait for others in vain")
        running = left


@functools.cache
def waits(function) -> bool:
    """Whether threads of a kernel wait for each other."""
    return found_in(function, set())


def found_in(function, seen) -> bool:
    """Whether a function that makes threads wait is called by one."""
    for value in (*globals_read(function).values(), *cells_of(function).values()):
        if type(value) is type(run_block) and value not in seen:
            seen.add(value)
            if value in _TOGETHER or found_in(value, seen):
                return True
    return False


def run(kernel, dtype: int, form: int, words, threads: int) -> None:
    """Launch a kernel with the words of a frame, on blocks of so many threads."""
    body = body_of(kernel, dtype, form, TARGET, threads)
    frame = kernel.frame(form)
    seen = view(frame, body.kind, body.repeats)
    taken = [np.int64(w) for w in words[: seen.n_words]]
    if body.kind == MANY:
        run_many(body, seen, [words])
        return
    if body.kind == DIVIDED:
        rank, sizes = words[frame.place("rank")], frame.place("sizes")
        extents = [int(words[sizes + d]) if d < rank else 1 for d in range(DIVISORS)]
        taken += [np.int64(divisor(max(size, 1))) for size in extents]
        items = math.prod(extents)
    else:
        items = math.prod(factor(item, frame, words) for item in body.items)
    function, blocks = TARGET.made(body.run), -(-int(items) // body.per_block)
    steps = [[]]
    if body.kind == STEPPED:
        steps = [[np.int64(k)] for k in range(words[frame.place(body.steps)] + body.more)]
    for step in steps:
        f = seen.read(taken + step)
        for block in range(blocks):
            run_block(function, f, block, body.threads, blocks)


def run_many(body, seen, groups) -> None:
    """Launch a kernel over the frames of some groups, whose words are given, as `native.cuda.many` does."""
    function, n_words = TARGET.made(body.run), seen.n_words
    chunk = max(-(-sum(words[0] for words in groups) // (MOST_CHUNKS * body.per_block)), 1) * body.per_block
    before = 0
    per_launch = (MANY_PARAMETERS - n_words - MANY_HEAD.words) // (2 + body.moved)
    parts = [groups[k : k + per_launch] for k in range(0, len(groups), per_launch)]
    for part in parts:
        head, table, chunks = list(part[0][:n_words]), [], 0
        for words in part:
            chunks += max(-(-words[0] // chunk), 1)
            table += [chunks, words[0], *words[AT_ADDRESSES : AT_ADDRESSES + body.moved]]
        turns = [(chunk, chunks, before)]
        if body.turns & COUNTS_BEFORE and chunks > len(part) and not head[AT_COUNTED]:
            turns.insert(0, (COUNTING_TURN, 1, before))
        before += chunks
        if body.turns & SUMS_AFTER and part is parts[-1]:
            turns.append((SUMMING_TURN, 1, before))
        for turn, blocks, earlier in turns:
            launch_with_table(function, seen, body.threads, head, (len(part), turn, earlier), table, blocks)
            head[AT_COUNTED] = 1 if turn == COUNTING_TURN else head[AT_COUNTED]


def launch_with_table(function, seen, threads, words, head, table, blocks) -> None:
    """Run the blocks of a launch over many frames."""
    f = seen.read([*map(np.int64, (*words, *head)), tuple(map(np.int64, table))])
    for block in range(blocks):
        run_block(function, f, block, threads, blocks)


def factor(item, frame: Frame, words) -> int:
    """What a field or a number of a launch's items stands for."""
    if isinstance(item, int):
        return item
    name, _, tiled = item.partition("/")
    return -(-words[frame.place(name)] // TILE) if tiled else words[frame.place(name)]


def divisor(size: int) -> int:
    """What stands for a size: see `contracts.cuda.DIVISORS`."""
    shift = (size - 1).bit_length()
    return (shift << DIVISOR_SHIFT) | ((1 << 32) * ((1 << shift) - size) // size + 1)


def words_of(frame: Frame, **values) -> list[int]:
    """The words of a frame; an array stands for its address, a list for several words."""
    words = [0] * frame.words
    for name, value in values.items():
        field, _, inner = name.partition("__")
        at = frame.place(f"{field}.{inner}" if inner else field)
        for k, one in enumerate(value if isinstance(value, list) else [value]):
            words[at + k] = one.ctypes.data if isinstance(one, np.ndarray) else int(one)
    return words
