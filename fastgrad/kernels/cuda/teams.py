"""Threads that work on a row together, and how what each has found becomes one result.

A block has as many rows as it has warps, and takes them in one of three ways, all of which the sizes decide alone:

- `WARPS`: each warp takes a row;
- `TOGETHER`: all threads take one row after the other, because rows are long;
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
from fastgrad.native.contracts.element_types import BOOL, FLOATS, INT32, UINT8, computed_in

WARPS, TOGETHER, COLUMNS = range(3)
THREADS = 256
LONG = 2048
"""Elements of a row from which on a block takes rows one after the other."""


def register_code(dtype: int) -> int:
    """The dtype in which elements stand in registers that are exchanged: there are none of a byte."""
    return INT32 if dtype in (BOOL, UINT8) else computed_in(dtype)


def way(rows, length, across, threads):
    """How a block takes its rows, if there are so many of this length, and whether they lie side by side."""
    if across:
        return COLUMNS
    return TOGETHER if length > (LONG if rows > threads // WARP else threads) else WARPS


def rounds_of(how, rows, threads):
    """How many times the block begins anew, for one row or one for each warp."""
    first = np.int64(block()) * (threads // WARP)
    return min(np.int64(threads // WARP), rows - first) if how == TOGETHER else np.int64(1)


def row_of(how, turn, threads):
    """The row of this thread, which may lie behind the last one."""
    first, count = np.int64(block()) * (threads // WARP), threads // WARP
    if how == TOGETHER:
        return first + turn
    return first + (thread() % count if how == COLUMNS else thread() // WARP)


def place_of(how, threads):
    """The number of this thread among those of its row."""
    if how == TOGETHER:
        return np.int64(thread())
    return np.int64(thread() // (threads // WARP) if how == COLUMNS else thread() % WARP)


def size_of(how, threads):
    """How many threads a row has."""
    return np.int64(threads if how == TOGETHER else WARP)


def by_teams(group: Any, count: Any, length: Any, across: Any, threads: int) -> Any:
    """A kernel that calls ``group(f, number, lane, lanes, how, there)`` for each of ``count(f)`` rows.

    They are ``length(f)`` long, and lie side by side where ``across(f)`` holds. All threads call it, also where there
    is no row for them: then `there` is false, and nothing must be written.
    """

    def run(f):
        n = count(f)
        how = way(n, length(f), across(f), threads)
        lane, lanes = place_of(how, threads), size_of(how, threads)
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
            column = lane % warps if how == COLUMNS else np.int32(0)
            if lane < least:
                put_1(firsts, warp * warps + lane, a)
                put_2(seconds, warp * warps + lane, b)
            barrier()
            a, b = get_1(firsts, column), get_2(seconds, column)
            for k in range(1, warps):
                at = k * warps + column
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
    combine = joined if dtype in FLOATS else joined_exactly
    return folding(target, combine, (dtype, dtype if dtype in FLOATS else INT32), threads)
