"""Convolutions: three kernels that read one frame.

A convolution ties three tensors together, x (N, C, H, W), w (O, C / groups, KH, KW) and y (N, O, OH, OW)::

    y[n, o, i, j] = sum over c, k, l of w[o, c, k, l] * x[n, c, i * SH - PH + k * DH, j * SW - PW + l * DW]

with zeros outside of x. `forward` computes y; `backward_input` and `backward_weight` are its transposes, which compute
x or w of the two others.

What has stride 1 is computed where it lies, by `conv_direct`; the rest as matrix products of the weights with columns,
the matrix (C / groups * KH * KW, OH * OW) of all that each weight meets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.conv_direct import correlation, weight_correlation
from fastgrad.kernels.cpu.gemm import matrix_product
from fastgrad.kernels.cpu.pool import inside
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """One of the three for one dtype."""
    return _MAKERS[kernel.options["computes"]](dtype), KERNEL


# --- pieces ----------------------------------------------------------------------------------------------------


@njit(**KERNEL)
def _is_product(f):  # type: ignore[no-untyped-def]
    """Whether each weight meets the whole image as it is: its columns are the image."""
    small = f.kh * f.kw == 1 and f.sh * f.sw == 1 and f.ph + f.pw == 0
    return small and f.oh == f.h and f.ow == f.w


@njit(**KERNEL)
def _columns_wanted(f, size):  # type: ignore[no-untyped-def]
    """Bytes of the columns of one image and group."""
    if _is_product(f):
        return 0
    return f.c // f.groups * f.kh * f.kw * f.oh * f.ow * size


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
        for c in range(f.c // f.groups):
            for k in range(f.kh):
                for j in range(f.kw):
                    shift = j * f.dw - f.pw
                    low, high = inside(shift, f.sw, f.w, f.ow)
                    for i in range(f.oh):
                        from_row = i * f.sh - f.ph + k * f.dh
                        if from_row < 0 or from_row >= f.h:
                            row(advance(columns, at), x, 0, 0, f.ow, f.sw, shift)
                        else:
                            source = advance(x, (c * f.h + from_row) * f.w)
                            row(advance(columns, at), source, low, high, f.ow, f.sw, shift)
                        at += f.ow

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
        groups, channels, outputs = f.groups, f.c // f.groups, f.o // f.groups
        terms, pixels, plane = channels * f.kh * f.kw, f.oh * f.ow, f.h * f.w
        if terms * pixels * outputs == 0:
            return
        for n in range(f.n):
            for g in range(groups):
                x = pointer(f.x + (n * groups + g) * channels * plane * size)
                w = pointer(f.weight + g * outputs * terms * size)
                y = pointer(f.y + (n * groups + g) * outputs * pixels * size)
                columns = x if _is_product(f) else pointer(f.scratch.data)
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
        f = frames.convolution(frame)
        taps = f.kh * f.kw
        channels, outputs = f.c // f.groups, f.o // f.groups
        if direct(
            f, pointer(f.x), channels, f.h, f.w, pointer(f.y), outputs, f.oh, f.ow, f.ph, f.pw,
            channels * taps, taps, 0,
        ):  # fmt: skip
            return
        f.scratch.nbytes = _columns_wanted(f, size)
        if f.scratch.data != 0:
            for n in range(f.n):
                fill(pointer(f.y + n * f.o * f.oh * f.ow * size), f.bias, f.o, f.oh * f.ow)
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
        f = frames.convolution(frame)
        taps = f.kh * f.kw
        channels, outputs = f.c // f.groups, f.o // f.groups
        top, left = f.dh * (f.kh - 1) - f.ph, f.dw * (f.kw - 1) - f.pw
        if direct(
            f, pointer(f.y), outputs, f.oh, f.ow, pointer(f.x), channels, f.h, f.w, top, left,
            taps, channels * taps, 1,
        ):  # fmt: skip
            return
        f.scratch.nbytes = _columns_wanted(f, size)
        if f.scratch.data != 0:
            for n in range(f.n):
                fill(pointer(f.x + n * f.c * f.h * f.w * size), f.bias, f.c, f.h * f.w)
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
        f = frames.convolution(frame)
        f.scratch.nbytes = _columns_wanted(f, size)
        if direct(f, pointer(f.x), pointer(f.weight), pointer(f.y)):
            return
        if f.scratch.data != 0:
            fill(pointer(f.weight), 0, f.o, f.c // f.groups * f.kh * f.kw)
            general(f)

    return run


_MAKERS = {"v": _forward, "x": _backward_input, "w": _backward_weight}
