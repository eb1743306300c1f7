"""Kernels that find the greatest or smallest element of each row, and its place: the first of equals, a NaN before all.

A row that lies in one piece is searched block by block, for the block's extreme value alone, and the place only in the
block that won. Otherwise a tile of neighbouring rows goes along side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.kernels.scalar_ir import where
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import address_of, advance, stack_scratch, words
from fastgrad.native.contracts.element_types import BOOL, UINT8

BLOCK = 512
SHORT = 6  # elements of a row that are compared one by one
COLUMNS = 128
_tile = stack_scratch(COLUMNS)
# Whether a zero is negative does not matter.
_EXTREME: dict[str, Any] = {**LOOP, "fastmath": {"contract", "nsz"}}


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The kernel for one dtype; a bool is the byte that it is in memory."""
    element, smallest = ELEMENTS[UINT8 if dtype == BOOL else dtype], kernel.options["smallest"]
    pointer = element.pointer
    beats = _beats(smallest)
    in_row, side_by_side = _in_row(element, beats, smallest), _side_by_side(beats)
    folded = _folded(beats, side_by_side)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.extremes(frame)
        x, values, places, within = pointer(f.x), pointer(f.values), words(f.places), words(f.within)
        n, columns, step = f.length, f.columns, f.step
        best, found = pointer(address_of(_tile())), words(_tile())
        for i in range(f.before):
            to = i * columns
            row = advance(x, i * n * f.after)
            if f.after == 1:
                places[to] = in_row(row, n)
            elif columns == f.after and 2 <= COLUMNS // columns <= n // 2:
                folded(row, n, columns, best, found, advance(places, to))
            else:
                for j in range(0, columns, COLUMNS):
                    width = min(COLUMNS, columns - j)
                    side_by_side(advance(row, j), n, f.after, width, best, advance(places, to + j))
            if f.values != 0:
                for j in range(columns):
                    values[to + j] = row[places[to + j] * f.after + j]
            if f.within != 0:
                for j in range(columns):
                    k = places[to + j]
                    places[to + j] = k * step + within[(i * n + k) * f.after + j]

    return run, KERNEL


def _beats(smallest: bool) -> Any:
    """Whether a value goes before the best so far. No NaN is less, greater or equal: the first one stays."""
    if smallest:

        def beats(value, best):  # type: ignore[no-untyped-def]
            return (not value >= best) & (best == best)
    else:

        def beats(value, best):  # type: ignore[no-untyped-def]
            return (not value <= best) & (best == best)

    return njit(**INLINE)(beats)


def _in_row(element: Element, beats: Any, smallest: bool) -> Any:
    """The place of the extreme value of a row."""
    better = element.math.minimum if smallest else element.math.maximum

    @njit(**_EXTREME)
    def extreme(x, n):  # type: ignore[no-untyped-def]
        best = x[0]
        for i in range(1, n):
            best = better(best, x[i])
        return best

    @njit(**LOOP)
    def first(x, n, value):  # type: ignore[no-untyped-def]
        """The first place of a value, or of a NaN, in a block that has it."""
        place = np.int32(n)
        for i in range(n):
            hit = (x[i] == value) | (x[i] != x[i])
            place = min(place, where(hit, np.int32(i), np.int32(n)))
        return np.int64(place)

    @njit(**KERNEL)
    def in_row(x, n):  # type: ignore[no-untyped-def]
        best, place = x[0], np.int64(0)
        if n <= SHORT:
            for i in range(1, n):
                taken = beats(x[i], best)
                best, place = where(taken, x[i], best), where(taken, i, place)
            return place
        best = extreme(x, min(n, BLOCK))
        for at in range(BLOCK, n, BLOCK):
            value = extreme(advance(x, at), min(BLOCK, n - at))
            if beats(value, best):
                best, place = value, at
        return place + first(advance(x, place), min(BLOCK, n - place), best)

    return in_row


def _side_by_side(beats: Any) -> Any:
    """The places of the extreme values of neighbouring rows, whose elements are a stride apart."""

    def columns(x, n, stride, width, best, places):  # type: ignore[no-untyped-def]
        for j in range(width):
            best[j] = x[j]
            places[j] = 0
        for i in range(1, n):
            row = advance(x, i * stride)
            for j in range(width):
                taken = beats(row[j], best[j])
                best[j] = where(taken, row[j], best[j])
                places[j] = where(taken, i, places[j])

    return njit(**LOOP)(columns)


def _folded(beats: Any, side_by_side: Any) -> Any:
    """The same for few columns and nothing else in between: they stand in a tile several times, for a row each."""

    def fold(x, n, columns, best, found, places):  # type: ignore[no-untyped-def]
        times = COLUMNS // columns
        side_by_side(x, n // times, times * columns, times * columns, best, found)
        for j in range(columns):
            value, place = best[j], found[j] * times
            for k in range(1, times):
                other, at = best[k * columns + j], found[k * columns + j] * times + k
                equal = (other == value) | ((other != other) & (value != value))
                if beats(other, value) or (equal and at < place):
                    value, place = other, at
            for at in range(n // times * times, n):
                if beats(x[at * columns + j], value):
                    value, place = x[at * columns + j], at
            places[j] = place

    return njit(**KERNEL)(fold)
