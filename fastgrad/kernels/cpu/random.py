"""Kernels that fill memory with random numbers, from a counter and a key, or with a sequence.

Random numbers come from Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2,
3, SC 2011). It turns a counter of 128 bits and a key of 64 bits into a block of four words of 32 bits that
depend on nothing else: no state passes from one block to the next. Here the key is the seed, and the counter
of block k of a call is ``offset + k`` (modulo 2**64). Element i is made from block ``i // 4`` or, where it
takes two words, from block ``i // 2``. So it depends on the seed, the offset and i alone, and never on the
number of elements, on threads, or on the width of the processor's vectors.

=========  ==============================  =========================================================
kernel     a, b                            element
=========  ==============================  =========================================================
uniform    bounds, bits of float64         ``a + (b - a) u`` with u from 24 (float32) or 53 bits, in [a, b)
normal     mean, deviation, likewise       ``a + b z`` with z by Box and Muller (1958)
integers   bounds, int64                   in [a, b), from 64 bits, the same for every dtype
permut.    how many integers, nothing      the first a integers in random order, then these again in another one
=========  ==============================  =========================================================

The loops have no branches and keep a word in the low half of 64 bits, where LLVM multiplies vectors of words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels import vecmath
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element
from fastgrad.kernels.scalar_ir import fma, like, sqrt, where
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, float_of, memcpy, stack_frame, stack_scratch
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT64, FLOATS, INT64, ITEMSIZES
from fastgrad.native.contracts.frames.filling import IN_WORDS, INTEGERS, NORMAL, PER_BLOCK, UNIFORM

Builder = tuple[Callable[..., None], dict[str, Any]]

inline = njit(**INLINE)

MULTIPLIER_0, MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL_0, WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
ROUNDS = 10
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
ZERO = np.uint64(0)


@inline
def philox(c0, c1, c2, c3, k0, k1):
    """Philox4x32-10: the four words for a counter and a key given as words.

    Between rounds the upper halves of the words hold what is left of products; multiplications clear them.
    """
    for _ in range(ROUNDS):
        p0 = MULTIPLIER_0 * (c0 & LOW)
        p1 = MULTIPLIER_1 * (c2 & LOW)
        c0, c1, c2, c3 = (p1 >> HALF) ^ c1 ^ k0, p1, (p0 >> HALF) ^ c3 ^ k1, p0
        k0 = (k0 + WEYL_0) & LOW
        k1 = (k1 + WEYL_1) & LOW
    return c0 & LOW, c1 & LOW, c2 & LOW, c3 & LOW


@inline
def block_words(seed, block):
    """The words of a block: the seed is the key, the block the counter."""
    counter, key = np.uint64(block), np.uint64(seed)
    return philox(counter & LOW, counter >> HALF, ZERO, ZERO, key & LOW, key >> HALF)


# --- one to four elements of a block ------------------------------------------------------------------------

TWO_PI = 2.0 * math.pi
DIGITS = {FLOAT16: 11, BFLOAT16: 8}
"""Binary digits of a half."""


@inline
def unit_32(word):
    """A multiple of ``2**-24`` in [0, 1)."""
    return np.float32(np.int32(word >> np.uint64(8))) * np.float32(2.0**-24)


@inline
def unit_64(high, low):
    """A multiple of ``2**-53`` in [0, 1)."""
    rest = np.float64(np.int32(low >> np.uint64(11))) * 2.0**-53
    return fma(np.float64(np.uint32(high)), 2.0**-32, rest)


@inline
def within(u, a, b):
    """``a + (b - a) u``. What rounding takes to b becomes a, which rounding makes too rare by as much."""
    value = fma(b - a, u, a)
    return where(value < b, value, a)


@inline
def uniform_32(x0, x1, x2, x3, a, b):
    low, high = np.float32(float_of(a)), np.float32(float_of(b))
    return (
        within(unit_32(x0), low, high), within(unit_32(x1), low, high),
        within(unit_32(x2), low, high), within(unit_32(x3), low, high),
    )  # fmt: skip


def _uniform_half(digits):
    """As `uniform_32`, but that u has no more digits than a half: rounding takes no number between 0 and 1 to 1."""
    dropped, unit = np.uint64(32 - digits), np.float32(2.0**-digits)

    @inline
    def one(word, low, high):
        return within(np.float32(np.int32(word >> dropped)) * unit, low, high)

    @inline
    def uniform(x0, x1, x2, x3, a, b):
        low, high = np.float32(float_of(a)), np.float32(float_of(b))
        return one(x0, low, high), one(x1, low, high), one(x2, low, high), one(x3, low, high)

    return uniform


@inline
def uniform_64(x0, x1, x2, x3, a, b):
    low, high = float_of(a), float_of(b)
    return within(unit_64(x0, x1), low, high), within(unit_64(x2, x3), low, high)


def uniform_of(dtype: int) -> Any:
    """The function that makes uniformly distributed floats of a dtype of the words of a block."""
    if dtype in DIGITS:
        return _uniform_half(DIGITS[dtype])
    return uniform_64 if dtype == FLOAT64 else uniform_32


@inline
def pair(log, u, turn, mean, deviation):
    """Two independent normal numbers from u in (0, 1] and an angle."""
    radius = sqrt(like(u, -2) * log(u)) * deviation
    cosine = vecmath.sin_of_quadrants(turn, like(u, 1))
    sine = vecmath.sin_of_quadrants(turn, like(u, 0))
    return fma(radius, cosine, mean), fma(radius, sine, mean)


log_32, log_64 = vecmath.F32.log, vecmath.F64.log


@inline
def pair_32(first, second, mean, deviation):
    """All 32 bits of a word count where u is small, so that numbers reach 6.7 deviations."""
    u = fma(np.float32(np.uint32(first)), np.float32(2.0**-32), np.float32(2.0**-33))
    return pair(log_32, u, unit_32(second) * np.float32(TWO_PI), mean, deviation)


@inline
def normal_32(x0, x1, x2, x3, a, b):
    mean, deviation = np.float32(float_of(a)), np.float32(float_of(b))
    z0, z1 = pair_32(x0, x1, mean, deviation)
    z2, z3 = pair_32(x2, x3, mean, deviation)
    return z0, z1, z2, z3


@inline
def normal_64(x0, x1, x2, x3, a, b):
    return pair(log_64, 1.0 - unit_64(x0, x1), unit_64(x2, x3) * TWO_PI, float_of(a), float_of(b))


@inline
def scaled_integer(high, low, a, b):
    """``a + floor(x (b - a) / 2**64)`` with x of 64 bits: the upper half of a product of 128 bits.

    The probability of a value is off by a factor of at most ``1 + (b - a) / 2**64``, that is by less than
    ``2**-32`` of itself for up to ``2**32`` values. A span of ``2**64`` arrives as zero.
    """
    span = np.uint64(b) - np.uint64(a)
    s0, s1 = span & LOW, span >> HALF
    middle = high * s0 + ((low * s0) >> HALF)
    other = low * s1 + (middle & LOW)
    upper = high * s1 + (middle >> HALF) + (other >> HALF)
    return np.int64(np.uint64(a) + where(span == ZERO, (high << HALF) | low, upper))


@inline
def integers_64(x0, x1, x2, x3, a, b):
    return scaled_integer(x0, x1, a, b), scaled_integer(x2, x3, a, b)


# --- loops --------------------------------------------------------------------------------------------------


def _fill_by_four(element: Element, draw: Any) -> Any:
    store = element.store

    def loop(out, blocks, seed, offset, a, b):
        for k in range(blocks):
            x0, x1, x2, x3 = block_words(seed, offset + k)
            y0, y1, y2, y3 = draw(x0, x1, x2, x3, a, b)
            store(out, 4 * k, y0)
            store(out, 4 * k + 1, y1)
            store(out, 4 * k + 2, y2)
            store(out, 4 * k + 3, y3)

    return loop


def _fill_by_two(element: Element, draw: Any) -> Any:
    store = element.store

    def loop(out, blocks, seed, offset, a, b):
        for k in range(blocks):
            x0, x1, x2, x3 = block_words(seed, offset + k)
            y0, y1 = draw(x0, x1, x2, x3, a, b)
            store(out, 2 * k, y0)
            store(out, 2 * k + 1, y1)

    return loop


def _fill(dtype: int, kind: int, draw: Any) -> Builder:
    """A kernel that draws elements of one kind from blocks.

    What is left after whole chunks is made as a whole chunk too, elsewhere, so that vectors draw every block.
    """
    element, width = ELEMENTS[dtype], PER_BLOCK[kind][dtype in IN_WORDS]
    loop = njit(**LOOP)((_fill_by_four if width == 4 else _fill_by_two)(element, draw))
    pointer, itemsize = element.pointer, ITEMSIZES[dtype]
    chunk = 64 // itemsize  # blocks: the lanes of the widest vectors; their elements take at most 256 bytes

    def kernel(frame):
        f = frames.random(frame)
        n, out = f.n, f.out
        blocks = n // (chunk * width) * chunk
        loop(pointer(out), blocks, f.seed, f.offset, f.a, f.b)
        done = blocks * width
        if done < n:
            last = stack_frame()
            loop(pointer(last), chunk, f.seed, f.offset + blocks, f.a, f.b)
            memcpy(out + done * itemsize, last, (n - done) * itemsize)

    return kernel, KERNEL


def uniform(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Uniformly distributed floats in [a, b)."""
    return _fill(dtype, UNIFORM, uniform_of(dtype))


def normal(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Normally distributed floats of mean a and standard deviation b."""
    return _fill(dtype, NORMAL, normal_64 if dtype == FLOAT64 else normal_32)


def integers(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Uniformly distributed integers in [a, b), stored as any dtype that holds them."""
    return _fill(dtype, INTEGERS, integers_64)


DRAWN = 512  # words that are drawn at a time
_drawn = stack_scratch(DRAWN)


@intrinsic
def _below(context, word, bound):
    """``floor(word bound / 2**64)``: a number below the bound by a word of 64 bits."""

    def emit(_context, builder, _signature, args):
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(a, wide) for a in args))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), args[0].type)

    return types.int64(types.int64, types.int64), emit


@inline
def _put(order, i, word):  # type: ignore[no-untyped-def]
    """Bring i into an order of the integers below it: all places up to its own are as likely, and what stands there
    comes to i. So memory is written in order, and read where the place says (Fisher, Yates; Durstenfeld 1964).
    """
    place = _below(word, i + 1)
    order[i] = order[place]
    order[place] = i


def permutation(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The first `a` integers in random order, one such order behind the other."""
    draw, pointer = njit(**LOOP)(_fill_by_two(ELEMENTS[INT64], integers_64)), ELEMENTS[INT64].pointer

    @njit(**KERNEL)
    def shuffle(out, n, seed, offset, length):  # type: ignore[no-untyped-def]
        drawn, i, k = pointer(_drawn()), 0, DRAWN
        for at in range(n):
            if k == DRAWN:
                draw(drawn, DRAWN // 2, seed, offset + at // 2, 0, 0)
                k = 0
            if i == length:
                out, i = advance(out, length), 0
            _put(out, i, drawn[k])
            i += 1
            k += 1

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.random(frame)
        shuffle(pointer(f.out), f.n, f.seed, f.offset, f.a)

    return run, KERNEL


def shuffle(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """What `permutation` writes, by words that were drawn before."""
    pointer = ELEMENTS[INT64].pointer

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.shuffle(frame)
        out, drawn, i = pointer(f.out), pointer(f.words.data), 0
        for at in range(f.words.numel):
            if i == f.length:
                out, i = advance(out, f.length), 0
            _put(out, i, drawn[at])
            i += 1

    return run, KERNEL


def sequence(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """``start + i step``, counted back from the end where that is nearer: see `contracts.frames.filling.SEQUENCE`.

    Floats are computed in float64 with one rounding, then that of the dtype.
    """
    element = ELEMENTS[dtype]
    store, pointer = element.store, element.pointer
    if dtype in FLOATS:

        def loop(out, n, start, step, turn, end):
            first, last = float_of(start), float_of(end)
            distance = float_of(step) if turn == n else (last - first) / np.float64(n - 1)
            for i in range(turn):
                store(out, i, fma(np.float64(i), distance, first))
            for i in range(turn, n):
                store(out, i, fma(np.float64(i - (n - 1)), distance, last))
    else:

        def loop(out, n, start, step, turn, end):
            for i in range(n):
                store(out, i, start + i * step)

    loop = njit(**LOOP)(loop)

    def function(frame):
        f = frames.sequence(frame)
        loop(pointer(f.out), f.n, f.start, f.step, f.turn, f.end)

    return function, KERNEL
