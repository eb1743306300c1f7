"""Kernels of the CUDA device over groups of tensors: optimizer steps, norms of gradients and their clipping.

The grid is the same for every size, and threads go through the elements by its steps; so a launch over no elements,
which only counts (see Note [Steps count themselves] in `kernels.steps`), runs as well. Where a launch counts, all
of whose blocks would read the number, the first block does everything. The numbers of a step are float64; the first
thread computes them for its block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target, barrier, block, float_of, thread, where
from fastgrad.kernels.cuda.teams import TOGETHER, folding_one, plain_sum
from fastgrad.kernels.keys import VOCABULARY
from fastgrad.kernels.specialise import specialised
from fastgrad.kernels.steps import Step, indented
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64

THREADS = 256
GRID = (66, 6)  # factors of the number of blocks: three for each of the multiprocessors of a large GPU
AT_ONCE = 2  # elements of a thread whose reads are under way together
BLOCKS = GRID[0] * GRID[1]


def step(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The step of an optimizer."""
    e, wide, small = target.elements[dtype], target.elements[FLOAT64], target.elements[FLOAT32]
    of = Step(kernel, layout_class)
    number, put_number, small_number, put_small = wide.load, wide.store, small.load, small.store

    def single(f, address):
        return number(address, 0) if f.single == FLOAT64 else np.float64(small_number(address, 0))

    def put_single(f, address, value):
        if f.single == FLOAT64:
            put_number(address, 0, value)
        else:
            put_small(address, 0, np.float32(value))

    def rounded(f, value):
        return value if f.single == FLOAT64 else np.float64(np.float32(value))

    def made(function: Any, element: Any) -> Any:
        vocabulary = dict(zip(VOCABULARY, (element.math, element.constant), strict=True))
        return specialised(function, vocabulary, target.decorate)

    scope: dict[str, Any] = {
        "np": np, "block": block, "thread": thread, "barrier": barrier, "float_of": float_of, "cast": e.constant,
        "load": e.load, "store": e.store, "get": e.get, "put": e.put, "room": e.shared(of.n_numbers),
        "single": target.decorate(single), "put_single": target.decorate(put_single),
        "rounded": target.decorate(rounded),
        "numbers": made(of.numbers, wide),
    }  # fmt: skip
    scope |= {f"factor_{name}": made(function, wide) for name, function in of.factors.items()}
    scope |= {f"update{k}": made(v.update, e) for k, v in enumerate(of.variants)}
    exec(_step_text(of, threads), scope)
    return Body(scope["run"], GRID, 1, threads)


def _step_text(of: Step, threads: int) -> str:
    """The first thread of each block finds the numbers, and that of the first block counts."""
    extra = [f"q{i}" for i in range(of.n_numbers)]
    lines = [
        "def run(f):",
        "    shared = room()",
        "    if thread() == 0:",
        *indented(of.counting("f.counted == 0 and block() == 0"), 8),
        f"        q = {of.call('numbers', of.numbers)}",
        *(f"        put(shared, {i}, cast(q[{i}]))" for i in range(of.n_numbers)),
        "    barrier()",
        *(f"    q{i} = get(shared, {i})" for i in range(of.n_numbers)),
        *(["    flags = f.flags"] if of.flags else []),
        f"    alone = {'f.counted == 0' if of.depends else 'False'}",
        f"    i = np.int64(thread()) if alone else np.int64(block()) * {threads} + thread()",
        f"    step = np.int64({threads}) if alone else np.int64({BLOCKS * threads})",
        "    if not alone or block() == 0:",
        f"        while i + {AT_ONCE - 1} * step < f.n:",
        *_updates(of, extra, [f"i + {k} * step" for k in range(AT_ONCE)]),
        f"            i += {AT_ONCE} * step",
        "        while i < f.n:",
        *_updates(of, extra, ["i"]),
        "            i += step",
    ]
    return "\n".join(lines) + "\n"


def _updates(of: Step, extra: list[str], places: list[str]) -> list[str]:
    """The lines that update the elements at some places: all are read before the first one is written."""
    lines = []
    for k, head in enumerate(of.branches()):
        written = of.variants[k].written
        lines.append(f"            {head}")
        for n, place in enumerate(places):
            values = of.values(k, lambda name, place=place: f"load(f.{name}, {place})", extra)
            lines.append(f"                {''.join(f'v{n}_{j}, ' for j in range(len(written)))}= {values}")
        lines += [
            f"                store(f.{name}, {place}, v{n}_{j})"
            for n, place in enumerate(places)
            for j, name in enumerate(written)
        ]
    return lines


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
