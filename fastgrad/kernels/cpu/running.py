"""What runs along rows: extreme values so far, and sums of exponentials in logarithms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, words
from fastgrad.native.contracts.element_types import BOOL, FLOAT64, UINT8


def extreme(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The largest (or smallest) element so far of each row, and its place: of equal ones the last, NaN before all."""
    pointer = ELEMENTS[UINT8 if dtype == BOOL else dtype].pointer
    smallest = kernel.options["smallest"]

    @njit(**INLINE)
    def beats(value, best):  # type: ignore[no-untyped-def]
        """No NaN is less, greater or equal: one stays until the next."""
        return (value != value) | (value <= best if smallest else value >= best)

    @njit(**LOOP)
    def step(values, places, x, before, earlier, i, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            taken = beats(x[j], before[j])
            values[j] = x[j] if taken else before[j]
            places[j] = i if taken else earlier[j]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.running_extreme(frame)
        x, values, places = pointer(f.x.data), pointer(f.values), words(f.places)
        after = f.columns
        for b in range(f.blocks if f.length > 0 else 0):
            at = b * f.length * after
            for j in range(after):
                values[at + j] = x[at + j]
                places[at + j] = 0
            for i in range(1, f.length):
                to = at + i * after
                step(
                    advance(values, to), advance(places, to), advance(x, to), advance(values, to - after),
                    advance(places, to - after), i, after,
                )  # fmt: skip

    return run, KERNEL


def log_sums(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The logarithm of the sum of the exponentials of each element and those before it."""
    element, wide = ELEMENTS[dtype], ELEMENTS[FLOAT64].math
    pointer, store, exp, log1p = element.pointer, element.store, wide.exp, wide.log1p

    @njit(**KERNEL)
    def row(out, x, n, stride):  # type: ignore[no-untyped-def]
        total = np.float64(-np.inf)
        for i in range(n):
            value = np.float64(x[i * stride])
            larger, smaller = (value, total) if value > total else (total, value)
            if value != value or total != total:
                total = np.float64(np.nan)
            elif smaller == -np.inf or larger == np.inf:
                total = larger
            else:
                total = larger + log1p(exp(smaller - larger))
            store(out, i * stride, total)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.running(frame)
        x, out = pointer(f.x.data), pointer(f.out)
        for b in range(f.blocks):
            for j in range(f.columns):
                at = b * f.length * f.columns + j
                row(advance(out, at), advance(x, at), f.length, f.columns)

    return run, KERNEL


def shares(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Sums of ``v`` times the shares ``exp(x - y)``: see `ops.running`. No exponential of theirs is above 1."""
    element, wide = ELEMENTS[dtype], ELEMENTS[FLOAT64].math
    pointer, store, exp, onwards = element.pointer, element.store, wide.exp, kernel.options["onwards"]

    @njit(**INLINE)
    def share(x, y):  # type: ignore[no-untyped-def]
        return np.float64(1) if x == y else exp(np.float64(x) - np.float64(y))

    @njit(**KERNEL)
    def row(out, v, x, y, n, stride):  # type: ignore[no-untyped-def]
        total = np.float64(0)
        for k in range(n):
            i = k * stride if onwards else (n - 1 - k) * stride
            if onwards:  # what is before counts for less, as y grows
                if k > 0:
                    total *= share(y[i - stride], y[i])
                total += v[i] * share(x[i], y[i])
                store(out, i, total)
            else:
                if k > 0:
                    total *= share(y[i], y[i + stride])
                total += v[i]
                store(out, i, total * share(x[i], y[i]))

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.running_shares(frame)
        v, x, y, out = pointer(f.v.data), pointer(f.x.data), pointer(f.y.data), pointer(f.out)
        for b in range(f.blocks):
            for j in range(f.columns):
                at = b * f.length * f.columns + j
                row(advance(out, at), advance(v, at), advance(x, at), advance(y, at), f.length, f.columns)

    return run, KERNEL
