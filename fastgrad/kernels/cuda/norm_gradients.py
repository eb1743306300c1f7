"""All gradients of layer and root-mean-square normalisation on the CUDA device; see `normalization` and `shares`.

See Note [Stages of gradients] in `native.contracts.frames.norm_gradients`. In the first stage a block takes the rows of
a step. A team of its threads has every so-manyeth of them and reads it once; as the same thread always has the same
columns, what weight and bias need is added up in registers, and at the end over the teams. Rows of more than one
stretch are read again for that. In the second stage `PARTS` blocks have the columns of a step.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, barrier, block, opaque, thread, where
from fastgrad.kernels.cuda.normalization import Rows, gradient_of_row
from fastgrad.kernels.cuda.shares import ACCESS, Share, by_shares, mapping, most_of, putting, share_of
from fastgrad.kernels.cuda.teams import THREADS, place_of, size_of, sums, way
from fastgrad.native.contracts.element_types import FLOAT64, computed_in
from fastgrad.native.contracts.frames.norm_gradients import COLUMNS

PARTS = 16
"""Blocks of a step."""


def _length_of(f):
    return f.length


def _in_order(f, r, k):
    return r * f.length + k


def _column(f, r, k):
    return k


def _in_vectors(f, width):
    return f.length & width - 1 == 0 and (f.out | f.x | f.grad | f.weight) & ACCESS - 1 == 0


def _operands(f):
    return f.out, f.grad, f.x, f.weight, f.mean, f.rstd


def _weights(e: Element, share: Share) -> Any:
    return share_of(e, share.count // share.width, share.width, _column).read


def _sums_of_rows(of: Rows, threads: int, share: Share) -> Any:
    """``sums(f, step, lane, lanes, how, shared)``: the gradients of a step's rows, and the sums over them.

    In the block's memory there is room for a share of each thread.
    """
    e, centred, warps = of.target.elements[of.dtype], of.centred, threads // WARP
    zero, row, kept = (
        e.constant(0),
        gradient_of_row(of, share),
        of.target.elements[computed_in(of.dtype)].load,
    )
    starts, read, count, blank = share.starts, share.read, share.count, (e.constant(0),) * share.count
    store_sum, get, put_share = of.target.elements[FLOAT64].store, e.get, putting(share, e.put)

    def by_weight(total, v, x, mean, scale, there):
        return where(there, total + v * ((x - mean) * scale), total)

    def by_bias(total, v, there):
        return where(there, total + v, total)

    weighed, biased = mapping(share, by_weight, 3, 3), mapping(share, by_bias, 2, 1)

    def write(f, shared, to, begin, stretch, team, teams, start, totals):
        """The sums of all teams, each of which has a row of the room."""
        put_share(shared, team * stretch - begin, start, totals)
        barrier()
        j = np.int64(thread())
        while j < stretch and begin + j < f.length:
            value, k = np.float64(0), np.int64(0)
            while k < teams:
                value += np.float64(get(shared, k * stretch + j))
                k += 1
            store_sum(f.sums, to + begin + j, value)
            j += threads
        barrier()

    def sums_of(f, step, lane, lanes, how, shared):
        first, end = step * f.block, min((step + 1) * f.block, f.rows)
        team, teams, stretch = np.int64(thread() // WARP >> how), warps >> how, lanes * count
        many, to, begin, r = f.length > stretch, step * f.length * (2 if centred else 1), np.int64(0), first
        while many and r < end:
            row(f, min(r + team, end - 1), lane, lanes, how, r + team < end)
            r += teams
        while begin < f.length:
            start = starts(begin, lane, lanes, f.length)
            of_weight, of_bias, r = blank, blank, first
            while r < end:
                number, counts = min(r + team, end - 1), r + team < end
                if many:
                    v, x = read(f, f.grad, number, start), read(f, f.x, number, start)
                    mean, scale = kept(f.mean, number) if centred else zero, kept(f.rstd, number)
                else:
                    v, x, mean, scale = row(f, number, lane, lanes, how, counts)
                of_weight = weighed(of_weight, v, x, mean, scale, counts)
                of_bias = biased(of_bias, v, counts) if centred else of_bias
                r = opaque(r + teams)
            write(f, shared, to, begin, stretch, team, teams, start, of_weight)
            if centred:
                write(f, shared, to + f.length, begin, stretch, team, teams, start, of_bias)
            begin = opaque(begin + stretch)

    return sums_of


def _totals(target: Target, dtype: int, threads: int) -> Any:
    """``total(f, out, step, part, before, parts)``: the sums of a run of columns, over all blocks.

    Each warp has every so-manyeth block, and what they have is added up in the order of the warps.
    """
    double, store = target.elements[FLOAT64], target.elements[computed_in(dtype)].store
    warps, columns, room = threads // WARP, COLUMNS // PARTS, double.shared(threads)
    load_sum, get, put = double.load, double.get, double.put

    def total(f, out, step, part, before, parts):
        shared, column, warp = room(), np.int64(thread() % WARP), np.int64(thread() // WARP)
        while column < columns:
            j, value, k = step * COLUMNS + part * columns + column, np.float64(0), warp
            while j < f.length and k < f.blocks:
                value += load_sum(f.sums, k * f.length * parts + before + j)
                k += warps
            put(shared, thread(), value)
            barrier()
            if warp == 0 and j < f.length:
                for k in range(1, warps):
                    value += get(shared, k * WARP + thread())
                store(out, j, value)
            barrier()
            column += WARP

    return total


def rows_gradients(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """The gradients of x, weight and, where means are subtracted, bias."""
    e, centred = target.elements[dtype], bool(kernel.options["centred"])
    most = most_of(e)
    of = Rows(target, dtype, centred, sums(target, dtype, threads), _operands, _length_of, _weights, True)
    room = target.elements[computed_in(dtype)].shared(threads * most)
    make = functools.partial(_sums_of_rows, of, threads)
    sums_of, total = (
        by_shares(e, make, (_in_order, _in_order), _in_vectors, _length_of),
        _totals(target, dtype, threads),
    )

    def run(f):
        step, part = f.first + block() // PARTS, np.int64(block() % PARTS)
        if f.stage != 0:
            total(f, f.weight_out, step, part, np.int64(0), 2 if centred else 1)
            if centred:
                total(f, f.bias_out, step, part, f.length, 2)
        elif part == 0:
            how = way(np.int64(threads), f.length, False, threads, most)
            sums_of(f, step, place_of(how, threads), size_of(how), how, room())

    return Body(run, ("steps", PARTS), 1, threads, resident=512 if e.size < 8 else 256)
