"""Products of matrices on the CUDA device where no library computes them, and the panels that the CPU lays out.

Products are computed by squares, see `squares`.
"""

from __future__ import annotations

from typing import Any

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, thread
from fastgrad.kernels.cuda.places import part_of, split
from fastgrad.kernels.cuda.squares import DEPTH, PITCH, SIDE, THREADS, Square, each_square
from fastgrad.native.contracts.element_types import FLOATS, INT64
from fastgrad.native.contracts.frames.matrices import PANEL_COLUMNS


def place_a(f, batch, i, k):
    """Where an element of the left operand is."""
    return batch * f.step_a + (k * f.row_a + i if f.a_by_columns != 0 else i * f.row_a + k)


def place_b(f, batch, k, j):
    """Where an element of the right operand is."""
    if f.b_in_panels != 0:
        panel, column = split(j, PANEL_COLUMNS)
        return batch * f.step_b + (panel * f.k + k) * PANEL_COLUMNS + column
    return batch * f.step_b + (j * f.row_b + k if f.b_by_columns != 0 else k * f.row_b + j)


def product(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The product of two matrices, as many times as there are; integers wrap around."""
    e, wide = target.elements[dtype], target.elements[dtype if dtype in FLOATS else INT64].constant
    load, store, put, zero = e.load, e.store, e.put, e.constant(0)
    room_a, room_b = e.shared(DEPTH * PITCH), e.shared(DEPTH * PITCH)

    def fill(f, left, right, batch, top, first, k):
        """Bring what belongs to a square to the block's memory, with zeros beyond the ends."""
        at = thread()
        while at < SIDE * DEPTH:
            # Neighbouring threads read neighbours in memory.
            i, d = (at % SIDE, at // SIDE) if f.a_by_columns != 0 else (at // DEPTH, at % DEPTH)
            inside = top + i < f.m and k + d < f.k
            put(left, d * PITCH + i, load(f.a, place_a(f, batch, top + i, k + d)) if inside else zero)
            j, d = (at // DEPTH, at % DEPTH) if f.b_by_columns != 0 else (at % SIDE, at // SIDE)
            inside = first + j < f.n and k + d < f.k
            put(right, d * PITCH + j, load(f.b, place_b(f, batch, k + d, first + j)) if inside else zero)
            at += THREADS

    def add(f, total, a, b):
        return total + wide(a) * wide(b)

    def keep(f, batch, i, j, total):
        store(f.out, batch * f.step_out + i * f.row_out + j, total)

    def sizes(f):
        return f.m, f.n, f.k

    go = each_square(target, dtype, Square(fill, wide(0), add, keep), sizes)

    def run(f):
        go(f, room_a(), room_b())

    return Body(run, ("batch", "m", "n"), SIDE * SIDE, THREADS, resident=512)


STEPS = 4  # elements of a thread


def panels(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The columns of matrices by panels, with zeros behind the last column."""
    e, per_block = target.elements[dtype], threads * STEPS
    load, store, zero = e.load, e.store, e.constant(0)

    def run(f):
        at, end = part_of(f.batch * f.panels * f.k * PANEL_COLUMNS, per_block)
        while at < end:
            line, column = split(at, PANEL_COLUMNS)
            panel, k = split(line, f.k)
            batch, place = split(panel, f.panels)
            j, value = place * PANEL_COLUMNS + column, zero
            if j < f.n:
                place = j * f.row + k if f.by_columns != 0 else k * f.row + j
                value = load(f.x, batch * f.step + place)
            store(f.out, at, value)
            at += threads

    return Body(run, ("batch", "panels", "k", PANEL_COLUMNS), per_block, threads)
