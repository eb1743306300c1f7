"""Products of matrices on the CUDA device where no library computes them, and the panels that the CPU lays out.

A block computes a square of `SIDE` rows and columns, each of its threads `EACH` by `EACH` elements of it, in registers;
what they read stands in the block's memory, `DEPTH` columns of one operand and rows of the other at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, barrier, block, blocks, thread
from fastgrad.kernels.cuda.places import part_of, split
from fastgrad.native.contracts.element_types import FLOATS, INT64
from fastgrad.native.contracts.frames.matrices import PANEL_COLUMNS

THREADS = 256
SIDE, DEPTH, EACH = 64, 16, 4
PITCH = SIDE + 1  # of a column or row in the block's memory
ACROSS = SIDE // EACH


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
    load, put, zero, rooms = e.load, e.put, e.constant(0), (e.shared(DEPTH * PITCH), e.shared(DEPTH * PITCH))
    room_a, room_b = rooms

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

    scope: dict[str, Any] = {
        "np": np, "thread": thread, "barrier": barrier, "fill": fill, "get": e.get, "wide": wide, "store": e.store,
    }  # fmt: skip
    exec(_square(), scope)
    square = scope["square"]

    def run(f):
        left, right, unit = room_a(), room_b(), np.int64(block())
        down, across = (f.m + SIDE - 1) // SIDE, (f.n + SIDE - 1) // SIDE
        while unit < f.batch * down * across:
            line, column = split(unit, across)
            batch, row = split(line, down)
            square(f, left, right, batch, row * SIDE, column * SIDE)
            unit += blocks()

    return Body(run, ("batch", "m", "n"), SIDE * SIDE, THREADS, resident=512)


def _square() -> str:
    """The text of a function that computes a square."""
    each = range(EACH)
    cells = [(i, j) for i in each for j in each]
    lines = [
        "def square(f, left, right, batch, top, first):",
        f"    row, column = thread() // {ACROSS}, thread() % {ACROSS}",
        *(f"    s{i}{j} = wide(0)" for i, j in cells),
        "    k = np.int64(0)",
        "    while k < f.k:",
        "        barrier()",
        "        fill(f, left, right, batch, top, first, k)",
        "        barrier()",
        f"        for d in range({DEPTH}):",
        *(f"            a{i} = wide(get(left, d * {PITCH} + row + {i * ACROSS}))" for i in each),
        *(f"            b{j} = wide(get(right, d * {PITCH} + column + {j * ACROSS}))" for j in each),
        *(f"            s{i}{j} += a{i} * b{j}" for i, j in cells),
        f"        k += {DEPTH}",
    ]
    for i, j in cells:
        lines += [
            f"    if top + row + {i * ACROSS} < f.m and first + column + {j * ACROSS} < f.n:",
            f"        to = batch * f.step_out + (top + row + {i * ACROSS}) * f.row_out",
            f"        store(f.out, to + first + column + {j * ACROSS}, s{i}{j})",
        ]
    return "\n".join(lines) + "\n"


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
