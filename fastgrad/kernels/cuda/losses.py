"""Kernels of the negative log likelihood, and of probabilities, on the CUDA device.

Where there is one loss of all, one block adds it up, and where there is one of each, what the weights come to. The grid
is the same for every size, so that there is a result of nothing as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, block, opaque, thread, where
from fastgrad.kernels.cuda.places import part_of, split
from fastgrad.kernels.cuda.reports import checking, doubting
from fastgrad.kernels.cuda.shares import ACCESS
from fastgrad.kernels.cuda.teams import TOGETHER, added, sums, whole
from fastgrad.native.contracts.element_types import INT64, computed_in
from fastgrad.native.contracts.frames.losses import EACH, MEAN

THREADS, BACK_THREADS = 1024, 256
GRID = (66, 4)  # factors of the number of blocks
BLOCKS = GRID[0] * GRID[1]


def nll(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """``-w[y] * x[y]``, each, summed, or summed and divided by the total weight."""
    e, targets, fits = target.elements[dtype], target.elements[INT64], checking(target)
    store, zero, one, fold = e.store, e.constant(0), e.constant(1), sums(target, dtype, threads)
    class_where, load_where, store_total = (
        targets.load_where, e.load_where, target.elements[computed_in(dtype)].store,
    )  # fmt: skip

    def weighed(f, i, asked):
        """The loss and the weight of a target, zeros where it is not asked for."""
        y = class_where(f.targets, i, asked)
        counts = asked and y != f.ignore_index and fits(f, y, f.classes)
        w = load_where(f.weights, y, counts) if f.weights != 0 else where(counts, one, zero)
        return -w * load_where(f.x, place(f, i) + y * f.class_stride, counts), w

    def each(f, count):
        i = np.int64(block()) * threads + thread()
        while i < count:
            loss, _ = weighed(f, i, True)
            store(f.loss, i, loss)
            i += BLOCKS * threads

    def run(f):
        count = f.rows * f.inner
        if f.reduction == EACH:
            each(f, count)
        if block() != 0:
            return
        total, lost, weights, lost_weights = zero, zero, zero, zero
        i = np.int64(thread())
        while i < count:  # four targets, and then what they name, are under way at once
            (a, v), (b, w) = weighed(f, i, True), weighed(f, i + threads, i + threads < count)
            far, farther = i + 2 * threads, i + 3 * threads
            (c, x), (d, y) = weighed(f, far, far < count), weighed(f, farther, farther < count)
            total, lost = added(total, lost, (a + b) + (c + d))
            weights, lost_weights = added(weights, lost_weights, (v + w) + (x + y))
            i = opaque(i + 4 * threads)
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


def nll_backward(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = BACK_THREADS
) -> Body:
    """``-w[y] * g`` at the targets, zero elsewhere: each element is written once."""
    e, class_of, fits = target.elements[dtype], target.elements[INT64].load, checking(target)
    load, store, zero, one = e.load, e.store, e.constant(0), e.constant(1)
    load_total, width, per_block = target.elements[computed_in(dtype)].load, ACCESS // e.size, threads * 8
    store_some, within, size = e.store_some(width), spreading(width), e.size

    def gradient(f, i, y):
        """That of a place, by the class that its target names."""
        w = load(f.weights, y) if f.weights != 0 else one
        scale = one / load_total(f.total, 0) if f.reduction == MEAN else one
        return -w * scale * load(f.loss, i if f.reduction == EACH else 0)

    def piece(f, at):
        """Elements of a row that lie side by side; its target is read once for all."""
        i, kind = split(at, f.classes)
        y, value = class_of(f.targets, i), zero
        if y != f.ignore_index and fits(f, y, f.classes) and kind <= y and y < kind + width:
            value = gradient(f, i, y)
        store_some(f.x + at * size, within(value, y - kind, zero))

    def single(f, at):
        line, beside = split(at, f.inner)
        row, kind = split(line, f.classes)
        i = row * f.inner + beside
        y, value = class_of(f.targets, i), zero
        if y != f.ignore_index and fits(f, y, f.classes) and y == kind:
            value = gradient(f, i, y)
        store(f.x, row * f.row_stride + kind * f.class_stride + beside * f.inner_stride, value)

    def run(f):
        at, end = part_of(f.rows * f.classes * f.inner, per_block)
        if f.inner == 1 and f.class_stride == 1 and f.row_stride == f.classes:
            if f.classes & width - 1 == 0 and f.x & ACCESS - 1 == 0:
                at += np.int64(thread()) * (width - 1)
                while at < end:
                    piece(f, at)
                    at += threads * width
                return
        while at < end:
            single(f, at)
            at += threads

    return Body(run, ("rows", "classes", "inner"), per_block, threads)


def spreading(width: int) -> Any:
    """``within(value, j, other)``: so many elements, the j-th of which is the value."""
    each = "".join(f"where(j == {k}, value, other), " for k in range(width))
    scope: dict[str, Any] = {"where": where}
    exec(f"def within(value, j, other):\n    return ({each})\n", scope)
    return scope["within"]


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
