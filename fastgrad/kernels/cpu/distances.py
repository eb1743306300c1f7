"""Distances of order p between all rows of two matrices, and their derivatives.

Whatever the length of the rows, what runs in vectors are the rows of the second matrix: a block of them is transposed
and stays in the cache while the rows of the first one go over it. Differences are taken as they are, so that rows that
are near each other have their distance to the last digits, which products of matrices would lose. Where vectors are
wide, squares are summed in registers, as the tiles of products are (`micro.tile`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.micro import bounded_rows, lanes, product_rows, transposed_elements
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, SUM
from fastgrad.kernels.reports import Builder, has_steps
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import address_of, advance, float_of, memset, stack_scratch
from fastgrad.native.contracts.element_types import ITEMSIZES

COUNT, SIZES, EUCLIDEAN, LARGEST, POWERS = range(5)
"""Kinds of orders: 0, 1, 2, infinity and any other."""

ROWS, COLUMNS = 256, 32  # of a block that is transposed


@njit(**INLINE)
def kind_of(order):  # type: ignore[no-untyped-def]
    if order == 0.0:
        return COUNT
    if order == 1.0:
        return SIZES
    if order == 2.0:
        return EUCLIDEAN
    return LARGEST if order == np.inf else POWERS


transpose = transposed_elements(ROWS)


def _sums(dtype: int) -> Any:
    """An inlined function ``add(kind, sums, block, a, n, columns, order)``: what differences add to n distances."""
    element = ELEMENTS[dtype]
    m, zero, one = element.math, element.constant(0), element.constant(1)

    @njit(**LOOP)
    def squares(sums, block, x, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            d = x - block[j]
            sums[j] += d * d

    @njit(**LOOP)
    def four_squares(sums, block, a, n):  # type: ignore[no-untyped-def]
        x0, x1, x2, x3 = a[0], a[1], a[2], a[3]
        for j in range(n):
            d0, d1 = x0 - block[j], x1 - block[ROWS + j]
            d2, d3 = x2 - block[2 * ROWS + j], x3 - block[3 * ROWS + j]
            sums[j] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3

    @njit(**LOOP)
    def sizes(sums, block, x, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            sums[j] += m.abs(x - block[j])

    @njit(**LOOP)
    def largest(sums, block, x, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            sums[j] = m.maximum(sums[j], m.abs(x - block[j]))

    @njit(**LOOP)
    def steps(sums, block, x, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            d = x - block[j]
            sums[j] += m.where(d == zero, zero, m.where(m.isnan(d), d, one))

    @njit(**LOOP)
    def powers(sums, block, x, n, order):  # type: ignore[no-untyped-def]
        for j in range(n):
            sums[j] += m.pow(m.abs(x - block[j]), order)

    @njit(**INLINE)
    def add(kind, sums, block, a, n, columns, order):  # type: ignore[no-untyped-def]
        c = 0
        while kind == EUCLIDEAN and c + 4 <= columns:  # the sums are read and written once for several
            four_squares(sums, advance(block, c * ROWS), advance(a, c), n)
            c += 4
        while c < columns:
            line, x = advance(block, c * ROWS), a[c]
            if kind == EUCLIDEAN:
                squares(sums, line, x, n)
            elif kind == SIZES:
                sizes(sums, line, x, n)
            elif kind == LARGEST:
                largest(sums, line, x, n)
            elif kind == COUNT:
                steps(sums, line, x, n)
            else:
                powers(sums, line, x, n, order)
            c += 1

    return add


def _scratch(dtype: int) -> tuple[Any, Any]:
    """Memory of the stack for a block, and for a number for each of its rows."""
    size = ITEMSIZES[dtype]
    return stack_scratch(ROWS * COLUMNS * size // 8), stack_scratch(ROWS * size // 8)


def _finished(dtype: int) -> Any:
    """An inlined function ``finish(kind, out, n, order)``: from sums to distances."""
    cast, m = ELEMENTS[dtype].constant, ELEMENTS[dtype].math

    @njit(**LOOP)
    def roots(out, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            out[j] = m.sqrt(out[j])

    @njit(**LOOP)
    def other_roots(out, n, exponent):  # type: ignore[no-untyped-def]
        for j in range(n):
            out[j] = m.pow(out[j], exponent)

    @njit(**INLINE)
    def finish(kind, out, n, order):  # type: ignore[no-untyped-def]
        if kind == EUCLIDEAN:
            roots(out, n)
        elif kind == POWERS:
            other_roots(out, n, cast(1.0 / order))

    return finish


def _gathered(dtype: int) -> Any:
    """An inlined function ``gather(kind, out, sums, n)``: add the sums of further columns."""
    m = ELEMENTS[dtype].math

    @njit(**LOOP)
    def add(out, sums, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            out[j] += sums[j]

    @njit(**LOOP)
    def largest(out, sums, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            out[j] = m.maximum(out[j], sums[j])

    @njit(**INLINE)
    def gather(kind, out, sums, n):  # type: ignore[no-untyped-def]
        if kind == LARGEST:
            largest(out, sums, n)
        else:
            add(out, sums, n)

    return gather


def _block_sums(dtype: int) -> tuple[Any, Any]:
    """Functions ``add(kind, order, out, k, a, length, block, sums, rows, n, columns)``, for any order and for order 2:
    what a block adds to n distances of many rows.
    """
    add, gather, size = _sums(dtype), _gathered(dtype), ITEMSIZES[dtype]
    cast = ELEMENTS[dtype].constant

    @njit(**KERNEL)
    def of_any(kind, order, out, k, a, length, block, sums, rows, n, columns):  # type: ignore[no-untyped-def]
        for _ in range(rows):
            memset(address_of(sums), 0, n * size)
            add(kind, sums, block, a, n, columns, cast(order))
            gather(kind, out, sums, n)
            out, a = advance(out, k), advance(a, length)

    if not lanes(dtype):
        return of_any, of_any
    tiles, most = bounded_rows(dtype, padded=True, distances=True), product_rows()

    @njit(**KERNEL)
    def squares(kind, order, out, k, a, length, block, sums, rows, n, columns):  # type: ignore[no-untyped-def]
        tiles(out, k, a, length, most * length, 1, block, ROWS, rows, n, columns, 1, out, k)

    return of_any, squares


def build(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The distances of some rows from all others. Elements are summed by `COLUMNS`, and these sums in turn."""
    pointer, finish = ELEMENTS[dtype].pointer, _finished(dtype)
    add, add_squares = _block_sums(dtype)
    (block_memory, sums_memory), size = _scratch(dtype), ITEMSIZES[dtype]

    @njit(**KERNEL)
    def of_block(kind, order, out, k, a, length, block, sums, rows, n, columns, last):  # type: ignore[no-untyped-def]
        if kind == EUCLIDEAN:
            add_squares(kind, order, out, k, a, length, block, sums, rows, n, columns)
        else:
            add(kind, order, out, k, a, length, block, sums, rows, n, columns)
        if last:
            for _ in range(rows):
                finish(kind, out, n, order)
                out = advance(out, k)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.cdist(frame)
        n, k, length, order = f.n, f.k, f.m, float_of(f.order)
        if not has_steps(f, f.batch * f.n):
            return
        out, x1, x2, kind = pointer(f.out), pointer(f.x1.data), pointer(f.x2.data), kind_of(order)
        block, sums = pointer(block_memory()), pointer(sums_memory())
        memset(f.out + f.first * k * size, 0, f.count * k * size)
        row, end = f.first, f.first + f.count
        while row < end:
            rows = min(end, (row // n + 1) * n) - row  # of this pair of matrices
            for j in range(0, k, ROWS):
                others, to = min(ROWS, k - j), advance(out, row * k + j)
                at_b = advance(x2, (row // n * k + j) * length)
                for c in range(0, length, COLUMNS):  # rows without elements have the distance zero
                    columns, last = min(COLUMNS, length - c), c + COLUMNS >= length
                    transpose(block, advance(at_b, c), length, others, columns)
                    at_a = advance(x1, row * length + c)
                    of_block(kind, order, to, k, at_a, length, block, sums, rows, others, columns, last)
            row += rows

    return run, KERNEL


def _euclidean_slopes(dtype: int) -> tuple[Any, Any]:
    """The sum over n of the other side for order 2: of one column, and of four, whose weights are read once."""
    zero = ELEMENTS[dtype].constant(0)

    @njit(**SUM)
    def differences(block, x, weights, n):  # type: ignore[no-untyped-def]
        total = zero
        for j in range(n):
            total += weights[j] * (x - block[j])
        return total

    @njit(**SUM)
    def four_differences(out, block, a, weights, n):  # type: ignore[no-untyped-def]
        x0, x1, x2, x3 = a[0], a[1], a[2], a[3]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for j in range(n):
            w = weights[j]
            s0 += w * (x0 - block[j])
            s1 += w * (x1 - block[ROWS + j])
            s2 += w * (x2 - block[2 * ROWS + j])
            s3 += w * (x3 - block[3 * ROWS + j])
        out[0] += s0
        out[1] += s1
        out[2] += s2
        out[3] += s3

    return differences, four_differences


def _slopes(dtype: int) -> Any:
    """An inlined function ``add(kind, out, block, a, weights, y, n, columns, exponent)``: sums over n of the others."""
    element = ELEMENTS[dtype]
    m, zero = element.math, element.constant(0)

    differences, four_differences = _euclidean_slopes(dtype)

    @njit(**SUM)
    def signs(block, x, weights, n):  # type: ignore[no-untyped-def]
        total = zero
        for j in range(n):
            total += weights[j] * m.sign(x - block[j])
        return total

    @njit(**SUM)
    def signs_of_largest(block, x, weights, y, n):  # type: ignore[no-untyped-def]
        total = zero
        for j in range(n):
            d = x - block[j]
            total += m.where(m.abs(d) == y[j], weights[j] * m.sign(d), zero)
        return total

    @njit(**SUM)
    def powers(block, x, weights, n, exponent):  # type: ignore[no-untyped-def]
        total = zero
        for j in range(n):
            d = x - block[j]
            total += m.where(d == zero, zero, weights[j] * m.sign(d) * m.pow(m.abs(d), exponent))
        return total

    @njit(**INLINE)
    def add(kind, out, block, a, weights, y, n, columns, exponent):  # type: ignore[no-untyped-def]
        c = 0
        while kind == EUCLIDEAN and c + 4 <= columns:  # the weights are read once for several
            four_differences(advance(out, c), advance(block, c * ROWS), advance(a, c), weights, n)
            c += 4
        while c < columns:
            line, x = advance(block, c * ROWS), a[c]
            if kind == EUCLIDEAN:
                out[c] += differences(line, x, weights, n)
            elif kind == SIZES:
                out[c] += signs(line, x, weights, n)
            elif kind == LARGEST:
                out[c] += signs_of_largest(line, x, weights, y, n)
            else:
                out[c] += powers(line, x, weights, n, exponent)
            c += 1

    return add


def _weights(dtype: int) -> Any:
    """An inlined function ``weigh(kind, room, g, y, n, exponent)``: gradients over what slopes have in common.

    They are written to the room, or are `g` itself. Where rows are equal the slope is taken for zero.
    """
    m, zero, one = ELEMENTS[dtype].math, ELEMENTS[dtype].constant(0), ELEMENTS[dtype].constant(1)

    @njit(**LOOP)
    def divide(weights, g, y, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            weights[j] = m.where(y[j] == zero, zero, g[j] / m.where(y[j] == zero, one, y[j]))

    @njit(**LOOP)
    def divide_by_powers(weights, g, y, n, exponent):  # type: ignore[no-untyped-def]
        for j in range(n):
            weights[j] = m.where(y[j] == zero, zero, g[j] / m.pow(m.where(y[j] == zero, one, y[j]), exponent))

    @njit(**INLINE)
    def weigh(kind, room, g, y, n, exponent):  # type: ignore[no-untyped-def]
        if kind == EUCLIDEAN:
            divide(room, g, y, n)
            return room
        if kind == POWERS:
            divide_by_powers(room, g, y, n, exponent)
            return room
        return g

    return weigh


def backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The gradients by some rows of the first side."""
    pointer, cast = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant
    weigh, add = _weights(dtype), _slopes(dtype)
    (block_memory, room_memory), size = _scratch(dtype), ITEMSIZES[dtype]

    @njit(**KERNEL)
    def of_block(  # type: ignore[no-untyped-def]
        kind, order, out, a, length, g, y, k, block, room, rows, n, columns
    ):  # fmt: skip
        exponent = cast(order - 1.0)
        for _ in range(rows):
            weights = weigh(kind, room, g, y, n, exponent)
            add(kind, out, block, a, weights, y, n, columns, exponent)
            out, a, g, y = advance(out, length), advance(a, length), advance(g, k), advance(y, k)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.cdist_backward(frame)
        n, k, length, order = f.n, f.k, f.m, float_of(f.order)
        if not has_steps(f, f.batch * f.n):
            return
        out, x1, x2, kind = pointer(f.out), pointer(f.x1.data), pointer(f.x2.data), kind_of(order)
        g, y = pointer(f.g.data), pointer(f.y.data)
        block, room = pointer(block_memory()), pointer(room_memory())
        memset(f.out + f.first * length * size, 0, f.count * length * size)
        row, end = (0, 0) if kind == COUNT else (f.first, f.first + f.count)
        while row < end:
            rows = min(end, (row // n + 1) * n) - row  # of this pair of matrices
            for j in range(0, k, ROWS):
                others, at = min(ROWS, k - j), row * k + j
                at_b, at_g, at_y = advance(x2, (row // n * k + j) * length), advance(g, at), advance(y, at)
                for c in range(0, length, COLUMNS):
                    columns, at_c = min(COLUMNS, length - c), row * length + c
                    transpose(block, advance(at_b, c), length, others, columns)
                    to, at_a = advance(out, at_c), advance(x1, at_c)
                    of_block(kind, order, to, at_a, length, at_g, at_y, k, block, room, rows, others, columns)
            row += rows

    return run, KERNEL
