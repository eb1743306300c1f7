"""The gradient of a convolution's weights, as sums over the pixels of planes; for groups of few channels or outputs.

It runs over the planes of x (`conv_planes`), and over those of y, whose rows have the same pitch: a tile holds vectors
of sums over pixels, of some outputs and some weights, and adds up their lanes at the end.

Images fall into blocks, as many as their sizes say: each block is a step of its own with sums of its own, which the
next stage adds in order. So the result is the same on any number of threads.

Note [Gaps]: between two rows `y` is zero on its planes, so that what x has there does not count. It does if it is
infinite or nan. As that shows in the result, a result that is not finite is computed in the general way once more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.conv_planes import (
    LINE,
    find_places,
    images_of_block,
    never,
    new_planes,
    placer,
    plan_planes,
    planes_at,
    round_up,
)
from fastgrad.kernels.cpu.lane_sums import lane_sums
from fastgrad.kernels.cpu.micro import tile_shape
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.native.base.intrinsics import advance, caster, memset, nth, stack_words, words
from fastgrad.native.contracts.record import Part

PIXELS = 1024  # of a sum before its lanes are added
FEW = 2  # outputs of a group for which a tile has one row, and as many vectors as there are registers for
NARROW = 8  # vectors of such a tile


SUM_PLAN = Part(
    "convolution_sums", few=1, high=1, long=1, pixels=1, blocks=1, chunks=1, places=1, sums=1, each=1, images=1, x=1,
    y=1,
)  # fmt: skip
"""Whether groups have few outputs; rows and vectors of a tile; of a plane of y; blocks of outputs, chunks of weights;
bytes of the places; sums of a block of images; images of a block, and on planes at a time; elements of these planes."""
_plan_at = caster(SUM_PLAN)
_new_plan = stack_words(SUM_PLAN.words)


@njit(**KERNEL)
def _plan_sums(s, f, p, shape, size):  # type: ignore[no-untyped-def]
    """Fill in the plan."""
    rows, vectors, lanes = shape
    terms, s.few = p.inputs * f.kh * f.kw, 1 if p.outputs <= FEW else 0
    s.high, s.long = (1, NARROW) if s.few else (rows, vectors)
    s.pixels = round_up((f.oh - 1) * p.pitch + f.ow, lanes)
    s.blocks, s.chunks = (p.outputs + s.high - 1) // s.high, (terms + s.long - 1) // s.long
    s.places = round_up(s.chunks * s.long * 8, LINE)
    s.sums = f.groups * s.blocks * s.high * s.chunks * s.long
    s.each = images_of_block(f.n, s.sums * size, 1)
    s.images = min(max(PIXELS // s.pixels, 1), s.each)
    s.x, s.y = s.images * f.c * p.plane, s.images * f.groups * s.blocks * s.high * s.pixels


def weight_correlation(dtype: int) -> Any:
    """``direct(f, x, w, y)``, with addresses; returns and does what that of `conv_direct.correlation` does.

    The last stage is left to the caller, which looks whether `w` is finite.
    """
    shape = tile_shape(dtype)
    if shape is None:
        return never
    lanes, size = shape[2], np.dtype(ELEMENTS[dtype].name).itemsize
    pointer, total, write = ELEMENTS[dtype].pointer, _total(shape, dtype), _writer()

    @njit(**KERNEL)
    def direct(f, x, w, y):  # type: ignore[no-untyped-def]
        p, s = planes_at(new_planes()), _plan_at(_new_plan())
        terms = f.c // f.groups * f.kh * f.kw
        if not plan_planes(p, f, 0, lanes, lanes) or terms < 4 or f.n == 0:
            return False
        _plan_sums(s, f, p, shape, size)
        steps = (f.n + s.each - 1) // s.each
        if f.scratch.data == 0:
            f.scratch.nbytes = round_up(s.places + (s.x + s.y) * size, LINE)
            f.shared.nbytes = steps * s.sums * size
            summing, adding, checking = nth(f.stages, 0), nth(f.stages, 1), nth(f.stages, 2)
            summing.steps, summing.work = steps, f.n * f.o * f.oh * f.ow * max(terms // 16, 1)
            adding.steps, adding.work = f.o, f.o * terms * steps
            checking.steps, checking.work = 1, f.o * terms
        elif f.stage == 0:
            memset(f.scratch.data, 0, s.places + (s.x + s.y) * size)
            find_places(words(f.scratch.data), p, f)
            for step in range(f.first, f.first + f.steps):
                memset(f.shared.data + step * s.sums * size, 0, s.sums * size)
                sums = pointer(f.shared.data + step * s.sums * size)
                total(f, p, s, x, y, sums, step * s.each, min((step + 1) * s.each, f.n))
        elif f.stage == 1:
            for o in range(f.first, f.first + f.steps):
                row = o // p.outputs * s.blocks * s.high + o % p.outputs
                source = pointer(
                    f.shared.data + (row // s.high * s.high * s.chunks * s.long + row % s.high) * size
                )
                write(advance(w, o * terms), source, terms, s.high, steps, s.sums)
        return True

    return direct


def _total(shape: tuple[int, int, int], dtype: int) -> Any:
    """The sums of the images from `low` up to `high`."""
    rows, vectors, lanes = shape
    pointer = ELEMENTS[dtype].pointer
    place = _placing()
    wide, narrow = _sweeper(rows, vectors, lanes, dtype), _sweeper(1, NARROW, lanes, dtype)

    @njit(**KERNEL)
    def total(f, p, s, x, y, sums, low, high):  # type: ignore[no-untyped-def]
        places, xs = words(f.scratch.data), pointer(f.scratch.data + s.places)
        ys, of_group = advance(xs, s.x), s.blocks * s.high * s.pixels
        for n in range(low, high, s.images):
            from_x, from_y = advance(x, n * f.c * f.h * f.w), advance(y, n * f.o * f.oh * f.ow)
            count = min(s.images, high - n)
            place(f, p, s, from_x, from_y, xs, ys, of_group, count)
            for g in range(f.groups):
                from_x, from_y = advance(xs, g * p.inputs * p.plane), advance(ys, g * of_group)
                to, x_step, y_step = (
                    advance(sums, g * (s.sums // f.groups)),
                    f.c * p.plane,
                    f.groups * of_group,
                )
                if s.few:
                    narrow(from_y, s.pixels, y_step, from_x, x_step, places, count, s.blocks, s.chunks, to)
                else:
                    wide(from_y, s.pixels, y_step, from_x, x_step, places, count, s.blocks, s.chunks, to)

    return total


def _placing() -> Any:
    """So many images x and y on their planes."""
    place, place_rows = placer(), _row_placer()

    @njit(**KERNEL)
    def placing(f, p, s, x, y, xs, ys, of_group, count):  # type: ignore[no-untyped-def]
        for i in range(count):
            place(advance(xs, i * f.c * p.plane), p, advance(x, i * f.c * f.h * f.w), f.c)
            for o in range(f.o):
                to = (i * f.groups + o // p.outputs) * of_group + o % p.outputs * s.pixels
                place_rows(advance(ys, to), p.pitch, advance(y, (i * f.o + o) * f.oh * f.ow), f)

    return placing


def _row_placer() -> Any:
    def copy(out, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = x[i]

    copy = njit(**LOOP)(copy)

    @njit(**KERNEL)
    def place(out, pitch, y, f):  # type: ignore[no-untyped-def]
        for i in range(f.oh):
            copy(advance(out, i * pitch), advance(y, i * f.ow), f.ow)

    return place


def _sweeper(rows: int, vectors: int, lanes: int, dtype: int) -> Any:
    """Sums over the pixels of some images: every block of outputs with every chunk of weights."""
    sums_of = lane_sums(rows, vectors, lanes, dtype)

    @njit(**KERNEL)
    def sweep(y, pixels, y_step, x, x_step, places, images, blocks, chunks, sums):  # type: ignore[no-untyped-def]
        for p in range(0, pixels, PIXELS):
            count = min(PIXELS, pixels - p)
            for b in range(blocks):
                from_y = advance(y, b * rows * pixels + p)
                for k in range(chunks):
                    target = advance(sums, (b * chunks + k) * vectors * rows)
                    from_x, of_chunk = advance(x, p), advance(places, k * vectors)
                    sums_of(from_y, pixels, y_step, from_x, of_chunk, x_step, count, images, target)

    return sweep


def _writer() -> Any:
    """``write(w, sums, terms, step, blocks, distance)``: those of an output, added up over the blocks of images."""

    @njit(**KERNEL)
    def write(w, sums, terms, step, blocks, distance):  # type: ignore[no-untyped-def]
        for k in range(terms):
            w[k] = sums[k * step]
        for b in range(1, blocks):
            source = advance(sums, b * distance)
            for k in range(terms):
                w[k] += source[k * step]

    return write
