"""Scaled dot-product attention on the CUDA device, tile by tile, so that the matrix of scores never exists as a whole.

A warp has a query and goes through the keys, `TILE` at a time, of which each of its threads has one: it keeps the
largest score and the sum of exponentials so far and rescales what it has when a later tile has a larger score. The
queries of a block share their keys, which stand in the block's memory, `TILE` of their elements at a time. The backward
pass computes the weights anew; there a warp has a query, or a key and goes through the queries. So each gradient is
added up by one warp, in one order. It is added up in memory, which is float32 where operands are halves. A query to
which the mask leaves no key gives zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import (
    WARP,
    Element,
    Target,
    barrier,
    block,
    blocks,
    float_of,
    shuffle_from,
    thread,
    where,
)
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.teams import WARPS, folding_one, plain_sum
from fastgrad.native.contracts.element_types import computed_in

THREADS = 256
TILE = WARP
PITCH = TILE + 1  # of the rows of a tile, so that those of a column lie in different banks


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel of one pass for one dtype."""
    run = (_backward if kernel.options["backward"] else _forward)(target, dtype, threads)
    return Body(run, ("batch", "heads", "queries"), threads // WARP, threads, resident=256)


def rows_of(operand, batch, head):
    """Where the rows of a head begin."""
    return batch * operand.batch + head * operand.head


def _tile(element: Element, warps: int) -> Any:
    """``tile(room, operand, at, first, count, c, width)``: elements from `c` on of some rows, zeros beyond them."""
    load, put, zero = element.load, element.put, element.constant(0)

    def tile(room, operand, at, first, count, c, width):
        column, k = thread() % TILE, thread() // TILE
        while k < TILE:
            value = zero
            if first + k < count and c + column < width:
                value = load(operand.data, at + (first + k) * operand.row + c + column)
            put(room, k * PITCH + column, value)
            k += warps

    return tile


def _counted(element: Element) -> Any:
    """``score(f, product, batch, head, i, j)``: a masked score, -inf where the key does not count."""
    load, cast, nothing = element.load, element.constant, element.constant(-np.inf)

    def score(f, product, batch, head, i, j):
        counts = i < f.queries and j < f.keys and (f.causal == 0 or j <= i)
        value = product * cast(float_of(f.scale))
        if counts and f.mask.data != 0:
            value += load(f.mask.data, rows_of(f.mask, batch, head) + i * f.mask.row + j)
        return where(counts, value, nothing)

    return score


def _weighing(element: Element) -> Any:
    """``weigh(weight, operand, at, count, column)``: a column of rows, weighed by what the threads of a warp have."""
    load, zero = element.load, element.constant(0)

    def weigh(weight, operand, at, count, column):
        total, k = zero, np.int32(0)
        while k < TILE and k < count:
            total += shuffle_from(weight, k) * load(operand.data, at + k * operand.row + column)
            k = np.int32(k + 1)
        return total

    return weigh


def _forward(target: Target, dtype: int, threads: int) -> Any:
    e, sums, warps = target.elements[dtype], target.elements[computed_in(dtype)], threads // WARP
    load, load_sum, store_sum = e.load, sums.load, sums.store
    get, zero, one = e.get, e.constant(0), e.constant(1)
    exp, log, maximum, nothing, infinite = (
        e.math.exp, e.math.log, e.math.maximum, e.constant(-np.inf), e.constant(np.inf),
    )  # fmt: skip
    tile, score, weigh = _tile(e, warps), _counted(e), _weighing(e)
    fold_greatest = folding_one(target, maximum, dtype, threads)
    fold_sum = folding_one(target, plain_sum, dtype, threads)

    def query(f, shared, b, h, first):
        lane, i = np.int64(thread() % WARP), first + thread() // WARP
        own, (group, _) = min(i, f.queries - 1), split(h, f.group)
        at_q, at_o = rows_of(f.q, b, h) + own * f.q.row, rows_of(f.out, b, h) + own * f.out.row
        at_k, at_v = rows_of(f.k, b, group), rows_of(f.v, b, group)
        best, total, j = nothing, zero, np.int64(0)
        last = min(f.keys, first + warps) if f.causal != 0 else f.keys
        while j < last:
            product, c = zero, np.int64(0)
            while c < f.width:
                barrier()
                tile(shared, f.k, at_k, j, f.keys, c, f.width)
                barrier()
                mine = load(f.q.data, at_q + c + lane) if c + lane < f.width else zero
                d = np.int32(0)
                while d < TILE:
                    product += shuffle_from(mine, d) * get(shared, lane * PITCH + d)
                    d = np.int32(d + 1)
                c += TILE
            s = score(f, product, b, h, i, j + lane)
            top = maximum(best, fold_greatest(s, WARPS))
            shift = where(top == nothing, zero, top)
            factor = where(best == nothing, zero, exp(best - shift))
            weight = exp(s - shift)
            best, total = top, total * factor + fold_sum(weight, WARPS)
            c = np.int64(0)
            while c < f.width:
                column = min(c + lane, f.width - 1)
                value = weigh(weight, f.v, at_v + j * f.v.row, f.keys - j, column)
                if i < f.queries and c + lane < f.width:
                    before = load_sum(f.out.data, at_o + column) * factor if j > 0 else zero
                    store_sum(f.out.data, at_o + column, before + value)
                c += TILE
            j += TILE
        if i < f.queries:
            scale = where(total == zero, zero, one / total)
            c = lane
            while c < f.width:
                store_sum(f.out.data, at_o + c, load_sum(f.out.data, at_o + c) * scale)
                c += TILE
            if lane == 0:
                kept = where(total == zero, infinite, best + log(total))
                store_sum(f.lse, (b * f.heads + h) * f.queries + i, kept)

    return _each(query, e.shared(TILE * PITCH), warps)


def _each(query: Any, room: Any, warps: int) -> Any:
    """The loop over the queries of all heads, so many at a time as a block has warps."""

    def run(f):
        shared, tiles, unit = room(), (f.queries + warps - 1) // warps, np.int64(block())
        while unit < f.batch * f.heads * tiles:
            head, k = split(unit, tiles)
            b, h = split(head, f.heads)
            query(f, shared, b, h, k * warps)
            unit += blocks()

    return run


# --- backward --------------------------------------------------------------------------------------------------


def _adding(element: Element, sums: Element) -> Any:
    """A function that adds rows, weighed, to a row of a gradient, or begins it where that is `fresh`."""
    load, store, zero, weigh = sums.load, sums.store, sums.constant(0), _weighing(element)

    def add(f, operand, weight, at, count, grad, to, scale, fresh, there):
        lane, c = np.int64(thread() % WARP), np.int64(0)
        while c < f.width:
            column = min(c + lane, f.width - 1)
            value = weigh(weight, operand, at, count, column) * scale
            if there and c + lane < f.width:
                before = zero if fresh else load(grad.data, to + column)
                store(grad.data, to + column, before + value)
            c += TILE

    return add


def _query_gradient(target: Target, dtype: int, threads: int) -> Any:
    """``query(f, shared, also, b, h, first)``: the gradients of some queries, one by each warp."""
    e, sums, warps = target.elements[dtype], target.elements[computed_in(dtype)], threads // WARP
    load, load_lse, get, cast, zero, exp = e.load, sums.load, e.get, e.constant, e.constant(0), e.math.exp
    tile, score, add = _tile(e, warps), _counted(e), _adding(e, sums)
    fold_sum = folding_one(target, plain_sum, dtype, threads)

    def inner(f, at_g, at_o, lane):
        """The inner product of a row of the result and of its gradient."""
        total, c = zero, lane
        while c < f.width:
            total += load(f.grad_out.data, at_g + c) * load(f.out.data, at_o + c)
            c += TILE
        return fold_sum(total, WARPS)

    def query(f, shared, also, b, h, first):
        lane, i = np.int64(thread() % WARP), first + thread() // WARP
        own, (group, _) = min(i, f.queries - 1), split(h, f.group)
        at_q, at_g = rows_of(f.q, b, h) + own * f.q.row, rows_of(f.grad_out, b, h) + own * f.grad_out.row
        at_k, at_v, to = (
            rows_of(f.k, b, group),
            rows_of(f.v, b, group),
            rows_of(f.grad_q, b, h) + own * f.grad_q.row,
        )
        delta = inner(f, at_g, rows_of(f.out, b, h) + own * f.out.row, lane)
        lse, j = load_lse(f.lse, (b * f.heads + h) * f.queries + own), np.int64(0)
        last = min(f.keys, first + warps) if f.causal != 0 else f.keys
        while j < last:
            product, other, c = zero, zero, np.int64(0)
            while c < f.width:
                barrier()
                tile(shared, f.k, at_k, j, f.keys, c, f.width)
                tile(also, f.v, at_v, j, f.keys, c, f.width)
                barrier()
                q = load(f.q.data, at_q + c + lane) if c + lane < f.width else zero
                g = load(f.grad_out.data, at_g + c + lane) if c + lane < f.width else zero
                d = np.int32(0)
                while d < TILE:
                    product += shuffle_from(q, d) * get(shared, lane * PITCH + d)
                    other += shuffle_from(g, d) * get(also, lane * PITCH + d)
                    d = np.int32(d + 1)
                c += TILE
            weight = exp(score(f, product, b, h, i, j + lane) - lse) * (other - delta)
            at, count, scale = at_k + j * f.k.row, f.keys - j, cast(float_of(f.scale))
            add(f, f.k, weight, at, count, f.grad_q, to, scale, j == 0, i < f.queries)
            j += TILE

    return query


def _key_gradient(target: Target, dtype: int, threads: int) -> Any:
    """``key(f, rooms, b, group, first)``: the gradients of some keys and values, one by each warp."""
    e, sums, warps = target.elements[dtype], target.elements[computed_in(dtype)], threads // WARP
    load, load_lse, get, cast, zero, exp = e.load, sums.load, e.get, e.constant, e.constant(0), e.math.exp
    tile, score, add = _tile(e, warps), _counted(e), _adding(e, sums)

    def products(f, rooms, b, h, i, at_k, at_v, lane):
        """Of this thread's query: the products with key, of gradient and value, and of gradient and result."""
        product, other, delta, c = zero, zero, zero, np.int64(0)
        while c < f.width:
            barrier()
            tile(rooms[0], f.q, rows_of(f.q, b, h), i, f.queries, c, f.width)
            tile(rooms[1], f.grad_out, rows_of(f.grad_out, b, h), i, f.queries, c, f.width)
            tile(rooms[2], f.out, rows_of(f.out, b, h), i, f.queries, c, f.width)
            barrier()
            k = load(f.k.data, at_k + c + lane) if c + lane < f.width else zero
            v = load(f.v.data, at_v + c + lane) if c + lane < f.width else zero
            d = np.int32(0)
            while d < TILE:
                g = get(rooms[1], lane * PITCH + d)
                product += shuffle_from(k, d) * get(rooms[0], lane * PITCH + d)
                other += shuffle_from(v, d) * g
                delta += g * get(rooms[2], lane * PITCH + d)
                d = np.int32(d + 1)
            c += TILE
        return product, other - delta

    def key(f, rooms, b, group, first):
        lane, j = np.int64(thread() % WARP), first + thread() // WARP
        own, there, fresh = min(j, f.keys - 1), j < f.keys, True
        at_k, at_v = rows_of(f.k, b, group) + own * f.k.row, rows_of(f.v, b, group) + own * f.v.row
        to_k = rows_of(f.grad_k, b, group) + own * f.grad_k.row
        to_v = rows_of(f.grad_v, b, group) + own * f.grad_v.row
        h = group * f.group
        while h < (group + 1) * f.group:
            i = np.int64(0)
            while i < f.queries:
                product, other = products(f, rooms, b, h, i, at_k, at_v, lane)
                row = min(i + lane, f.queries - 1)
                lse = load_lse(f.lse, (b * f.heads + h) * f.queries + row)
                weight = exp(score(f, product, b, h, i + lane, own) - lse)
                at, count = rows_of(f.grad_out, b, h) + i * f.grad_out.row, f.queries - i
                add(f, f.grad_out, weight, at, count, f.grad_v, to_v, cast(1), fresh, there)
                at = rows_of(f.q, b, h) + i * f.q.row
                scale = cast(float_of(f.scale))
                add(f, f.q, weight * other, at, count, f.grad_k, to_k, scale, fresh, there)
                fresh = False
                i += TILE
            h += 1

    return key


def _backward(target: Target, dtype: int, threads: int) -> Any:
    e, warps = target.elements[dtype], threads // WARP
    room_1, room_2, room_3 = (e.shared(TILE * PITCH) for _ in range(3))
    query, key = _query_gradient(target, dtype, threads), _key_gradient(target, dtype, threads)

    def run(f):
        rooms = (room_1(), room_2(), room_3())
        groups, _ = split(f.heads, f.group)
        of_queries, of_keys = (f.queries + warps - 1) // warps, (f.keys + warps - 1) // warps
        begin, unit = f.batch * f.heads * of_queries, np.int64(block())
        while unit < begin + f.batch * groups * of_keys:
            if unit < begin:
                head, k = split(unit, of_queries)
                b, h = split(head, f.heads)
                query(f, rooms[0], rooms[1], b, h, k * warps)
            else:
                head, k = split(unit - begin, of_keys)
                b, group = split(head, groups)
                key(f, rooms, b, group, k * warps)
            unit += blocks()

    return run
