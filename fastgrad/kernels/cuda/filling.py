"""Kernels of the CUDA device that fill memory: constants, sequences, triangles, random numbers.

Random numbers are those of the CPU, see `kernels.cpu.random`: a thread makes the elements of one block of the stream.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cpu.random import ROUNDS, integers_64, uniform_of, unit_32, unit_64
from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Element, Target, block, float_of, fma, high_product, thread
from fastgrad.kernels.cuda.places import part_of, split
from fastgrad.native.contracts.element_types import FLOATS, INEXACT
from fastgrad.native.contracts.frames.filling import IN_WORDS, INTEGERS, NORMAL, PER_BLOCK, UNIFORM, staircase

THREADS = 256
STEPS = 4  # elements of a thread, which lie a block's width apart


def constant(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Set all elements to one number."""
    store, floating, per_block = target.elements[dtype].store, dtype in INEXACT, threads * STEPS

    def number(bits):
        return float_of(bits) if floating else bits

    def run(f):
        value = number(f.value)
        i, end = part_of(f.n, per_block)
        while i < end:
            store(f.out, i, value)
            i += threads

    return Body(run, ("n",), per_block, threads)


def sequence(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """``start + i step``, counted back from the end where that is nearer: see `contracts.frames.filling.SEQUENCE`.

    Floats are computed in float64 with one rounding, then that of the dtype.
    """
    store, floating, per_block = target.elements[dtype].store, dtype in FLOATS, threads * STEPS

    def number(i, f):
        if not floating:
            return f.start + i * f.step
        first, last = float_of(f.start), float_of(f.end)
        step = float_of(f.step) if f.turn == f.n else (last - first) / np.float64(f.n - 1)
        if i < f.turn:
            return fma(np.float64(i), step, first)
        return fma(np.float64(i - (f.n - 1)), step, last)

    def run(f):
        i, end = part_of(f.n, per_block)
        while i < end:
            store(f.out, i, number(i, f))
            i += threads

    return Body(run, ("n",), per_block, threads)


def triangle(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Keep a triangle of each matrix."""
    element, per_block = target.elements[dtype], threads * STEPS
    load, store, zero, upper = element.load, element.store, element.constant(0), bool(kernel.options["upper"])

    def run(f):
        i, end = part_of(f.matrices * f.rows * f.columns, per_block)
        while i < end:
            line, column = split(i, f.columns)
            _, row = split(line, f.rows)
            inside = column - row >= f.diagonal if upper else column - row <= f.diagonal
            store(f.out, i, load(f.x, i) if inside else zero)
            i += threads

    return Body(run, ("matrices", "rows", "columns"), per_block, threads)


def triangle_places(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """The rows, then the columns of the places in a triangle; the row of each is searched for."""
    store, per_block = target.elements[dtype].store, threads * STEPS

    def before(row, f):
        """How many places are in the rows before one."""
        if f.upper:
            down = f.columns - f.diagonal
            return staircase(down, f.columns) - staircase(down - row, f.columns)
        return staircase(row + f.diagonal, f.columns) - staircase(f.diagonal, f.columns)

    def row_of(number, least, f):
        """The last row before which there are no more places than `number`."""
        low, high = least, least + number + 1  # no row from the least on is empty before the last place
        while high - low > 1:
            middle = (low + high) // 2
            if before(middle, f) <= number:
                low = middle
            else:
                high = middle
        return low

    def run(f):
        half = f.n // 2
        least = np.int64(0) if f.upper else max(-f.diagonal, np.int64(0))
        i, end = part_of(f.n, per_block)
        while i < end:
            number = i - half if i >= half else i
            row = row_of(number, least, f)
            first = max(row + f.diagonal, np.int64(0)) if f.upper else np.int64(0)
            store(f.out, i, first + number - before(row, f) if i >= half else row)
            i += threads

    return Body(run, ("n",), per_block, threads)


# --- random numbers --------------------------------------------------------------------------------------------


MULTIPLIER_0, MULTIPLIER_1 = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
WEYL_0, WEYL_1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


def block_words(seed, counter):
    """The words of a block, as `kernels.cpu.random.block_words` gives them, by 32 bits at a time."""
    c0, c1 = np.uint32(counter & 0xFFFFFFFF), np.uint32((counter >> 32) & 0xFFFFFFFF)
    c2, c3 = np.uint32(0), np.uint32(0)
    k0, k1 = np.uint32(seed & 0xFFFFFFFF), np.uint32((seed >> 32) & 0xFFFFFFFF)
    for _ in range(ROUNDS):
        low_0, low_1 = np.uint32(MULTIPLIER_0 * c0), np.uint32(MULTIPLIER_1 * c2)
        high_0, high_1 = high_product(MULTIPLIER_0, c0), high_product(MULTIPLIER_1, c2)
        c0, c1, c2, c3 = np.uint32(high_1 ^ c1 ^ k0), low_1, np.uint32(high_0 ^ c3 ^ k1), low_0
        k0, k1 = np.uint32(k0 + WEYL_0), np.uint32(k1 + WEYL_1)
    return np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)


def _fill(kind: int, dtype: int, target: Target, threads: int, draw: Any) -> Body:
    """A kernel in which ``draw(x0, x1, x2, x3, a, b)`` gives the elements of a block of the stream, as a tuple."""
    store, width = target.elements[dtype].store, PER_BLOCK[kind][dtype in IN_WORDS]
    half = width == 2

    def run(f):
        at = np.int64(block()) * threads + thread()
        i = at * width
        if i < f.n:
            x0, x1, x2, x3 = block_words(f.seed, f.offset + at)
            drawn = draw(x0, x1, x2, x3, f.a, f.b)
            store(f.out, i, drawn[0])
            if i + 1 < f.n:
                store(f.out, i + 1, drawn[1])
            if not half:
                if i + 2 < f.n:
                    store(f.out, i + 2, drawn[2 % width])
                if i + 3 < f.n:
                    store(f.out, i + 3, drawn[3 % width])

    return Body(run, ("n",), threads * width, threads)


def uniform(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Uniformly distributed floats in [a, b)."""
    return _fill(UNIFORM, dtype, target, threads, uniform_of(dtype))


def normal(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Normally distributed floats of mean a and standard deviation b, by Box and Muller."""
    pair = _pair(target.elements[dtype])

    def draw_32(x0, x1, x2, x3, a, b):
        mean, deviation = np.float32(float_of(a)), np.float32(float_of(b))
        z0, z1 = pair(above_zero(x0), unit_32(x1), mean, deviation)
        z2, z3 = pair(above_zero(x2), unit_32(x3), mean, deviation)
        return z0, z1, z2, z3

    def draw_64(x0, x1, x2, x3, a, b):
        u, turn = np.float64(1) - unit_64(x0, x1), unit_64(x2, x3)
        return pair(u, turn, float_of(a), float_of(b))

    return _fill(NORMAL, dtype, target, threads, draw_32 if dtype in IN_WORDS else draw_64)


def above_zero(word):
    """A number in (0, 1] to which all 32 bits of a word count where it is small."""
    return fma(np.float32(np.uint32(word)), np.float32(2.0**-32), np.float32(2.0**-33))


def _pair(element: Element) -> Any:
    m, minus_two, two = element.math, element.constant(-2), element.constant(2)
    log, sqrt, sine, cosine = m.log, m.sqrt, m.sinpi, m.cospi

    def pair(u, turn, mean, deviation):
        """Two independent normal numbers from u in (0, 1] and a part of a turn."""
        radius = sqrt(minus_two * log(u)) * deviation
        return fma(radius, cosine(two * turn), mean), fma(radius, sine(two * turn), mean)

    return pair


def integers(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Uniformly distributed integers in [a, b), stored as any dtype that holds them."""
    return _fill(INTEGERS, dtype, target, threads, integers_64)
