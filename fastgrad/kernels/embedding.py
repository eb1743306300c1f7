"""Kernels of embeddings.

Inputs: the table (or the gradient of what was looked up), indices, a factor for each or none. Integers: rows of the
table, elements of a row, padding index or -1, whether this is the transpose of the gradient: then rows at the padding
index are zero, and the factors count. Looking up for its own sake heeds neither.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.framed import Builder, bad_index, fits, given, integer
from fastgrad.native.base.intrinsics import advance, memcpy, memset, words
from fastgrad.native.contracts.element_types import ITEMSIZES
from fastgrad.native.contracts.frames import FRAME_INPUTS, FRAME_NUMELS, FRAME_OUTPUTS


def lookup(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """``out[i] = table[index[i]]``; as transpose of `collect` times the factor, and zero for padding."""
    pointer, itemsize = ELEMENTS[dtype].pointer, ITEMSIZES[dtype]

    @njit(**LOOP)
    def scale(p, width, factor):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] * factor

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        rows, width = integer(f, 0), integer(f, 1)
        n = f[FRAME_NUMELS + 1]
        if not fits(f, 0, rows * width) or (given(f, 2) and not fits(f, 2, n)):
            return
        indices = words(f[FRAME_INPUTS + 1])
        factors = pointer(f[FRAME_INPUTS + 2])
        size = width * itemsize
        for i in range(n):
            k = indices[i]
            if k < 0 or k >= rows:
                bad_index(f, k, rows)
                return
            target = f[FRAME_OUTPUTS] + i * size
            if integer(f, 3) != 0 and k == integer(f, 2):
                memset(target, 0, size)
                continue
            memcpy(target, f[FRAME_INPUTS] + k * size, size)
            if integer(f, 3) != 0 and given(f, 2):
                scale(pointer(target), width, factors[i])

    return run, KERNEL


def collect(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Zeros with each gradient added to the row that its index names, in the order of the indices."""
    pointer, itemsize = ELEMENTS[dtype].pointer, ITEMSIZES[dtype]

    @njit(**LOOP)
    def add(p, g, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] + g[j]

    @njit(**LOOP)
    def add_scaled(p, g, width, factor):  # type: ignore[no-untyped-def]
        for j in range(width):
            p[j] = p[j] + factor * g[j]

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        rows, width = integer(f, 0), integer(f, 1)
        n = f[FRAME_NUMELS + 1]
        if not fits(f, 0, n * width) or (given(f, 2) and not fits(f, 2, n)):
            return
        indices = words(f[FRAME_INPUTS + 1])
        factors = pointer(f[FRAME_INPUTS + 2])
        memset(f[FRAME_OUTPUTS], 0, rows * width * itemsize)
        out, g = pointer(f[FRAME_OUTPUTS]), pointer(f[FRAME_INPUTS])
        for i in range(n):
            k = indices[i]
            if k < 0 or k >= rows:
                bad_index(f, k, rows)
                return
            if k == integer(f, 2):
                continue
            if given(f, 2):
                add_scaled(advance(out, k * width), advance(g, i * width), width, factors[i])
            else:
                add(advance(out, k * width), advance(g, i * width), width)

    return run, KERNEL
