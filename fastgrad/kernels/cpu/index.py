"""Kernels that gather and scatter by indices. They stop at the first index that is out of range, and report it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL
from fastgrad.kernels.reports import report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import _stack_words, words
from fastgrad.native.contracts.element_types import BOOL
from fastgrad.native.contracts.limits import MAX_DIMS

_counters = _stack_words(MAX_DIMS)


def _along(dtype: int, scatter: bool) -> Callable[..., None]:
    """Gather from x, or add to it what `out` then is."""
    element = ELEMENTS[dtype]
    pointer = element.pointer
    boolean = dtype == BOOL

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.gather(frame)
        out = pointer(f.out)
        x = pointer(f.x)
        index = words(f.index)
        at = words(_counters())
        rank = f.rank
        total = 1
        for d in range(rank):
            at[d] = 0
            total *= f.sizes[d]
        length = f.length
        dim = f.dim
        for _ in range(total):
            o = 0
            p = 0
            q = 0
            for d in range(rank):
                o += at[d] * f.out_strides[d]
                q += at[d] * f.index_strides[d]
                if d != dim:
                    p += at[d] * f.x_strides[d]
            k = index[q]
            if k < 0 or k >= length:
                report_index(f, k, length)
                return
            if rank > 0:
                p += k * f.x_strides[dim]
            if scatter:
                if boolean:
                    x[p] = x[p] | out[o]
                else:
                    x[p] += out[o]
            else:
                out[o] = x[p]
            d = rank - 1
            while d >= 0:
                at[d] += 1
                if at[d] < f.sizes[d]:
                    break
                at[d] = 0
                d -= 1

    return run


def gather(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, False), KERNEL


def scatter_add(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, True), KERNEL


def _indexed(dtype: int, put: bool) -> Callable[..., None]:
    """Read x at indices, or put there what `out` then is, or add it."""
    element = ELEMENTS[dtype]
    pointer = element.pointer
    boolean = dtype == BOOL

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.index(frame)
        out = pointer(f.out)
        x = pointer(f.x)
        indices = words(f.indices)
        count = f.count
        n = f.n
        before = f.before
        after = f.after
        inner = 1
        for k in range(count):
            inner *= f.lengths[k]
        for i in range(n):
            place = 0
            for k in range(count):
                size = f.lengths[k]
                value = indices[k * n + i]
                if value < -size or value >= size:
                    report_index(f, value, size)
                    return
                if value < 0:
                    value += size
                place = place * size + value
            for b in range(before):
                source = (b * inner + place) * after
                target = (b * n + i) * after
                if put:
                    if f.accumulate:
                        for j in range(after):
                            if boolean:
                                x[source + j] = x[source + j] | out[target + j]
                            else:
                                x[source + j] += out[target + j]
                    else:
                        for j in range(after):
                            x[source + j] = out[target + j]
                else:
                    for j in range(after):
                        out[target + j] = x[source + j]

    return run


def index(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _indexed(dtype, False), KERNEL


def index_put(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _indexed(dtype, True), KERNEL
