"""Kernels of eigenvalues and singular values, and of what they give: pseudo-inverses, least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from fastgrad.kernels.cpu.lapack import (
    INFO,
    JOB,
    LDA,
    LDB,
    LDC,
    LIWORK,
    LRWORK,
    LWORK,
    QUERY,
    RANK,
    RCOND,
    TRANS,
    UPLO,
    K,
    M,
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
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.reports import Builder, report_no_room
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import float_of, i32s, memcpy, memset, words
from fastgrad.native.contracts.element_types import COMPLEX, FLOAT32, real_of
from fastgrad.native.contracts.frames.linalg import GELS, GELSD, GELSY

U, L, ALL, SOME, NONE, VECTORS, PLAIN = (ord(letter) for letter in "ULASNVN")
LENGTH = 1  # of a letter
NOT_FINITE = -4  # what LAPACK says, in some routines, of a matrix that holds NaN


# --- symmetric matrices --------------------------------------------------------------------------------------------


def _syevd(dtype: int) -> Any:
    """``syevd(at, job, lower, n, a, values, work, lwork, iwork, liwork)``; the triangles are those of rows.

    Behind the integers of `iwork` complex matrices need `_real_room` words more.
    """
    if dtype in COMPLEX:
        return _heevd(dtype)
    lapack = routine("syevd", dtype, 13)

    @njit(**KERNEL)
    def syevd(at, job, lower, n, a, values, work, lwork, iwork, liwork):  # type: ignore[no-untyped-def]
        w = words(at)
        w[JOB], w[UPLO], w[N], w[LDA], w[LWORK], w[LIWORK] = (
            job,
            U if lower else L,
            n,
            max(n, 1),
            lwork,
            liwork,
        )
        lapack(
            by(at, JOB), by(at, UPLO), by(at, N), a, by(at, LDA), values, work, by(at, LWORK), iwork, by(at, LIWORK),
            by(at, INFO), LENGTH, LENGTH,
        )  # fmt: skip
        return w[INFO]

    return syevd


@njit(**KERNEL)
def _real_room(job, n):  # type: ignore[no-untyped-def]
    """Real numbers that LAPACK works with where matrices are complex."""
    return 1 + 5 * n + 2 * n * n if job == VECTORS else n


def _heevd(dtype: int) -> Any:
    lapack = routine("syevd", dtype, 15)

    @njit(**KERNEL)
    def heevd(at, job, lower, n, a, values, work, lwork, iwork, liwork):  # type: ignore[no-untyped-def]
        w = words(at)
        w[JOB], w[UPLO], w[N], w[LDA] = job, U if lower else L, n, max(n, 1)
        w[LWORK], w[LIWORK], w[LRWORK] = lwork, liwork, _real_room(job, n) if lwork >= 0 else -1
        rwork = iwork + liwork * 8 if lwork >= 0 else by(at, RCOND)
        lapack(
            by(at, JOB), by(at, UPLO), by(at, N), a, by(at, LDA), values, work, by(at, LWORK), rwork, by(at, LRWORK),
            iwork, by(at, LIWORK), by(at, INFO), LENGTH, LENGTH,
        )  # fmt: skip
        return w[INFO]

    return heevd


def _each_symmetric(dtype: int, job: int) -> Any:
    """``over_batch(f, copies)`` decomposes copies of matrices, which become their eigenvectors if `job` says so."""
    size, syevd, wanted, conjugate_here = itemsize(dtype), _syevd(dtype), asked(dtype), conjugation(dtype)
    transpose_here, begin, end = blas(dtype).transpose_here, blas(dtype).begin, blas(dtype).end
    keeps, pointer, step = job == VECTORS, ELEMENTS[real_of(dtype)].pointer, itemsize(real_of(dtype))
    pairs = dtype in COMPLEX

    @njit(**KERNEL)
    def over_batch(f, copies):  # type: ignore[no-untyped-def]
        n = f.n
        if n == 0:
            memset(f.info, 0, f.batch * 4)
            return
        at = arguments()
        syevd(at, job, f.lower, n, 0, 0, by(at, QUERY), -1, by(at, RANK), -1)
        length, count = wanted(by(at, QUERY)), words(at)[RANK]
        square = n * n * size
        further = count + _real_room(job, n) if pairs else count
        more = room(further * 8 + length * size)
        if more == 0:
            report_no_room(f)
            return
        work = more + further * 8
        begin(n * n)
        for i in range(f.batch):
            a = copies + i * square
            memcpy(a, f.a.data + i * square, square)
            info = syevd(at, job, f.lower, n, a, f.values + i * n * step, work, length, more, count)
            values = pointer(f.values + i * n * step)
            if info == 0 and not values[0] <= values[n - 1]:
                info = NOT_FINITE
            if keeps:
                transpose_here(a, n)
                conjugate_here(a, n * n)
            i32s(f.info)[i] = types.int32(info)
        end(n * n)
        leave(more)

    return over_batch


def eigh(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns."""
    over_batch = _each_symmetric(dtype, VECTORS)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.eigh(frame)
        over_batch(f, f.vectors)

    return run, KERNEL


def eigvalsh(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Eigenvalues of symmetric matrices in ascending order."""
    over_batch = _each_symmetric(dtype, PLAIN)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.eigvalsh(frame)
        over_batch(f, f.work)

    return run, KERNEL


# --- singular values -----------------------------------------------------------------------------------------------


@njit(**KERNEL)
def _more_of_floats(job, m, n):  # type: ignore[no-untyped-def]
    return 8 * min(m, n)


@njit(**KERNEL)
def _more_of_pairs(job, m, n):  # type: ignore[no-untyped-def]
    k = min(m, n)
    return 8 * k + (7 * k if job == NONE else max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k))


def more_for_singular_values(dtype: int) -> Any:
    """``words(job, m, n)``: how many words `more` has for `singular_vectors`: integers, and behind them real numbers
    where matrices are complex.
    """
    return _more_of_pairs if dtype in COMPLEX else _more_of_floats


def singular_vectors(dtype: int) -> Any:
    """``gesdd(at, job, m, n, a, values, u, columns, vh, work, lwork, more)``, of matrices by rows; `a` is lost.

    By columns it is the transposed matrix, whose U is V, and V transposed U transposed.
    """
    if dtype in COMPLEX:
        return _singular_vectors_of_pairs(dtype)
    lapack = routine("gesdd", dtype, 15)

    @njit(**KERNEL)
    def gesdd(at, job, m, n, a, values, u, columns, vh, work, lwork, more):  # type: ignore[no-untyped-def]
        w = words(at)
        w[JOB], w[M], w[N], w[LDA], w[LDB], w[LDC] = job, n, m, max(n, 1), max(n, 1), max(columns, 1)
        w[LWORK] = lwork
        lapack(
            by(at, JOB), by(at, M), by(at, N), a, by(at, LDA), values, vh, by(at, LDB), u, by(at, LDC), work,
            by(at, LWORK), more, by(at, INFO), LENGTH,
        )  # fmt: skip
        return w[INFO]

    return gesdd


def _singular_vectors_of_pairs(dtype: int) -> Any:
    lapack = routine("gesdd", dtype, 16)

    @njit(**KERNEL)
    def gesdd(at, job, m, n, a, values, u, columns, vh, work, lwork, more):  # type: ignore[no-untyped-def]
        w = words(at)
        w[JOB], w[M], w[N], w[LDA], w[LDB], w[LDC] = job, n, m, max(n, 1), max(n, 1), max(columns, 1)
        w[LWORK] = lwork
        lapack(
            by(at, JOB), by(at, M), by(at, N), a, by(at, LDA), values, vh, by(at, LDB), u, by(at, LDC), work,
            by(at, LWORK), more + 8 * min(m, n) * 8, more, by(at, INFO), LENGTH,
        )  # fmt: skip
        return w[INFO]

    return gesdd


def svd(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """U, singular values in descending order, and V transposed."""
    element, size, gesdd, wanted = ELEMENTS[dtype], itemsize(dtype), singular_vectors(dtype), asked(dtype)
    pointer, constant, begin, end = element.pointer, element.constant, blas(dtype).begin, blas(dtype).end
    count, step = more_for_singular_values(dtype), itemsize(real_of(dtype))

    @njit(**KERNEL)
    def identities(address, batch, n, rows):  # type: ignore[no-untyped-def]
        memset(address, 0, batch * n * rows * size)
        p = pointer(address)
        for i in range(batch):
            for j in range(min(n, rows)):
                p[i * n * rows + j * n + j] = constant(1)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.svd(frame)
        m, n, k, columns, rows = f.m, f.n, f.k, f.columns, f.rows
        if k == 0:
            identities(f.u, f.batch, columns, m)
            identities(f.vh, f.batch, n, rows)
            memset(f.info, 0, f.batch * 4)
            return
        job = ALL if columns > k or rows > k else SOME
        at = arguments()
        gesdd(at, job, m, n, 0, 0, 0, columns, 0, by(at, QUERY), -1, 0)
        length = wanted(by(at, QUERY))
        further = count(job, m, n) * 8
        more = room(further + length * size + m * n * size)
        if more == 0:
            report_no_room(f)
            return
        work = more + further
        a = work + length * size
        begin(m * n)
        for i in range(f.batch):
            memcpy(a, f.a.data + i * m * n * size, m * n * size)
            info = gesdd(
                at, job, m, n, a, f.values + i * k * step, f.u + i * m * columns * size, columns,
                f.vh + i * rows * n * size, work, length, more,
            )  # fmt: skip
            i32s(f.info)[i] = types.int32(info)
        end(m * n)
        leave(more)

    return run, KERNEL


def svdvals(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Singular values in descending order."""
    size, gesdd, wanted = itemsize(dtype), singular_vectors(dtype), asked(dtype)
    begin, end, step = blas(dtype).begin, blas(dtype).end, itemsize(real_of(dtype))
    count = more_for_singular_values(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.svdvals(frame)
        m, n, k = f.m, f.n, f.k
        if k == 0:
            memset(f.info, 0, f.batch * 4)
            return
        at = arguments()
        gesdd(at, NONE, m, n, 0, 0, 0, 1, 0, by(at, QUERY), -1, 0)
        length = wanted(by(at, QUERY))
        further = count(NONE, m, n) * 8
        more = room(further + length * size)
        if more == 0:
            report_no_room(f)
            return
        work = more + further
        begin(m * n)
        for i in range(f.batch):
            a = f.work + i * m * n * size
            memcpy(a, f.a.data + i * m * n * size, m * n * size)
            info = gesdd(at, NONE, m, n, a, f.values + i * k * step, a, 1, a, work, length, more)
            i32s(f.info)[i] = types.int32(info)
        end(m * n)
        leave(more)

    return run, KERNEL


def _mirroring(dtype: int) -> Any:
    """``mirror(a, n)`` makes of a lower triangle a whole symmetric matrix, or a Hermitian one."""
    if dtype not in COMPLEX:

        @njit(**LOOP)
        def mirror(a, n):  # type: ignore[no-untyped-def]
            for i in range(n):
                for j in range(i + 1, n):
                    a[i * n + j] = a[j * n + i]

        return mirror
    conj, real, constant = ELEMENTS[dtype].math.conj, ELEMENTS[dtype].math.real, ELEMENTS[dtype].constant

    @njit(**LOOP)
    def mirror_pairs(a, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            a[i * n + i] = constant(real(a[i * n + i]))
            for j in range(i + 1, n):
                a[i * n + j] = conj(a[j * n + i])

    return mirror_pairs


def pinv(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Pseudo-inverses ``V diag(1 / s) U'`` over the singular values above the tolerance."""
    element, size, b, real = ELEMENTS[dtype], itemsize(dtype), blas(dtype), ELEMENTS[real_of(dtype)]
    numbers, scalar, one, zero = real.pointer, real.scalar, real.constant(1), real.constant(0)
    epsilon = real.constant(np.finfo(np.float32 if real_of(dtype) == FLOAT32 else np.float64).eps)
    gesdd, wanted, multiply, begin, end = singular_vectors(dtype), asked(dtype), b.product, b.begin, b.end
    pointer, count = element.pointer, more_for_singular_values(dtype)
    adjoint, mirror = adjoint_of(dtype), _mirroring(dtype)

    @njit(**LOOP)
    def divide(u, m, k, values, bound):  # type: ignore[no-untyped-def]
        for i in range(m):
            for j in range(k):
                u[i * k + j] *= one / values[j] if values[j] > bound else zero

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.pinv(frame)
        m, n = f.m, f.n
        k = min(m, n)
        if k == 0:
            memset(f.info, 0, f.batch * 4)
            return
        at = arguments()
        gesdd(at, SOME, m, n, 0, 0, 0, k, 0, by(at, QUERY), -1, 0)
        length = wanted(by(at, QUERY))
        further = count(SOME, m, n) * 8
        more = room(further + (length + m * n + k * (1 + m + n)) * size)
        if more == 0:
            report_no_room(f)
            return
        work = more + further
        a = work + length * size
        values = a + m * n * size
        u = values + k * size
        vh = u + m * k * size
        begin(m * n)
        for i in range(f.batch):
            memcpy(a, f.a.data + i * m * n * size, m * n * size)
            if f.hermitian and m == n:
                mirror(pointer(a), n)
            info = gesdd(at, SOME, m, n, a, values, u, k, vh, work, length, more)
            s = numbers(values)
            atol = numbers(f.atol.data)[i] if f.atol.data != 0 else zero
            rtol = numbers(f.rtol.data)[i] if f.rtol.data != 0 else scalar(epsilon * max(m, n))
            bound = max(atol, scalar(rtol * s[0]))
            divide(pointer(u), m, k, s, bound)
            multiply(adjoint, adjoint, n, m, k, vh, n, u, k, f.out + i * n * m * size, m)
            i32s(f.info)[i] = types.int32(info)
        end(m * n)
        leave(more)

    return run, KERNEL


# --- least squares -------------------------------------------------------------------------------------------------


def _least(dtype: int) -> Any:
    """``solve(at, method, m, n, k, a, b, values, pivots, rwork, work, lwork)`` of matrices by columns.

    It returns what LAPACK says; the rank stands among the arguments. Complex matrices need real numbers to work with.
    """
    if dtype in COMPLEX:
        return _least_of_pairs(dtype)
    gels, gelsy = routine("gels", dtype, 12), routine("gelsy", dtype, 13)
    gelsd, gelss = routine("gelsd", dtype, 14), routine("gelss", dtype, 13)

    @njit(**KERNEL)
    def solve(at, method, m, n, k, a, b, values, pivots, rwork, work, lwork):  # type: ignore[no-untyped-def]
        w = words(at)
        w[TRANS], w[M], w[N], w[K], w[LDA], w[LDB], w[LWORK] = PLAIN, m, n, k, max(m, 1), max(m, n, 1), lwork
        rows, columns, right, lda, ldb, size = (
            by(at, M),
            by(at, N),
            by(at, K),
            by(at, LDA),
            by(at, LDB),
            by(at, LWORK),
        )
        rcond, rank, info = by(at, RCOND), by(at, RANK), by(at, INFO)
        if method == GELS:
            gels(by(at, TRANS), rows, columns, right, a, lda, b, ldb, work, size, info, LENGTH)
        elif method == GELSY:
            gelsy(rows, columns, right, a, lda, b, ldb, pivots, rcond, rank, work, size, info)
        elif method == GELSD:
            gelsd(rows, columns, right, a, lda, b, ldb, values, rcond, rank, work, size, pivots, info)
        else:
            gelss(rows, columns, right, a, lda, b, ldb, values, rcond, rank, work, size, info)
        return w[INFO]

    return solve


def _least_of_pairs(dtype: int) -> Any:
    gels, gelsy = routine("gels", dtype, 12), routine("gelsy", dtype, 14)
    gelsd, gelss = routine("gelsd", dtype, 15), routine("gelss", dtype, 14)

    @njit(**KERNEL)
    def solve(at, method, m, n, k, a, b, values, pivots, rwork, work, lwork):  # type: ignore[no-untyped-def]
        w = words(at)
        w[TRANS], w[M], w[N], w[K], w[LDA], w[LDB], w[LWORK] = PLAIN, m, n, k, max(m, 1), max(m, n, 1), lwork
        rows, columns, right, lda, ldb = by(at, M), by(at, N), by(at, K), by(at, LDA), by(at, LDB)
        rcond, rank, size, info = by(at, RCOND), by(at, RANK), by(at, LWORK), by(at, INFO)
        if method == GELS:
            gels(by(at, TRANS), rows, columns, right, a, lda, b, ldb, work, size, info, LENGTH)
        elif method == GELSY:
            gelsy(rows, columns, right, a, lda, b, ldb, pivots, rcond, rank, work, size, rwork, info)
        elif method == GELSD:
            gelsd(rows, columns, right, a, lda, b, ldb, values, rcond, rank, work, size, rwork, pivots, info)
        else:
            gelss(rows, columns, right, a, lda, b, ldb, values, rcond, rank, work, size, rwork, info)
        return w[INFO]

    return solve


SMALL = 32  # subproblems of gelsd have no more elements


@njit(**KERNEL)
def _real_room_of_least_squares(m, n, k, levels):  # type: ignore[no-untyped-def]
    """Real numbers that each of the methods works with where matrices are complex, by their descriptions."""
    least = min(m, n)
    of_levels = 10 * least + 2 * least * SMALL + 8 * least * levels + 3 * SMALL * k
    return max(2 * n, 5 * least, of_levels + max((SMALL + 1) * (SMALL + 1), least * (1 + k) + 2 * k))


def _sides(dtype: int) -> tuple[Any, Any]:
    """The functions that bring right sides into columns, and solutions back."""
    pointer = ELEMENTS[dtype].pointer

    @njit(**KERNEL)
    def columns_to(to, x, rows, k, longest):  # type: ignore[no-untyped-def]
        """Rows of k elements as columns of `longest`, or back."""
        target, source = pointer(to), pointer(x)
        for j in range(k):
            for i in range(rows):
                target[j * longest + i] = source[i * k + j]

    @njit(**KERNEL)
    def rows_to(to, x, rows, k, longest):  # type: ignore[no-untyped-def]
        target, source = pointer(to), pointer(x)
        for i in range(rows):
            for j in range(k):
                target[i * k + j] = source[j * longest + i]

    return columns_to, rows_to


def least_squares(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The x of least norm for which ``a x - b`` has the least norm."""
    element, size, b, pairs = ELEMENTS[real_of(dtype)], itemsize(dtype), blas(dtype), dtype in COMPLEX
    pointer, scalar, least, wanted = element.pointer, element.scalar, _least(dtype), asked(dtype)
    transpose, begin, end, (columns_to, rows_to) = b.transpose, b.begin, b.end, _sides(dtype)
    step = itemsize(real_of(dtype))

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.least_squares(frame)
        m, n, k = f.m, f.n, f.k
        longest, smallest = max(m, n), min(m, n)
        if m == 0 or n == 0 or k == 0:
            memset(f.out, 0, f.batch * n * k * size)
            memset(f.rank, 0, f.batch * 8)
            memset(f.values, 0, f.batch * f.least * step)
            memset(f.info, 0, f.batch * 4)
            return
        at = arguments()
        pointer(by(at, RCOND))[0] = scalar(float_of(f.rcond))
        # gelsd asks for as many integers, whatever it is given: see its description.
        levels = 0
        while smallest >> levels > 0:
            levels += 1
        count = n + 3 * smallest * levels + 11 * smallest + 8
        # What is asked may also be answered in the first of the integers, and of the real numbers.
        least(at, f.method, m, n, k, f.out, f.out, f.out, by(at, RANK), by(at, LRWORK), by(at, QUERY), -1)
        length = wanted(by(at, QUERY))
        reals = _real_room_of_least_squares(m, n, k, levels) if pairs else 0
        pivots = room((count + reals) * 8 + (length + m * n + longest * k + smallest) * size)
        if pivots == 0:
            report_no_room(f)
            return
        rwork = pivots + count * 8
        work = rwork + reals * 8
        a = work + length * size
        x = a + m * n * size
        values = x + longest * k * size
        begin(m * n)
        for i in range(f.batch):
            transpose(a, f.a.data + i * m * n * size, m, n)
            memset(x, 0, longest * k * size)
            columns_to(x, f.b.data + i * m * k * size, m, k, longest)
            memset(pivots, 0, count * 8)
            memset(values, 0, smallest * step)
            words(at)[RANK] = 0
            info = least(at, f.method, m, n, k, a, x, values, pivots, rwork, work, length)
            rows_to(f.out + i * n * k * size, x, n, k, longest)
            memcpy(f.values + i * f.least * step, values, f.least * step)
            words(f.rank)[i] = words(at)[RANK]
            i32s(f.info)[i] = types.int32(info)
        end(m * n)
        leave(pivots)

    return run, KERNEL
