"""The places of what is not zero on the CUDA device.

Counting takes two launches: of each piece, then how many there are before each piece and in all. Behind these numbers
the pieces write their places, in another launch, when the host has made room for so many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import (
    WARP,
    Target,
    ballot,
    barrier,
    block,
    blocks,
    popcount,
    quotient,
    shuffle_from,
    thread,
)
from fastgrad.kernels.cuda.sorting_search import running
from fastgrad.kernels.cuda.teams import TOGETHER, folding_one, plain_sum
from fastgrad.native.contracts.cuda import STEPPED
from fastgrad.native.contracts.element_types import BOOL, INT32, INT64, UINT8
from fastgrad.native.contracts.frames.indexing import NONZERO_PIECE
from fastgrad.native.contracts.limits import FRAME_DIMS, MAX_DIMS

THREADS = 256


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel for one dtype; a bool is the byte that it is in memory."""
    element, words, piece_size = (
        target.elements[UINT8 if dtype == BOOL else dtype],
        target.elements[INT64],
        NONZERO_PIECE,
    )
    load, zero = element.load, element.constant(0)
    load_word, store, warps = words.load, words.store, threads // WARP
    sums, before_warps = target.elements[INT32].shared(warps), _before_warps(target, warps)
    fold = folding_one(target, plain_sum, INT32, threads)

    def holds(f, i):
        return load(f.x, i) != zero

    def count(f):
        """How many there are in a piece."""
        piece, total = np.int64(block()), np.int32(0)
        i, end = piece * piece_size + thread(), min((piece + 1) * piece_size, f.n)
        while i < end:
            total = np.int32(total + (1 if holds(f, i) else 0))
            i += threads
        total = fold(total, TOGETHER)
        if thread() == 0:
            store(f.count, 1 + piece, total)

    def begin(f, held):
        """How many there are before each piece: the first block's work."""
        pieces, start, found = np.int64(blocks()), np.int64(0), np.int64(0)
        while start < pieces:
            i, here = start + thread(), np.int32(0)
            if i < pieces:
                here = np.int32(load_word(f.count, 1 + i))
            with_it = running(here)
            before, found = before_warps(found, shuffle_from(with_it, np.int32(WARP - 1)), held)
            if i < pieces:
                store(f.count, 1 + i, before + with_it - here)
            start += threads
        if thread() == 0:
            store(f.count, 0, found)

    collect = _collecting(holds, load_word, store, before_warps, threads)

    def run(f):
        held = sums()
        if f.places != 0:
            collect(f, held)
        elif f.step == 0:
            count(f)
        elif block() == 0:
            begin(f, held)

    return Body(run, ("n",), piece_size, threads, STEPPED, steps="launches")


def _before_warps(target: Target, warps: int) -> Any:
    """What is found before this warp, and in all, if so much was found before and each warp has a number."""
    get, put = target.elements[INT32].get, target.elements[INT32].put

    def before_warps(found, value, held):
        put(held, thread() // WARP, value)
        barrier()
        before, total = found, found
        for k in range(warps):
            one = np.int64(get(held, k))
            before += one if k < thread() // WARP else np.int64(0)
            total += one
        barrier()
        return before, total

    return before_warps


def _collecting(holds: Any, load_word: Any, store: Any, before_warps: Any, threads: int) -> Any:
    """A piece's places: each warp goes through a run of it, twice."""
    write, piece_size, run = _writing(store), NONZERO_PIECE, NONZERO_PIECE // (threads // WARP)

    def number(f, start, end):
        total = np.int32(0)
        while start < end:
            i = start + thread() % WARP
            total = np.int32(total + popcount(ballot(i < end and holds(f, i))))
            start += WARP
        return total

    def fill(f):
        """Zeros where another thread left less than there is room."""
        at = load_word(f.count, 0) + thread()
        while at < f.found:
            write(f, at, np.uint32(0))
            at += threads

    def collect(f, held):
        piece, lane = np.int64(block()), thread() % WARP
        start = piece * piece_size + thread() // WARP * run
        end = min(start + run, f.n)
        to, _ = before_warps(load_word(f.count, 1 + piece), number(f, start, end), held)
        below = np.uint32((np.uint32(1) << np.uint32(lane)) - np.uint32(1))
        while start < end:
            i = start + lane
            mine = i < end and holds(f, i)
            flags = ballot(mine)
            place = to + popcount(flags & below)
            if mine and place < f.found:
                write(f, place, np.uint32(i))
            to += popcount(flags)
            start += WARP
        if block() == 0:
            fill(f)

    return collect


def _writing(store: Any) -> Any:
    """``write(f, at, place)``: a place as numbers for each dimension."""
    lines = [
        "def write(f, at, place):",
        "    step, apart = (f.rank, np.int64(1)) if f.by_rows != 0 else (np.int64(1), f.found)",
    ]
    for d in reversed(range(1, MAX_DIMS)):
        if d == MAX_DIMS - 1:
            lines.append(f"    if f.rank > {FRAME_DIMS}:")  # one question for all that are rarely there
        indent = "        " if d >= FRAME_DIMS else "    "
        lines += [
            f"{indent}if f.rank > {d}:",
            f"{indent}    whole = quotient(place, np.uint32(f.sizes[{d}]))",
            f"{indent}    rest = np.uint32(place - whole * np.uint32(f.sizes[{d}]))",
            f"{indent}    store(f.places, at * step + {d} * apart, np.int64(rest))",
            f"{indent}    place = whole",
        ]
    lines += ["    if f.rank > 0:", "        store(f.places, at * step, np.int64(place))"]
    scope: dict[str, Any] = {"np": np, "quotient": quotient, "store": store}
    exec("\n".join(lines) + "\n", scope)
    return scope["write"]
