"""Kernels that move bytes: filling with zeros, triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL
from fastgrad.native.base.intrinsics import memset, words


def zero(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Set bytes to zero. Frame: address, number of bytes."""

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        memset(f[0], 0, f[1])

    return run, KERNEL


def triangle(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Keep a triangle of each matrix. Frame: out, in, matrices, rows, columns, diagonal."""
    element = ELEMENTS[dtype]
    pointer, zero_value = element.pointer, 0
    upper = 1 if kernel.options["upper"] else 0

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        out = pointer(f[0])
        x = pointer(f[1])
        at = 0
        for _ in range(f[2]):
            for i in range(f[3]):
                for j in range(f[4]):
                    inside = j - i >= f[5] if upper else j - i <= f[5]
                    if inside:
                        out[at] = x[at]
                    else:
                        out[at] = zero_value
                    at += 1

    return run, KERNEL
