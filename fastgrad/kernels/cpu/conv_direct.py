"""Convolutions of stride 1 without columns: tiles of vector registers that read the image itself.

Each image is copied once into planes with its padding, so that the rows of a plane follow each other at one pitch. On
such a plane the pixels form one line: the output at place p is the sum over all weights of ``w[k] * plane[p +
places[k]]``, where `places` says where the channel, row and column of weight k begin. The columns between the end of a
row and the next one are computed like the others and thrown away. That is a product of matrices without a copy of the
second one, in the tiles of `micro`. The transposed convolution is the same with the weights turned around.

The gradient of the weights runs over the same planes: a tile holds vectors of sums over pixels, of some outputs and
some weights, and adds up their lanes at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.micro import lane_sums, tile, tile_shape
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP, Element
from fastgrad.native.base.intrinsics import advance, memset, words
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64

LINE = 64
PIXELS = (
    1024  # of an output that are computed before they are copied out; of a sum before its lanes are added
)


@njit(**KERNEL)
def _round_up(n, unit):  # type: ignore[no-untyped-def]
    return (n + unit - 1) // unit * unit


@njit(**KERNEL)
def _find_places(places, f, channels, pitch, plane):  # type: ignore[no-untyped-def]
    """Where on the planes of a group the weights of one output begin."""
    k = 0
    for c in range(channels):
        for row in range(f.kh):
            for column in range(f.kw):
                places[k] = c * plane + row * f.dh * pitch + column * f.dw
                k += 1


def _row_copier() -> Any:
    def copy(out, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = x[i]

    return njit(**LOOP)(copy)


def _placer() -> Any:
    """``place(planes, plane, pitch, top, left, source, channels, h, w)``: images into the middle of their planes."""
    copy = _row_copier()

    def place(planes, plane, pitch, rows, top, left, source, channels, h, w):  # type: ignore[no-untyped-def]
        width = min(w, pitch - left)
        for c in range(channels):
            for row in range(min(h, rows - top)):
                at = c * plane + (top + row) * pitch + left
                copy(advance(planes, at), advance(source, (c * h + row) * w), width)

    return njit(**KERNEL)(place)


# --- images ----------------------------------------------------------------------------------------------------


def _strip(vectors: int, rows: int, lanes: int, dtype: int) -> Any:
    """All outputs of a group at ``vectors * lanes`` places: blocks of `rows` outputs, then single ones."""
    block, single = (tile(r, vectors, lanes, dtype, indirect=True) for r in (rows, 1))

    @njit(**KERNEL)
    def strip(weights, x, places, terms, out, pitch, blocks, singles):  # type: ignore[no-untyped-def]
        for b in range(blocks):
            at = b * rows
            block(advance(weights, at * terms), 1, rows, x, places, advance(out, at * pitch), pitch, terms)
        for s in range(singles):
            at = blocks * rows + s
            single(advance(weights, at * terms), 1, 1, x, places, advance(out, at * pitch), pitch, terms)

    return strip


def _packer(element: Element, rows: int) -> Any:
    """Weights in the order in which tiles read them, zeros where a block has more rows than there are outputs."""
    zero = element.constant(0)

    @njit(**KERNEL)
    def pack(out, w, f, blocks, singles, inputs, outputs, out_step, in_step, flipped):  # type: ignore[no-untyped-def]
        taps = f.kh * f.kw
        terms = inputs * taps
        for o in range(blocks * rows + singles):
            at, step = (o // rows * rows * terms + o % rows, rows) if o < blocks * rows else (o * terms, 1)
            for c in range(inputs):
                source = advance(w, o * out_step + c * in_step)
                for t in range(taps):
                    value = zero
                    if o < outputs:
                        value = source[taps - 1 - t] if flipped else source[t]
                    out[at + (c * taps + t) * step] = value

    return pack


def correlation(dtype: int) -> Any:
    """Images from images, by stride 1: the convolution, or the transposed one with the weights flipped.

    ``direct(f, source, inputs, h, w, target, outputs, height, width, top, left, out_step, in_step, flipped)``: channels
    of a group and sizes of both, where the source lies on its plane, how far apart in memory the weights of two outputs
    and of two inputs are. Returns whether this is the way to compute it; if so it is done, or without scratch the frame
    says how much is needed.
    """
    shape = tile_shape(dtype)
    if shape is None:
        return _never
    rows, _, lanes = shape
    element = ELEMENTS[dtype]
    size, pointer = np.dtype(element.name).itemsize, element.pointer
    place, pack, plan, image = (
        _placer(),
        _packer(element, rows),
        _planner(shape, size),
        _image(element, rows, lanes),
    )

    @njit(**KERNEL)
    def direct(
        f, source, inputs, h, w, target, outputs, height, width, top, left, out_step, in_step, flipped
    ):  # type: ignore[no-untyped-def]
        groups, terms = f.groups, inputs * f.kh * f.kw
        pitch, tall = width + f.dw * (f.kw - 1), height + f.dh * (f.kh - 1)
        if f.sh != 1 or f.sw != 1 or top < 0 or left < 0 or terms < 4 or pitch > 2 * width:
            return False
        blocks, singles, plane, line, at_weights, at_planes, at_sums = plan(f, inputs, outputs, height, width)
        if f.scratch.data == 0:
            return True
        places, weights, planes, sums = (
            words(f.scratch.data),
            pointer(at_weights),
            pointer(at_planes),
            pointer(at_sums),
        )
        of_group, of_outputs = (blocks * rows + singles) * terms, inputs * outputs * f.kh * f.kw
        _find_places(places, f, inputs, pitch, plane)
        for g in range(groups):
            packed, given = advance(weights, g * of_group), pointer(f.weight + g * of_outputs * size)
            pack(packed, given, f, blocks, singles, inputs, outputs, out_step, in_step, flipped)
        memset(at_planes, 0, groups * inputs * plane * size)
        for n in range(f.n):
            whole = advance(source, n * groups * inputs * h * w)
            place(planes, plane, pitch, tall, top, left, whole, groups * inputs, h, w)
            for g in range(groups):
                out = advance(target, (n * groups + g) * outputs * height * width)
                bias = f.bias + g * outputs * size if f.bias != 0 else 0
                image(
                    advance(weights, g * of_group), advance(planes, g * inputs * plane), places, terms, pitch, sums,
                    line, blocks, singles, out, outputs, height, width, bias,
                )  # fmt: skip
        return True

    return direct


def _planner(shape: tuple[int, int, int], size: int) -> Any:
    """How outputs are cut into blocks, and what lies where in the scratch."""
    rows, vectors, lanes = shape
    reach = vectors * lanes  # tiles read and write beyond the end of a line

    @njit(**KERNEL)
    def plan(f, inputs, outputs, height, width):  # type: ignore[no-untyped-def]
        groups, terms = f.groups, inputs * f.kh * f.kw
        pitch, tall = width + f.dw * (f.kw - 1), height + f.dh * (f.kh - 1)
        blocks, singles = outputs // rows, outputs % rows
        if singles * 3 > rows:  # a last block with fewer outputs is computed one by one
            blocks, singles = blocks + 1, 0
        units = blocks * rows + singles
        plane = _round_up(tall * pitch + reach, lanes)
        line = _round_up(_depth(height, pitch) * pitch + reach, lanes)
        at_weights = f.scratch.data + _round_up(terms * 8, LINE)
        at_planes = at_weights + _round_up(groups * units * terms * size, LINE)
        at_sums = at_planes + _round_up(groups * inputs * plane * size, LINE)
        f.scratch.nbytes = at_sums + units * line * size - f.scratch.data
        return blocks, singles, plane, line, at_weights, at_planes, at_sums

    return plan


@njit(**KERNEL)
def _depth(height, pitch):  # type: ignore[no-untyped-def]
    """Rows of an output that are computed before they are copied out."""
    return min(max(PIXELS // pitch, 1), height)


def _image(element: Element, rows: int, lanes: int) -> Any:
    """The outputs of a group for one image."""
    band, unpack = _band(rows, lanes, FLOAT32 if element.name == "float32" else FLOAT64), _unpacker(element)

    @njit(**KERNEL)
    def image(
        weights, planes, places, terms, pitch, sums, line, blocks, singles, out, outputs, height, width, bias
    ):  # type: ignore[no-untyped-def]
        depth = _depth(height, pitch)
        for row in range(0, height, depth):
            count = min(depth, height - row)
            pixels = (count - 1) * pitch + width
            band(weights, advance(planes, row * pitch), places, terms, sums, line, blocks, singles, pixels)
            unpack(advance(out, row * width), height * width, sums, line, pitch, outputs, count, width, bias)

    return image


@njit(**KERNEL)
def _never(*arguments):  # type: ignore[no-untyped-def]
    return False


def _band(rows: int, lanes: int, dtype: int) -> Any:
    """Some rows of the output: strips as wide as tiles are, the last one no wider than it needs to be."""
    one, two, three = (_strip(v, rows, lanes, dtype) for v in (1, 2, 3))

    @njit(**KERNEL)
    def band(weights, x, places, terms, sums, line, blocks, singles, pixels):  # type: ignore[no-untyped-def]
        p = 0
        while p < pixels:
            left = pixels - p
            out = advance(sums, p)
            if left > 2 * lanes:
                three(weights, advance(x, p), places, terms, out, line, blocks, singles)
                p += 3 * lanes
            elif left > lanes:
                two(weights, advance(x, p), places, terms, out, line, blocks, singles)
                p += 2 * lanes
            else:
                one(weights, advance(x, p), places, terms, out, line, blocks, singles)
                p += lanes

    return band


def _unpacker(element: Element) -> Any:
    """Rows of outputs from their lines to where they belong, with the bias."""
    pointer, zero = element.pointer, element.constant(0)

    def add(out, x, value, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = x[i] + value

    add = njit(**LOOP)(add)

    @njit(**KERNEL)
    def unpack(out, plane, sums, line, pitch, outputs, count, width, bias):  # type: ignore[no-untyped-def]
        for o in range(outputs):
            value = pointer(bias)[o] if bias != 0 else zero
            for row in range(count):
                target = advance(out, o * plane + row * width)
                add(target, advance(sums, o * line + row * pitch), value, width)

    return unpack


# --- weights ---------------------------------------------------------------------------------------------------


def weight_correlation(dtype: int) -> Any:
    """The gradient of the weights, by stride 1: ``direct(f, x, w, y)``.

    Returns whether `w` is done; without scratch, the frame says how much is needed at least.

    Note [Gaps]: between two rows `y` is zero on its planes, so that what x has there does not count. It does if it is
    infinite or nan. As that shows in the result, the general way is left to compute a result that is not finite.
    """
    shape = tile_shape(dtype)
    if shape is None:
        return _never
    rows, vectors, lanes = shape
    element = ELEMENTS[dtype]
    pointer, size = element.pointer, np.dtype(element.name).itemsize
    place, sweep, write = _placer(), _sweeper(rows, vectors, lanes, dtype), _weight_writer(element, rows)

    @njit(**KERNEL)
    def direct(f, x, w, y):  # type: ignore[no-untyped-def]
        groups, inputs, outputs = f.groups, f.c // f.groups, f.o // f.groups
        terms = inputs * f.kh * f.kw
        pitch, tall = f.ow + f.dw * (f.kw - 1), f.oh + f.dh * (f.kh - 1)
        if f.sh != 1 or f.sw != 1 or terms < 4 or pitch > 2 * f.ow or f.n == 0:
            return False
        pixels = _round_up((f.oh - 1) * pitch + f.ow, lanes)
        images = min(max(PIXELS // pixels, 1), f.n)
        chunks, blocks = (terms + vectors - 1) // vectors, (outputs + rows - 1) // rows
        plane = _round_up(tall * pitch + lanes, lanes)
        at_sums = f.scratch.data + _round_up(chunks * vectors * 8, LINE)
        at_x = at_sums + _round_up(groups * blocks * rows * chunks * vectors * size, LINE)
        at_y = at_x + _round_up(images * f.c * plane * size, LINE)
        end = at_y + images * groups * blocks * rows * pixels * size
        f.scratch.nbytes = max(f.scratch.nbytes, end - f.scratch.data)
        if f.scratch.data == 0:
            return False
        memset(f.scratch.data, 0, end - f.scratch.data)
        places, xs, ys, sums = words(f.scratch.data), pointer(at_x), pointer(at_y), pointer(at_sums)
        _find_places(places, f, inputs, pitch, plane)
        for n in range(0, f.n, images):
            count = min(images, f.n - n)
            for i in range(count):
                from_x, to_x = advance(x, (n + i) * f.c * f.h * f.w), advance(xs, i * f.c * plane)
                place(to_x, plane, pitch, tall, f.ph, f.pw, from_x, f.c, f.h, f.w)
                for g in range(groups):
                    from_y = advance(y, ((n + i) * groups + g) * outputs * f.oh * f.ow)
                    to_y = advance(ys, (i * groups + g) * blocks * rows * pixels)
                    place(to_y, pixels, pitch, f.oh, 0, 0, from_y, outputs, f.oh, f.ow)
            for g in range(groups):
                of_x, of_y = advance(xs, g * inputs * plane), advance(ys, g * blocks * rows * pixels)
                of_sums = advance(sums, g * blocks * rows * chunks * vectors)
                sweep(
                    of_y, pixels, groups * blocks * rows * pixels, of_x, f.c * plane, places, count, blocks, chunks,
                    of_sums,
                )  # fmt: skip
        return write(w, sums, groups, outputs, terms, blocks, chunks * vectors)

    return direct


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


def _weight_writer(element: Element, rows: int) -> Any:
    """Sums from the order of tiles to that of the weights; tells whether all are finite."""
    zero = element.constant(0)

    @njit(**KERNEL)
    def write(w, sums, groups, outputs, terms, blocks, width):  # type: ignore[no-untyped-def]
        wrong = 0
        for g in range(groups):
            for o in range(outputs):
                source = advance(sums, (g * blocks + o // rows) * width * rows + o % rows)
                target = advance(w, (g * outputs + o) * terms)
                for k in range(terms):
                    value = source[k * rows]
                    target[k] = value
                    wrong += 1 if value - value != zero else 0
        return wrong == 0

    return write
