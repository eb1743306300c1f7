"""Convolutions without columns: tiles of vector registers that read planes of the image itself.

On a plane (`conv_planes`) the pixels form one line: the output at place t is the sum over all weights of ``w[k] *
plane[t + places[k]]``, where `places` says where the channel, row and column of weight k begin. The columns between the
end of a row and the next one are computed like the others and thrown away. That is a product of matrices without a copy
of the second one, in the tiles of `micro`. The transposed convolution is the same with other places.

The weights are brought into the order of tiles once, in a stage of its own; then each image is a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.conv_planes import (
    LINE,
    find_places,
    meets,
    never,
    new_planes,
    placer,
    plan_planes,
    planes_at,
    results_of,
    round_up,
    taps_of,
)
from fastgrad.kernels.cpu.conv_together import images_together, joined, places_together
from fastgrad.kernels.cpu.micro import tile, tile_shape
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.native.base.intrinsics import advance, memset, nth, words

PIXELS = 1024  # of an output that are computed before they are copied out


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


def _packer(element: Element) -> Any:
    """``pack(out, w, p, f, units, low, count)``: weights of the outputs from `low` on in the order in which tiles read
    them, phase by phase; a block of `count` outputs or a single one. Zeros where a block has more rows than outputs.
    """
    zero = element.constant(0)

    @njit(**KERNEL)
    def pack(out, w, p, f, units, low, count):  # type: ignore[no-untyped-def]
        by_output, by_input = _distances(p, f)
        begin = 0
        for a in range(p.step_down):
            for b in range(p.step_across):
                terms = p.inputs * taps_of(p, f, a, b)
                at = units * begin + low * terms
                begin += terms
                for c in range(p.inputs):
                    for k in range(f.kh):
                        for j in range(f.kw):
                            if meets(p, f.sh, k * f.dh, a) and meets(p, f.sw, j * f.dw, b):
                                source = advance(w, c * by_input + k * f.kw + j)
                                for r in range(count):
                                    o = low + r
                                    out[at + r] = source[o * by_output] if o < p.outputs else zero
                                at += count

    return pack


@njit(**INLINE)
def _distances(p, f):  # type: ignore[no-untyped-def]
    """How far the weights of an output are apart from those of the next one, and those of an input."""
    taps = f.kh * f.kw
    return (taps, p.outputs * taps) if p.transposed else (p.inputs * taps, taps)


def _packer_by_place(element: Element) -> Any:
    """``pack(out, w, p, f, low, count)``: the same by places of the window, in the order of `conv_together`."""
    zero = element.constant(0)

    @njit(**KERNEL)
    def pack(out, w, p, f, low, count):  # type: ignore[no-untyped-def]
        by_output, by_input = _distances(p, f)
        taps = f.kh * f.kw
        at = low * p.inputs * taps
        for t in range(
            taps
        ):  # what is written lies in one line: as many lines as there are places would collide
            tap = taps - 1 - t if p.transposed else t
            for c in range(p.inputs):
                source = advance(w, c * by_input + tap)
                for r in range(count):
                    o = low + r
                    out[at + r] = source[o * by_output] if o < p.outputs else zero
                at += count

    return pack


def _packing(element: Element, rows: int) -> Any:
    """``pack(weights, p, f, blocks, singles, together)``: the steps of a launch, each a block of outputs of a group."""
    pack_in_order, pack_by_place = _packer(element), _packer_by_place(element)
    size, pointer = np.dtype(element.name).itemsize, element.pointer

    @njit(**KERNEL)
    def pack(weights, p, f, blocks, singles, together):  # type: ignore[no-untyped-def]
        units, taps = blocks * rows + singles, f.kh * f.kw
        for step in range(f.first, f.first + f.steps):
            g, b = step // (blocks + singles), step % (blocks + singles)
            given = pointer(f.weight + g * p.inputs * p.outputs * taps * size)
            low = b * rows if b < blocks else blocks * rows + b - blocks
            count = rows if b < blocks else 1
            to = advance(weights, g * units * p.inputs * taps)
            if together > 1:
                pack_by_place(to, given, p, f, low, count)
            else:
                pack_in_order(to, given, p, f, units, low, count)

    return pack


def correlation(dtype: int, transposed: int) -> Any:
    """Images y from images x and the weights; or `transposed`, x from y.

    ``direct(f, source, target)`` with the addresses of what is read and written. Returns whether this is the way to
    compute it; if so a part of a stage is done, or without scratch the frame says what the stages need.
    """
    shape = tile_shape(dtype)
    if shape is None:
        return never
    rows, vectors, lanes = shape
    element = ELEMENTS[dtype]
    size, pointer = np.dtype(element.name).itemsize, element.pointer
    pack = _packing(element, rows)
    each, join = _each(dtype, rows, lanes), joined(dtype, rows, lanes)
    reach = vectors * lanes  # tiles read and write beyond the end of a line

    @njit(**KERNEL)
    def direct(f, source, target):  # type: ignore[no-untyped-def]
        p = planes_at(new_planes())
        near = plan_planes(p, f, transposed, reach, lanes)
        together = images_together(p, f, lanes)
        groups, terms = f.groups, p.inputs * f.kh * f.kw
        if terms < 4 or not (near or together > 1):
            return False
        blocks, singles = p.outputs // rows, p.outputs % rows
        if singles * 3 > rows:  # a last block with fewer outputs is computed one by one
            blocks, singles = blocks + 1, 0
        units = blocks * rows + singles
        if together > 1:
            line, images = p.height * p.width * together, round_up(p.h * p.w, lanes) * p.inputs * together
        else:
            line, images = round_up(max(PIXELS, p.pitch) + reach, lanes), groups * p.inputs * p.plane
        of_places = round_up(terms * 8, LINE)
        if f.scratch.data == 0:
            f.shared.nbytes = of_places + groups * units * terms * size
            memory = together * round_up(p.height * p.width, lanes) if together > 1 else 0
            f.scratch.nbytes = round_up((images + units * line + memory) * size, LINE)
            packing, computing = nth(f.stages, 0), nth(f.stages, 1)
            packing.steps, packing.work = groups * (blocks + singles), groups * units * terms
            computing.steps = (f.n + together - 1) // together
            computing.work = f.n * groups * p.outputs * f.oh * f.ow * max(terms // 16, 1)
            return True
        places, weights = words(f.shared.data), pointer(f.shared.data + of_places)
        if f.stage == 0:
            if f.first == 0 and together > 1:
                places_together(places, p, f, together)
            elif f.first == 0:
                find_places(places, p, f)
            pack(weights, p, f, blocks, singles, together)
            return True
        if together > 1:
            join(p, f, source, target, weights, places, blocks, singles, line, together)
        else:
            memset(f.scratch.data, 0, images * size)
            each(p, f, source, target, weights, places, blocks, singles, line)
        return True

    return direct


def _each(dtype: int, rows: int, lanes: int) -> Any:
    """One image at a time."""
    element = ELEMENTS[dtype]
    size, pointer = np.dtype(element.name).itemsize, element.pointer
    place, image = placer(), _image(element, rows, lanes, dtype)

    @njit(**KERNEL)
    def each(p, f, source, target, weights, places, blocks, singles, line):  # type: ignore[no-untyped-def]
        planes, channels = pointer(f.scratch.data), f.groups * p.inputs
        sums = advance(planes, channels * p.plane)
        of_group = (blocks * rows + singles) * p.inputs * f.kh * f.kw
        for n in range(f.first, f.first + f.steps):
            place(planes, p, advance(source, n * channels * p.h * p.w), channels)
            for g in range(f.groups):
                out = advance(target, (n * f.groups + g) * p.outputs * p.height * p.width)
                bias = f.bias + g * p.outputs * size if f.bias != 0 else 0
                packed, x = advance(weights, g * of_group), advance(planes, g * p.inputs * p.plane)
                image(packed, x, places, p, f, sums, line, blocks, singles, out, bias)

    return each


def _image(element: Element, rows: int, lanes: int, dtype: int) -> Any:
    """The outputs of a group for one image."""
    band, unpack = _band(rows, lanes, dtype), _unpacker(element)

    @njit(**KERNEL)
    def image(weights, planes, places, p, f, sums, line, blocks, singles, out, bias):  # type: ignore[no-untyped-def]
        begin, units = 0, blocks * rows + singles
        for a in range(p.step_down):
            for b in range(p.step_across):
                terms = p.inputs * taps_of(p, f, a, b)
                packed, of_phase = advance(weights, begin * units), advance(places, begin)
                begin += terms
                top, height, _ = results_of(p, f.sh, f.ph, a, p.height)
                left, width, _ = results_of(p, f.sw, f.pw, b, p.width)
                depth = min(max(PIXELS // p.pitch, 1), height)
                for row in range(0, height if width > 0 else 0, max(depth, 1)):
                    count = min(depth, height - row)
                    pixels = (count - 1) * p.pitch + width
                    from_x = advance(planes, row * p.pitch)
                    band(packed, from_x, of_phase, terms, sums, line, blocks, singles, pixels)
                    at = advance(out, (top + row * p.step_down) * p.width + left)
                    if p.pitch == width == p.width and p.step_down == 1:  # the results have no gaps
                        unpack(at, p, sums, line, 1, pixels, bias)
                    else:
                        unpack(at, p, sums, line, count, width, bias)

    return image


def _band(rows: int, lanes: int, dtype: int) -> Any:
    """Some rows of the output: strips as wide as tiles are, the last one no wider than it needs to be."""
    one, two, three = (_strip(v, rows, lanes, dtype) for v in (1, 2, 3))

    @njit(**KERNEL)
    def band(weights, x, places, terms, sums, line, blocks, singles, pixels):  # type: ignore[no-untyped-def]
        p = 0
        while p < pixels:
            left = pixels - p
            out = advance(sums, p)
            if left > 2 * lanes and (left <= 3 * lanes or left > 4 * lanes):
                three(weights, advance(x, p), places, terms, out, line, blocks, singles)
                p += 3 * lanes
            elif left > lanes:  # four vectors are two pairs
                two(weights, advance(x, p), places, terms, out, line, blocks, singles)
                p += 2 * lanes
            else:
                one(weights, advance(x, p), places, terms, out, line, blocks, singles)
                p += lanes

    return band


def _unpacker(element: Element) -> Any:
    """Rows of outputs from their lines to where they belong, with the bias."""
    pointer, zero = element.pointer, element.constant(0)

    def add(out, x, value, stride, n):  # type: ignore[no-untyped-def]
        if stride == 1:
            for i in range(n):
                out[i] = x[i] + value
        else:
            for i in range(n):
                out[i * stride] = x[i] + value

    add = njit(**LOOP)(add)

    @njit(**KERNEL)
    def unpack(out, p, sums, line, count, width, bias):  # type: ignore[no-untyped-def]
        for o in range(p.outputs):
            value = pointer(bias)[o] if bias != 0 else zero
            for row in range(count):
                target = advance(out, (o * p.height + row * p.step_down) * p.width)
                add(target, advance(sums, o * line + row * p.pitch), value, p.step_across, width)

    return unpack
