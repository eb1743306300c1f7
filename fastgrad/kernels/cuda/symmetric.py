"""Kernels of symmetric matrices that need not be definite, on the CUDA device: their LDL factors, and solutions.

The method is Bunch and Kaufman's, and factors and pivots are LAPACK's (`sytrf`, of the lower triangle): a pivot is an
element of the diagonal or a block of two rows, whose number in `pivots` then is negative. A block of threads has one
matrix, as in `systems`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, barrier, block, thread, warp_barrier, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reports import reporting
from fastgrad.kernels.cuda.systems import copying, copying_lower, of_each_matrix, seeking, sizing, swapping
from fastgrad.kernels.cuda.teams import WARPS, folding
from fastgrad.native.contracts.element_types import INT32

THREADS = 256
SMALLEST_SHARE = (1 + math.sqrt(17)) / 8
"""Of the largest element that a pivot may be: so elements grow no faster by one block of two than by two of one."""


# --- factors -----------------------------------------------------------------------------------------------------


def _choosing(target: Target, dtype: int, threads: int) -> Any:
    """``choose(a, n, k)``: which row is to be the pivot's last one, and how many rows it has; none of a zero column."""
    e = target.elements[dtype]
    load, zero, share, size = e.load, e.constant(0), e.constant(SMALLEST_SHARE), sizing(e)
    seek = seeking(target, dtype, threads, size)

    def choose(a, n, k):
        here, below = load(a, k * n + k), zero
        far = seek(a, k + 1, n, n, k)
        if k + 1 < n:
            below = size(load(a, far * n + k))
        if here != here or (here == zero and below == zero):
            return k, 0
        d = size(here)
        if d >= share * below:
            return k, 1
        # The largest one beside the diagonal's in the row that `below` stands in, of which half is a column.
        before, behind = seek(a, k, far, np.int64(1), far * n), seek(a, far + 1, n, n, far)
        beside = size(load(a, far * n + before))
        if far + 1 < n:
            beside = max(beside, size(load(a, behind * n + far)))
        if d >= share * below * (below / beside):
            return k, 1
        return far, 1 if size(load(a, far * n + far)) >= share * beside else 2

    return choose


def _exchanging(element: Element, threads: int) -> Any:
    """``exchange(a, n, k, first, second)``: a row, and column, for one behind it, from the k-th row and column on."""
    load, store = element.load, element.store

    def swap(a, one, other):
        x, y = load(a, one), load(a, other)
        store(a, one, y)
        store(a, other, x)

    def exchange(a, n, k, first, second):
        i = first + thread()
        while i < n:
            if i == first:
                swap(a, first * n + first, second * n + second)
                if k < first:  # the other column of a pivot of two
                    swap(a, first * n + k, second * n + k)
            elif i < second:
                swap(a, i * n + first, second * n + i)
            elif i > second:
                swap(a, i * n + first, i * n + second)
            i += threads
        barrier()

    return exchange


def _eliminating(element: Element, threads: int) -> Any:
    """``eliminate(a, n, k, rows)``: the columns of a pivot from what is behind them, and these as those of L.

    Meanwhile rows of zeros above the diagonal hold the columns of L, so that neighbouring threads find them beside
    each other.
    """
    load, store, zero, one, warps = (
        element.load, element.store, element.constant(0), element.constant(1), threads // WARP,
    )  # fmt: skip

    def divide(a, n, k, rows):
        """The columns of L, to the rows above."""
        d, j = load(a, k * n + k), k + rows + thread()
        if rows == 1:
            while j < n:
                store(a, k * n + j, load(a, j * n + k) / d)
                j += threads
        else:
            # Divided by the element beside the diagonal, which is the largest one of the block.
            corner = load(a, (k + 1) * n + k)
            first, second = load(a, (k + 1) * n + k + 1) / corner, d / corner
            factor = one / (first * second - one) / corner
            while j < n:
                x, y = load(a, j * n + k), load(a, j * n + k + 1)
                store(a, k * n + j, factor * (first * x - y))
                store(a, (k + 1) * n + j, factor * (second * y - x))
                j += threads
        barrier()

    def subtract(a, n, k, rows):
        lane, i = np.int64(thread() % WARP), k + rows + thread() // WARP
        while i < n:
            x, y, j = load(a, i * n + k), load(a, i * n + k + 1) if rows == 2 else zero, k + rows + lane
            while j <= i:
                value = load(a, i * n + j) - x * load(a, k * n + j)
                if rows == 2:
                    value -= y * load(a, (k + 1) * n + j)
                store(a, i * n + j, value)
                j += WARP
            i += warps
        barrier()

    def keep(a, n, k, rows):
        """The rows as columns, and zeros where they stood."""
        i = k + rows + thread()
        while i < n:
            column = k
            while column < k + rows:
                store(a, i * n + column, load(a, column * n + i))
                store(a, column * n + i, zero)
                column += 1
            i += threads
        barrier()

    def eliminate(a, n, k, rows):
        divide(a, n, k, rows)
        subtract(a, n, k, rows)
        keep(a, n, k, rows)

    return eliminate


def ldl(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """L, without its ones, and D in one matrix, and pivots."""
    e, keep = target.elements[dtype], target.elements[INT32].store
    size, copy_lower = e.size, copying_lower(e, threads)
    choose, exchange, eliminate = (
        _choosing(target, dtype, threads),
        _exchanging(e, threads),
        _eliminating(e, threads),
    )

    def run(f):
        b, n, info, k = np.int64(block()), f.n, np.int32(0), np.int64(0)
        out, pivots = f.out + b * n * n * size, f.pivots + b * n * 4
        copy_lower(out, f.a.data + b * n * n * size, n)
        while k < n:
            other, found = choose(out, n, k)
            barrier()  # all have read it
            rows = max(found, 1)
            last = k + rows - 1
            if thread() == 0:
                keep(pivots, k, other + 1 if rows == 1 else -other - 1)
                if rows == 2:
                    keep(pivots, last, -other - 1)
            if found == 0:
                info = np.int32(k + 1) if info == 0 else info
            else:
                if other != last:
                    exchange(out, n, k, last, other)
                eliminate(out, n, k, rows)
            k += rows
        if thread() == 0:
            keep(f.info, b, info)

    return of_each_matrix(run, threads)


# --- solutions ---------------------------------------------------------------------------------------------------


def _pairs(a, b, c, d):
    return a + c, b + d


def _forward(target: Target, dtype: int, threads: int) -> Any:
    """``forward(a, n, at, rows, x, k)``: what L and D make of one or two rows of x, which has k columns."""
    e = target.elements[dtype]
    load, store, one = e.load, e.store, e.constant(1)

    def subtract(a, n, at, rows, x, k):
        """The rows from all behind them."""
        place = np.int64(thread())
        while place < (n - at - rows) * k:
            row, c = split(place, k)
            i = at + rows + row
            value = load(x, i * k + c) - load(a, i * n + at) * load(x, at * k + c)
            if rows == 2:
                value -= load(a, i * n + at + 1) * load(x, (at + 1) * k + c)
            store(x, i * k + c, value)
            place += threads
        barrier()

    def divide(a, n, at, rows, x, k):
        d, c = load(a, at * n + at), np.int64(thread())
        if rows == 1:
            while c < k:
                store(x, at * k + c, load(x, at * k + c) / d)
                c += threads
        else:
            corner = load(a, (at + 1) * n + at)
            first, second = d / corner, load(a, (at + 1) * n + at + 1) / corner
            common = first * second - one
            while c < k:
                upper, lower = load(x, at * k + c) / corner, load(x, (at + 1) * k + c) / corner
                store(x, at * k + c, (second * upper - lower) / common)
                store(x, (at + 1) * k + c, (first * lower - upper) / common)
                c += threads
        barrier()

    def forward(a, n, at, rows, x, k):
        subtract(a, n, at, rows, x, k)
        divide(a, n, at, rows, x, k)

    return forward


def _backward(target: Target, dtype: int, threads: int) -> Any:
    """``backward(a, n, pivots, x, k)``: what L transposed makes of x; a warp has a column of it."""
    e, pivot, warps = target.elements[dtype], target.elements[INT32].load, threads // WARP
    load, store, zero, fold = e.load, e.store, e.constant(0), folding(target, _pairs, (dtype, dtype), threads)

    def products(a, n, at, paired, x, k, c):
        """Those of the rest of the column with the at-th one of L, and with the one before in a block of two."""
        total, other, i = zero, zero, at + 1 + thread() % WARP
        while i < n:
            value = load(x, i * k + c)
            total += load(a, i * n + at) * value
            if paired:
                other += load(a, i * n + at - 1) * value
            i += WARP
        return fold(total, other, WARPS)

    def row(a, n, at, p, x, k, c):
        paired, other = p < 0, where(p < 0, -p, p) - 1
        total, before = products(a, n, at, paired, x, k, c)
        warp_barrier()  # all have read it
        if thread() % WARP == 0:
            if paired:
                store(x, (at - 1) * k + c, load(x, (at - 1) * k + c) - before)
            value = load(x, at * k + c) - total
            store(x, at * k + c, value)
            exchanged = load(x, other * k + c)
            store(x, other * k + c, value)
            store(x, at * k + c, exchanged)
        warp_barrier()

    def backward(a, n, pivots, x, k):
        c = np.int64(thread() // WARP)
        while c < k:
            at = n - 1
            while at >= 0:
                p = np.int64(pivot(pivots, at))
                row(a, n, at, p, x, k, c)
                at -= 2 if p < 0 else 1
            c += warps

    return backward


def ldl_solve(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Solutions of ``a x = b`` by the LDL factors of a."""
    e, pivot, report = target.elements[dtype], target.elements[INT32].load, reporting(target)
    size, copy, swap = e.size, copying(e, threads), swapping(e, threads)
    forward, backward = _forward(target, dtype, threads), _backward(target, dtype, threads)

    def rows_at(pivots, at, n):
        """How many rows a pivot has; 0 of one that is none: negative ones come in pairs."""
        p = np.int64(pivot(pivots, at))
        if p > 0:
            return np.int64(1 if p <= n else 0)
        if p == 0 or -p > n or at + 1 == n:
            return np.int64(0)
        second = np.int64(pivot(pivots, at + 1))
        return np.int64(2 if second < 0 and -second <= n else 0)

    def run(f):
        b, n, k, at, rows = np.int64(block()), f.n, f.k, np.int64(0), np.int64(1)
        a, pivots, out = f.a.data + b * n * n * size, f.pivots.data + b * n * 4, f.out + b * n * k * size
        copy(out, f.b.data + b * n * k * size, n * k)
        while at < n and rows > 0:
            p, rows = np.int64(pivot(pivots, at)), rows_at(pivots, at, n)
            if rows == 0:
                report(f, p, n)
            else:
                last = at + rows - 1
                other = where(p < 0, -p, p) - 1
                if other != last:
                    swap(out, last * k, other * k, np.int64(1), k)
                    barrier()
                forward(a, n, at, rows, out, k)
            at += rows
        if rows > 0:
            backward(a, n, pivots, out, k)

    return of_each_matrix(run, threads)
