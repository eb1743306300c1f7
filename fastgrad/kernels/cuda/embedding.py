"""Kernels of embeddings on the CUDA device: a warp for each index, and a block for some rows of the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.collecting import PLACES, collecting
from fastgrad.kernels.cuda.device import WARP, Target, block, thread
from fastgrad.kernels.cuda.reports import checking, reporting
from fastgrad.native.contracts.element_types import INT64, computed_in

THREADS = 256


def lookup(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """``out[i] = table[index[i]]``; as transpose of `collect` times the factor, and zero for padding."""
    e, index_of, report = target.elements[dtype], target.elements[INT64].load, reporting(target)
    load, store, zero, one = e.load, e.store, e.constant(0), e.constant(1)

    def run(f):
        i = np.int64(block()) * (threads // WARP) + thread() // WARP
        if i >= f.indices.numel:
            return
        k, j, lane = index_of(f.indices.data, i), np.int64(thread() % WARP), thread() % WARP
        if k < 0 or k >= f.rows:
            if lane == 0:
                report(f, k, f.rows)
            return
        empty = f.transposed != 0 and k == f.padding
        scaled = f.transposed != 0 and f.factors.data != 0
        factor = load(f.factors.data, i) if scaled else one
        while j < f.width:
            value = zero if empty else load(f.table.data, k * f.width + j)
            store(f.out, i * f.width + j, value * factor if scaled else value)
            j += WARP

    return Body(run, ("indices.numel",), threads // WARP, threads)


def collect(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """To zeros, each gradient added to the row that its index names, in the order of the indices.

    That is done for some of the columns.
    """
    e, index_of, report = target.elements[dtype], target.elements[INT64].load, reporting(target)
    load, sums, fits = e.load, target.elements[computed_in(dtype)], checking(target)
    load_sum, store_sum = sums.load, sums.store

    def place_of(f, line, i):
        k = index_of(f.indices.data, i)
        return k if fits(f, k, f.rows) and k != f.padding else np.int64(-1)

    def add(f, line, i, place):
        j, end = f.first + thread(), f.first + f.columns
        while j < end:
            to, g = place * f.width + j, load(f.grad.data, i * f.width + j)
            g = load(f.factors.data, i) * g if f.factors.data != 0 else g
            store_sum(f.out, to, load_sum(f.out, to) + g)
            j += threads

    core = collecting(target, place_of, add, threads)

    def run(f):
        if f.first < 0 or f.columns < 0 or f.first > f.width - f.columns:
            report(f, f.first, f.width - f.columns + 1)
            return
        core(f, np.int64(0), f.indices.numel, np.int64(block()) * PLACES)

    return Body(run, ("rows",), PLACES, threads)
