"""Kernels of layer, root-mean-square, group and batch normalisation.

All see their input as four extents (n, g, c, s). Weight and bias lie over (g, c).
Statistics are taken over (c, s), one pair for each of the n g *rows*, or over (n, s), one for each of the c *channels*
(then g is 1). They are kept as means and reciprocal deviations. Those of channels may move others, means and unbiased
variances.

=================  ==============  =============  ===========================
                   (n, g, c, s)    statistics     a weight belongs to
=================  ==============  =============  ===========================
layer norm, RMS    (rows, 1, m, 1)  rows          a place of the row
group norm         (N, G, C/G, S)  rows           a run of s within the row
batch norm         (N, 1, C, S)    channels       a channel
=================  ==============  =============  ===========================

Sums run as in `reduce`'s Note [Order of sums]: lanes within a block, float64 between blocks. Deviations are summed
from the mean, in a second pass over memory that the first has brought close.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.norm_columns import column_sums, square_columns, write_columns
from fastgrad.kernels.cpu.norm_groups import group_columns, group_columns_weight
from fastgrad.kernels.cpu.rows import BLOCK, blocked
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, SUM
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, f64s, float_of, stack_scratch
from fastgrad.native.contracts.element_types import FLOAT64

TILE = 2048
tile = stack_scratch(TILE)
_sqrt = ELEMENTS[FLOAT64].math.sqrt


class Pieces(NamedTuple):
    """Loops over contiguous memory of one dtype."""

    total: Any
    squares: Any
    products: Any
    weighted: Any
    fill: Any
    fill_scaled: Any
    fill_affine: Any
    fill_shifted: Any
    back: Any
    back_weighted: Any


def _sums(element: Any) -> tuple[Any, Any, Any, Any]:
    zero = element.constant(0)

    @njit(**INLINE)
    def plain(a, b, i, shift):  # type: ignore[no-untyped-def]
        return a[i]

    @njit(**INLINE)
    def square(a, b, i, shift):  # type: ignore[no-untyped-def]
        return (a[i] - shift) * (a[i] - shift)

    @njit(**INLINE)
    def product(a, b, i, shift):  # type: ignore[no-untyped-def]
        return a[i] * (b[i] - shift)

    @njit(**SUM)
    def weighted_block(v, x, w, start, end, shift):  # type: ignore[no-untyped-def]
        first, second = zero, zero
        for i in range(start, end):
            p = v[i] * w[i]
            first += p
            second += p * (x[i] - shift)
        return first, second

    @njit(**KERNEL)
    def weighted(v, x, w, n, shift):  # type: ignore[no-untyped-def]
        """The sums of ``v w`` and of ``v w (x - shift)``."""
        first, second = np.float64(0), np.float64(0)
        at = 0
        while at < n:
            a, b = weighted_block(v, x, w, at, min(at + BLOCK, n), shift)
            first += a
            second += b
            at += BLOCK
        return first, second

    return blocked(plain, zero), blocked(square, zero), blocked(product, zero), weighted


def pieces(dtype: int) -> Pieces:
    @njit(**LOOP)
    def fill(out, x, n, shift, scale, bias):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = (x[i] - shift) * scale + bias

    @njit(**LOOP)
    def fill_scaled(out, x, w, n, shift, scale):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = (x[i] - shift) * scale * w[i]

    @njit(**LOOP)
    def fill_affine(out, x, w, b, n, shift, scale):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = (x[i] - shift) * scale * w[i] + b[i]

    @njit(**LOOP)
    def fill_shifted(out, x, b, n, shift, scale):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = (x[i] - shift) * scale + b[i]

    @njit(**LOOP)
    def back(out, v, x, n, shift, w, scale, first, second):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = scale * (v[i] * w - first - (x[i] - shift) * second)

    @njit(**LOOP)
    def back_weighted(out, v, x, w, n, shift, scale, first, second):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = scale * (v[i] * w[i] - first - (x[i] - shift) * second)

    return Pieces(*_sums(ELEMENTS[dtype]), fill, fill_scaled, fill_affine, fill_shifted, back, back_weighted)


@njit(**INLINE)
def image(f):  # type: ignore[no-untyped-def]
    """The distance between images, of which a part of a launch may have some of the channels or groups only."""
    return f.x.numel // max(f.n, 1)


# --- statistics of rows -----------------------------------------------------------------------------------------


def rows(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """With statistics of rows: means and reciprocal deviations."""
    element, p = ELEMENTS[dtype], pieces(dtype)
    pointer, cast, zero = element.pointer, element.constant, element.constant(0)
    centred = kernel.options["centred"]
    groups = group_columns(dtype, centred)

    @njit(**KERNEL)
    def one_row(out, x, w, b, has_w, has_b, c, s, shift, scale):  # type: ignore[no-untyped-def]
        if not has_w and not has_b:
            p.fill(out, x, c * s, shift, scale, zero)
        elif s > 1:
            for k in range(c):
                factor = scale * w[k] if has_w else scale
                bias = b[k] if has_b else zero
                p.fill(advance(out, k * s), advance(x, k * s), s, shift, factor, bias)
        elif not has_w:
            p.fill_shifted(out, x, b, c, shift, scale)
        elif has_b:
            p.fill_affine(out, x, w, b, c, shift, scale)
        else:
            p.fill_scaled(out, x, w, c, shift, scale)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm(frame)
        n, g, c, s = f.n, f.groups, f.c, f.s
        length = c * s
        has_w, has_b = f.weight.data != 0, f.bias.data != 0
        out, means, scales = pointer(f.out), pointer(f.mean), pointer(f.rstd)
        x, w, b = pointer(f.x.data), pointer(f.weight.data), pointer(f.bias.data)
        eps = float_of(f.eps)
        if f.channels_last:
            for i in range(n):
                at = i * g * length
                groups(
                    advance(out, at), advance(x, at), w, b, has_w, has_b, advance(means, i * g), advance(scales, i * g),
                    g, c, s, eps,
                )  # fmt: skip
            return
        for r in range(n * g):
            row = advance(x, r * length)
            mean, shift = np.float64(0), zero
            if centred:
                mean = p.total(row, row, length, 1, zero) / length
                shift = cast(mean)
            rest = mean - np.float64(shift)
            variance = p.squares(row, row, length, 1, shift) / length - rest * rest
            scale = cast(1.0 / _sqrt(variance + eps))
            if centred:
                means[r] = shift
            scales[r] = scale
            first = (r % g) * c
            one_row(
                advance(out, r * length), row, advance(w, first), advance(b, first), has_w, has_b, c, s, shift,
                scale,
            )  # fmt: skip

    return run, KERNEL


def weight(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The gradient of the weight: sums of ``v h`` over (n, s), v that of the result, h the normalised x."""
    element, p = ELEMENTS[dtype], pieces(dtype)
    pointer, cast, zero = element.pointer, element.constant, element.constant(0)
    by_row, centred = kernel.options["statistics"] == "rows", kernel.options["centred"]
    sums, _ = column_sums(dtype, True, by_row, centred)
    groups = group_columns_weight(dtype, centred)

    @njit(**KERNEL)
    def column(out, v, x, mean, rstd, n, g, c, step, rows):  # type: ignore[no-untyped-def]
        acc = f64s(tile())
        for k in range(g):
            at = 0
            while at < c:
                width = min(TILE, c - at)
                first = k * c + at
                own = 0 if by_row else at
                row = k if by_row else 0
                sums(
                    acc, advance(v, first), advance(x, first), n, step, width, advance(mean, own),
                    advance(mean, row), advance(rstd, row), rows,
                )  # fmt: skip
                for j in range(width):
                    out[first + j] = cast(acc[j] if by_row else acc[j] * np.float64(rstd[at + j]))
                at += TILE

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm_weight(frame)
        n, g, c, s = f.n, f.groups, f.c, f.s
        out, v, x = pointer(f.out), pointer(f.grad.data), pointer(f.x.data)
        mean, rstd = pointer(f.mean.data), pointer(f.rstd.data)
        step, rows = image(f), f.rstd.numel // max(n, 1)
        if s == 1:
            column(out, v, x, mean, rstd, n, g, c, step, rows)
            return
        if by_row and f.channels_last:
            groups(out, v, x, mean, rstd, n, g, c, s, step, rows)
            return
        for k in range(g * c):
            total = np.float64(0)
            for i in range(n):
                at = i * step + k * s
                own = i * rows + k // c if by_row else k
                shift = mean[own] if centred else zero
                part = p.products(advance(v, at), advance(x, at), s, 1, shift)
                total += part * np.float64(rstd[own])
            out[k] = cast(total)

    return run, KERNEL


# --- statistics of channels ---------------------------------------------------------------------------------------


def _write_channels(dtype: int, p: Pieces, fixed: bool) -> Any:
    """The result, given means and reciprocal deviations or, if `fixed`, variances."""
    element = ELEMENTS[dtype]
    pointer, cast, zero, one = element.pointer, element.constant, element.constant(0), element.constant(1)
    row = write_columns()

    @njit(**INLINE)
    def reciprocal(spread, k, eps):  # type: ignore[no-untyped-def]
        return cast(1.0 / _sqrt(np.float64(spread[k]) + eps)) if fixed else spread[k]

    @njit(**KERNEL)
    def write(out, x, w, b, has_w, has_b, means, spread, eps, n, c, s, step):  # type: ignore[no-untyped-def]
        scale, bias = pointer(tile()), pointer(tile())
        at = 0
        while at < c:
            width = min(TILE, c - at)
            mean = advance(means, at)
            for j in range(width):
                scale[j] = reciprocal(spread, at + j, eps) * (w[at + j] if has_w else one)
                bias[j] = b[at + j] if has_b else zero
            for i in range(n):
                first = i * step + at * s
                target, source = advance(out, first), advance(x, first)
                if s == 1:
                    row(target, source, width, mean, scale, bias)
                else:
                    for j in range(width):
                        p.fill(advance(target, j * s), advance(source, j * s), s, mean[j], scale[j], bias[j])
            at += TILE

    return write


def _keep_channels(element: Any) -> Any:
    """Write the statistics of a channel, and move those of the batches before, if there are any."""
    pointer, cast = element.pointer, element.constant

    @njit(**INLINE)
    def move(running, k, value, momentum):  # type: ignore[no-untyped-def]
        running[k] = cast((1.0 - momentum) * np.float64(running[k]) + momentum * value)

    @njit(**INLINE)
    def keep(f, k, mean, variance, count):  # type: ignore[no-untyped-def]
        momentum = float_of(f.momentum)
        pointer(f.mean)[k] = cast(mean)
        pointer(f.rstd)[k] = cast(1.0 / _sqrt(variance + float_of(f.eps)))
        if f.means.data != 0:
            move(pointer(f.means.data), k, mean, momentum)
        if f.variances.data != 0:
            move(pointer(f.variances.data), k, variance * count / (count - 1.0), momentum)

    return keep


def channels(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """With statistics of channels: means and reciprocal deviations."""
    element, p = ELEMENTS[dtype], pieces(dtype)
    pointer, cast, zero = element.pointer, element.constant, element.constant(0)
    keep, write = _keep_channels(element), _write_channels(dtype, p, False)
    (total, _), squares = column_sums(dtype, False, False), square_columns(dtype)

    @njit(**KERNEL)
    def columns(f, x, n, c, step):  # type: ignore[no-untyped-def]
        acc, means = f64s(tile()), f64s(tile())
        count = np.float64(n)
        at = 0
        while at < c:
            width = min(TILE, c - at)
            part, mean = advance(x, at), advance(pointer(f.mean), at)
            total(acc, part, part, n, step, width, mean, mean, mean, 0)
            for j in range(width):
                means[j] = acc[j] / count
                mean[j] = cast(means[j])
            squares(acc, part, n, step, width, mean)
            for j in range(width):
                keep(f, at + j, means[j], acc[j] / count, count)
            at += TILE

    @njit(**KERNEL)
    def runs(f, x, n, c, s, step):  # type: ignore[no-untyped-def]
        count = np.float64(n * s)
        for k in range(c):
            mean, variance = np.float64(0), np.float64(0)
            for i in range(n):
                part = advance(x, i * step + k * s)
                mean += p.total(part, part, s, 1, zero)
            mean /= count
            shift = cast(mean)
            for i in range(n):
                part = advance(x, i * step + k * s)
                variance += p.squares(part, part, s, 1, shift)
            rest = mean - np.float64(shift)
            keep(f, k, mean, variance / count - rest * rest, count)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm_channels(frame)
        n, c, s = f.n, f.c, f.s
        has_w, has_b = f.weight.data != 0, f.bias.data != 0
        out, x, w, b = pointer(f.out), pointer(f.x.data), pointer(f.weight.data), pointer(f.bias.data)
        step = image(f)
        if s == 1:
            columns(f, x, n, c, step)
        else:
            runs(f, x, n, c, s, step)
        write(out, x, w, b, has_w, has_b, pointer(f.mean), pointer(f.rstd), 0.0, n, c, s, step)

    return run, KERNEL


def fixed(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """With statistics of channels that are given."""
    p, pointer = pieces(dtype), ELEMENTS[dtype].pointer
    write = _write_channels(dtype, p, True)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm_channels(frame)
        has_w, has_b = f.weight.data != 0, f.bias.data != 0
        write(
            pointer(f.out), pointer(f.x.data), pointer(f.weight.data), pointer(f.bias.data), has_w, has_b,
            pointer(f.means.data), pointer(f.variances.data), float_of(f.eps), f.n, f.c, f.s, image(f),
        )  # fmt: skip

    return run, KERNEL


def fixed_backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """What a gradient is multiplied by, where the statistics of channels are given."""
    element, p = ELEMENTS[dtype], pieces(dtype)
    pointer, cast, zero, one = element.pointer, element.constant, element.constant(0), element.constant(1)

    @njit(**LOOP)
    def row(out, v, width, scale):  # type: ignore[no-untyped-def]
        for j in range(width):
            out[j] = v[j] * scale[j]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm_fixed_backward(frame)
        n, c, s = f.n, f.c, f.s
        has_w = f.weight.data != 0
        out, v = pointer(f.out), pointer(f.grad.data)
        w, variances, eps = pointer(f.weight.data), pointer(f.variances.data), float_of(f.eps)
        scale = pointer(tile())
        step = f.grad.numel // max(n, 1)
        at = 0
        while at < c:
            width = min(TILE, c - at)
            for j in range(width):
                r = cast(1.0 / _sqrt(np.float64(variances[at + j]) + eps))
                scale[j] = r * (w[at + j] if has_w else one)
            for i in range(n):
                first = i * step + at * s
                target, source = advance(out, first), advance(v, first)
                if s == 1:
                    row(target, source, width, scale)
                else:
                    for j in range(width):
                        p.fill(advance(target, j * s), advance(source, j * s), s, zero, scale[j], zero)
            at += TILE

    return run, KERNEL


def channels_backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """As `rows_backward`, with statistics of channels."""
    element, p = ELEMENTS[dtype], pieces(dtype)
    pointer, cast, zero, one = element.pointer, element.constant, element.constant(0), element.constant(1)
    (total, _), (products, _) = column_sums(dtype, False, False), column_sums(dtype, True, False)

    @njit(**LOOP)
    def row(out, v, x, width, mean, scale, first, second):  # type: ignore[no-untyped-def]
        for j in range(width):
            out[j] = scale[j] * (v[j] - first[j] - (x[j] - mean[j]) * second[j])

    @njit(**KERNEL)
    def columns(out, v, x, means, scales, w, has_w, n, c, step):  # type: ignore[no-untyped-def]
        acc = f64s(tile())
        scale, first, second = pointer(tile()), pointer(tile()), pointer(tile())
        at = 0
        while at < c:
            width = min(TILE, c - at)
            mean, r = advance(means, at), advance(scales, at)
            a, b = advance(v, at), advance(x, at)
            total(acc, a, a, n, step, width, mean, mean, mean, 0)
            for j in range(width):
                first[j] = cast(acc[j] / n)
                scale[j] = r[j] * (w[at + j] if has_w else one)
            products(acc, a, b, n, step, width, mean, mean, mean, 0)
            for j in range(width):
                second[j] = cast(acc[j] * np.float64(r[j]) * np.float64(r[j]) / n)
            for i in range(n):
                k = i * step
                row(advance(out, k + at), advance(a, k), advance(b, k), width, mean, scale, first, second)
            at += TILE

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm_backward(frame)
        n, c, s = f.n, f.c, f.s
        has_w = f.weight.data != 0
        out, v, x = pointer(f.out), pointer(f.grad.data), pointer(f.x.data)
        means, scales, w = pointer(f.mean.data), pointer(f.rstd.data), pointer(f.weight.data)
        step = image(f)
        if s == 1:
            columns(out, v, x, means, scales, w, has_w, n, c, step)
            return
        count = np.float64(n * s)
        for k in range(c):
            first, second = np.float64(0), np.float64(0)
            for i in range(n):
                at = i * step + k * s
                part = advance(v, at)
                first += p.total(part, part, s, 1, zero)
                second += p.products(part, advance(x, at), s, 1, means[k])
            r = np.float64(scales[k])
            a, b = cast(first / count), cast(second * r * r / count)
            scale = scales[k] * (w[k] if has_w else one)
            for i in range(n):
                at = i * step + k * s
                p.back(advance(out, at), advance(v, at), advance(x, at), s, means[k], one, scale, a, b)

    return run, KERNEL
