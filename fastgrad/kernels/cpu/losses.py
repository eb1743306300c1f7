"""Kernels of the negative log likelihood, and of probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.kernels.reports import report_index, report_no_probability
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, words
from fastgrad.native.contracts.frames.losses import EACH, MEAN


@njit(**INLINE)
def place(f, i):  # type: ignore[no-untyped-def]
    """Where the i-th target's classes begin; most rows have one place."""
    if f.inner == 1:
        return i * f.row_stride
    return i // f.inner * f.row_stride + i % f.inner * f.inner_stride


def nll(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """``-w[y] * x[y]``, each, summed, or summed and divided by the total weight."""
    element = ELEMENTS[dtype]
    pointer, cast = element.pointer, element.constant
    zero, one = cast(0), cast(1)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.nll(frame)
        loss = pointer(f.loss)
        x = pointer(f.x)
        targets = words(f.targets)
        weights = pointer(f.weights)
        total = np.float64(0)
        weight_sum = np.float64(0)
        for i in range(f.rows * f.inner):
            y = targets[i]
            if y == f.ignore_index:
                if f.reduction == EACH:
                    loss[i] = zero
                continue
            if y < 0 or y >= f.classes:
                report_index(f, y, f.classes)
                return
            w = weights[y] if f.weights != 0 else one
            value = -w * x[place(f, i) + y * f.class_stride]
            if f.reduction == EACH:
                loss[i] = value
            total += value
            weight_sum += w
        pointer(f.total)[0] = cast(weight_sum)
        if f.reduction != EACH:
            loss[0] = cast(total / weight_sum if f.reduction == MEAN else total)

    return run, KERNEL


def nll_backward(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """``-w[y] * g`` at the targets of each row, which is filled with zeros while it is close."""
    element = ELEMENTS[dtype]
    pointer, zero, one = element.pointer, element.constant(0), element.constant(1)

    @njit(**LOOP)
    def clear(x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            x[i] = zero

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.nll(frame)
        g = pointer(f.loss)
        x = pointer(f.x)
        targets = words(f.targets)
        weights = pointer(f.weights)
        scale = one
        if f.reduction == MEAN:
            scale = one / pointer(f.total)[0]
        for i in range(f.rows * f.inner):
            if i % f.inner == 0:
                clear(advance(x, place(f, i)), f.classes * f.inner)
            y = targets[i]
            if y == f.ignore_index:
                continue
            if y < 0 or y >= f.classes:
                report_index(f, y, f.classes)
                return
            w = weights[y] if f.weights != 0 else one
            x[place(f, i) + y * f.class_stride] = -w * scale * (g[i] if f.reduction == EACH else g[0])

    return run, KERNEL


def probabilities(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Report if an element does not lie in [0, 1]."""
    element = ELEMENTS[dtype]
    pointer, cast = element.pointer, element.constant
    zero, one = cast(0), cast(1)

    @njit(**LOOP)
    def fitting(x, n):  # type: ignore[no-untyped-def]
        count = 0
        for i in range(n):
            count += np.int64(x[i] >= zero) & np.int64(x[i] <= one)
        return count

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.probabilities(frame)
        if fitting(pointer(f.x), f.n) != f.n:
            report_no_probability(f)

    return run, KERNEL
