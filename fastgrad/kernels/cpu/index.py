"""Kernels that gather and scatter by indices. They stop at the first index that is out of range, and report it.

Note [Indices that change]: large kernels run without the GIL, and another thread may write to the indices meanwhile.
What was looked at once is no longer true then. So an index is read once, or brought into its range when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.kernels.reports import report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, stack_words, words
from fastgrad.native.contracts.element_types import BOOL
from fastgrad.native.contracts.limits import FRAME_DIMS

_counters = stack_words(FRAME_DIMS)
BLOCK = 128  # elements of which `nonzero` first asks whether there are any


@njit(**LOOP)
def _any_outside(index, stride, n, length):  # type: ignore[no-untyped-def]
    """Whether one of the indices is out of range: then it, or how far it is below the last one, is negative."""
    signs = np.int64(0)
    if stride == 1:
        for j in range(n):
            signs |= index[j] | (length - 1 - index[j])
    else:
        for j in range(n):
            signs |= index[j * stride] | (length - 1 - index[j * stride])
    return signs < 0


@njit(**INLINE)
def _reports_one(f, index, stride, n):  # type: ignore[no-untyped-def]
    """Report the first index that is out of range; false if none is, as another thread has changed it since."""
    for j in range(n):
        k = index[j * stride]
        if k < 0 or k >= f.length:
            report_index(f, k, f.length)
            return True
    return False


def _combining(dtype: int, how: str) -> Callable[..., Any]:
    """What becomes of an element and of one that is scattered to it: NaN stays the largest and the smallest."""
    boolean = dtype == BOOL
    functions: dict[str, Callable[..., Any]] = {
        "set": lambda old, new: new,
        "add": (lambda old, new: old | new) if boolean else (lambda old, new: old + new),
        "mul": (lambda old, new: old & new) if boolean else (lambda old, new: old * new),
        "amax": (
            (lambda old, new: old | new)
            if boolean
            else (lambda old, new: new if new > old or new != new else old)
        ),
        "amin": (
            (lambda old, new: old & new)
            if boolean
            else (lambda old, new: new if new < old or new != new else old)
        ),
    }
    return njit(**INLINE)(functions[how])  # type: ignore[no-any-return]


def _line(dtype: int, how: str) -> Callable[..., None]:
    """The loop over the innermost dimension; reads where it does not say `how` to scatter."""
    scatter = how != ""
    combined = _combining(dtype, how or "set")

    @njit(**INLINE)
    def move(out, o, x, p):  # type: ignore[no-untyped-def]
        if scatter:
            x[p] = combined(x[p], out[o])
        else:
            out[o] = x[p]

    @njit(**LOOP)
    def line(out, x, index, out_stride, x_stride, index_stride, step, n, last):  # type: ignore[no-untyped-def]
        if out_stride == 1 and index_stride == 1 and step == 1 and x_stride == 0:
            for j in range(n):
                move(out, j, x, min(max(index[j], 0), last))  # see Note [Indices that change]
        else:
            for j in range(n):
                k = min(max(index[j * index_stride], 0), last)
                move(out, j * out_stride, x, k * step + j * x_stride)

    return line  # type: ignore[no-any-return]


def _along(dtype: int, how: str) -> Callable[..., None]:
    """Gather from x, or bring to it what `out` then is; the innermost dimension is one loop."""
    pointer, line = ELEMENTS[dtype].pointer, _line(dtype, how)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.gather(frame)
        out, x, index = pointer(f.out), pointer(f.x), words(f.index)
        at = words(_counters())
        last = f.rank - 1
        lines = 1
        for d in range(last):
            at[d] = 0
            lines *= f.sizes[d]
        n, out_stride, x_stride, index_stride = (
            f.sizes[last], f.out_strides[last], f.x_strides[last], f.index_strides[last],
        )  # fmt: skip
        o, p, q = 0, 0, 0
        for _ in range(lines):
            where = advance(index, q)
            if _any_outside(where, index_stride, n, f.length) and _reports_one(f, where, index_stride, n):
                return
            line(
                advance(out, o),
                advance(x, p),
                where,
                out_stride,
                x_stride,
                index_stride,
                f.step,
                n,
                f.length - 1,
            )
            d = last - 1
            while d >= 0:
                at[d] += 1
                o += f.out_strides[d]
                p += f.x_strides[d]
                q += f.index_strides[d]
                if at[d] < f.sizes[d]:
                    break
                at[d] = 0
                o -= f.out_strides[d] * f.sizes[d]
                p -= f.x_strides[d] * f.sizes[d]
                q -= f.index_strides[d] * f.sizes[d]
                d -= 1

    return run


def gather(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, ""), KERNEL


def scatter_add(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, "add"), KERNEL


def scatter_set(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, "set"), KERNEL


def scatter_mul(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, "mul"), KERNEL


def scatter_amax(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, "amax"), KERNEL


def scatter_amin(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, "amin"), KERNEL


@njit(**INLINE)
def _place_of(f, indices, i):  # type: ignore[no-untyped-def]
    """The place in the indexed dimensions that the i-th of all indices say; -1, and a report, if one is outside."""
    least = 0 if f.from_front else -1
    place = 0
    for k in range(f.count):
        size = f.lengths[k]
        value = indices[k * f.n + i]
        if value < least * size or value >= size:
            report_index(f, value, size)
            return -1
        place = place * size + (value + size if value < 0 else value)
    return place


@njit(**INLINE)
def _all_places(f):  # type: ignore[no-untyped-def]
    """How many places there are in the indexed dimensions."""
    places = 1
    for k in range(f.count):
        places *= f.lengths[k]
    return places


@njit(**INLINE)
def _take(out, x, indices, n, size, after):  # type: ignore[no-untyped-def]
    """Read blocks of neighbours at places along one dimension."""
    if after == 1:
        for i in range(n):
            k = indices[i]
            out[i] = x[min(max(k + size if k < 0 else k, 0), size - 1)]  # see Note [Indices that change]
        return
    for i in range(n):
        k = indices[i]
        place = min(max(k + size if k < 0 else k, 0), size - 1)
        for j in range(after):
            out[i * after + j] = x[place * after + j]


def index(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Read x at indices."""
    pointer = ELEMENTS[dtype].pointer

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.index(frame)
        out, x, indices, n, after = pointer(f.out), pointer(f.x), words(f.indices), f.n, f.after
        inner = _all_places(f)
        if f.count == 1:
            for i in range(n):
                if _place_of(f, indices, i) < 0:
                    return
            for b in range(f.before):
                _take(advance(out, b * n * after), advance(x, b * inner * after), indices, n, inner, after)
            return
        for i in range(n):
            place = _place_of(f, indices, i)
            if place < 0:
                return
            for b in range(f.before):
                source, target = (b * inner + place) * after, (b * n + i) * after
                for j in range(after):
                    out[target + j] = x[source + j]

    return run, KERNEL


def index_put(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Put what `out` then is into x at indices, or add it."""
    pointer, boolean = ELEMENTS[dtype].pointer, dtype == BOOL

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.index(frame)
        out, x, indices, n, after = pointer(f.out), pointer(f.x), words(f.indices), f.n, f.after
        inner = _all_places(f)
        for i in range(n):
            place = _place_of(f, indices, i)
            if place < 0:
                return
            for b in range(f.before):
                target, source = (b * inner + place) * after, (b * n + i) * after
                for j in range(after):
                    if not f.accumulate:
                        x[target + j] = out[source + j]
                    elif boolean:
                        x[target + j] = x[target + j] | out[source + j]
                    else:
                        x[target + j] += out[source + j]

    return run, KERNEL


@njit(**INLINE)
def _within(x, begin):  # type: ignore[no-untyped-def]
    """How many of a block are not zero: no more than a byte holds, so that bytes are added."""
    count = np.uint8(0)
    for i in range(begin, begin + BLOCK):
        count = np.uint8(count + np.uint8(x[i] != 0))
    return np.int64(count)


@njit(**LOOP)
def _number(x, n):  # type: ignore[no-untyped-def]
    """How many elements are not zero."""
    count = 0
    whole = n - n % BLOCK
    for begin in range(0, whole, BLOCK):
        count += _within(x, begin)
    for i in range(whole, n):
        count += np.int64(x[i] != 0)
    return count


@njit(**INLINE)
def _collect_some(places, step, x, begin, end, found, room):  # type: ignore[no-untyped-def]
    """Write the places of a few elements behind the `found` first ones; how many there are then."""
    for i in range(begin, end):
        if x[i] != 0 and found < room:
            places[found * step] = i
            found += 1
    return found


@njit(**LOOP)
def _collect(places, step, x, n, room):  # type: ignore[no-untyped-def]
    """Write the places of what is not zero, a `step` apart; zeros where another thread left less than there is room."""
    found = 0
    whole = n - n % BLOCK
    for begin in range(0, whole, BLOCK):
        if _within(x, begin) == 0:
            continue
        if found + BLOCK <= room:  # for each there is a place, which the next one takes over
            for i in range(begin, begin + BLOCK):
                places[found * step] = i
                found += np.int64(x[i] != 0)
        else:
            found = _collect_some(places, step, x, begin, begin + BLOCK, found, room)
    for k in range(_collect_some(places, step, x, whole, n, found, room), room):
        places[k * step] = 0


@njit(**LOOP)
def _take_apart(places, step, apart, found, rank, sizes):  # type: ignore[no-untyped-def]
    """Places as numbers for each dimension, `apart` from each other."""
    for k in range(found):
        rest = places[k * step]
        for d in range(rank - 1, -1, -1):
            places[k * step + d * apart] = rest % sizes[d]
            rest //= sizes[d]


def nonzero(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The places of what is not zero, no more than there is room for; without room their number."""
    pointer = ELEMENTS[dtype].pointer

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.nonzero(frame)
        x = pointer(f.x)
        if f.places == 0:
            words(f.count)[0] = _number(x, f.n)
            return
        step, apart = (f.rank, 1) if f.by_rows else (1, f.found)
        _collect(words(f.places), step, x, f.n, f.found)
        if f.rank > 1:
            _take_apart(words(f.places), step, apart, f.found, f.rank, f.sizes)

    return run, KERNEL
