"""Kernels of layer, root-mean-square, group and batch normalisation on the CUDA device; see `teams`.

What they compute is what those of the CPU do, see `kernels.cpu.normalization`: extents (n, g, c, s), statistics of rows
or of channels. A team of threads has a row or a channel; sums are those of `reduce`'s Note [Sums on the GPU].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, block, float_of, thread
from fastgrad.kernels.cuda.places import part_of, split
from fastgrad.kernels.cuda.teams import THREADS, WARPS, added, by_teams, sums, whole
from fastgrad.native.contracts.element_types import FLOAT64, computed_in
from fastgrad.native.contracts.frames.norm_gradients import COLUMNS

# --- statistics of rows ----------------------------------------------------------------------------------------


def in_row(f, r, e):
    """Where the e-th element of a row is, and which weight belongs to it."""
    i, g = split(r, f.groups)
    if f.channels_last != 0:
        place, channel = split(e, f.c)
        return ((i * f.s + place) * f.groups + g) * f.c + channel, g * f.c + channel
    channel = e
    if f.s != 1:
        channel, _ = split(e, f.s)
    return r * f.c * f.s + e, g * f.c + channel


def _rows_of(f):
    return f.n * f.groups


def _length_of_row(f):
    return f.c * f.s


def _never(f):
    return False


def _of_rows(row: Any, threads: int) -> Body:
    run = by_teams(row, _rows_of, _length_of_row, _never, threads)
    return Body(run, ("n", "groups"), threads // WARP, threads)


def _reading(load: Any) -> tuple[Any, Any]:
    """``element(f, r, k)``, of a row, and ``four(f, r, k, lanes)``, which are read together."""

    def element(f, r, k):
        at, _ = in_row(f, r, k)
        return load(f.x.data, at)

    def four(f, r, k, lanes):
        a, b = element(f, r, k), element(f, r, k + lanes)
        return a, b, element(f, r, k + 2 * lanes), element(f, r, k + 3 * lanes)

    return element, four


def rows(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """With statistics of rows: means and reciprocal deviations."""
    e, centred = target.elements[dtype], bool(kernel.options["centred"])
    load, store, cast, sqrt = e.load, e.store, e.constant, e.math.sqrt
    zero, one = e.constant(0), e.constant(1)
    fold, keep = sums(target, dtype, threads), target.elements[computed_in(dtype)].store
    element, four = _reading(load)

    def write(f, r, k, x, mean, scale):
        at, w = in_row(f, r, k)
        value = (x - mean) * scale
        value = value * load(f.weight.data, w) if f.weight.data != 0 else value
        store(f.out, at, value + load(f.bias.data, w) if f.bias.data != 0 else value)

    def row(f, r, lane, lanes, how, there):
        length, mean = f.c * f.s, zero
        count = cast(length)
        if centred:
            total, lost, k = zero, zero, lane
            while k + 3 * lanes < length:
                a, b, c, d = four(f, r, k, lanes)
                total, lost = added(total, lost, (a + b) + (c + d))
                k += 4 * lanes
            while k < length:
                total, lost = added(total, lost, element(f, r, k))
                k += lanes
            total, lost = fold(total, lost, how)
            mean = whole(total, lost) / count
        total, lost, k = zero, zero, lane
        while k + 3 * lanes < length:
            a, b, c, d = four(f, r, k, lanes)
            a, b, c, d = a - mean, b - mean, c - mean, d - mean
            total, lost = added(total, lost, (a * a + b * b) + (c * c + d * d))
            k += 4 * lanes
        while k < length:
            off = element(f, r, k) - mean
            total, lost = added(total, lost, off * off)
            k += lanes
        total, lost = fold(total, lost, how)
        scale = one / sqrt(whole(total, lost) / count + cast(float_of(f.eps)))
        if not there:
            return
        if lane == 0:
            if centred:
                keep(f.mean, r, mean)
            keep(f.rstd, r, scale)
        k = lane
        while k + 3 * lanes < length:
            a, b, c, d = four(f, r, k, lanes)
            write(f, r, k, a, mean, scale)
            write(f, r, k + lanes, b, mean, scale)
            write(f, r, k + 2 * lanes, c, mean, scale)
            write(f, r, k + 3 * lanes, d, mean, scale)
            k += 4 * lanes
        while k < length:
            write(f, r, k, element(f, r, k), mean, scale)
            k += lanes

    return _of_rows(row, threads)


def rows_backward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """``r (u - mean(u) - h mean(u h))``: u is gradient times weight, r the reciprocal deviation, h the normalised x."""
    e, centred = target.elements[dtype], bool(kernel.options["centred"])
    load, store, cast, zero, one = e.load, e.store, e.constant, e.constant(0), e.constant(1)
    fold, kept = sums(target, dtype, threads), target.elements[computed_in(dtype)].load

    def weight_of(f, w):
        return load(f.weight.data, w) if f.weight.data != 0 else one

    def pair(f, r, k):
        """The gradient of a place, times its weight, and the element there."""
        at, w = in_row(f, r, k)
        return load(f.grad.data, at) * weight_of(f, w), load(f.x.data, at)

    def write(f, r, k, value):
        at, _ = in_row(f, r, k)
        store(f.out, at, value)

    def row(f, r, lane, lanes, how, there):
        length = f.c * f.s
        mean, scale = kept(f.mean.data, r) if centred else zero, kept(f.rstd.data, r)
        first, lost_1, second, lost_2, k = zero, zero, zero, zero, lane
        while k + lanes < length:  # two places are read together
            (u, x), (v, y) = pair(f, r, k), pair(f, r, k + lanes)
            first, lost_1 = added(first, lost_1, u + v)
            second, lost_2 = added(second, lost_2, u * (x - mean) + v * (y - mean))
            k += 2 * lanes
        while k < length:
            u, x = pair(f, r, k)
            first, lost_1 = added(first, lost_1, u)
            second, lost_2 = added(second, lost_2, u * (x - mean))
            k += lanes
        first, lost_1 = fold(first, lost_1, how)
        second, lost_2 = fold(second, lost_2, how)
        a = whole(first, lost_1) / cast(length) if centred else zero
        b = whole(second, lost_2) * scale * scale / cast(length)
        k = lane
        while there and k + lanes < length:
            (u, x), (v, y) = pair(f, r, k), pair(f, r, k + lanes)
            write(f, r, k, scale * (u - a - (x - mean) * b))
            write(f, r, k + lanes, scale * (v - a - (y - mean) * b))
            k += 2 * lanes
        while there and k < length:
            u, x = pair(f, r, k)
            write(f, r, k, scale * (u - a - (x - mean) * b))
            k += lanes

    body = _of_rows(row, threads)
    return body._replace(resident=512) if dtype == FLOAT64 else body


def _image(f, numel):
    """How many of so many elements, or statistics, an image has."""
    of_each, _ = split(numel, max(f.n, 1))
    return of_each


# --- gradients of weights --------------------------------------------------------------------------------------


def weight(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The gradient of the weight: sums of ``v h`` over (n, s), v that of the result, h the normalised x."""
    by_row, centred = kernel.options["statistics"] == "rows", bool(kernel.options["centred"])
    e = target.elements[dtype]
    load, store, zero = e.load, e.store, e.constant(0)
    fold, kept = sums(target, dtype, threads), target.elements[computed_in(dtype)].load

    def channel(f, k, lane, lanes, how, there):
        g, _ = split(k, f.c)
        step, of_rows = _image(f, f.x.numel), _image(f, f.rstd.numel)
        j, total, lost = lane, zero, zero
        while j < f.n * f.s:
            i, place = split(j, f.s)
            at = i * step + k * f.s + place
            if by_row and f.channels_last != 0:
                at = i * step + place * f.groups * f.c + k
            own = i * of_rows + g if by_row else k
            x = load(f.x.data, at) - kept(f.mean.data, own) if centred else load(f.x.data, at)
            total, lost = added(total, lost, load(f.grad.data, at) * x * kept(f.rstd.data, own))
            j += lanes
        total, lost = fold(total, lost, how)
        if there and lane == 0:
            store(f.out, k, whole(total, lost))

    def side_by_side(f):
        return f.s == 1 or (by_row and f.channels_last != 0)

    run = by_teams(channel, _channels_of_groups, _length_of_channel, side_by_side, threads)
    return Body(run, ("groups", "c"), threads // WARP, threads)


def _channels_of_groups(f):
    return f.groups * f.c


def _length_of_channel(f):
    return f.n * f.s


# --- statistics of channels ------------------------------------------------------------------------------------


def in_channel(f, image, k, j):
    """Where the j-th element of a channel is."""
    i, place = split(j, f.s)
    return i * image + k * f.s + place


def _channels_of(f):
    return f.c


def _beside(f):
    return f.s == 1


def _of_channels(channel: Any, threads: int) -> Body:
    run = by_teams(channel, _channels_of, _length_of_channel, _beside, threads)
    return Body(run, ("c",), threads // WARP, threads)


def channels(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """With statistics of channels: means and reciprocal deviations."""
    e = target.elements[dtype]
    load, store, cast, sqrt, zero, one = (
        e.load,
        e.store,
        e.constant,
        e.math.sqrt,
        e.constant(0),
        e.constant(1),
    )
    fold, store_kept = sums(target, dtype, threads), target.elements[computed_in(dtype)].store

    def move(running, k, value, momentum):
        store(running, k, (one - momentum) * load(running, k) + momentum * value)

    def keep(f, k, mean, variance, scale, count):
        momentum = cast(float_of(f.momentum))
        store_kept(f.mean, k, mean)
        store_kept(f.rstd, k, scale)
        if f.means.data != 0:
            move(f.means.data, k, mean, momentum)
        if f.variances.data != 0:
            move(f.variances.data, k, variance * count / (count - one), momentum)

    def channel(f, k, lane, lanes, how, there):
        length, image = f.n * f.s, _image(f, f.x.numel)
        count = cast(length)
        total, lost, j = zero, zero, lane
        while j < length:
            total, lost = added(total, lost, load(f.x.data, in_channel(f, image, k, j)))
            j += lanes
        total, lost = fold(total, lost, how)
        mean = whole(total, lost) / count
        total, lost, j = zero, zero, lane
        while j < length:
            off = load(f.x.data, in_channel(f, image, k, j)) - mean
            total, lost = added(total, lost, off * off)
            j += lanes
        total, lost = fold(total, lost, how)
        variance = whole(total, lost) / count
        scale = one / sqrt(variance + cast(float_of(f.eps)))
        if not there:
            return
        if lane == 0:
            keep(f, k, mean, variance, scale, count)
        factor = scale * load(f.weight.data, k) if f.weight.data != 0 else scale
        bias, j = load(f.bias.data, k) if f.bias.data != 0 else zero, lane
        while j < length:
            at = in_channel(f, image, k, j)
            store(f.out, at, (load(f.x.data, at) - mean) * factor + bias)
            j += lanes

    return _of_channels(channel, threads)


def channels_backward(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """As `rows_backward`, with statistics of channels."""
    e = target.elements[dtype]
    load, store, cast, zero = e.load, e.store, e.constant, e.constant(0)
    fold, kept = sums(target, dtype, threads), target.elements[computed_in(dtype)].load

    def channel(f, k, lane, lanes, how, there):
        length, image = f.n * f.s, _image(f, f.x.numel)
        mean, r = kept(f.mean.data, k), kept(f.rstd.data, k)
        first, lost_1, second, lost_2, j = zero, zero, zero, zero, lane
        while j < length:
            at = in_channel(f, image, k, j)
            v = load(f.grad.data, at)
            first, lost_1 = added(first, lost_1, v)
            second, lost_2 = added(second, lost_2, v * (load(f.x.data, at) - mean))
            j += lanes
        first, lost_1 = fold(first, lost_1, how)
        second, lost_2 = fold(second, lost_2, how)
        a, b = whole(first, lost_1) / cast(length), whole(second, lost_2) * r * r / cast(length)
        scale = r * load(f.weight.data, k) if f.weight.data != 0 else r
        j = lane
        while there and j < length:
            at = in_channel(f, image, k, j)
            store(f.out, at, scale * (load(f.grad.data, at) - a - (load(f.x.data, at) - mean) * b))
            j += lanes

    return _of_channels(channel, threads)


STEPS = 4  # elements of a thread


def _scaling(e: Element) -> Any:
    """``scaling(f, at)``: the channel of an element, and what it is multiplied by."""
    load, cast, sqrt, one = e.load, e.constant, e.math.sqrt, e.constant(1)

    def scaling(f, at):
        line, _ = split(at, f.s)
        _, k = split(line, f.c)
        scale = one / sqrt(load(f.variances.data, k) + cast(float_of(f.eps)))
        return k, (scale * load(f.weight.data, k) if f.weight.data != 0 else scale)

    return scaling


def fixed(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """With statistics of channels that are given."""
    e, per_block = target.elements[dtype], threads * STEPS
    load, store, scaling = e.load, e.store, _scaling(e)

    def run(f):
        at, end = part_of(f.x.numel, per_block)
        while at < end:
            k, scale = scaling(f, at)
            value = (load(f.x.data, at) - load(f.means.data, k)) * scale
            store(f.out, at, value + load(f.bias.data, k) if f.bias.data != 0 else value)
            at += threads

    return Body(run, ("x.numel",), per_block, threads)


def fixed_backward(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """What a gradient is multiplied by, where the statistics of channels are given."""
    e, per_block = target.elements[dtype], threads * STEPS
    load, store, scaling = e.load, e.store, _scaling(e)

    def run(f):
        at, end = part_of(f.grad.numel, per_block)
        while at < end:
            _, scale = scaling(f, at)
            store(f.out, at, load(f.grad.data, at) * scale)
            at += threads

    return Body(run, ("grad.numel",), per_block, threads)


# --- all gradients at once -------------------------------------------------------------------------------------


def _row_gradient(target: Target, dtype: int, centred: bool, threads: int) -> Any:
    """The gradient of a row, by a warp."""
    e, fold = target.elements[dtype], sums(target, dtype, threads)
    load, store, cast, zero = e.load, e.store, e.constant, e.constant(0)
    kept = target.elements[computed_in(dtype)].load

    def row(f, r, lane, there):
        mean, scale, start = kept(f.mean, r) if centred else zero, kept(f.rstd, r), r * f.length
        first, lost_1, second, lost_2, k = zero, zero, zero, zero, lane
        while k < f.length:
            u = load(f.grad, start + k) * load(f.weight, k)
            first, lost_1 = added(first, lost_1, u)
            second, lost_2 = added(second, lost_2, u * (load(f.x, start + k) - mean))
            k += WARP
        first, lost_1 = fold(first, lost_1, WARPS)
        second, lost_2 = fold(second, lost_2, WARPS)
        a = whole(first, lost_1) / cast(f.length) if centred else zero
        b = whole(second, lost_2) * scale * scale / cast(f.length)
        k = lane
        while there and k < f.length:
            u = load(f.grad, start + k) * load(f.weight, k)
            store(f.out, start + k, scale * (u - a - (load(f.x, start + k) - mean) * b))
            k += WARP

    return row


def _block_sums(target: Target, dtype: int, centred: bool, threads: int) -> Any:
    """The sums over the rows of a block that weight and bias need; a thread has some of the columns."""
    e, store_sum, zero = (
        target.elements[dtype],
        target.elements[FLOAT64].store,
        target.elements[dtype].constant(0),
    )
    load, kept, parts = e.load, target.elements[computed_in(dtype)].load, 2 if centred else 1

    def sums_of(f, step, first, end):
        j = np.int64(thread())
        to = step * f.length * parts
        while j < f.length:
            by_weight, lost_1, by_bias, lost_2, r = zero, zero, zero, zero, first
            while r < end:
                v, x = load(f.grad, r * f.length + j), load(f.x, r * f.length + j)
                x = x - kept(f.mean, r) if centred else x
                by_weight, lost_1 = added(by_weight, lost_1, v * x * kept(f.rstd, r))
                by_bias, lost_2 = added(by_bias, lost_2, v)
                r += 1
            store_sum(f.sums, to + j, whole(by_weight, lost_1))
            if centred:
                store_sum(f.sums, to + f.length + j, whole(by_bias, lost_2))
            j += threads

    return sums_of


def rows_gradients(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """The gradients of x, weight and, where means are subtracted, bias: see Note [Stages of gradients]."""
    centred, load_sum, store = (
        bool(kernel.options["centred"]), target.elements[FLOAT64].load, target.elements[computed_in(dtype)].store,
    )  # fmt: skip
    row, sums_of = (make(target, dtype, centred, threads) for make in (_row_gradient, _block_sums))
    parts = 2 if centred else 1

    def total(f, out, first, before):
        """The sums of a run of columns, of all blocks in their order."""
        j = np.int64(thread())
        while j < COLUMNS and first + j < f.length:
            value, k = 0.0, np.int64(0)
            while k < f.blocks:
                value += load_sum(f.sums, k * f.length * parts + before + first + j)
                k += 1
            store(out, first + j, value)
            j += threads

    def run(f):
        step = f.first + block()
        if f.stage != 0:
            total(f, f.weight_out, step * COLUMNS, np.int64(0))
            if centred:
                total(f, f.bias_out, step * COLUMNS, f.length)
            return
        first, end = step * f.block, min((step + 1) * f.block, f.rows)
        team, lane, r = np.int64(thread() // WARP), np.int64(thread() % WARP), first
        while r < end:
            row(f, min(r + team, end - 1), lane, r + team < end)
            r += threads // WARP
        sums_of(f, step, first, end)

    return Body(run, ("steps",), 1, threads)
