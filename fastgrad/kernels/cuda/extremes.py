"""Extreme elements of rows and their places on the CUDA device: the first of equals, a NaN before all."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Target, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.teams import THREADS, by_teams, folding, register_code
from fastgrad.native.contracts.element_types import BOOL, INT64, UINT8


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel for one dtype; a bool is the byte that it is in memory."""
    element, code = target.elements[UINT8 if dtype == BOOL else dtype], register_code(dtype)
    load, store, cast = element.load, element.store, target.elements[code].constant
    load_place, store_place = target.elements[INT64].load, target.elements[INT64].store
    smallest = bool(kernel.options["smallest"])

    def combine(value, place, other, at):
        """No NaN is less, greater or equal, so that the first one stays."""
        beats = not other >= value if smallest else not other <= value
        taken = beats and value == value
        equal = other == value or (other != other and value != value)
        taken = taken or (equal and at < place)
        return where(taken, other, value), where(taken, at, place)

    fold = folding(target, combine, (code, INT64), threads)

    def row(f, number, lane, lanes, how, there):
        blocks, beside = split(number, f.columns)
        at = blocks * f.length * f.after + beside
        best, place, k = cast(load(f.x, at)), np.int64(0), lane
        while k < f.length:
            best, place = combine(best, place, cast(load(f.x, at + k * f.after)), k)
            k += lanes
        best, place = fold(best, place, how)
        if there and lane == 0:
            if f.values != 0:
                store(f.values, number, best)
            if f.within != 0:
                inner = load_place(f.within, (blocks * f.length + place) * f.after + beside)
                place = place * f.step + inner
            store_place(f.places, number, place)

    def side_by_side(f):
        return f.columns >= threads // WARP

    run = by_teams(row, _rows_of, _length_of, side_by_side, threads)
    return Body(run, ("before", "columns"), threads // WARP, threads)


def _rows_of(f):
    return f.before * f.columns


def _length_of(f):
    return f.length
