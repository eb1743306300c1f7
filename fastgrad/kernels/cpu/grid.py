"""Kernels of sampling at a grid: values, and the ways back to the images and to the grid.

A place of a grid reads some elements of an image, its taps, with weights that are products of one for each dimension.
Blocks of places first get the offsets and weights of their taps, or the derivatives of these; then come the channels,
one after the other, in loops over the places of the block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.kernels.reports import Builder, report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, memset, stack_scratch, words
from fastgrad.native.contracts.element_types import ITEMSIZES
from fastgrad.native.contracts.frames.layers import (
    BORDER,
    CUBIC,
    GRID_BLOCK,
    LINEAR,
    MOST_TAPS,
    NEAREST,
    REFLECTION,
    ZEROS,
)

_AS_WRITTEN: dict[str, Any] = {**KERNEL, "fastmath": False}
_INLINE_AS_WRITTEN: dict[str, Any] = {**INLINE, "fastmath": False}
"""For coordinates: a rounding that is left out could make another element the nearest one than in PyTorch."""
AXES = 3
ALONG = 4  # taps of one dimension, at most
STEEPEST = 2 * MOST_TAPS  # derivatives of the weights of a place: 16 taps in two dimensions, or 8 in three
_offsets = stack_scratch(MOST_TAPS * GRID_BLOCK)
_weights = stack_scratch(MOST_TAPS * GRID_BLOCK)
_slopes = stack_scratch(STEEPEST * GRID_BLOCK)
_dots = stack_scratch(MOST_TAPS * GRID_BLOCK)
_along = stack_scratch(AXES * ALONG)
_factors = stack_scratch(3 * AXES * ALONG)  # weights, first and second derivatives


@njit(**INLINE)
def _place(value, size):  # type: ignore[no-untyped-def]
    """An index as integer, or -1 if it lies outside."""
    if value >= 0 and value < size:
        k = np.int64(value)
        return k if k < size else -1
    return -1


def _coordinates(dtype: int) -> Any:
    """``fit(at, size, padding, corners)``: a coordinate within the image, and its derivative by the one that it was."""
    element = ELEMENTS[dtype]
    c, floor, fmod = element.constant, element.math.floor, element.math.fmod
    zero, one, two = c(0), c(1), c(2)

    @njit(**_AS_WRITTEN)
    def fit(at, size, padding, corners):  # type: ignore[no-untyped-def]
        slope = one
        if padding == REFLECTION:
            low = zero if corners != 0 else c(-0.5)
            span = c(size - 1) if corners != 0 else c(size)
            if span <= zero:
                return zero, zero
            at = at - low
            if at < zero:
                at, slope = -at, -slope
            rest = fmod(at, span)
            flips = floor(at / span)
            if flips - two * floor(flips / two) == zero:
                at = rest + low
            else:
                at, slope = span - rest + low, -slope
        last = c(size - 1)
        if not at > zero:  # as well if it is no number
            return zero, zero
        if at >= last:
            return last, zero
        return at, slope

    return fit


def _axis(dtype: int) -> Any:
    """``axis(g, size, mode, padding, corners, places, factors)``: taps along one dimension; how many.

    Factors are weights, their derivatives by the coordinate of the grid, and second derivatives.
    """
    element = ELEMENTS[dtype]
    c, floor, nearest, fit = element.constant, element.math.floor, element.math.round, _coordinates(dtype)
    zero, one, two, half = c(0), c(1), c(2), c(0.5)
    a = c(-0.75)  # the parameter of the kernel of Keys (1981)
    three, four, five, six, eight, ten = c(3), c(4), c(5), c(6), c(8), c(10)

    @njit(**INLINE)
    def near(x):  # type: ignore[no-untyped-def]
        value = ((a + two) * x - (a + three)) * x * x + one
        return value, (three * (a + two) * x - two * (a + three)) * x, six * (a + two) * x - two * (a + three)

    @njit(**INLINE)
    def far(x):  # type: ignore[no-untyped-def]
        value = ((a * x - five * a) * x + eight * a) * x - four * a
        return value, (three * a * x - ten * a) * x + eight * a, six * a * x - ten * a

    @njit(**INLINE)
    def put(factors, k, found, sign, scale):  # type: ignore[no-untyped-def]
        factors[k] = found[0]
        factors[ALONG + k] = sign * scale * found[1]
        factors[2 * ALONG + k] = scale * scale * found[2]

    @njit(**_AS_WRITTEN)
    def axis(g, size, mode, padding, corners, places, factors):  # type: ignore[no-untyped-def]
        scale = (c(size - 1) if corners != 0 else c(size)) / two
        at = (g + one) * scale
        if corners == 0:
            at -= half
        if mode == CUBIC:
            first = floor(at)
            t = at - first
            put(factors, 0, far(t + one), one, scale)
            put(factors, 1, near(t), one, scale)
            put(factors, 2, near(one - t), -one, scale)
            put(factors, 3, far(two - t), -one, scale)
            for k in range(ALONG):
                tap = first + c(k - 1)
                if padding != ZEROS:
                    tap = fit(tap, size, padding, corners)[0]
                places[k] = _place(tap, size)
            return 4
        if padding != ZEROS:
            at, slope = fit(at, size, padding, corners)
            scale = scale * slope
        if mode == NEAREST:
            places[0] = _place(nearest(at), size)
            factors[0], factors[ALONG], factors[2 * ALONG] = one, zero, zero
            return 1
        first = floor(at)
        places[0], places[1] = _place(first, size), _place(first + one, size)
        factors[0], factors[ALONG], factors[2 * ALONG] = first + one - at, -scale, zero
        factors[1], factors[ALONG + 1], factors[2 * ALONG + 1] = at - first, scale, zero
        return 2

    return axis


def _tap(dtype: int) -> Any:
    """``tap(factors, i, j, k, moves, u, v, w)``: the weight of a tap and its derivatives across, down and deep.

    If the place `moves`, they are the derivatives of all these along (u, v, w).
    """

    @njit(**INLINE)
    def product(factors, i, j, k, x, y, z):  # type: ignore[no-untyped-def]
        """The product of the ``x``-th, ``y``-th and ``z``-th derivatives of the weights of taps i, j and k."""
        deep = factors[(6 + z) * ALONG + k]
        return factors[x * ALONG + i] * factors[(3 + y) * ALONG + j] * deep

    @njit(**KERNEL)
    def tap(factors, i, j, k, moves, u, v, w):  # type: ignore[no-untyped-def]
        dx = product(factors, i, j, k, 1, 0, 0)
        dy = product(factors, i, j, k, 0, 1, 0)
        dz = product(factors, i, j, k, 0, 0, 1)
        if not moves:
            return product(factors, i, j, k, 0, 0, 0), dx, dy, dz
        xy = product(factors, i, j, k, 1, 1, 0)
        xz = product(factors, i, j, k, 1, 0, 1)
        yz = product(factors, i, j, k, 0, 1, 1)
        return (
            u * dx + v * dy + w * dz,
            u * product(factors, i, j, k, 2, 0, 0) + v * xy + w * xz,
            u * xy + v * product(factors, i, j, k, 0, 2, 0) + w * yz,
            u * xz + v * yz + w * product(factors, i, j, k, 0, 0, 2),
        )

    return tap


def _flat_filler(dtype: int) -> Any:
    """``fill(f, grid, p, m, offsets, weights, slopes)``: the four taps of places between elements of images.

    That is what `_filler` does for the mode and the paddings that are used most, as a loop of vectors.
    """
    element = ELEMENTS[dtype]
    c, floor = element.constant, element.math.floor
    zero, one, two, half = c(0), c(1), c(2), c(0.5)

    @njit(**_INLINE_AS_WRITTEN)
    def along(g, size, clips, corners):  # type: ignore[no-untyped-def]
        """The first element, the share of the next one, and the derivative of the coordinate."""
        scale = (c(size - 1) if corners else c(size)) / two
        at = (g + one) * scale
        at = at if corners else at - half
        last = c(size - 1)
        slope = zero if clips and (not at > zero or at >= last) else scale
        at = (last if at >= last else (at if at > zero else zero)) if clips else at
        first = floor(at)
        return first, at - first, slope

    @njit(**_INLINE_AS_WRITTEN)
    def index(x, y, w, h):  # type: ignore[no-untyped-def]
        inside = x >= zero and y >= zero and x < c(w) and y < c(h)
        return np.int64(y if inside else zero) * w + np.int64(x if inside else zero) if inside else -1

    @njit(**{**LOOP, "fastmath": False})
    def fill(grid, w, h, clips, corners, m, offsets, weights, slopes):  # type: ignore[no-untyped-def]
        for b in range(m):
            x, t, sx = along(grid[2 * b], w, clips, corners)
            y, u, sy = along(grid[2 * b + 1], h, clips, corners)
            s, v = one - t, one - u
            for k in range(2):
                share, up = u if k else v, sy if k else -sy
                to, steep = 2 * k * GRID_BLOCK + b, 4 * k * GRID_BLOCK + b
                offsets[to] = index(x, y + c(k), w, h)
                offsets[to + GRID_BLOCK] = index(x + one, y + c(k), w, h)
                weights[to], weights[to + GRID_BLOCK] = s * share, t * share
                slopes[steep], slopes[steep + GRID_BLOCK] = -sx * share, s * up
                slopes[steep + 2 * GRID_BLOCK], slopes[steep + 3 * GRID_BLOCK] = sx * share, t * up
        return 4

    return fill


def _filler(dtype: int) -> Any:
    """``fill(f, grid, direction, p, m, offsets, weights, slopes)``: taps of `m` places from `p` on; how many each has.

    Without direction weights are weights, and slopes their derivatives by the coordinates; else both are derivatives
    along the direction of these.
    """
    element = ELEMENTS[dtype]
    pointer, axis, tap, flat = element.pointer, _axis(dtype), _tap(dtype), _flat_filler(dtype)
    zero, one = element.constant(0), element.constant(1)

    @njit(**KERNEL)
    def fill(f, grid, direction, p, m, offsets, weights, slopes):  # type: ignore[no-untyped-def]
        if f.rank == 2 and f.mode == LINEAR and f.padding != REFLECTION and f.direction.data == 0:
            clips, corners = f.padding == BORDER, f.corners != 0
            return flat(advance(grid, 2 * p), f.w, f.h, clips, corners, m, offsets, weights, slopes)
        places, factors = words(_along()), pointer(_factors())
        ys, zs = advance(places, ALONG), advance(places, 2 * ALONG)
        down_factors, deep_factors = advance(factors, 3 * ALONG), advance(factors, 6 * ALONG)
        moves, rank, taps, deep = f.direction.data != 0, f.rank, 0, 1
        mode, padding, corners = f.mode, f.padding, f.corners
        zs[0] = 0
        for k in range(3):
            deep_factors[k * ALONG] = one if k == 0 else zero
        for b in range(m):
            at = (p + b) * rank
            across = axis(grid[at], f.w, mode, padding, corners, places, factors)
            down = axis(grid[at + 1], f.h, mode, padding, corners, ys, down_factors)
            if rank == 3:
                deep = axis(grid[at + 2], f.d, mode, padding, corners, zs, deep_factors)
            u = direction[at] if moves else zero
            v = direction[at + 1] if moves else zero
            w = direction[at + 2] if moves and rank == 3 else zero
            taps = 0
            for k in range(deep):
                for j in range(down):
                    for i in range(across):
                        x, y, z = places[i], ys[j], zs[k]
                        to, steep = taps * GRID_BLOCK + b, taps * rank * GRID_BLOCK + b
                        offsets[to] = -1 if x < 0 or y < 0 or z < 0 else (z * f.h + y) * f.w + x
                        weights[to], dx, dy, dz = tap(factors, i, j, k, moves, u, v, w)
                        slopes[steep], slopes[steep + GRID_BLOCK] = dx, dy
                        if rank == 3:
                            slopes[steep + 2 * GRID_BLOCK] = dz
                        taps += 1
        return taps

    return fill


@njit(**INLINE)
def _fits(f):  # type: ignore[no-untyped-def]
    """Whether what the integers say can be."""
    known = LINEAR <= f.mode and f.mode <= CUBIC and ZEROS <= f.padding and f.padding <= REFLECTION
    flat = f.rank == 2 and f.d == 1
    deep = f.rank == 3 and f.mode != CUBIC
    return known and (flat or deep) and min(min(f.d, f.h), min(f.w, f.places)) >= 0 and min(f.n, f.c) >= 0


@njit(**INLINE)
def _has_steps(f):  # type: ignore[no-untyped-def]
    """Whether there are as many places as are to be done."""
    return f.first >= 0 and f.count >= 0 and f.first <= f.n * f.places - f.count


def sample(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """What the places of the grid see of each channel."""
    pointer, zero, fill = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(0), _filler(dtype)

    @njit(**LOOP)
    def write(out, x, offsets, weights, m):  # type: ignore[no-untyped-def]
        for b in range(m):
            k = offsets[b]
            value = x[k] if k >= 0 else zero
            out[b] = weights[b] * value

    @njit(**LOOP)
    def add(out, x, offsets, weights, m):  # type: ignore[no-untyped-def]
        for b in range(m):
            k = offsets[b]
            value = x[k] if k >= 0 else zero
            out[b] = out[b] + weights[b] * value

    @njit(**LOOP)
    def write_four(out, x, offsets, weights, m):  # type: ignore[no-untyped-def]
        for b in range(m):
            k = offsets[b]
            total = weights[b] * (x[k] if k >= 0 else zero)
            k = offsets[GRID_BLOCK + b]
            total += weights[GRID_BLOCK + b] * (x[k] if k >= 0 else zero)
            k = offsets[2 * GRID_BLOCK + b]
            total += weights[2 * GRID_BLOCK + b] * (x[k] if k >= 0 else zero)
            k = offsets[3 * GRID_BLOCK + b]
            out[b] = total + weights[3 * GRID_BLOCK + b] * (x[k] if k >= 0 else zero)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.grid_sample(frame)
        if not _fits(f) or not _has_steps(f):
            report_index(f, f.first, f.n * f.places)
            return
        grid, direction = pointer(f.grid.data), pointer(f.direction.data)
        offsets, weights, slopes = words(_offsets()), pointer(_weights()), pointer(_slopes())
        x, out = pointer(f.x.data), pointer(f.out)
        plane, places = f.d * f.h * f.w, f.places
        p, end = f.first, f.first + f.count
        while p < end:
            image, at = p // places, p % places
            m = min(min(GRID_BLOCK, end - p), places - at)
            taps = fill(f, grid, direction, p, m, offsets, weights, slopes)
            for channel in range(image * f.c, (image + 1) * f.c):
                source, target = advance(x, channel * plane), advance(out, channel * places + at)
                if taps == 4:
                    write_four(target, source, offsets, weights, m)
                    continue
                write(target, source, offsets, weights, m)
                for k in range(1, taps):
                    add(target, source, advance(offsets, k * GRID_BLOCK), advance(weights, k * GRID_BLOCK), m)
            p += m

    return run, KERNEL


def to_images(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Zeros to which each sample is added where it was taken from."""
    pointer, fill, itemsize = ELEMENTS[dtype].pointer, _filler(dtype), ITEMSIZES[dtype]

    @njit(**LOOP)
    def scatter(out, grad, offsets, weights, m):  # type: ignore[no-untyped-def]
        for b in range(m):
            k = offsets[b]
            if k >= 0:
                out[k] = out[k] + weights[b] * grad[b]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.grid_images(frame)
        plane, places = f.d * f.h * f.w, f.places
        if not _fits(f):
            report_index(f, f.mode, f.padding)
            return
        memset(f.out, 0, f.n * f.c * plane * itemsize)
        grid, direction = pointer(f.grid.data), pointer(f.direction.data)
        offsets, weights, slopes = words(_offsets()), pointer(_weights()), pointer(_slopes())
        grad, out = pointer(f.grad.data), pointer(f.out)
        p, end = 0, f.n * places
        while p < end:
            image, at = p // places, p % places
            m = min(min(GRID_BLOCK, end - p), places - at)
            taps = fill(f, grid, direction, p, m, offsets, weights, slopes)
            for channel in range(image * f.c, (image + 1) * f.c):
                source, target = advance(grad, channel * places + at), advance(out, channel * plane)
                for k in range(taps):
                    scatter(
                        target, source, advance(offsets, k * GRID_BLOCK), advance(weights, k * GRID_BLOCK), m
                    )
            p += m

    return run, KERNEL


def to_grid(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The gradient of each coordinate of the grid."""
    pointer, zero, fill = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(0), _filler(dtype)

    @njit(**LOOP)
    def add(dots, grad, x, offsets, m):  # type: ignore[no-untyped-def]
        for b in range(m):
            k = offsets[b]
            value = x[k] if k >= 0 else zero
            dots[b] = dots[b] + grad[b] * value

    @njit(**LOOP)
    def write(out, dots, slopes, rank, axis, taps, m):  # type: ignore[no-untyped-def]
        for b in range(m):
            total = zero
            for k in range(taps):
                total += slopes[(k * rank + axis) * GRID_BLOCK + b] * dots[k * GRID_BLOCK + b]
            out[b * rank + axis] = total

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.grid_places(frame)
        if not _fits(f) or not _has_steps(f):
            report_index(f, f.first, f.n * f.places)
            return
        grid, direction = pointer(f.grid.data), pointer(f.direction.data)
        offsets, weights, slopes = words(_offsets()), pointer(_weights()), pointer(_slopes())
        dots, grad, x, out = pointer(_dots()), pointer(f.grad.data), pointer(f.x.data), pointer(f.out)
        plane, places, rank = f.d * f.h * f.w, f.places, f.rank
        p, end = f.first, f.first + f.count
        while p < end:
            image, at = p // places, p % places
            m = min(min(GRID_BLOCK, end - p), places - at)
            taps = fill(f, grid, direction, p, m, offsets, weights, slopes)
            for k in range(taps * GRID_BLOCK):
                dots[k] = zero
            for channel in range(image * f.c, (image + 1) * f.c):
                source, arriving = advance(x, channel * plane), advance(grad, channel * places + at)
                for k in range(taps):
                    add(advance(dots, k * GRID_BLOCK), arriving, source, advance(offsets, k * GRID_BLOCK), m)
            for axis in range(rank):
                write(advance(out, p * rank), dots, slopes, rank, axis, taps, m)
            p += m

    return run, KERNEL
