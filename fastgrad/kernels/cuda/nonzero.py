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
from fastgrad.native.contracts.limits import MAX_DIMS

THREADS = 256


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel for one dtype; a bool is the byte that it is in memory."""
    element, places = target.elements[UINT8 if dtype == BOOL else dtype], target.elements[INT64]
    load, zero, store, load_count = element.load, element.constant(0), places.store, places.load
    fold, piece_size, warps = folding_one(target, plain_sum, INT32, threads), NONZERO_PIECE, threads // WARP
    sums, get, put = (
        target.elements[INT32].shared(warps), target.elements[INT32].get, target.elements[INT32].put,
    )  # fmt: skip
    write = _writing(store)

    def count(f):
        """How many there are in a piece."""
        piece = np.int64(block())
        total, i = np.int32(0), piece * piece_size + thread()
        end = min((piece + 1) * piece_size, f.n)
        while i < end:
            total = np.int32(total + (1 if load(f.x, i) != zero else 0))
            i += threads
        total = fold(total, TOGETHER)
        if thread() == 0:
            store(f.count, 1 + piece, total)

    def before_warps(found, value, places_of):
        """What the warps before this one have, and what all have."""
        put(places_of, thread() // WARP, value)
        barrier()
        before, total = np.int64(0), np.int64(0)
        for k in range(warps):
            one = np.int64(get(places_of, k))
            before += one if k < thread() // WARP else np.int64(0)
            total += one
        barrier()
        return found + before, found + total

    def begin(f):
        """How many there are before each piece: the first block's work."""
        pieces, start, found, held = np.int64(blocks()), np.int64(0), np.int64(0), sums()
        while start < pieces:
            i, here = start + thread(), np.int32(0)
            if i < pieces:
                here = np.int32(load_count(f.count, 1 + i))
            with_it = running(here)
            before, found = before_warps(found, shuffle_from(with_it, np.int32(WARP - 1)), held)
            if i < pieces:
                store(f.count, 1 + i, before + with_it - here)
            start += threads
        if thread() == 0:
            store(f.count, 0, found)

    def collect(f):
        """Each warp goes through a run of the piece, twice."""
        piece, warp, lane = np.int64(block()), thread() // WARP, thread() % WARP
        start = piece * piece_size + warp * (piece_size // warps)
        end = min(start + piece_size // warps, f.n)
        total, at = np.int32(0), start
        while at < end:
            total = np.int32(total + popcount(ballot(at + lane < end and load(f.x, at + lane) != zero)))
            at += WARP
        to, _ = before_warps(load_count(f.count, 1 + piece), total, sums())
        below = np.uint32((np.uint32(1) << np.uint32(lane)) - np.uint32(1))
        while start < end:
            i = start + lane
            mine = i < end and load(f.x, i) != zero
            flags = ballot(mine)
            place = to + popcount(flags & below)
            if mine and place < f.found:
                write(f, place, np.uint32(i))
            to += popcount(flags)
            start += WARP

    def fill(f):
        """Zeros where another thread left less than there is room."""
        at = load_count(f.count, 0) + thread()
        while at < f.found:
            write(f, at, np.uint32(0))
            at += threads

    def run(f):
        if f.places != 0:
            collect(f)
            if block() == 0:
                fill(f)
        elif f.step == 0:
            count(f)
        elif block() == 0:
            begin(f)

    return Body(run, ("n",), piece_size, threads, STEPPED, steps="launches")


def _writing(store: Any) -> Any:
    """``write(f, at, place)``: a place as numbers for each dimension."""
    lines = [
        "def write(f, at, place):",
        "    step, apart = (f.rank, np.int64(1)) if f.by_rows != 0 else (np.int64(1), f.found)",
    ]
    for d in reversed(range(1, MAX_DIMS)):
        lines += [
            f"    if f.rank > {d}:",
            f"        whole = quotient(place, np.uint32(f.sizes[{d}]))",
            f"        rest = np.uint32(place - whole * np.uint32(f.sizes[{d}]))",
            f"        store(f.places, at * step + {d} * apart, np.int64(rest))",
            "        place = whole",
        ]
    lines += ["    if f.rank > 0:", "        store(f.places, at * step, np.int64(place))"]
    scope: dict[str, Any] = {"np": np, "quotient": quotient, "store": store}
    exec("\n".join(lines) + "\n", scope)
    return scope["write"]
