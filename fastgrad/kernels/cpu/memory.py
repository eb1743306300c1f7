"""Kernels that move or set bytes: zeros, constants, transfers, triangles and their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, float_of, memcpy, memset
from fastgrad.native.contracts.element_types import INEXACT


def zero(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Set bytes to zero."""

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.zero(frame)
        memset(f.out, 0, f.nbytes)

    return run, KERNEL


def transfer(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Copy bytes."""

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.transfer(frame)
        memcpy(f.out, f.x, f.nbytes)

    return run, KERNEL


def constant(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Set all elements to one number."""
    element = ELEMENTS[dtype]
    store, pointer = element.store, element.pointer
    floating = dtype in INEXACT

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.constant(frame)
        out = pointer(f.out)
        for i in range(f.n):
            store(out, i, float_of(f.value) if floating else f.value)

    return run, KERNEL


def triangle(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Keep a triangle of each matrix."""
    element = ELEMENTS[dtype]
    pointer, zero_value = element.pointer, 0
    upper = 1 if kernel.options["upper"] else 0

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.triangle(frame)
        out = pointer(f.out)
        x = pointer(f.x)
        at = 0
        for _ in range(f.matrices):
            for i in range(f.rows):
                for j in range(f.columns):
                    inside = j - i >= f.diagonal if upper else j - i <= f.diagonal
                    if inside:
                        out[at] = x[at]
                    else:
                        out[at] = zero_value
                    at += 1

    return run, KERNEL


def triangle_places(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The rows, then the columns of the places in a triangle."""
    element = ELEMENTS[dtype]
    pointer, store = element.pointer, element.store

    @njit(**LOOP)
    def fill(rows, columns, n, row, first):  # type: ignore[no-untyped-def]
        for j in range(n):
            store(rows, j, row)
            store(columns, j, first + j)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.triangle_places(frame)
        half = f.n // 2
        rows = pointer(f.out)
        columns = advance(rows, half)
        row, done = 0 if f.upper else max(-f.diagonal, 0), 0
        while done < half:
            first = max(row + f.diagonal, 0) if f.upper else 0
            end = f.columns if f.upper else min(row + f.diagonal + 1, f.columns)
            n = min(end - first, half - done)
            if n <= 0:
                return  # no further row has a place
            fill(advance(rows, done), advance(columns, done), n, row, first)
            done += n
            row += 1

    return run, KERNEL
