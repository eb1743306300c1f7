"""Kernels of eigenvalues and singular values on the CUDA device: a block has one matrix; see Note [Rotations]."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Target, barrier, block, thread, warp_barrier, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.rotations import (
    Words,
    dividing,
    greatest_of,
    norming,
    rotating,
    sorting,
    unit_of_squares,
    words_of,
)
from fastgrad.kernels.cuda.systems import THREADS, farther, of_each_matrix
from fastgrad.kernels.cuda.teams import TOGETHER, WARPS, folding
from fastgrad.native.contracts.element_types import INT32

NOT_FINITE, NO_CONVERGENCE = -4, 1  # what LAPACK says

# --- singular values ---------------------------------------------------------------------------------------------


def _completing(w: Words, target: Target, dtype: int) -> Any:
    """``complete(u, m, first, count, down, across)``: columns from `first` on, orthogonal to all before them.

    Each begins as a unit vector, the one that is farthest from the columns before, from which these are taken twice.
    """
    e, threads, warps = w.element, w.threads, w.threads // WARP
    load, store, zero, one, least = e.load, e.store, e.constant(0), e.constant(1), e.constant(-np.inf)
    fold, fold_place = w.fold, folding(target, farther, (dtype, INT32), threads)
    norm, divide = norming(w), dividing(w)

    def farthest(u, m, j, down, across):
        best, place, i = least, np.int32(0), np.int64(thread())
        while i < m:
            left, c = one, np.int64(0)
            while c < j:
                x = load(u, i * down + c * across)
                left -= x * x
                c += 1
            if left > best:
                best, place = left, np.int32(i)
            i += threads
        best, place = fold_place(best, place, TOGETHER)
        return np.int64(place)

    def take_away(u, m, j, down, across):
        """The projections to all columns before from column j, one after the other."""
        c = np.int64(0)
        while c < j:
            total, i = zero, np.int64(thread())
            while i < m:
                total += load(u, i * down + c * across) * load(u, i * down + j * across)
                i += threads
            total, i = fold(total, TOGETHER), np.int64(thread())
            while i < m:
                place = i * down + j * across
                store(u, place, load(u, place) - total * load(u, i * down + c * across))
                i += threads
            barrier()
            c += 1

    def complete(u, m, first, count, down, across):
        j = first
        while j < count:
            place, i = farthest(u, m, j, down, across), np.int64(thread())
            while i < m:
                store(u, i * down + j * across, one if i == place else zero)
                i += threads
            barrier()
            take_away(u, m, j, down, across)
            take_away(u, m, j, down, across)
            if thread() // WARP == warps - 1:
                length = norm(u, j * across, m, down)
                warp_barrier()  # all have read
                divide(u, j * across, m, down, length)
            barrier()
            j += 1

    return complete


def _beginning(w: Words) -> Any:
    """``begin(a, m, n, down, across, u, u_down, u_across, v, v_down, v_across, unit)``: the matrix and an identity.

    It gives the length of a column that is lost in what all others have lost by rounding.
    """
    e, threads, sqrt, fold, epsilon = w.element, w.threads, w.element.math.sqrt, w.fold, w.epsilon
    load, store, zero, one = e.load, e.store, e.constant(0), e.constant(1)

    def begin(a, m, n, down, across, u, u_down, u_across, v, v_down, v_across, unit):
        total, at = zero, np.int64(thread())
        while at < m * n:
            i, j = split(at, n)
            x = load(a, i * down + j * across) / unit
            store(u, i * u_down + j * u_across, x)
            total += x * x
            if v != 0 and i < n:
                store(v, i * v_down + j * v_across, one if i == j else zero)
            at += threads
        barrier()
        return sqrt(fold(total, TOGETHER)) * epsilon * epsilon

    return begin


def _columns(w: Words) -> tuple[Any, Any]:
    """``lengths(u, m, n, u_down, u_across, values)``, and ``directions(..., unit, none)``: columns of length one."""
    e, threads, warps, norm, divide = w.element, w.threads, w.threads // WARP, norming(w), dividing(w)
    load, store = e.load, e.store

    def lengths(u, m, n, u_down, u_across, values):
        j = np.int64(thread() // WARP)
        while j < n:
            length = norm(u, j * u_across, m, u_down)
            if thread() % WARP == 0:
                store(values, j, length)
            j += warps
        barrier()

    def directions(u, m, n, u_down, u_across, values, unit, none):
        """Of those that are longer than `none`; how many these are. Values become what they are."""
        rank, j = np.int64(0), np.int64(0)
        while j < n and load(values, j) > none:
            if j % warps == thread() // WARP:
                divide(u, j * u_across, m, u_down, load(values, j))
            rank = j + 1
            j += 1
        barrier()
        j = np.int64(thread())
        while j < n:
            store(values, j, load(values, j) * unit)
            j += threads
        return rank

    return lengths, directions


def _decomposing(w: Words, target: Target, dtype: int) -> Any:
    """``decompose(a, m, n, down, across, u, u_down, u_across, columns, v, v_down, v_across, values)`` of m >= n.

    It writes U S V' with as many columns of U; where v is 0, the values alone, and u is room for the matrix. It gives
    what LAPACK would say.
    """
    e, threads, rotate, complete = w.element, w.threads, rotating(w), _completing(w, target, dtype)
    store, nan, infinite = e.store, e.constant(np.nan), e.constant(np.inf)
    greatest, unit_of, begin, (lengths, directions) = (
        greatest_of(w),
        unit_of_squares(w),
        _beginning(w),
        _columns(w),
    )
    sort = sorting(w, target, dtype, False)

    def decompose(a, m, n, down, across, u, u_down, u_across, columns, v, v_down, v_across, values):
        top = greatest(a, m * n)
        if not top < infinite:
            j = np.int64(thread())
            while j < n:
                store(values, j, nan)
                j += threads
            return np.int32(NOT_FINITE)
        unit = unit_of(top)
        none = begin(a, m, n, down, across, u, u_down, u_across, v, v_down, v_across, unit)
        done = rotate(u, v, n, m, u_across, u_down, n, v_across, v_down, none)
        lengths(u, m, n, u_down, u_across, values)
        sort(values, n, u, u_across, m, u_down, v, v_across, n, v_down)
        rank = directions(u, m, n, u_down, u_across, values, unit, none)
        if v != 0:
            complete(u, m, rank, columns, u_down, u_across)
        return np.int32(0 if done else NO_CONVERGENCE)

    return decompose


def singular(w: Words, target: Target, dtype: int) -> Any:
    """``decompose(a, m, n, columns, rows, u, vh, values)`` of any matrix by rows, with as many columns and rows.

    Of a wide matrix that of the transposed one is found. It gives what LAPACK would say.
    """
    of_tall = _decomposing(w, target, dtype)

    def decompose(a, m, n, columns, rows, u, vh, values):
        one = np.int64(1)
        if m >= n:
            info = of_tall(a, m, n, n, one, u, columns, one, columns, vh, one, n, values)
        else:
            info = of_tall(a, n, m, one, n, vh, one, n, rows, u, columns, one, values)
        barrier()
        return info

    return decompose


def svd(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """U, singular values in descending order, and V transposed."""
    w = words_of(target, dtype, threads)
    keep, size, decompose = target.elements[INT32].store, w.element.size, singular(w, target, dtype)

    def run(f):
        b, m, n = np.int64(block()), f.m, f.n
        a, values = f.a.data + b * m * n * size, f.values + b * f.k * size
        u, vh = f.u + b * m * f.columns * size, f.vh + b * f.rows * n * size
        info = decompose(a, m, n, f.columns, f.rows, u, vh, values)
        if thread() == 0:
            keep(f.info, b, info)

    return of_each_matrix(run, threads, resident=256)


def svdvals(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Singular values in descending order."""
    w = words_of(target, dtype, threads)
    keep, size, decompose = target.elements[INT32].store, w.element.size, _decomposing(w, target, dtype)

    def run(f):
        b, m, n, one, none = np.int64(block()), f.m, f.n, np.int64(1), np.int64(0)
        a, values, work = f.a.data + b * m * n * size, f.values + b * f.k * size, f.work + b * m * n * size
        if m >= n:
            info = decompose(a, m, n, n, one, work, n, one, n, none, none, none, values)
        else:
            info = decompose(a, n, m, one, n, work, one, n, m, none, none, none, values)
        if thread() == 0:
            keep(f.info, b, info)

    return of_each_matrix(run, threads)


# --- symmetric matrices ------------------------------------------------------------------------------------------


def _triangle(w: Words) -> tuple[Any, Any]:
    """``element_at(a, n, lower, i, j)`` of a symmetric matrix, of which a triangle is read.

    And ``greatest(a, n, lower)``, the largest absolute value, NaN if there is one.
    """
    load, zero, threads, fold = w.element.load, w.element.constant(0), w.threads, w.fold_greatest
    maximum, absolute = w.element.math.maximum, w.element.math.abs

    def element_at(a, n, lower, i, j):
        swapped = (j > i) == lower and i != j
        return load(a, j * n + i if swapped else i * n + j)

    def greatest(a, n, lower):
        best, at = zero, np.int64(thread())
        while at < n * n:
            i, j = split(at, n)
            best = maximum(best, absolute(element_at(a, n, lower, i, j)))
            at += threads
        return fold(best, TOGETHER)

    return element_at, greatest


def _shifting(w: Words, element_at: Any) -> Any:
    """``shift(a, n, lower, x, unit)``: the matrix with what makes it positive definite on its diagonal."""
    e, threads, fold, sqrt, much = w.element, w.threads, w.fold, w.element.math.sqrt, w.element.constant(1.5)
    load, store, zero, one = e.load, e.store, e.constant(0), e.constant(1)

    def shift(a, n, lower, x, unit):
        total, at = zero, np.int64(thread())
        while at < n * n:
            i, j = split(at, n)
            value = element_at(a, n, lower, i, j) / unit
            store(x, at, value)
            total += value * value
            at += threads
        total = sqrt(fold(total, TOGETHER)) * much
        total, i = where(total == zero, one, total), np.int64(thread())
        while i < n:
            store(x, i * n + i, load(x, i * n + i) + total)
            i += threads
        barrier()

    return shift


def _quotients(w: Words, element_at: Any) -> Any:
    """``quotients(a, n, lower, x, values)``: rows of length 1, and Rayleigh's quotients of them."""
    e, warps, fold, norm, divide = w.element, w.threads // WARP, w.fold, norming(w), dividing(w)
    load, store, zero = e.load, e.store, e.constant(0)

    def quotients(a, n, lower, x, values):
        j, lane = np.int64(thread() // WARP), np.int64(thread() % WARP)
        while j < n:
            length = norm(x, j * n, n, np.int64(1))
            warp_barrier()  # all have read
            divide(x, j * n, n, np.int64(1), length)
            warp_barrier()
            total, i = zero, np.int64(0)
            while i < n:
                image, k = zero, lane
                while k < n:
                    image += element_at(a, n, lower, i, k) * load(x, j * n + k)
                    k += WARP
                total += load(x, j * n + i) * fold(image, WARPS)
                i += 1
            if lane == 0:
                store(values, j, total)
            j += warps
        barrier()

    return quotients


def _symmetric(w: Words, target: Target, dtype: int) -> Any:
    """``decompose(a, n, lower, x, values)``: eigenvalues in ascending order, and eigenvectors as rows of x."""
    e, threads, rotate, sort, unit_of = (
        w.element, w.threads, rotating(w), sorting(w, target, dtype, True), unit_of_squares(w),
    )  # fmt: skip
    store, zero, nan, infinite = e.store, e.constant(0), e.constant(np.nan), e.constant(np.inf)
    element_at, greatest = _triangle(w)
    shift, quotients = _shifting(w, element_at), _quotients(w, element_at)

    def decompose(a, n, lower, x, values):
        top, one_apart, none = greatest(a, n, lower), np.int64(1), np.int64(0)
        if not top < infinite:
            at = np.int64(thread())
            while at < n * n:
                store(x, at, nan)
                if at < n:
                    store(values, at, nan)
                at += threads
            return np.int32(NOT_FINITE)
        shift(a, n, lower, x, unit_of(top))
        done = rotate(x, none, n, n, n, one_apart, none, none, none, zero)
        quotients(a, n, lower, x, values)
        sort(values, n, x, n, n, one_apart, none, none, none, none)
        return np.int32(0 if done else NO_CONVERGENCE)

    return decompose


def eigh(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns."""
    w = words_of(target, dtype, threads)
    keep, size, decompose = target.elements[INT32].store, w.element.size, _symmetric(w, target, dtype)
    load, store = w.element.load, w.element.store

    def run(f):
        b, n, at = np.int64(block()), f.n, np.int64(thread())
        a, x, values = f.a.data + b * n * n * size, f.vectors + b * n * n * size, f.values + b * n * size
        info = decompose(a, n, f.lower != 0, x, values)
        barrier()
        while at < n * n:  # rows become columns
            i, j = split(at, n)
            if j < i:
                first, second = load(x, i * n + j), load(x, j * n + i)
                store(x, i * n + j, second)
                store(x, j * n + i, first)
            at += threads
        if thread() == 0:
            keep(f.info, b, info)

    return of_each_matrix(run, threads)


def eigvalsh(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Eigenvalues of symmetric matrices in ascending order."""
    w = words_of(target, dtype, threads)
    keep, size, decompose = target.elements[INT32].store, w.element.size, _symmetric(w, target, dtype)

    def run(f):
        b, n = np.int64(block()), f.n
        a, x, values = f.a.data + b * n * n * size, f.work + b * n * n * size, f.values + b * n * size
        info = decompose(a, n, f.lower != 0, x, values)
        if thread() == 0:
            keep(f.info, b, info)

    return of_each_matrix(run, threads)
