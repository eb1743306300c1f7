"""Kernels of exponentials of matrices, and of their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.lapack import (
    LOWER,
    NO_TRANSPOSE,
    NOT_UNIT,
    UNIT,
    UPPER,
    arguments,
    blas,
    itemsize,
    leave,
    room,
)
from fastgrad.kernels.cpu.systems import interchanges, lu_factors
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.pade import PADE
from fastgrad.kernels.reports import Builder, report_no_room
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import memcpy, words
from fastgrad.native.contracts.element_types import real_of


def _elements(dtype: int) -> tuple[Any, Any, Any, Any]:
    """The largest sum of a row's absolute values, and what is done with elements one by one."""
    zero, absolute = ELEMENTS[real_of(dtype)].constant(0), ELEMENTS[dtype].math.abs

    @njit(**KERNEL)
    def norm(p, n):  # type: ignore[no-untyped-def]
        most = zero
        for i in range(n):
            total = zero
            for j in range(n):
                total += absolute(p[i * n + j])
            if not total <= most:
                most = total
        return most

    @njit(**LOOP)
    def scaled(to, x, n, factor):  # type: ignore[no-untyped-def]
        for i in range(n):
            to[i] = x[i] * factor

    @njit(**LOOP)
    def add_diagonal(p, n, c):  # type: ignore[no-untyped-def]
        for i in range(n):
            p[i * n + i] += c

    @njit(**LOOP)
    def sum_and_difference(x, y, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            x[i], y[i] = x[i] + y[i], x[i] - y[i]

    return norm, scaled, add_diagonal, sum_and_difference


def _polynomial(dtype: int, times: Any) -> Any:
    """Polynomials of the square of a matrix, for `times` that multiplies matrices."""
    constant, coefficients = ELEMENTS[real_of(dtype)].constant, PADE[itemsize(real_of(dtype))][0]
    pointer, coefficients = ELEMENTS[dtype].pointer, tuple(constant(c) for c in coefficients)
    degree = len(coefficients) - 1
    _, scaled, add_diagonal, _ = _elements(dtype)

    @njit(**KERNEL)
    def polynomial(to, spare, square, n, parity):  # type: ignore[no-untyped-def]
        """The coefficients of one parity as a polynomial of the square, by Horner's rule; where it lies."""
        first = degree - (degree + parity) % 2
        scaled(pointer(to), pointer(square), n * n, coefficients[first])
        add_diagonal(pointer(to), n, coefficients[first - 2])
        for j in range(first - 4, -1, -2):
            times(spare, to, square, n)
            to, spare = spare, to
            add_diagonal(pointer(to), n, coefficients[j])
        return to

    return polynomial


def _exponential(dtype: int) -> Any:
    """``expm(at, out, a, n, work, pivots)``; the work is of 6 matrices. Higher powers come by Horner's rule."""
    size, b = itemsize(dtype), blas(dtype)
    pointer, constant = ELEMENTS[dtype].pointer, ELEMENTS[real_of(dtype)].constant
    largest = PADE[itemsize(real_of(dtype))][1]
    half, one, zero, nan = (constant(c) for c in (0.5, 1, 0, np.nan))
    getrf, swap = lu_factors(dtype), interchanges(dtype)
    multiply, triangular = b.product, b.triangular

    @njit(**KERNEL)
    def times(to, x, y, n):  # type: ignore[no-untyped-def]
        multiply(NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, x, n, y, n, to, n)

    norm, scaled, _, sum_and_difference = _elements(dtype)
    polynomial = _polynomial(dtype, times)

    @njit(**KERNEL)
    def expm(at, out, a, n, work, pivots):  # type: ignore[no-untyped-def]
        numel = n * n
        length = norm(pointer(a), n)
        if not length - length == zero:
            scaled(pointer(out), pointer(a), numel, nan)
            return
        doublings, factor = 0, one
        while length * factor > largest:
            factor *= half
            doublings += 1
        x, square, even, odd, spare, more = (
            work, work + numel * size, work + 2 * numel * size, work + 3 * numel * size, work + 4 * numel * size,
            work + 5 * numel * size,
        )  # fmt: skip
        scaled(pointer(x), pointer(a), numel, factor)
        times(square, x, x, n)
        even_at = polynomial(even, spare, square, n, 0)
        if even_at == spare:
            spare, even = even, spare
        odd_at = polynomial(odd, spare, square, n, 1)
        times(more, x, odd_at, n)
        sum_and_difference(pointer(even), pointer(more), numel)
        # The difference is factored by columns, transposed: see `solve`.
        getrf(at, n, n, more, pivots)
        triangular(LOWER, NO_TRANSPOSE, NOT_UNIT, n, n, more, n, even)
        triangular(UPPER, NO_TRANSPOSE, UNIT, n, n, more, n, even)
        swap(even, n, n, words(pivots), True)
        for _ in range(doublings):
            times(square, even, even, n)
            even, square = square, even
        memcpy(out, even, numel * size)

    return expm


def exponential(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Exponentials of matrices."""
    size, expm, begin, end = itemsize(dtype), _exponential(dtype), blas(dtype).begin, blas(dtype).end

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.exponential(frame)
        n = f.n
        pivots = room(n * 8 + 6 * n * n * size)
        if pivots == 0:
            report_no_room(f)
            return
        at = arguments()
        begin(n * n)
        for i in range(f.batch):
            expm(at, f.out + i * n * n * size, f.a.data + i * n * n * size, n, pivots + n * 8, pivots)
        end(n * n)
        leave(pivots)

    return run, KERNEL


def exponential_derivative(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The derivative at a in the direction g: the upper right block of the exponential of ``[[a, g], [0, a]]``."""
    element, size, expm = ELEMENTS[dtype], itemsize(dtype), _exponential(dtype)
    pointer, constant, begin, end = element.pointer, element.constant, blas(dtype).begin, blas(dtype).end

    @njit(**LOOP)
    def fill(block, a, g, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(n):
                block[2 * i * n + j] = a[i * n + j]
                block[2 * i * n + n + j] = g[i * n + j]
                block[2 * (n + i) * n + j] = constant(0)
                block[2 * (n + i) * n + n + j] = a[i * n + j]

    @njit(**LOOP)
    def take(out, block, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(n):
                out[i * n + j] = block[2 * i * n + n + j]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.derivative(frame)
        n = f.n
        numel = 4 * n * n
        pivots = room(2 * n * 8 + 8 * numel * size)
        if pivots == 0:
            report_no_room(f)
            return
        at = arguments()
        block = pivots + 2 * n * 8
        result = block + numel * size
        begin(numel)
        for i in range(f.batch):
            step = i * n * n * size
            fill(pointer(block), pointer(f.a.data + step), pointer(f.g.data + step), n)
            expm(at, result, block, 2 * n, result + numel * size, pivots)
            take(pointer(f.out + step), pointer(result), n)
        end(numel)
        leave(pivots)

    return run, KERNEL
