"""Reductions over any dimensions on the CUDA device; see `teams`.

Note [Sums on the GPU]: a thread adds up to `CHUNK` elements in the dtype, and such chunks so that what rounding loses
is kept; so are the sums of threads. Only the sizes and strides decide on the order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target
from fastgrad.kernels.cuda.places import offset
from fastgrad.kernels.cuda.teams import THREADS, added, by_teams, folding, register_code, sums, whole
from fastgrad.native.contracts.element_types import FLOATS, INT32, INT64

CHUNK = 16  # steps of four elements


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel of a reduction for one dtype."""
    name = kernel.options["reduction"]
    element, result = target.elements[dtype], target.elements[kernel.frame().element("out", dtype)]
    if name in ("sum", "mean", "length"):
        run = _sums(target, dtype, element, result, name, threads)
    else:
        run = _folds(target, dtype, element, result, name, threads)
    return Body(run, ("results",), threads // WARP, threads)


def across(f):
    """Whether results lie side by side where what is reduced does not."""
    return f.kept.strides[0] == 1 and f.gone.strides[0] != 1 and f.kept.sizes[0] > 1


def _reduction(part: Any, fold: Any, finish: Any, store: Any, threads: int) -> Any:
    """The kernel over all results: ``part(f, base, lane, lanes)`` is what a thread finds."""

    def result(f, number, lane, lanes, how, there):
        base = offset(np.uint32(number), f.kept.rank, f.kept.sizes, f.kept.strides)
        a, b = part(f, base, lane, lanes)
        a, b = fold(a, b, how)
        if there and lane == 0:
            store(f.out, number, finish(a, b, f.count))

    return by_teams(result, _results_of, _count_of, across, threads)


def _results_of(f):
    return f.results


def _count_of(f):
    return f.count


def _sums(target: Target, dtype: int, element: Element, result: Element, name: str, threads: int) -> Any:
    floating, mean, length = dtype in FLOATS, name == "mean", name == "length"
    code = dtype if floating else INT64
    load, cast, more = element.load, target.elements[code].constant, added if floating else _added_exactly
    start, nothing = cast(0), cast(0) if floating else target.elements[INT32].constant(0)
    sqrt = target.elements[code].math.sqrt if length else None

    def term(x, at):
        value = cast(load(x, at))
        return value * value if length else value

    def along(f, at, lane, lanes):
        """What a thread adds where one stride leads from element to element."""
        step, total, lost, i = lanes * f.gone.strides[0], start, nothing, lane
        at += lane * f.gone.strides[0]
        while i < f.count:
            a, b, c, d, k = start, start, start, start, 0
            while k < CHUNK and i + 3 * lanes < f.count:
                a += term(f.x, at)
                b += term(f.x, at + step)
                c += term(f.x, at + 2 * step)
                d += term(f.x, at + 3 * step)
                at += 4 * step
                i += 4 * lanes
                k += 1
            while k < CHUNK and i < f.count:
                a += term(f.x, at)
                at += step
                i += lanes
                k += 1
            total, lost = more(total, lost, (a + b) + (c + d))
        return total, lost

    def anywhere(f, base, lane, lanes):
        total, lost, i = start, nothing, lane
        while i < f.count:
            at = base + offset(np.uint32(i), f.gone.rank, f.gone.sizes, f.gone.strides)
            total, lost = more(total, lost, term(f.x, at))
            i += lanes
        return total, lost

    def part(f, base, lane, lanes):
        return along(f, base, lane, lanes) if f.gone.rank == 1 else anywhere(f, base, lane, lanes)

    def finish(total, lost, count):
        if not floating:
            return total
        if length:
            return sqrt(whole(total, lost))
        return whole(total, lost) / cast(count) if mean else whole(total, lost)

    return _reduction(part, sums(target, code, threads), finish, result.store, threads)


def _added_exactly(total, nothing, x):
    return total + x, nothing


def _folds(target: Target, dtype: int, element: Element, result: Element, name: str, threads: int) -> Any:
    """The extreme element; whether any or all are true: the extreme of zeros and ones."""
    truth, greatest = name in ("any", "all"), name in ("amax", "any")
    code = INT32 if truth else register_code(dtype)
    math = target.elements[code].math
    load, cast = element.load, target.elements[code].constant
    better = math.maximum if greatest else math.minimum
    begin = cast(0 if greatest else 1)
    zero = element.constant(0)

    def value_at(x, at):
        return cast(1 if load(x, at) != zero else 0) if truth else cast(load(x, at))

    def part(f, base, lane, lanes):
        best, i = begin if truth else value_at(f.x, base), lane
        while i < f.count:
            number = np.uint32(i)
            at = base + offset(number, f.gone.rank, f.gone.sizes, f.gone.strides)
            best = better(best, value_at(f.x, at))
            i += lanes
        return best, np.int32(0)

    def combine(a, nothing, b, none):
        return better(a, b), nothing

    def finish(best, nothing, count):
        return best

    fold = folding(target, combine, (code, INT32), threads)
    return _reduction(part, fold, finish, result.store, threads)
