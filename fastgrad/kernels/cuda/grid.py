"""Kernels of sampling at a grid on the CUDA device: values, and the ways back to the images and to the grid.

A place of a grid reads some elements of an image, its taps, with weights that are products of one for each dimension;
see `kernels.cpu.grid`. A tap is computed where it is needed, and for several channels at once. What comes back to an
image is added up by blocks that have some of its elements each, and look through all taps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.collecting import PLACES, collecting
from fastgrad.kernels.cuda.device import WARP, Target, block, blocks, rounded_product, thread, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reports import reporting
from fastgrad.kernels.cuda.teams import by_teams, folding
from fastgrad.native.contracts.frames.layers import CUBIC, LINEAR, NEAREST, REFLECTION, ZEROS

THREADS = 256
CHANNELS = 4
"""Channels for which a thread computes a tap once."""
GRID = (66, 8)  # factors of the number of blocks
BLOCKS = GRID[0] * GRID[1]


def _fitting(target: Target, dtype: int) -> Any:
    """``fit(at, size, padding, corners)``: a coordinate within the image, and its derivative by the one that it was."""
    element = target.elements[dtype]
    c, floor, fmod = element.constant, element.math.floor, element.math.fmod
    zero, one, two, half = c(0), c(1), c(2), c(0.5)

    def fit(at, size, padding, corners):
        slope, last = one, c(size - 1)
        if padding == REFLECTION:
            low = zero if corners else -half
            span = last if corners else c(size)
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
        if not at > zero:  # as well if it is no number
            return zero, zero
        if at >= last:
            return last, zero
        return at, slope

    return fit


def _keys(target: Target, dtype: int) -> Any:
    """``keys(x, far)``: the kernel of Keys (1981) up to a distance of 1, or far from there; two derivatives."""
    c = target.elements[dtype].constant
    a, one, two, three, four, five, six, eight, ten = map(c, (-0.75, 1, 2, 3, 4, 5, 6, 8, 10))

    def keys(x, far):
        if far:
            value = ((a * x - five * a) * x + eight * a) * x - four * a
            return value, (three * a * x - ten * a) * x + eight * a, six * a * x - ten * a
        value = ((a + two) * x - (a + three)) * x * x + one
        return value, (three * (a + two) * x - two * (a + three)) * x, six * (a + two) * x - two * (a + three)

    return keys


def _along(target: Target, dtype: int) -> Any:
    """``along(g, size, mode, padding, corners, k)``: the k-th tap along one dimension.

    That is its place, or -1 outside the image, its weight, and the first two derivatives of that by the coordinate of
    the grid.
    """
    element = target.elements[dtype]
    c, floor, nearest = element.constant, element.math.floor, element.math.round
    zero, one, two, half = c(0), c(1), c(2), c(0.5)
    fit, keys = _fitting(target, dtype), _keys(target, dtype)

    def index(value, size):
        if value >= zero and value < c(size):
            k = np.int64(value)
            return k if k < size else np.int64(-1)
        return np.int64(-1)

    def cubic(at, size, padding, corners, scale, k):
        first = floor(at)
        t = at - first
        far, behind = k == 0 or k == 3, k >= 2
        distance = one - t if behind else t
        value, slope, bend = keys(distance + one if far else distance, far)
        tap = first + c(k - 1)
        if padding != ZEROS:
            tap, _ = fit(tap, size, padding, corners)
        return index(tap, size), value, where(behind, -scale, scale) * slope, scale * scale * bend

    def along(g, size, mode, padding, corners, k):
        scale = (c(size - 1) if corners else c(size)) / two
        at = rounded_product(g + one, scale)  # or another element could be the nearest one than on the CPU
        if not corners:
            at -= half
        if mode == CUBIC:
            return cubic(at, size, padding, corners, scale, k)
        if padding != ZEROS:
            at, slope = fit(at, size, padding, corners)
            scale = scale * slope
        if mode == NEAREST:
            return index(nearest(at), size), one, zero, zero
        first = floor(at)
        if k == 0:
            return index(first, size), first + one - at, -scale, zero
        return index(first + one, size), at - first, scale, zero

    return along


def _bits(f):
    """The taps along one dimension are this power of two."""
    return np.int64(1 if f.mode == LINEAR else (0 if f.mode == NEAREST else 2))


def _taps_of(f):
    """How many taps a place has."""
    return np.int64(1) << (_bits(f) * f.rank)


def _tap(target: Target, dtype: int) -> Any:
    """``tap(f, p, t)``: where the t-th tap of a place lies in its plane, or -1, and its weight; and three derivatives.

    Those are across, down and deep. If the place moves in a direction, what is given are the derivatives of all these
    along that.
    """
    element = target.elements[dtype]
    load, zero, one = element.load, element.constant(0), element.constant(1)
    along = _along(target, dtype)

    def tap(f, p, t):
        rank, bits, corners = f.rank, _bits(f), f.corners != 0
        most = (np.int64(1) << bits) - 1
        at, moves = p * rank, f.direction.data != 0
        x, a, a1, a2 = along(load(f.grid.data, at), f.w, f.mode, f.padding, corners, t & most)
        y, b, b1, b2 = along(load(f.grid.data, at + 1), f.h, f.mode, f.padding, corners, (t >> bits) & most)
        z, c, c1, c2 = np.int64(0), one, zero, zero
        if rank == 3:
            z, c, c1, c2 = along(load(f.grid.data, at + 2), f.d, f.mode, f.padding, corners, t >> (2 * bits))
        place = np.int64(-1) if x < 0 or y < 0 or z < 0 else (z * f.h + y) * f.w + x
        dx, dy, dz = a1 * b * c, a * b1 * c, a * b * c1
        if not moves:
            return place, a * b * c, dx, dy, dz
        u, v = load(f.direction.data, at), load(f.direction.data, at + 1)
        w = load(f.direction.data, at + 2) if rank == 3 else zero
        xy, xz, yz = a1 * b1 * c, a1 * b * c1, a * b1 * c1
        return (
            place, u * dx + v * dy + w * dz, u * (a2 * b * c) + v * xy + w * xz,
            u * xy + v * (a * b2 * c) + w * yz, u * xz + v * yz + w * (a * b * c2),
        )  # fmt: skip

    return tap


def _fits(f):
    """Whether what the integers say can be."""
    known = f.mode >= LINEAR and f.mode <= CUBIC and f.padding >= ZEROS and f.padding <= REFLECTION
    flat = f.rank == 2 and f.d == 1
    deep = f.rank == 3 and f.mode != CUBIC
    return known and (flat or deep) and min(min(f.d, f.h), min(f.w, f.places)) >= 0 and min(f.n, f.c) >= 0


def _has_steps(f):
    """Whether there are as many places as are to be done."""
    return f.first >= 0 and f.count >= 0 and f.first <= f.n * f.places - f.count


def sample(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """What the places of the grid see of each channel."""
    e, tap, report = target.elements[dtype], _tap(target, dtype), reporting(target)
    load_where, store, zero = e.load_where, e.store, e.constant(0)

    def run(f):
        if not _fits(f) or not _has_steps(f):
            report(f, f.first, f.n * f.places)
            return
        unit, plane, taps = np.int64(block()) * threads + thread(), f.d * f.h * f.w, _taps_of(f)
        groups = (f.c + CHANNELS - 1) // CHANNELS
        while unit < f.count * groups:
            group, number = split(unit, f.count)  # neighbouring threads have neighbouring places
            p, first = f.first + number, group * CHANNELS
            image, at = split(p, f.places)
            source, to = (image * f.c + first) * plane, (image * f.c + first) * f.places + at
            left = f.c - first
            s0, s1, s2, s3, t = zero, zero, zero, zero, np.int64(0)
            while t < taps:
                place, weight, _, _, _ = tap(f, p, t)
                inside, i = place >= 0, source + place
                s0 += weight * load_where(f.x.data, i, inside)
                s1 += weight * load_where(f.x.data, i + plane, inside and left > 1)
                s2 += weight * load_where(f.x.data, i + 2 * plane, inside and left > 2)
                s3 += weight * load_where(f.x.data, i + 3 * plane, inside and left > 3)
                t += 1
            store(f.out, to, s0)
            if left > 1:
                store(f.out, to + f.places, s1)
            if left > 2:
                store(f.out, to + 2 * f.places, s2)
            if left > 3:
                store(f.out, to + 3 * f.places, s3)
            unit += BLOCKS * threads

    return Body(run, GRID, 1, threads)


def to_images(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Zeros to which each sample is added where it was taken from, place by place and tap by tap."""
    e, tap, report = target.elements[dtype], _tap(target, dtype), reporting(target)
    load, store, zero = e.load, e.store, e.constant(0)

    def tap_of(f, image, i):
        p = i >> (_bits(f) * f.rank)
        place, weight, _, _, _ = tap(f, image * f.places + p, i & (_taps_of(f) - 1))
        return p, place, weight

    def place_of(f, image, i):
        _, place, _ = tap_of(f, image, i)
        return place

    def add(f, image, i, place):
        p, _, weight = tap_of(f, image, i)
        channel, plane = image * f.c + thread(), f.d * f.h * f.w
        while channel < (image + 1) * f.c:
            to = channel * plane + place
            store(f.out, to, load(f.out, to) + weight * load(f.grad.data, channel * f.places + p))
            channel += threads

    collect = collecting(target, place_of, add, threads)

    def clear(f, image, first):
        channel, plane = image * f.c + thread(), f.d * f.h * f.w
        while channel < (image + 1) * f.c:
            k, end = first, min(first + PLACES, plane)
            while k < end:
                store(f.out, channel * plane + k, zero)
                k += 1
            channel += threads

    def run(f):
        if not _fits(f):
            report(f, f.mode, f.padding)
            return
        unit, plane = np.int64(block()), f.d * f.h * f.w
        chunks = (plane + PLACES - 1) // PLACES
        while unit < f.n * chunks:
            image, chunk = split(unit, chunks)
            clear(f, image, chunk * PLACES)
            collect(f, image, f.places * _taps_of(f), chunk * PLACES)
            unit += blocks()

    return Body(run, ("n", "d", "h", "w"), PLACES, threads, resident=512)


def to_grid(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The gradient of each coordinate of the grid; several threads share the channels of a place."""
    e, tap, report = target.elements[dtype], _tap(target, dtype), reporting(target)
    load, load_where, store, zero = e.load, e.load_where, e.store, e.constant(0)

    def combine(a, b, c, d):
        return a + c, b + d

    fold = folding(target, combine, (dtype, dtype), threads)

    def group(f, number, lane, lanes, how, there):
        p, plane, t = f.first + number, f.d * f.h * f.w, np.int64(0)
        image, at = split(p, f.places)
        across, down, deep = zero, zero, zero
        while t < _taps_of(f):
            place, _, dx, dy, dz = tap(f, p, t)
            dot, channel = zero, image * f.c + lane
            while channel < (image + 1) * f.c:
                seen = load_where(f.x.data, channel * plane + place, place >= 0)
                dot += load(f.grad.data, channel * f.places + at) * seen
                channel += lanes
            across += dx * dot
            down += dy * dot
            deep += dz * dot
            t += 1
        across, down = fold(across, down, how)
        deep, _ = fold(deep, zero, how)
        if there and lane == 0:
            store(f.out, p * f.rank, across)
            store(f.out, p * f.rank + 1, down)
            if f.rank == 3:
                store(f.out, p * f.rank + 2, deep)

    def side_by_side(f):
        return f.places >= threads // WARP

    core = by_teams(group, _count_of, _channels_of, side_by_side, threads)

    def run(f):
        if not _fits(f) or not _has_steps(f):
            report(f, f.first, f.n * f.places)
            return
        core(f)

    return Body(run, ("count",), threads // WARP, threads, resident=512)


def _count_of(f):
    return f.count


def _channels_of(f):
    return f.c
