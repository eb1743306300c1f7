"""Kernels of the negative log likelihood.

Frame: loss (or its gradient), total weight, x (or its gradient), targets, weights or 0, rows, classes, strides of
x, reduction (0 none, 1 mean, 2 sum), ignore_index, status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL
from fastgrad.kernels.index import report
from fastgrad.native.base.intrinsics import words

MEAN = 1


def nll(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """``-w[y] * x[y]``, each, summed, or summed and divided by the total weight."""
    element = ELEMENTS[dtype]
    pointer, cast = element.pointer, element.constant
    zero, one = cast(0), cast(1)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        loss = pointer(f[0])
        x = pointer(f[2])
        targets = words(f[3])
        weights = pointer(f[4])
        total = np.float64(0)
        weight_sum = np.float64(0)
        for i in range(f[5]):
            y = targets[i]
            if y == f[10]:
                if f[9] == 0:
                    loss[i] = zero
                continue
            if y < 0 or y >= f[6]:
                report(f[11], y, f[6])
                return
            w = weights[y] if f[4] != 0 else one
            value = -w * x[i * f[7] + y * f[8]]
            if f[9] == 0:
                loss[i] = value
            total += value
            weight_sum += w
        pointer(f[1])[0] = cast(weight_sum)
        if f[9] != 0:
            loss[0] = cast(total / weight_sum if f[9] == MEAN else total)

    return run, KERNEL


def nll_backward(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """``-w[y] * g`` at the targets of a gradient that is zero before."""
    element = ELEMENTS[dtype]
    pointer, one = element.pointer, element.constant(1)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        g = pointer(f[0])
        x = pointer(f[2])
        targets = words(f[3])
        weights = pointer(f[4])
        scale = one
        if f[9] == MEAN:
            scale = one / pointer(f[1])[0]
        for i in range(f[5]):
            y = targets[i]
            if y == f[10]:
                continue
            if y < 0 or y >= f[6]:
                report(f[11], y, f[6])
                return
            w = weights[y] if f[4] != 0 else one
            x[i * f[7] + y * f[8]] = -w * scale * (g[i] if f[9] == 0 else g[0])

    return run, KERNEL
