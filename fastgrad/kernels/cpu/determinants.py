"""Kernels of determinants and cofactors."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.lapack import (
    INFO,
    LDA,
    LWORK,
    NO_TRANSPOSE,
    QUERY,
    N,
    adjoint_of,
    arguments,
    asked,
    blas,
    by,
    conjugation,
    itemsize,
    leave,
    room,
    routine,
)
from fastgrad.kernels.cpu.spectra import ALL, more_for_singular_values, singular_vectors
from fastgrad.kernels.cpu.systems import lu_factors
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.reports import Builder, report_no_room
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, memcpy, words
from fastgrad.native.contracts.element_types import COMPLEX, real_of


def _factored(dtype: int, each: Any) -> Any:
    """The loop over the matrices of a batch that factors a copy of each; ``each(f, i, factors, pivots, n)`` follows."""
    size, getrf, begin, end = itemsize(dtype), lu_factors(dtype), blas(dtype).begin, blas(dtype).end

    @njit(**KERNEL)
    def over_batch(f):  # type: ignore[no-untyped-def]
        n = f.n
        pivots = room(n * 8)
        if pivots == 0:
            report_no_room(f)
            return
        at = arguments()
        begin(n * n)
        for i in range(f.batch):
            factors = f.factors + i * n * n * size
            memcpy(factors, f.a.data + i * n * n * size, n * n * size)
            getrf(at, n, n, factors, pivots)
            each(f, i, factors, words(pivots), n)
        end(n * n)
        leave(pivots)

    return over_batch


def _product_of_diagonal(dtype: int) -> Any:
    """The determinant by factors and pivots."""
    pointer, constant = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant

    @njit(**KERNEL)
    def product(factors, pivots, n):  # type: ignore[no-untyped-def]
        d, p = constant(1), pointer(factors)
        for j in range(n):
            d *= p[j * n + j] if pivots[j] == j + 1 else -p[j * n + j]
        return d

    return product


def determinant(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Determinants."""
    pointer, product = ELEMENTS[dtype].pointer, _product_of_diagonal(dtype)

    @njit(**KERNEL)
    def each(f, i, factors, pivots, n):  # type: ignore[no-untyped-def]
        pointer(f.out)[i] = product(factors, pivots, n)

    over_batch = _factored(dtype, each)

    def run(frame):  # type: ignore[no-untyped-def]
        over_batch(frames.determinant(frame))

    return run, KERNEL


def _sign(dtype: int) -> Any:
    """The function of a number that gives it with the absolute value 1; zero and NaN as they are."""
    if dtype in COMPLEX:
        return ELEMENTS[dtype].math.sgn
    one, zero = ELEMENTS[dtype].constant(1), ELEMENTS[dtype].constant(0)

    @njit(**KERNEL)
    def sign(d):  # type: ignore[no-untyped-def]
        return -one if d < zero else one if d > zero else d

    return sign


def log_determinant(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The sign of each determinant, and the logarithm of its absolute value."""
    element, real = ELEMENTS[dtype], ELEMENTS[real_of(dtype)]
    pointer, constant, numbers, zero, log = (
        element.pointer, element.constant, real.pointer, real.constant(0), real.math.log,
    )  # fmt: skip
    absolute, sign_of = element.math.abs, _sign(dtype)

    @njit(**KERNEL)
    def each(f, i, factors, pivots, n):  # type: ignore[no-untyped-def]
        p, sign, total = pointer(factors), constant(1), zero
        for j in range(n):
            d = p[j * n + j] if pivots[j] == j + 1 else -p[j * n + j]
            sign *= sign_of(d)
            total += log(absolute(d))
        pointer(f.sign)[i] = sign
        numbers(f.logarithm)[i] = total

    over_batch = _factored(dtype, each)

    def run(frame):  # type: ignore[no-untyped-def]
        over_batch(frames.log_determinant(frame))

    return run, KERNEL


def _by_singular_values(dtype: int) -> tuple[Any, Any]:
    """``decompose(at, n, a, values, left, right, work, length, more)``, after which ``a = left diag(values) right``,
    and ``sign(at, n, a, copy, pivots)``, that of the determinant.
    """
    size, gesdd, getrf, product, sign_of = (
        itemsize(dtype),
        singular_vectors(dtype),
        lu_factors(dtype),
        _product_of_diagonal(dtype),
        _sign(dtype),
    )

    @njit(**KERNEL)
    def decompose(at, n, a, values, left, right, work, length, more):  # type: ignore[no-untyped-def]
        gesdd(at, ALL, n, n, a, values, left, n, right, work, length, more)

    @njit(**KERNEL)
    def sign(at, n, a, copy, pivots):  # type: ignore[no-untyped-def]
        memcpy(copy, a, n * n * size)
        getrf(at, n, n, copy, pivots)
        return sign_of(product(copy, words(pivots), n))

    return decompose, sign


def _scaling(dtype: int) -> Any:
    """``scale(p, n, factor)`` multiplies elements."""

    @njit(**LOOP)
    def scale(p, n, factor):  # type: ignore[no-untyped-def]
        for j in range(n):
            p[j] *= factor

    return scale


def _by_products_of_values(dtype: int, sign: Any) -> Any:
    """The cofactors of a singular matrix by its singular values and vectors, for the `sign` of determinants."""
    multiply, scale, conjugate_here = blas(dtype).product, _scaling(dtype), conjugation(dtype)
    numbers, pointer = ELEMENTS[real_of(dtype)].pointer, ELEMENTS[dtype].pointer

    @njit(**KERNEL)
    def of_singular(at, n, out, copy, values, left, right, pivots):  # type: ignore[no-untyped-def]
        both = sign(at, n, left, copy, pivots) * sign(at, n, right, copy, pivots)
        conjugate_here(left, n * n)
        conjugate_here(right, n * n)
        s = numbers(values)
        for j in range(n):
            others = both
            for i in range(n):
                if i != j:
                    others *= s[i]
            scale(advance(pointer(right), j * n), n, others)
        multiply(NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, left, n, right, n, out, n)

    return of_singular


def cofactors(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The matrices of cofactors: ``det(a)`` times the inverse transposed, and of a singular matrix

    ``det(U) det(V) U C V'`` by its singular values, where C holds the products of all of these but one
    (N. Higham, What is the adjugate of a matrix?, 2020). Of a complex one U and V' are conjugate.
    """
    size, b, count, step = (
        itemsize(dtype),
        blas(dtype),
        more_for_singular_values(dtype),
        itemsize(real_of(dtype)),
    )
    pointer, getrf, getri = ELEMENTS[dtype].pointer, lu_factors(dtype), routine("getri", dtype, 7)
    product, wanted, (decompose, sign) = _product_of_diagonal(dtype), asked(dtype), _by_singular_values(dtype)
    transpose_here, begin, end = b.transpose_here, b.begin, b.end
    scale, of_singular = _scaling(dtype), _by_products_of_values(dtype, sign)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.cofactors(frame)
        n = f.n
        at = arguments()
        decompose(at, n, f.out, 0, 0, 0, by(at, QUERY), -1, by(at, QUERY))
        length = max(wanted(by(at, QUERY)), n * n)
        square = n * n * size
        further = count(ALL, n, n) * 8
        pivots = room(n * 8 + further + n * step + 3 * square + length * size)
        if pivots == 0:
            report_no_room(f)
            return
        more = pivots + n * 8
        copy = more + further
        values = copy + 3 * square + length * size
        left, right, work = copy + square, copy + 2 * square, copy + 3 * square
        w = words(at)
        begin(n * n)
        for i in range(f.batch):
            a, out = f.a.data + i * square, f.out + i * square
            memcpy(out, a, square)
            if getrf(at, n, n, out, pivots) == 0:
                d = product(out, words(pivots), n)
                w[N], w[LDA], w[LWORK] = n, max(n, 1), length
                getri(by(at, N), out, by(at, LDA), pivots, work, by(at, LWORK), by(at, INFO))
                transpose_here(out, n)
                scale(pointer(out), n * n, d)
            else:
                memcpy(copy, a, square)
                decompose(at, n, copy, values, left, right, work, length, more)
                of_singular(at, n, out, copy, values, left, right, pivots)
        end(n * n)
        leave(pivots)

    return run, KERNEL


def cofactors_derivative(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """How cofactors change with a in the direction g, which is their gradient with regard to a as well.

    In the bases of the singular vectors a is diagonal, and its cofactors are sums of products of all singular values
    but two, so that nothing is divided by what may be zero.
    """
    size, b, count, step = (
        itemsize(dtype),
        blas(dtype),
        more_for_singular_values(dtype),
        itemsize(real_of(dtype)),
    )
    pointer, constant = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant
    wanted, (decompose, sign), adjoint = asked(dtype), _by_singular_values(dtype), adjoint_of(dtype)
    multiply, begin, end, conjugate_here = b.product, b.begin, b.end, conjugation(dtype)
    numbers = ELEMENTS[real_of(dtype)].pointer

    @njit(**KERNEL)
    def rotated(to, x, s, n, factor):  # type: ignore[no-untyped-def]
        for i in range(n):
            to[i * n + i] = constant(0)
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                others = factor
                for k in range(n):
                    if k != i and k != j:
                        others *= s[k]
                to[i * n + j] = -others * x[j * n + i]
                to[i * n + i] += others * x[j * n + j]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.derivative(frame)
        n = f.n
        at = arguments()
        decompose(at, n, f.out, 0, 0, 0, by(at, QUERY), -1, by(at, QUERY))
        length = wanted(by(at, QUERY))
        square = n * n * size
        further = count(ALL, n, n) * 8
        pivots = room(n * 8 + further + n * step + 4 * square + length * size)
        if pivots == 0:
            report_no_room(f)
            return
        more = pivots + n * 8
        copy = more + further
        values = copy + 4 * square + length * size
        left, right, spare, work = copy + square, copy + 2 * square, copy + 3 * square, copy + 4 * square
        begin(n * n)
        for i in range(f.batch):
            memcpy(copy, f.a.data + i * square, square)
            decompose(at, n, copy, values, left, right, work, length, more)
            both = sign(at, n, left, copy, pivots) * sign(at, n, right, copy, pivots)
            multiply(adjoint, NO_TRANSPOSE, n, n, n, left, n, f.g.data + i * square, n, copy, n)
            multiply(NO_TRANSPOSE, adjoint, n, n, n, copy, n, right, n, spare, n)
            rotated(pointer(copy), pointer(spare), numbers(values), n, both)
            conjugate_here(left, n * n)
            conjugate_here(right, n * n)
            multiply(NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, left, n, copy, n, spare, n)
            multiply(NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, spare, n, right, n, f.out + i * square, n)
        end(n * n)
        leave(pivots)

    return run, KERNEL
