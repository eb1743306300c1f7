"""Kernels of dropout."""

from __future__ import annotations

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.framed import Builder, fits, integer
from fastgrad.kernels.random import block_words
from fastgrad.native.base.intrinsics import advance, float_of, memcpy, stack_frame, words
from fastgrad.native.contracts.element_types import BOOL, INT32
from fastgrad.native.contracts.frames import FRAME_INPUTS, FRAME_NUMELS, FRAME_OUTPUTS

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

    Integers: seed and offset of the stream, the probability in units of 2**-32, bits of the scale.
    """
    pointer, cast = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant
    apply = _apply(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        out, mask, x = pointer(f[FRAME_OUTPUTS]), f[FRAME_OUTPUTS + 1], pointer(f[FRAME_INPUTS])
        scale = cast(float_of(integer(f, 3)))
        chunk = stack_frame()
        n = f[FRAME_NUMELS]
        at = 0
        while at < n:
            draw(_words(chunk), integer(f, 0), integer(f, 1) + at // 4, integer(f, 2))
            count = min(CHUNK, n - at)
            apply(advance(out, at), advance(x, at), _bytes(chunk), count, scale)
            memcpy(mask + at, chunk, count)
            at += count

    return run, KERNEL


def again(kernel: object, dtype: int, layout_class: int) -> Builder:
    """The same with a mask that exists. Inputs: elements, mask; integer: bits of the scale."""
    pointer, cast = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant
    apply = _apply(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        n = f[FRAME_NUMELS]
        if fits(f, 1, n):
            apply(
                pointer(f[FRAME_OUTPUTS]), pointer(f[FRAME_INPUTS]), _bytes(f[FRAME_INPUTS + 1]), n,
                cast(float_of(integer(f, 0))),
            )  # fmt: skip

    return run, KERNEL
