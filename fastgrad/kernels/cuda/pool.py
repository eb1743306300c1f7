"""Pooling and padding on the CUDA device: a thread for each element of the result.

A window is added up in the order in which the CPU does it, see `kernels.cpu.pool`. Where maxima are scattered, a block
has a plane, and several that belong to one place are added by the first of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.collecting import adding
from fastgrad.kernels.cuda.device import Element, Target, barrier, block, divide, float_of, thread
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reports import reporting
from fastgrad.native.contracts.element_types import FLOATS, INT32, INT64, computed_in
from fastgrad.native.contracts.frames.windows import CIRCULAR, CONSTANT, REFLECT

THREADS = 256
ALONE = 128  # threads that have a plane
_ITEMS = ("planes", "out_height", "out_width", "channels")


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """A kernel of pooling for one dtype."""
    name = kernel.options["pool"]
    if name == "scatter":
        return _scatter(target, dtype, min(threads, ALONE))
    return Body(_each(_MAKERS[name](target, dtype), threads), _ITEMS, threads, threads)


def _each(compute: Any, threads: int) -> Any:
    """The kernel that calls ``compute(f, e, p, i, j, channel)`` for each element of the result."""

    def run(f):
        e = np.int64(block()) * threads + thread()
        if e < f.planes * f.out_height * f.out_width * f.channels:
            place, channel = split(e, f.channels)
            line, j = split(place, f.out_width)
            p, i = split(line, f.out_height)
            compute(f, e, p, i, j, channel)

    return run


def in_plane(f, p, row, column, channel):
    """Where an element of the image is."""
    return ((p * f.height + row) * f.width + column) * f.channels + channel


# --- maxima ----------------------------------------------------------------------------------------------------


def _max(target: Target, dtype: int) -> Any:
    e, put_place = target.elements[dtype], target.elements[INT64].store
    load, store = e.load, e.store
    lowest = e.constant(-np.inf if dtype in FLOATS else np.iinfo(e.name).min)

    def compute(f, to, p, i, j, channel):
        best, at = lowest, np.int64(-1)
        row, down = i * f.stride_h - f.padding_h, np.int64(0)
        while down < f.kernel_h:
            column, across = j * f.stride_w - f.padding_w, np.int64(0)
            while across < f.kernel_w:
                if row >= 0 and row < f.height and column >= 0 and column < f.width:
                    value = load(f.x, in_plane(f, p, row, column, channel))
                    if at < 0 or value > best or value != value:
                        best, at = value, row * f.width + column
                column += f.dilation_w
                across += 1
            row += f.dilation_h
            down += 1
        store(f.out, to, best)
        put_place(f.indices, to, at)

    return compute


def _gather(target: Target, dtype: int) -> Any:
    """What stands at the indices in the larger planes."""
    e, index_of, report = target.elements[dtype], target.elements[INT64].load, reporting(target)
    load, store, zero = e.load, e.store, e.constant(0)

    def compute(f, to, p, i, j, channel):
        at, large = index_of(f.indices, to), f.height * f.width
        if at < -1 or at >= large:
            report(f, at, large)
        else:
            store(f.out, to, load(f.x, (p * large + at) * f.channels + channel) if at >= 0 else zero)

    return compute


def _scatter(target: Target, dtype: int, threads: int) -> Body:
    """What stands in the smaller planes, added up at their indices in the larger ones."""
    e, index_of, report = target.elements[dtype], target.elements[INT64].load, reporting(target)
    sums = target.elements[computed_in(dtype)]
    load, load_sum, store, zero = e.load, sums.load, sums.store, e.constant(0)
    places, values = target.elements[INT32].shared(threads), e.shared(threads)
    get_place, put_place, get, put = target.elements[INT32].get, target.elements[INT32].put, e.get, e.put

    def add(f, to, at, place_room, value_room):
        """Add up all of this place, if this thread is the first that has some."""
        k = 0
        while k < thread():
            if get_place(place_room, k) == at:
                return
            k += 1
        total = load_sum(f.out, to)
        while k < threads:
            if get_place(place_room, k) == at:
                total = total + get(value_room, k)
            k += 1
        store(f.out, to, total)

    def run(f):
        place_room, value_room = places(), values()
        p, channel = split(block(), f.channels)
        large, small = f.out_height * f.out_width, f.height * f.width
        k = np.int64(thread())
        while k < large:
            store(f.out, (p * large + k) * f.channels + channel, zero)
            k += threads
        start = np.int64(0)
        while start < small:
            i, at = start + thread(), np.int64(-1)
            if i < small:
                source = (p * small + i) * f.channels + channel
                at = index_of(f.indices, source)
                if at < -1 or at >= large:
                    report(f, at, large)
                    at = np.int64(-1)
                put(value_room, thread(), load(f.x, source))
            put_place(place_room, thread(), at)
            barrier()
            if at >= 0:
                add(f, (p * large + at) * f.channels + channel, at, place_room, value_room)
            barrier()
            start += threads

    return Body(run, ("planes", "channels"), 1, threads)


# --- means -----------------------------------------------------------------------------------------------------


def _divided(element: Element, floating: bool) -> Any:
    """A sum divided by a count; integers rounded towards zero."""
    cast = element.constant

    def divided(total, count):
        return total / cast(count) if floating else divide(np.int64(total), np.int64(count))[0]

    return divided


def extent(at, stride, padding, length, size, counts_padding):
    """How many elements of a dimension a window counts."""
    first = at * stride - padding
    last = min(first + length, size + padding)
    if counts_padding != 0:
        return last - first
    return min(last, size) - max(first, np.int64(0))


def divisor_at(f, i, j, height, width):
    """What the sum of one window is divided by."""
    if f.divisor != 0:
        return f.divisor
    rows = extent(i, f.stride_h, f.padding_h, f.kernel_h, height, f.counts_padding)
    return rows * extent(j, f.stride_w, f.padding_w, f.kernel_w, width, f.counts_padding)


def _mean(target: Target, dtype: int) -> Any:
    e, floating = target.elements[dtype], dtype in FLOATS
    wide = target.elements[dtype if floating else INT64].constant
    load, store, zero, divided = e.load, e.store, wide(0), _divided(e, floating)

    def compute(f, to, p, i, j, channel):
        top, left, total = i * f.stride_h - f.padding_h, j * f.stride_w - f.padding_w, zero
        row, bottom = max(top, np.int64(0)), min(top + f.kernel_h, f.height)
        while row < bottom:
            column, right = max(left, np.int64(0)), min(left + f.kernel_w, f.width)
            while column < right:
                total += wide(load(f.x, in_plane(f, p, row, column, channel)))
                column += 1
            row += 1
        store(f.out, to, divided(total, divisor_at(f, i, j, f.height, f.width)))

    return compute


def windows_of(at, stride, padding, length, count):
    """The first and the last of the windows that a place of a dimension is in."""
    last, _ = split(at + padding, stride)
    before = at + padding - length + 1
    first = np.int64(0)
    if before > 0:
        first, _ = split(before + stride - 1, stride)
    return first, min(last, count - 1)


def _mean_backward(target: Target, dtype: int) -> Any:
    e, floating = target.elements[dtype], dtype in FLOATS
    wide = target.elements[dtype if floating else INT64].constant
    load, store, zero, divided = e.load, e.store, wide(0), _divided(e, floating)

    def compute(f, to, p, i, j, channel):
        total = zero
        row, bottom = windows_of(i, f.stride_h, f.padding_h, f.kernel_h, f.height)
        left, right = windows_of(j, f.stride_w, f.padding_w, f.kernel_w, f.width)
        while row <= bottom:
            column = right
            while column >= left:
                count = divisor_at(f, row, column, f.out_height, f.out_width)
                total += wide(divided(load(f.x, in_plane(f, p, row, column, channel)), count))
                column -= 1
            row += 1
        store(f.out, to, total)

    return compute


def share(i, size, parts):
    """The i-th of equal parts of a dimension: from the floor of its begin to the ceiling of its end."""
    first, _ = split(i * size, parts)
    end, _ = split((i + 1) * size + parts - 1, parts)
    return first, end


def _adaptive_mean(target: Target, dtype: int) -> Any:
    e = target.elements[dtype]
    load, store, cast, zero = e.load, e.store, e.constant, e.constant(0)

    def compute(f, to, p, i, j, channel):
        row, bottom = share(i, f.height, f.out_height)
        left, right = share(j, f.width, f.out_width)
        count, total = (bottom - row) * (right - left), zero
        while row < bottom:
            column = left
            while column < right:
                total += load(f.x, in_plane(f, p, row, column, channel))
                column += 1
            row += 1
        store(f.out, to, total / cast(count))

    return compute


def _adaptive_mean_backward(target: Target, dtype: int) -> Any:
    e = target.elements[dtype]
    load, store, cast, zero = e.load, e.store, e.constant, e.constant(0)

    def parts_of(at, size, parts):
        """The first and the last of the parts that a place of a dimension is in."""
        first, _ = split(at * parts, size)
        last, _ = split((at + 1) * parts - 1, size)
        return first, last

    def compute(f, to, p, i, j, channel):
        row, bottom = parts_of(i, f.out_height, f.height)
        left, right = parts_of(j, f.out_width, f.width)
        total = zero
        while row <= bottom:
            top, end = share(row, f.out_height, f.height)
            column = left
            while column <= right:
                first, last = share(column, f.out_width, f.width)
                g = load(f.x, in_plane(f, p, row, column, channel))
                total += g / cast((end - top) * (last - first))
                column += 1
            row += 1
        store(f.out, to, total)

    return compute


_MAKERS = {
    "max": _max, "gather": _gather, "mean": _mean, "mean_backward": _mean_backward, "adaptive": _adaptive_mean,
    "adaptive_backward": _adaptive_mean_backward,
}  # fmt: skip

# --- padding ---------------------------------------------------------------------------------------------------

_PADDED = ("rows", "out_length", "after")


def source_of(at, size, mode):
    """The place within a dimension of `size` that a place outside of it repeats."""
    if mode == CIRCULAR:
        at = at + size if at < 0 else (at - size if at >= size else at)
    if mode == REFLECT:
        at = -at if at < 0 else (2 * size - 2 - at if at >= size else at)
    return min(max(at, np.int64(0)), size - 1)


def pad(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Put a dimension into a longer or shorter one."""
    e, floating = target.elements[dtype], dtype in FLOATS
    load, store, cast = e.load, e.store, e.constant

    def run(f):
        to = np.int64(block()) * threads + thread()
        if to < f.rows * f.out_length * f.after:
            line, k = split(to, f.after)
            r, i = split(line, f.out_length)
            at = i - f.begin
            if f.mode == CONSTANT and (at < 0 or at >= f.length):
                store(f.out, to, cast(float_of(f.value)) if floating else f.value)
            else:
                at = source_of(at, f.length, f.mode)
                store(f.out, to, load(f.x, (r * f.length + at) * f.after + k))

    return Body(run, _PADDED, threads, threads)


def pad_backward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Add up, for each place of a dimension, what stands where padding has put it."""
    e, plus = target.elements[dtype], adding(dtype)
    load, store, zero = e.load, e.store, e.constant(0)

    def run(f):
        to = np.int64(block()) * threads + thread()
        if to < f.rows * f.out_length * f.after:
            line, k = split(to, f.after)
            r, at = split(line, f.out_length)
            low = min(max(f.begin, np.int64(0)), f.length)
            high = max(min(f.begin + f.out_length, f.length), low)
            total, i = zero, at + f.begin
            if i >= low and i < high:
                total = load(f.x, (r * f.length + i) * f.after + k)
            i = np.int64(0) if f.mode != CONSTANT else f.length
            while i < f.length:
                i = high if i == low else i
                if i < f.length and source_of(i - f.begin, f.out_length, f.mode) == at:
                    total = plus(total, load(f.x, (r * f.length + i) * f.after + k))
                i += 1
            store(f.out, to, total)

    return Body(run, _PADDED, threads, threads)
