"""Kernels of embeddings."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.reports import Builder, report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, memcpy, memset, words
from fastgrad.native.contracts.element_types import ITEMSIZES


def lookup(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """``out[i] = table[index[i]]``; as transpose of `collect` times the factor, and zero for padding."""
    pointer, itemsize = ELEMENTS[dtype].pointer, ITEMSIZES[dtype]

    @njit(**LOOP)
    def scale(p, width, factor):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] * factor

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.embedding(frame)
        rows, width = f.rows, f.width
        n = f.indices.numel
        weighted = f.factors.data != 0
        indices = words(f.indices.data)
        factors = pointer(f.factors.data)
        size = width * itemsize
        for i in range(n):
            k = indices[i]
            if k < 0 or k >= rows:
                report_index(f, k, rows)
                return
            target = f.out + i * size
            if f.transposed != 0 and k == f.padding:
                memset(target, 0, size)
                continue
            memcpy(target, f.table.data + k * size, size)
            if f.transposed != 0 and weighted:
                scale(pointer(target), width, factors[i])

    return run, KERNEL


def collect(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """To zeros, each gradient added to the row that its index names, in the order of the indices.

    That is done for some of the columns.
    """
    pointer = ELEMENTS[dtype].pointer

    @njit(**LOOP)
    def add(p, g, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] + g[j]

    @njit(**LOOP)
    def add_scaled(p, g, width, factor):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] + factor * g[j]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.embedding_backward(frame)
        rows, width, columns = f.rows, f.width, f.columns
        n = f.indices.numel
        weighted = f.factors.data != 0
        indices = words(f.indices.data)
        factors = pointer(f.factors.data)
        if f.first < 0 or columns < 0 or f.first > width - columns:
            report_index(f, f.first, width - columns + 1)
            return
        out, g = advance(pointer(f.out), f.first), advance(pointer(f.grad.data), f.first)
        for i in range(n):
            k = indices[i]
            if k < 0 or k >= rows:
                report_index(f, k, rows)
                return
            if k == f.padding:
                continue
            if weighted:
                add_scaled(advance(out, k * width), advance(g, i * width), columns, factors[i])
            else:
                add(advance(out, k * width), advance(g, i * width), columns)

    return run, KERNEL
