"""Searching in rows that are in order, on the CUDA device: a thread for each value."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, block, thread
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reports import checking
from fastgrad.native.contracts.element_types import INT64

THREADS = 256


def search(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """How many boundaries of its row stand before a value; of equal ones none, or all with `right`."""
    load, whole, fits = target.elements[dtype].load, target.elements[INT64], checking(target)
    index_of, store = whole.load, whole.store

    def run(f):
        i = np.int64(block()) * threads + thread()
        if i >= f.values.numel:
            return
        line, _ = split(i, f.per_row)
        row, value = line * f.length, load(f.values.data, i)
        low, high = np.int64(0), f.length
        while low < high:
            middle = (low + high) >> 1
            place = index_of(f.sorter.data, row + middle) if f.sorter.data != 0 else middle
            before = False
            if fits(f, place, f.length):
                found = load(f.boundaries.data, row + place)
                before = found > value if f.right != 0 else found >= value
            if before:
                high = middle
            else:
                low = middle + 1
        store(f.out, i, low)

    return Body(run, ("values.numel",), threads, threads)
