"""Convolutions: three kernels that read one frame.

A convolution ties three tensors together, x (N, C, H, W), w (O, C / groups, KH, KW) and y (N, O, OH, OW)::

    y[n, o, i, j] = sum over c, k, l of w[o, c, k, l] * x[n, c, i * SH - PH + k * DH, j * SW - PW + l * DW]

with zeros outside of x. `forward` computes y; `backward_input` and `backward_weight` are its transposes, which compute
x or w of the two others.

What has stride 1 is computed where it lies, by `conv_direct`; the rest as matrix products of the weights with columns,
the matrix (C / groups * KH * KW, OH * OW) of all that each weight meets.

The frame is described in `conv_frame`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.conv_direct import correlation, weight_correlation
from fastgrad.kernels.conv_frame import (
    BIAS,
    BYTES,
    DH,
    DW,
    GROUPS,
    KH,
    KW,
    OH,
    OW,
    PH,
    PW,
    SCRATCH,
    SH,
    SW,
    WEIGHT,
    C,
    H,
    N,
    O,
    W,
    X,
    Y,
)  # fmt: skip
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.kernels.gemm import matrix_product
from fastgrad.kernels.pool import inside
from fastgrad.native.base.intrinsics import advance, words


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """One of the three for one dtype."""
    return _MAKERS[kernel.options["computes"]](dtype), KERNEL


# --- pieces ----------------------------------------------------------------------------------------------------


@njit(**KERNEL)
def _is_product(f):  # type: ignore[no-untyped-def]
    """Whether each weight meets the whole image as it is: its columns are the image."""
    small = f[KH] * f[KW] == 1 and f[SH] * f[SW] == 1 and f[PH] + f[PW] == 0
    return small and f[OH] == f[H] and f[OW] == f[W]


@njit(**KERNEL)
def _columns_wanted(f, size):  # type: ignore[no-untyped-def]
    """Bytes of the columns of one image and group."""
    if _is_product(f):
        return 0
    return f[C] // f[GROUPS] * f[KH] * f[KW] * f[OH] * f[OW] * size


def _filler(element: Element) -> Any:
    pointer, zero = element.pointer, element.constant(0)

    def fill(out, bias, channels, size):  # type: ignore[no-untyped-def]
        for c in range(channels):
            value = pointer(bias)[c] if bias != 0 else zero
            for i in range(size):
                out[c * size + i] = value

    return njit(**KERNEL)(fill)


def _walker(row: Any) -> Any:
    """A function that calls ``row(column, x, low, high, n, stride, shift)`` for each row of the columns of an image."""

    def walk(f, x, columns):  # type: ignore[no-untyped-def]
        at = 0
        for c in range(f[C] // f[GROUPS]):
            for k in range(f[KH]):
                for j in range(f[KW]):
                    shift = j * f[DW] - f[PW]
                    low, high = inside(shift, f[SW], f[W], f[OW])
                    for i in range(f[OH]):
                        from_row = i * f[SH] - f[PH] + k * f[DH]
                        if from_row < 0 or from_row >= f[H]:
                            row(advance(columns, at), x, 0, 0, f[OW], f[SW], shift)
                        else:
                            source = advance(x, (c * f[H] + from_row) * f[W])
                            row(advance(columns, at), source, low, high, f[OW], f[SW], shift)
                        at += f[OW]

    return njit(**KERNEL)(walk)


def _gatherer(element: Element) -> Any:
    """``gather(f, x, columns)``: the columns of an image."""
    zero = element.constant(0)

    def row(column, x, low, high, n, stride, shift):  # type: ignore[no-untyped-def]
        for j in range(low):
            column[j] = zero
        if stride == 1:
            for j in range(low, high):
                column[j] = x[j + shift]
        else:
            for j in range(low, high):
                column[j] = x[j * stride + shift]
        for j in range(high, n):
            column[j] = zero

    return _walker(njit(**LOOP)(row))


def _scatterer() -> Any:
    """``scatter(f, x, columns)``: columns added to the image that they are of."""

    def row(column, x, low, high, n, stride, shift):  # type: ignore[no-untyped-def]
        if stride == 1:
            for j in range(low, high):
                x[j + shift] += column[j]
        else:
            for j in range(low, high):
                x[j * stride + shift] += column[j]

    return _walker(njit(**LOOP)(row))


def _each_group(element: Element, step: Any) -> Any:
    """A function that calls ``step(f, x, w, y, columns, outputs, terms, pixels)`` for all images and groups."""
    pointer = element.pointer
    size = np.dtype(element.name).itemsize

    def run(f):  # type: ignore[no-untyped-def]
        groups, channels, outputs = f[GROUPS], f[C] // f[GROUPS], f[O] // f[GROUPS]
        terms, pixels, plane = channels * f[KH] * f[KW], f[OH] * f[OW], f[H] * f[W]
        if terms * pixels * outputs == 0:
            return
        for n in range(f[N]):
            for g in range(groups):
                x = pointer(f[X] + (n * groups + g) * channels * plane * size)
                w = pointer(f[WEIGHT] + g * outputs * terms * size)
                y = pointer(f[Y] + (n * groups + g) * outputs * pixels * size)
                columns = x if _is_product(f) else pointer(f[SCRATCH])
                step(f, x, w, y, columns, outputs, terms, pixels)

    return njit(**KERNEL)(run)


# --- the three kernels -----------------------------------------------------------------------------------------


def _forward(dtype: int) -> Callable[..., None]:
    element = ELEMENTS[dtype]
    pointer, size = element.pointer, np.dtype(element.name).itemsize
    fill, gather, product = _filler(element), _gatherer(element), matrix_product(dtype)
    direct = correlation(dtype)

    @njit(**INLINE)
    def step(f, x, w, y, columns, outputs, terms, pixels):  # type: ignore[no-untyped-def]
        if not _is_product(f):
            gather(f, x, columns)
        product(0, 0, outputs, pixels, terms, w, terms, columns, pixels, 1, y, pixels)

    general = _each_group(element, step)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        taps = f[KH] * f[KW]
        channels, outputs = f[C] // f[GROUPS], f[O] // f[GROUPS]
        if direct(
            f, pointer(f[X]), channels, f[H], f[W], pointer(f[Y]), outputs, f[OH], f[OW], f[PH], f[PW],
            channels * taps, taps, 0,
        ):  # fmt: skip
            return
        f[BYTES] = _columns_wanted(f, size)
        if f[SCRATCH] != 0:
            for n in range(f[N]):
                fill(pointer(f[Y] + n * f[O] * f[OH] * f[OW] * size), f[BIAS], f[O], f[OH] * f[OW])
            general(f)

    return run


def _backward_input(dtype: int) -> Callable[..., None]:
    element = ELEMENTS[dtype]
    pointer, size = element.pointer, np.dtype(element.name).itemsize
    fill, scatter, product = _filler(element), _scatterer(), matrix_product(dtype)
    direct = correlation(dtype)

    @njit(**INLINE)
    def step(f, x, w, y, columns, outputs, terms, pixels):  # type: ignore[no-untyped-def]
        if _is_product(f):
            product(1, 0, terms, pixels, outputs, w, terms, y, pixels, 1, x, pixels)
        else:
            product(1, 0, terms, pixels, outputs, w, terms, y, pixels, 0, columns, pixels)
            scatter(f, x, columns)

    general = _each_group(element, step)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        taps = f[KH] * f[KW]
        channels, outputs = f[C] // f[GROUPS], f[O] // f[GROUPS]
        top, left = f[DH] * (f[KH] - 1) - f[PH], f[DW] * (f[KW] - 1) - f[PW]
        if direct(
            f, pointer(f[Y]), outputs, f[OH], f[OW], pointer(f[X]), channels, f[H], f[W], top, left,
            taps, channels * taps, 1,
        ):  # fmt: skip
            return
        f[BYTES] = _columns_wanted(f, size)
        if f[SCRATCH] != 0:
            for n in range(f[N]):
                fill(pointer(f[X] + n * f[C] * f[H] * f[W] * size), f[BIAS], f[C], f[H] * f[W])
            general(f)

    return run


def _backward_weight(dtype: int) -> Callable[..., None]:
    element = ELEMENTS[dtype]
    pointer, size = element.pointer, np.dtype(element.name).itemsize
    fill, gather, product = _filler(element), _gatherer(element), matrix_product(dtype)
    direct = weight_correlation(dtype)

    @njit(**INLINE)
    def step(f, x, w, y, columns, outputs, terms, pixels):  # type: ignore[no-untyped-def]
        if not _is_product(f):
            gather(f, x, columns)
        product(0, 1, outputs, terms, pixels, y, pixels, columns, pixels, 1, w, terms)

    general = _each_group(element, step)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        f[BYTES] = _columns_wanted(f, size)
        if direct(f, pointer(f[X]), pointer(f[WEIGHT]), pointer(f[Y])):
            return
        if f[SCRATCH] != 0:
            fill(pointer(f[WEIGHT]), 0, f[O], f[C] // f[GROUPS] * f[KH] * f[KW])
            general(f)

    return run


_MAKERS = {"v": _forward, "x": _backward_input, "w": _backward_weight}
