"""Kernels of orthogonal matrices as products of reflectors on the CUDA device: a block has one matrix.

A reflector is ``I - tau v v'``, where v begins with a one that is not kept; they stand below the diagonal of R, with
the signs that LAPACK gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, barrier, block, thread, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.systems import THREADS, copying, of_each_matrix
from fastgrad.kernels.cuda.teams import TOGETHER, folding_one, plain_sum


def _reflecting(element: Element, threads: int) -> Any:
    """``reflect(x, first, rows, begin, columns, down, across, v, apart, tau)`` multiplies columns of x by a reflector.

    These go from `begin` to `columns`, and rows from `first` to `rows`; elements of x are `down` and `across` apart
    from each other, those of v, which has one for each row, `apart`.
    """
    load, store, put, get = element.load, element.store, element.put, element.get
    zero, one, room, warps = (
        element.constant(0),
        element.constant(1),
        element.shared(threads),
        threads // WARP,
    )

    def reflect(x, first, rows, begin, columns, down, across, v, apart, tau):
        shared, lane, tile = room(), np.int64(thread() % WARP), begin
        while tile < columns:
            c, total, i = tile + lane, zero, first + thread() // WARP
            while i < rows and c < columns:
                total += (one if i == first else load(v, i * apart)) * load(x, i * down + c * across)
                i += warps
            put(shared, thread(), total)
            barrier()
            total, k = zero, np.int32(0)
            while k < warps:
                total += get(shared, k * WARP + lane)
                k = np.int32(k + 1)
            barrier()
            i = first + thread() // WARP
            while i < rows and c < columns:
                place = i * down + c * across
                part = tau * total * (one if i == first else load(v, i * apart))
                store(x, place, load(x, place) - part)
                i += warps
            tile += WARP
        barrier()

    return reflect


def _factoring(target: Target, dtype: int, threads: int) -> Any:
    """``factor(a, m, n, k, taus)`` makes R and k reflectors of a matrix in its place."""
    e = target.elements[dtype]
    load, store, zero, one, size = e.load, e.store, e.constant(0), e.constant(1), e.size
    maximum, absolute, sqrt, copysign = e.math.maximum, e.math.abs, e.math.sqrt, e.math.copysign
    fold_greatest = folding_one(target, maximum, dtype, threads)
    fold_sum, reflect = folding_one(target, plain_sum, dtype, threads), _reflecting(e, threads)

    def length(a, j, m, n):
        """That of column j below the diagonal; squares neither overflow nor vanish."""
        greatest, i = zero, j + 1 + thread()
        while i < m:
            greatest = maximum(greatest, absolute(load(a, i * n + j)))
            i += threads
        greatest = fold_greatest(greatest, TOGETHER)
        unit = where(greatest == zero, one, greatest)
        total, i = zero, j + 1 + thread()
        while i < m:
            x = load(a, i * n + j) / unit
            total += x * x
            i += threads
        return greatest * sqrt(fold_sum(total, TOGETHER))

    def factor(a, m, n, k, taus):
        j = np.int64(0)
        while j < k:
            below, alpha, tau = length(a, j, m, n), load(a, j * n + j), zero
            beta = alpha
            barrier()  # all have read it
            if below != zero:
                unit = maximum(absolute(alpha), below)
                x, y = alpha / unit, below / unit
                beta = -copysign(unit * sqrt(x * x + y * y), alpha)
                tau = (beta - alpha) / beta
                i = j + 1 + thread()
                while i < m:
                    store(a, i * n + j, load(a, i * n + j) / (alpha - beta))
                    i += threads
            if thread() == 0:
                store(a, j * n + j, beta)
                store(taus, j, tau)
            barrier()
            if tau != zero:
                reflect(a, j, m, j + 1, n, n, np.int64(1), a + j * size, n, tau)
            j += 1

    return factor


def _gathering(element: Element, threads: int) -> Any:
    """``gather(q, m, columns, a, width, k, taus)``: the first columns of the product of k reflectors in a matrix."""
    load, store, zero, one, size = (
        element.load,
        element.store,
        element.constant(0),
        element.constant(1),
        element.size,
    )
    reflect = _reflecting(element, threads)

    def gather(q, m, columns, a, width, k, taus):
        at = np.int64(thread())
        while at < m * columns:
            i, j = split(at, columns)
            store(q, at, one if i == j else zero)
            at += threads
        barrier()
        j = k - 1
        while j >= 0:
            tau = load(taus, j)
            if tau != zero:
                reflect(q, j, m, j, columns, columns, np.int64(1), a + j * size, width, tau)
            j -= 1

    return gather


def qr(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """As many columns of Q and rows of R as the frame says."""
    e = target.elements[dtype]
    load, store, zero, size = e.load, e.store, e.constant(0), e.size
    copy, factor, gather = copying(e, threads), _factoring(target, dtype, threads), _gathering(e, threads)

    def run(f):
        b, m, n = np.int64(block()), f.m, f.n
        factors, taus = f.factors + b * m * n * size, f.tau + b * f.k * size
        r, at = f.r + b * f.rows * n * size, np.int64(thread())
        copy(factors, f.a.data + b * m * n * size, m * n)
        factor(factors, m, n, f.k, taus)
        while at < f.rows * n:
            i, j = split(at, n)
            store(r, at, load(factors, at) if i < f.k and j >= i else zero)
            at += threads
        if f.columns > 0:
            gather(f.q + b * m * f.columns * size, m, f.columns, factors, n, f.k, taus)

    return of_each_matrix(run, threads)


def factor(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """R, under it the reflectors, and their factors."""
    e = target.elements[dtype]
    size, copy, make = e.size, copying(e, threads), _factoring(target, dtype, threads)

    def run(f):
        b, count = np.int64(block()), f.m * f.n
        out = f.out + b * count * size
        copy(out, f.a.data + b * count * size, count)
        make(out, f.m, f.n, f.k, f.tau + b * f.k * size)

    return of_each_matrix(run, threads)


def householder(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The first columns of products of reflectors, as many as the matrix of these has."""
    e = target.elements[dtype]
    size, gather = e.size, _gathering(e, threads)

    def run(f):
        b, count = np.int64(block()), f.m * f.n
        a, taus = f.a.data + b * count * size, f.tau.data + b * f.k * size
        gather(f.out + b * count * size, f.m, f.n, a, f.n, f.k, taus)

    return of_each_matrix(run, threads)


def reflected(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Products with Q, or with Q `transposed`, from the `left` or from the right."""
    e = target.elements[dtype]
    load, size, copy, reflect = e.load, e.size, copying(e, threads), _reflecting(e, threads)

    def run(f):
        b, count, step = np.int64(block()), f.m * f.n, np.int64(0)
        out, a = f.out + b * count * size, f.a.data + b * f.order * f.width * size
        left, one = f.left != 0, np.int64(1)
        copy(out, f.c.data + b * count * size, count)
        columns, down, across = f.n if left else f.m, f.n if left else one, one if left else f.n
        while step < f.k:
            j = step if left == (f.transposed != 0) else f.k - 1 - step
            tau = load(f.tau.data, b * f.k + j)
            reflect(out, j, f.order, np.int64(0), columns, down, across, a + j * size, f.width, tau)
            step += 1

    return of_each_matrix(run, threads)
