"""Copies and casts on the CUDA device: elementwise kernels, but that what lies across the result goes by squares.

Neighbours of the result are far apart in the source then, whose own are far apart in the result. A block reads a square
along the source and writes it along the result; in between it stands in the memory that the block shares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda import elementwise
from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Element, Target, barrier, block, blocks, opaque, thread
from fastgrad.kernels.cuda.places import number_of, offsets_beside, split
from fastgrad.native.contracts.element_types import moved_as
from fastgrad.native.contracts.frames.elementwise import STRIDED
from fastgrad.native.contracts.limits import FRAME_DIMS

SHIFT = 5
SIDE = 1 << SHIFT  # of a square
PITCH = SIDE + 1  # of its rows, so that those of a column lie in different banks


def _square(source: Element, result: Element, threads: int) -> Any:
    """A function that transposes some rows and columns of the source."""
    load, store, get, put = source.load, result.store, source.get, source.put
    lines = threads // SIDE  # of a square, that a block goes through at a time
    steps = SIDE // lines

    def square(f, shared, at_x, at_out, rows, columns, row_x, row_out):
        across, down = thread() % SIDE, thread() // SIDE
        if rows == SIDE and columns == SIDE:  # known numbers of steps, all of which are under way at once
            at = at_x + down * row_x + across
            for k in range(steps):
                put(shared, (down + k * lines) * PITCH + across, load(f.x.data, at + k * (lines * row_x)))
            barrier()
            at = at_out + down * row_out + across
            for k in range(steps):
                store(f.out.data, at + k * (lines * row_out), get(shared, across * PITCH + down + k * lines))
            barrier()
            return
        k, at = down, at_x + down * row_x + across
        while k < rows:
            if across < columns:
                put(shared, k * PITCH + across, load(f.x.data, at))
            k, at = np.int32(k + lines), at + lines * row_x
        barrier()
        k, at = down, at_out + down * row_out + across
        while k < columns:
            if across < rows:
                store(f.out.data, at, get(shared, across * PITCH + k))
            k, at = np.int32(k + lines), at + lines * row_out
        barrier()

    return square


def build(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = elementwise.THREADS
) -> Body:
    """The copy or the cast to a dtype."""
    code = kernel.frame(layout_class).element("x", dtype)
    moved = dict.fromkeys(("out", "x"), moved_as(dtype)) if code == dtype else {}
    plain = elementwise.build(kernel, dtype, layout_class, target, threads, moved)
    if layout_class != STRIDED:
        return plain
    straight = plain.run
    source, result = target.elements[moved.get("x", code)], target.elements[moved.get("out", dtype)]
    square, room = _square(source, result, threads), source.shared(SIDE * PITCH)

    def run(f):
        if f.across == 0:
            straight(f)
            return
        shared, inner, matrix = room(), f.rank - f.across, f.rank == 2
        n, row_x, tile = f.sizes[0], f.x.strides[0], np.int64(block())
        # Most of what comes is one matrix; to find the dimensions of others costs more than to copy a square.
        m = f.sizes[1] if matrix else number_of(f.sizes, inner)
        row_out = f.out.strides[1] if matrix else number_of(f.out.strides, inner)
        high, wide = n + SIDE - 1 >> SHIFT, m + SIDE - 1 >> SHIFT
        count = high * wide * (np.int64(1) if matrix else others_of(f.rank, f.sizes, inner))
        while tile < count:
            j, i = split(tile, high)
            at_out, at_x = np.int64(0), np.int64(0)
            if not matrix:
                other, j = split(j, wide)
                at_out, at_x = offsets(np.uint32(other), f.rank, f.sizes, inner, f.out.strides, f.x.strides)
            i, j = i << SHIFT, j << SHIFT
            at_out, at_x = at_out + j * row_out + i, at_x + i * row_x + j
            rows, columns = min(n - i, np.int64(SIDE)), min(m - j, np.int64(SIDE))
            square(f, shared, at_x, at_out, rows, columns, row_x, row_out)
            tile = opaque(tile + blocks())

    return plain._replace(run=run)


def others_of(rank, sizes, inner):
    """How many elements there are in the dimensions that are neither the innermost nor `inner`."""
    total = np.int64(1)
    for d in range(1, FRAME_DIMS):
        total *= number_of(sizes, d) if d < rank and d != inner else np.int64(1)
    return total


offsets = offsets_beside(range(1, FRAME_DIMS), 2)
