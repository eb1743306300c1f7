"""Kernels of the CUDA device that gather and scatter by indices; an index that is out of range is reported.

The grid of gathering and scattering is the same for every size: what a frame says of its dimensions is no product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.collecting import PLACES, adding, collecting, combining
from fastgrad.kernels.cuda.device import Target, block, thread
from fastgrad.kernels.cuda.places import number_of, offsets_beside, part_of, product_of, split
from fastgrad.kernels.cuda.reports import checking, reporting
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.limits import FRAME_DIMS

THREADS = 256
STEPS = 4
GRID = (66, 8)  # factors of the number of blocks
BLOCKS = GRID[0] * GRID[1]
MANY = 1 << 12
"""Elements that lie side by side from which on each has a thread that goes through all indices in their order."""


offsets = offsets_beside(reversed(range(FRAME_DIMS)), 3)


def places(number, without, f):
    """Where an element of the index lies in `out`, x and the index; one dimension may be left out."""
    left = np.uint32(number)
    return offsets(left, f.rank, f.sizes, without, f.out_strides, f.x_strides, f.index_strides)


def gather(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    e, index_of, fits = target.elements[dtype], target.elements[INT64].load, checking(target)
    load, store = e.load, e.store

    def run(f):
        i, total = np.int64(block()) * threads + thread(), product_of(f.sizes, f.rank)
        while i < total:
            o, p, q = places(i, -1, f)
            k = index_of(f.index_, q)
            if fits(f, k, f.length):
                store(f.out, o, load(f.x, p + k * f.step))
            i += BLOCKS * threads

    return Body(run, GRID, 1, threads)


def scatter_add(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    return _scatter(dtype, target, threads, "add")


def scatter_set(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    return _scatter(dtype, target, threads, "set")


def scatter_mul(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    return _scatter(dtype, target, threads, "mul")


def scatter_amax(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    return _scatter(dtype, target, threads, "amax")


def scatter_amin(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    return _scatter(dtype, target, threads, "amin")


def _scatter(dtype: int, target: Target, threads: int, how: str) -> Body:
    """Elements that may change the same one are those along one dimension: a line. In a line they go in order."""
    e, index_of, fits, plus = (
        target.elements[dtype], target.elements[INT64].load, checking(target), combining(dtype, how),
    )  # fmt: skip
    load, store = e.load, e.store

    def checked(f, q):
        k = index_of(f.index_, q)
        return k if fits(f, k, f.length) else np.int64(-1)

    def place_of(f, line, i):
        _, _, q = places(line, f.along, f)
        return checked(f, q + i * number_of(f.index_strides, f.along))

    def add(f, line, i, place):
        if thread() == place % threads:
            o, p, _ = places(line, f.along, f)
            o, p = o + i * number_of(f.out_strides, f.along), p + place * f.step
            store(f.x, p, plus(load(f.x, p), load(f.out, o)))

    collect = collecting(target, place_of, add, threads)

    def each_line(f, lines, n):
        line = np.int64(block()) * threads + thread()
        o_step, q_step = number_of(f.out_strides, f.along), number_of(f.index_strides, f.along)
        while line < lines:
            o, p, q = places(line, f.along, f)
            i = np.int64(0)
            while i < n:
                k = checked(f, q + i * q_step)
                if k >= 0:
                    to = p + k * f.step
                    store(f.x, to, plus(load(f.x, to), load(f.out, o + i * o_step)))
                i += 1
            line += BLOCKS * threads

    def run(f):
        total = product_of(f.sizes, f.rank)
        n = number_of(f.sizes, f.along) if f.along >= 0 else np.int64(1)
        lines, _ = split(total, n)
        if lines >= MANY or n <= PLACES:
            each_line(f, lines, n)
            return
        chunks = (f.length + PLACES - 1) // PLACES
        unit = np.int64(block())
        while unit < lines * chunks:
            line, chunk = split(unit, chunks)
            collect(f, line, n, chunk * PLACES)
            unit += BLOCKS

    return Body(run, GRID, 1, threads)


# --- indexing by several tensors -------------------------------------------------------------------------------


def _placing(target: Target) -> Any:
    """``place(f, i)``: where the i-th indices point within the dimensions that they index, -1 if out of range."""
    index_of, report = target.elements[INT64].load, reporting(target)
    lines = ["def place(f, i):", "    place, least = np.int64(0), np.int64(0 if f.from_front != 0 else -1)"]
    for k in range(FRAME_DIMS):
        lines += [
            f"    if f.count > {k}:",
            f"        size, value = f.lengths[{k}], index_of(f.indices, {k} * f.n + i)",
            "        if value < least * size or value >= size:",
            "            report(f, value, size)",
            "            return np.int64(-1)",
            "        place = place * size + (value + size if value < 0 else value)",
        ]
    lines.append("    return place")
    scope: dict[str, Any] = {"np": np, "index_of": index_of, "report": report}
    exec("\n".join(lines) + "\n", scope)
    return scope["place"]


def index(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    load, store, per_block = target.elements[dtype].load, target.elements[dtype].store, threads * STEPS
    place_of = _placing(target)

    def run(f):
        at, end = part_of(f.before * f.n * f.after, per_block)
        inner = product_of(f.lengths, f.count)
        while at < end:
            line, beside = split(at, f.after)
            b, i = split(line, f.n)
            place = place_of(f, i)
            if place >= 0:
                store(f.out, at, load(f.x, (b * inner + place) * f.after + beside))
            at += threads

    return Body(run, ("before", "n", "after"), per_block, threads)


def index_put(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Of several elements that belong to one place the last one stays, or all are added up in their order."""
    e, plus = target.elements[dtype], adding(dtype)
    load, store = e.load, e.store
    place_of_indices = _placing(target)

    def place_of(f, line, i):
        return place_of_indices(f, i)

    def put(f, i, place, inner, column):
        b, beside = split(column, f.after)
        to, source = (b * inner + place) * f.after + beside, (b * f.n + i) * f.after + beside
        value = load(f.out, source)
        store(f.x, to, plus(load(f.x, to), value) if f.accumulate != 0 else value)

    def add(f, line, i, place):
        column, inner = np.int64(thread()), product_of(f.lengths, f.count)
        while column < f.before * f.after:
            put(f, i, place, inner, column)
            column += threads

    collect = collecting(target, place_of, add, threads)

    def run(f):
        columns, inner = f.before * f.after, product_of(f.lengths, f.count)
        if columns >= MANY or f.n == 1:
            column = np.int64(block()) * threads + thread()
            while column < columns:
                i = np.int64(0)
                while i < f.n:
                    place = place_of_indices(f, i)
                    if place >= 0:
                        put(f, i, place, inner, column)
                    i += 1
                column += BLOCKS * threads
            return
        first = np.int64(block()) * PLACES
        while first < inner:
            collect(f, np.int64(0), f.n, first)
            first += BLOCKS * PLACES

    return Body(run, GRID, 1, threads)
