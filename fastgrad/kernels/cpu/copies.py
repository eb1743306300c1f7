"""Copies and casts: elementwise kernels, but that what lies across the result goes by squares.

Where neighbours of the result are far apart in the source, whose own are far apart in the result, a loop over either
would fetch a line of the cache for each element. Squares of as many rows as a vector has lanes are read by rows and
transposed in registers, so that each line is read once and written once.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu import elementwise
from fastgrad.kernels.cpu.micro import lanes, transposing
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import address_of, advance, nth, stack_small, words
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64, INT16, ITEMSIZES, moved_as
from fastgrad.native.contracts.frames.elementwise import ACROSS, STRIDED

BY_SIZE = {2: INT16, 4: FLOAT32, 8: FLOAT64}  # what elements of a size are to instructions that move them


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The copy or the cast to a dtype."""
    source = kernel.frame(layout_class).element("x", dtype)
    moved = dict.fromkeys(("out", "x"), moved_as(dtype)) if source == dtype else {}
    straight, options, more = elementwise.build(kernel, dtype, layout_class, moved)
    if layout_class != STRIDED:
        return straight, options, more
    if source == dtype:  # a copy moves bits, whatever they mean
        source = dtype = BY_SIZE.get(ITEMSIZES[dtype], dtype)
    pointer_x, pointer_out = ELEMENTS[source].pointer, ELEMENTS[dtype].pointer
    edge = _by_elements(source, dtype)
    side, square = _square(source, dtype, edge)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.strided(frame)
        to, x = f.out, nth(f.inputs, 0)
        if f.across == 0:
            straight(address_of(f))
            return
        inner = f.rank - f.across  # the dimension in which the source has its neighbours
        at, total = words(stack_small()), 1
        for d in range(f.rank):
            at[d] = 0
            total *= 1 if d == 0 or d == inner else f.sizes[d]
        n, m, row_out, row_x = f.sizes[0], f.sizes[inner], to.strides[inner], x.strides[0]
        p_out, p_x = pointer_out(to.data), pointer_x(x.data)
        o_out = o_x = 0
        for _ in range(total):
            for j in range(0, m, side):
                for i in range(0, n, side):
                    target = advance(p_out, o_out + j * row_out + i)
                    found = advance(p_x, o_x + i * row_x + j)
                    if i + side <= n and j + side <= m:
                        square(target, row_out, found, row_x)
                    else:
                        edge(target, row_out, found, row_x, min(side, n - i), min(side, m - j))
            d = 1
            while d < f.rank:
                if d != inner:
                    at[d] += 1
                    o_out += to.strides[d]
                    o_x += x.strides[d]
                    if at[d] < f.sizes[d]:
                        break
                    o_out -= to.strides[d] * f.sizes[d]
                    o_x -= x.strides[d] * f.sizes[d]
                    at[d] = 0
                d += 1

    return run, KERNEL, more


def _square(source: int, dtype: int, by_elements: Any) -> tuple[int, Any]:
    """The side of a square, and an inlined function that transposes one: in registers, or element by element."""
    width = lanes(dtype) if source == dtype else 0
    if width:
        return width, transposing(width, dtype, scaled=False)

    @njit(**INLINE)
    def square(target, row_target, found, row_found):  # type: ignore[no-untyped-def]
        by_elements(target, row_target, found, row_found, ACROSS, ACROSS)

    return ACROSS, square


def _by_elements(source: int, dtype: int) -> Any:
    """An inlined function that transposes some rows and columns of one dtype to another."""
    load, store = ELEMENTS[source].load, ELEMENTS[dtype].store

    @njit(**INLINE)
    def transpose(target, row_target, found, row_found, rows, columns):  # type: ignore[no-untyped-def]
        for j in range(columns):
            for i in range(rows):
                store(target, j * row_target + i, load(found, i * row_found + j))

    return transpose
