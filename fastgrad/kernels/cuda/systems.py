"""Kernels of systems of equations on the CUDA device: factors, what is solved and inverted with them, determinants.

A block has one matrix, which it eliminates in its place, column by column: its threads look for the pivot together, and
share what is left of the matrix. The matrix stays in the device's memory. So a batch of small matrices keeps a GPU
busy, and one large matrix does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import (
    WARP,
    Element,
    Target,
    barrier,
    barrier_any,
    block,
    thread,
    warp_barrier,
    where,
)
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reports import reporting
from fastgrad.kernels.cuda.teams import TOGETHER, folding
from fastgrad.native.contracts.element_types import INT32

THREADS = 256


def of_each_matrix(run: Any, threads: int, resident: int = 512) -> Body:
    """A kernel that has a block for each matrix of a batch."""
    return Body(run, ("batch",), 1, threads, resident=resident)


def copying(element: Element, threads: int) -> Any:
    """``copy(to, source, count)`` of elements, after which all threads see them."""
    load, store = element.load, element.store

    def copy(to, source, count):
        i = np.int64(thread())
        while i < count:
            store(to, i, load(source, i))
            i += threads
        barrier()

    return copy


def copying_lower(element: Element, threads: int) -> Any:
    """``copy_lower(to, source, n)``: the lower triangle of a matrix, with zeros above it; then all threads see it."""
    load, store, zero, warps = element.load, element.store, element.constant(0), threads // WARP

    def copy_lower(to, source, n):
        lane, i = np.int64(thread() % WARP), np.int64(thread() // WARP)
        while i < n:
            j = lane
            while j < n:
                store(to, i * n + j, load(source, i * n + j) if j <= i else zero)
                j += WARP
            i += warps
        barrier()

    return copy_lower


# --- elimination -------------------------------------------------------------------------------------------------


def farther(a, i, b, j):
    """The larger one of two numbers, with its place; of equal ones the first, so that the order does not matter."""
    second = (b > a) | ((b == a) & (j < i))
    return where(second, b, a), where(second, j, i)


def swapping(element: Element, threads: int) -> Any:
    """``swap(a, first, second, apart, count)``: two rows of so many elements, each so far from the next one."""
    load, store = element.load, element.store

    def swap(a, first, second, apart, count):
        j = np.int64(thread())
        while j < count:
            x, y = load(a, first + j * apart), load(a, second + j * apart)
            store(a, first + j * apart, y)
            store(a, second + j * apart, x)
            j += threads

    return swap


def seeking(target: Target, dtype: int, threads: int, measure: Any) -> Any:
    """``seek(a, begin, end, apart, at)``: the number of the element of a vector whose ``measure(x)`` is the largest.

    The k-th one lies at ``at + k * apart``; of equal ones it is the first. All threads get it.
    """
    e = target.elements[dtype]
    load, least, fold = e.load, e.constant(-np.inf), folding(target, farther, (dtype, INT32), threads)

    def seek(a, begin, end, apart, at):
        best, place, i = least, np.int32(begin), begin + thread()
        while i < end:
            x = measure(load(a, at + i * apart))
            if x > best:
                best, place = x, np.int32(i)
            i += threads
        best, place = fold(best, place, TOGETHER)
        return np.int64(place)

    return seek


def sizing(element: Element) -> Any:
    """``size(x)``: the absolute value, which for NaN is infinite, because with NaN the order would matter."""
    absolute, infinite = element.math.abs, element.constant(np.inf)

    def size(x):
        return where(x == x, absolute(x), infinite)

    return size


def _pivoting(target: Target, dtype: int, threads: int) -> Any:
    """``pivot(a, k, m, n, down, across)`` brings the largest element of a column, from the k-th on, to the k-th row.

    All threads get the number of the row where it was.
    """
    e = target.elements[dtype]
    swap, seek = swapping(e, threads), seeking(target, dtype, threads, sizing(e))

    def pivot(a, k, m, n, down, across):
        found = seek(a, k, m, down, k * across)
        if found != k:
            swap(a, k * down, found * down, across, n)
        barrier()
        return found

    return pivot


def factoring(target: Target, dtype: int, threads: int) -> Any:
    """``factor(a, m, n, down, across, pivots)`` makes L, without its ones, and U of a matrix in its place.

    Its elements are `down` and `across` apart from each other. It gives the number of the first pivot that is zero, or
    zero, and how many rows were interchanged; `pivots` is where to write which, or 0.
    """
    e, keep, warps = target.elements[dtype], target.elements[INT32].store, threads // WARP
    load, store, zero, pivot = e.load, e.store, e.constant(0), _pivoting(target, dtype, threads)

    def subtract(a, k, outer, inner, step, beside):
        """The product of column and row k from all behind them; `inner` elements are `beside` each other."""
        o, lane = k + 1 + thread() // WARP, np.int64(thread() % WARP)
        while o < outer:
            x, i = load(a, o * step + k * beside), k + 1 + lane
            while i < inner:
                place = o * step + i * beside
                store(a, place, load(a, place) - x * load(a, k * step + i * beside))
                i += WARP
            o += warps

    def factor(a, m, n, down, across, pivots):
        info, flips, k = np.int32(0), np.int32(0), np.int64(0)
        while k < m and k < n:
            found = pivot(a, k, m, n, down, across)
            flips = np.int32(flips + (1 if found != k else 0))
            if thread() == 0 and pivots != 0:
                keep(pivots, k, found + 1)
            d, i = load(a, k * down + k * across), k + 1 + thread()
            if d == zero:
                info = np.int32(k + 1) if info == 0 else info
            else:
                while i < m:
                    store(a, i * down + k * across, load(a, i * down + k * across) / d)
                    i += threads
                barrier()
                if across == 1:
                    subtract(a, k, m, n, down, across)
                else:
                    subtract(a, k, n, m, across, down)
            barrier()
            k += 1
        return info, flips

    return factor


def lu(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """L, without its ones, and U in one matrix, and pivots."""
    e, keep = target.elements[dtype], target.elements[INT32].store
    size, copy, factor = e.size, copying(e, threads), factoring(target, dtype, threads)

    def run(f):
        i = np.int64(block())
        out = f.out + i * f.m * f.n * size
        copy(out, f.a.data + i * f.m * f.n * size, f.m * f.n)
        info, _ = factor(out, f.m, f.n, f.n, np.int64(1), f.pivots + i * f.k * 4)
        if thread() == 0:
            keep(f.info, i, info)

    return of_each_matrix(run, threads)


def _determinants(target: Target, dtype: int, threads: int, finish: Any) -> Body:
    """A kernel that factors each matrix and calls ``finish(f, i, factors, odd)``, in one thread."""
    e = target.elements[dtype]
    size, copy, factor = e.size, copying(e, threads), factoring(target, dtype, threads)

    def run(f):
        i = np.int64(block())
        factors = f.factors + i * f.n * f.n * size
        copy(factors, f.a.data + i * f.n * f.n * size, f.n * f.n)
        _, flips = factor(factors, f.n, f.n, f.n, np.int64(1), np.int64(0))
        if thread() == 0:
            finish(f, i, factors, flips % 2 != 0)

    return of_each_matrix(run, threads)


def determinant(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Determinants."""
    e = target.elements[dtype]
    load, store, one = e.load, e.store, e.constant(1)

    def finish(f, i, factors, odd):
        d, j = where(odd, -one, one), np.int64(0)
        while j < f.n:
            d *= load(factors, j * f.n + j)
            j += 1
        store(f.out, i, d)

    return _determinants(target, dtype, threads, finish)


def log_determinant(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """The sign of each determinant, and the logarithm of its absolute value."""
    e = target.elements[dtype]
    load, store, one, zero, log, absolute = (
        e.load, e.store, e.constant(1), e.constant(0), e.math.log, e.math.abs,
    )  # fmt: skip

    def finish(f, i, factors, odd):
        sign, total, j = where(odd, -one, one), zero, np.int64(0)
        while j < f.n:
            d = load(factors, j * f.n + j)
            sign = where(d < zero, -sign, where(d > zero, sign, sign * d))  # zero or NaN
            total += log(absolute(d))
            j += 1
        store(f.sign, i, sign)
        store(f.logarithm, i, total)

    return _determinants(target, dtype, threads, finish)


# --- triangles ---------------------------------------------------------------------------------------------------


def substituting(element: Element, threads: int) -> Any:
    """``substitute(a, n, down, across, lower, unit, x, k)`` makes of x, of k columns, what solves ``a y = x``.

    Of a one triangle counts, whose elements are `down` and `across` apart, or has ones on its diagonal (`unit`).
    """
    load, store = element.load, element.store

    def substitute(a, n, down, across, lower, unit, x, k):
        step = np.int64(0)
        while step < n:
            j = step if lower else n - 1 - step
            if not unit:
                d, c = load(a, j * down + j * across), np.int64(thread())
                while c < k:
                    store(x, j * k + c, load(x, j * k + c) / d)
                    c += threads
                barrier()
            first, left = j + 1 if lower else np.int64(0), n - 1 - step
            at = np.int64(thread())
            while at < left * k:
                row, c = split(at, k)
                i = first + row
                value = load(x, i * k + c) - load(a, i * down + j * across) * load(x, j * k + c)
                store(x, i * k + c, value)
                at += threads
            barrier()
            step += 1

    return substitute


def triangular(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Solutions of ``a x = b`` by a triangle of a: `upper`, with ones on its diagonal (`unit`), `transposed` or not."""
    e = target.elements[dtype]
    size, copy, substitute = e.size, copying(e, threads), substituting(e, threads)

    def run(f):
        i, one = np.int64(block()), np.int64(1)
        out, back = f.out + i * f.n * f.k * size, f.transposed != 0
        copy(out, f.b.data + i * f.n * f.k * size, f.n * f.k)
        down, across = one if back else f.n, f.n if back else one
        lower = (f.upper != 0) == back
        substitute(f.a.data + i * f.n * f.n * size, f.n, down, across, lower, f.unit != 0, out, f.k)

    return of_each_matrix(run, threads)


def cholesky(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The lower triangle L of ``a = L L'``, of which the lower triangle is read."""
    e, keep, warps = target.elements[dtype], target.elements[INT32].store, threads // WARP
    load, store, zero, sqrt, size, copy_lower = (
        e.load, e.store, e.constant(0), e.math.sqrt, e.size, copying_lower(e, threads),
    )  # fmt: skip

    def column(out, n, k, root):
        """The k-th column, and what is behind it without its part."""
        i = k + thread()
        while i < n:
            store(out, i * n + k, root if i == k else load(out, i * n + k) / root)
            i += threads
        barrier()
        lane, i = np.int64(thread() % WARP), k + 1 + thread() // WARP
        while i < n:
            x, j = load(out, i * n + k), k + 1 + lane
            while j <= i:
                store(out, i * n + j, load(out, i * n + j) - x * load(out, j * n + k))
                j += WARP
            i += warps
        barrier()

    def run(f):
        b, n, info, k = np.int64(block()), f.n, np.int32(0), np.int64(0)
        out = f.out + b * n * n * size
        copy_lower(out, f.a.data + b * n * n * size, n)
        while k < n and info == 0:
            d = load(out, k * n + k)
            barrier()  # all have read it
            if d > zero:
                column(out, n, k, sqrt(d))
            else:
                info = np.int32(k + 1)
            k += 1
        if thread() == 0:
            keep(f.info, b, info)

    return of_each_matrix(run, threads)


# --- what is solved ----------------------------------------------------------------------------------------------


def _interchanging(target: Target, dtype: int, threads: int) -> Any:
    """``interchange(x, n, apart, count, beside, pivots, backwards)``: in each of `count` vectors, which lie `beside`
    each other, the elements that n pivots say change places, or go back; elements of a vector are so far `apart`.
    """
    e, pivot = target.elements[dtype], target.elements[INT32].load
    load, store = e.load, e.store

    def interchange(x, n, apart, count, beside, pivots, backwards):
        c = np.int64(thread())
        while c < count:
            step = np.int64(0)
            while step < n:
                i = n - 1 - step if backwards else step
                other = np.int64(pivot(pivots, i)) - 1
                first, second = load(x, i * apart + c * beside), load(x, other * apart + c * beside)
                store(x, i * apart + c * beside, second)
                store(x, other * apart + c * beside, first)
                step += 1
            c += threads

    return interchange


def interchange(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The interchanges of rows that pivots say, or, `backwards`, what undoes them."""
    e, pivot, report = target.elements[dtype], target.elements[INT32].load, reporting(target)
    size, copy, exchange = e.size, copying(e, threads), _interchanging(target, dtype, threads)

    def run(f):
        b, wrong, j = np.int64(block()), False, np.int64(thread())
        out, pivots = f.out + b * f.n * f.k * size, f.pivots.data + b * f.p * 4
        while j < f.p:
            row = np.int64(pivot(pivots, j))
            if row < 1 or row > f.n or f.p > f.n:
                report(f, row, f.n)
                wrong = True
            j += threads
        copy(out, f.x.data + b * f.n * f.k * size, f.n * f.k)
        if not barrier_any(wrong):
            exchange(out, f.p, f.k, f.k, np.int64(1), pivots, f.backwards != 0)

    return of_each_matrix(run, threads)


def solving(target: Target, dtype: int, threads: int) -> Any:
    """``solve_by(factors, out, n, k, pivots)`` makes of `out`, of k columns, what solves the equations.

    `factors` holds the matrix, of which the factors of the transposed one come to be. It gives the number of the first
    pivot that is zero, or zero.
    """
    e, factor = target.elements[dtype], factoring(target, dtype, threads)
    substitute, exchange = substituting(e, threads), _interchanging(target, dtype, threads)

    def solve_by(factors, out, n, k, pivots):
        one = np.int64(1)
        info, _ = factor(factors, n, n, one, n, pivots)
        substitute(factors, n, n, one, True, False, out, k)
        substitute(factors, n, n, one, False, True, out, k)
        exchange(out, n, k, k, one, pivots, True)
        barrier()
        return info

    return solve_by


def multiplying(element: Element, threads: int) -> Any:
    """``multiply(to, x, x_down, x_across, y, y_down, y_across, m, n, k)``: a product, by rows."""
    load, store, zero = element.load, element.store, element.constant(0)

    def multiply(to, x, x_down, x_across, y, y_down, y_across, m, n, k):
        at = np.int64(thread())
        while at < m * n:
            i, j = split(at, n)
            total, c = zero, np.int64(0)
            while c < k:
                total += load(x, i * x_down + c * x_across) * load(y, c * y_down + j * y_across)
                c += 1
            store(to, at, total)
            at += threads
        barrier()

    return multiply


def filling(element: Element, threads: int) -> Any:
    """``fill(to, count, value)``."""
    store = element.store

    def fill(to, count, value):
        at = np.int64(thread())
        while at < count:
            store(to, at, value)
            at += threads

    return fill


def solve(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Solutions of ``a x = b``, and the factors of a transposed, as the frame says.

    Of a singular matrix the rows are eliminated anew, because its pivots are counted by them.
    """
    e, keep = target.elements[dtype], target.elements[INT32].store
    size, copy, factor = e.size, copying(e, threads), factoring(target, dtype, threads)
    solve_by = solving(target, dtype, threads)

    def run(f):
        i, n, k, one = np.int64(block()), f.n, f.k, np.int64(1)
        a, factors = f.a.data + i * n * n * size, f.factors + i * n * n * size
        out, pivots = f.out + i * n * k * size, f.pivots + i * n * 4
        copy(factors, a, n * n)
        copy(out, f.b.data + i * n * k * size, n * k)
        info = solve_by(factors, out, n, k, pivots)
        if info != 0:
            copy(factors, a, n * n)
            info, _ = factor(factors, n, n, n, one, pivots)
        if thread() == 0:
            keep(f.info, i, info)

    return of_each_matrix(run, threads)


def inverse(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Inverse matrices by Gauss and Jordan's elimination, in their place; NaN of singular ones."""
    e, keep, warps = target.elements[dtype], target.elements[INT32].store, threads // WARP
    load, store, zero, one, nan, size = (
        e.load, e.store, e.constant(0), e.constant(1), e.constant(np.nan), e.size,
    )  # fmt: skip
    copy, pivot, exchange = (
        copying(e, threads),
        _pivoting(target, dtype, threads),
        _interchanging(target, dtype, threads),
    )

    def eliminate(out, n, k, d):
        """Column k from all rows but the k-th, which is divided by the pivot; the inverse takes the column's place."""
        j = np.int64(thread())
        while j < n:
            store(out, k * n + j, (one if j == k else load(out, k * n + j)) / d)
            j += threads
        barrier()
        lane, i = np.int64(thread() % WARP), np.int64(thread() // WARP)
        while i < n:
            x, j = load(out, i * n + k), lane
            warp_barrier()  # all have read it
            while j < n and i != k:
                before = zero if j == k else load(out, i * n + j)
                store(out, i * n + j, before - x * load(out, k * n + j))
                j += WARP
            i += warps
        barrier()

    def run(f):
        b, n, info, k = np.int64(block()), f.n, np.int32(0), np.int64(0)
        out, pivots = f.out + b * n * n * size, f.pivots + b * n * 4
        copy(out, f.a.data + b * n * n * size, n * n)
        while k < n and info == 0:
            found = pivot(out, k, n, n, n, np.int64(1))
            if thread() == 0:
                keep(pivots, k, found + 1)
            d = load(out, k * n + k)
            barrier()  # all have read it
            if d == zero:
                info = np.int32(k + 1)
            else:
                eliminate(out, n, k, d)
            k += 1
        at = np.int64(thread())
        while at < n * n and info != 0:
            store(out, at, nan)
            at += threads
        if info == 0:
            exchange(out, n, np.int64(1), n, n, pivots, True)
        if thread() == 0:
            keep(f.info, b, info)

    return of_each_matrix(run, threads)
