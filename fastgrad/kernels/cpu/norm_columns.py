"""Sums down the columns of matrices whose statistics or weights belong to a column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.native.base.intrinsics import advance


def column_sums(dtype: int, shifted: bool, by_row: bool, centred: bool = True) -> Any:
    """Sums over the rows of a tile of columns, onto float64, four rows at a time; also what adds to such sums.

    Of ``v (x - mean)`` with the mean of the column or, if `by_row`, of ``v (x - mean) r`` with those of the row; if
    not `shifted`, of v itself. Means that are not `centred` are zero, and not read.
    """
    zero = ELEMENTS[dtype].constant(0)

    @njit(**INLINE)
    def shift(means, k):  # type: ignore[no-untyped-def]
        return means[k] if centred else zero

    @njit(**INLINE)
    def term(v, x, j, mean, m, r):  # type: ignore[no-untyped-def]
        if not shifted:
            return v[j]
        if by_row:
            return v[j] * ((x[j] - m) * r)
        return v[j] * (x[j] - mean[j])

    @njit(**LOOP)
    def four(acc, v, x, step, width, mean, m0, m1, m2, m3, r0, r1, r2, r3):  # type: ignore[no-untyped-def]
        for j in range(width):
            a = term(v, x, j, mean, m0, r0) + term(advance(v, step), advance(x, step), j, mean, m1, r1)
            b = term(advance(v, 2 * step), advance(x, 2 * step), j, mean, m2, r2) + term(
                advance(v, 3 * step), advance(x, 3 * step), j, mean, m3, r3
            )
            acc[j] += np.float64(a + b)

    @njit(**LOOP)
    def single(acc, v, x, width, mean, m, r):  # type: ignore[no-untyped-def]
        for j in range(width):
            acc[j] += np.float64(term(v, x, j, mean, m, r))

    @njit(**KERNEL)
    def add(acc, v, x, n, step, width, mean, means, scales, pitch):  # type: ignore[no-untyped-def]
        i = 0
        m = zero
        while i + 4 <= n:
            a, b = advance(v, i * step), advance(x, i * step)
            if by_row:
                k = i * pitch
                four(
                    acc, a, b, step, width, mean, shift(means, k), shift(means, k + pitch), shift(means, k + 2 * pitch),
                    shift(means, k + 3 * pitch), scales[k], scales[k + pitch], scales[k + 2 * pitch],
                    scales[k + 3 * pitch],
                )  # fmt: skip
            else:
                four(acc, a, b, step, width, mean, m, m, m, m, m, m, m, m)
            i += 4
        while i < n:
            a, b = advance(v, i * step), advance(x, i * step)
            if by_row:
                single(acc, a, b, width, mean, shift(means, i * pitch), scales[i * pitch])
            else:
                single(acc, a, b, width, mean, m, m)
            i += 1

    @njit(**KERNEL)
    def sums(acc, v, x, n, step, width, mean, means, scales, pitch):  # type: ignore[no-untyped-def]
        for j in range(width):
            acc[j] = 0.0
        add(acc, v, x, n, step, width, mean, means, scales, pitch)

    return sums, add


def square_columns(dtype: int) -> Any:
    """Sums over the rows of a tile of columns of the squared differences from the column's mean."""

    @njit(**LOOP)
    def row(acc, x, width, mean):  # type: ignore[no-untyped-def]
        for j in range(width):
            d = x[j] - mean[j]
            acc[j] += np.float64(d * d)

    @njit(**KERNEL)
    def sums(acc, x, n, step, width, mean):  # type: ignore[no-untyped-def]
        for j in range(width):
            acc[j] = 0.0
        for i in range(n):
            row(acc, advance(x, i * step), width, mean)

    return sums


def write_columns() -> Any:
    """Write a row of a tile whose mean, scale and bias belong to a column."""

    @njit(**LOOP)
    def row(out, x, width, mean, scale, bias):  # type: ignore[no-untyped-def]
        for j in range(width):
            out[j] = (x[j] - mean[j]) * scale[j] + bias[j]

    return row
