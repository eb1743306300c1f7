"""Which numbers a thread has, and where in memory the elements with these numbers are."""

from __future__ import annotations

import numpy as np

from fastgrad.kernels.cuda.device import block, quotient, thread


def part_of(n, per_block):
    """The first one of n numbers that is this thread's, and where those of its block end."""
    first = np.int64(block()) * per_block
    return first + thread(), min(first + per_block, n)


def split(a, b):
    """``a // b`` and the rest, of numbers from 0 on below 2**31."""
    q = quotient(np.uint32(a), np.uint32(b))
    return np.int64(q), np.int64(np.uint32(np.uint32(a) - q * np.uint32(b)))
