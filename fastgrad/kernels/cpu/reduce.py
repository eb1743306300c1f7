"""Kernels of reductions over any dimensions.

Note [Order of sums]: a sum runs over blocks of at most 512 contiguous elements, added in vector lanes, and the
blocks are added in float64. The order depends on sizes and strides alone, never on threads. Where the kept dimension
is the contiguous one, eight rows are added at a time, element by element, onto float64 partial sums. What is reduced
to few numbers, or many rows of columns, arrives in equal blocks (`shapes.reductions`), whose results are reduced in
turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, SUM, Element, accumulator
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, f64s, stack_scratch, stack_words, words
from fastgrad.native.contracts.element_types import COMPLEX, FLOAT32, FLOAT64
from fastgrad.native.contracts.limits import FRAME_DIMS

BLOCK = 512
COLUMNS = 512  # pieces of rows that the prefetcher follows, and whose float64 sums stay in the cache
_columns = stack_scratch(COLUMNS)
_counters = stack_words(2 * FRAME_DIMS)
_sqrt = ELEMENTS[FLOAT64].math.sqrt


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The kernel of a reduction for one dtype."""
    name = kernel.options["reduction"]
    element, result = ELEMENTS[dtype], ELEMENTS[kernel.frame().element("out", dtype)]
    if name in ("sum", "mean", "length"):
        return _sums(element, result, dtype in (FLOAT32, FLOAT64), name, dtype in COMPLEX), KERNEL
    if name in ("amax", "amin"):
        better = element.math.maximum if name == "amax" else element.math.minimum
        return _folds(element, result, None, better), KERNEL
    if name == "any":
        return _folds(element, result, _false, _either), KERNEL
    return _folds(element, result, _true, _both), KERNEL


# --- combining -------------------------------------------------------------------------------------------------


@njit(**INLINE)
def _false(x):  # type: ignore[no-untyped-def]
    return False


@njit(**INLINE)
def _true(x):  # type: ignore[no-untyped-def]
    return True


@njit(**INLINE)
def _either(a, b):  # type: ignore[no-untyped-def]
    return a | (b != 0)


@njit(**INLINE)
def _both(a, b):  # type: ignore[no-untyped-def]
    return a & (b != 0)


@njit(**INLINE)
def step_from(dims, at, d):  # type: ignore[no-untyped-def]
    """Advance an odometer over dimensions from the d-th on; returns the change of the offset."""
    delta = 0
    while d < dims.rank:
        at[d] += 1
        delta += dims.strides[d]
        if at[d] < dims.sizes[d]:
            return delta
        delta -= dims.strides[d] * dims.sizes[d]
        at[d] = 0
        d += 1
    return delta


@njit(**INLINE)
def step(dims, at):  # type: ignore[no-untyped-def]
    return step_from(dims, at, 0)


@njit(**INLINE)
def step_outer(dims, at):  # type: ignore[no-untyped-def]
    """Like `step`, leaving out the innermost dimension."""
    return step_from(dims, at, 1)


@njit(**INLINE)
def clear(at):  # type: ignore[no-untyped-def]
    for d in range(2 * FRAME_DIMS):
        at[d] = 0


# --- sums ------------------------------------------------------------------------------------------------------


def _term(element: Element, squared: bool) -> Any:
    """What is added for an element in memory."""
    load = element.load

    def term(p, i):  # type: ignore[no-untyped-def]
        value = load(p, i)
        return value * value if squared else value

    return njit(**INLINE)(term)


def _finishing(name: str) -> Any:
    """What a sum of so many terms becomes."""

    def finish(total, count):  # type: ignore[no-untyped-def]
        if name == "length":
            return _sqrt(total)
        return total / count if name == "mean" else total

    return njit(**INLINE)(finish)


def _block_sum(element: Element, load: Any, wide: Any) -> Any:
    if wide is None:  # float32 and float64, and pairs of them: lanes in the dtype itself
        constant = element.constant

        def block(p, n, stride):  # type: ignore[no-untyped-def]
            total = constant(0)
            if stride == 1:
                for i in range(n):
                    total += load(p, i)
            else:
                for i in range(n):
                    total += load(p, i * stride)
            return total

        return njit(**SUM)(block)

    def integers(p, n, stride):  # type: ignore[no-untyped-def]
        total = np.int64(0)
        for i in range(n):
            total += np.int64(load(p, i * stride))
        return total

    return njit(**SUM)(integers)


def _sums(
    element: Element, result: Element, floating: bool, name: str, pairs: bool = False
) -> Callable[..., None]:
    load, finish = _term(element, name == "length"), _finishing(name)
    block = _block_sum(element, load, None if floating or pairs else types.int64)
    pointer, pointer_out, store = element.pointer, result.pointer, result.store
    wide = accumulator(element)

    @njit(**KERNEL)
    def one(f, x, at):  # type: ignore[no-untyped-def]
        total = wide(0)
        clear(at)
        n = f.gone.sizes[0]
        stride = f.gone.strides[0]
        rows = f.count // n if n > 0 else 0
        offset = 0
        for _ in range(rows):
            at_block = 0
            while at_block < n:
                count = min(BLOCK, n - at_block)
                total += block(advance(x, offset + at_block * stride), count, stride)
                at_block += BLOCK
            offset += step_outer(f.gone, at)
        return total

    @njit(**KERNEL)
    def columns(f, x, sums, width, at):  # type: ignore[no-untyped-def]
        for j in range(width):
            sums[j] = 0.0
        clear(at)
        n = f.gone.sizes[0]
        stride = f.gone.strides[0]
        rows = f.count // n if n > 0 else 0
        offset = 0
        for _ in range(rows):
            i = 0
            while i + 8 <= n:
                p = advance(x, offset + i * stride)
                for j in range(width):
                    a = (load(p, j) + load(p, j + stride)) + (
                        load(p, j + 2 * stride) + load(p, j + 3 * stride)
                    )
                    b = (load(p, j + 4 * stride) + load(p, j + 5 * stride)) + (
                        load(p, j + 6 * stride) + load(p, j + 7 * stride)
                    )
                    sums[j] += np.float64(a + b)
                i += 8
            while i < n:
                p = advance(x, offset + i * stride)
                for j in range(width):
                    sums[j] += np.float64(load(p, j))
                i += 1
            offset += step_outer(f.gone, at)

    def kernel(frame):  # type: ignore[no-untyped-def]
        f = frames.reduction(frame)
        out = pointer_out(f.out)
        x = pointer(f.x)
        at = words(_counters())
        inner = words(_counters())
        clear(at)
        count = np.float64(f.count)
        offset = 0
        if floating and f.kept.strides[0] == 1 and f.gone.strides[0] != 1 and f.kept.sizes[0] > 1:
            sums = f64s(_columns())
            n = f.kept.sizes[0]
            rows = f.results // n
            for row in range(rows):
                j = 0
                while j < n:
                    width = min(COLUMNS, n - j)
                    columns(f, advance(x, offset + j), sums, width, inner)
                    for k in range(width):
                        store(out, row * n + j + k, finish(sums[k], count))
                    j += COLUMNS
                offset += step_outer(f.kept, at)
            return
        for k in range(f.results):
            store(out, k, finish(one(f, advance(x, offset), inner), count))
            offset += step(f.kept, at)

    return kernel


# --- folds -----------------------------------------------------------------------------------------------------


def _folds(element: Element, result: Element, first: Any, combine: Any) -> Callable[..., None]:
    """A reduction by `combine`, from `first` or, where there is none, from the first element."""
    pointer, pointer_out, load, store = element.pointer, result.pointer, element.load, result.store
    from_element = first is None
    start = first if first is not None else _false

    @njit(**KERNEL)
    def run(x, n, stride, value):  # type: ignore[no-untyped-def]
        if stride == 1:
            for i in range(n):
                value = combine(value, load(x, i))
        else:
            for i in range(n):
                value = combine(value, load(x, i * stride))
        return value

    def kernel(frame):  # type: ignore[no-untyped-def]
        f = frames.reduction(frame)
        out = pointer_out(f.out)
        x = pointer(f.x)
        at = words(_counters())
        inner = words(_counters())
        clear(at)
        n = f.gone.sizes[0]
        stride = f.gone.strides[0]
        rows = f.count // n if n > 0 else 0
        offset = 0
        for k in range(f.results):
            clear(inner)
            value = load(x, offset) if from_element else start(load(x, 0))
            place = offset
            for _ in range(rows):
                value = run(advance(x, place), n, stride, value)
                place += step_outer(f.gone, inner)
            store(out, k, value)
            offset += step(f.kept, at)

    return kernel
