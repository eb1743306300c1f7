"""Kernels of bags of rows on the CUDA device: sums and maxima have a thread for each element, see `kernels.cpu.bags`.

Ways back go through the indices. The bounds of bags are in order, so that the bag of an index is found by halving.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.collecting import PLACES, collecting
from fastgrad.kernels.cuda.device import WARP, Target, ballot, block, popcount, thread
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reports import checking, reporting
from fastgrad.kernels.cuda.teams import WARPS, folding_one, plain_sum
from fastgrad.native.contracts.element_types import INT64

THREADS = 256


def _bags(target: Target, threads: int) -> tuple[Any, Any, Any, Any]:
    """What is known of bags.

    ``bounds_of(f, b)`` are the bounds of a bag; those that do not lie among the indices are reported, and the bag is
    empty. ``bag_of(f, i)`` is the bag of an index, or -1 if it is in none. ``check(f)`` looks at all bags, in one
    block. ``has_steps(f, steps)`` says whether there are as many steps as are to be done; if not, that is reported.
    """
    word, report = target.elements[INT64].load, reporting(target)

    def bounds_of(f, b):
        begin, end, n = word(f.bounds.data, 2 * b), word(f.bounds.data, 2 * b + 1), f.indices.numel
        if begin < 0 or begin > n:
            report(f, begin, n + 1)
            return np.int64(0), np.int64(0)
        if end < begin or end > n:
            report(f, end, n + 1)
            return np.int64(0), np.int64(0)
        return begin, end

    def bag_of(f, i):
        low, high = np.int64(0), f.bags
        while (
            low < high
        ):  # the bags before `low` begin at the index or before it, those from `high` on behind it
            middle = (low + high) >> 1
            if word(f.bounds.data, 2 * middle) <= i:
                low = middle + 1
            else:
                high = middle
        b = low - 1
        return b if b >= 0 and i < word(f.bounds.data, 2 * b + 1) else np.int64(-1)

    def check(f):
        b = np.int64(thread())
        while block() == 0 and b < f.bags:
            bounds_of(f, b)
            b += threads

    def has_steps(f, steps):
        if f.first < 0 or f.count < 0 or f.first > steps - f.count:
            report(f, f.first, steps - f.count + 1)
            return False
        return True

    return bounds_of, bag_of, check, has_steps


def lookup(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The sum of each bag's rows, times their factors."""
    e, index_of, fits = target.elements[dtype], target.elements[INT64].load, checking(target)
    load, store, cast, zero, one = e.load, e.store, e.constant, e.constant(0), e.constant(1)
    bounds_of, _, _, has_steps = _bags(target, threads)

    def run(f):
        number = np.int64(block()) * threads + thread()
        if not has_steps(f, f.bags) or number >= f.count * f.width:
            return
        b, j = split(number, f.width)
        b += f.first
        i, end = bounds_of(f, b)
        weighed, scaled = f.factors.data != 0, f.scaled != 0 and f.scales.data != 0
        total, count = zero, np.int64(0)
        while i < end:
            k = index_of(f.indices.data, i)
            if fits(f, k, f.rows) and k != f.padding:
                value = load(f.table.data, k * f.width + j)
                if weighed or scaled:
                    factor = load(f.factors.data, i) if weighed else one
                    value *= factor * load(f.scales.data, i) if scaled else factor
                total += value
                count += 1
            i += 1
        if f.mean != 0:
            total *= one / cast(max(count, np.int64(1)))
        store(f.out, b * f.width + j, total)

    return Body(run, ("count", "width"), threads, threads)


def collect(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """To zeros, the gradient of each bag added to its rows, times their factors, in the order of the indices.

    That is done for some of the columns.
    """
    e, index_of, report = target.elements[dtype], target.elements[INT64].load, reporting(target)
    load, store, cast, one = e.load, e.store, e.constant, e.constant(1)
    bounds_of, bag_of, check, has_steps = _bags(target, threads)

    def share(f, b):
        """What every row of a bag is multiplied by; the threads of a warp count together."""
        begin, end = bounds_of(f, b)
        count, i = end - begin, begin
        if f.padding >= 0:
            count = np.int64(0)
            while i < end:
                at = i + thread() % WARP
                counts = at < end and index_of(f.indices.data, min(at, end - 1)) != f.padding
                count += popcount(ballot(counts))
                i += WARP
        return one / cast(max(count, np.int64(1)))

    def place_of(f, line, i):
        k = index_of(f.indices.data, i)
        if k < 0 or k >= f.rows:
            if bag_of(f, i) >= 0:
                report(f, k, f.rows)
            return np.int64(-1)
        return k if k != f.padding else np.int64(-1)

    def add(f, line, i, place):
        b = bag_of(f, i)
        if b < 0:
            return
        factor = share(f, b) if f.mean != 0 else one
        if f.factors.data != 0:
            factor *= load(f.factors.data, i)
        if f.scales.data != 0:
            factor *= load(f.scales.data, i)
        j, end = f.first + thread(), f.first + f.count
        while j < end:
            to = place * f.width + j
            store(f.out, to, load(f.out, to) + factor * load(f.grad.data, b * f.width + j))
            j += threads

    core = collecting(target, place_of, add, threads)

    def run(f):
        if not has_steps(f, f.width):
            return
        check(f)
        core(f, np.int64(0), f.indices.numel, np.int64(block()) * PLACES)

    return Body(run, ("rows",), PLACES, threads)


def to_factors(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The products of gradients of bags and their rows, a warp for each; 0 for indices that are in no bag."""
    e, index_of, fits = target.elements[dtype], target.elements[INT64].load, checking(target)
    load, store, zero = e.load, e.store, e.constant(0)
    _, bag_of, check, _ = _bags(target, threads)
    fold = folding_one(target, plain_sum, dtype, threads)

    def run(f):
        check(f)
        i, lane = np.int64(block()) * (threads // WARP) + thread() // WARP, thread() % WARP
        if i >= f.indices.numel:
            return
        b, k, total = bag_of(f, i), index_of(f.indices.data, i), zero
        if b >= 0 and fits(f, k, f.rows) and k != f.padding:
            j = np.int64(lane)
            while j < f.width:
                total += load(f.grad.data, b * f.width + j) * load(f.table.data, k * f.width + j)
                j += WARP
        total = fold(total, WARPS)
        if lane == 0:
            store(f.out, i, total * load(f.scales.data, i) if f.scales.data != 0 else total)

    return Body(run, ("indices.numel",), threads // WARP, threads)


def maxima(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The row in which the largest element of each bag and column stands, the first of equal ones; -1 of empty bags."""
    word, index_of, fits = target.elements[INT64].store, target.elements[INT64].load, checking(target)
    load, zero = target.elements[dtype].load, target.elements[dtype].constant(0)
    bounds_of, _, _, has_steps = _bags(target, threads)

    def run(f):
        number = np.int64(block()) * threads + thread()
        if not has_steps(f, f.bags) or number >= f.count * f.width:
            return
        b, j = split(number, f.width)
        b += f.first
        i, end = bounds_of(f, b)
        best, found = zero, np.int64(-1)
        while i < end:
            k = index_of(f.indices.data, i)
            if fits(f, k, f.rows) and k != f.padding:
                value = load(f.table.data, k * f.width + j)
                if found < 0 or value > best:  # as in PyTorch, where a NaN is no maximum
                    best, found = value, k
            i += 1
        word(f.out, b * f.width + j, found)

    return Body(run, ("count", "width"), threads, threads)
