"""Group normalisation of images with channels last: rows of channels, one for each place of an image.

What `normalization` computes along runs of a channel is computed here down columns, for as many groups at a time as
have `WIDTH` columns; a wider group is gone through piece by piece. Sums run in float64, four rows at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.norm_columns import column_sums, square_columns, write_columns
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.native.base.intrinsics import advance, f64s, stack_scratch
from fastgrad.native.contracts.element_types import FLOAT64

WIDTH = 512
_columns = stack_scratch(WIDTH)
_sqrt = ELEMENTS[FLOAT64].math.sqrt


@njit(**INLINE)
def _together(c, groups):  # type: ignore[no-untyped-def]
    """How many groups go through the kernels at a time."""
    return min(max(1, WIDTH // c), groups)


def _statistics(dtype: int, centred: bool) -> Any:
    """Means and reciprocal deviations of some groups of an image."""
    pointer, cast, zero = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant, ELEMENTS[dtype].constant(0)
    (sums, _), squares = column_sums(dtype, False, False), square_columns(dtype)

    @njit(**KERNEL)
    def statistics(x, means, scales, groups, c, s, pitch, eps):  # type: ignore[no-untyped-def]
        acc, total, mean = f64s(_columns()), f64s(_columns()), pointer(_columns())
        count = np.float64(c * s)
        for k in range(groups):
            total[k] = 0.0
        if centred:
            for at in range(0, groups * c, WIDTH):
                width, part = min(WIDTH, groups * c - at), advance(x, at)
                sums(acc, part, part, s, pitch, width, mean, mean, mean, 0)
                for j in range(width):
                    total[(at + j) // c] += acc[j]
            for k in range(groups):
                means[k] = cast(total[k] / count)
                total[k] = total[k] / count - np.float64(means[k])
                total[k] = -total[k] * total[k] * count  # what rounding the mean adds to the squares
        for at in range(0, groups * c, WIDTH):
            width = min(WIDTH, groups * c - at)
            for j in range(width):
                mean[j] = means[(at + j) // c] if centred else zero
            squares(acc, advance(x, at), s, pitch, width, mean)
            for j in range(width):
                total[(at + j) // c] += acc[j]
        for k in range(groups):
            scales[k] = cast(1.0 / _sqrt(total[k] / count + eps))

    return statistics


def group_columns(dtype: int, centred: bool) -> Any:
    """``normalise(out, x, w, b, has_w, has_b, means, scales, groups, c, s, eps)`` for one image."""
    element = ELEMENTS[dtype]
    pointer, zero, one = element.pointer, element.constant(0), element.constant(1)
    statistics, row = _statistics(dtype, centred), write_columns()

    @njit(**KERNEL)
    def write(out, x, w, b, has_w, has_b, means, scales, groups, c, s, pitch):  # type: ignore[no-untyped-def]
        mean, scale, bias = pointer(_columns()), pointer(_columns()), pointer(_columns())
        for at in range(0, groups * c, WIDTH):
            width = min(WIDTH, groups * c - at)
            for j in range(width):
                k = (at + j) // c
                mean[j] = means[k] if centred else zero
                scale[j] = scales[k] * (w[at + j] if has_w else one)
                bias[j] = b[at + j] if has_b else zero
            for i in range(s):
                row(advance(out, i * pitch + at), advance(x, i * pitch + at), width, mean, scale, bias)

    @njit(**KERNEL)
    def normalise(out, x, w, b, has_w, has_b, means, scales, groups, c, s, eps):  # type: ignore[no-untyped-def]
        if c * s == 0:
            return
        pitch, most = groups * c, _together(c, groups)
        for k in range(0, groups, most):
            n, at = min(most, groups - k), k * c
            m, r, part = advance(means, k), advance(scales, k), advance(x, at)
            statistics(part, m, r, n, c, s, pitch, eps)
            write(advance(out, at), part, advance(w, at), advance(b, at), has_w, has_b, m, r, n, c, s, pitch)

    return normalise


def group_columns_backward(dtype: int, centred: bool) -> Any:
    """``back(out, v, x, w, has_w, means, scales, groups, c, s)`` for one image."""
    element = ELEMENTS[dtype]
    pointer, cast, zero, one = element.pointer, element.constant, element.constant(0), element.constant(1)
    (sums, _), (products, _) = column_sums(dtype, False, False), column_sums(dtype, True, False)

    @njit(**LOOP)
    def row(out, v, x, width, mean, scale, factor, first, second):  # type: ignore[no-untyped-def]
        for j in range(width):
            out[j] = scale[j] * (v[j] * factor[j] - first[j] - (x[j] - mean[j]) * second[j])

    @njit(**KERNEL)
    def totals(v, x, w, has_w, means, first, second, groups, c, s, pitch):  # type: ignore[no-untyped-def]
        acc, mean = f64s(_columns()), pointer(_columns())
        for k in range(groups):
            first[k] = second[k] = 0.0
        for at in range(0, groups * c, WIDTH):
            width, part = min(WIDTH, groups * c - at), advance(v, at)
            if centred:
                sums(acc, part, part, s, pitch, width, mean, mean, mean, 0)
                for j in range(width):
                    first[(at + j) // c] += acc[j] * np.float64(w[at + j] if has_w else one)
            for j in range(width):
                mean[j] = means[(at + j) // c] if centred else zero
            products(acc, part, advance(x, at), s, pitch, width, mean, mean, mean, 0)
            for j in range(width):
                second[(at + j) // c] += acc[j] * np.float64(w[at + j] if has_w else one)

    @njit(**KERNEL)
    def some(out, v, x, w, has_w, means, scales, groups, c, s, pitch):  # type: ignore[no-untyped-def]
        first, second = f64s(_columns()), f64s(_columns())
        mean, scale, factor = pointer(_columns()), pointer(_columns()), pointer(_columns())
        a, b, count = pointer(_columns()), pointer(_columns()), np.float64(c * s)
        totals(v, x, w, has_w, means, first, second, groups, c, s, pitch)
        for at in range(0, groups * c, WIDTH):
            width = min(WIDTH, groups * c - at)
            for j in range(width):
                k = (at + j) // c
                r = np.float64(scales[k])
                mean[j], scale[j] = means[k] if centred else zero, scales[k]
                factor[j] = w[at + j] if has_w else one
                a[j], b[j] = cast(first[k] / count), cast(second[k] * r * r / count)
            for i in range(s):
                to = i * pitch + at
                row(advance(out, to), advance(v, to), advance(x, to), width, mean, scale, factor, a, b)

    @njit(**KERNEL)
    def back(out, v, x, w, has_w, means, scales, groups, c, s):  # type: ignore[no-untyped-def]
        if c * s == 0:
            return
        pitch, most = groups * c, _together(c, groups)
        for k in range(0, groups, most):
            at, n = k * c, min(most, groups - k)
            some(
                advance(out, at), advance(v, at), advance(x, at), advance(w, at), has_w, advance(means, k),
                advance(scales, k), n, c, s, pitch,
            )  # fmt: skip

    return back


def group_columns_weight(dtype: int, centred: bool) -> Any:
    """``weight(out, v, x, means, scales, n, groups, c, s, step, rows)``: sums of v h over images and places.

    Images are `step` elements apart, of which some of the groups are looked at; the statistics of two are `rows` apart.
    """
    element = ELEMENTS[dtype]
    pointer, cast, zero = element.pointer, element.constant, element.constant(0)
    products, _ = column_sums(dtype, True, False)

    @njit(**KERNEL)
    def weight(out, v, x, means, scales, n, groups, c, s, step, rows):  # type: ignore[no-untyped-def]
        acc, total, mean = f64s(_columns()), f64s(_columns()), pointer(_columns())
        pitch = step // max(s, 1)
        for at in range(0, groups * c, WIDTH):
            width = min(WIDTH, groups * c - at)
            for j in range(width):
                total[j] = 0.0
            for i in range(n):
                for j in range(width):
                    mean[j] = means[i * rows + (at + j) // c] if centred else zero
                first = i * step + at
                products(acc, advance(v, first), advance(x, first), s, pitch, width, mean, mean, mean, 0)
                for j in range(width):
                    total[j] += acc[j] * np.float64(scales[i * rows + (at + j) // c])
            for j in range(width):
                out[at + j] = cast(total[j])

    return weight
