"""Kernels of systems of equations: LU, Cholesky and LDL factors, what is solved and inverted with them, determinants."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from fastgrad.kernels.cpu.lapack import (
    INFO,
    JOB,
    K,
    LDA,
    LWORK,
    LOWER,
    NO_TRANSPOSE,
    NOT_UNIT,
    QUERY,
    TRANSPOSE,
    UNIT,
    UPLO,
    UPPER,
    M,
    N,
    arguments,
    asked,
    blas,
    by,
    itemsize,
    leave,
    room,
    routine,
)
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.reports import Builder, report_index, report_no_room
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, i32s, memcpy, words

U, L, ALL, LENGTH = ord("U"), ord("L"), ord("A"), 1  # letters, and how long they are


@njit(**LOOP)
def _narrow(to, pivots, n):  # type: ignore[no-untyped-def]
    """LAPACK's pivots as int32."""
    for i in range(n):
        to[i] = types.int32(pivots[i])


# --- LU ------------------------------------------------------------------------------------------------------------


def _getrf(dtype: int) -> Any:
    """``getrf(at, m, n, a, pivots)`` factors a matrix by columns; what LAPACK says of it."""
    lapack = routine("getrf", dtype, 6)

    @njit(**KERNEL)
    def getrf(at, m, n, a, pivots):  # type: ignore[no-untyped-def]
        w = words(at)
        w[M], w[N], w[LDA] = m, n, max(m, 1)
        lapack(by(at, M), by(at, N), a, by(at, LDA), pivots, by(at, INFO))
        return w[INFO]

    return getrf


def _singular(dtype: int, getrf: Any) -> Any:
    """The number of the pivot that is zero in a singular matrix, where the factors were those of the transposed one."""
    transpose, size = blas(dtype).transpose, itemsize(dtype)

    @njit(**KERNEL)
    def pivot(at, a, n, pivots, info):  # type: ignore[no-untyped-def]
        if info <= 0:
            return info
        by_columns = room(n * n * size)
        if by_columns == 0:
            return info
        transpose(by_columns, a, n, n)
        found = getrf(at, n, n, by_columns, pivots)
        leave(by_columns)
        return found if found > 0 else info

    return pivot


def _interchange(dtype: int) -> Any:
    """``swap(x, n, k, pivots, backwards)`` does the interchanges of rows that LAPACK's pivots say, or undoes them."""
    pointer = ELEMENTS[dtype].pointer

    @njit(**LOOP)
    def exchange(p, q, k):  # type: ignore[no-untyped-def]
        for j in range(k):
            p[j], q[j] = q[j], p[j]

    @njit(**KERNEL)
    def swap(x, n, k, pivots, backwards):  # type: ignore[no-untyped-def]
        p = pointer(x)
        for step in range(n):
            i = n - 1 - step if backwards else step
            other = pivots[i] - 1
            if other != i:
                exchange(advance(p, i * k), advance(p, other * k), k)

    return swap


def solve(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Solutions of ``a x = b``, and the factors of a transposed: see Note [Matrices by columns] in `lapack`."""
    size, b, getrf, swap = itemsize(dtype), blas(dtype), _getrf(dtype), _interchange(dtype)
    singular, triangular, begin, end = _singular(dtype, getrf), b.triangular, b.begin, b.end

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.solve(frame)
        n, k = f.n, f.k
        pivots = room(n * 8)
        if pivots == 0:
            report_no_room(f)
            return
        at = arguments()
        begin(n * max(n, k))
        for i in range(f.batch):
            a, factors, out = f.a.data + i * n * n * size, f.factors + i * n * n * size, f.out + i * n * k * size
            memcpy(factors, a, n * n * size)
            memcpy(out, f.b.data + i * n * k * size, n * k * size)
            info = getrf(at, n, n, factors, pivots)
            _narrow(advance(i32s(f.pivots), i * n), words(pivots), n)
            # a = (P L U) transposed, so that a lower triangle comes first.
            triangular(LOWER, NO_TRANSPOSE, NOT_UNIT, n, k, factors, n, out)
            triangular(UPPER, NO_TRANSPOSE, UNIT, n, k, factors, n, out)
            swap(out, n, k, words(pivots), True)
            i32s(f.info)[i] = types.int32(singular(at, a, n, pivots, info))
        end(n * max(n, k))
        leave(pivots)

    return run, KERNEL


def inverse(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Inverse matrices: the inverse of the transposed matrix lies by columns as the inverse does by rows."""
    size, getrf, getri, wanted = itemsize(dtype), _getrf(dtype), routine("getri", dtype, 7), asked(dtype)
    singular, begin, end = _singular(dtype, getrf), blas(dtype).begin, blas(dtype).end
    pointer, nan = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(np.nan)

    @njit(**LOOP)
    def fill(p, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            p[j] = nan

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.inverse(frame)
        n = f.n
        at = arguments()
        w = words(at)
        w[N], w[LDA], w[LWORK] = n, max(n, 1), -1
        getri(by(at, N), f.out, by(at, LDA), 0, by(at, QUERY), by(at, LWORK), by(at, INFO))
        length = wanted(by(at, QUERY))
        pivots = room(n * 8 + length * size)
        if pivots == 0:
            report_no_room(f)
            return
        begin(n * n)
        for i in range(f.batch):
            a, out = f.a.data + i * n * n * size, f.out + i * n * n * size
            memcpy(out, a, n * n * size)
            info = getrf(at, n, n, out, pivots)
            if info == 0:
                w[LWORK] = length
                getri(by(at, N), out, by(at, LDA), pivots, pivots + n * 8, by(at, LWORK), by(at, INFO))
            else:
                fill(pointer(out), n * n)
            i32s(f.info)[i] = types.int32(singular(at, a, n, pivots, info))
        end(n * n)
        leave(pivots)

    return run, KERNEL


def _factored(dtype: int, each: Any) -> Any:
    """The loop over the matrices of a batch that factors a copy of each; ``each(f, i, factors, pivots, n)`` follows."""
    size, getrf, begin, end = itemsize(dtype), _getrf(dtype), blas(dtype).begin, blas(dtype).end

    @njit(**KERNEL)
    def over_batch(f):  # type: ignore[no-untyped-def]
        n = f.n
        pivots = room(n * 8 + n * n * size)
        if pivots == 0:
            report_no_room(f)
            return
        at = arguments()
        factors = pivots + n * 8
        begin(n * n)
        for i in range(f.batch):
            memcpy(factors, f.a.data + i * n * n * size, n * n * size)
            getrf(at, n, n, factors, pivots)
            each(f, i, factors, words(pivots), n)
        end(n * n)
        leave(pivots)

    return over_batch


def _product_of_diagonal(dtype: int) -> Any:
    """The determinant by factors and pivots."""
    pointer, one = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(1)

    @njit(**KERNEL)
    def product(factors, pivots, n):  # type: ignore[no-untyped-def]
        d, p = one, pointer(factors)
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


def log_determinant(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The sign of each determinant, and the logarithm of its absolute value."""
    element = ELEMENTS[dtype]
    pointer, one, zero, log = element.pointer, element.constant(1), element.constant(0), element.math.log

    @njit(**KERNEL)
    def each(f, i, factors, pivots, n):  # type: ignore[no-untyped-def]
        p, sign, total = pointer(factors), one, zero
        for j in range(n):
            d = p[j * n + j] if pivots[j] == j + 1 else -p[j * n + j]
            if d < zero:
                sign = -sign
            elif not d > zero:
                sign = sign * d  # zero or NaN
            total += log(abs(d))
        pointer(f.sign)[i] = sign
        pointer(f.out)[i] = total

    over_batch = _factored(dtype, each)

    def run(frame):  # type: ignore[no-untyped-def]
        over_batch(frames.log_determinant(frame))

    return run, KERNEL


def _by_singular_values(dtype: int) -> tuple[Any, Any]:
    """``decompose(at, n, a, values, left, right, work, length, more)``, after which ``a = left diag(values) right``,
    and ``sign(at, n, a, copy, pivots)``, that of the determinant.

    By columns, a transposed is U S V', of which V' by rows is `left`, and U `right`.
    """
    size, gesdd, getrf, product = itemsize(dtype), routine("gesdd", dtype, 15), _getrf(dtype), _product_of_diagonal(dtype)
    one = ELEMENTS[dtype].constant(1)

    @njit(**KERNEL)
    def decompose(at, n, a, values, left, right, work, length, more):  # type: ignore[no-untyped-def]
        w = words(at)
        w[JOB], w[M], w[N], w[LDA], w[LWORK] = ALL, n, n, max(n, 1), length
        lda = by(at, LDA)
        gesdd(
            by(at, JOB), by(at, M), by(at, N), a, lda, values, right, lda, left, lda, work, by(at, LWORK), more,
            by(at, INFO), LENGTH,
        )  # fmt: skip

    @njit(**KERNEL)
    def sign(at, n, a, copy, pivots):  # type: ignore[no-untyped-def]
        memcpy(copy, a, n * n * size)
        getrf(at, n, n, copy, pivots)
        return -one if product(copy, words(pivots), n) < 0 else one

    return decompose, sign


def cofactors(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The matrices of cofactors: ``det(a)`` times the inverse transposed, and of a singular matrix

    ``det(U) det(V) U C V'`` by its singular values, where C holds the products of all of these but one
    (N. Higham, What is the adjugate of a matrix?, 2020).
    """
    element, size, b = ELEMENTS[dtype], itemsize(dtype), blas(dtype)
    pointer, getrf, getri = element.pointer, _getrf(dtype), routine("getri", dtype, 7)
    product, wanted, (decompose, sign) = _product_of_diagonal(dtype), asked(dtype), _by_singular_values(dtype)
    transpose_here, multiply, begin, end = b.transpose_here, b.product, b.begin, b.end

    @njit(**LOOP)
    def scale(p, n, factor):  # type: ignore[no-untyped-def]
        for j in range(n):
            p[j] *= factor

    @njit(**KERNEL)
    def of_singular(at, n, out, copy, values, left, right, pivots):  # type: ignore[no-untyped-def]
        both = sign(at, n, left, copy, pivots) * sign(at, n, right, copy, pivots)
        s = pointer(values)
        for j in range(n):
            others = both
            for i in range(n):
                if i != j:
                    others *= s[i]
            scale(advance(pointer(right), j * n), n, others)
        multiply(NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, left, n, right, n, out, n)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.cofactors(frame)
        n = f.n
        at = arguments()
        decompose(at, n, f.out, 0, 0, 0, by(at, QUERY), -1, by(at, QUERY))
        length = max(wanted(by(at, QUERY)), n * n)
        square = n * n * size
        pivots = room((1 + 8) * n * 8 + n * size + 3 * square + length * size)
        if pivots == 0:
            report_no_room(f)
            return
        more, values = pivots + n * 8, pivots + 9 * n * 8
        copy = values + n * size
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
    element, size, b = ELEMENTS[dtype], itemsize(dtype), blas(dtype)
    pointer, zero = element.pointer, element.constant(0)
    wanted, (decompose, sign) = asked(dtype), _by_singular_values(dtype)
    multiply, begin, end = b.product, b.begin, b.end

    @njit(**KERNEL)
    def rotated(to, x, s, n, factor):  # type: ignore[no-untyped-def]
        for i in range(n):
            to[i * n + i] = zero
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
        pivots = room((1 + 8) * n * 8 + n * size + 4 * square + length * size)
        if pivots == 0:
            report_no_room(f)
            return
        more, values = pivots + n * 8, pivots + 9 * n * 8
        copy = values + n * size
        left, right, spare, work = copy + square, copy + 2 * square, copy + 3 * square, copy + 4 * square
        begin(n * n)
        for i in range(f.batch):
            memcpy(copy, f.a.data + i * square, square)
            decompose(at, n, copy, values, left, right, work, length, more)
            both = sign(at, n, left, copy, pivots) * sign(at, n, right, copy, pivots)
            multiply(TRANSPOSE, NO_TRANSPOSE, n, n, n, left, n, f.g.data + i * square, n, copy, n)
            multiply(NO_TRANSPOSE, TRANSPOSE, n, n, n, copy, n, right, n, spare, n)
            rotated(pointer(copy), pointer(spare), pointer(values), n, both)
            multiply(NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, left, n, copy, n, spare, n)
            multiply(NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, spare, n, right, n, f.out + i * square, n)
        end(n * n)
        leave(pivots)

    return run, KERNEL


def lu(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """L, without its ones, and U in one matrix, and pivots."""
    size, b, getrf = itemsize(dtype), blas(dtype), _getrf(dtype)
    transpose, begin, end = b.transpose, b.begin, b.end

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.lu(frame)
        m, n, k = f.m, f.n, f.k
        pivots = room(k * 8 + m * n * size)
        if pivots == 0:
            report_no_room(f)
            return
        at = arguments()
        factors = pivots + k * 8
        begin(m * n)
        for i in range(f.batch):
            transpose(factors, f.a.data + i * m * n * size, m, n)
            info = getrf(at, m, n, factors, pivots)
            transpose(f.out + i * m * n * size, factors, n, m)
            _narrow(advance(i32s(f.pivots), i * k), words(pivots), k)
            i32s(f.info)[i] = types.int32(info)
        end(m * n)
        leave(pivots)

    return run, KERNEL


def interchange(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The interchanges of rows that pivots say, or, `backwards`, what undoes them."""
    size, swap = itemsize(dtype), _interchange(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.interchange(frame)
        n, k, p = f.n, f.k, f.p
        for i in range(f.batch):
            pivots = advance(i32s(f.pivots.data), i * p)
            for j in range(p):
                if pivots[j] < 1 or pivots[j] > n or p > n:
                    report_index(f, types.int64(pivots[j]), n)
                    return
            out = f.out + i * n * k * size
            memcpy(out, f.x.data + i * n * k * size, n * k * size)
            swap(out, p, k, pivots, f.backwards != 0)

    return run, KERNEL


# --- triangles -----------------------------------------------------------------------------------------------------


def triangular(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Solutions of ``a x = b`` for a triangle of a: the `upper` one, with ones on its diagonal (`unit`), `transposed`."""
    size, b = itemsize(dtype), blas(dtype)
    solve_here, begin, end = b.triangular, b.begin, b.end

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.triangular(frame)
        n, k = f.n, f.k
        uplo, unit = UPPER if f.upper else LOWER, UNIT if f.unit else NOT_UNIT
        trans = TRANSPOSE if f.transposed else NO_TRANSPOSE
        begin(n * max(n, k))
        for i in range(f.batch):
            out = f.out + i * n * k * size
            memcpy(out, f.b.data + i * n * k * size, n * k * size)
            solve_here(uplo, trans, unit, n, k, f.a.data + i * n * n * size, n, out)
        end(n * max(n, k))

    return run, KERNEL


def cholesky(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The lower triangle L of ``a = L L'``, of which the lower triangle is read: the upper one by columns."""
    element, size, potrf = ELEMENTS[dtype], itemsize(dtype), routine("potrf", dtype, 6)
    pointer, zero, begin, end = element.pointer, element.constant(0), blas(dtype).begin, blas(dtype).end

    @njit(**LOOP)
    def copy_lower(to, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(i + 1):
                to[i * n + j] = x[i * n + j]
            for j in range(i + 1, n):
                to[i * n + j] = zero

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.cholesky(frame)
        n = f.n
        at = arguments()
        w = words(at)
        begin(n * n)
        for i in range(f.batch):
            out = f.out + i * n * n * size
            copy_lower(pointer(out), pointer(f.a.data + i * n * n * size), n)
            w[UPLO], w[N], w[LDA] = U, n, max(n, 1)
            potrf(by(at, UPLO), by(at, N), out, by(at, LDA), by(at, INFO), LENGTH)
            i32s(f.info)[i] = types.int32(w[INFO])
        end(n * n)

    return run, KERNEL


# --- LDL -----------------------------------------------------------------------------------------------------------


def ldl(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The factors L and D of symmetric matrices in one matrix, and pivots."""
    size, b = itemsize(dtype), blas(dtype)
    sytrf, wanted = routine("sytrf", dtype, 9), asked(dtype)
    transpose, begin, end = b.transpose, b.begin, b.end
    pointer, zero = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(0)

    @njit(**LOOP)
    def clear_upper(p, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(i + 1, n):
                p[i * n + j] = zero

    @njit(**KERNEL)
    def factor(at, n, a, pivots, work, length):  # type: ignore[no-untyped-def]
        w = words(at)
        w[UPLO], w[N], w[LDA], w[LWORK] = L, n, max(n, 1), length
        sytrf(
            by(at, UPLO), by(at, N), a, by(at, LDA), pivots, work, by(at, LWORK), by(at, INFO), LENGTH
        )
        return w[INFO]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.ldl(frame)
        n = f.n
        at = arguments()
        factor(at, n, f.out, 0, by(at, QUERY), -1)
        length = wanted(by(at, QUERY))
        pivots = room(n * 8 + n * n * size + length * size)
        if pivots == 0:
            report_no_room(f)
            return
        factors = pivots + n * 8
        begin(n * n)
        for i in range(f.batch):
            transpose(factors, f.a.data + i * n * n * size, n, n)
            info = factor(at, n, factors, pivots, factors + n * n * size, length)
            transpose(f.out + i * n * n * size, factors, n, n)
            clear_upper(pointer(f.out + i * n * n * size), n)
            _narrow(advance(i32s(f.pivots), i * n), words(pivots), n)
            i32s(f.info)[i] = types.int32(info)
        end(n * n)
        leave(pivots)

    return run, KERNEL


@njit(**KERNEL)
def _wrong_pivot(pivots, n):  # type: ignore[no-untyped-def]
    """The place of a pivot that no LDL decomposition has, or -1: negative ones come in pairs."""
    i = 0
    while i < n:
        p = pivots[i]
        if p > 0:
            if p > n:
                return i
            i += 1
        elif p == 0 or -p > n or i + 1 == n or pivots[i + 1] >= 0 or -pivots[i + 1] > n:
            return i
        else:
            i += 2
    return -1


def ldl_solve(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Solutions of ``a x = b`` by the LDL factors of a."""
    size, b, sytrs = itemsize(dtype), blas(dtype), routine("sytrs", dtype, 10)
    transpose, begin, end = b.transpose, b.begin, b.end

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.ldl_solve(frame)
        n, k = f.n, f.k
        wide = room(n * 8 + (n * n + n * k) * size)
        if wide == 0:
            report_no_room(f)
            return
        at = arguments()
        w = words(at)
        factors = wide + n * 8
        x = factors + n * n * size
        begin(n * max(n, k))
        for i in range(f.batch):
            pivots = advance(i32s(f.pivots.data), i * n)
            wrong = _wrong_pivot(pivots, n)
            if wrong >= 0:
                report_index(f, types.int64(pivots[wrong]), n)
                break
            for j in range(n):
                words(wide)[j] = pivots[j]
            transpose(factors, f.a.data + i * n * n * size, n, n)
            transpose(x, f.b.data + i * n * k * size, n, k)
            w[UPLO], w[N], w[K], w[LDA] = L, n, k, max(n, 1)
            sytrs(
                by(at, UPLO), by(at, N), by(at, K), factors, by(at, LDA), wide, x, by(at, LDA), by(at, INFO), LENGTH
            )
            transpose(f.out + i * n * k * size, x, k, n)
        end(n * max(n, k))
        leave(wide)

    return run, KERNEL


# --- exponentials --------------------------------------------------------------------------------------------------

# Coefficients of the numerators of diagonal Pade approximants, and the norms up to which they are exact to rounding
# (N. Higham, The scaling and squaring method for the matrix exponential revisited, SIAM Review 51, 2009).
_PADE = {
    4: ((17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0), 3.925724783138660),
    8: (
        (
            64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
            10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
        ),
        5.371920351148152,
    ),
}  # fmt: skip


def _exponential(dtype: int) -> Any:
    """``expm(at, out, a, n, work, pivots)``; the work is of 6 matrices. Higher powers come by Horner's rule."""
    element, size, b = ELEMENTS[dtype], itemsize(dtype), blas(dtype)
    pointer, constant = element.pointer, element.constant
    numerator, largest = _PADE[size]
    coefficients = tuple(constant(c) for c in numerator)
    half, one, zero, nan = (constant(c) for c in (0.5, 1, 0, np.nan))
    degree = len(coefficients) - 1
    getrf, swap = _getrf(dtype), _interchange(dtype)
    multiply, triangular = b.product, b.triangular

    @njit(**KERNEL)
    def times(to, x, y, n):  # type: ignore[no-untyped-def]
        multiply(NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, x, n, y, n, to, n)

    @njit(**KERNEL)
    def norm(p, n):  # type: ignore[no-untyped-def]
        most = zero
        for i in range(n):
            total = zero
            for j in range(n):
                total += abs(p[i * n + j])
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
    pointer, zero, begin, end = element.pointer, element.constant(0), blas(dtype).begin, blas(dtype).end

    @njit(**LOOP)
    def fill(block, a, g, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(n):
                block[2 * i * n + j] = a[i * n + j]
                block[2 * i * n + n + j] = g[i * n + j]
                block[2 * (n + i) * n + j] = zero
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
