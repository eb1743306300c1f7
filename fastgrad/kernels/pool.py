"""Pooling and padding, plane by plane.

Frame of pooling: out, indices, x, number of planes, their height and width in x, those in out, then the settings.
Settings of windows: their size, strides, padding, and for maxima dilation (each down, across); for means whether
padding counts, and a divisor or 0. Kernels from the smaller planes to the larger are the transposes of the others.

A row of results is computed one element of the windows after the other, so that the inner loops run over the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.kernels.index import report
from fastgrad.native.intrinsics import advance, float_of, memset, words
from fastgrad.native.layout import BOOL, FLOAT32, FLOAT64

OUT, INDICES, X, PLANES, H, W, OH, OW, KH, KW, SH, SW, PH, PW, DH, DW = range(16)
COUNTS_PADDING, DIVISOR = 14, 15  # in the place of the dilation


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """A kernel of pooling for one dtype."""
    if dtype == BOOL or (kernel.options.get("float_only") and dtype not in (FLOAT32, FLOAT64)):
        raise NotImplementedError("convert the operand with .to(fastgrad.float32) first")
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


def _lowest(element: Element) -> Any:
    kind = np.dtype(element.name)
    return element.constant(-np.inf if kind.kind == "f" else np.iinfo(kind).min)


def _max_row(element: Element) -> Any:
    """Compare one element of each window of a row with the greatest so far: the last nan, or the first greatest."""

    def compare(out, indices, x, low, high, stride, shift, base):  # type: ignore[no-untyped-def]
        for j in range(low, high):
            at = j * stride + shift
            value = x[at]
            better = (value > out[j]) | (value != value)
            out[j] = value if better else out[j]
            indices[j] = base + at if better else indices[j]

    general = njit(**LOOP)(compare)

    @njit(**LOOP)
    def by_two(out, indices, x, low, high, shift, base):  # type: ignore[no-untyped-def]
        for j in range(low, high):
            at = j * 2 + shift
            value = x[at]
            better = (value > out[j]) | (value != value)
            out[j] = value if better else out[j]
            indices[j] = base + at if better else indices[j]

    @njit(**INLINE)
    def row(out, indices, x, low, high, stride, shift, base):  # type: ignore[no-untyped-def]
        if stride == 2:
            by_two(out, indices, x, low, high, shift, base)
        else:
            general(out, indices, x, low, high, stride, shift, base)

    return row


def _max(element: Element) -> Callable[..., None]:
    pointer, lowest, size = element.pointer, _lowest(element), _itemsize(element)
    row = _max_row(element)

    @njit(**KERNEL)
    def start(f, i, out, indices):  # type: ignore[no-untyped-def]
        """What no comparison has changed yet: the first element of each window, less than everything."""
        top = i * f[SH] - f[PH]
        top += (max(-top, 0) + f[DH] - 1) // f[DH] * f[DH]
        for j in range(f[OW]):
            left = j * f[SW] - f[PW]
            if left < 0:
                left += (-left + f[DW] - 1) // f[DW] * f[DW]
            out[j] = lowest
            indices[j] = top * f[W] + left

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        for p in range(f[PLANES]):
            x = pointer(f[X] + p * f[H] * f[W] * size)
            for i in range(f[OH]):
                at = (p * f[OH] + i) * f[OW]
                out, indices = pointer(f[OUT] + at * size), advance(words(f[INDICES]), at)
                start(f, i, out, indices)
                for k in range(f[KH]):
                    base = i * f[SH] - f[PH] + k * f[DH]
                    if base < 0 or base >= f[H]:
                        continue
                    for m in range(f[KW]):
                        shift = m * f[DW] - f[PW]
                        low, high = inside(shift, f[SW], f[W], f[OW])
                        row(out, indices, advance(x, base * f[W]), low, high, f[SW], shift, base * f[W])

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
                if at < 0 or at >= large:
                    report(f[8], at, large)
                    return
                out[at] += x[i]

    return run


def _gather(element: Element) -> Callable[..., None]:
    """What stands at the indices in the larger planes."""
    pointer, size = element.pointer, _itemsize(element)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        large, small = f[H] * f[W], f[OH] * f[OW]
        for p in range(f[PLANES]):
            out, x = pointer(f[OUT] + p * small * size), pointer(f[X] + p * large * size)
            indices = advance(words(f[INDICES]), p * small)
            for i in range(small):
                at = indices[i]
                if at < 0 or at >= large:
                    report(f[8], at, large)
                    return
                out[i] = x[at]

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
    quotient, zero = _quotient(element), element.constant(0)

    @njit(**LOOP)
    def add(out, x, low, high, stride, shift):  # type: ignore[no-untyped-def]
        if stride == 2:
            for j in range(low, high):
                out[j] += x[j * 2 + shift]
        else:
            for j in range(low, high):
                out[j] += x[j * stride + shift]

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        for p in range(f[PLANES]):
            x = pointer(f[X] + p * f[H] * f[W] * size)
            for i in range(f[OH]):
                out = pointer(f[OUT] + (p * f[OH] + i) * f[OW] * size)
                for j in range(f[OW]):
                    out[j] = zero
                for k in range(f[KH]):
                    row = i * f[SH] - f[PH] + k
                    if row < 0 or row >= f[H]:
                        continue
                    for m in range(f[KW]):
                        low, high = inside(m - f[PW], f[SW], f[W], f[OW])
                        add(out, advance(x, row * f[W]), low, high, f[SW], m - f[PW])
                rows = _extent(i, f[SH], f[PH], f[KH], f[H], f[COUNTS_PADDING])
                for j in range(f[OW]):
                    store(out, j, quotient(out[j], _divisor(f, rows, j, f[W])))

    return run


def _mean_backward(element: Element) -> Callable[..., None]:
    pointer, size, quotient = element.pointer, _itemsize(element), _quotient(element)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        height, width = f[OH], f[OW]
        for p in range(f[PLANES]):
            out = pointer(f[OUT] + p * height * width * size)
            memset(f[OUT] + p * height * width * size, 0, height * width * size)
            for i in range(f[H]):
                g = pointer(f[X] + (p * f[H] + i) * f[W] * size)
                rows = _extent(i, f[SH], f[PH], f[KH], height, f[COUNTS_PADDING])
                for j in range(f[W]):
                    share = quotient(g[j], _divisor(f, rows, j, width))
                    top, left = i * f[SH] - f[PH], j * f[SW] - f[PW]
                    for row in range(max(top, 0), min(top + f[KH], height)):
                        for column in range(max(left, 0), min(left + f[KW], width)):
                            out[row * width + column] += share

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

    @njit(**LOOP)
    def copy(out, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = x[i]

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
            for i in range(longer):
                if i >= low and i < high:
                    continue
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
