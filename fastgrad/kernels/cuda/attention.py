"""Scaled dot-product attention on the CUDA device, tile by tile, so that the matrix of scores never exists as a whole.

A block *owns* some rows of an operand and goes through the rows of others, a tile at a time.

- Forward a block owns queries and goes through keys and values. It keeps the largest score and the sum of weights of
  each query and rescales what it has when a later tile has a larger score (online softmax: Milakov and Gimelshein,
  2018).
- Backward some blocks own queries and go through keys and values again: they find the gradient of queries. Others own
  keys and values and go through queries and the gradients of results: they find those of keys and values. Both compute
  the weights anew from the logarithms of their sums. The inner products of results and their gradients, which both
  need, are found by a step before.

So each result is summed by one block in one order, in registers, and written once. A query to which the mask leaves no
key gives zeros. `attention_cores` has the loops over tiles for tensor cores, `attention_tiles` those for all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda import attention_cores, attention_tiles
from fastgrad.kernels.cuda.attention_text import Pass, rows_of
from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Target, block, blocks, thread
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.teams import WARPS, folding_one, plain_sum
from fastgrad.native.contracts.cuda import PLAIN, STEPPED, TILE
from fastgrad.native.contracts.element_types import HALVES, computed_in

THREADS = 128
NARROW, USUAL = 64, 128
"""Elements of rows that have loops of their own; wider ones are those of the usual width, slice by slice."""


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel of one pass for one dtype."""
    by_cores = dtype in HALVES and dtype in target.cores
    sums = computed_in(dtype)
    ways = [(NARROW, attention_tiles.passes(target, dtype, threads, NARROW))] if not by_cores else [
        (width, attention_cores.passes(target, dtype, threads, width)) for width in (NARROW, USUAL)
    ]  # fmt: skip
    ways.append((0, attention_tiles.passes(target, dtype, threads, USUAL)))
    room = target.elements[sums].shared(max(p.room for _, passes in ways for p in passes.values()))
    items = ("batch", "heads", f"queries/{TILE}")
    if kernel.options["backward"]:
        run = _stepped(_deltas(target, dtype, threads), _by_width(ways, _both), room)
        return Body(run, items, 1, threads, STEPPED, resident=2 * threads, steps="launches")
    run = _with_room(_by_width(ways, _over_queries), room)
    return Body(run, items, 2, threads, PLAIN, resident=2 * threads)


def _with_room(loop: Any, room: Any) -> Any:
    def run(f):
        loop(f, room())

    return run


def _stepped(before: Any, loop: Any, room: Any) -> Any:
    """Two launches, each of which sees what those before have written."""

    def run(f):
        if f.step == 0:
            before(f)
        else:
            loop(f, room())

    return run


def _by_width(ways: list[tuple[int, dict[str, Pass]]], looping: Any) -> Any:
    """The loops for the first of some widths that rows fit in, or else the last ones."""
    (width, passes), *others = ways
    own = looping(passes)
    if not others:
        return own
    rest = _by_width(others, looping)

    def loop(f, room):
        if f.width <= width:
            own(f, room)
        else:
            rest(f, room)

    return loop


def _over_queries(passes: dict[str, Pass]) -> Any:
    """``loop(f, room)``: over the tiles of all queries, of which the last ones may see the most keys."""
    rows, _, forward = passes["forward"]

    def loop(f, room):
        tiles, unit = (f.queries + rows - 1) // rows, np.int64(block())
        while unit < f.batch * f.heads * tiles:
            head, k = split(unit, tiles)
            b, h = split(head, f.heads)
            forward(f, room, b, h, (tiles - 1 - k) * rows)
            unit += blocks()

    return loop


def _both(passes: dict[str, Pass]) -> Any:
    """``loop(f, room)``: over the tiles of keys, of which the first ones may have the most queries, then of queries."""
    (rows, _, queries), (key_rows, _, keys) = passes["query_gradient"], passes["key_gradient"]

    def loop(f, room):
        groups, _ = split(f.heads, f.group)
        tiles, key_tiles = (f.queries + rows - 1) // rows, (f.keys + key_rows - 1) // key_rows
        begin, unit = f.batch * groups * key_tiles, np.int64(block())
        while unit < begin + f.batch * f.heads * tiles:
            if unit < begin:
                head, k = split(unit, key_tiles)
                b, group = split(head, groups)
                keys(f, room, b, group, k * key_rows)
            else:
                head, k = split(unit - begin, tiles)
                b, h = split(head, f.heads)
                queries(f, room, b, h, (tiles - 1 - k) * rows)
            unit += blocks()

    return loop


def _deltas(target: Target, dtype: int, threads: int) -> Any:
    """A function that keeps the inner products of results and their gradients in the scratch, each found by a warp."""
    e, sums = target.elements[dtype], target.elements[computed_in(dtype)]
    load, store, zero, warps = e.load, sums.store, e.constant(0), threads // WARP
    fold_sum = folding_one(target, plain_sum, dtype, threads)

    def deltas(f):
        lane, unit, tiles = np.int64(thread() % WARP), np.int64(block()), (f.queries + warps - 1) // warps
        while unit < f.batch * f.heads * tiles:
            head, k = split(unit, tiles)
            b, h = split(head, f.heads)
            own = k * warps + thread() // WARP
            i = min(own, f.queries - 1)
            at_g, at_o = rows_of(f.grad_out, b, h) + i * f.grad_out.row, rows_of(f.out, b, h) + i * f.out.row
            total, c = zero, lane
            while c < f.width:
                total += load(f.grad_out.data, at_g + c) * load(f.out.data, at_o + c)
                c += WARP
            total = fold_sum(total, WARPS)
            if lane == 0 and own < f.queries:
                store(f.scratch.data, head * f.queries + i, total)
            unit += blocks()

    return deltas
