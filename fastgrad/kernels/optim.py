"""Kernels of optimizer steps: one pass over a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.native.intrinsics import float_of, words

NESTEROV, MAXIMIZE, FIRST = 1, 2, 4


def sgd(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """Stochastic gradient descent.

    Frame: n, parameter, gradient, momentum buffer or 0, lr, momentum, dampening, weight decay, flags.
    """
    element = ELEMENTS[dtype]
    pointer, cast = element.pointer, element.constant

    @njit(**LOOP)
    def plain(p, g, n, lr, decay):  # type: ignore[no-untyped-def]
        for i in range(n):
            p[i] = p[i] - lr * (g[i] + decay * p[i])

    @njit(**LOOP)
    def simplest(p, g, n, lr):  # type: ignore[no-untyped-def]
        for i in range(n):
            p[i] = p[i] - lr * g[i]

    @njit(**LOOP)
    def heavy(p, g, b, n, lr, momentum, keep, decay, sign, first, nesterov):  # type: ignore[no-untyped-def]
        for i in range(n):
            d = sign * g[i] + decay * p[i]
            v = d if first else momentum * b[i] + keep * d
            b[i] = v
            p[i] = p[i] - lr * (d + momentum * v if nesterov else v)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        p = pointer(f[1])
        g = pointer(f[2])
        lr = cast(float_of(f[4]))
        decay = cast(float_of(f[7]))
        maximize = f[8] & MAXIMIZE != 0
        if f[3] == 0:
            if maximize:
                plain(p, g, f[0], -lr, -decay)
            elif f[7] == 0:
                simplest(p, g, f[0], lr)
            else:
                plain(p, g, f[0], lr, decay)
            return
        sign = cast(-1) if maximize else cast(1)
        keep = cast(1.0 - float_of(f[6]))
        heavy(
            p,
            g,
            pointer(f[3]),
            f[0],
            lr,
            cast(float_of(f[5])),
            keep,
            decay,
            sign,
            f[8] & FIRST != 0,
            f[8] & NESTEROV != 0,
        )

    return run, KERNEL
