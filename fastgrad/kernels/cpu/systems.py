"""Kernels of systems of equations: LU, Cholesky and LDL factors, what is solved and inverted with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from fastgrad.kernels.cpu.lapack import (
    INFO,
    LDA,
    LOWER,
    LWORK,
    NO_TRANSPOSE,
    NOT_UNIT,
    QUERY,
    TRANSPOSE,
    UNIT,
    UPLO,
    UPPER,
    K,
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
from fastgrad.native.contracts.element_types import COMPLEX

U, L, ALL, LENGTH = ord("U"), ord("L"), ord("A"), 1  # letters, and how long they are


@njit(**LOOP)
def _narrow(to, pivots, n):  # type: ignore[no-untyped-def]
    """LAPACK's pivots as int32."""
    for i in range(n):
        to[i] = types.int32(pivots[i])


# --- LU ------------------------------------------------------------------------------------------------------------


def lu_factors(dtype: int) -> Any:
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


def interchanges(dtype: int) -> Any:
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
    size, b, getrf, swap = itemsize(dtype), blas(dtype), lu_factors(dtype), interchanges(dtype)
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
            a, factors, out = (
                f.a.data + i * n * n * size,
                f.factors + i * n * n * size,
                f.out + i * n * k * size,
            )
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
    size, getrf, getri, wanted = itemsize(dtype), lu_factors(dtype), routine("getri", dtype, 7), asked(dtype)
    singular, begin, end = _singular(dtype, getrf), blas(dtype).begin, blas(dtype).end
    pointer, constant = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant

    @njit(**LOOP)
    def fill(p, n):  # type: ignore[no-untyped-def]
        for j in range(n):
            p[j] = constant(np.nan)

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
            _narrow(advance(i32s(f.pivots), i * n), words(pivots), n)
            if info == 0:
                w[LWORK] = length
                getri(by(at, N), out, by(at, LDA), pivots, pivots + n * 8, by(at, LWORK), by(at, INFO))
            else:
                fill(pointer(out), n * n)
            i32s(f.info)[i] = types.int32(singular(at, a, n, pivots, info))
        end(n * n)
        leave(pivots)

    return run, KERNEL


def lu(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """L, without its ones, and U in one matrix, and pivots."""
    size, b, getrf = itemsize(dtype), blas(dtype), lu_factors(dtype)
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
    size, swap = itemsize(dtype), interchanges(dtype)

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
    """Solutions of ``a x = b`` by a triangle of a: `upper`, with ones on its diagonal (`unit`), `transposed` or not."""
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
    pointer, constant, begin, end = element.pointer, element.constant, blas(dtype).begin, blas(dtype).end

    @njit(**LOOP)
    def copy_lower(to, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(i + 1):
                to[i * n + j] = x[i * n + j]
            for j in range(i + 1, n):
                to[i * n + j] = constant(0)

    @njit(**LOOP)
    def first_nan(p, n):  # type: ignore[no-untyped-def]
        """The number of the first NaN on the diagonal, or zero: OpenBLAS does not say that it has met one."""
        for i in range(n):
            if p[i * n + i] != p[i * n + i]:
                return i + 1
        return 0

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
            i32s(f.info)[i] = types.int32(w[INFO] if w[INFO] != 0 else first_nan(pointer(out), n))
        end(n * n)

    return run, KERNEL


# --- LDL -----------------------------------------------------------------------------------------------------------


def _of_both_kinds(name: str, dtype: int, n_arguments: int) -> tuple[Any, Any]:
    """The routines of a name for symmetric and for Hermitian matrices, which real ones are both of."""
    hermitian = "he" if dtype in COMPLEX else "sy"
    return routine(f"sy{name}", dtype, n_arguments), routine(f"{hermitian}{name}", dtype, n_arguments)


def ldl(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The factors L and D of symmetric or `hermitian` matrices in one matrix, and pivots."""
    size, b = itemsize(dtype), blas(dtype)
    sytrf, hetrf = _of_both_kinds("trf", dtype, 9)
    transpose, begin, end, wanted = b.transpose, b.begin, b.end, asked(dtype)
    pointer, constant = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant

    @njit(**LOOP)
    def clear_upper(p, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            for j in range(i + 1, n):
                p[i * n + j] = constant(0)

    @njit(**KERNEL)
    def factor(at, hermitian, n, a, pivots, work, length):  # type: ignore[no-untyped-def]
        w = words(at)
        w[UPLO], w[N], w[LDA], w[LWORK] = L, n, max(n, 1), length
        if hermitian:
            hetrf(by(at, UPLO), by(at, N), a, by(at, LDA), pivots, work, by(at, LWORK), by(at, INFO), LENGTH)
        else:
            sytrf(by(at, UPLO), by(at, N), a, by(at, LDA), pivots, work, by(at, LWORK), by(at, INFO), LENGTH)
        return w[INFO]

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.ldl(frame)
        n = f.n
        at = arguments()
        factor(at, f.hermitian != 0, n, f.out, 0, by(at, QUERY), -1)
        length = wanted(by(at, QUERY))
        pivots = room(n * 8 + n * n * size + length * size)
        if pivots == 0:
            report_no_room(f)
            return
        factors = pivots + n * 8
        begin(n * n)
        for i in range(f.batch):
            transpose(factors, f.a.data + i * n * n * size, n, n)
            info = factor(at, f.hermitian != 0, n, factors, pivots, factors + n * n * size, length)
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
    size, b, (sytrs, hetrs) = itemsize(dtype), blas(dtype), _of_both_kinds("trs", dtype, 10)
    transpose, begin, end = b.transpose, b.begin, b.end

    @njit(**KERNEL)
    def solve_here(at, hermitian, n, k, factors, pivots, x):  # type: ignore[no-untyped-def]
        w = words(at)
        w[UPLO], w[N], w[K], w[LDA] = L, n, k, max(n, 1)
        uplo, order, columns, lda, info = by(at, UPLO), by(at, N), by(at, K), by(at, LDA), by(at, INFO)
        if hermitian:
            hetrs(uplo, order, columns, factors, lda, pivots, x, lda, info, LENGTH)
        else:
            sytrs(uplo, order, columns, factors, lda, pivots, x, lda, info, LENGTH)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.ldl_solve(frame)
        n, k = f.n, f.k
        wide = room(n * 8 + (n * n + n * k) * size)
        if wide == 0:
            report_no_room(f)
            return
        at = arguments()
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
            solve_here(at, f.hermitian != 0, n, k, factors, wide, x)
            transpose(f.out + i * n * k * size, x, k, n)
        end(n * max(n, k))
        leave(wide)

    return run, KERNEL
