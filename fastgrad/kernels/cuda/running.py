"""What runs along the rows of a dimension on the CUDA device: a warp goes along each row, so many elements at a time as
it has threads.

What an element leads to is a pair of numbers. Pairs are put together by a function for which the order counts, but not
which neighbours come first: a warp puts them together in a fixed order, and joins what came before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Target, block, shuffle_from, shuffle_up, thread, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.teams import THREADS, register_code, scanning
from fastgrad.native.contracts.element_types import BOOL, FLOATS, INT64, UINT8


class Running(NamedTuple):
    """What runs along a row.

    Pairs made by ``lift(f, place, k)`` of the k-th element, put together by ``combine`` from `begin` on, which
    ``write(f, place, a, b)`` takes: behind each element, or with `before` in front of it. ``begins(f, row)`` is where a
    row begins, and how far apart its elements are.
    """

    begins: Any
    lift: Any
    combine: Any
    begin: tuple[Any, Any]
    write: Any
    before: bool = False
    backwards: bool = False


def running_kernel(running: Running, rows_of: Any, threads: int) -> Any:
    """The kernel over ``rows_of(f)`` rows."""
    begins, lift, combine, write = running.begins, running.lift, running.combine, running.write
    begin_a, begin_b = running.begin
    before, backwards = running.before, running.backwards
    scan = scanning(combine)

    def run(f):
        rows = rows_of(f)
        row = np.int64(block()) * (threads // WARP) + thread() // WARP
        at, apart = begins(f, min(row, rows - 1))
        lane, start = thread() % WARP, np.int64(0)
        carried_a, carried_b = begin_a, begin_b
        while start < f.length:
            i = start + lane
            k = f.length - 1 - i if backwards else i
            inside = i < f.length and row < rows
            a, b = begin_a, begin_b
            if inside:
                a, b = lift(f, at + k * apart, k)
            a, b = scan(a, b)
            a, b = combine(carried_a, carried_b, a, b)
            c, d = shuffle_up(a, np.int32(1)), shuffle_up(b, np.int32(1))
            c, d = where(lane == 0, carried_a, c), where(lane == 0, carried_b, d)
            if inside:
                if before:
                    write(f, at + k * apart, c, d)
                else:
                    write(f, at + k * apart, a, b)
            carried_a, carried_b = shuffle_from(a, np.int32(WARP - 1)), shuffle_from(b, np.int32(WARP - 1))
            start += WARP

    return run


def _rows_of(f):
    return f.blocks * f.columns


def _begins(f, row):
    number, beside = split(row, f.columns)
    return number * f.length * f.columns + beside, f.columns


def _body(running: Running, threads: int) -> Body:
    return Body(running_kernel(running, _rows_of, threads), ("blocks", "columns"), threads // WARP, threads)


def extreme(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The largest (or smallest) element so far of each row, and its place: of equal ones the last, NaN before all.

    A bool is the byte that it is in memory.
    """
    element, code = target.elements[UINT8 if dtype == BOOL else dtype], register_code(dtype)
    load, store, cast = element.load, element.store, target.elements[code].constant
    store_place, smallest = target.elements[INT64].store, bool(kernel.options["smallest"])
    if dtype in FLOATS:
        least = cast(np.inf if smallest else -np.inf)
    else:
        info = np.iinfo(target.elements[code].name)
        least = cast(info.max if smallest else info.min)

    def lift(f, place, k):
        return cast(load(f.x.data, place)), k

    def combine(a, place, b, later):
        """No NaN is less, greater or equal: one stays until the next."""
        taken = (b != b) | (b <= a if smallest else b >= a)
        return where(taken, b, a), where(taken, later, place)

    def write(f, to, value, place):
        store(f.values, to, value)
        store_place(f.places, to, place)

    return _body(Running(_begins, lift, combine, (least, np.int64(0)), write), threads)


def log_sums(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The logarithm of the sum of the exponentials of each element and those before it.

    A pair ``a, b`` stands for ``b exp(a)``, and a is the largest of its elements.
    """
    e = target.elements[dtype]
    load, store, exp, log, maximum = e.load, e.store, e.math.exp, e.math.log, e.math.maximum
    nothing, zero, one = e.constant(-np.inf), e.constant(0), e.constant(1)

    def lift(f, place, k):
        return load(f.x.data, place), one

    def share(a, largest):
        """Where both are infinite their difference would be none."""
        return where(a == largest, one, exp(a - largest))

    def combine(a, b, c, d):
        largest = maximum(a, c)
        return largest, b * share(a, largest) + d * share(c, largest)

    def write(f, to, a, b):
        store(f.out, to, a + log(b))

    return _body(Running(_begins, lift, combine, (nothing, zero), write), threads)


def shares(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Sums of ``v`` times the shares ``exp(x - y)``: see `ops.running`. No exponential of theirs is above 1.

    A pair ``a, b`` stands for what takes a sum ``t`` to ``a t + b``.
    """
    e, onwards = target.elements[dtype], bool(kernel.options["onwards"])
    load, store, exp, zero, one = e.load, e.store, e.math.exp, e.constant(0), e.constant(1)

    def share(x, y):
        return where(x == y, one, exp(x - y))

    def own(f, place):
        return share(load(f.x.data, place), load(f.y.data, place))

    def lift(f, place, k):
        v, kept = load(f.v.data, place), one
        if onwards:  # what is before counts for less, as y grows
            if k > 0:
                kept = share(load(f.y.data, place - f.columns), load(f.y.data, place))
            return kept, v * own(f, place)
        if k < f.length - 1:
            kept = share(load(f.y.data, place), load(f.y.data, place + f.columns))
        return kept, v

    def combine(a, b, c, d):
        return a * c, c * b + d

    def write(f, to, a, b):
        store(f.out, to, b if onwards else b * own(f, to))

    return _body(Running(_begins, lift, combine, (one, zero), write, False, not onwards), threads)
