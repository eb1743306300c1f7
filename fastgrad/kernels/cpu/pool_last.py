"""Pooling of images whose channels lie last: the channels of a place are a vector, results sums or maxima of such.

A window is taken four places at a time, so that a result stays in registers for as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import INLINE, KERNEL, LOOP, Element
from fastgrad.kernels.reports import report_index
from fastgrad.native.base.intrinsics import address_of, advance, memset, words


@njit(**KERNEL)
def rows_inside(top, step, count, height):  # type: ignore[no-untyped-def]
    """Of the rows of a window, the first that lies in the image, and how many do."""
    skipped = (max(-top, 0) + step - 1) // step
    first = top + skipped * step
    return first, min(count - skipped, (height - first + step - 1) // step)


def _maxima_of_window() -> Any:
    @njit(**INLINE)
    def greater(value, place, best, at):  # type: ignore[no-untyped-def]
        better = (value > best) | (value != value)
        return value if better else best, place if better else at

    @njit(**LOOP)
    def first(out, indices, a, b, c, d, i, j, k, m, n):  # type: ignore[no-untyped-def]
        for e in range(n):
            best, at = greater(b[e], j, a[e], i)
            best, at = greater(c[e], k, best, at)
            out[e], indices[e] = greater(d[e], m, best, at)

    @njit(**LOOP)
    def further(out, indices, a, b, c, d, i, j, k, m, n):  # type: ignore[no-untyped-def]
        for e in range(n):
            best, at = greater(a[e], i, out[e], indices[e])
            best, at = greater(b[e], j, best, at)
            best, at = greater(c[e], k, best, at)
            out[e], indices[e] = greater(d[e], m, best, at)

    @njit(**KERNEL)
    def window(out, indices, x, top, rows, down, left, columns, across, width, n):  # type: ignore[no-untyped-def]
        a, b, c, d = x, x, x, x
        i, j, k, m = 0, 0, 0, 0
        taken, found = 0, False
        for row in range(rows):
            for column in range(columns):
                place = (top + row * down) * width + left + column * across
                at = advance(x, place * n)
                if taken == 0:
                    a, i = at, place
                if taken <= 1:
                    b, j = at, place
                if taken <= 2:
                    c, k = at, place
                d, m = at, place
                taken += 1
                if taken == 4 or (row == rows - 1 and column == columns - 1):  # what is missing is seen again
                    if found:
                        further(out, indices, a, b, c, d, i, j, k, m, n)
                    else:
                        first(out, indices, a, b, c, d, i, j, k, m, n)
                    taken, found = 0, True

    return window


def maxima(element: Element, size: int, lowest: Any) -> Callable[..., None]:
    """The maxima of windows, and where in its image each of them is; `lowest` is that of nothing."""
    pointer, window = element.pointer, _maxima_of_window()

    def run(f):  # type: ignore[no-untyped-def]
        n = f.channels
        for p in range(f.planes):
            x = pointer(f.x + p * f.height * f.width * n * size)
            for i in range(f.out_height):
                top, rows = rows_inside(i * f.stride_h - f.padding_h, f.dilation_h, f.kernel_h, f.height)
                for j in range(f.out_width):
                    left, columns = rows_inside(
                        j * f.stride_w - f.padding_w, f.dilation_w, f.kernel_w, f.width
                    )
                    at = ((p * f.out_height + i) * f.out_width + j) * n
                    out, indices = pointer(f.out + at * size), advance(words(f.indices), at)
                    if rows > 0 and columns > 0:
                        window(
                            out, indices, x, top, rows, f.dilation_h, left, columns, f.dilation_w, f.width, n
                        )
                    else:
                        for e in range(n):
                            out[e] = lowest
                            indices[e] = -1

    return njit(**KERNEL)(run)


def scatter(element: Element, size: int) -> Callable[..., None]:
    """What stands in the smaller images, added up at their indices in the larger ones."""
    pointer = element.pointer

    def run(f):  # type: ignore[no-untyped-def]
        n, large, small = f.channels, f.out_height * f.out_width, f.height * f.width
        for p in range(f.planes):
            out, x = pointer(f.out + p * large * n * size), pointer(f.x + p * small * n * size)
            indices = advance(words(f.indices), p * small * n)
            memset(f.out + p * large * n * size, 0, large * n * size)
            for i in range(small):
                for e in range(n):
                    at = indices[i * n + e]
                    if at < -1 or at >= large:
                        report_index(f, at, large)
                        return
                    if at >= 0:
                        out[at * n + e] += x[i * n + e]

    return njit(**KERNEL)(run)


def gather(element: Element, size: int) -> Callable[..., None]:
    """What stands at the indices in the larger images."""
    pointer, zero = element.pointer, element.constant(0)

    def run(f):  # type: ignore[no-untyped-def]
        n, large, small = f.channels, f.height * f.width, f.out_height * f.out_width
        for p in range(f.planes):
            out, x = pointer(f.out + p * small * n * size), pointer(f.x + p * large * n * size)
            indices = advance(words(f.indices), p * small * n)
            for i in range(small):
                for e in range(n):
                    at = indices[i * n + e]
                    if at < -1 or at >= large:
                        report_index(f, at, large)
                        return
                    out[i * n + e] = x[at * n + e] if at >= 0 else zero

    return njit(**KERNEL)(run)


def _sum_of_window(size: int) -> Any:
    @njit(**LOOP)
    def four(out, a, b, c, d, n):  # type: ignore[no-untyped-def]
        for e in range(n):
            out[e] += (a[e] + b[e]) + (c[e] + d[e])

    @njit(**LOOP)
    def single(out, a, n):  # type: ignore[no-untyped-def]
        for e in range(n):
            out[e] += a[e]

    @njit(**KERNEL)
    def window(out, x, top, rows, left, columns, width, n):  # type: ignore[no-untyped-def]
        memset(address_of(out), 0, n * size)
        for row in range(rows):
            line = advance(x, ((top + row) * width + left) * n)
            column = 0
            while column + 4 <= columns:
                a = advance(line, column * n)
                four(out, a, advance(a, n), advance(a, 2 * n), advance(a, 3 * n), n)
                column += 4
            while column < columns:
                single(out, advance(line, column * n), n)
                column += 1

    @njit(**KERNEL)
    def halving(out, x, top, left, width, n):  # type: ignore[no-untyped-def]
        memset(address_of(out), 0, n * size)
        a = advance(x, (top * width + left) * n)
        b = advance(a, width * n)
        four(out, a, advance(a, n), b, advance(b, n), n)

    @njit(**INLINE)
    def total(out, x, top, rows, left, columns, width, n):  # type: ignore[no-untyped-def]
        if rows == 2 and columns == 2:
            halving(out, x, top, left, width, n)
        else:
            window(out, x, top, rows, left, columns, width, n)

    return total


def _shares(size: int, quotient: Any) -> Any:
    @njit(**LOOP)
    def add(out, g, n, count):  # type: ignore[no-untyped-def]
        for e in range(n):
            out[e] += quotient(g[e], count)

    @njit(**KERNEL)
    def share(out, g, top, rows, left, columns, width, n, count):  # type: ignore[no-untyped-def]
        for row in range(top, top + rows):
            for column in range(left, left + columns):
                add(advance(out, (row * width + column) * n), g, n, count)

    return share


def _divided(element: Element, quotient: Any) -> Any:
    store = element.store

    @njit(**LOOP)
    def divide(out, n, count):  # type: ignore[no-untyped-def]
        for e in range(n):
            store(out, e, quotient(out[e], count))

    return divide


def means(element: Element, size: int, quotient: Any, divisor: Any) -> Callable[..., None]:
    """The means of windows; ``divisor(f, i, j, height, width)`` says what a sum is divided by."""
    pointer, total, divide = element.pointer, _sum_of_window(size), _divided(element, quotient)

    def run(f):  # type: ignore[no-untyped-def]
        n = f.channels
        for p in range(f.planes):
            x = pointer(f.x + p * f.height * f.width * n * size)
            for i in range(f.out_height):
                top, rows = rows_inside(i * f.stride_h - f.padding_h, 1, f.kernel_h, f.height)
                for j in range(f.out_width):
                    left, columns = rows_inside(j * f.stride_w - f.padding_w, 1, f.kernel_w, f.width)
                    out = pointer(f.out + ((p * f.out_height + i) * f.out_width + j) * n * size)
                    total(out, x, top, rows, left, columns, f.width, n)
                    divide(out, n, divisor(f, i, j, f.height, f.width))

    return njit(**KERNEL)(run)


def means_backward(element: Element, size: int, quotient: Any, divisor: Any) -> Callable[..., None]:
    """What stands in the smaller images, divided among the places of its window."""
    pointer, share = element.pointer, _shares(size, quotient)

    def run(f):  # type: ignore[no-untyped-def]
        n, height, width = f.channels, f.out_height, f.out_width
        for p in range(f.planes):
            out = pointer(f.out + p * height * width * n * size)
            memset(f.out + p * height * width * n * size, 0, height * width * n * size)
            for i in range(f.height):
                top, rows = rows_inside(i * f.stride_h - f.padding_h, 1, f.kernel_h, height)
                for j in range(f.width):
                    left, columns = rows_inside(j * f.stride_w - f.padding_w, 1, f.kernel_w, width)
                    g = pointer(f.x + ((p * f.height + i) * f.width + j) * n * size)
                    share(out, g, top, rows, left, columns, width, n, divisor(f, i, j, height, width))

    return njit(**KERNEL)(run)


def parts(element: Element, size: int, quotient: Any, part: Any) -> Callable[..., None]:
    """The means of equal parts, as ``part(i, size, parts)`` says where they are."""
    pointer, total, divide = element.pointer, _sum_of_window(size), _divided(element, quotient)

    def run(f):  # type: ignore[no-untyped-def]
        n = f.channels
        for p in range(f.planes):
            x = pointer(f.x + p * f.height * f.width * n * size)
            for i in range(f.out_height):
                top, bottom = part(i, f.height, f.out_height)
                for j in range(f.out_width):
                    left, right = part(j, f.width, f.out_width)
                    out = pointer(f.out + ((p * f.out_height + i) * f.out_width + j) * n * size)
                    total(out, x, top, bottom - top, left, right - left, f.width, n)
                    divide(out, n, (bottom - top) * (right - left))

    return njit(**KERNEL)(run)


def parts_backward(element: Element, size: int, quotient: Any, part: Any) -> Callable[..., None]:
    """What stands in the smaller images, divided among the places of its part."""
    pointer, share = element.pointer, _shares(size, quotient)

    def run(f):  # type: ignore[no-untyped-def]
        n, height, width = f.channels, f.out_height, f.out_width
        for p in range(f.planes):
            out = pointer(f.out + p * height * width * n * size)
            memset(f.out + p * height * width * n * size, 0, height * width * n * size)
            for i in range(f.height):
                top, bottom = part(i, height, f.height)
                for j in range(f.width):
                    left, right = part(j, width, f.width)
                    g = pointer(f.x + ((p * f.height + i) * f.width + j) * n * size)
                    count = (bottom - top) * (right - left)
                    share(out, g, top, bottom - top, left, right - left, width, n, count)

    return njit(**KERNEL)(run)
