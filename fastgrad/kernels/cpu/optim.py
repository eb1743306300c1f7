"""Kernels over groups of tensors: optimizer steps, norms of gradients and their clipping. One pass over the memory.

Note [Steps count themselves]: the number of steps is a tensor of the state. The kernel adds one to it and takes the
bias corrections from it, so that a step has no number from Python that changes, and a captured step can be replayed.
Where there is much to do, there are two launches: the first one is over no elements and counts, the second one over all
of them, in parts that do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, SUM, Element
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import call_kernel, f64s, float_of, stack_frame, words
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64, ITEMSIZES
from fastgrad.native.contracts.ops import DECOUPLED, FIRST_STEP, MAXIMIZE, NESTEROV

Built = tuple[Callable[..., None], dict[str, Any]]
_f32s = ELEMENTS[FLOAT32].pointer
_pow = ELEMENTS[FLOAT64].math.pow
_sqrt = ELEMENTS[FLOAT64].math.sqrt


@njit(**INLINE)
def _number(f, address):  # type: ignore[no-untyped-def]
    """The single number of a group."""
    return f64s(address)[0] if f.single == FLOAT64 else np.float64(_f32s(address)[0])


@njit(**INLINE)
def _count(f, address):  # type: ignore[no-untyped-def]
    """Add one to the number of steps, unless that has happened, and return it."""
    if f.counted == 0 and f.single == FLOAT64:
        f64s(address)[0] += 1.0
    elif f.counted == 0:
        _f32s(address)[0] += np.float32(1)
    return _number(f, address)


def _direction(element: Element) -> Any:
    """The gradient as a step takes it: the other way for maximize, with the decay of weights added."""
    cast = element.constant

    @njit(**INLINE)
    def direction(g, p, maximize, decay):  # type: ignore[no-untyped-def]
        d = -g if maximize else g
        return d + decay * p if decay != cast(0) else d

    return direction


def sgd(kernel: Any, dtype: int, layout_class: int) -> Built:
    """Stochastic gradient descent."""
    element = ELEMENTS[dtype]
    pointer, cast, direction = element.pointer, element.constant, _direction(element)

    @njit(**LOOP)
    def plain(p, g, n, lr, decay, maximize):  # type: ignore[no-untyped-def]
        for i in range(n):
            p[i] = p[i] - lr * direction(g[i], p[i], maximize, decay)

    @njit(**LOOP)
    def heavy(p, g, b, n, lr, momentum, keep, decay, maximize, first, nesterov):  # type: ignore[no-untyped-def]
        for i in range(n):
            d = direction(g[i], p[i], maximize, decay)
            v = d if first else momentum * b[i] + keep * d
            b[i] = v
            p[i] = p[i] - lr * (d + momentum * v if nesterov else v)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.sgd(frame)
        p, g = pointer(f.param), pointer(f.grad)
        lr, momentum, decay = cast(float_of(f.lr)), cast(float_of(f.momentum)), cast(float_of(f.weight_decay))
        maximize = f.flags & MAXIMIZE != 0
        if f.momentum_buffer == 0:
            plain(p, g, f.n, lr, decay, maximize)
        else:
            keep = cast(1.0 - float_of(f.dampening))
            first, nesterov = f.flags & FIRST_STEP != 0, f.flags & NESTEROV != 0
            heavy(p, g, pointer(f.momentum_buffer), f.n, lr, momentum, keep, decay, maximize, first, nesterov)

    return run, KERNEL


def adam(kernel: Any, dtype: int, layout_class: int) -> Built:
    """Adam with either kind of weight decay, and AMSGrad where there is a largest average of the square."""
    element = ELEMENTS[dtype]
    pointer, cast, direction = element.pointer, element.constant, _direction(element)
    sqrt, maximum = element.math.sqrt, element.math.maximum

    def loop(amsgrad: bool) -> Any:
        @njit(**LOOP)
        def go(p, g, m, v, top, n, rate, shrink, w1, b2, w2, unbias, eps, decay, up):  # type: ignore[no-untyped-def]
            for i in range(n):
                d = direction(g[i], p[i], up, decay)
                average = m[i] + w1 * (d - m[i])
                square = b2 * v[i] + w2 * (d * d)
                m[i] = average
                v[i] = square
                if amsgrad:
                    square = maximum(top[i], square)
                    top[i] = square
                p[i] = shrink * p[i] - rate * average / (sqrt(square) * unbias + eps)

        return go

    usual, largest = loop(False), loop(True)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.adam(frame)
        p, g, m, v = pointer(f.param), pointer(f.grad), pointer(f.exp_avg), pointer(f.exp_avg_sq)
        top = pointer(f.max_exp_avg_sq)
        lr, b1, b2, decay = float_of(f.lr), float_of(f.beta1), float_of(f.beta2), float_of(f.weight_decay)
        decoupled, maximize = f.flags & DECOUPLED != 0, f.flags & MAXIMIZE != 0
        steps = _count(f, f.step)
        rate = cast(lr / (1.0 - _pow(b1, steps)))
        unbias = cast(1.0 / _sqrt(1.0 - _pow(b2, steps)))
        shrink = cast(1.0 - lr * decay if decoupled else 1.0)
        added = cast(0.0 if decoupled else decay)
        w1, w2, eps = cast(1.0 - b1), cast(1.0 - b2), cast(float_of(f.eps))
        if f.max_exp_avg_sq == 0:
            usual(p, g, m, v, top, f.n, rate, shrink, w1, cast(b2), w2, unbias, eps, added, maximize)
        else:
            largest(p, g, m, v, top, f.n, rate, shrink, w1, cast(b2), w2, unbias, eps, added, maximize)

    return run, KERNEL


def rmsprop(kernel: Any, dtype: int, layout_class: int) -> Built:
    """RMSprop, centered and with momentum where those buffers are present."""
    element = ELEMENTS[dtype]
    pointer, cast, direction, sqrt = element.pointer, element.constant, _direction(element), element.math.sqrt

    def loop(heavy: bool, centered: bool) -> Any:
        @njit(**LOOP)
        def update(p, g, v, b, m, n, lr, alpha, rest, eps, decay, momentum, maximize):  # type: ignore[no-untyped-def]
            for i in range(n):
                d = direction(g[i], p[i], maximize, decay)
                square = alpha * v[i] + rest * (d * d)
                v[i] = square
                if centered:
                    average = m[i] + rest * (d - m[i])
                    m[i] = average
                    square = square - average * average
                change = d / (sqrt(square) + eps)
                if heavy:
                    change = momentum * b[i] + change
                    b[i] = change
                p[i] = p[i] - lr * change

        return update

    neither, centered, heavy, both = (
        loop(False, False),
        loop(False, True),
        loop(True, False),
        loop(True, True),
    )

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.rmsprop(frame)
        p, g, v = pointer(f.param), pointer(f.grad), pointer(f.square_avg)
        b, m = pointer(f.momentum_buffer), pointer(f.grad_avg)
        _count(f, f.step)
        alpha, rest = cast(float_of(f.alpha)), cast(1.0 - float_of(f.alpha))
        lr, eps = cast(float_of(f.lr)), cast(float_of(f.eps))
        decay, momentum = cast(float_of(f.weight_decay)), cast(float_of(f.momentum))
        maximize = f.flags & MAXIMIZE != 0
        if f.momentum_buffer == 0 and f.grad_avg == 0:
            neither(p, g, v, b, m, f.n, lr, alpha, rest, eps, decay, momentum, maximize)
        elif f.momentum_buffer == 0:
            centered(p, g, v, b, m, f.n, lr, alpha, rest, eps, decay, momentum, maximize)
        elif f.grad_avg == 0:
            heavy(p, g, v, b, m, f.n, lr, alpha, rest, eps, decay, momentum, maximize)
        else:
            both(p, g, v, b, m, f.n, lr, alpha, rest, eps, decay, momentum, maximize)

    return run, KERNEL


def adagrad(kernel: Any, dtype: int, layout_class: int) -> Built:
    """Adagrad."""
    element = ELEMENTS[dtype]
    pointer, cast, direction, sqrt = element.pointer, element.constant, _direction(element), element.math.sqrt

    @njit(**LOOP)
    def update(p, g, total, n, lr, eps, decay, maximize):  # type: ignore[no-untyped-def]
        for i in range(n):
            d = direction(g[i], p[i], maximize, decay)
            square = total[i] + d * d
            total[i] = square
            p[i] = p[i] - lr * d / (sqrt(square) + eps)

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.adagrad(frame)
        lr = cast(float_of(f.lr) / (1.0 + (_count(f, f.step) - 1.0) * float_of(f.lr_decay)))
        eps, decay = cast(float_of(f.eps)), cast(float_of(f.weight_decay))
        update(
            pointer(f.param), pointer(f.grad), pointer(f.sum), f.n, lr, eps, decay, f.flags & MAXIMIZE != 0
        )

    return run, KERNEL


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


# --- norms and clipping ----------------------------------------------------------------------------------------


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
