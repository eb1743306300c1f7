"""Kernels of layer, root-mean-square, group and batch normalisation on the CUDA device; see `teams`.

What they compute is what those of the CPU do, see `kernels.cpu.normalization`: extents (n, g, c, s), statistics of rows
or of channels. A team of threads has a row or a channel; sums are those of `reduce`'s Note [Sums on the GPU].
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, float_of, opaque
from fastgrad.kernels.cuda.places import part_of, split
from fastgrad.kernels.cuda.shares import ACCESS, Share, by_shares, mapping, most_of, resident, share_of
from fastgrad.kernels.cuda.teams import THREADS, added, by_teams, plain_sum, sums, whole
from fastgrad.native.contracts.element_types import computed_in

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


def _in_order(f, r, e):
    return r * f.c * f.s + e


def _anywhere(f, r, e):
    at, _ = in_row(f, r, e)
    return at


def _weight_beside(f, r, e):
    _, g = split(r, f.groups)
    channel = e
    if f.s != 1:
        channel, _ = split(e, f.s)
    return g * f.c + channel


def _weight_anywhere(f, r, e):
    _, w = in_row(f, r, e)
    return w


def _in_vectors(f, width, addresses, of_weights):
    """Whether rows are read by pieces, and their weights: each element has one, or all of a piece the same."""
    one_each = f.s == 1 or of_weights == 0
    addresses |= of_weights if one_each else np.int64(0)
    of_piece = f.c * f.s if one_each else f.s
    return f.channels_last == 0 and of_piece & width - 1 == 0 and addresses & ACCESS - 1 == 0


class Rows(NamedTuple):
    """What functions over rows are made of: elements, whether they are centred, the sum over the threads of a row.

    Gradients have these besides: ``operands(f)``, the addresses of result, gradient, operand, weight and statistics,
    ``length(f)``, ``weights(element, share)``, which makes a function as `_weights_of` does, and whether gradients are
    kept without weights.
    """

    target: Target
    dtype: int
    centred: bool
    fold: Any
    operands: Any = None
    length: Any = None
    weights: Any = None
    bare: bool = False


def _of_rows(make: Any, vectors: Any, of: Rows, threads: int) -> Body:
    e = of.target.elements[of.dtype]
    row = by_shares(e, functools.partial(make, of), (_in_order, _anywhere), vectors, _length_of_row, 2)
    run = by_teams(row, _rows_of, _length_of_row, _never, threads, most_of(e))
    return Body(run, ("n", "groups"), threads // WARP, threads, resident=resident(of.dtype, 2))


def _weights_of(e: Element, share: Share) -> Any:
    """``weights(f, address, r, start)``: what belongs to a share of a row."""
    place = _weight_beside if share.width > 1 else _weight_anywhere
    of_weights = share_of(e, share.count // share.width, share.width, place)
    read, spread = of_weights.read, of_weights.spread

    def weights(f, address, r, start):
        return read(f, address, r, start) if f.s == 1 else spread(f, address, r, start)

    return weights


def _product(a, b):
    return a * b


def _normalised_row(of: Rows, share: Share) -> Any:
    e, centred, fold = of.target.elements[of.dtype], of.centred, of.fold
    cast, sqrt, zero, one = e.constant, e.math.sqrt, e.constant(0), e.constant(1)
    keep = of.target.elements[computed_in(of.dtype)].store
    count, blank, weights = share.count, (zero,) * share.count, _weights_of(e, share)
    starts, read, write, total_of = share.starts, share.read, share.write, share.total

    def square(x, mean):
        return (x - mean) * (x - mean)

    def normal(x, mean, scale):
        return (x - mean) * scale

    squares, normals = mapping(share, square, 1, 1), mapping(share, normal, 1, 2)
    products, added_to = mapping(share, _product, 2), mapping(share, plain_sum, 2)

    def row(f, r, lane, lanes, how, there):
        length, step, mean, x = f.c * f.s, lanes * count, zero, blank
        number, many = cast(length), length > step  # else it stays in registers
        total, lost, first = zero, zero, np.int64(0)
        while centred and first < length:
            start = starts(first, lane, lanes, length)
            x = read(f, f.x.data, r, start)
            total, lost = added(total, lost, total_of(x, start))
            first = opaque(first + step)
        if centred:
            total, lost = fold(total, lost, how)
            mean = whole(total, lost) / number
        total, lost, first = zero, zero, np.int64(0)
        while first < length:
            start = starts(first, lane, lanes, length)
            if many or not centred:
                x = read(f, f.x.data, r, start)
            total, lost = added(total, lost, total_of(squares(x, mean), start))
            first = opaque(first + step)
        total, lost = fold(total, lost, how)
        scale = one / sqrt(whole(total, lost) / number + cast(float_of(f.eps)))
        if there and lane == 0:
            if centred:
                keep(f.mean, r, mean)
            keep(f.rstd, r, scale)
        first = np.int64(0)
        while there and first < length:
            start = starts(first, lane, lanes, length)
            if many:
                x = read(f, f.x.data, r, start)
            values = normals(x, mean, scale)
            if f.weight.data != 0:
                values = products(values, weights(f, f.weight.data, r, start))
            if f.bias.data != 0:
                values = added_to(values, weights(f, f.bias.data, r, start))
            write(f, f.out, r, start, values)
            first = opaque(first + step)

    return row


def rows(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """With statistics of rows: means and reciprocal deviations."""

    def vectors(f, width):
        return _in_vectors(f, width, f.out | f.x.data, f.weight.data | f.bias.data)

    of = Rows(target, dtype, bool(kernel.options["centred"]), sums(target, dtype, threads))
    return _of_rows(_normalised_row, vectors, of, threads)


def gradient_of_row(of: Rows, share: Share) -> Any:
    """``row(f, r, lane, lanes, how, there)``: write the gradient of a row.

    It gives the last share of the gradients of the result and of the elements, and the statistics of the row.
    """
    e, centred, fold, operands, length_of = (
        of.target.elements[of.dtype], of.centred, of.fold, of.operands, of.length,
    )  # fmt: skip
    cast, zero, kept = e.constant, e.constant(0), of.target.elements[computed_in(of.dtype)].load
    count, blank, weights, bare = share.count, (zero,) * share.count, of.weights(e, share), of.bare
    starts, read, write, total_of = share.starts, share.read, share.write, share.total

    def product(u, x, mean):
        return u * (x - mean)

    def gradient(u, x, mean, scale, a, b):
        return scale * (u - a - (x - mean) * b)

    products, gradients = mapping(share, product, 2, 1), mapping(share, gradient, 2, 4)
    weighted = mapping(share, _product, 2)

    def by_weights(f, weight, r, start, v):
        return weighted(v, weights(f, weight, r, start)) if weight != 0 else v

    def gradients_of(f, grad, weight, r, start):
        v = read(f, grad, r, start)
        return v if bare else by_weights(f, weight, r, start, v)

    def row(f, r, lane, lanes, how, there):
        out, grad, operand, weight, means, scales = operands(f)
        length, step, v, x, first = length_of(f), lanes * count, blank, blank, np.int64(0)
        mean, scale = kept(means, r) if centred else zero, kept(scales, r)
        one, lost_1, two, lost_2 = zero, zero, zero, zero
        while first < length:
            start = starts(first, lane, lanes, length)
            v, x = gradients_of(f, grad, weight, r, start), read(f, operand, r, start)
            u = by_weights(f, weight, r, start, v) if bare else v
            if centred:
                one, lost_1 = added(one, lost_1, total_of(u, start))
            two, lost_2 = added(two, lost_2, total_of(products(u, x, mean), start))
            first = opaque(first + step)
        if centred:
            one, lost_1 = fold(one, lost_1, how)
        two, lost_2 = fold(two, lost_2, how)
        a, b = whole(one, lost_1) / cast(length), whole(two, lost_2) * scale * scale / cast(length)
        first = np.int64(0)
        while there and first < length:
            start = starts(first, lane, lanes, length)
            if length > step:  # else it stands in registers
                v, x = gradients_of(f, grad, weight, r, start), read(f, operand, r, start)
            u = by_weights(f, weight, r, start, v) if bare else v
            write(f, out, r, start, gradients(u, x, mean, scale, a, b))
            first = opaque(first + step)
        return v, x, mean, scale

    return row


def _operands(f):
    return f.out, f.grad.data, f.x.data, f.weight.data, f.mean.data, f.rstd.data


def rows_backward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """``r (u - mean(u) - h mean(u h))``: u is gradient times weight, r the reciprocal deviation, h the normalised x."""

    def vectors(f, width):
        return _in_vectors(f, width, f.out | f.x.data | f.grad.data, f.weight.data)

    of = Rows(
        target, dtype, bool(kernel.options["centred"]), sums(target, dtype, threads), _operands, _length_of_row,
        _weights_of,
    )  # fmt: skip
    return _of_rows(gradient_of_row, vectors, of, threads)


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
