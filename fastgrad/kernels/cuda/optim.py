"""Kernels of the CUDA device over groups of tensors: optimizer steps, norms of gradients and their clipping.

The grid is the same for every size, and threads go through the elements by its steps; so a launch over no elements,
which only counts (see Note [Steps count themselves] in `kernels.cpu.optim`), runs as well. Where a launch counts, all
of whose blocks would read the number, the first block does everything. The numbers of a step are float64; the first
thread computes them for its block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, barrier, block, float_of, thread, where
from fastgrad.kernels.cuda.teams import TOGETHER, folding_one, plain_sum
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.ops import DECOUPLED, FIRST_STEP, MAXIMIZE, NESTEROV

THREADS = 256
GRID = (66, 8)  # factors of the number of blocks: four for each of the multiprocessors of a large GPU
BLOCKS = GRID[0] * GRID[1]
NUMBERS = 2  # of a step


def _groups(target: Target, dtype: int, update: Any, numbers: Any, threads: int, counts: bool = True) -> Body:
    """A kernel that calls ``update(f, i, a, b)`` for each element, with what ``numbers(f, steps)`` gives.

    `counts` says whether the frame has the number of steps, which nothing depends on if `numbers` is `_nothing`.
    """
    number, put_number = target.elements[FLOAT64].load, target.elements[FLOAT64].store
    small, put_small = target.elements[FLOAT32].load, target.elements[FLOAT32].store
    single, cast = target.elements[dtype], target.elements[dtype].constant
    room, get, put = single.shared(NUMBERS), single.get, single.put
    first = numbers is not _nothing
    steps_of = _steps if first else _no_steps

    def run(f):
        shared = room()
        alone = first and f.counted == 0
        if thread() == 0:
            a, b = numbers(f, steps_of(f, number, small) + (1.0 if f.counted == 0 else 0.0))
            put(shared, 0, cast(a))
            put(shared, 1, cast(b))
        barrier()
        if counts and f.counted == 0 and block() == 0 and thread() == 0:
            if f.single == FLOAT64:
                put_number(f.step, 0, number(f.step, 0) + 1.0)
            else:
                put_small(f.step, 0, small(f.step, 0) + np.float32(1))
        a, b = get(shared, 0), get(shared, 1)
        i = np.int64(thread()) if alone else np.int64(block()) * threads + thread()
        step = np.int64(threads) if alone else np.int64(BLOCKS * threads)
        if not alone or block() == 0:
            while i < f.n:
                update(f, i, a, b)
                i += step

    return Body(run, GRID, 1, threads)


def _steps(f, number, small):
    """How many steps there were."""
    return number(f.step, 0) if f.single == FLOAT64 else np.float64(small(f.step, 0))


def _no_steps(f, number, small):
    return 0.0


def _direction(cast: Any) -> Any:
    """The gradient as a step takes it: the other way for maximize, with the decay of weights added."""
    zero = cast(0)

    def direction(g, p, flags, decay):
        d = -g if flags & MAXIMIZE != 0 else g
        return d + decay * p if decay != zero else d

    return direction


def _nothing(f, steps):
    return 0.0, 0.0


def sgd(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Stochastic gradient descent."""
    e = target.elements[dtype]
    load, store, cast, direction = e.load, e.store, e.constant, _direction(e.constant)

    def update(f, i, a, b):
        lr, momentum, decay = cast(float_of(f.lr)), cast(float_of(f.momentum)), cast(float_of(f.weight_decay))
        p = load(f.param, i)
        d = direction(load(f.grad, i), p, f.flags, decay)
        if f.momentum_buffer != 0:
            v = d
            if f.flags & FIRST_STEP == 0:
                v = momentum * load(f.momentum_buffer, i) + cast(1.0 - float_of(f.dampening)) * d
            store(f.momentum_buffer, i, v)
            d = d + momentum * v if f.flags & NESTEROV != 0 else v
        store(f.param, i, p - lr * d)

    return _groups(target, dtype, update, _nothing, threads, counts=False)


def adam(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Adam with either kind of weight decay, and AMSGrad where there is a largest average of the square."""
    e, wide = target.elements[dtype], target.elements[FLOAT64].math
    load, store, cast, direction = e.load, e.store, e.constant, _direction(e.constant)
    sqrt, maximum, power, wide_sqrt = e.math.sqrt, e.math.maximum, wide.pow, wide.sqrt
    zero = cast(0)

    def numbers(f, steps):
        rate = float_of(f.lr) / (1.0 - power(float_of(f.beta1), steps))
        return rate, 1.0 / wide_sqrt(1.0 - power(float_of(f.beta2), steps))

    def update(f, i, rate, unbias):
        lr, decay, b2 = float_of(f.lr), float_of(f.weight_decay), cast(float_of(f.beta2))
        w1, w2 = cast(1.0 - float_of(f.beta1)), cast(1.0 - float_of(f.beta2))
        decoupled = f.flags & DECOUPLED != 0
        p, m = load(f.param, i), load(f.exp_avg, i)
        d = direction(load(f.grad, i), p, f.flags, zero if decoupled else cast(decay))
        average = m + w1 * (d - m)
        square = b2 * load(f.exp_avg_sq, i) + w2 * (d * d)
        store(f.exp_avg, i, average)
        store(f.exp_avg_sq, i, square)
        if f.max_exp_avg_sq != 0:
            square = maximum(load(f.max_exp_avg_sq, i), square)
            store(f.max_exp_avg_sq, i, square)
        shrink = cast(1.0 - lr * decay if decoupled else 1.0)
        store(f.param, i, shrink * p - rate * average / (sqrt(square) * unbias + cast(float_of(f.eps))))

    return _groups(target, dtype, update, numbers, threads)


def rmsprop(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """RMSprop, centered and with momentum where those buffers are present."""
    e = target.elements[dtype]
    load, store, cast, direction, sqrt = e.load, e.store, e.constant, _direction(e.constant), e.math.sqrt

    def update(f, i, a, b):
        alpha, rest = cast(float_of(f.alpha)), cast(1.0 - float_of(f.alpha))
        p = load(f.param, i)
        d = direction(load(f.grad, i), p, f.flags, cast(float_of(f.weight_decay)))
        square = alpha * load(f.square_avg, i) + rest * (d * d)
        store(f.square_avg, i, square)
        if f.grad_avg != 0:
            m = load(f.grad_avg, i)
            average = m + rest * (d - m)
            store(f.grad_avg, i, average)
            square = square - average * average
        change = d / (sqrt(square) + cast(float_of(f.eps)))
        if f.momentum_buffer != 0:
            change = cast(float_of(f.momentum)) * load(f.momentum_buffer, i) + change
            store(f.momentum_buffer, i, change)
        store(f.param, i, p - cast(float_of(f.lr)) * change)

    return _groups(target, dtype, update, _nothing, threads)


def adagrad(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Adagrad."""
    e = target.elements[dtype]
    load, store, cast, direction, sqrt = e.load, e.store, e.constant, _direction(e.constant), e.math.sqrt

    def numbers(f, steps):
        return float_of(f.lr) / (1.0 + (steps - 1.0) * float_of(f.lr_decay)), 0.0

    def update(f, i, lr, b):
        p = load(f.param, i)
        d = direction(load(f.grad, i), p, f.flags, cast(float_of(f.weight_decay)))
        square = load(f.sum, i) + d * d
        store(f.sum, i, square)
        store(f.param, i, p - lr * d / (sqrt(square) + cast(float_of(f.eps))))

    return _groups(target, dtype, update, numbers, threads)


# --- norms and clipping ----------------------------------------------------------------------------------------

ALONE = 1024  # threads of a kernel with one block


def norm_part(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = ALONE) -> Body:
    """Add a tensor's part to the sum behind a norm; for the infinite orders take the larger or smaller one.

    The sum is float64, and one block's: there is no room for what several would have found.
    """
    load, wide = target.elements[dtype].load, target.elements[FLOAT64]
    number, put_number = wide.load, wide.store
    absolute, power, maximum, minimum = wide.math.abs, wide.math.pow, wide.math.maximum, wide.math.minimum
    infinite = np.inf

    fold_sum, fold_greatest, fold_least = (
        folding_one(target, combine, FLOAT64, threads) for combine in (plain_sum, maximum, minimum)
    )

    def summed(f, order):
        total, i = 0.0, np.int64(thread())
        while i < f.n:
            x = absolute(np.float64(load(f.tensor, i)))
            total += x * x if order == 2.0 else (x if order == 1.0 else power(x, order))
            i += threads
        return fold_sum(total, TOGETHER)

    def extreme(f, smallest):
        best, i = absolute(np.float64(load(f.tensor, 0))), np.int64(thread())
        while i < f.n:
            x = absolute(np.float64(load(f.tensor, i)))
            best = minimum(best, x) if smallest else maximum(best, x)
            i += threads
        return best

    def run(f):
        order = float_of(f.order)
        if f.n == 0:
            return
        before = number(f.total, 0)
        value = 0.0
        if order == -infinite:
            value = minimum(before, fold_least(extreme(f, True), TOGETHER))
        elif order == infinite or order == 0.0:
            best = fold_greatest(extreme(f, False), TOGETHER)
            value = maximum(before, best) if order == infinite else before + where(best != 0.0, 1.0, 0.0)
        else:
            value = before + summed(f, order)
        if thread() == 0:
            put_number(f.total, 0, value)

    return Body(run, (1,), 1, threads)


def scale(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Multiply a tensor by a number that is a tensor as well. A factor of 1 costs nothing."""
    e, wide, small = target.elements[dtype], target.elements[FLOAT64].load, target.elements[FLOAT32].load
    load, store, cast = e.load, e.store, e.constant

    def run(f):
        factor = wide(f.factor, 0) if f.single == FLOAT64 else np.float64(small(f.factor, 0))
        i = np.int64(block()) * threads + thread()
        if factor != 1.0:
            while i < f.n:
                store(f.tensor, i, load(f.tensor, i) * cast(factor))
                i += BLOCKS * threads

    return Body(run, GRID, 1, threads)


def clip(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """Bring the elements of a tensor into the range from minus a bound to that bound. NaN stays."""
    e = target.elements[dtype]
    load, store, cast, maximum, minimum = e.load, e.store, e.constant, e.math.maximum, e.math.minimum

    def run(f):
        bound = cast(float_of(f.bound))
        i = np.int64(block()) * threads + thread()
        while i < f.n:
            store(f.tensor, i, minimum(maximum(load(f.tensor, i), -bound), bound))
            i += BLOCKS * threads

    return Body(run, GRID, 1, threads)
