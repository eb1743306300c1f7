"""The kernel of other sizes along a dimension on the CUDA device: a thread for each element of the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, block, thread
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reports import reporting
from fastgrad.native.contracts.element_types import INT64

THREADS = 256


def along(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Each place of a row is the sum of its sources times their weights, in the order of the table."""
    e, source_of, report = target.elements[dtype], target.elements[INT64].load, reporting(target)
    load, store, zero = e.load, e.store, e.constant(0)

    def run(f):
        number = np.int64(block()) * threads + thread()
        if number >= f.blocks * f.places * f.columns:
            return
        row, j = split(number, f.columns)
        b, i = split(row, f.places)
        total, t = zero, np.int64(0)
        while t < f.taps:
            k = source_of(f.sources.data, t * f.places + i)
            if k < -1 or k >= f.length:
                report(f, k, f.length)
            elif k >= 0:
                value = load(f.x.data, (b * f.length + k) * f.columns + j)
                total += load(f.weights.data, t * f.places + i) * value
            t += 1
        store(f.out, number, total)

    return Body(run, ("blocks", "places", "columns"), threads, threads)
