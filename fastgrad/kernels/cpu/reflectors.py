"""Kernels of orthogonal matrices as products of reflectors: see Note [Matrices by columns] in `lapack`."""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.lapack import (
    INFO,
    LDA,
    LDC,
    LWORK,
    QUERY,
    SIDE,
    TRANS,
    K,
    M,
    N,
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
from fastgrad.native.base.intrinsics import memcpy, words
from fastgrad.native.contracts.element_types import COMPLEX

PLAIN, TRANSPOSED, ADJOINT, LEFT, RIGHT, LENGTH = ord("N"), ord("T"), ord("C"), ord("L"), ord("R"), 1


def _gelqf(dtype: int) -> Any:
    """``gelqf(at, m, n, a, tau, work, lwork)`` of a matrix by rows: R, and under it the reflectors."""
    lapack = routine("gelqf", dtype, 8)

    @njit(**KERNEL)
    def gelqf(at, m, n, a, tau, work, lwork):  # type: ignore[no-untyped-def]
        w = words(at)
        w[M], w[N], w[LDA], w[LWORK] = n, m, max(n, 1), lwork
        lapack(by(at, M), by(at, N), a, by(at, LDA), tau, work, by(at, LWORK), by(at, INFO))

    return gelqf


def _orglq(dtype: int) -> Any:
    """``orglq(at, m, n, k, a, tau, work, lwork)`` makes the first n columns of Q of the reflectors in a, by rows."""
    lapack = routine("orglq", dtype, 9)

    @njit(**KERNEL)
    def orglq(at, m, n, k, a, tau, work, lwork):  # type: ignore[no-untyped-def]
        w = words(at)
        w[M], w[N], w[K], w[LDA], w[LWORK] = n, m, k, max(n, 1), lwork
        lapack(by(at, M), by(at, N), by(at, K), a, by(at, LDA), tau, work, by(at, LWORK), by(at, INFO))

    return orglq


def qr(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """As many columns of Q and rows of R as the frame says."""
    element, size = ELEMENTS[dtype], itemsize(dtype)
    pointer, constant, gelqf, orglq, wanted = (
        element.pointer,
        element.constant,
        _gelqf(dtype),
        _orglq(dtype),
        asked(dtype),
    )
    begin, end = blas(dtype).begin, blas(dtype).end

    @njit(**LOOP)
    def upper(to, x, rows, k, n):  # type: ignore[no-untyped-def]
        for i in range(rows):
            for j in range(n):
                to[i * n + j] = x[i * n + j] if i < k and j >= i else constant(0)

    @njit(**LOOP)
    def reflectors(to, columns, x, m, k, n):  # type: ignore[no-untyped-def]
        for i in range(m):
            for j in range(columns):
                to[i * columns + j] = x[i * n + j] if j < k else constant(0)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.qr(frame)
        m, n, k, columns, rows = f.m, f.n, f.k, f.columns, f.rows
        at = arguments()
        gelqf(at, m, n, f.a.data, 0, by(at, QUERY), -1)
        length = wanted(by(at, QUERY))
        orglq(at, m, columns, min(k, columns), f.q, 0, by(at, QUERY), -1)
        length = max(length, wanted(by(at, QUERY)))
        work = room(length * size)
        if work == 0:
            report_no_room(f)
            return
        begin(m * max(n, columns))
        for i in range(f.batch):
            a, tau = f.factors + i * m * n * size, f.tau + i * k * size
            memcpy(a, f.a.data + i * m * n * size, m * n * size)
            gelqf(at, m, n, a, tau, work, length)
            upper(pointer(f.r + i * rows * n * size), pointer(a), rows, k, n)
            if columns > 0:
                q = f.q + i * m * columns * size
                reflectors(pointer(q), columns, pointer(a), m, k, n)
                orglq(at, m, columns, k, q, tau, work, length)
        end(m * max(n, columns))
        leave(work)

    return run, KERNEL


def factor(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """R, under it the reflectors, and their factors."""
    size, gelqf, wanted, conjugate_here = itemsize(dtype), _gelqf(dtype), asked(dtype), conjugation(dtype)
    begin, end = blas(dtype).begin, blas(dtype).end

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.reflectors(frame)
        m, n, k = f.m, f.n, f.k
        at = arguments()
        gelqf(at, m, n, f.a.data, 0, by(at, QUERY), -1)
        length = wanted(by(at, QUERY))
        work = room(length * size)
        if work == 0:
            report_no_room(f)
            return
        begin(m * n)
        for i in range(f.batch):
            out = f.out + i * m * n * size
            memcpy(out, f.a.data + i * m * n * size, m * n * size)
            gelqf(at, m, n, out, f.tau + i * k * size, work, length)
            conjugate_here(f.tau + i * k * size, k)
        end(m * n)
        leave(work)

    return run, KERNEL


def householder(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The first columns of products of reflectors, as many as the matrix of these has."""
    size, orglq, wanted, conjugate_here = itemsize(dtype), _orglq(dtype), asked(dtype), conjugation(dtype)
    begin, end = blas(dtype).begin, blas(dtype).end

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.householder(frame)
        m, n, k = f.m, f.n, f.k
        at = arguments()
        orglq(at, m, n, k, f.out, 0, by(at, QUERY), -1)
        length = wanted(by(at, QUERY))
        tau = room((k + length) * size)
        if tau == 0:
            report_no_room(f)
            return
        begin(m * n)
        for i in range(f.batch):
            out = f.out + i * m * n * size
            memcpy(out, f.a.data + i * m * n * size, m * n * size)
            memcpy(tau, f.tau.data + i * k * size, k * size)
            conjugate_here(tau, k)
            orglq(at, m, n, k, out, tau, tau + k * size, length)
        end(m * n)
        leave(tau)

    return run, KERNEL


def reflected(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Products with Q, which stands for its transposed on the other side of a matrix by columns."""
    size, lapack, wanted = itemsize(dtype), routine("ormlq", dtype, 15), asked(dtype)
    begin, end, conjugate_here = blas(dtype).begin, blas(dtype).end, conjugation(dtype)
    turned = ADJOINT if dtype in COMPLEX else TRANSPOSED

    @njit(**KERNEL)
    def ormlq(at, f, a, tau, c, work, lwork):  # type: ignore[no-untyped-def]
        w = words(at)
        w[SIDE], w[TRANS] = RIGHT if f.left else LEFT, turned if f.transposed else PLAIN
        w[M], w[N], w[K], w[LDA], w[LDC], w[LWORK] = f.n, f.m, f.k, max(f.width, 1), max(f.n, 1), lwork
        lapack(
            by(at, SIDE), by(at, TRANS), by(at, M), by(at, N), by(at, K), a, by(at, LDA), tau, c, by(at, LDC), work,
            by(at, LWORK), by(at, INFO), LENGTH, LENGTH,
        )  # fmt: skip

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.reflected(frame)
        m, n, k = f.m, f.n, f.k
        a_step, c_step = f.order * f.width * size, m * n * size
        at = arguments()
        ormlq(at, f, f.a.data, f.tau.data, f.out, by(at, QUERY), -1)
        length = wanted(by(at, QUERY))
        tau = room((k + length) * size)
        if tau == 0:
            report_no_room(f)
            return
        begin(max(m * n, f.order * f.width))
        for i in range(f.batch):
            out = f.out + i * c_step
            memcpy(out, f.c.data + i * c_step, c_step)
            memcpy(tau, f.tau.data + i * k * size, k * size)
            conjugate_here(tau, k)
            ormlq(at, f, f.a.data + i * a_step, tau, out, tau + k * size, length)
        end(max(m * n, f.order * f.width))
        leave(tau)

    return run, KERNEL
