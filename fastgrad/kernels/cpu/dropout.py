"""Kernels of dropout."""

from __future__ import annotations

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.random import block_words
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, float_of, memcpy, stack_frame
from fastgrad.native.contracts.element_types import BOOL, INT32

CHUNK = 256  # elements, whose mask fills half of a stack frame
BLOCKS = CHUNK // 4
_bytes, _words = ELEMENTS[BOOL].pointer, ELEMENTS[INT32].pointer


@njit(**LOOP)
def draw(mask, seed, offset, threshold):  # type: ignore[no-untyped-def]
    """A chunk of the mask, one word of randomness for each element: true where it is below the threshold."""
    bound = np.uint64(threshold)
    for k in range(BLOCKS):
        x0, x1, x2, x3 = block_words(seed, offset + k)
        low = np.int32(x0 < bound) | (np.int32(x1 < bound) << np.int32(8))
        high = np.int32(x2 < bound) | (np.int32(x3 < bound) << np.int32(8))
        mask[k] = np.int32(low | (high << np.int32(16)))


def _apply(dtype: int):  # type: ignore[no-untyped-def]
    zero = ELEMENTS[dtype].constant(0)

    @njit(**LOOP)
    def apply(out, x, mask, n, scale):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = x[i] * (scale if mask[i] != 0 else zero)

    return apply


def forward(kernel: object, dtype: int, layout_class: int) -> Builder:
    """Elements times ``scale`` with a probability, else times zero; the second output is the mask.

    Where there is no address of a first one, the mask alone is drawn.
    """
    pointer, cast = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant
    apply = _apply(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.dropout(frame)
        out, mask, x = pointer(f.out), f.mask, pointer(f.x.data)
        scale = cast(float_of(f.scale))
        chunk = stack_frame()
        n = f.x.numel
        at = 0
        while at < n:
            draw(_words(chunk), f.seed, f.offset + at // 4, f.threshold)
            count = min(CHUNK, n - at)
            if f.out != 0:
                apply(advance(out, at), advance(x, at), _bytes(chunk), count, scale)
            memcpy(mask + at, chunk, count)
            at += count

    return run, KERNEL


def again(kernel: object, dtype: int, layout_class: int) -> Builder:
    """The same with a mask that exists."""
    pointer, cast = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant
    apply = _apply(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.dropout_again(frame)
        scale = cast(float_of(f.scale))
        apply(pointer(f.out), pointer(f.x.data), _bytes(f.mask.data), f.x.numel, scale)

    return run, KERNEL
