"""Pooling and padding, plane by plane.

Kernels from the smaller planes to the larger are the transposes of the others. Rows of results are computed as
`window_rows` describes, those of images whose channels lie last as `pool_last` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu import pool_last
from fastgrad.kernels.cpu.pool_last import rows_inside
from fastgrad.kernels.cpu.window_rows import maxima, sums
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.kernels.reports import report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import address_of, advance, float_of, memcpy, memset, words
from fastgrad.native.contracts.frames.windows import CIRCULAR, CONSTANT, REFLECT


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """A kernel of pooling for one dtype."""
    return _MAKERS[kernel.options["pool"]](ELEMENTS[dtype]), KERNEL


@njit(**KERNEL)
def inside(shift, stride, size, count):  # type: ignore[no-untyped-def]
    """The range of j below `count` for which ``j * stride + shift`` lies in a row of `size`."""
    low = min((max(-shift, 0) + stride - 1) // stride, count)
    high = min((max(size - shift, 0) + stride - 1) // stride, count)
    return low, max(low, high)


def _itemsize(element: Element) -> int:
    return np.dtype(element.name).itemsize


# --- maxima ----------------------------------------------------------------------------------------------------


@njit(**KERNEL)
def _is_halving(f):  # type: ignore[no-untyped-def]
    """Whether windows are 2 by 2, side by side and within the image: what is pooled most often."""
    return (
        f.kernel_h == 2 and f.kernel_w == 2 and f.stride_h == 2 and f.stride_w == 2 and f.padding_h + f.padding_w == 0
        and f.out_height * 2 <= f.height and f.out_width * 2 <= f.width
    )  # fmt: skip


@njit(**LOOP)
def _max_of_fours(out, indices, a, b, n, base, width):  # type: ignore[no-untyped-def]
    """The maxima of windows of 2 by 2 from two rows of the image."""
    down = np.int32(width)
    for j in range(n):
        best = a[2 * j]
        at = np.int32(0)
        value = a[2 * j + 1]
        better = (value > best) | (value != value)
        best = value if better else best
        at = np.int32(1) if better else at
        value = b[2 * j]
        better = (value > best) | (value != value)
        best = value if better else best
        at = down if better else at
        value = b[2 * j + 1]
        better = (value > best) | (value != value)
        out[j] = value if better else best
        indices[j] = base + 2 * j + np.int64(down + np.int32(1) if better else at)


def _max(element: Element) -> Callable[..., None]:
    pointer, size = element.pointer, _itemsize(element)
    line = maxima(element)
    kind = np.dtype(element.name)
    lowest = element.constant(-np.inf if kind.kind == "f" else np.iinfo(kind).min)

    images = pool_last.maxima(element, size, lowest)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.max_pooling(frame)
        if f.channels > 1:
            images(f)
            return
        halving = _is_halving(f) and f.dilation_h * f.dilation_w == 1
        for p in range(f.planes):
            x = pointer(f.x + p * f.height * f.width * size)
            for i in range(f.out_height):
                at = (p * f.out_height + i) * f.out_width
                out, indices = pointer(f.out + at * size), advance(words(f.indices), at)
                if halving:
                    a = advance(x, 2 * i * f.width)
                    _max_of_fours(out, indices, a, advance(a, f.width), f.out_width, 2 * i * f.width, f.width)
                    continue
                top, rows = rows_inside(i * f.stride_h - f.padding_h, f.dilation_h, f.kernel_h, f.height)
                if rows > 0:
                    line(
                        x, top, rows, f.dilation_h, -f.padding_w, f.kernel_w, f.dilation_w, f.stride_w, f.width,
                        f.out_width, out, indices,
                    )  # fmt: skip
                else:
                    for j in range(f.out_width):
                        out[j] = lowest
                        indices[j] = -1

    return run


def _scatter(element: Element) -> Callable[..., None]:
    """What stands in the smaller planes, added up at their indices in the larger ones."""
    pointer, size = element.pointer, _itemsize(element)
    images = pool_last.scatter(element, size)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.places(frame)
        if f.channels > 1:
            images(f)
            return
        large, small = f.out_height * f.out_width, f.height * f.width
        for p in range(f.planes):
            out, x = pointer(f.out + p * large * size), pointer(f.x + p * small * size)
            indices = advance(words(f.indices), p * small)
            memset(f.out + p * large * size, 0, large * size)
            for i in range(small):
                at = indices[i]
                if at < -1 or at >= large:
                    report_index(f, at, large)
                    return
                if at >= 0:  # else it is the maximum of nothing
                    out[at] += x[i]

    return run


def _gather(element: Element) -> Callable[..., None]:
    """What stands at the indices in the larger planes."""
    pointer, size, zero = element.pointer, _itemsize(element), element.constant(0)
    images = pool_last.gather(element, size)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.places(frame)
        if f.channels > 1:
            images(f)
            return
        large, small = f.height * f.width, f.out_height * f.out_width
        for p in range(f.planes):
            out, x = pointer(f.out + p * small * size), pointer(f.x + p * large * size)
            indices = advance(words(f.indices), p * small)
            for i in range(small):
                at = indices[i]
                if at < -1 or at >= large:
                    report_index(f, at, large)
                    return
                out[i] = x[at] if at >= 0 else zero

    return run


# --- means -----------------------------------------------------------------------------------------------------


@njit(**KERNEL)
def _extent(at, stride, padding, length, size, counts_padding):  # type: ignore[no-untyped-def]
    """How many elements of a dimension a window counts."""
    first = at * stride - padding
    last = min(first + length, size + padding)
    if counts_padding:
        return last - first
    return min(last, size) - max(first, 0)


@njit(**KERNEL)
def _divisor(f, rows, j, width):  # type: ignore[no-untyped-def]
    if f.divisor != 0:
        return f.divisor
    return rows * _extent(j, f.stride_w, f.padding_w, f.kernel_w, width, f.counts_padding)


@njit(**KERNEL)
def _divisor_at(f, i, j, height, width):  # type: ignore[no-untyped-def]
    """What the sum of one window is divided by."""
    return _divisor(f, _extent(i, f.stride_h, f.padding_h, f.kernel_h, height, f.counts_padding), j, width)


@njit(**KERNEL)
def _count_alike(f, n, width):  # type: ignore[no-untyped-def]
    """Whether all of `n` windows in a row count as many elements."""
    last = (n - 1) * f.stride_w - f.padding_w + f.kernel_w  # where the last window ends
    return (
        f.divisor != 0
        or (f.counts_padding and last <= width + f.padding_w)
        or (f.padding_w == 0 and last <= width)
    )


def _quotient(element: Element) -> Any:
    if np.dtype(element.name).kind == "f":
        cast = element.constant

        @njit(**INLINE)
        def quotient(total, count):  # type: ignore[no-untyped-def]
            return total / cast(count)
    else:

        @njit(**INLINE)
        def quotient(total, count):  # type: ignore[no-untyped-def]
            """Rounded towards zero."""
            whole = abs(np.int64(total)) // abs(count)
            return whole if (total >= 0) == (count > 0) else -whole

    return quotient


def _mean(element: Element) -> Callable[..., None]:
    pointer, size, store = element.pointer, _itemsize(element), element.store
    quotient, line = _quotient(element), sums(element)

    @njit(**LOOP)
    def fours(out, a, b, n, count):  # type: ignore[no-untyped-def]
        for j in range(n):
            store(out, j, quotient(a[2 * j] + a[2 * j + 1] + b[2 * j] + b[2 * j + 1], count))

    @njit(**LOOP)
    def divide(out, n, count):  # type: ignore[no-untyped-def]
        for j in range(n):
            store(out, j, quotient(out[j], count))

    images = pool_last.means(element, size, quotient, _divisor_at)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.mean_pooling(frame)
        if f.channels > 1:
            images(f)
            return
        alike, halving = _count_alike(f, f.out_width, f.width), _is_halving(f)
        for p in range(f.planes):
            x = pointer(f.x + p * f.height * f.width * size)
            for i in range(f.out_height):
                out = pointer(f.out + (p * f.out_height + i) * f.out_width * size)
                if halving:
                    a = advance(x, 2 * i * f.width)
                    fours(out, a, advance(a, f.width), f.out_width, f.divisor if f.divisor != 0 else 4)
                    continue
                top, rows = rows_inside(i * f.stride_h - f.padding_h, 1, f.kernel_h, f.height)
                if rows > 0:
                    line(
                        x, top, rows, 1, -f.padding_w, f.kernel_w, 1, f.stride_w, f.width, f.out_width, out,
                        words(f.indices),
                    )  # fmt: skip
                else:
                    memset(f.out + (p * f.out_height + i) * f.out_width * size, 0, f.out_width * size)
                counted = _extent(i, f.stride_h, f.padding_h, f.kernel_h, f.height, f.counts_padding)
                if alike:
                    divide(out, f.out_width, _divisor(f, counted, 0, f.width))
                else:
                    for j in range(f.out_width):
                        store(out, j, quotient(out[j], _divisor(f, counted, j, f.width)))

    return run


def _mean_backward(element: Element) -> Callable[..., None]:
    pointer, size, quotient = element.pointer, _itemsize(element), _quotient(element)

    @njit(**LOOP)
    def add(out, g, low, high, stride, count):  # type: ignore[no-untyped-def]
        if stride == 1:
            for j in range(low, high):
                out[j] += quotient(g[j], count)
        else:
            for j in range(low, high):
                out[j * stride] += quotient(g[j], count)

    images = pool_last.means_backward(element, size, quotient, _divisor_at)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.mean_pooling(frame)
        if f.channels > 1:
            images(f)
            return
        height, width = f.out_height, f.out_width
        alike = _count_alike(f, f.width, width)
        for p in range(f.planes):
            out = pointer(f.out + p * height * width * size)
            memset(f.out + p * height * width * size, 0, height * width * size)
            for i in range(f.height):
                g = pointer(f.x + (p * f.height + i) * f.width * size)
                counted = _extent(i, f.stride_h, f.padding_h, f.kernel_h, height, f.counts_padding)
                top, rows = rows_inside(i * f.stride_h - f.padding_h, 1, f.kernel_h, height)
                for row in range(top, top + rows):
                    for m in range(f.kernel_w):
                        shift = m - f.padding_w
                        low, high = inside(shift, f.stride_w, width, f.width)
                        target = advance(out, row * width + shift)
                        if alike:
                            add(target, g, low, high, f.stride_w, _divisor(f, counted, 0, width))
                        else:
                            for j in range(low, high):
                                target[j * f.stride_w] += quotient(g[j], _divisor(f, counted, j, width))

    return run


@njit(**KERNEL)
def _share(i, size, parts):  # type: ignore[no-untyped-def]
    """The i-th of equal parts of a dimension: from the floor of its begin to the ceiling of its end."""
    return i * size // parts, ((i + 1) * size + parts - 1) // parts


def _adaptive_mean(element: Element) -> Callable[..., None]:
    pointer, size, cast = element.pointer, _itemsize(element), element.constant
    zero = cast(0)
    images = pool_last.parts(element, size, _quotient(element), _share)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.planes(frame)
        if f.channels > 1:
            images(f)
            return
        for p in range(f.planes):
            x = pointer(f.x + p * f.height * f.width * size)
            for i in range(f.out_height):
                top, bottom = _share(i, f.height, f.out_height)
                out = pointer(f.out + (p * f.out_height + i) * f.out_width * size)
                for j in range(f.out_width):
                    left, right = _share(j, f.width, f.out_width)
                    total = zero
                    for row in range(top, bottom):
                        for column in range(left, right):
                            total += x[row * f.width + column]
                    out[j] = total / cast((bottom - top) * (right - left))

    return run


def _adaptive_mean_backward(element: Element) -> Callable[..., None]:
    pointer, size, cast = element.pointer, _itemsize(element), element.constant
    images = pool_last.parts_backward(element, size, _quotient(element), _share)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.planes(frame)
        if f.channels > 1:
            images(f)
            return
        height, width = f.out_height, f.out_width
        for p in range(f.planes):
            out = pointer(f.out + p * height * width * size)
            memset(f.out + p * height * width * size, 0, height * width * size)
            for i in range(f.height):
                top, bottom = _share(i, height, f.height)
                g = pointer(f.x + (p * f.height + i) * f.width * size)
                for j in range(f.width):
                    left, right = _share(j, width, f.width)
                    share = g[j] / cast((bottom - top) * (right - left))
                    for row in range(top, bottom):
                        for column in range(left, right):
                            out[row * width + column] += share

    return run


_MAKERS: dict[str, Callable[[Element], Callable[..., None]]] = {
    "max": _max, "scatter": _scatter, "gather": _gather, "mean": _mean, "mean_backward": _mean_backward,
    "adaptive": _adaptive_mean, "adaptive_backward": _adaptive_mean_backward,
}  # fmt: skip


# --- padding ---------------------------------------------------------------------------------------------------
# One dimension at a time.


@njit(**KERNEL)
def _source(at, size, mode):  # type: ignore[no-untyped-def]
    """The place within a dimension of `size` that a place outside of it repeats."""
    if mode == CIRCULAR:
        return at % size
    if mode == REFLECT:
        at = -at if at < 0 else (2 * size - 2 - at if at >= size else at)
    return min(max(at, 0), size - 1)


def pad(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Put a dimension into a longer or shorter one."""
    element = ELEMENTS[dtype]
    pointer, store, size = element.pointer, element.store, _itemsize(element)
    floating = np.dtype(element.name).kind == "f"

    @njit(**INLINE)
    def copy(out, x, n):  # type: ignore[no-untyped-def]
        memcpy(address_of(out), address_of(x), n * size)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.padding(frame)
        length, longer, after, before, mode = f.length, f.out_length, f.after, f.begin, f.mode
        value = float_of(f.value) if floating else f.value
        low = min(max(before, 0), longer)
        high = max(min(before + length, longer), low)
        for r in range(f.rows):
            x = pointer(f.x + r * length * after * size)
            out = pointer(f.out + r * longer * after * size)
            copy(advance(out, low * after), advance(x, (low - before) * after), (high - low) * after)
            for e in range(longer - high + low):
                i = e if e < low else e + high - low
                if mode == CONSTANT:
                    for k in range(after):
                        store(out, i * after + k, value)
                else:
                    copy(
                        advance(out, i * after), advance(x, _source(i - before, length, mode) * after), after
                    )

    return run, KERNEL


def pad_backward(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Add up, for each place of a dimension, what stands where padding has put it."""
    element = ELEMENTS[dtype]
    pointer, size = element.pointer, _itemsize(element)

    @njit(**LOOP)
    def add(out, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] += x[i]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.padding(frame)
        longer, length, after, before, mode = f.length, f.out_length, f.after, f.begin, f.mode
        memset(f.out, 0, f.rows * length * after * size)
        low = min(max(before, 0), longer)
        high = max(min(before + length, longer), low)
        for r in range(f.rows):
            x = pointer(f.x + r * longer * after * size)
            out = pointer(f.out + r * length * after * size)
            add(advance(out, (low - before) * after), advance(x, low * after), (high - low) * after)
            if mode != CONSTANT:
                for i in range(longer):
                    if i < low or i >= high:
                        add(
                            advance(out, _source(i - before, length, mode) * after),
                            advance(x, i * after),
                            after,
                        )

    return run, KERNEL
