"""Threads that work on a row together, and how what each has found becomes one result.

A block has as many rows as it has warps. The sizes alone decide how it takes them:

- by ``1 << how`` warps for each row, from one (`WARPS`) to all of the block (`TOGETHER`), because rows are long;
- `COLUMNS`: rows lie side by side, and neighbouring threads read from neighbouring rows.

What the threads of a row have is put together by pairs, always in the same order: no result depends on which thread
is faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.device import (
    WARP,
    Target,
    barrier,
    block,
    like,
    shuffle_up,
    shuffle_xor,
    thread,
    where,
)
from fastgrad.native.contracts.element_types import BOOL, INEXACT, INT32, UINT8, computed_in

COLUMNS, WARPS, TOGETHER = -1, 0, 5
THREADS = 256
PER_THREAD = 16
"""Elements of a row that a thread has, as `way` is told."""


def register_code(dtype: int) -> int:
    """The dtype in which elements stand in registers that are exchanged: there are none of a byte."""
    return INT32 if dtype in (BOOL, UINT8) else computed_in(dtype)


def way(rows, length, across, threads, most):
    """How a block takes its rows, if there are so many of this length, and whether they lie side by side; a thread has
    `most` elements if that takes no more threads than a block has.
    """
    if across:
        return COLUMNS
    how, warps = WARPS, threads // WARP
    # Where there is no other block, a row gets all threads that it has elements for.
    each = 1 if rows <= warps else most
    while 1 << how < warps and length > each * (WARP << how):
        how += 1
    return how


def rounds_of(how, rows, threads):
    """How many times the block begins anew, for as many rows as it takes at once."""
    warps, times = threads // WARP, max(how, WARPS)
    left = min(np.int64(warps), rows - np.int64(block()) * warps)
    at_once = warps >> times
    return (left + at_once - 1 << times) // warps


def row_of(how, turn, threads):
    """The row of this thread, which may lie behind the last one."""
    warps = threads // WARP
    first = np.int64(block()) * warps
    if how == COLUMNS:
        return first + thread() % warps
    return first + turn * (warps >> how) + (thread() // WARP >> how)


def place_of(how, threads):
    """The number of this thread among those of its row."""
    if how == COLUMNS:
        return np.int64(thread() // (threads // WARP))
    return np.int64(thread() & (WARP << how) - 1)


def size_of(how):
    """How many threads a row has."""
    return np.int64(WARP << max(how, WARPS))


def by_teams(group: Any, count: Any, length: Any, across: Any, threads: int, most: int = PER_THREAD) -> Any:
    """A kernel that calls ``group(f, number, lane, lanes, how, there)`` for each of ``count(f)`` rows.

    They are ``length(f)`` long, and lie side by side where ``across(f)`` holds. All threads call it, also where there
    is no row for them: then `there` is false, and nothing must be written.
    """

    def run(f):
        n = count(f)
        how = way(n, length(f), across(f), threads, most)
        lane, lanes = place_of(how, threads), size_of(how)
        turn, turns = np.int64(0), rounds_of(how, n, threads)
        while turn < turns:
            number = row_of(how, turn, threads)
            group(f, min(number, n - 1), lane, lanes, how, number < n)
            turn += 1

    return run


def folding(target: Target, combine: Any, codes: tuple[int, int], threads: int) -> Any:
    """A function that puts together what the threads of a row have.

    ``fold(first, second, how)`` gives pairs, the same to all threads of a row; ``combine(a, b, c, d)`` makes a pair of
    two, in which the order of the two must not matter.
    """
    one, two = (target.elements[code] for code in codes)
    warps = threads // WARP
    rooms = one.shared(warps * warps), two.shared(warps * warps)
    room_1, room_2, get_1, get_2, put_1, put_2 = *rooms, one.get, two.get, one.put, two.put

    def fold(a, b, how):
        step = np.int32(WARP // 2)
        least = np.int32(warps if how == COLUMNS else 1)
        while step >= least:
            a, b = combine(a, b, shuffle_xor(a, step), shuffle_xor(b, step))
            step = np.int32(step >> 1)
        if how != WARPS and warps > 1:
            firsts, seconds = room_1(), room_2()
            lane, warp = thread() % WARP, thread() // WARP
            if lane < least:
                put_1(firsts, warp * warps + lane, a)
                put_2(seconds, warp * warps + lane, b)
            barrier()
            count = warps if how == COLUMNS else min(1 << how, warps)
            at = lane % warps if how == COLUMNS else (warp & -count) * warps
            a, b = get_1(firsts, at), get_2(seconds, at)
            for _ in range(1, count):
                at += warps
                a, b = combine(a, b, get_1(firsts, at), get_2(seconds, at))
            barrier()
        return a, b

    return fold


def folding_one(target: Target, combine: Any, code: int, threads: int) -> Any:
    """As `folding`, of single elements: ``fold(value, how)``, and ``combine(a, b)``."""

    def of_pairs(a, nothing, b, none):
        return combine(a, b), nothing

    fold_pairs = folding(target, of_pairs, (code, INT32), threads)

    def fold(value, how):
        found, _ = fold_pairs(value, np.int32(0), how)
        return found

    return fold


def plain_sum(a, b):
    """The sum of two numbers."""
    return a + b


def scanning(combine: Any) -> Any:
    """A function that gives each thread of a warp what it and those before it have, put together in their order."""

    def scan(a, b):
        lane, distance = thread() % WARP, np.int32(1)
        while distance < WARP:
            c, d = shuffle_up(a, distance), shuffle_up(b, distance)
            c, d = combine(c, d, a, b)
            a, b = where(lane >= distance, c, a), where(lane >= distance, d, b)
            distance = np.int32(distance << 1)
        return a, b

    return scan


# --- sums that keep what rounding loses ------------------------------------------------------------------------


def added(total, lost, x):
    """A sum and what rounding has lost of it, with a further number (Knuth, TAOCP 2, 4.2.2)."""
    value = total + x
    part = value - total
    return value, lost + ((total - (value - part)) + (x - part))


def added_exactly(total, nothing, x):
    """The same of integers."""
    return total + x, nothing


def joined(total, lost, other, other_lost):
    """The sum of two such sums, in whichever order."""
    value = total + other
    part = value - total
    return value, (lost + other_lost) + ((total - (value - part)) + (other - part))


def joined_exactly(total, nothing, other, none):
    """The sum of two integers."""
    return total + other, nothing


def whole(total, lost):
    """The number that such a sum is; what was lost of an infinite one means nothing."""
    return where(total - total == like(total, 0), total + lost, total)


def sums(target: Target, dtype: int, threads: int) -> Any:
    """`folding` for sums of a dtype, the second of a pair being what was lost."""
    combine = joined if dtype in INEXACT else joined_exactly
    return folding(target, combine, (dtype, dtype if dtype in INEXACT else INT32), threads)
