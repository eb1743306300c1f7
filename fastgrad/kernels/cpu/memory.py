"""Kernels that move or set bytes: zeros, constants, transfers, triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import float_of, memcpy, memset
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
