"""Kernels over the rows of one dimension.

The rows are those of the frame `rows`; a row has stride ``after``. Sums of a row run in float64 where the row is long
enough to matter; see `reduce`'s Note [Order of sums].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, SUM, Element
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance
from fastgrad.native.contracts.element_types import FLOAT64

BLOCK = 512


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The kernel of a row op for one dtype."""
    name = kernel.options["row"]
    element, result = ELEMENTS[dtype], ELEMENTS[kernel.frame().element("out", dtype)]
    return _MAKERS[name](element, result, name), KERNEL


def _each_row(
    row: Any, element: Element, result: Element, reduces: bool, inputs: int = 1
) -> Callable[..., None]:
    """A kernel that calls ``row(out, x, second, n, stride)`` for every row."""
    pointer, pointer_out = element.pointer, result.pointer

    def kernel(frame):  # type: ignore[no-untyped-def]
        f = frames.rows(frame)
        out = pointer_out(f.out)
        x = pointer(f.x)
        second = pointer(f.second)
        n = f.length
        stride = f.after
        for i in range(f.before):
            for j in range(stride):
                at = i * n * stride + j
                to = i * stride + j if reduces else at
                other = advance(second, at) if inputs == 2 else second
                row(advance(out, to), advance(x, at), other, n, stride)

    return kernel


# --- pieces ----------------------------------------------------------------------------------------------------


def _maximum(element: Element) -> Any:
    maximum = element.math.maximum

    def largest(x, n, stride):  # type: ignore[no-untyped-def]
        best = x[0]
        if stride == 1:
            for i in range(n):
                best = maximum(best, x[i])
        else:
            for i in range(n):
                best = maximum(best, x[i * stride])
        return best

    return njit(**KERNEL)(largest)


def _blocked(term: Any, zero: Any) -> Any:
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


def _exp_sum(element: Element) -> Any:
    exp = element.math.exp

    @njit(**INLINE)
    def term(a, b, i, shift):  # type: ignore[no-untyped-def]
        return exp(a[i] - shift)

    return _blocked(term, element.constant(0))


def _finite_or_zero(element: Element) -> Any:
    """What to subtract before exp: the maximum, but 0 where it is infinite, so that inf - inf never arises."""
    largest, zero = element.constant(np.inf), element.constant(0)

    def shift(m):  # type: ignore[no-untyped-def]
        return zero if (m == largest or m == -largest) else m

    return njit(**INLINE)(shift)


# --- softmax and relatives -------------------------------------------------------------------------------------


def _softmax(element: Element, result: Element, name: str) -> Callable[..., None]:
    exp, cast = element.math.exp, element.constant
    largest, exp_sum = _maximum(element), _exp_sum(element)
    safe, zero, nothing = name == "safe_softmax", cast(0), cast(-np.inf)

    def fill(out, x, n, stride, shift, scale):  # type: ignore[no-untyped-def]
        if stride == 1:
            for i in range(n):
                out[i] = exp(x[i] - shift) * scale
        else:
            for i in range(n):
                out[i * stride] = exp(x[i * stride] - shift) * scale

    fill = njit(**LOOP)(fill)

    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        shift = largest(x, n, stride)
        if safe and shift == nothing:
            fill(out, x, n, stride, zero, zero)
            return
        total = exp_sum(x, x, n, stride, shift)
        fill(out, x, n, stride, shift, cast(1.0 / total))

    return _each_row(njit(**INLINE)(row), element, result, False)


def _log_softmax(element: Element, result: Element, name: str) -> Callable[..., None]:
    cast, log = element.constant, ELEMENTS[FLOAT64].math.log
    largest, exp_sum = _maximum(element), _exp_sum(element)

    def fill(out, x, n, stride, shift, rest):  # type: ignore[no-untyped-def]
        if stride == 1:
            for i in range(n):
                out[i] = (x[i] - shift) - rest
        else:
            for i in range(n):
                out[i * stride] = (x[i * stride] - shift) - rest

    fill = njit(**LOOP)(fill)

    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        shift = largest(x, n, stride)
        rest = cast(log(exp_sum(x, x, n, stride, shift)))
        fill(out, x, n, stride, shift, rest)

    return _each_row(njit(**INLINE)(row), element, result, False)


def _logsumexp(element: Element, result: Element, name: str) -> Callable[..., None]:
    cast, log = element.constant, ELEMENTS[FLOAT64].math.log
    largest, exp_sum, finite = _maximum(element), _exp_sum(element), _finite_or_zero(element)

    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        if n == 0:
            out[0] = cast(-np.inf)
        else:
            shift = finite(largest(x, n, stride))
            out[0] = cast(np.float64(shift) + log(exp_sum(x, x, n, stride, shift)))

    return _each_row(njit(**INLINE)(row), element, result, True)


def _softmax_backward(element: Element, result: Element, name: str) -> Callable[..., None]:
    cast = element.constant
    logarithmic = name == "log_softmax_backward"
    exp = element.math.exp

    @njit(**INLINE)
    def term(a, b, i, shift):  # type: ignore[no-untyped-def]
        return a[i] if logarithmic else a[i] * b[i]

    total_of = _blocked(term, element.constant(0))

    def fill(out, v, s, n, stride, total):  # type: ignore[no-untyped-def]
        if stride == 1:
            for i in range(n):
                out[i] = v[i] - exp(s[i]) * total if logarithmic else s[i] * (v[i] - total)
        else:
            for i in range(n):
                k = i * stride
                out[k] = v[k] - exp(s[k]) * total if logarithmic else s[k] * (v[k] - total)

    fill = njit(**LOOP)(fill)

    def row(out, v, s, n, stride):  # type: ignore[no-untyped-def]
        fill(out, v, s, n, stride, cast(total_of(v, s, n, stride, cast(0))))

    return _each_row(njit(**INLINE)(row), element, result, False, 2)


# --- sums and products along a row -----------------------------------------------------------------------------


def _cumsum(element: Element, result: Element, name: str) -> Callable[..., None]:
    floating = isinstance(element.scalar, types.Float)
    backwards = name == "reversed_cumsum"
    start = np.float64(0) if floating else np.int64(0)
    load, store = element.load, result.store

    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        total = start
        for i in range(n):
            k = (n - 1 - i) * stride if backwards else i * stride
            total += load(x, k)
            store(out, k, total)

    return _each_row(njit(**INLINE)(row), element, result, False)


def _prod(element: Element, result: Element, name: str) -> Callable[..., None]:
    floating = isinstance(element.scalar, types.Float)
    start = np.float64(1) if floating else np.int64(1)
    load, store = element.load, result.store

    def row(out, x, second, n, stride):  # type: ignore[no-untyped-def]
        total = start
        for i in range(n):
            total *= load(x, i * stride)
        store(out, 0, total)

    return _each_row(njit(**INLINE)(row), element, result, True)


def _running_product(element: Element, result: Element, name: str) -> Callable[..., None]:
    """What the elements before (or after) each one amount to, by one pass over the row, right with zeros, too.

    ``products_*``: their product. ``carried_*``: the sum of each ``v[i]`` times the product of what lies between.
    """
    backwards = name in ("products_after", "carried_back")
    carries = name in ("carried_on", "carried_back")
    store = element.store
    start = np.float64(0 if carries else 1)

    def row(out, first, second, n, stride):  # type: ignore[no-untyped-def]
        x = second if carries else first
        total = start
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
    "cumsum": _cumsum, "reversed_cumsum": _cumsum,
}  # fmt: skip
