"""The gradient of a convolution's weights, one place of the window after the other.

What belongs to a row and column of the window is a product of matrices: the sum over pixels of y, of all outputs, times
the pixels of x that they meet, of all channels. A tile is a vector of outputs for each of some channels; `y` is
transposed for that, and `x` is read element by element where it lies, by any stride. Only pixels that lie inside of the
image are read, so that neither planes nor padding are needed. It pays where there are channels and outputs enough for
tiles; the rest is left to `conv_weight`.

A step is a strip of outputs over a block of images. Blocks have sums of their own, as there, and are no more than what
makes steps enough together with the strips.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels.cpu.conv_planes import LINE, images_of_block, never, round_up
from fastgrad.kernels.cpu.conv_together import transposer
from fastgrad.kernels.cpu.micro import counted, fused_multiply_add, load_vector, splat, tile_shape
from fastgrad.kernels.cpu.pool import inside
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.native.base.intrinsics import address_of, advance, caster, memset, nth, stack_words
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.record import Part

PIXELS = 512  # whose sums are in registers
VECTORS = 2  # of outputs in a tile
FEWEST = 8  # channels for which there are tiles
ALIASED = 2048  # bytes: planes that are a multiple of it apart compete for the same lines of the cache

_PLAN = Part(
    "convolution_taps", inputs=1, outputs=1, taps=1, strips=1, width=1, lines=1, images=1, pixels=1, each=1, sums=1,
    plane=1, image=1, copy=1, y=1,
)  # fmt: skip
"""Channels and outputs of a group; places of the window; strips of outputs, and how many a whole one has; rows and
images that are added up in registers, and room for the pixels of an image; images of a block and elements of its sums;
how far channels of x are apart, and its images; elements of their copy (0 where they are read in place), and those of
a strip of y."""
_plan_at = caster(_PLAN)
_new_plan = stack_words(_PLAN.words)


def tap_sums(dtype: int) -> Any:
    """``direct(f, x, w, y)``, with addresses; returns and does what that of `conv_direct.correlation` does."""
    shape = tile_shape(dtype)
    if shape is None:
        return never
    rows, _, lanes = shape
    size = np.dtype(ELEMENTS[dtype].name).itemsize
    pointer, total, finish = ELEMENTS[dtype].pointer, _total(rows * 3 // 2, lanes, dtype), _finisher()

    @njit(**KERNEL)
    def plan(s, f):  # type: ignore[no-untyped-def]
        s.inputs, s.outputs, s.taps = f.c // f.groups, f.o // f.groups, f.kh * f.kw
        units, s.width = round_up(s.outputs, lanes), VECTORS * lanes
        if s.inputs < FEWEST or units * 3 > s.outputs * 4 or f.n * f.oh * f.ow == 0:
            return False
        s.strips = (s.outputs + s.width - 1) // s.width
        s.sums = f.groups * units * s.inputs * s.taps
        s.each = images_of_block(f.n, s.sums * size, f.groups * s.strips)
        s.lines = min(max(PIXELS // f.ow, 1), f.oh)
        s.images = min(max(PIXELS // (f.oh * f.ow), 1), s.each)
        s.pixels = round_up(s.lines * f.ow, lanes)
        aliased = f.h * f.w * size % ALIASED == 0
        together = s.images > 1 and f.c * f.h * f.w * size % ALIASED == 0
        s.plane = f.h * f.w + (lanes if aliased else 0)
        s.image = s.inputs * s.plane + lanes if aliased or together else f.c * f.h * f.w
        s.copy = s.images * s.image if aliased or together else 0
        s.y = s.images * s.pixels * s.width
        return True

    @njit(**KERNEL)
    def direct(f, x, w, y):  # type: ignore[no-untyped-def]
        s = _plan_at(_new_plan())
        if not plan(s, f):
            return False
        blocks, units = (f.n + s.each - 1) // s.each, f.groups * s.strips
        if f.scratch.data == 0:
            f.scratch.nbytes = round_up((s.y + s.copy) * size, LINE)
            f.shared.nbytes = blocks * s.sums * size
            summing, adding = nth(f.stages, 0), nth(f.stages, 1)
            terms = s.inputs * s.taps
            summing.steps, summing.work = blocks * units, f.n * f.o * f.oh * f.ow * max(terms // 16, 1)
            adding.steps, adding.work = units * s.taps, s.sums * blocks
        elif f.stage == 0:
            for step in range(f.first, f.first + f.steps):
                total(f, s, x, y, pointer(f.shared.data), step // units, step % units)
        else:
            for step in range(f.first, f.first + f.steps):
                finish(s, w, pointer(f.shared.data), step, blocks, lanes)
        return True

    return direct


@njit(**INLINE)
def _width_of(s, strip, lanes):  # type: ignore[no-untyped-def]
    """How many outputs a strip of a group has, and how many of them there is room for."""
    count = min(s.outputs - strip * s.width, s.width)
    return count, lanes if count <= lanes else s.width


@njit(**INLINE)
def _start_of(s, group, strip, lanes):  # type: ignore[no-untyped-def]
    """Where the sums of a strip begin; they lie in order of places, channels and outputs."""
    return (group * round_up(s.outputs, lanes) + strip * s.width) * s.inputs * s.taps


def _total(rows: int, lanes: int, dtype: int) -> Any:
    """``total(f, s, x, y, sums, block, unit)``: those of a strip of a group over a block of images."""
    element = ELEMENTS[dtype]
    pointer, size = element.pointer, np.dtype(element.name).itemsize
    transpose, copy = transposer(dtype, lanes), njit(**LOOP)(_copy)
    wide, narrow = _window(rows, VECTORS, lanes, dtype), _window(rows, 1, lanes, dtype)

    @njit(**KERNEL)
    def total(f, s, x, y, sums, block, unit):  # type: ignore[no-untyped-def]
        g, strip = unit // s.strips, unit % s.strips
        outputs, width = _width_of(s, strip, lanes)
        ys, xs = pointer(f.scratch.data), pointer(f.scratch.data + s.y * size)
        area, pixels, low = f.h * f.w, f.oh * f.ow, block * s.each
        target = advance(sums, block * s.sums + _start_of(s, g, strip, lanes))
        memset(address_of(target), 0, width * s.inputs * s.taps * size)
        for n in range(low, min(low + s.each, f.n), s.images):
            count = min(s.images, min(low + s.each, f.n) - n)
            from_x, step_x = advance(x, (n * f.c + g * s.inputs) * area), s.image
            if s.copy:
                for i in range(count):
                    for c in range(s.inputs):
                        to = advance(xs, i * s.image + c * s.plane)
                        copy(to, advance(from_x, (i * f.c + c) * area), area)
                from_x = xs
            first = advance(y, (n * f.o + g * s.outputs + strip * s.width) * pixels)
            for top in range(0, f.oh, s.lines):
                bottom = min(top + s.lines, f.oh)
                for i in range(count):
                    source = advance(first, i * f.o * pixels + top * f.ow)
                    to = advance(ys, i * s.pixels * width)
                    transpose(to, width, source, pixels, outputs, (bottom - top) * f.ow)
                if width == lanes:
                    narrow(f, s, from_x, step_x, ys, target, top, bottom, count)
                else:
                    wide(f, s, from_x, step_x, ys, target, top, bottom, count)

    return total


def _window(rows: int, vectors: int, lanes: int, dtype: int) -> Any:
    """The sums of one strip of outputs over some rows of some images, for all places of the window."""
    add, width = _some_channels(rows, vectors, lanes, dtype), vectors * lanes

    @njit(**KERNEL)
    def window(f, s, x, step_x, y, sums, top, bottom, images):  # type: ignore[no-untyped-def]
        step_y, line_y, line_x = s.pixels * width, f.ow * width, f.sh * f.w
        c = 0
        while c < s.inputs:  # the window over some channels at a time: their pixels stay in the cache
            count = rows if c + rows <= s.inputs else 4 if c + 4 <= s.inputs else 1
            for k in range(f.kh):
                above, below = inside(k * f.dh - f.ph, f.sh, f.h, f.oh)
                above, below = max(above, top), min(below, bottom)
                for j in range(f.kw):
                    left, right = inside(j * f.dw - f.pw, f.sw, f.w, f.ow)
                    lines, columns = below - above, right - left
                    if lines <= 0 or columns <= 0:
                        continue
                    row, column = above * f.sh - f.ph + k * f.dh, left * f.sw - f.pw + j * f.dw
                    from_x = advance(x, c * s.plane + row * f.w + column)
                    from_y = advance(y, ((above - top) * f.ow + left) * width)
                    to = advance(sums, ((k * f.kw + j) * s.inputs + c) * width)
                    add(
                        count, from_x, s.plane, f.sw, line_x, step_x, from_y, line_y, step_y, to, columns, lines,
                        images,
                    )  # fmt: skip
            c += count

    return window


def _some_channels(rows: int, vectors: int, lanes: int, dtype: int) -> Any:
    """An inlined function like a tile, of as many rows as its first argument says: `rows`, 4 or 1."""
    several, four, single = (_tile(r, vectors, lanes, dtype) for r in (rows, 4, 1))

    @njit(**INLINE)
    def add(  # type: ignore[no-untyped-def]
        count, a, row_a, step_a, line_a, image_a, b, line_b, image_b, c, columns, lines, images,
    ):  # fmt: skip
        if count == rows:
            several(a, row_a, step_a, line_a, image_a, b, line_b, image_b, c, columns, lines, images)
        elif count == 4:
            four(a, row_a, step_a, line_a, image_a, b, line_b, image_b, c, columns, lines, images)
        else:
            single(a, row_a, step_a, line_a, image_a, b, line_b, image_b, c, columns, lines, images)

    return add


def _finisher() -> Any:
    """``finish(s, w, sums, step, blocks, lanes)``: the weights of a strip of outputs at one place of the window."""
    add = adder()

    @njit(**KERNEL)
    def finish(s, w, sums, step, blocks, lanes):  # type: ignore[no-untyped-def]
        tap, strip, group = step % s.taps, step // s.taps % s.strips, step // s.taps // s.strips
        outputs, width = _width_of(s, strip, lanes)
        at = _start_of(s, group, strip, lanes) + tap * s.inputs * width
        result = advance(sums, at)
        for block in range(1, blocks):
            add(result, advance(sums, block * s.sums + at), s.inputs * width)
        for o in range(outputs):
            out = advance(w, (group * s.outputs + strip * s.width + o) * s.inputs * s.taps + tap)
            for c in range(s.inputs):
                out[c * s.taps] = result[c * width + o]

    return finish


def adder() -> Any:
    """``add(out, x, n)``: as many elements."""

    def add(out, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] += x[i]

    return njit(**LOOP)(add)


def _copy(out, x, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[i] = x[i]


def _tile(rows: int, vectors: int, width: int, dtype: int) -> Any:
    """An inlined function that adds to `c` the products of columns of `a` and rows of `b` over a block of pixels.

    ``tile(a, row_a, step_a, line_a, image_a, b, line_b, image_b, c, columns, lines, images)``: row r of `a` begins at
    ``r * row_a``; its pixels, the lines of pixels and the images are as far apart as the next three arguments say. The
    pixels of `b` are vectors that follow each other, of which so many belong to the row r of `c`.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    element = ir.FloatType() if dtype == FLOAT32 else ir.DoubleType()
    vector, size = ir.VectorType(element, width), 4 if dtype == FLOAT32 else 8
    word = ir.IntType(64)
    pointer, i64 = types.CPointer(scalar), types.int64

    def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        a, row_a, step_a, line_a, image_a, b, line_b, image_b, c, columns, lines, images = args
        fma = fused_multiply_add(builder.module, vector)
        offsets = [builder.mul(row_a, word(r)) for r in range(rows)]

        def vector_at(place: Any, v: int) -> Any:
            return builder.gep(place, [word(v * width)])

        def image(i: Any, sums: list[Any]) -> list[Any]:
            a_image, b_image = (
                builder.gep(a, [builder.mul(i, image_a)]),
                builder.gep(b, [builder.mul(i, image_b)]),
            )

            def line(k: Any, sums: list[Any]) -> list[Any]:
                a_line = builder.gep(a_image, [builder.mul(k, line_a)])
                b_line = builder.gep(b_image, [builder.mul(k, line_b)])

                def pixel(j: Any, sums: list[Any]) -> list[Any]:
                    at_a = builder.gep(a_line, [builder.mul(j, step_a)])
                    at_b = builder.gep(b_line, [builder.mul(j, word(vectors * width))])
                    y = [load_vector(builder, vector_at(at_b, v), vector, size) for v in range(vectors)]
                    fresh = []
                    for r in range(rows):
                        x = splat(builder, builder.load(builder.gep(at_a, [offsets[r]])), vector, width)
                        fresh += [builder.call(fma, [x, y[v], sums[r * vectors + v]]) for v in range(vectors)]
                    return fresh

                return counted(builder, columns, 1, sums, pixel)

            return counted(builder, lines, 1, sums, line)

        sums = counted(builder, images, 1, [ir.Constant(vector, [0.0] * width)] * (rows * vectors), image)
        for k, total in enumerate(sums):
            at = vector_at(c, k)
            before = load_vector(builder, at, vector, size)
            builder.store(builder.fadd(before, total), builder.bitcast(at, vector.as_pointer())).align = size
        return _context.get_dummy_value()

    signature = types.void(pointer, i64, i64, i64, i64, pointer, i64, i64, pointer, i64, i64, i64)

    @intrinsic
    def tile(
        context: Any, a: Any, row_a: Any, step_a: Any, line_a: Any, image_a: Any, b: Any, line_b: Any, image_b: Any,
        c: Any, columns: Any, lines: Any, images: Any,
    ) -> Any:  # fmt: skip
        return signature, emit

    return tile
