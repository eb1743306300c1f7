"""Kernels over groups of tensors: optimizer steps, norms of gradients and their clipping. One pass over the memory.

Steps are generated around the formulas of `ops.optim_formulas`; see Note [Steps count themselves] in `kernels.steps`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, SUM, Element, specialise
from fastgrad.kernels.steps import Step, indented
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import call_kernel, f64s, float_of, stack_frame, words
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64, ITEMSIZES

Built = tuple[Callable[..., None], dict[str, Any]]
_f32s = ELEMENTS[FLOAT32].pointer
_pow = ELEMENTS[FLOAT64].math.pow


@njit(**INLINE)
def _number(f, address):  # type: ignore[no-untyped-def]
    """The single number of a group."""
    return f64s(address)[0] if f.single == FLOAT64 else np.float64(_f32s(address)[0])


@njit(**INLINE)
def _put_number(f, address, value):  # type: ignore[no-untyped-def]
    if f.single == FLOAT64:
        f64s(address)[0] = value
    else:
        _f32s(address)[0] = np.float32(value)


@njit(**INLINE)
def _rounded(f, value):  # type: ignore[no-untyped-def]
    """A value as the single numbers of a group hold it."""
    return value if f.single == FLOAT64 else np.float64(np.float32(value))


def step(kernel: Any, dtype: int, layout_class: int) -> Built:
    """The step of an optimizer: a loop for each set of tensors that may be there."""
    element, of = ELEMENTS[dtype], Step(kernel, layout_class)
    wide = ELEMENTS[FLOAT64]
    scope: dict[str, Any] = {
        "frame_of": getattr(frames, kernel.frame(layout_class).name), "float_of": float_of, "single": _number,
        "put_single": _put_number, "rounded": _rounded, "pointer": element.pointer, "cast": element.constant,
        "numbers": specialise(of.numbers, wide),
    }  # fmt: skip
    scope |= {f"factor_{name}": specialise(function, wide) for name, function in of.factors.items()}
    scope |= {f"update{k}": specialise(v.update, element) for k, v in enumerate(of.variants)}
    loops = {f"loop{k}": _loop_text(of, k) for k in range(len(of.variants))}
    exec("\n".join(loops.values()), scope)
    scope |= {name: njit(**LOOP)(scope[name]) for name in loops}
    exec(_step_text(of), scope)
    return scope["run"], KERNEL


def _loop_text(of: Step, k: int) -> str:
    variant, extra = of.variants[k], [f"q{i}" for i in range(of.n_numbers)]
    results = "".join(f"v{i}, " for i in range(len(variant.written)))
    lines = [
        f"def loop{k}({', '.join([*variant.tensors, 'n', *extra, 'flags'])}):",
        "    for i in range(n):",
        f"        {results}= {of.values(k, lambda name: f'{name}[i]', extra)}",
        *(f"        {name}[i] = v{i}" for i, name in enumerate(variant.written)),
    ]
    return "\n".join(lines) + "\n"


def _step_text(of: Step) -> str:
    extra = [f"cast(q[{i}])" for i in range(of.n_numbers)]
    lines = ["def run(frame):", "    f = frame_of(frame)", *indented(of.counting("f.counted == 0"), 4)]
    lines.append(f"    q = {of.call('numbers', of.numbers)}")
    for k, head in enumerate(of.branches()):
        pointers = [f"pointer(f.{name})" for name in of.variants[k].tensors]
        flags = "f.flags" if of.flags else "0"
        lines += [f"    {head}", f"        loop{k}({', '.join([*pointers, 'f.n', *extra, flags])})"]
    return "\n".join(lines) + "\n"


# --- many at once ----------------------------------------------------------------------------------------------


def joined(kernel: Any, dtype: int, layout_class: int) -> Built:
    """A part of the elements of many frames: see Note [Joined launches] in `native.memory.joined`."""
    size = ITEMSIZES[dtype]

    @njit(**INLINE)
    def write_part(f, whole, part, low, n):  # type: ignore[no-untyped-def]
        for j in range(f.n_words):
            words(part)[j] = words(whole)[j]
            if f.moves >> j & 1 and words(whole)[j] != 0:
                words(part)[j] += low * size
        words(part)[f.own_n] = n
        words(part)[f.own_counted] = 1

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.joined(frame)
        part = stack_frame()
        at = f.table
        seen = 0
        for _ in range(f.count):
            low = max(f.first - seen, 0)
            high = min(f.first + f.n - seen, words(at)[f.own_n])
            if low < high:
                write_part(f, at, part, low, high - low)
                call_kernel(f.kernel, part)
            seen += words(at)[f.own_n]
            at += f.pitch

    return run, KERNEL


# --- norms, scaling and clipping ------------------------------------------------------------------------------


def _sums() -> Any:
    """Sums in float64 of squares, of magnitudes, and of any power of magnitudes."""
    absolute = ELEMENTS[FLOAT64].math.abs

    @njit(**SUM)
    def squares(x, n):  # type: ignore[no-untyped-def]
        total = 0.0
        for i in range(n):
            total += np.float64(x[i]) * np.float64(x[i])
        return total

    @njit(**SUM)
    def magnitudes(x, n):  # type: ignore[no-untyped-def]
        total = 0.0
        for i in range(n):
            total += absolute(np.float64(x[i]))
        return total

    @njit(**LOOP)
    def powers(x, n, order):  # type: ignore[no-untyped-def]
        total = 0.0
        for i in range(n):
            total += _pow(absolute(np.float64(x[i])), order)
        return total

    return squares, magnitudes, powers


def _extreme(element: Element, better: Any) -> Any:
    """The largest or the smallest magnitude; NaN if there is one."""
    absolute = element.math.abs

    @njit(**SUM)
    def extreme(x, n):  # type: ignore[no-untyped-def]
        best = absolute(x[0])
        for i in range(n):
            best = better(best, absolute(x[i]))
        return np.float64(best)

    return extreme


def norm_part(kernel: Any, dtype: int, layout_class: int) -> Built:
    """Add a tensor's part to the sum behind a norm; for the infinite orders take the larger or smaller one.

    The sum so far is in float64. As in PyTorch the norm of several tensors is the norm of their norms, so that order 0
    counts the tensors that are not zero.
    """
    element = ELEMENTS[dtype]
    pointer, wide = element.pointer, ELEMENTS[FLOAT64].math
    squares, magnitudes, powers = _sums()
    largest, smallest = _extreme(element, element.math.maximum), _extreme(element, element.math.minimum)
    wide_maximum, wide_minimum = wide.maximum, wide.minimum

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.norm_part(frame)
        x, total, order = pointer(f.tensor), f64s(f.total), float_of(f.order)
        if f.n == 0:
            return
        if order == 2.0:
            total[0] += squares(x, f.n)
        elif order == 1.0:
            total[0] += magnitudes(x, f.n)
        elif order == np.inf:
            total[0] = wide_maximum(total[0], largest(x, f.n))
        elif order == -np.inf:
            total[0] = wide_minimum(total[0], smallest(x, f.n))
        elif order == 0.0:
            total[0] += np.float64(largest(x, f.n) != 0.0)
        else:
            total[0] += powers(x, f.n, order)

    return run, KERNEL


def scale(kernel: Any, dtype: int, layout_class: int) -> Built:
    """Multiply a tensor by a number that is a tensor as well. A factor of 1 costs nothing."""
    element = ELEMENTS[dtype]
    pointer, cast = element.pointer, element.constant

    @njit(**LOOP)
    def multiply(x, n, factor):  # type: ignore[no-untyped-def]
        for i in range(n):
            x[i] = x[i] * factor

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.scale(frame)
        factor = _number(f, f.factor)
        if factor != 1.0:
            multiply(pointer(f.tensor), f.n, cast(factor))

    return run, KERNEL


def unscale(kernel: Any, dtype: int, layout_class: int) -> Built:
    """Multiply a tensor by a number, and note in another one whether an element of it was infinite or NaN."""
    element = ELEMENTS[dtype]
    pointer, cast, absolute, infinite = (
        element.pointer,
        element.constant,
        element.math.abs,
        element.constant(np.inf),
    )

    @njit(**LOOP)
    def multiply(x, n, factor):  # type: ignore[no-untyped-def]
        finite = True
        for i in range(n):
            finite &= absolute(x[i]) < infinite
            x[i] = x[i] * factor
        return finite

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.unscale(frame)
        if not multiply(pointer(f.tensor), f.n, cast(float_of(f.inverse))):
            _put_number(f, f.found_inf, 1.0)

    return run, KERNEL


def clip(kernel: Any, dtype: int, layout_class: int) -> Built:
    """Bring the elements of a tensor into the range from minus a bound to that bound. NaN stays."""
    element = ELEMENTS[dtype]
    pointer, cast = element.pointer, element.constant
    maximum, minimum = element.math.maximum, element.math.minimum

    @njit(**LOOP)
    def into(x, n, bound):  # type: ignore[no-untyped-def]
        for i in range(n):
            x[i] = minimum(maximum(x[i], -bound), bound)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.clip(frame)
        into(pointer(f.tensor), f.n, cast(float_of(f.bound)))

    return run, KERNEL
