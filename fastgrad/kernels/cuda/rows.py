"""Kernels of the CUDA device over the rows of one dimension; see `teams`.

The formulas are those of the CPU, see `kernels.cpu.rows`: a row's greatest element becomes a shift, the sum of a term
over the row a rest, and with both of them each element is written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import WARP, Element, Target, opaque, where
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.running import Running, running_kernel
from fastgrad.kernels.cuda.shares import ACCESS, Share, by_shares, combining, mapping, most_of, resident
from fastgrad.kernels.cuda.teams import (
    PER_THREAD,
    THREADS,
    added,
    by_teams,
    folding_one,
    joined,
    joined_exactly,
    sums,
    whole,
)
from fastgrad.native.contracts.element_types import INEXACT, INT32, INT64


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel of a row op for one dtype."""
    name = kernel.options["row"]
    result = target.elements[kernel.frame().element("out", dtype)]
    run = _MAKERS[name](target, dtype, result, name, threads)
    return Body(
        run, ("before", "after"), threads // WARP, threads, resident=resident(dtype, 1 + ("backward" in name))
    )


def row_begins(f, row):
    """Where a row begins, and where its result is."""
    blocks, beside = split(row, f.after)
    return blocks * f.length * f.pitch + beside, blocks * f.pitch + beside


def _each_row(row: Any, threads: int, most: int = PER_THREAD) -> Any:
    """`by_teams`, for the rows of a dimension."""

    def beside(f):
        return f.after >= threads // WARP

    return by_teams(row, _rows_of, _length_of, beside, threads, most)


def _rows_of(f):
    return f.before * f.after


def _length_of(f):
    return f.length


# --- softmax and relatives -------------------------------------------------------------------------------------


class _Formula(NamedTuple):
    """What an op does with a row.

    ``moved(greatest)`` is its shift (None: there is none), the sum of ``term(x, s, shift)`` its total,
    ``finish(total, shift)`` its rest, and ``item(x, s, shift, rest)`` an element (None: the rest is the result). It is
    given the term in the place of x if the formula `keeps` that.
    """

    term: Any
    finish: Any
    item: Any = None
    moved: Any = None
    inputs: int = 1
    keeps: bool = False


def _beside(f, row, k):
    return row + k


def _apart(f, row, k):
    return row + k * f.pitch


def _in_vectors(f, width):
    addresses = f.x | f.second | (f.out if f.length > 1 else np.int64(0))
    return f.pitch == 1 and f.length & width - 1 == 0 and addresses & ACCESS - 1 == 0


def _of_share(formula: _Formula, element: Element, folds: tuple[Any, Any], share: Share) -> Any:
    """What is done with a row whose threads have such shares."""
    reduces, shifted, keeps = formula.item is None, formula.moved is not None, formula.keeps
    second, blank = formula.inputs == 2, (element.constant(0),) * share.count
    maximum, zero, least = element.math.greater, element.constant(0), element.constant(-np.inf)
    moved, finish, count = formula.moved or formula.finish, formula.finish, share.count
    starts, read, write, total_of = share.starts, share.read, share.write, share.total
    terms_of, items_of = (
        mapping(share, formula.term, 2, 1),
        mapping(share, formula.item or formula.term, 2, 1 if reduces else 2),
    )
    greatest_of, (fold_greatest, fold_sum), store = combining(share, maximum), folds, element.store

    def row(f, number, lane, lanes, how, there):
        at, to = row_begins(f, number)
        step, x, s, shift, best, first = lanes * count, blank, blank, zero, least, np.int64(0)
        many = f.length > step  # else it stays in registers
        while shifted and first < f.length:
            x = read(f, f.x, at, starts(first, lane, lanes, f.length))
            best = maximum(best, greatest_of(x))
            first = opaque(first + step)
        if shifted:
            shift = moved(fold_greatest(best, how))
        total, lost, first = zero, zero, np.int64(0)
        while first < f.length:
            start = starts(first, lane, lanes, f.length)
            if many or not shifted:
                x = read(f, f.x, at, start)
            s = read(f, f.second, at, start) if second else x
            terms = terms_of(x, s, shift)
            total, lost = added(total, lost, total_of(terms, start))
            x = terms if keeps else x
            first = opaque(first + step)
        total, lost = fold_sum(total, lost, how)
        rest = finish(whole(total, lost), shift)
        if reduces:
            if there and lane == 0:
                store(f.out, to, rest)
            return
        first = np.int64(0)
        while there and first < f.length:
            start = starts(first, lane, lanes, f.length)
            if many:
                x = read(f, f.x, at, start)
                s = read(f, f.second, at, start) if second else x
                x = terms_of(x, s, shift) if keeps else x
            write(f, f.out, at, start, items_of(x, s, shift, rest))
            first = opaque(first + step)

    return row


def _formula_kernel(formula: _Formula, target: Target, dtype: int, threads: int) -> Any:
    element = target.elements[dtype]
    folds = folding_one(target, element.math.greater, dtype, threads), sums(target, dtype, threads)
    made = functools.partial(_of_share, formula, element, folds)
    row = by_shares(element, made, (_beside, _apart), _in_vectors, _length_of)
    return _each_row(row, threads, most_of(element))


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

    def item(share, other, shift, scale):
        return share * scale

    return _formula_kernel(_Formula(term, finish, item, moved, keeps=True), target, dtype, threads)


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
    code = dtype if dtype in INEXACT else INT64
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
    floating = dtype in INEXACT
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
    code = dtype if dtype in INEXACT else INT64
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
