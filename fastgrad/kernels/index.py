"""Kernels that gather and scatter by indices. A bad index sets the status word and is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL
from fastgrad.native.base.intrinsics import _stack_words, words
from fastgrad.native.contracts.element_types import BOOL
from fastgrad.native.contracts.limits import MAX_DIMS

_counters = _stack_words(MAX_DIMS)


@njit(**INLINE)
def report(status, index, size):  # type: ignore[no-untyped-def]
    """Say that an index is out of range: status, index, size."""
    word = words(status)
    word[0] = 1
    word[1] = index
    word[2] = size


def _along(dtype: int, scatter: bool) -> Callable[..., None]:
    """gather: out, x, index; rank, sizes and strides of out, x and index; length of the dimension; it; status.

    scatter_add: the same with the source in the place of out; x is written.
    """
    element = ELEMENTS[dtype]
    pointer = element.pointer
    boolean = dtype == BOOL

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        out = pointer(f[0])
        x = pointer(f[1])
        index = words(f[2])
        at = words(_counters())
        rank = f[3]
        total = 1
        for d in range(rank):
            at[d] = 0
            total *= f[4 + d]
        length = f[4 + 4 * MAX_DIMS]
        dim = f[5 + 4 * MAX_DIMS]
        for _ in range(total):
            o = 0
            p = 0
            q = 0
            for d in range(rank):
                o += at[d] * f[4 + MAX_DIMS + d]
                q += at[d] * f[4 + 3 * MAX_DIMS + d]
                if d != dim:
                    p += at[d] * f[4 + 2 * MAX_DIMS + d]
            k = index[q]
            if k < 0 or k >= length:
                report(f[6 + 4 * MAX_DIMS], k, length)
                return
            if rank > 0:
                p += k * f[4 + 2 * MAX_DIMS + dim]
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
                if at[d] < f[4 + d]:
                    break
                at[d] = 0
                d -= 1

    return run


def gather(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, False), KERNEL


def scatter_add(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    return _along(dtype, True), KERNEL


def _indexed(dtype: int, put: bool) -> Callable[..., None]:
    """out (or values), x, indices one after the other; how many, elements of each; elements before and after

    the indexed dimensions; whether to add; lengths of the indexed dimensions; status. Everything is contiguous.
    """
    element = ELEMENTS[dtype]
    pointer = element.pointer
    boolean = dtype == BOOL

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        out = pointer(f[0])
        x = pointer(f[1])
        indices = words(f[2])
        count = f[3]
        n = f[4]
        before = f[5]
        after = f[6]
        inner = 1
        for k in range(count):
            inner *= f[8 + k]
        for i in range(n):
            place = 0
            for k in range(count):
                size = f[8 + k]
                value = indices[k * n + i]
                if value < -size or value >= size:
                    report(f[8 + MAX_DIMS], value, size)
                    return
                if value < 0:
                    value += size
                place = place * size + value
            for b in range(before):
                source = (b * inner + place) * after
                target = (b * n + i) * after
                if put:
                    if f[7]:
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
