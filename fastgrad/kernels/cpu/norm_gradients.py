"""Gradients of layer, root-mean-square and group normalisation: that of the input, or those of the weights as well.

See Note [Stages of gradients] in `native.contracts.frames.norm_gradients`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.norm_groups import group_columns_backward
from fastgrad.kernels.cpu.normalization import column_sums, pieces, tile
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import address_of, advance, f64s, memset
from fastgrad.native.contracts.element_types import FLOAT64
from fastgrad.native.contracts.frames.norm_gradients import COLUMNS


def row_backward(dtype: int, centred: bool) -> Any:
    """The gradient of a row of c runs of s, to each of which a weight belongs if there are weights."""
    element, p = ELEMENTS[dtype], pieces(dtype)
    cast, zero, one = element.constant, element.constant(0), element.constant(1)

    @njit(**KERNEL)
    def sums(v, x, w, has_w, c, s, shift):  # type: ignore[no-untyped-def]
        if has_w and s == 1:
            return p.weighted(v, x, w, c, shift)
        first, second = np.float64(0), np.float64(0)
        runs = c if has_w else 1
        length = s if has_w else c * s
        for k in range(runs):
            factor = np.float64(w[k]) if has_w else 1.0
            part = advance(v, k * length)
            if centred:
                first += factor * p.total(part, part, length, 1, zero)
            second += factor * p.products(part, advance(x, k * length), length, 1, shift)
        return first, second

    @njit(**KERNEL)
    def row(target, v, x, w, has_w, c, s, shift, scale):  # type: ignore[no-untyped-def]
        length = c * s
        first, second = sums(v, x, w, has_w, c, s, shift)
        a = cast(first / length) if centred else zero
        b = cast(second * np.float64(scale) * np.float64(scale) / length)
        if not has_w:
            p.back(target, v, x, length, shift, one, scale, a, b)
        elif s == 1:
            p.back_weighted(target, v, x, w, c, shift, scale, a, b)
        else:
            for k in range(c):
                at = k * s
                p.back(advance(target, at), advance(v, at), advance(x, at), s, shift, w[k], scale, a, b)

    return row


def rows_backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """``r (u - mean(u) - h mean(u h))``: u is gradient times weight, r the reciprocal deviation, h the normalised x."""
    pointer, zero = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(0)
    centred = kernel.options["centred"]
    row, groups = row_backward(dtype, centred), group_columns_backward(dtype, centred)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm_backward(frame)
        n, g, c, s = f.n, f.groups, f.c, f.s
        length = c * s
        has_w = f.weight.data != 0
        out = pointer(f.out)
        means, scales = pointer(f.mean.data), pointer(f.rstd.data)
        if f.channels_last:
            for i in range(n):
                at = i * g * length
                groups(
                    advance(out, at), advance(pointer(f.grad.data), at), advance(pointer(f.x.data), at),
                    pointer(f.weight.data), has_w, advance(means, i * g), advance(scales, i * g), g, c, s,
                )  # fmt: skip
            return
        for r in range(n * g):
            at = r * length
            row(
                advance(out, at), advance(pointer(f.grad.data), at), advance(pointer(f.x.data), at),
                advance(pointer(f.weight.data), (r % g) * c), has_w, c, s, means[r] if centred else zero, scales[r],
            )  # fmt: skip

    return run, KERNEL


def rows_gradients(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The gradients of x, weight and, where means are subtracted, bias: v and x come from memory once."""
    element = ELEMENTS[dtype]
    pointer, size, cast, zero = (
        element.pointer,
        element.scalar.bitwidth // 8,
        element.constant,
        element.constant(0),
    )
    centred = kernel.options["centred"]
    row, (fold, _) = row_backward(dtype, centred), column_sums(FLOAT64, False, False)
    (_, add_products), (_, add_plain) = (
        column_sums(dtype, True, True, centred),
        column_sums(dtype, False, False),
    )

    @njit(**KERNEL)
    def block(f, k):  # type: ignore[no-untyped-def]
        """The gradients of a block of rows, and its sums: four rows at a time, which stay close until both are done."""
        n = f.length
        by_weight = advance(f64s(f.sums), k * n * (2 if centred else 1))
        by_bias = advance(by_weight, n)
        memset(address_of(by_weight), 0, n * 8 * (2 if centred else 1))
        means, scales, w = pointer(f.mean), pointer(f.rstd), pointer(f.weight)
        first, end = k * f.block, min((k + 1) * f.block, f.rows)
        for r in range(first, end, 4):
            count = min(end - r, 4)
            v, x = pointer(f.grad + r * n * size), pointer(f.x + r * n * size)
            for i in range(count):
                at = i * n
                row(
                    pointer(f.out + (r * n + at) * size), advance(v, at), advance(x, at), w, True, n, 1,
                    means[r + i] if centred else zero, scales[r + i],
                )  # fmt: skip
            add_products(by_weight, v, x, count, n, n, means, advance(means, r), advance(scales, r), 1)
            if centred:
                add_plain(by_bias, v, v, count, n, n, means, means, means, 0)

    @njit(**KERNEL)
    def total(out, sums, blocks, pitch, width):  # type: ignore[no-untyped-def]
        acc = f64s(tile())
        fold(acc, sums, sums, blocks, pitch, width, sums, sums, sums, 0)
        for j in range(width):
            out[j] = cast(acc[j])

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm_gradients(frame)
        if f.stage == 0:
            for k in range(f.first, f.first + f.steps):
                block(f, k)
            return
        pitch = f.length * (2 if centred else 1)
        for at in range(f.first * COLUMNS, min((f.first + f.steps) * COLUMNS, f.length), COLUMNS):
            sums, width = advance(f64s(f.sums), at), min(COLUMNS, f.length - at)
            total(pointer(f.weight_out + at * size), sums, f.blocks, pitch, width)
            if centred:
                total(pointer(f.bias_out + at * size), advance(sums, f.length), f.blocks, pitch, width)

    return run, KERNEL
