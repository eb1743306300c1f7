"""Pooling and padding, plane by plane.

Frame of pooling: out, indices, x, number of planes, their height and width in x, those in out, then the settings.
Settings of windows: their size, strides, padding, and for maxima dilation (each down, across); for means whether
padding counts, and a divisor or 0. Kernels from the smaller planes to the larger are the transposes of the others.

Rows of results are computed as `window_rows` describes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.kernels.index import report
from fastgrad.kernels.window_rows import maxima, sums
from fastgrad.native.base.intrinsics import address_of, advance, float_of, memcpy, memset, words

OUT, INDICES, X, PLANES, H, W, OH, OW, KH, KW, SH, SW, PH, PW, DH, DW = range(16)
COUNTS_PADDING, DIVISOR = 14, 15  # in the place of the dilation


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


@njit(**KERNEL)
def _rows_inside(top, step, count, height):  # type: ignore[no-untyped-def]
    """Of the rows of a window, the first that lies in the image, and how many do."""
    skipped = (max(-top, 0) + step - 1) // step
    first = top + skipped * step
    return first, min(count - skipped, (height - first + step - 1) // step)


# --- maxima ----------------------------------------------------------------------------------------------------


@njit(**KERNEL)
def _is_halving(f):  # type: ignore[no-untyped-def]
    """Whether windows are 2 by 2, side by side and within the image: what is pooled most often."""
    return (
        f[KH] == 2 and f[KW] == 2 and f[SH] == 2 and f[SW] == 2 and f[PH] + f[PW] == 0
        and f[OH] * 2 <= f[H] and f[OW] * 2 <= f[W]
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

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        halving = _is_halving(f) and f[DH] * f[DW] == 1
        for p in range(f[PLANES]):
            x = pointer(f[X] + p * f[H] * f[W] * size)
            for i in range(f[OH]):
                at = (p * f[OH] + i) * f[OW]
                out, indices = pointer(f[OUT] + at * size), advance(words(f[INDICES]), at)
                if halving:
                    a = advance(x, 2 * i * f[W])
                    _max_of_fours(out, indices, a, advance(a, f[W]), f[OW], 2 * i * f[W], f[W])
                    continue
                top, rows = _rows_inside(i * f[SH] - f[PH], f[DH], f[KH], f[H])
                if rows > 0:
                    line(x, top, rows, f[DH], -f[PW], f[KW], f[DW], f[SW], f[W], f[OW], out, indices)
                else:
                    for j in range(f[OW]):
                        out[j] = lowest
                        indices[j] = -1

    return run


def _scatter(element: Element) -> Callable[..., None]:
    """What stands in the smaller planes, added up at their indices in the larger ones."""
    pointer, size = element.pointer, _itemsize(element)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        large, small = f[OH] * f[OW], f[H] * f[W]
        for p in range(f[PLANES]):
            out, x = pointer(f[OUT] + p * large * size), pointer(f[X] + p * small * size)
            indices = advance(words(f[INDICES]), p * small)
            memset(f[OUT] + p * large * size, 0, large * size)
            for i in range(small):
                at = indices[i]
                if at < -1 or at >= large:
                    report(f[8], at, large)
                    return
                if at >= 0:  # else it is the maximum of nothing
                    out[at] += x[i]

    return run


def _gather(element: Element) -> Callable[..., None]:
    """What stands at the indices in the larger planes."""
    pointer, size, zero = element.pointer, _itemsize(element), element.constant(0)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        large, small = f[H] * f[W], f[OH] * f[OW]
        for p in range(f[PLANES]):
            out, x = pointer(f[OUT] + p * small * size), pointer(f[X] + p * large * size)
            indices = advance(words(f[INDICES]), p * small)
            for i in range(small):
                at = indices[i]
                if at < -1 or at >= large:
                    report(f[8], at, large)
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
    if f[DIVISOR] != 0:
        return f[DIVISOR]
    return rows * _extent(j, f[SW], f[PW], f[KW], width, f[COUNTS_PADDING])


@njit(**KERNEL)
def _count_alike(f, n, width):  # type: ignore[no-untyped-def]
    """Whether all of `n` windows in a row count as many elements."""
    last = (n - 1) * f[SW] - f[PW] + f[KW]  # where the last window ends
    return f[DIVISOR] != 0 or (f[COUNTS_PADDING] and last <= width + f[PW]) or (f[PW] == 0 and last <= width)


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

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        alike, halving = _count_alike(f, f[OW], f[W]), _is_halving(f)
        for p in range(f[PLANES]):
            x = pointer(f[X] + p * f[H] * f[W] * size)
            for i in range(f[OH]):
                out = pointer(f[OUT] + (p * f[OH] + i) * f[OW] * size)
                if halving:
                    a = advance(x, 2 * i * f[W])
                    fours(out, a, advance(a, f[W]), f[OW], f[DIVISOR] if f[DIVISOR] != 0 else 4)
                    continue
                top, rows = _rows_inside(i * f[SH] - f[PH], 1, f[KH], f[H])
                if rows > 0:
                    line(x, top, rows, 1, -f[PW], f[KW], 1, f[SW], f[W], f[OW], out, f)
                else:
                    memset(f[OUT] + (p * f[OH] + i) * f[OW] * size, 0, f[OW] * size)
                counted = _extent(i, f[SH], f[PH], f[KH], f[H], f[COUNTS_PADDING])
                if alike:
                    divide(out, f[OW], _divisor(f, counted, 0, f[W]))
                else:
                    for j in range(f[OW]):
                        store(out, j, quotient(out[j], _divisor(f, counted, j, f[W])))

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

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        height, width = f[OH], f[OW]
        alike = _count_alike(f, f[W], width)
        for p in range(f[PLANES]):
            out = pointer(f[OUT] + p * height * width * size)
            memset(f[OUT] + p * height * width * size, 0, height * width * size)
            for i in range(f[H]):
                g = pointer(f[X] + (p * f[H] + i) * f[W] * size)
                counted = _extent(i, f[SH], f[PH], f[KH], height, f[COUNTS_PADDING])
                top, rows = _rows_inside(i * f[SH] - f[PH], 1, f[KH], height)
                for row in range(top, top + rows):
                    for m in range(f[KW]):
                        shift = m - f[PW]
                        low, high = inside(shift, f[SW], width, f[W])
                        target = advance(out, row * width + shift)
                        if alike:
                            add(target, g, low, high, f[SW], _divisor(f, counted, 0, width))
                        else:
                            for j in range(low, high):
                                target[j * f[SW]] += quotient(g[j], _divisor(f, counted, j, width))

    return run


@njit(**KERNEL)
def _share(i, size, parts):  # type: ignore[no-untyped-def]
    """The i-th of equal parts of a dimension: from the floor of its begin to the ceiling of its end."""
    return i * size // parts, ((i + 1) * size + parts - 1) // parts


def _adaptive_mean(element: Element) -> Callable[..., None]:
    pointer, size, cast = element.pointer, _itemsize(element), element.constant
    zero = cast(0)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        for p in range(f[PLANES]):
            x = pointer(f[X] + p * f[H] * f[W] * size)
            for i in range(f[OH]):
                top, bottom = _share(i, f[H], f[OH])
                out = pointer(f[OUT] + (p * f[OH] + i) * f[OW] * size)
                for j in range(f[OW]):
                    left, right = _share(j, f[W], f[OW])
                    total = zero
                    for row in range(top, bottom):
                        for column in range(left, right):
                            total += x[row * f[W] + column]
                    out[j] = total / cast((bottom - top) * (right - left))

    return run


def _adaptive_mean_backward(element: Element) -> Callable[..., None]:
    pointer, size, cast = element.pointer, _itemsize(element), element.constant

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        height, width = f[OH], f[OW]
        for p in range(f[PLANES]):
            out = pointer(f[OUT] + p * height * width * size)
            memset(f[OUT] + p * height * width * size, 0, height * width * size)
            for i in range(f[H]):
                top, bottom = _share(i, height, f[H])
                g = pointer(f[X] + (p * f[H] + i) * f[W] * size)
                for j in range(f[W]):
                    left, right = _share(j, width, f[W])
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
# One dimension at a time. Frame: out, x, rows before it, its length in x and in out, elements after it, how far it
# begins before that of the operand, mode, value (the bits of a float64, or an integer).

CONSTANT, REFLECT, REPLICATE, CIRCULAR = range(4)


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
        f = words(frame)
        length, longer, after, before, mode = f[3], f[4], f[5], f[6], f[7]
        value = float_of(f[8]) if floating else f[8]
        low = min(max(before, 0), longer)
        high = max(min(before + length, longer), low)
        for r in range(f[2]):
            x = pointer(f[1] + r * length * after * size)
            out = pointer(f[0] + r * longer * after * size)
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
        f = words(frame)
        longer, length, after, before, mode = f[3], f[4], f[5], f[6], f[7]
        memset(f[0], 0, f[2] * length * after * size)
        low = min(max(before, 0), longer)
        high = max(min(before + length, longer), low)
        for r in range(f[2]):
            x = pointer(f[1] + r * longer * after * size)
            out = pointer(f[0] + r * length * after * size)
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
