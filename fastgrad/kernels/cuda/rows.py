"""Kernels of the CUDA device over the rows of one dimension; see `teams`.

The formulas are those of the CPU, see `kernels.cpu.rows`: a row's greatest element becomes a shift, the sum of a term
over the row a rest, and with both of them each element is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.running import Running, running_kernel
from fastgrad.kernels.cuda.teams import (
    THREADS,
    added,
    by_teams,
    folding_one,
    joined,
    joined_exactly,
    sums,
    whole,
)
from fastgrad.native.contracts.element_types import FLOATS, INT32, INT64


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel of a row op for one dtype."""
    name = kernel.options["row"]
    result = target.elements[kernel.frame().element("out", dtype)]
    run = _MAKERS[name](target, dtype, result, name, threads)
    return Body(run, ("before", "after"), threads // WARP, threads)


def row_begins(f, row):
    """Where a row begins, and where its result is."""
    blocks, beside = split(row, f.after)
    return blocks * f.length * f.pitch + beside, blocks * f.pitch + beside


def _each_row(row: Any, threads: int) -> Any:
    """`by_teams`, for the rows of a dimension."""

    def beside(f):
        return f.after >= threads // WARP

    return by_teams(row, _rows_of, _length_of, beside, threads)


def _rows_of(f):
    return f.before * f.after


def _length_of(f):
    return f.length


# --- softmax and relatives -------------------------------------------------------------------------------------


class _Formula(NamedTuple):
    """What an op does with a row.

    ``moved(greatest)`` is its shift (None: there is none), the sum of ``term(x, s, shift)`` its total,
    ``finish(total, shift)`` its rest, and ``item(x, s, shift, rest)`` an element (None: the rest is the result).
    """

    term: Any
    finish: Any
    item: Any = None
    moved: Any = None
    inputs: int = 1


def _pair(element: Element, second: bool) -> Any:
    """``pair(f, place)``: the elements of both inputs there, of the second one zero if there is none."""
    load, zero = element.load, element.constant(0)

    def pair(f, place):
        return load(f.x, place), load(f.second, place) if second else zero

    return pair


def _greatest(element: Element) -> Any:
    """``greatest(f, at, lane, lanes)``: the greatest element that a thread finds in a row."""
    load, maximum, least = element.load, element.math.maximum, element.constant(-np.inf)

    def greatest(f, at, lane, lanes):
        best, k, step = least, lane, lanes * f.pitch
        while k + 3 * lanes < f.length:  # four reads are under way at once
            place = at + k * f.pitch
            a, b = load(f.x, place), load(f.x, place + step)
            c, d = load(f.x, place + 2 * step), load(f.x, place + 3 * step)
            best = maximum(best, maximum(maximum(a, b), maximum(c, d)))
            k += 4 * lanes
        while k < f.length:
            best = maximum(best, load(f.x, at + k * f.pitch))
            k += lanes
        return best

    return greatest


def _formula_kernel(formula: _Formula, target: Target, dtype: int, threads: int) -> Any:
    element = target.elements[dtype]
    store, zero = element.store, element.constant(0)
    reduces, shifted = formula.item is None, formula.moved is not None
    term, finish = formula.term, formula.finish
    moved, item = formula.moved or formula.finish, formula.item or formula.term
    fold_sum = sums(target, dtype, threads)
    fold_greatest = folding_one(target, element.math.maximum, dtype, threads)
    greatest, pair = _greatest(element), _pair(element, formula.inputs == 2)

    def shift_of(f, at, lane, lanes, how):
        if not shifted:
            return zero
        best = greatest(f, at, lane, lanes)
        return moved(fold_greatest(best, how))

    def rest_of(f, at, lane, lanes, how, shift):
        total, lost, k, step = zero, zero, lane, lanes * f.pitch
        while k + 3 * lanes < f.length:
            place = at + k * f.pitch
            (a, a2), (b, b2) = pair(f, place), pair(f, place + step)
            (c, c2), (d, d2) = pair(f, place + 2 * step), pair(f, place + 3 * step)
            first, last = term(a, a2, shift) + term(b, b2, shift), term(c, c2, shift) + term(d, d2, shift)
            total, lost = added(total, lost, first + last)
            k += 4 * lanes
        while k < f.length:
            x, other = pair(f, at + k * f.pitch)
            total, lost = added(total, lost, term(x, other, shift))
            k += lanes
        total, lost = fold_sum(total, lost, how)
        return finish(whole(total, lost), shift)

    def write(f, at, lane, lanes, shift, rest):
        k, step = lane, lanes * f.pitch
        while k + 3 * lanes < f.length:
            place = at + k * f.pitch
            (a, a2), (b, b2) = pair(f, place), pair(f, place + step)
            (c, c2), (d, d2) = pair(f, place + 2 * step), pair(f, place + 3 * step)
            store(f.out, place, item(a, a2, shift, rest))
            store(f.out, place + step, item(b, b2, shift, rest))
            store(f.out, place + 2 * step, item(c, c2, shift, rest))
            store(f.out, place + 3 * step, item(d, d2, shift, rest))
            k += 4 * lanes
        while k < f.length:
            place = at + k * f.pitch
            x, other = pair(f, place)
            store(f.out, place, item(x, other, shift, rest))
            k += lanes

    def row(f, number, lane, lanes, how, there):
        at, to = row_begins(f, number)
        shift = shift_of(f, at, lane, lanes, how)
        rest = rest_of(f, at, lane, lanes, how, shift)
        if there:
            if not reduces:
                write(f, at, lane, lanes, shift, rest)
            elif lane == 0:
                store(f.out, to, rest)

    return _each_row(row, threads)


def _softmax(target: Target, dtype: int, result: Element, name: str, threads: int) -> Any:
    element = target.elements[dtype]
    exp, zero, one, nothing = (
        element.math.exp,
        element.constant(0),
        element.constant(1),
        element.constant(-np.inf),
    )
    safe = name == "safe_softmax"

    def moved(m):
        return where(m == nothing, zero, m) if safe else m

    def term(x, other, shift):
        return exp(x - shift)

    def finish(total, shift):
        return where(total == zero, zero, one / total) if safe else one / total

    def item(x, other, shift, scale):
        return exp(x - shift) * scale

    return _formula_kernel(_Formula(term, finish, item, moved), target, dtype, threads)


def _log_softmax(target: Target, dtype: int, result: Element, name: str, threads: int) -> Any:
    exp, log = target.elements[dtype].math.exp, target.elements[dtype].math.log

    def moved(m):
        return m

    def term(x, other, shift):
        return exp(x - shift)

    def finish(total, shift):
        return log(total)

    def item(x, other, shift, rest):
        return (x - shift) - rest

    return _formula_kernel(_Formula(term, finish, item, moved), target, dtype, threads)


def _logsumexp(target: Target, dtype: int, result: Element, name: str, threads: int) -> Any:
    element = target.elements[dtype]
    exp, log, zero, infinite = (
        element.math.exp,
        element.math.log,
        element.constant(0),
        element.constant(np.inf),
    )

    def moved(m):
        """The maximum, but 0 where it is infinite, so that inf - inf never arises."""
        return where((m == infinite) | (m == -infinite), zero, m)

    def term(x, other, shift):
        return exp(x - shift)

    def finish(total, shift):
        return shift + log(total)

    return _formula_kernel(_Formula(term, finish, moved=moved), target, dtype, threads)


def _softmax_backward(target: Target, dtype: int, result: Element, name: str, threads: int) -> Any:
    exp, logarithmic = target.elements[dtype].math.exp, name == "log_softmax_backward"

    def term(v, s, shift):
        return v if logarithmic else v * s

    def finish(total, shift):
        return total

    def item(v, s, shift, total):
        return v - exp(s) * total if logarithmic else s * (v - total)

    return _formula_kernel(_Formula(term, finish, item, inputs=2), target, dtype, threads)


# --- sums and products along a row -----------------------------------------------------------------------------


def _prod(target: Target, dtype: int, result: Element, name: str, threads: int) -> Any:
    code = dtype if dtype in FLOATS else INT64
    load, cast, store = target.elements[dtype].load, target.elements[code].constant, result.store
    one = cast(1)
    fold = folding_one(target, _product, code, threads)

    def row(f, number, lane, lanes, how, there):
        at, to = row_begins(f, number)
        total, k = one, lane
        while k < f.length:
            total *= cast(load(f.x, at + k * f.pitch))
            k += lanes
        total = fold(total, how)
        if there and lane == 0:
            store(f.out, to, total)

    return _each_row(row, threads)


def _product(a, b):
    return a * b


def _along(
    lift: Any, combine: Any, begin: tuple[Any, Any], lower: Any, result: Element, threads: int, **how: bool
) -> Any:
    """A kernel of what runs along rows, and writes ``lower(a, b)`` of its pairs; see `running`."""
    store = result.store

    def begins(f, row):
        at, _ = row_begins(f, row)
        return at, f.pitch

    def write(f, to, a, b):
        store(f.out, to, lower(a, b))

    return running_kernel(Running(begins, lift, combine, begin, write, **how), _rows_of, threads)


def _cumsum(target: Target, dtype: int, result: Element, name: str, threads: int) -> Any:
    floating = dtype in FLOATS
    code = dtype if floating else INT64
    load, cast = target.elements[dtype].load, target.elements[code].constant
    zero, nothing = cast(0), cast(0) if floating else target.elements[INT32].constant(0)

    def lift(f, place, k):
        return cast(load(f.x, place)), nothing

    def lower(total, lost):
        return whole(total, lost) if floating else total

    combine = joined if floating else joined_exactly
    backwards = name == "reversed_cumsum"
    return _along(lift, combine, (zero, nothing), lower, result, threads, backwards=backwards)


def _cumprod(target: Target, dtype: int, result: Element, name: str, threads: int) -> Any:
    code = dtype if dtype in FLOATS else INT64
    load, cast = target.elements[dtype].load, target.elements[code].constant
    one, nothing = cast(1), cast(0)

    def lift(f, place, k):
        return cast(load(f.x, place)), nothing

    def combine(a, b, c, d):
        return a * c, b

    def lower(a, b):
        return a

    return _along(lift, combine, (one, nothing), lower, result, threads)


def _running_product(target: Target, dtype: int, result: Element, name: str, threads: int) -> Any:
    """What the elements before (or after) each one amount to; see `kernels.cpu.rows`.

    A pair ``a, b`` stands for what takes ``t`` to ``a t + b``.
    """
    backwards, carries = name in ("products_after", "carried_back"), name in ("carried_on", "carried_back")
    element = target.elements[dtype]
    load, zero, one = element.load, element.constant(0), element.constant(1)

    def lift(f, place, k):
        if carries:
            return load(f.second, place), load(f.x, place)
        return load(f.x, place), zero

    def combine(a, b, c, d):
        return a * c, (c * b + d if carries else b)

    def lower(a, b):
        return b if carries else a

    return _along(lift, combine, (one, zero), lower, result, threads, before=True, backwards=backwards)


_MAKERS: dict[str, Callable[[Target, int, Element, str, int], Any]] = {
    "softmax": _softmax, "safe_softmax": _softmax, "log_softmax": _log_softmax, "logsumexp": _logsumexp,
    "softmax_backward": _softmax_backward, "log_softmax_backward": _softmax_backward,
    "prod": _prod, "products_before": _running_product, "products_after": _running_product,
    "carried_on": _running_product, "carried_back": _running_product,
    "cumsum": _cumsum, "cumprod_integers": _cumprod, "reversed_cumsum": _cumsum,
}  # fmt: skip
