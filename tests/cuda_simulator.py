"""Kernels of the CUDA device in plain Python over the host's memory: `run` is a launch.

Blocks run one after the other. Threads of a block that wait for each other are threads of Python's; others run one
after the other, too.
"""

from __future__ import annotations

import math
import threading

import numpy as np

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
PATIENCE = 120  # seconds after which threads that wait for each other wait in vain
_TOGETHER = {device.barrier, device.barrier_any, device.exchanged}


class Team:
    """The threads of a block, of a warp of them, and what they share."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.blocks = blocks
        self.block = threading.Barrier(threads)
        self.warps = [threading.Barrier(min(device.WARP, threads)) for _ in range(0, threads, device.WARP)]
        self.values: list[object] = [None] * threads
        self.flags: list[bool] = [False] * threads
        self.rooms: dict[int, list[object]] = {}
        self.lock = threading.Lock()
        self.failure: BaseException | None = None

    def wait(self) -> None:
        self.block.wait(PATIENCE)

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
        warp.wait(PATIENCE)
        found = list(self.values)
        warp.wait(PATIENCE)
        return found

    def add(self, room: list[int], i: int, value: int) -> int:
        with self.lock:
            before = room[i]
            room[i] = before + value
            return before

    def room(self, key: int, count: int) -> list[object]:
        with self.lock:
            return self.rooms.setdefault(key, [None] * count)

    def enter(self, run, f, block: int, thread: int) -> None:
        device.here.thread, device.here.block, device.here.team = thread, block, self
        device.here.blocks = self.blocks
        try:
            with np.errstate(all="ignore"):
                run(f)
        except BaseException as failure:
            self.failure = self.failure or failure
            for barrier in (self.block, *self.warps):
                barrier.abort()


def run_block(run, f, block: int, threads: int, blocks: int) -> None:
    team = Team(threads, blocks)
    if waits(run):
        running = [threading.Thread(target=team.enter, args=(run, f, block, k)) for k in range(threads)]
        for one in running:
            one.start()
        for one in running:
            one.join()
    else:
        for k in range(threads):
            team.enter(run, f, block, k)
    if team.failure:
        raise team.failure


def waits(function, seen=None) -> bool:
    """Whether threads of a kernel wait for each other."""
    seen = set() if seen is None else seen
    for value in (*globals_read(function).values(), *cells_of(function).values()):
        if type(value) is type(run_block) and value not in seen:
            seen.add(value)
            if value in _TOGETHER or waits(value, seen):
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
