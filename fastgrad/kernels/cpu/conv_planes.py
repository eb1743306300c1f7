"""Planes: images with their padding, in the order in which the kernels of convolutions read them.

The rows of a plane follow each other at one pitch, so that its pixels form one line. Zeros to the right of a row are
those to the left of the next one as far as both are there.

By a stride, a weight meets only every so many rows and columns. So a channel has as many planes, its *phases*, as there
are remainders of row and column: what a weight meets lies side by side in one of them. Where the images are the result,
those of its rows and columns that have a remainder in common meet the same weights: each phase of the result is a
convolution by stride 1, of some of the weights.

Note [Places]: result t, along a dimension and in a phase, meets weight k at place ``t + offset`` of a plane. For images
y from x that is place ``(t * S + k * D) // S`` in the phase of the remainder, which depends on k alone; x begins at its
padding. For x from y, element ``t * S + begin`` of x meets element ``t + q - k * D // S`` of y, if ``k * D`` has the
phase as its remainder, where ``q = (begin + P) // S``; y begins where all these are at least zero.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import INLINE, KERNEL, LOOP
from fastgrad.native.base.intrinsics import advance, caster, stack_words
from fastgrad.native.contracts.record import Part

LINE = 64
MOST_PHASES = 16
SUMS = 1 << 23  # bytes that the sums of all blocks of images may have
BLOCKS = 16  # of images at most, where the sums of a block are one step

PLANES = Part(
    "convolution_planes", transposed=1, inputs=1, outputs=1, h=1, w=1, height=1, width=1, top=1, left=1,
    down=1, across=1, step_down=1, step_across=1, tall=1, pitch=1, phase=1, plane=1,
)  # fmt: skip
"""Channels of a group and sizes of the images that lie on planes, and of the others; where the former begin; phases of
planes, and of results; rows, pitch and elements of a plane, and the elements of all planes of a channel."""
planes_at = caster(PLANES)
new_planes = stack_words(PLANES.words)


@njit(**KERNEL)
def round_up(n, unit):  # type: ignore[no-untyped-def]
    return (n + unit - 1) // unit * unit


@njit(**KERNEL)
def never(*arguments):  # type: ignore[no-untyped-def]
    """That this is not the way to compute it: in place of a way that the processor or dtype does not have."""
    return False


@njit(**KERNEL)
def images_of_block(n, nbytes, units):  # type: ignore[no-untyped-def]
    """How many images have their sums in common, if these have so many bytes and are computed in so many steps."""
    blocks = max(1, min(min(n, (BLOCKS + units - 1) // units), SUMS // max(nbytes, 1)))
    return max((n + blocks - 1) // blocks, 1)


@njit(**KERNEL)
def plan_planes(p, f, transposed, reach, lanes):  # type: ignore[no-untyped-def]
    """Fill in the sizes of planes of x, or `transposed` of y.

    Returns whether they are not much larger than the images.
    """
    p.transposed = transposed
    last_row, last_column = f.dh * (f.kh - 1) // f.sh, f.dw * (f.kw - 1) // f.sw
    if transposed:
        p.inputs, p.outputs = f.o // f.groups, f.c // f.groups
        p.h, p.w, p.height, p.width = f.oh, f.ow, f.h, f.w
        p.down, p.across, p.step_down, p.step_across = 1, 1, f.sh, f.sw
        p.top, p.left = max(0, last_row - f.ph // f.sh), max(0, last_column - f.pw // f.sw)
        p.tall, need = (f.h - 1 + f.ph) // f.sh + p.top + 1, (f.w - 1 + f.pw) // f.sw + p.left + 1
        before, behind, width = p.left, need - p.left - f.ow, (f.w + f.sw - 1) // f.sw
    else:
        p.inputs, p.outputs = f.c // f.groups, f.o // f.groups
        p.h, p.w, p.height, p.width = f.h, f.w, f.oh, f.ow
        p.down, p.across, p.step_down, p.step_across = f.sh, f.sw, 1, 1
        p.top, p.left = f.ph, f.pw
        p.tall, need = f.oh + last_row, f.ow + last_column
        before, behind, width = f.pw // f.sw, need - 1 - (f.pw + f.w - 1) // f.sw, f.ow
    p.pitch = need - max(0, min(before, min(behind, need - width)))
    p.phase = round_up(p.tall * p.pitch + need - p.pitch + reach, lanes)
    p.plane = p.phase * p.down * p.across
    near = p.pitch <= 2 * width and p.tall <= 4 * ((p.height + p.step_down - 1) // p.step_down)
    return near and f.sh * f.sw <= MOST_PHASES


@njit(**INLINE)
def results_of(p, stride, padding, phase, size):  # type: ignore[no-untyped-def]
    """The results in a phase, along a dimension with so many: the first one, and how many; then their q."""
    if p.transposed == 0:
        return 0, size, 0
    first = (padding - phase + stride - 1) // stride
    count = (size - 1 + padding - phase + stride) // stride - first
    return first * stride + phase - padding, count, first


@njit(**KERNEL)
def meets(p, stride, reached, phase):  # type: ignore[no-untyped-def]
    """Whether results in a phase meet a weight that reaches so far."""
    return p.transposed == 0 or reached % stride == phase


@njit(**KERNEL)
def find_places(places, p, f):  # type: ignore[no-untyped-def]
    """Where on the planes of a group the weights of one result begin; phase by phase of the results."""
    at = 0
    for a in range(p.step_down):
        for b in range(p.step_across):
            down = results_of(p, f.sh, f.ph, a, p.height)[2]
            across = results_of(p, f.sw, f.pw, b, p.width)[2]
            for c in range(p.inputs):
                for k in range(f.kh):
                    for j in range(f.kw):
                        if meets(p, f.sh, k * f.dh, a) and meets(p, f.sw, j * f.dw, b):
                            places[at] = c * p.plane + _place(p, f, k, j, down, across)
                            at += 1


@njit(**INLINE)
def _place(p, f, k, j, down, across):  # type: ignore[no-untyped-def]
    row, column = k * f.dh // f.sh, j * f.dw // f.sw
    if p.transposed:
        return (down + p.top - row) * p.pitch + across + p.left - column
    return (k * f.dh % f.sh * f.sw + j * f.dw % f.sw) * p.phase + row * p.pitch + column


@njit(**KERNEL)
def taps_of(p, f, a, b):  # type: ignore[no-untyped-def]
    """How many weights of a channel the results in a phase meet."""
    rows = columns = 0
    for k in range(f.kh):
        rows += 1 if meets(p, f.sh, k * f.dh, a) else 0
    for j in range(f.kw):
        columns += 1 if meets(p, f.sw, j * f.dw, b) else 0
    return rows * columns


def _row_copier() -> Any:
    def copy(out, x, stride, n):  # type: ignore[no-untyped-def]
        if stride == 1:
            for i in range(n):
                out[i] = x[i]
        elif stride == 2:
            for i in range(n):
                out[i] = x[2 * i]
        else:
            for i in range(n):
                out[i] = x[i * stride]

    return njit(**LOOP)(copy)


def placer() -> Any:
    """``place(planes, p, source, channels)``: an image into the middle of its planes, which are zero around it."""
    copy = _row_copier()

    @njit(**KERNEL)
    def place(planes, p, source, channels):  # type: ignore[no-untyped-def]
        whole = p.down * p.across == 1 and p.pitch == p.w and p.left == 0
        for c in range(channels):
            if whole:  # rows follow each other as they do in the image
                size = min(p.h, p.tall - p.top) * p.w
                copy(advance(planes, c * p.plane + p.top * p.pitch), advance(source, c * p.h * p.w), 1, size)
                continue
            for a in range(p.down):
                top = (a - p.top) % p.down  # the first row that belongs to this phase
                row = (top + p.top) // p.down
                rows = min((p.h - top + p.down - 1) // p.down, p.tall - row)
                for v in range(p.across):
                    left = (v - p.left) % p.across
                    column = (left + p.left) // p.across
                    count = min((p.w - left + p.across - 1) // p.across, p.pitch - column)
                    phase = advance(planes, c * p.plane + (a * p.across + v) * p.phase + column)
                    given = advance(source, (c * p.h + top) * p.w + left)
                    for r in range(rows):
                        line = advance(phase, (row + r) * p.pitch)
                        copy(line, advance(given, r * p.down * p.w), p.across, count)

    return place
