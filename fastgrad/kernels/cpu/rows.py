"""Kernels over the rows of one dimension.

The rows are those of the frame `rows`; the elements of a row are ``pitch`` apart. Sums of a row run in float64 where
the row is long enough to matter; see `reduce`'s Note [Order of sums].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, SUM, Element, accumulator
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, f64s, stack_scratch
from fastgrad.native.contracts.element_types import FLOAT64
from fastgrad.native.contracts.frames.reductions import COLUMNS

BLOCK = 512
ROWS_AT_ONCE = 8
LEAST_COLUMNS = 16
"""Rows that lie side by side are worked on together from this many on."""
_columns = stack_scratch(COLUMNS)


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The kernel of a row op for one dtype."""
    name = kernel.options["row"]
    element, result = ELEMENTS[dtype], ELEMENTS[kernel.frame().element("out", dtype)]
    return _MAKERS[name](element, result, name), KERNEL


def _loop_over_rows(row: Any, element: Element, result: Element, reduces: bool, inputs: int) -> Any:
    """A loop that calls ``row(out, x, second, n, stride)`` for every row of a frame."""
    pointer, pointer_out = element.pointer, result.pointer

    def loop(f):  # type: ignore[no-untyped-def]
        out = pointer_out(f.out)
        x = pointer(f.x)
        second = pointer(f.second)
        n = f.length
        stride = f.pitch
        for i in range(f.before):
            for j in range(f.after):
                at = i * n * stride + j
                to = i * stride + j if reduces else at
                other = advance(second, at) if inputs == 2 else second
                row(advance(out, to), advance(x, at), other, n, stride)

    return njit(**KERNEL)(loop)


def _each_row(
    row: Any, element: Element, result: Element, reduces: bool, inputs: int = 1
) -> Callable[..., None]:
    """A kernel of such a loop."""
    loop = _loop_over_rows(row, element, result, reduces, inputs)

    def kernel(frame):  # type: ignore[no-untyped-def]
        loop(frames.rows(frame))

    return kernel


# --- pieces ----------------------------------------------------------------------------------------------------


def _maximum(element: Element) -> Any:
    maximum, least = element.math.maximum, element.constant(-np.inf)

    def largest(x, n, stride):  # type: ignore[no-untyped-def]
        best = least
        if stride == 1:
            for i in range(n):
                best = maximum(best, x[i])
        else:
            for i in range(n):
                best = maximum(best, x[i * stride])
        return best

    return njit(**KERNEL)(largest)


def _column_maxima(element: Element) -> Any:
    maximum, least = element.math.maximum, element.constant(-np.inf)

    @njit(**LOOP)
    def row(best, x, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            best[j] = maximum(best[j], x[j])

    @njit(**KERNEL)
    def largest(best, x, n, pitch, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            best[j] = least
        for i in range(n):
            row(best, advance(x, i * pitch), width)

    return largest


def blocked(term: Any, zero: Any) -> Any:
    """The sum of ``term(a, b, i, shift)`` over a row: lanes within a block, float64 between blocks."""

    def block(a, b, start, end, stride, shift):  # type: ignore[no-untyped-def]
        total = zero
        if stride == 1:
            for i in range(start, end):
                total += term(a, b, i, shift)
        else:
            for i in range(start, end):
                total += term(a, b, i * stride, shift)
        return total

    block = njit(**{**SUM, "pipeline_class": KERNEL["pipeline_class"]})(block)

    def whole(a, b, n, stride, shift):  # type: ignore[no-untyped-def]
        total = np.float64(0)
        at = 0
        while at < n:
            total += block(a, b, at, min(at + BLOCK, n), stride, shift)
            at += BLOCK
        return total

    return njit(**KERNEL)(whole)


def _blocked_columns(term: Any) -> Any:
    """The same for a tile of columns, each with its own shift: eight rows in the dtype, their sums in float64."""

    @njit(**LOOP)
    def first(part, a, b, shift, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            part[j] = term(a, b, j, shift[j])

    @njit(**LOOP)
    def further(part, a, b, shift, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            part[j] += term(a, b, j, shift[j])

    @njit(**LOOP)
    def gather(totals, part, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            totals[j] += np.float64(part[j])

    @njit(**KERNEL)
    def whole(totals, part, a, b, n, pitch, width, shift):  # type: ignore[no-untyped-def]
        for j in range(width):
            totals[j] = 0.0
        for i in range(n):
            at = i * pitch
            if i % ROWS_AT_ONCE == 0:
                first(part, advance(a, at), advance(b, at), shift, width)
            else:
                further(part, advance(a, at), advance(b, at), shift, width)
            if i % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 or i == n - 1:
                gather(totals, part, width)

    return whole


def _filling(item: Any) -> tuple[Any, Any]:
    """Loops that call ``item(out, a, b, i, shift, rest)``: over a row, and over a tile of columns."""

    @njit(**LOOP)
    def row(out, a, b, n, stride, shift, rest):  # type: ignore[no-untyped-def]
        if stride == 1:
            for i in range(n):
                item(out, a, b, i, shift, rest)
        else:
            for i in range(n):
                item(out, a, b, i * stride, shift, rest)

    @njit(**LOOP)
    def across(out, a, b, width, shift, rest):  # type: ignore[no-untyped-def]
        for j in range(width):
            item(out, a, b, j, shift[j], rest[j])

    @njit(**KERNEL)
    def columns(out, a, b, n, pitch, width, shift, rest):  # type: ignore[no-untyped-def]
        for i in range(n):
            at = i * pitch
            across(advance(out, at), advance(a, at), advance(b, at), width, shift, rest)

    return row, columns


# --- softmax and relatives -------------------------------------------------------------------------------------


class _Formula(NamedTuple):
    """What an op does with a row: everything on scalars, so that the same runs along rows and across columns.

    The largest element becomes the shift by `moved` (None: there is no shift); the sum of ``term(a, b, i, shift)``
    becomes the rest by ``finish(total, shift)``; then ``item(out, a, b, i, shift, rest)`` writes each element, or
    without `item` the rest is the result. If `keeps`, `term` gets the result in place of `a`, to write to.
    """

    term: Any
    finish: Any
    item: Any = None
    moved: Any = None
    keeps: bool = False


def _formula_kernel(formula: _Formula, element: Element, inputs: int = 1) -> Callable[..., None]:
    """A kernel that runs along rows or, where enough of them lie side by side, across tiles of columns."""
    pointer, zero = element.pointer, element.constant(0)
    reduces, shifted, keeps = formula.item is None, formula.moved is not None, formula.keeps
    moved, finish = formula.moved or formula.finish, formula.finish
    largest, maxima = _maximum(element), _column_maxima(element)
    total_of, totals_of = blocked(formula.term, zero), _blocked_columns(formula.term)
    fill, fill_columns = _filling(formula.item or formula.term)

    @njit(**INLINE)
    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        shift = zero
        if shifted:
            shift = moved(largest(x, n, stride))
        rest = finish(total_of(out if keeps else x, x if keeps else second, n, stride, shift), shift)
        if reduces:
            out[0] = rest
        else:
            fill(out, x, second, n, stride, shift, rest)

    @njit(**KERNEL)
    def tile(out, x, second, n, pitch, width, shift, rest, totals):  # type: ignore[no-untyped-def]
        if shifted:
            maxima(shift, x, n, pitch, width)
            for j in range(width):
                shift[j] = moved(shift[j])
        else:
            for j in range(width):
                shift[j] = zero
        totals_of(totals, rest, out if keeps else x, x if keeps else second, n, pitch, width, shift)
        for j in range(width):
            rest[j] = finish(totals[j], shift[j])
        if reduces:
            for j in range(width):
                out[j] = rest[j]
        else:
            fill_columns(out, x, second, n, pitch, width, shift, rest)

    by_rows = _loop_over_rows(row, element, element, reduces, inputs)

    def kernel(frame):  # type: ignore[no-untyped-def]
        f = frames.rows(frame)
        n, pitch = f.length, f.pitch
        if pitch < LEAST_COLUMNS:
            by_rows(f)
            return
        out, x, second = pointer(f.out), pointer(f.x), pointer(f.second)
        shift, rest, totals = pointer(_columns()), pointer(_columns()), f64s(_columns())
        for i in range(f.before):
            j = 0
            while j < f.after:
                at = i * n * pitch + j
                to = i * pitch + j if reduces else at
                other = advance(second, at) if inputs == 2 else second
                width = min(COLUMNS, f.after - j)
                tile(advance(out, to), advance(x, at), other, n, pitch, width, shift, rest, totals)
                j += COLUMNS

    return kernel


def _exp_term(element: Element) -> Any:
    exp = element.math.exp

    @njit(**INLINE)
    def term(a, b, i, shift):  # type: ignore[no-untyped-def]
        return exp(a[i] - shift)

    return term


def _softmax(element: Element, result: Element, name: str) -> Callable[..., None]:
    exp, cast = element.math.exp_of_negative, element.constant
    safe, zero, nothing = name == "safe_softmax", cast(0), cast(-np.inf)

    @njit(**INLINE)
    def moved(m):  # type: ignore[no-untyped-def]
        return zero if safe and m == nothing else m

    @njit(**INLINE)
    def term(out, x, i, shift):  # type: ignore[no-untyped-def]
        e = exp(x[i] - shift)
        out[i] = e
        return e

    @njit(**INLINE)
    def finish(total, shift):  # type: ignore[no-untyped-def]
        return zero if safe and total == 0 else cast(1.0 / total)

    @njit(**INLINE)
    def item(out, a, b, i, shift, scale):  # type: ignore[no-untyped-def]
        out[i] *= scale

    return _formula_kernel(_Formula(term, finish, item, moved, keeps=True), element)


def _log_softmax(element: Element, result: Element, name: str) -> Callable[..., None]:
    cast, log = element.constant, ELEMENTS[FLOAT64].math.log

    @njit(**INLINE)
    def moved(m):  # type: ignore[no-untyped-def]
        return m

    @njit(**INLINE)
    def finish(total, shift):  # type: ignore[no-untyped-def]
        return cast(log(total))

    @njit(**INLINE)
    def item(out, x, b, i, shift, rest):  # type: ignore[no-untyped-def]
        out[i] = (x[i] - shift) - rest

    return _formula_kernel(_Formula(_exp_term(element), finish, item, moved), element)


def _logsumexp(element: Element, result: Element, name: str) -> Callable[..., None]:
    cast, log = element.constant, ELEMENTS[FLOAT64].math.log
    infinite, zero = cast(np.inf), cast(0)

    @njit(**INLINE)
    def moved(m):  # type: ignore[no-untyped-def]
        """The maximum, but 0 where it is infinite, so that inf - inf never arises."""
        return zero if (m == infinite or m == -infinite) else m

    @njit(**INLINE)
    def finish(total, shift):  # type: ignore[no-untyped-def]
        return cast(np.float64(shift) + log(total))

    return _formula_kernel(_Formula(_exp_term(element), finish, moved=moved), element)


def _softmax_backward(element: Element, result: Element, name: str) -> Callable[..., None]:
    cast, exp = element.constant, element.math.exp
    logarithmic = name == "log_softmax_backward"

    @njit(**INLINE)
    def term(v, s, i, shift):  # type: ignore[no-untyped-def]
        return v[i] if logarithmic else v[i] * s[i]

    @njit(**INLINE)
    def finish(total, shift):  # type: ignore[no-untyped-def]
        return cast(total)

    @njit(**INLINE)
    def item(out, v, s, i, shift, total):  # type: ignore[no-untyped-def]
        out[i] = v[i] - exp(s[i]) * total if logarithmic else s[i] * (v[i] - total)

    return _formula_kernel(_Formula(term, finish, item), element, 2)


# --- sums and products along a row -----------------------------------------------------------------------------


def _cumsum(element: Element, result: Element, name: str) -> Callable[..., None]:
    backwards, wide = name == "reversed_cumsum", accumulator(element)
    load, store = element.load, result.store

    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        total = wide(0)
        for i in range(n):
            k = (n - 1 - i) * stride if backwards else i * stride
            total += wide(load(x, k))
            store(out, k, total)

    return _each_row(njit(**INLINE)(row), element, result, False)


def _cumprod(element: Element, result: Element, name: str) -> Callable[..., None]:
    load, store, wide = element.load, result.store, accumulator(element)

    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        total = wide(1)
        for i in range(n):
            total *= wide(load(x, i * stride))
            store(out, i * stride, total)

    return _each_row(njit(**INLINE)(row), element, result, False)


def _prod(element: Element, result: Element, name: str) -> Callable[..., None]:
    load, store, wide = element.load, result.store, accumulator(element)

    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        total = wide(1)
        for i in range(n):
            total *= wide(load(x, i * stride))
        store(out, 0, total)

    return _each_row(njit(**INLINE)(row), element, result, True)


def _running_product(element: Element, result: Element, name: str) -> Callable[..., None]:
    """What the elements before (or after) each one amount to, by one pass over the row, right with zeros, too.

    ``products_*``: their product. ``carried_*``: the sum of each ``v[i]`` times the product of what lies between.
    """
    backwards = name in ("products_after", "carried_back")
    carries = name in ("carried_on", "carried_back")
    store = element.store
    wide, start = accumulator(element), 0 if carries else 1

    def row(out, first, second, n, stride):  # type: ignore[no-untyped-def]
        x = second if carries else first
        total = wide(start)
        for i in range(n):
            k = (n - 1 - i) * stride if backwards else i * stride
            store(out, k, total)
            total *= x[k]
            if carries:
                total += first[k]

    return _each_row(njit(**INLINE)(row), element, result, False, 2 if carries else 1)


_MAKERS: dict[str, Callable[[Element, Element, str], Callable[..., None]]] = {
    "softmax": _softmax, "safe_softmax": _softmax, "log_softmax": _log_softmax, "logsumexp": _logsumexp,
    "softmax_backward": _softmax_backward, "log_softmax_backward": _softmax_backward,
    "prod": _prod, "products_before": _running_product, "products_after": _running_product,
    "carried_on": _running_product, "carried_back": _running_product,
    "cumsum": _cumsum, "cumprod_integers": _cumprod, "reversed_cumsum": _cumsum,
}  # fmt: skip
