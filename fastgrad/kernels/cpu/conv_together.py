"""Small images side by side: the pixels of several images that stand at one place are neighbours.

Rows that are shorter than a vector would leave most of it unused. So images are transposed on their way in, and results
on their way back: a pixel is a row of so many elements for each channel as there are images together. It is computed on
its own, of those weights alone that meet the image, which on small images are many fewer than all.

Where x is computed from y the window is turned around: what a weight meets is then ``k * D`` behind the first place in
either direction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.conv_planes import round_up
from fastgrad.kernels.cpu.micro import tile, transposing
from fastgrad.kernels.cpu.pool import inside
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.native.base.intrinsics import address_of, advance, memset

SMALL = 64  # pixels of images that lie together


@njit(**KERNEL)
def images_together(p, f, lanes):  # type: ignore[no-untyped-def]
    """How many images lie together; 1 where they are computed one by one."""
    small = p.width < lanes and max(p.height * p.width, p.h * p.w) <= SMALL
    if small and p.step_down * p.step_across == 1 and f.n >= lanes:
        return min(f.n // lanes, 2) * lanes
    return 1


@njit(**KERNEL)
def places_together(places, p, f, together):  # type: ignore[no-untyped-def]
    """Where what the weights of a result meet lies, seen from the first of them; in order of places of the window."""
    at = 0
    for k in range(f.kh):
        for j in range(f.kw):
            for c in range(p.inputs):
                places[at] = ((k * f.dh * p.w + j * f.dw) * p.inputs + c) * together
                at += 1


def transposer(dtype: int, lanes: int) -> Any:
    """``transpose(out, row_out, x, row_x, m, n)``: the transpose of m rows of length n.

    It is written in squares, and what lies beyond the last row or column in them has no meaning.
    """
    move, one = transposing(lanes, dtype, bounded=True), ELEMENTS[dtype].constant(1)

    @njit(**KERNEL)
    def transpose(out, row_out, x, row_x, m, n):  # type: ignore[no-untyped-def]
        for i in range(0, m, lanes):
            for j in range(0, n, lanes):
                move(
                    advance(out, j * row_out + i),
                    row_out,
                    advance(x, i * row_x + j),
                    row_x,
                    one,
                    m - i,
                    n - j,
                )

    return transpose


def _add(out, x, value, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[i] = x[i] + value


def joined(dtype: int, rows: int, lanes: int) -> Any:
    """``run(p, f, source, target, weights, places, blocks, singles, line, together)``: the steps of a launch.

    The weights are in order of places of the window; a line has the results of an output. Each group is a transposed
    copy of the images in the scratch, followed by the results and room for one of them in the order of the images.
    """
    element = ELEMENTS[dtype]
    size, pointer = np.dtype(element.name).itemsize, element.pointer
    transpose, unpack = transposer(dtype, lanes), _unpacker(dtype, lanes)
    one, two = (_pixels(rows, vectors, lanes, dtype) for vectors in (1, 2))

    @njit(**KERNEL)
    def run(p, f, source, target, weights, places, blocks, singles, line, together):  # type: ignore[no-untyped-def]
        given, area, channels = p.h * p.w, p.height * p.width, f.groups * p.inputs
        units, terms, pixel = blocks * rows + singles, p.inputs * f.kh * f.kw, p.inputs * together
        images = pointer(f.scratch.data)
        sums = advance(images, round_up(given, lanes) * pixel)
        memory = advance(sums, units * line)
        for step in range(f.first, f.first + f.steps):
            n = step * together
            count = min(together, f.n - n)
            for g in range(f.groups):
                for c in range(p.inputs):
                    x = advance(source, (n * channels + g * p.inputs + c) * given)
                    transpose(advance(images, c * together), pixel, x, channels * given, count, given)
                memset(address_of(sums), 0, units * line * size)
                packed = advance(weights, g * units * terms)
                if together == lanes:
                    one(p, f, images, packed, places, sums, line, blocks, singles)
                else:
                    two(p, f, images, packed, places, sums, line, blocks, singles)
                bias = f.bias + g * p.outputs * size if f.bias != 0 else 0
                out = advance(target, (n * f.groups + g) * p.outputs * area)
                unpack(out, p, sums, line, together, f.groups * p.outputs, count, bias, memory)

    return run


@njit(**INLINE)
def _first(p, place, stride, padding, reach):  # type: ignore[no-untyped-def]
    """Where along a dimension what a result meets begins."""
    return place + padding - reach if p.transposed else place * stride - padding


def _pixels(rows: int, vectors: int, lanes: int, dtype: int) -> Any:
    """The results of a group, added to zeros: for each block of outputs pixel by pixel, by the rows of the window."""
    block, single = (tile(r, vectors, lanes, dtype, indirect=True, accumulate=True) for r in (rows, 1))
    together = vectors * lanes

    @njit(**KERNEL)
    def pixels(p, f, images, weights, places, sums, line, blocks, singles):  # type: ignore[no-untyped-def]
        terms = p.inputs * f.kh * f.kw
        for unit in range(blocks + singles):
            begin = unit * rows if unit < blocks else blocks * rows + unit - blocks
            for i in range(p.height * p.width):
                row = _first(p, i // p.width, f.sh, f.ph, f.dh * (f.kh - 1))
                column = _first(p, i % p.width, f.sw, f.pw, f.dw * (f.kw - 1))
                top, bottom = inside(row, f.dh, p.h, f.kh)
                left, right = inside(column, f.dw, p.w, f.kw)
                x = advance(images, (row * p.w + column) * p.inputs * together)
                out = advance(sums, begin * line + i * together)
                for k in range(top, bottom):
                    at, count = (k * f.kw + left) * p.inputs, (right - left) * p.inputs
                    if unit < blocks:
                        w = advance(weights, begin * terms + at * rows)
                        block(w, 1, rows, x, advance(places, at), out, line, count)
                    else:
                        w = advance(weights, begin * terms + at)
                        single(w, 1, 1, x, advance(places, at), out, line, count)

    return pixels


def _unpacker(dtype: int, lanes: int) -> Any:
    """``unpack(out, p, sums, line, together, channels, count, bias, memory)``: so many images, with the bias.

    `channels` are those of a whole image of results; the memory is of one of them, of all images.
    """
    transpose, add = transposer(dtype, lanes), njit(**LOOP)(_add)
    pointer, zero = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(0)

    @njit(**KERNEL)
    def unpack(out, p, sums, line, together, channels, count, bias, memory):  # type: ignore[no-untyped-def]
        area = p.height * p.width
        long = round_up(area, lanes)
        for o in range(p.outputs):
            value = pointer(bias)[o] if bias != 0 else zero
            transpose(memory, long, advance(sums, o * line), together, area, count)
            for i in range(count):
                add(advance(out, (i * channels + o) * area), advance(memory, i * long), value, area)

    return unpack
