"""Kernels of the negative log likelihood, and of probabilities, on the CUDA device.

Where there is one loss of all, one block adds it up, and where there is one of each, what the weights come to. The grid
is the same for every size, so that there is a result of nothing as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, block, thread
from fastgrad.kernels.cuda.places import part_of, split
from fastgrad.kernels.cuda.reports import checking, doubting
from fastgrad.kernels.cuda.teams import TOGETHER, added, sums, whole
from fastgrad.native.contracts.element_types import INT64, computed_in
from fastgrad.native.contracts.frames.losses import EACH, MEAN

THREADS = 1024
GRID = (66, 4)  # factors of the number of blocks
BLOCKS = GRID[0] * GRID[1]


def nll(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """``-w[y] * x[y]``, each, summed, or summed and divided by the total weight."""
    e, class_of, fits = target.elements[dtype], target.elements[INT64].load, checking(target)
    load, store, zero, one = e.load, e.store, e.constant(0), e.constant(1)
    store_total = target.elements[computed_in(dtype)].store
    fold = sums(target, dtype, threads)

    def weighed(f, i):
        """The loss and the weight of a target."""
        y = class_of(f.targets, i)
        if y == f.ignore_index or not fits(f, y, f.classes):
            return zero, zero
        w = load(f.weights, y) if f.weights != 0 else one
        return -w * load(f.x, place(f, i) + y * f.class_stride), w

    def run(f):
        count = f.rows * f.inner
        if f.reduction == EACH:
            i = np.int64(block()) * threads + thread()
            while i < count:
                loss, _ = weighed(f, i)
                store(f.loss, i, loss)
                i += BLOCKS * threads
        if block() != 0:
            return
        total, lost, weights, lost_weights = zero, zero, zero, zero
        i = np.int64(thread())
        while i < count:
            loss, w = weighed(f, i)
            total, lost = added(total, lost, loss)
            weights, lost_weights = added(weights, lost_weights, w)
            i += threads
        total, lost = fold(total, lost, TOGETHER)
        weights, lost_weights = fold(weights, lost_weights, TOGETHER)
        if thread() == 0:
            weight = whole(weights, lost_weights)
            loss = whole(total, lost)
            store_total(f.total, 0, weight)
            if f.reduction != EACH:
                store(f.loss, 0, loss / weight if f.reduction == MEAN else loss)

    return Body(run, GRID, 1, threads)


def place(f, i):
    """Where the i-th target's classes begin."""
    row, beside = split(i, f.inner)
    return row * f.row_stride + beside * f.inner_stride


def nll_backward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """``-w[y] * g`` at the targets, zero elsewhere: each element is written once."""
    e, class_of, fits = target.elements[dtype], target.elements[INT64].load, checking(target)
    load, store, zero, one, per_block = e.load, e.store, e.constant(0), e.constant(1), threads * 4
    load_total = target.elements[computed_in(dtype)].load

    def run(f):
        at, end = part_of(f.rows * f.classes * f.inner, per_block)
        scale = one / load_total(f.total, 0) if f.reduction == MEAN else one
        while at < end:
            line, beside = split(at, f.inner) if f.inner != 1 else (at, np.int64(0))
            row, kind = split(line, f.classes)
            i = row * f.inner + beside
            y, value = class_of(f.targets, i), zero
            if y != f.ignore_index and fits(f, y, f.classes) and y == kind:
                w = load(f.weights, y) if f.weights != 0 else one
                value = -w * scale * load(f.loss, i if f.reduction == EACH else 0)
            to = row * f.row_stride + kind * f.class_stride + beside * f.inner_stride
            store(f.x, to, value)
            at += threads

    return Body(run, ("rows", "classes", "inner"), per_block, threads)


def probabilities(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Report if an element does not lie in [0, 1]."""
    e, report, per_block = target.elements[dtype], doubting(target), threads * 4
    load, zero, one = e.load, e.constant(0), e.constant(1)

    def run(f):
        i, end = part_of(f.n, per_block)
        fits = True
        while i < end:
            x = load(f.x, i)
            fits = fits and x >= zero and x <= one
            i += threads
        if not fits:
            report(f)

    return Body(run, ("n",), per_block, threads)
