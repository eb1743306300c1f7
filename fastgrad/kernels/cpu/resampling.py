"""The kernel of other sizes along a dimension: sums of elements that a table names, times their weights."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.reports import Builder, report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, words


def _rows(dtype: int) -> tuple[Any, Any, Any, Any]:
    """Loops over columns that lie side by side: zeros, one row or two of them times weights, one that is added."""
    zero = ELEMENTS[dtype].constant(0)

    @njit(**LOOP)
    def clear(out, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            out[j] = zero

    @njit(**LOOP)
    def one(out, x, weight, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            out[j] = weight * x[j]

    @njit(**LOOP)
    def two(out, x, weight, x2, weight2, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            out[j] = weight * x[j] + weight2 * x2[j]

    @njit(**LOOP)
    def add(out, x, weight, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            out[j] = out[j] + weight * x[j]

    return clear, one, two, add


def _taps(dtype: int) -> tuple[Any, Any]:
    """Loops over the places of a row whose elements lie side by side, for one tap: the first, and one that is added."""
    zero = ELEMENTS[dtype].constant(0)

    @njit(**LOOP)
    def begin(out, x, sources, weights, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            k = sources[i]
            value = weights[i] * x[max(k, 0)]
            out[i] = value if k >= 0 else zero

    @njit(**LOOP)
    def add(out, x, sources, weights, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            k = sources[i]
            value = out[i] + weights[i] * x[max(k, 0)]
            out[i] = value if k >= 0 else out[i]

    return begin, add


def along(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Each place of a row is the sum of its sources times their weights, in the order of the table."""
    pointer = ELEMENTS[dtype].pointer
    clear, one, two, add = _rows(dtype)
    begin_taps, add_taps = _taps(dtype)

    @njit(**KERNEL)
    def within(out, x, sources, weights, places, taps):  # type: ignore[no-untyped-def]
        begin_taps(out, x, sources, weights, places)
        for t in range(1, taps):
            add_taps(out, x, advance(sources, t * places), advance(weights, t * places), places)

    @njit(**KERNEL)
    def across(out, x, sources, weights, places, taps, columns):  # type: ignore[no-untyped-def]
        for i in range(places):
            row, t = advance(out, i * columns), 1
            k = sources[i]
            if k < 0:
                clear(row, columns)
            elif taps > 1 and sources[places + i] >= 0:
                k2 = sources[places + i]
                two(
                    row,
                    advance(x, k * columns),
                    weights[i],
                    advance(x, k2 * columns),
                    weights[places + i],
                    columns,
                )
                t = 2
            else:
                one(row, advance(x, k * columns), weights[i], columns)
            while t < taps:
                k = sources[t * places + i]
                if k >= 0:
                    add(row, advance(x, k * columns), weights[t * places + i], columns)
                t += 1

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.resample(frame)
        places, taps, columns, length = f.places, f.taps, f.columns, f.length
        sources, weights = words(f.sources.data), pointer(f.weights.data)
        for t in range(taps * places):
            if sources[t] < -1 or sources[t] >= length:
                report_index(f, sources[t], length)
                return
        for b in range(f.blocks):
            out = advance(pointer(f.out), b * places * columns)
            x = advance(pointer(f.x.data), b * length * columns)
            if columns == 1 and taps > 0:
                within(out, x, sources, weights, places, taps)
            elif taps > 0:
                across(out, x, sources, weights, places, taps, columns)
            else:
                clear(out, places * columns)

    return run, KERNEL
