"""Small images side by side: the pixels of several images that stand at one place are neighbours.

Rows that are shorter than a vector would leave most of it unused. So images are transposed on their way to the planes,
and results on their way back: a row of the planes has so many elements for each pixel as there are images together.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.conv_planes import round_up
from fastgrad.kernels.cpu.micro import transposing
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.native.base.intrinsics import advance


def _transposer(dtype: int, lanes: int) -> Any:
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


def _copy(out, x, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[i] = x[i]


def _add(out, x, value, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[i] = x[i] + value


def place_together(dtype: int, lanes: int) -> Any:
    """``place(planes, p, source, between, channels, count, memory)``: so many images, `between` apart, on planes.

    The memory is of a channel of the images, rounded up to whole vectors.
    """
    transpose, copy = _transposer(dtype, lanes), njit(**LOOP)(_copy)

    @njit(**KERNEL)
    def place(planes, p, source, between, channels, count, memory):  # type: ignore[no-untyped-def]
        area, together = p.h * p.w, p.together
        for c in range(channels):
            transpose(memory, together, advance(source, c * area), between, count, area)
            for r in range(min(p.h, p.tall * p.down - p.top)):
                at = c * p.plane + (r + p.top) % p.down * p.across * p.phase
                line = advance(planes, at + (r + p.top) // p.down * p.pitch * together)
                given = advance(memory, r * p.w * together)
                if p.across == 1:
                    copy(advance(line, p.left * together), given, min(p.w, p.pitch - p.left) * together)
                    continue
                for j in range(p.w):
                    v, column = (j + p.left) % p.across, (j + p.left) // p.across
                    if column < p.pitch:
                        to = advance(line, v * p.phase + column * together)
                        copy(to, advance(given, j * together), together)

    return place


def unpack_together(dtype: int, lanes: int) -> Any:
    """``unpack(out, p, sums, line, channels, count, bias, memory)``: results of so many images, with the bias.

    `channels` are those of a whole image of results; the memory is of one of them, of all images.
    """
    transpose, add = _transposer(dtype, lanes), njit(**LOOP)(_add)
    pointer, zero = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(0)

    @njit(**KERNEL)
    def unpack(out, p, sums, line, channels, count, bias, memory):  # type: ignore[no-untyped-def]
        area = p.height * p.width
        long = round_up(area, lanes)
        for o in range(p.outputs):
            value = pointer(bias)[o] if bias != 0 else zero
            transpose(memory, long, advance(sums, o * line), p.together, area, count)
            for i in range(count):
                add(advance(out, (i * channels + o) * area), advance(memory, i * long), value, area)

    return unpack
