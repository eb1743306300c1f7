"""The k first elements of each row in order, with their places: sorting where k is the length of the row.

A heap of the k best so far, whose root is the worst of them, and then that heap taken apart from its end: in place in
the outputs, stable, and n log k steps whatever the data.
"""

from __future__ import annotations

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, Element
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, words


def _heap(element: Element):  # type: ignore[no-untyped-def]
    """The function of one row: values and places to fill, the row, its length, k, stride, whether the largest count."""
    load, store = element.load, element.store

    @njit(**INLINE)
    def precedes(a, i, b, j, largest):  # type: ignore[no-untyped-def]
        """Whether value `a` at place `i` comes before `b` at `j`: NaN counts as largest, equals keep their order."""
        nan_a, nan_b = a != a, b != b
        if nan_a or nan_b:
            if nan_a and nan_b:
                return i < j
            return nan_a if largest else nan_b
        if a == b:
            return i < j
        return a > b if largest else a < b

    @njit(**KERNEL)
    def sink(values, places, stride, at, n, value, place, largest):  # type: ignore[no-untyped-def]
        """Put an element into a heap of `n` at `at` or below, so that no parent precedes its child."""
        while True:
            child = 2 * at + 1
            if child >= n:
                break
            c = child * stride
            if child + 1 < n:
                d = c + stride
                if precedes(load(values, c), places[c], load(values, d), places[d], largest):
                    child += 1
                    c = d
            if not precedes(value, place, load(values, c), places[c], largest):
                break
            store(values, at * stride, load(values, c))
            places[at * stride] = places[c]
            at = child
        store(values, at * stride, value)
        places[at * stride] = place

    @njit(**KERNEL)
    def row(values, places, x, n, k, stride, largest):  # type: ignore[no-untyped-def]
        for i in range(k):
            store(values, i * stride, load(x, i * stride))
            places[i * stride] = i
        for i in range(k // 2 - 1, -1, -1):
            at = i * stride
            sink(values, places, stride, i, k, load(values, at), places[at], largest)
        for i in range(k, n):
            value = load(x, i * stride)
            if precedes(value, i, load(values, 0), places[0], largest):
                sink(values, places, stride, 0, k, value, i, largest)
        for last in range(k - 1, 0, -1):
            at = last * stride
            value, place = load(values, at), places[at]
            store(values, at, load(values, 0))
            places[at] = places[0]
            sink(values, places, stride, 0, last, value, place, largest)

    return row


def select(kernel: object, dtype: int, layout_class: int) -> Builder:
    """The first elements of each row, and their places in it."""
    element = ELEMENTS[dtype]
    pointer, row = element.pointer, _heap(element)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.sorting(frame)
        before, n, stride, k = f.before, f.length, f.after, f.k
        if k == 0:
            return
        values, places = pointer(f.values), words(f.places)
        x = pointer(f.x.data)
        for i in range(before):
            for j in range(stride):
                to = i * k * stride + j
                row(
                    advance(values, to), advance(places, to), advance(x, i * n * stride + j), n, k, stride,
                    f.largest != 0,
                )  # fmt: skip

    return run, KERNEL
