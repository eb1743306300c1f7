"""Searching in rows that are in order."""

from __future__ import annotations

from typing import Any

from fastgrad.kernels.dtypes import ELEMENTS, KERNEL
from fastgrad.kernels.reports import Builder, report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import words


def search(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """How many boundaries of its row stand before a value; of equal ones none, or all with `right`."""
    pointer = ELEMENTS[dtype].pointer

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.search(frame)
        out, values, boundaries = words(f.out), pointer(f.values.data), pointer(f.boundaries.data)
        sorter, length = words(f.sorter.data), f.length
        sorted_elsewhere = f.sorter.data != 0
        for i in range(f.values.numel):
            row = min(i // f.per_row, f.rows - 1) * length
            value, low, high = values[i], 0, length
            while low < high:
                middle = (low + high) >> 1
                place = sorter[row + middle] if sorted_elsewhere else middle
                if place < 0 or place >= length:
                    report_index(f, place, length)
                    return
                found = boundaries[row + place]
                if (found > value) if f.right != 0 else (found >= value):
                    high = middle
                else:
                    low = middle + 1
            out[i] = low

    return run, KERNEL
