"""Convolutions: three kernels that read one frame.

A convolution ties three tensors together, x (N, C, H, W), w (O, C / groups, KH, KW) and y (N, O, OH, OW)::

    y[n, o, i, j] = sum over c, k, l of w[o, c, k, l] * x[n, c, i * SH - PH + k * DH, j * SW - PW + l * DW]

with zeros outside of x. `forward` computes y; `backward_input` and `backward_weight` are its transposes, which compute
x or w of the two others.

Depthwise convolutions are computed by `conv_depthwise`, the gradients of weights of many channels and outputs by
`conv_taps`. What else has planes not much larger
than its images is computed where it lies, by `conv_direct` and `conv_weight`; the rest as products of the weights with
columns, the matrix (C / groups * KH * KW, OH * OW) of all that each weight meets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.conv_depthwise import depthwise, depthwise_sums
from fastgrad.kernels.cpu.conv_direct import correlation
from fastgrad.kernels.cpu.conv_planes import LINE, images_of_block, round_up
from fastgrad.kernels.cpu.conv_taps import adder, tap_sums
from fastgrad.kernels.cpu.conv_weight import weight_correlation
from fastgrad.kernels.cpu.gemm import matrix_product
from fastgrad.kernels.cpu.pool import inside
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, nth


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
    """``run(f, weight, low, high)`` calls ``step(f, x, w, y, columns, outputs, terms, pixels)`` for all groups of the
    images from `low` up to `high`; the weights are at an address."""
    pointer = element.pointer
    size = np.dtype(element.name).itemsize

    def run(f, weight, low, high):  # type: ignore[no-untyped-def]
        groups, channels, outputs = f.groups, f.c // f.groups, f.o // f.groups
        terms, pixels, plane = channels * f.kh * f.kw, f.oh * f.ow, f.h * f.w
        if terms * pixels * outputs == 0:
            return
        for n in range(low, high):
            for g in range(groups):
                x = pointer(f.x + (n * groups + g) * channels * plane * size)
                w = pointer(weight + g * outputs * terms * size)
                y = pointer(f.y + (n * groups + g) * outputs * pixels * size)
                columns = x if _is_product(f) else pointer(f.scratch.data)
                step(f, x, w, y, columns, outputs, terms, pixels)

    return njit(**KERNEL)(run)


@njit(**KERNEL)
def _plan(f, stage, steps, size):  # type: ignore[no-untyped-def]
    """Write what the general way needs: columns, and a stage of so many steps."""
    f.scratch.nbytes = max(f.scratch.nbytes, round_up(_columns_wanted(f, size), LINE))
    s = nth(f.stages, stage)
    s.steps, s.work = steps, f.n * f.o * f.oh * f.ow * max(f.c // f.groups * f.kh * f.kw // 16, 1)


# --- the three kernels -----------------------------------------------------------------------------------------

FEW = 256  # multiply-adds up to which everything but loops would only cost time


@njit(**KERNEL)
def _are_few(f):  # type: ignore[no-untyped-def]
    """Whether a convolution has so few terms; the first test is for what would not fit."""
    sums, terms = f.n * f.o * f.oh * f.ow, f.c // f.groups * f.kh * f.kw
    return sums <= FEW and terms <= FEW and sums * terms <= FEW


def _in_loops(element: Element) -> Any:
    """``compute(f)``: the results of a convolution, one after the other."""
    pointer, zero = element.pointer, element.constant(0)

    @njit(**KERNEL)
    def one(f, x, w, i, j):  # type: ignore[no-untyped-def]
        total, at = zero, 0
        for c in range(f.c // f.groups):
            for k in range(f.kh):
                row = i * f.sh - f.ph + k * f.dh
                if row >= 0 and row < f.h:
                    line = advance(x, (c * f.h + row) * f.w)
                    for p in range(f.kw):
                        column = j * f.sw - f.pw + p * f.dw
                        if column >= 0 and column < f.w:
                            total += w[at + p] * line[column]
                at += f.kw
        return total

    @njit(**KERNEL)
    def compute(f):  # type: ignore[no-untyped-def]
        x, w, y = pointer(f.x), pointer(f.weight), pointer(f.y)
        inputs, outputs, at = f.c // f.groups, f.o // f.groups, 0
        for n in range(f.n):
            for o in range(f.o):
                image = advance(x, (n * f.c + o // outputs * inputs) * f.h * f.w)
                weight = advance(w, o * inputs * f.kh * f.kw)
                start = pointer(f.bias)[o] if f.bias != 0 else zero
                for i in range(f.oh):
                    for j in range(f.ow):
                        y[at] = start + one(f, image, weight, i, j)
                        at += 1

    return compute


def _images(dtype: int, step: Any, back: bool) -> Callable[..., None]:
    """The kernel that computes images, y from x or `back`, directly or by ``step`` for each image and group."""
    element = ELEMENTS[dtype]
    pointer, size, fill = element.pointer, np.dtype(element.name).itemsize, _filler(element)
    by_channel, direct = (way(dtype, 1 if back else 0) for way in (depthwise, correlation))
    general, in_loops = _each_group(element, step), _in_loops(element)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.convolution(frame)
        source, target = (f.y, f.x) if back else (f.x, f.y)
        channels, area = (f.c, f.h * f.w) if back else (f.o, f.oh * f.ow)
        if by_channel(f, pointer(source), pointer(target)):
            return
        if not back and _are_few(f):
            if f.scratch.data == 0:
                _plan(f, 0, 1, 0)
            else:
                in_loops(f)
            return
        if direct(f, pointer(source), pointer(target)):
            return
        if f.scratch.data == 0:
            _plan(f, 0, f.n, size)
            return
        for n in range(f.first, f.first + f.steps):
            fill(pointer(target + n * channels * area * size), f.bias, channels, area)
        general(f, f.weight, f.first, f.first + f.steps)

    return run


def _forward(dtype: int) -> Callable[..., None]:
    gather, product = _gatherer(ELEMENTS[dtype]), matrix_product(dtype)

    @njit(**INLINE)
    def step(f, x, w, y, columns, outputs, terms, pixels):  # type: ignore[no-untyped-def]
        if not _is_product(f):
            gather(f, x, columns)
        product(0, 0, outputs, pixels, terms, w, terms, columns, pixels, 1, y, pixels)

    return _images(dtype, step, False)


def _backward_input(dtype: int) -> Callable[..., None]:
    scatter, product = _scatterer(), matrix_product(dtype)

    @njit(**INLINE)
    def step(f, x, w, y, columns, outputs, terms, pixels):  # type: ignore[no-untyped-def]
        if _is_product(f):
            product(1, 0, terms, pixels, outputs, w, terms, y, pixels, 1, x, pixels)
        else:
            product(1, 0, terms, pixels, outputs, w, terms, y, pixels, 0, columns, pixels)
            scatter(f, x, columns)

    return _images(dtype, step, True)


def _backward_weight(dtype: int) -> Callable[..., None]:
    element = ELEMENTS[dtype]
    pointer, size = element.pointer, np.dtype(element.name).itemsize
    fill, gather, product = _filler(element), _gatherer(element), matrix_product(dtype)
    by_taps, by_channel, direct = tap_sums(dtype), depthwise_sums(dtype), weight_correlation(dtype)
    zero, add = element.constant(0), adder()

    @njit(**INLINE)
    def step(f, x, w, y, columns, outputs, terms, pixels):  # type: ignore[no-untyped-def]
        if not _is_product(f):
            gather(f, x, columns)
        product(0, 1, outputs, terms, pixels, y, pixels, columns, pixels, 1, w, terms)

    general = _each_group(element, step)

    @njit(**KERNEL)
    def finite(w, count):  # type: ignore[no-untyped-def]
        wrong = 0
        for k in range(count):
            wrong += 1 if w[k] - w[k] != zero else 0
        return wrong == 0

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.convolution(frame)
        terms = f.c // f.groups * f.kh * f.kw
        asked, count, nbytes = f.scratch.data == 0, f.o * terms, f.o * terms * size
        each = images_of_block(f.n, nbytes, 1)
        steps = (f.n + each - 1) // each
        x, w, y = pointer(f.x), pointer(f.weight), pointer(f.y)
        if by_taps(f, x, w, y):
            return
        if by_channel(f, x, w, y) or direct(f, x, w, y):
            if asked:
                f.scratch.nbytes = max(f.scratch.nbytes, round_up(_columns_wanted(f, size), LINE))
            elif f.stage == 2 and not finite(w, count):
                fill(w, 0, f.o, terms)
                general(f, f.weight, 0, f.n)
        elif asked:
            _plan(f, 0, steps, size)
            f.shared.nbytes = steps * nbytes
            adding = nth(f.stages, 1)
            adding.steps, adding.work = f.o, count * steps
        elif f.stage == 0:
            for k in range(f.first, f.first + f.steps):
                sums = f.shared.data + k * nbytes
                fill(pointer(sums), 0, f.o, terms)
                general(f, sums, k * each, min((k + 1) * each, f.n))
        else:
            fill(pointer(f.weight + f.first * terms * size), 0, f.steps, terms)
            for k in range(steps):
                at = f.first * terms * size
                add(pointer(f.weight + at), pointer(f.shared.data + k * nbytes + at), f.steps * terms)

    return run


_MAKERS = {"v": _forward, "x": _backward_input, "w": _backward_weight}
