"""Kernels of what is made of singular values on the CUDA device: pseudo-inverses, least squares, cofactors.

A block has one matrix, and finds its singular vectors in the room that the call gives it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, barrier, block, float_of, thread, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.rotations import Words, words_of
from fastgrad.kernels.cuda.spectra import NOT_FINITE, singular
from fastgrad.kernels.cuda.systems import (
    THREADS,
    copying,
    factoring,
    filling,
    multiplying,
    of_each_matrix,
)
from fastgrad.native.contracts.element_types import INT32, INT64
from fastgrad.native.contracts.frames.linalg import GELS, GELSD

RESIDENT = 256

# --- pseudo-inverses ---------------------------------------------------------------------------------------------


def _dividing(w: Words) -> tuple[Any, Any]:
    """``rank(values, k, bound)``: how many singular values are above a bound, and ``divide(u, m, k, values, rank)``.

    That divides so many of the k columns of U by their singular values.
    """
    load, store, threads = w.element.load, w.element.store, w.threads

    def rank_of(values, k, bound):
        rank = np.int64(0)
        while rank < k and load(values, rank) > bound:
            rank += 1
        return rank

    def divide(u, m, k, values, rank):
        at = np.int64(thread())
        while at < m * rank:
            i, j = split(at, rank)
            store(u, i * k + j, load(u, i * k + j) / load(values, j))
            at += threads
        barrier()

    return rank_of, divide


def pinv(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Pseudo-inverses ``V diag(1 / s) U'`` over the singular values above the tolerance."""
    w = words_of(target, dtype, threads)
    e, keep, decompose, (rank_of, divide) = (
        w.element, target.elements[INT32].store, singular(w, target, dtype), _dividing(w),
    )  # fmt: skip
    load, store, size, zero, nan = e.load, e.store, e.size, e.constant(0), e.constant(np.nan)
    multiply, fill, epsilon, cast, maximum = (
        multiplying(e, threads), filling(e, threads), w.epsilon, e.constant, e.math.maximum,
    )  # fmt: skip

    def mirror(to, a, n):
        at = np.int64(thread())
        while at < n * n:
            i, j = split(at, n)
            store(to, at, load(a, j * n + i if j > i else at))
            at += threads
        barrier()

    def run(f):
        b, m, n, one = np.int64(block()), f.m, f.n, np.int64(1)
        k = min(m, n)
        a, out = f.a.data + b * m * n * size, f.out + b * n * m * size
        u = f.work + b * f.room * size
        vh, values = u + m * k * size, u + (m + n) * k * size
        if f.hermitian != 0 and m == n:
            mirror(out, a, n)
            a = out
        info = decompose(a, m, n, k, k, u, vh, values)
        atol = load(f.atol.data, b) if f.atol.data != 0 else zero
        rtol = load(f.rtol.data, b) if f.rtol.data != 0 else epsilon * cast(max(m, n))
        if info == NOT_FINITE:
            fill(out, n * m, nan)
        elif k > 0:
            rank = rank_of(values, k, maximum(atol, rtol * load(values, 0)))
            divide(u, m, k, values, rank)
            multiply(out, vh, one, n, u, one, k, n, m, rank)
        if thread() == 0:
            keep(f.info, b, info)

    return of_each_matrix(run, threads, RESIDENT)


def least_squares(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The x of least norm for which ``a x - b`` has the least norm, by singular values whatever the method.

    That for matrices of full rank takes all of them, and says which is zero.
    """
    w = words_of(target, dtype, threads)
    e, keep, keep_rank = w.element, target.elements[INT32].store, target.elements[INT64].store
    decompose, (rank_of, divide), copy = singular(w, target, dtype), _dividing(w), copying(e, threads)
    load, size, zero, nan = e.load, e.size, e.constant(0), e.constant(np.nan)
    multiply, fill = multiplying(e, threads), filling(e, threads)
    epsilon, cast = w.epsilon, e.constant

    def run(f):
        b, m, n, k, one = np.int64(block()), f.m, f.n, f.k, np.int64(1)
        inner = min(m, n)
        out, u = f.out + b * n * k * size, f.work + b * f.room * size
        vh, values = u + m * inner * size, u + (m + n) * inner * size
        part = values + inner * size
        info = decompose(f.a.data + b * m * n * size, m, n, inner, inner, u, vh, values)
        copy(f.values + b * f.least * size, values, f.least)
        rcond, rank = cast(float_of(f.rcond)), np.int64(0)
        bad = info == NOT_FINITE
        if inner > 0 and not bad:
            bound = where(rcond < zero, epsilon, rcond) * load(values, 0)
            rank = rank_of(values, inner, zero if f.method == GELS else bound)
            if f.method == GELS and rank < inner:
                info = np.int32(rank + 1)
            divide(u, m, inner, values, rank)
        if bad:
            fill(out, n * k, nan)
            info = np.int32(NOT_FINITE if f.method == GELSD else 0)
        else:
            multiply(part, u, one, inner, f.b.data + b * m * k * size, k, one, rank, k, m)
            multiply(out, vh, one, n, part, k, one, n, k, rank)
        if thread() == 0:
            keep_rank(f.rank, b, rank)
            keep(f.info, b, info)

    return of_each_matrix(run, threads, RESIDENT)


# --- cofactors ---------------------------------------------------------------------------------------------------


def _signing(w: Words, target: Target, dtype: int) -> Any:
    """``sign(u, vh, n, work)``: that of the determinant of the product of two orthogonal matrices."""
    e, multiply, factor = w.element, multiplying(w.element, w.threads), factoring(target, dtype, w.threads)
    load, zero, one = e.load, e.constant(0), e.constant(1)

    def sign(u, vh, n, work):
        step = np.int64(1)
        multiply(work, u, n, step, vh, n, step, n, n, n)
        _, flips = factor(work, n, n, n, step, np.int64(0))
        found, j = where(flips % 2 != 0, -one, one), np.int64(0)
        while j < n:
            found = where(load(work, j * n + j) < zero, -found, found)
            j += 1
        barrier()  # all have read it
        return found

    return sign


def _others(w: Words) -> Any:
    """``others(values, n, i, j, factor)``: the product of all singular values but two."""
    load = w.element.load

    def others(values, n, i, j, factor):
        k = np.int64(0)
        while k < n:
            if k != i and k != j:
                factor *= load(values, k)
            k += 1
        return factor

    return others


def cofactors(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The matrices of cofactors: ``det(U) det(V) U C V'``, where C holds the products of all singular values but one.

    Of singular matrices and others (N. Higham, What is the adjugate of a matrix?, 2020).
    """
    w = words_of(target, dtype, threads)
    e, decompose, sign, others = w.element, singular(w, target, dtype), _signing(w, target, dtype), _others(w)
    multiply, fill = multiplying(e, threads), filling(e, threads)
    load, store, size, nan = e.load, e.store, e.size, e.constant(np.nan)

    def scale(vh, n, values, factor):
        j = np.int64(thread())
        while j < n:
            by, i = others(values, n, j, j, factor), np.int64(0)
            while i < n:
                store(vh, j * n + i, load(vh, j * n + i) * by)
                i += 1
            j += threads
        barrier()

    def run(f):
        b, n, one = np.int64(block()), f.n, np.int64(1)
        square = n * n * size
        a, out, u = f.a.data + b * square, f.out + b * square, f.work + b * f.room * size
        vh, work, values = u + square, u + 2 * square, u + 4 * square
        if decompose(a, n, n, n, n, u, vh, values) == NOT_FINITE:
            fill(out, n * n, nan)
        else:
            scale(vh, n, values, sign(u, vh, n, work))
            multiply(out, u, n, one, vh, n, one, n, n, n)

    return of_each_matrix(run, threads, RESIDENT)


def cofactors_derivative(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """How cofactors change with a in the direction g, which is their gradient with regard to a as well.

    In the bases of the singular vectors a is diagonal, and its cofactors are sums of products of all singular values
    but two, so that nothing is divided by what may be zero.
    """
    w = words_of(target, dtype, threads)
    e, decompose, sign, others = w.element, singular(w, target, dtype), _signing(w, target, dtype), _others(w)
    multiply, fill = multiplying(e, threads), filling(e, threads)
    load, store, size, zero, nan = e.load, e.store, e.size, e.constant(0), e.constant(np.nan)

    def rotated(to, x, values, n, factor):
        at = np.int64(thread())
        while at < n * n:
            i, j = split(at, n)
            if i != j:
                found = -others(values, n, i, j, factor) * load(x, j * n + i)
            else:
                found, k = zero, np.int64(0)
                while k < n:
                    if k != i:
                        found += others(values, n, i, k, factor) * load(x, k * n + k)
                    k += 1
            store(to, at, found)
            at += threads
        barrier()

    def run(f):
        b, n, one = np.int64(block()), f.n, np.int64(1)
        square = n * n * size
        a, g, out = f.a.data + b * square, f.g.data + b * square, f.out + b * square
        u = f.work + b * f.room * size
        vh, work, spare, values = u + square, u + 2 * square, u + 3 * square, u + 4 * square
        if decompose(a, n, n, n, n, u, vh, values) == NOT_FINITE:
            fill(out, n * n, nan)
        else:
            both = sign(u, vh, n, work)
            multiply(work, u, one, n, g, n, one, n, n, n)
            multiply(spare, work, n, one, vh, one, n, n, n, n)
            rotated(work, spare, values, n, both)
            multiply(spare, u, n, one, work, n, one, n, n, n)
            multiply(out, spare, n, one, vh, n, one, n, n, n)

    return of_each_matrix(run, threads, RESIDENT)
