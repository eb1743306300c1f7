"""Depthwise convolutions: each output is of one channel, by a window of its own.

There is no product of matrices in them, and their time goes into moving memory. So an image is read and a result
written where they lie: a vector is some neighbouring columns of a row, and rows of an image are loaded by masks that
leave out what is beyond either end. A row above or below the image is a row of zeros in the scratch. Several results
below each other are computed at a time, which have most of the rows that they meet in common.

x from y is the same with the window turned around; by a stride, it is one of every so many of the window's weights for
each remainder of row and column, whose results are put together in registers. For w from x and y the sums of a window's
place stay in a vector, whose lanes are added at the very end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels.cpu.conv_planes import LINE, images_of_block, never, round_up
from fastgrad.kernels.cpu.micro import (
    counted,
    fused_multiply_add,
    load_vector,
    masked,
    masked_lanes,
    shuffle,
    splat,
)
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.native.base.intrinsics import advance, memset, nth
from fastgrad.native.contracts.element_types import FLOAT32

WINDOWS = (3, 5, 7)  # sizes of windows
ROWS = 4  # of results at a time
LARGEST = 1 << 31  # columns are counted in halves of words
TAPS = 25  # places of a window whose sums are in registers

_WORD, _HALF = ir.IntType(64), ir.IntType(32)


@njit(**INLINE)
def _is_depthwise(f):  # type: ignore[no-untyped-def]
    """Whether this is the way to compute it: window and stride are the same down and across, and of those here."""
    one = f.groups == f.c and f.groups == f.o and f.kh == f.kw and f.sh == f.sw
    size = f.kh == 3 or f.kh == 5 or f.kh == 7
    size = size and max(f.w, f.ow) + f.pw + f.dw * f.kw < LARGEST
    return one and size and (f.sh == 1 or (f.sh == 2 and f.dh == 1 and f.dw == 1))


def _of_window(near: Any, far: Any, width: int, dtype: int) -> Any:
    """``run(f, a, b, c, zeros, value)`` calls what ``near(window, width, dtype)`` returns, or `far` by stride 2,
    for the window of the frame."""
    near_3, near_5, near_7 = (near(window, width, dtype) for window in WINDOWS)
    far_3, far_5, far_7 = (far(window, width, dtype) for window in WINDOWS)

    @njit(**KERNEL)
    def run(f, a, b, c, zeros, value):  # type: ignore[no-untyped-def]
        if f.sh == 1:
            if f.kh == 3:
                near_3(f, a, b, c, zeros, value)
            elif f.kh == 5:
                near_5(f, a, b, c, zeros, value)
            else:
                near_7(f, a, b, c, zeros, value)
        elif f.kh == 3:
            far_3(f, a, b, c, zeros, value)
        elif f.kh == 5:
            far_5(f, a, b, c, zeros, value)
        else:
            far_7(f, a, b, c, zeros, value)

    return run


def depthwise(dtype: int, transposed: int) -> Any:
    """``direct(f, source, target)``, which returns and does what that of `conv_direct.correlation` does."""
    width, element = masked_lanes(dtype), ELEMENTS[dtype]
    if not width:
        return never
    size, pointer, zero = np.dtype(element.name).itemsize, element.pointer, element.constant(0)
    plane = _of_window(_turned if transposed else _straight, _spread if transposed else _apart, width, dtype)

    @njit(**KERNEL)
    def direct(f, source, target):  # type: ignore[no-untyped-def]
        if not _is_depthwise(f):
            return False
        row, taps = max(f.w, f.ow), f.kh * f.kw
        if f.scratch.data == 0:
            f.scratch.nbytes = round_up(2 * row * size, LINE)  # a row of zeros, and one that nobody reads
            computing = nth(f.stages, 0)
            computing.steps, computing.work = f.n * f.c, f.n * f.c * f.oh * f.ow * max(taps // 16, 1)
            return True
        zeros = pointer(f.scratch.data)
        memset(f.scratch.data, 0, row * size)
        given, result = (f.oh * f.ow, f.h * f.w) if transposed else (f.h * f.w, f.oh * f.ow)
        for step in range(f.first, f.first + f.steps):
            w = advance(pointer(f.weight), step % f.c * taps)
            value = pointer(f.bias)[step % f.c] if f.bias != 0 else zero
            plane(f, advance(source, step * given), w, advance(target, step * result), zeros, value)
        return True

    return direct


def _straight(window: int, width: int, dtype: int) -> Any:
    return _plane(window, 1, width, dtype, 0)


def _apart(window: int, width: int, dtype: int) -> Any:
    return _plane(window, 2, width, dtype, 0)


def _turned(window: int, width: int, dtype: int) -> Any:
    return _plane(window, 1, width, dtype, 1)


def _plane(window: int, stride: int, width: int, dtype: int, transposed: int) -> Any:
    """A plane of y from one of x; or `transposed`, by stride 1, x from y."""
    results = _results(window, stride, ROWS, width, dtype, transposed)

    @njit(**KERNEL)
    def plane(f, x, w, y, zeros, value):  # type: ignore[no-untyped-def]
        high, wide, oh, ow = (f.oh, f.ow, f.h, f.w) if transposed else (f.h, f.w, f.oh, f.ow)
        top = f.ph - f.dh * (window - 1) if transposed else -f.ph
        left = f.pw - f.dw * (window - 1) if transposed else -f.pw
        unread = advance(zeros, max(wide, ow))
        for a in range(min(f.dh, oh)):  # rows that meet the same ones
            count = (oh - a + f.dh - 1) // f.dh
            for j in range(0, ow, width):
                results(
                    x, high, wide, zeros, w, advance(y, a * ow + j), ow, unread, a + top, f.dh, count,
                    j * stride + left, f.dw, ow - j, value,
                )  # fmt: skip

    return plane


def _spread(window: int, width: int, dtype: int) -> Any:
    """A plane of x from one of y, by stride 2."""
    spread = _interleaved(window, 2, width, dtype)

    @njit(**KERNEL)
    def plane(f, y, w, x, zeros, value):  # type: ignore[no-untyped-def]
        first, last, unread = f.ph // 2, (f.h - 1 + f.ph) // 2, advance(zeros, max(f.w, f.ow))
        for j in range(f.pw // 2, (f.w - 1 + f.pw) // 2 + 1, width):
            spread(
                y, f.oh, f.ow, zeros, w, x, f.h, f.w, unread, first, last + 1 - first, f.ph, j, f.pw, value
            )

    return plane


def depthwise_sums(dtype: int) -> Any:
    """``direct(f, x, w, y)``, which returns and does what that of `conv_weight.weight_correlation` does."""
    width, element = masked_lanes(dtype), ELEMENTS[dtype]
    if not width:
        return never
    size, pointer, zero = np.dtype(element.name).itemsize, element.pointer, element.constant(0)
    total = _of_window(_near_sums, _far_sums, width, dtype)

    @njit(**KERNEL)
    def direct(f, x, w, y):  # type: ignore[no-untyped-def]
        if not _is_depthwise(f) or f.n == 0:
            return False
        taps, row = f.kh * f.kw, max(f.w, f.ow)
        of_channel = taps * width  # sums
        each = images_of_block(f.n, f.c * of_channel * size, f.c)
        blocks = (f.n + each - 1) // each
        if f.scratch.data == 0:
            f.scratch.nbytes = round_up(row * size, LINE)  # of zeros
            f.shared.nbytes = blocks * f.c * of_channel * size
            summing, adding, checking = nth(f.stages, 0), nth(f.stages, 1), nth(f.stages, 2)
            summing.steps, summing.work = blocks * f.c, f.n * f.c * f.oh * f.ow * max(taps // 16, 1)
            adding.steps, adding.work = f.c, f.c * of_channel * blocks
            checking.steps, checking.work = 1, f.c * taps
        elif f.stage == 0:
            zeros = pointer(f.scratch.data)
            memset(f.scratch.data, 0, row * size)
            memset(f.shared.data + f.first * of_channel * size, 0, f.steps * of_channel * size)
            step, end = f.first, f.first + f.steps
            while step < end:  # the channels of a block of images, which are read in the order of memory
                block, low = step // f.c, step % f.c
                high = min(f.c, low + end - step)
                for n in range(block * each, min((block + 1) * each, f.n)):
                    for c in range(low, high):
                        at = n * f.c + c
                        sums = pointer(f.shared.data + (block * f.c + c) * of_channel * size)
                        total(f, advance(x, at * f.h * f.w), sums, advance(y, at * f.oh * f.ow), zeros, zero)
                step += high - low
        elif f.stage == 1:
            for c in range(f.first, f.first + f.steps):
                out = advance(w, c * taps)
                for t in range(taps):
                    out[t] = zero
                for block in range(blocks):
                    sums = pointer(f.shared.data + (block * f.c + c) * of_channel * size)
                    for k in range(width):
                        for t in range(taps):
                            out[t] += sums[t * width + k]
        return True

    return direct


def _near_sums(window: int, width: int, dtype: int) -> Any:
    return _plane_sums(window, 1, width, dtype)


def _far_sums(window: int, width: int, dtype: int) -> Any:
    return _plane_sums(window, 2, width, dtype)


def _plane_sums(window: int, stride: int, width: int, dtype: int) -> Any:
    """``total(f, x, sums, y, zeros, _)``: adds what a plane gives, some rows of the window at a time."""
    depth = min(window, TAPS // window)
    rest = window % depth
    rows = ROWS if depth * window <= TAPS // 2 else ROWS // 2
    several, last = (_sums(count, window, stride, rows, width, dtype) for count in (depth, rest or 1))

    @njit(**KERNEL)
    def total(f, x, sums, y, zeros, _):  # type: ignore[no-untyped-def]
        for a in range(min(f.dh, f.oh)):
            count = (f.oh - a + f.dh - 1) // f.dh
            for j in range(0, f.ow, width):
                from_y, column = advance(y, a * f.ow + j), j * stride - f.pw
                for k in range(0, window - rest, depth):
                    target, top = advance(sums, k * window * width), a - f.ph + k * f.dh
                    several(
                        x, f.h, f.w, zeros, target, from_y, f.ow, top, f.dh, count, column, f.dw, f.ow - j
                    )
                if rest:
                    k = window - rest
                    target, top = advance(sums, k * window * width), a - f.ph + k * f.dh
                    last(x, f.h, f.w, zeros, target, from_y, f.ow, top, f.dh, count, column, f.dw, f.ow - j)

    return total


# --- vectors ---------------------------------------------------------------------------------------------------


class _Vectors:
    """Instructions on vectors of one dtype."""

    def __init__(self, builder: Any, width: int, dtype: int) -> None:
        self.builder, self.width, self.size = builder, width, 4 if dtype == FLOAT32 else 8
        element = ir.FloatType() if dtype == FLOAT32 else ir.DoubleType()
        self.vector = ir.VectorType(element, width)
        self.zeros = ir.Constant(self.vector, [0.0] * width)
        self.fma = fused_multiply_add(builder.module, self.vector)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self.fma, [a, b, c])

    def every(self, at: Any) -> Any:
        """An element of memory in all lanes."""
        return splat(self.builder, self.builder.load(at), self.vector, self.width)

    def mask(self, begin: Any, size: Any) -> Any:
        """Lanes of the columns from `begin` on that are columns of a row of that size."""
        builder, indices = self.builder, ir.VectorType(_HALF, self.width)
        places = [splat(builder, builder.trunc(value, _HALF), indices, self.width) for value in (begin, size)]
        columns = builder.add(places[0], ir.Constant(indices, list(range(self.width))))
        return builder.icmp_unsigned("<", columns, places[1])

    def address(self, at: Any, offset: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(at, [offset]), self.vector.as_pointer())

    def load(self, at: Any, offset: Any, mask: Any) -> Any:
        arguments = [self.address(at, offset), _HALF(self.size), mask, self.zeros]
        return masked(self.builder, "load", self.vector, arguments)

    def store(self, value: Any, at: Any, offset: Any, mask: Any) -> None:
        masked(self.builder, "store", self.vector, [value, self.address(at, offset), _HALF(self.size), mask])

    def row(self, image: Any, height: Any, width: Any, zeros: Any, row: Any) -> Any:
        """The address of a row of an image, or of zeros if it has no such row."""
        builder = self.builder
        own = builder.gep(image, [builder.mul(row, width)])
        return builder.select(builder.icmp_unsigned("<", row, height), own, zeros)

    def strided(self, stride: int, begin: Any, size: Any) -> Any:
        """A function that loads every so many columns of a row of that size, from `begin` on."""
        builder = self.builder
        begins = [builder.add(begin, _WORD(v * self.width)) for v in range(stride)]
        masks = [self.mask(at, size) for at in begins]

        def load(at: Any) -> Any:
            parts = [self.load(at, offset, mask) for offset, mask in zip(begins, masks, strict=True)]
            return parts[0] if stride == 1 else shuffle(builder, *parts, [2 * k for k in range(self.width)])

        return load


def _meetings(v: _Vectors, depth: int, window: int, stride: int, rows: int, given: Any) -> Any:
    """A function that goes through all that some rows of results meet.

    ``each(block, meet)`` calls ``meet(r, k, j, x)`` for row r of a block of results and place (k, j) of the window with
    what is there.
    """
    builder = v.builder
    x, high, wide, zeros, top, step, column, dilation = given
    loads = [
        v.strided(stride, builder.add(column, builder.mul(dilation, _WORD(j))), wide) for j in range(window)
    ]

    def each(block: Any, meet: Any) -> None:
        first = builder.add(top, builder.mul(builder.mul(block, _WORD(rows * stride)), step))
        for q in range((rows - 1) * stride + depth):
            met = [(r, q - r * stride) for r in range(rows) if 0 <= q - r * stride < depth]
            if not met:
                continue
            at = v.row(x, high, wide, zeros, builder.add(first, builder.mul(step, _WORD(q))))
            for j in range(window):
                value = loads[j](at)
                for r, k in met:
                    meet(r, k, j, value)

    return each


def _blocks(builder: Any, count: Any, rows: int) -> Any:
    """How many blocks of so many rows there are, the last one with fewer perhaps."""
    return builder.sdiv(builder.add(count, _WORD(rows - 1)), _WORD(rows))


def _results(window: int, stride: int, rows: int, width: int, dtype: int, turned: int) -> Any:
    """An inlined function that computes a strip of a plane's results, as wide as a vector.

    ``results(x, high, wide, zeros, w, y, pitch, unread, top, step, count, column, dilation, columns, value)``: `count`
    rows, which are `step` apart in `y`, as those of the window are in `x`, where `top` and `column` are the first that
    they meet. `columns` of `y` are written, with `value` added. Where the last rows are fewer than are computed at a
    time, the others are written to a row that is `unread`.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    pointer, i64 = types.CPointer(scalar), types.int64

    def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        x, high, wide, zeros, w, y, pitch, unread, top, step, count, column, dilation, columns, value = args
        v = _Vectors(builder, width, dtype)
        last = window * window - 1
        taps = [v.every(builder.gep(w, [_WORD(last - t if turned else t)])) for t in range(last + 1)]
        start, written = splat(builder, value, v.vector, width), v.mask(_WORD(0), columns)
        each = _meetings(v, window, window, stride, rows, (x, high, wide, zeros, top, step, column, dilation))
        distance = builder.mul(step, pitch)

        def block(i: Any, _carried: list[Any]) -> list[Any]:
            sums = [start] * rows

            def meet(r: int, k: int, j: int, given: Any) -> None:
                sums[r] = v.multiply_add(taps[k * window + j], given, sums[r])

            each(i, meet)
            for r in range(rows):
                line = builder.add(builder.mul(i, _WORD(rows)), _WORD(r))
                v.store(sums[r], v.row(y, count, distance, unread, line), _WORD(0), written)
            return []

        counted(builder, _blocks(builder, count, rows), 1, [], block)
        return _context.get_dummy_value()

    signature = types.void(
        pointer, i64, i64, pointer, pointer, pointer, i64, pointer, i64, i64, i64, i64, i64, i64, scalar
    )

    @intrinsic
    def results(
        context: Any, x: Any, high: Any, wide: Any, zeros: Any, w: Any, y: Any, pitch: Any, unread: Any, top: Any,
        step: Any, count: Any, column: Any, dilation: Any, columns: Any, value: Any,
    ) -> Any:  # fmt: skip
        return signature, emit

    return results


def _sums(depth: int, window: int, stride: int, rows: int, width: int, dtype: int) -> Any:
    """An inlined function that adds to vectors of sums, for `depth` rows of the window, what a strip of `y` gives.

    ``sums(x, high, wide, zeros, sums, y, pitch, top, step, count, column, dilation, columns)`` as for `_results`.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    pointer, i64 = types.CPointer(scalar), types.int64

    def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        x, high, wide, zeros, target, y, pitch, top, step, count, column, dilation, columns = args
        v = _Vectors(builder, width, dtype)
        read = v.mask(_WORD(0), columns)
        each = _meetings(v, depth, window, stride, rows, (x, high, wide, zeros, top, step, column, dilation))
        distance = builder.mul(step, pitch)

        def block(i: Any, carried: list[Any]) -> list[Any]:
            sums = list(carried)
            lines = [builder.add(builder.mul(i, _WORD(rows)), _WORD(r)) for r in range(rows)]
            given = [v.load(v.row(y, count, distance, zeros, line), _WORD(0), read) for line in lines]

            def meet(r: int, k: int, j: int, value: Any) -> None:
                sums[k * window + j] = v.multiply_add(given[r], value, sums[k * window + j])

            each(i, meet)
            return sums

        number = _blocks(builder, count, rows)
        for t, total in enumerate(counted(builder, number, 1, [v.zeros] * (depth * window), block)):
            at = builder.gep(target, [_WORD(t * width)])
            before = load_vector(builder, at, v.vector, v.size)
            builder.store(builder.fadd(before, total), v.address(at, _WORD(0))).align = v.size
        return _context.get_dummy_value()

    signature = types.void(pointer, i64, i64, pointer, pointer, pointer, i64, i64, i64, i64, i64, i64, i64)

    @intrinsic
    def sums(
        context: Any, x: Any, high: Any, wide: Any, zeros: Any, target: Any, y: Any, pitch: Any, top: Any, step: Any,
        count: Any, column: Any, dilation: Any, columns: Any,
    ) -> Any:  # fmt: skip
        return signature, emit

    return sums


def _interleaved(window: int, stride: int, width: int, dtype: int) -> Any:
    """An inlined function that computes a strip of x from y by stride 2, as wide as two vectors.

    ``spread(y, high, wide, zeros, w, x, h, width, unread, first, count, ph, column, pw, value)``: counted with their
    padding, rows ``2 * t`` and the next of x meet row ``t - k // 2`` of y by row k of the window if that is even, or
    odd; so do columns. It computes `count` such pairs from the `first` one on, and columns from ``2 * column`` on.
    Rows that x does not have are written to a row that is `unread`.
    """
    scalar = types.float32 if dtype == FLOAT32 else types.float64
    pointer, i64 = types.CPointer(scalar), types.int64
    reach = (window - 1) // stride + 1

    def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        y, high, wide, zeros, w, x, h, row_size, unread, first, count, ph, column, pw, value = args
        v = _Vectors(builder, width, dtype)
        taps = [v.every(builder.gep(w, [_WORD(t)])) for t in range(window * window)]
        start, begin = (
            splat(builder, value, v.vector, width),
            builder.sub(builder.mul(column, _WORD(stride)), pw),
        )
        begins = [builder.add(begin, _WORD(part * width)) for part in range(stride)]
        written = [v.mask(at, row_size) for at in begins]
        loads = [v.strided(1, builder.sub(column, _WORD(e)), wide) for e in range(reach)]
        halves = [
            [k // stride + part * width // stride + k % stride * width for k in range(width)]
            for part in range(stride)
        ]

        def pair(i: Any, _carried: list[Any]) -> list[Any]:
            t = builder.add(first, i)
            sums = {(a, b): start for a in range(stride) for b in range(stride)}
            for q in range(reach):
                at = v.row(y, high, wide, zeros, builder.sub(t, _WORD(q)))
                for e in range(reach):
                    given = loads[e](at)
                    for a, b in sums:
                        k, j = q * stride + a, e * stride + b
                        if k < window and j < window:
                            sums[a, b] = v.multiply_add(taps[k * window + j], given, sums[a, b])
            for a in range(stride):
                row = builder.sub(builder.add(builder.mul(t, _WORD(stride)), _WORD(a)), ph)
                at = v.row(x, h, row_size, unread, row)
                for half, offset, mask in zip(halves, begins, written, strict=True):
                    v.store(shuffle(builder, sums[a, 0], sums[a, 1], half), at, offset, mask)
            return []

        counted(builder, count, 1, [], pair)
        return _context.get_dummy_value()

    signature = types.void(
        pointer, i64, i64, pointer, pointer, pointer, i64, i64, pointer, i64, i64, i64, i64, i64, scalar
    )

    @intrinsic
    def spread(
        context: Any, y: Any, high: Any, wide: Any, zeros: Any, w: Any, x: Any, h: Any, row_size: Any, unread: Any,
        first: Any, count: Any, ph: Any, column: Any, pw: Any, value: Any,
    ) -> Any:  # fmt: skip
        return signature, emit

    return spread
