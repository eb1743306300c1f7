"""Reductions over any dimensions on the CUDA device; see `teams`.

Note [Sums on the GPU]: a thread adds some elements in the dtype, by pairs those that it reads as one share (see
`shares`), else up to 4 `CHUNK`; and what comes of that so that what rounding loses is kept, as the sums of threads are.
Only sizes, strides and addresses decide on the order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, opaque
from fastgrad.kernels.cuda.places import offset
from fastgrad.kernels.cuda.shares import ACCESS, mapping, share_of
from fastgrad.kernels.cuda.teams import (
    THREADS,
    added,
    added_exactly,
    by_teams,
    folding,
    register_code,
    sums,
    whole,
)
from fastgrad.native.contracts.element_types import COMPLEX128, FLOATS, INEXACT, INT32, INT64, real_of

CHUNK = 16  # steps of four elements
PIECES = 4  # of a share of a sum


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel of a reduction for one dtype."""
    name = kernel.options["reduction"]
    element, result = target.elements[dtype], target.elements[kernel.frame().element("out", dtype)]
    if name in ("sum", "mean", "length"):
        run = _sums(target, dtype, element, result, name, threads)
    else:
        run = _folds(target, dtype, element, result, name, threads)
    resident = 512 if dtype == COMPLEX128 else 768  # each of its sums has eight registers
    return Body(run, ("results",), threads // WARP, threads, resident=resident)


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
    floating, mean, length = dtype in INEXACT, name == "mean", name == "length"
    code, element_size, pieces = dtype if floating else INT64, element.size, dtype in FLOATS
    load, cast, more = element.load, target.elements[code].constant, added if floating else added_exactly
    start, nothing = cast(0), cast(0) if floating else target.elements[INT32].constant(0)
    sqrt, number = (
        target.elements[code].math.sqrt if length else None,
        target.elements[real_of(code)].constant,
    )

    def power(value):
        return value * value if length else value

    def term(x, at):
        return power(cast(load(x, at)))

    def terms(f, at, beside):
        return (term(f.x, at),)

    one = along(terms, more, (start,), (nothing,), _stride_of, _count_of)

    def in_steps(f, base, lane, lanes):
        totals, losts = one(f, base, lane, lanes, 0)
        return totals[0], losts[0]

    def anywhere(f, base, lane, lanes):
        total, lost, i = start, nothing, lane
        while i < f.count:
            at = base + offset(np.uint32(i), f.gone.rank, f.gone.sizes, f.gone.strides)
            total, lost = more(total, lost, term(f.x, at))
            i += lanes
        return total, lost

    by_pieces, width = _by_pieces(element, power) if pieces else (in_steps, 1)

    def part(f, base, lane, lanes):
        if f.gone.rank != 1:
            return anywhere(f, base, lane, lanes)
        if pieces and f.gone.strides[0] == 1 and f.count & width - 1 == 0:
            if f.x + base * element_size & ACCESS - 1 == 0:
                return by_pieces(f, base, lane, lanes)
        return in_steps(f, base, lane, lanes)

    def finish(total, lost, count):
        if not floating:
            return total
        if length:
            return sqrt(whole(total, lost))
        return whole(total, lost) / number(count) if mean else whole(total, lost)

    return _reduction(part, sums(target, code, threads), finish, result.store, threads)


def along(
    terms: Any, more: Any, starts: tuple[Any, ...], nothings: tuple[Any, ...], stride: Any, count: Any
) -> Any:
    """What a thread adds where one stride leads from element to element: some sums at once, and what each has lost.

    ``terms(f, at, beside)`` are what an element brings to each of them, ``more`` as `teams.added`. The function that is
    made is ``along(f, at, lane, lanes, beside)``.
    """
    sums = range(len(starts))
    scope: dict[str, Any] = {"terms": terms, "more": more, "stride": stride, "count": count, "CHUNK": CHUNK}
    scope |= {f"start{k}": starts[k] for k in sums} | {f"nothing{k}": nothings[k] for k in sums}
    four, totals, losts = "abcd", "".join(f"t{k}, " for k in sums), "".join(f"l{k}, " for k in sums)
    lines = [
        "def along(f, at, lane, lanes, beside):",
        "    step, i, n = lanes * stride(f), lane, count(f)",
        "    at += lane * stride(f)",
        *(f"    t{k}, l{k} = start{k}, nothing{k}" for k in sums),
        "    while i < n:",
        *(f"        {a}{k} = start{k}" for k in sums for a in four),
        "        k = 0",
        "        while k < CHUNK and i + 3 * lanes < n:",
    ]
    for j, a in enumerate(four):
        lines.append(f"            x{j} = terms(f, at + {j} * step, beside)")
        lines += [f"            {a}{k} += x{j}[{k}]" for k in sums]
    lines += [
        "            at += 4 * step",
        "            i += 4 * lanes",
        "            k += 1",
        "        while k < CHUNK and i < n:",
        "            x0 = terms(f, at, beside)",
        *(f"            a{k} += x0[{k}]" for k in sums),
        "            at += step",
        "            i += lanes",
        "            k += 1",
        *(f"        t{k}, l{k} = more(t{k}, l{k}, (a{k} + b{k}) + (c{k} + d{k}))" for k in sums),
        f"    return ({totals}), ({losts})",
    ]
    exec("\n".join(lines) + "\n", scope)
    return scope["along"]


def _stride_of(f):
    return f.gone.strides[0]


def _by_pieces(element: Element, power: Any) -> tuple[Any, int]:
    """What a thread adds where elements lie one behind the other in whole pieces; and how many a piece has."""
    width, zero = ACCESS // element.size, element.constant(0)
    share = share_of(element, PIECES, width, _behind)
    starts, read, total_of, powers, count = (
        share.starts, share.read, share.total, mapping(share, power, 1), share.count,
    )  # fmt: skip

    def by_pieces(f, base, lane, lanes):
        total, lost, first = zero, zero, np.int64(0)
        while first < f.count:
            start = starts(first, lane, lanes, f.count)
            total, lost = added(total, lost, total_of(powers(read(f, f.x, base, start)), start))
            first = opaque(first + lanes * count)
        return total, lost

    return by_pieces, width


def _behind(f, base, k):
    return base + k


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
