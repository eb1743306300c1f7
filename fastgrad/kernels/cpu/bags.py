"""Kernels of bags of rows: their sums, the ways back to the table and to the factors, and where maxima are."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.kernels.reports import Builder, has_steps, report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, memset, words
from fastgrad.native.contracts.element_types import ITEMSIZES


@njit(**INLINE)
def _is_bag(f, bounds, b, n):  # type: ignore[no-untyped-def]
    """Whether the bounds of a bag lie among the indices; if not, that is reported."""
    begin, end = bounds[2 * b], bounds[2 * b + 1]
    if begin < 0 or begin > n:
        report_index(f, begin, n + 1)
        return False
    if end < begin or end > n:
        report_index(f, end, n + 1)
        return False
    return True


def _share(dtype: int) -> Any:
    """``share(f, indices, begin, end)``: what every row of a bag is multiplied by."""
    constant = ELEMENTS[dtype].constant

    @njit(**KERNEL)
    def share(f, indices, begin, end):  # type: ignore[no-untyped-def]
        if f.mean == 0:
            return constant(1)
        count = 0
        for i in range(begin, end):
            count += 1 if indices[i] != f.padding else 0
        return constant(1) / constant(max(count, 1))

    return share


def _factor(dtype: int) -> Any:
    """``factor(f, factors, scales, scaled, i)``: what the row of an index is multiplied by."""
    one = ELEMENTS[dtype].constant(1)

    @njit(**INLINE)
    def factor(f, factors, scales, scaled, i):  # type: ignore[no-untyped-def]
        value = factors[i] if f.factors.data != 0 else one
        return value * scales[i] if scaled else value

    return factor


def _add_scaled() -> Any:
    @njit(**LOOP)
    def add_scaled(p, row, width, factor):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] + factor * row[j]

    return add_scaled


def lookup(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The sum of each bag's rows, times their factors."""
    pointer, itemsize = ELEMENTS[dtype].pointer, ITEMSIZES[dtype]
    share, factor, add_scaled, one = _share(dtype), _factor(dtype), _add_scaled(), ELEMENTS[dtype].constant(1)

    @njit(**LOOP)
    def add(p, row, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] + row[j]

    @njit(**LOOP)
    def scale(p, width, factor):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] * factor

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.bag(frame)
        rows, width, n = f.rows, f.width, f.indices.numel
        indices, bounds = words(f.indices.data), words(f.bounds.data)
        table, factors, scales = pointer(f.table.data), pointer(f.factors.data), pointer(f.scales.data)
        scaled = f.scaled != 0 and f.scales.data != 0
        plain = f.factors.data == 0 and not scaled
        if not has_steps(f, f.bags):
            return
        for b in range(f.first, f.first + f.count):
            if not _is_bag(f, bounds, b, n):
                return
            begin, end = bounds[2 * b], bounds[2 * b + 1]
            out = advance(pointer(f.out), b * width)
            memset(f.out + b * width * itemsize, 0, width * itemsize)
            for i in range(begin, end):
                k = indices[i]
                if k < 0 or k >= rows:
                    report_index(f, k, rows)
                    return
                if k == f.padding:
                    continue
                if plain:
                    add(out, advance(table, k * width), width)
                else:
                    add_scaled(out, advance(table, k * width), width, factor(f, factors, scales, scaled, i))
            part = share(f, indices, begin, end)
            if part != one:
                scale(out, width, part)

    return run, KERNEL


def collect(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """To zeros, the gradient of each bag added to its rows, times their factors: some of the columns."""
    pointer = ELEMENTS[dtype].pointer
    share, factor, add_scaled = _share(dtype), _factor(dtype), _add_scaled()

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.bag_table(frame)
        rows, width, n, columns = f.rows, f.width, f.indices.numel, f.count
        indices, bounds = words(f.indices.data), words(f.bounds.data)
        factors, scales = pointer(f.factors.data), pointer(f.scales.data)
        if not has_steps(f, width):
            return
        out, grad = advance(pointer(f.out), f.first), advance(pointer(f.grad.data), f.first)
        for b in range(f.bags):
            if not _is_bag(f, bounds, b, n):
                return
            begin, end = bounds[2 * b], bounds[2 * b + 1]
            part = share(f, indices, begin, end)
            for i in range(begin, end):
                k = indices[i]
                if k < 0 or k >= rows:
                    report_index(f, k, rows)
                    return
                if k != f.padding:
                    by = part * factor(f, factors, scales, f.scales.data != 0, i)
                    add_scaled(advance(out, k * width), advance(grad, b * width), columns, by)

    return run, KERNEL


def to_factors(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The products of gradients of bags and their rows; 0 for indices that are in no bag."""
    pointer, itemsize, zero = ELEMENTS[dtype].pointer, ITEMSIZES[dtype], ELEMENTS[dtype].constant(0)

    @njit(**{**LOOP, "fastmath": {"contract", "reassoc", "nsz"}})
    def dot(a, b, width):  # type: ignore[no-untyped-def]
        total = zero
        for j in range(width):
            total += a[j] * b[j]
        return total

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.bag_factors(frame)
        rows, width, n = f.rows, f.width, f.indices.numel
        indices, bounds, scales = words(f.indices.data), words(f.bounds.data), pointer(f.scales.data)
        table, grad, out = pointer(f.table.data), pointer(f.grad.data), pointer(f.out)
        memset(f.out, 0, n * itemsize)
        for b in range(f.bags):
            if not _is_bag(f, bounds, b, n):
                return
            for i in range(bounds[2 * b], bounds[2 * b + 1]):
                k = indices[i]
                if k < 0 or k >= rows:
                    report_index(f, k, rows)
                    return
                if k != f.padding:
                    value = dot(advance(grad, b * width), advance(table, k * width), width)
                    out[i] = value * scales[i] if f.scales.data != 0 else value

    return run, KERNEL


def maxima(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The row in which the largest element of each bag and column stands, the first of equal ones; -1 of empty bags."""
    pointer = ELEMENTS[dtype].pointer

    @njit(**KERNEL)
    def compare(out, table, k, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            best, value = table[out[j] * width + j], table[k * width + j]
            if value > best:  # as in PyTorch, where a NaN is no maximum
                out[j] = k

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.bag_maxima(frame)
        rows, width, n = f.rows, f.width, f.indices.numel
        indices, bounds, table = words(f.indices.data), words(f.bounds.data), pointer(f.table.data)
        if not has_steps(f, f.bags):
            return
        for b in range(f.first, f.first + f.count):
            if not _is_bag(f, bounds, b, n):
                return
            out, found = advance(words(f.out), b * width), False
            for j in range(width):
                out[j] = -1
            for i in range(bounds[2 * b], bounds[2 * b + 1]):
                k = indices[i]
                if k < 0 or k >= rows:
                    report_index(f, k, rows)
                    return
                if k == f.padding:
                    continue
                if found:
                    compare(out, table, k, width)
                else:
                    for j in range(width):
                        out[j] = k
                    found = True

    return run, KERNEL
