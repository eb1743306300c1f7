"""Recurrent layers on the CUDA device: a launch for each step, in which all blocks work on the sequences of a batch.

A block computes a tile of `TILE` sequences by `UNITS` elements of a state: the products of all gates with the recurrent
weights, and what becomes of them. Its threads are slices that share the inner dimension; a thread has `EACH` sequences
by some columns in registers, and the slices' sums are added in their order. What a step writes the next one reads, so
that nothing but the order of launches keeps blocks apart.

Backwards a step first multiplies the gradients of the gates of the step before it in this order, and one more launch
does that for the first states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Element, Target, barrier, barrier_any, block, blocks, thread
from fastgrad.kernels.cuda.places import split
from fastgrad.kernels.cuda.reports import KIND, reporting
from fastgrad.kernels.cuda.teams import TOGETHER, folding_one, plain_sum
from fastgrad.native.contracts.cuda import STEPPED, TILE
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import FINE
from fastgrad.native.contracts.frames.matrices import PANEL_COLUMNS

THREADS = 256
UNITS, EACH = 8, 4
PITCH = TILE + 1  # of what belongs to a place of the inner dimension, in the block's memory


class Step(NamedTuple):
    """Which rows a launch is about.

    `size` sequences have the step, from row `start` on; of the `before` first ones the step before, in the order of
    time, begins at row `prior`. Backwards `later` sequences have been gone through already, from row `later_start` on.
    """

    size: Any
    start: Any
    before: Any
    prior: Any
    later: Any
    later_start: Any


def resident(element: Element) -> int:
    """Threads that a multiprocessor has room for: sums of float64 take twice the registers."""
    return THREADS if element.size == 8 else 2 * THREADS


# --- steps -----------------------------------------------------------------------------------------------------------


def _present(target: Target) -> Any:
    """``present(f, t)``: how many sequences have step t; none if there is no such step."""
    load = target.elements[INT64].load

    def present(f, t):
        if t < 0 or t >= f.steps:
            return np.int64(0)
        return f.batch if f.sizes.data == 0 else load(f.sizes.data, t)

    return present


def _stepping(target: Target, back: bool, columns: int, threads: int) -> tuple[Any, Any]:
    """``fits(f)``, whether the frame's numbers belong together, and ``step_of(f)``, a `Step` as a tuple.

    All threads of a block call them. The first launch looks at everything; later ones at what it has reported.
    """
    load, present, report = target.elements[INT64].load, _present(target), reporting(target)
    fold = folding_one(target, plain_sum, INT64, threads)

    def rows_before(f, t):
        if f.sizes.data == 0:
            return t * f.batch
        total, k = np.int64(0), np.int64(thread())
        while k < t:
            total += load(f.sizes.data, k)
            k += threads
        return fold(total, TOGETHER)

    def wrong_sizes(f):
        """Whether a step has more sequences than the one before; then one of these is reported."""
        wrong, t = False, np.int64(thread())
        while t < f.steps and not wrong:
            now, most = present(f, t), present(f, t - 1) if t > 0 else f.batch
            if now < 0 or now > most:
                report(f, now, most + 1)
                wrong = True
            t += threads
        return barrier_any(wrong)

    def fits(f):
        if f.step > 0:
            return load(f.status, KIND) == FINE
        if wrong_sizes(f):
            return False
        total, fine = rows_before(f, f.steps), True
        if f.first < 0 or f.n < 0 or f.first > f.batch - f.n:
            fine = False
            if thread() == 0:
                report(f, f.first, f.batch - f.n)
        elif columns * f.size > f.width:
            fine = False
            if thread() == 0:
                report(f, columns * f.size, f.width)
        elif total != f.rows:
            fine = False
            if thread() == 0:
                report(f, total, f.rows)
        return fine

    def step_of(f):
        rising = (f.backwards != 0) == back
        t = np.int64(f.step) if rising else f.steps - 1 - f.step
        start, size = rows_before(f, t) if t >= 0 else np.int64(0), present(f, t)
        before = present(f, t + 1 if f.backwards != 0 else t - 1)
        prior = start + size if f.backwards != 0 else start - before
        later = present(f, t - 1 if rising else t + 1) if f.step > 0 else np.int64(0)
        return size, start, before, prior, later, start - later if rising else start + size

    return fits, step_of


# --- products --------------------------------------------------------------------------------------------------------


class _Product(NamedTuple):
    """The product of a tile.

    ``multiply(f, room, step, first, unit, inner)`` brings it to the block's memory, ``total(room, r, c)`` is an
    element: of a sequence of the tile, and of a column, which for each unit are as many as there are gates.
    """

    multiply: Any
    total: Any
    room: Any


def _product(element: Element, gates: int, left: Any, threads: int) -> _Product:
    """Products with panels that have as many `gates` of columns for each element of a state.

    ``left(f, step, sequence)`` is the address of the row that a sequence multiplies with, or 0.
    """
    each = gates if gates > 1 else EACH  # columns of a thread
    columns, groups = UNITS * gates, UNITS * gates // each
    per_slice = TILE // EACH * groups
    slices, depth = threads // per_slice, 32 if gates > 1 else 64
    behind, plane = depth * PITCH, TILE * columns
    get, put, zero = element.get, element.put, element.constant(0)
    fill = _filling(element, gates, depth, left, threads)
    cells = [(i, j) for i in range(EACH) for j in range(each)]
    run = depth // slices
    lines = [
        "def multiply(f, room, step, first, unit, inner):",
        f"    slice, within = thread() // {per_slice}, thread() % {per_slice}",
        f"    row, column = within // {groups} * {EACH}, within % {groups} * {each}",
        *(f"    s{i}{j} = zero" for i, j in cells),
        "    k = np.int64(0)",
        "    while k < inner:",
        "        barrier()",
        "        fill(f, room, step, first, unit, inner, k)",
        "        barrier()",
        f"        for d in range({run}):",
        f"            at = slice * {run} + d",
        *(f"            a{i} = get(room, at * {PITCH} + row + {i})" for i in range(EACH)),
        *(f"            b{j} = get(room, {behind} + at * {columns} + column + {j})" for j in range(each)),
        *(f"            s{i}{j} += a{i} * b{j}" for i, j in cells),
        f"        k += {depth}",
        "    barrier()",
        f"    to = slice * {plane} + row * {columns} + column",
        *(f"    put(room, to + {i * columns + j}, s{i}{j})" for i, j in cells),
        "    barrier()",
    ]
    scope: dict[str, Any] = {
        "np": np, "thread": thread, "barrier": barrier, "fill": fill, "get": get, "put": put, "zero": zero,
    }  # fmt: skip
    exec("\n".join(lines) + "\n", scope)

    def total(room, r, c):
        found = get(room, r * columns + c)
        for k in range(1, slices):
            found += get(room, k * plane + r * columns + c)
        return found

    size = max(slices * plane, behind + depth * columns)
    return _Product(scope["multiply"], total, element.shared(size))


def _filling(element: Element, gates: int, depth: int, left: Any, threads: int) -> Any:
    """Bring what is multiplied to the block's memory, with zeros beyond the ends."""
    load, put, zero, columns, behind = (
        element.load,
        element.put,
        element.constant(0),
        UNITS * gates,
        depth * PITCH,
    )

    def fill(f, room, step, first, unit, inner, k):
        at = np.int32(thread())
        while at < TILE * depth:
            r, d = at // depth, at % depth
            row = left(f, step, first + r)
            put(room, d * PITCH + r, load(row, k + d) if row != 0 and k + d < inner else zero)
            at = np.int32(at + threads)
        at = np.int32(thread())
        while at < depth * columns:
            u, line = at % UNITS, at // UNITS
            gate, d = line % gates, line // gates
            value = zero
            if unit + u < f.size and k + d < inner:
                panel, column = split(gate * f.size + unit + u, PANEL_COLUMNS)
                value = load(f.panels.data, (panel * inner + k + d) * PANEL_COLUMNS + column)
            put(room, behind + d * columns + u * gates + gate, value)
            at = np.int32(at + threads)

    return fill


def _tiles(product: _Product, gates: int, finish: Any, threads: int) -> Any:
    """A function that multiplies all tiles, and finishes them by ``finish(f, room, step, sequence, j, r, c)``.

    ``j`` is the element of a state, and `c` the first of its columns in the tile.
    """
    multiply, room_of = product.multiply, product.room

    def run(f, step, inner):
        across, room = (f.size + UNITS - 1) // UNITS, room_of()
        number = np.int64(block())
        while number < across * ((f.n + TILE - 1) // TILE):
            tile, place = split(number, across)
            first, unit = tile * TILE, place * UNITS
            multiply(f, room, step, first, unit, inner)
            e = np.int32(thread())
            while e < TILE * UNITS:
                r, u = e // UNITS, e % UNITS
                if first + r < f.n and unit + u < f.size:
                    finish(f, room, step, f.first + first + r, unit + u, r, u * gates)
                e = np.int32(e + threads)
            number += blocks()

    return run


def _forward(target: Target, dtype: int, gates: int, making: Callable[[Any], Any], threads: int) -> Body:
    """The kernel of a layer; ``making(total)`` is the function that makes an element of a state.

    This is ``finish(f, room, row, prior, sequence, j, r, c)``; `prior` is the row of the step before, or negative.
    """
    e = target.elements[dtype]
    threads, nbytes = threads if gates == 1 else max(threads, 64), e.size
    fits, step_of = _stepping(target, False, gates, threads)

    def left(f, step, r):
        size, _, before, prior, _, _ = step
        sequence = f.first + r
        if r >= f.n or sequence >= size:
            return np.int64(0)
        if sequence < before:
            return f.out + (prior + sequence) * f.size * nbytes
        return f.h.data + sequence * f.size * nbytes

    product = _product(e, gates, left, threads)
    finish = making(product.total)

    def element(f, room, step, sequence, j, r, c):
        size, start, before, prior, _, _ = step
        if sequence < size:
            from_row = prior + sequence if sequence < before else np.int64(-1)
            finish(f, room, start + sequence, from_row, sequence, j, r, c)

    tiles = _tiles(product, gates, element, threads)

    def run(f):
        if fits(f):
            tiles(f, step_of(f), f.size)

    return Body(run, ("size", f"n/{TILE}"), UNITS, threads, STEPPED, resident=resident(e), steps="steps")


class _Back(NamedTuple):
    """What a layer does backwards with an element of a state.

    ``grads(f)`` is the address of the gradients of gates that are multiplied.
    ``cell(f, product, row, prior, sequence, j, reached)`` does a step; `reached` says whether a later one was gone
    through. ``ended(f, product, state)`` writes the gradient of a first state, ``absent(f, state)`` where there is no
    step.
    """

    grads: Any
    cell: Any
    ended: Any
    absent: Any


def _backward(target: Target, dtype: int, gates: int, back: _Back, threads: int) -> Body:
    """The kernel of the gradients of a layer."""
    e = target.elements[dtype]
    nbytes, (grads, cell, ended, absent) = e.size, back
    fits, step_of = _stepping(target, True, 1, threads)

    def left(f, step, r):
        _, _, _, _, later, later_start = step
        sequence = f.first + r
        if r >= f.n or sequence >= later:
            return np.int64(0)
        return grads(f) + (later_start + sequence) * (gates * nbytes) * f.size

    product = _product(e, 1, left, threads)
    total = product.total

    def element(f, room, step, sequence, j, r, c):
        size, start, before, prior, later, _ = step
        found = total(room, r, c)
        if sequence < size:
            from_row = prior + sequence if sequence < before else np.int64(-1)
            cell(f, found, start + sequence, from_row, sequence, j, sequence < later)
        elif sequence < later:
            ended(f, found, sequence * f.size + j)
        elif f.step == 0:
            absent(f, sequence * f.size + j)

    tiles = _tiles(product, 1, element, threads)

    def run(f):
        if fits(f):
            step = step_of(f)
            tiles(f, step, gates * f.size if step[4] > 0 else np.int64(0))

    return Body(
        run, ("size", f"n/{TILE}"), UNITS, threads, STEPPED, resident=resident(e), steps="steps", more=1
    )


# --- LSTM ------------------------------------------------------------------------------------------------------------


def lstm(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The outputs, cell states and gates of an LSTM."""
    e = target.elements[dtype]
    load, store, sigmoid, tanh = e.load, e.store, e.math.sigmoid, e.math.tanh

    def making(total):
        def finish(f, room, row, prior, sequence, j, r, c):
            at, to = row * 4 * f.size + j, row * f.size + j
            enter = sigmoid(total(room, r, c) + load(f.x.data, at))
            forget = sigmoid(total(room, r, c + 1) + load(f.x.data, at + f.size))
            new = tanh(total(room, r, c + 2) + load(f.x.data, at + 2 * f.size))
            leave = sigmoid(total(room, r, c + 3) + load(f.x.data, at + 3 * f.size))
            if prior >= 0:
                before = load(f.cells, prior * f.size + j)
            else:
                before = load(f.c.data, sequence * f.size + j)
                store(f.cells, (f.rows + sequence) * f.size + j, before)
            state = forget * before + enter * new
            store(f.gates, at, enter)
            store(f.gates, at + f.size, forget)
            store(f.gates, at + 2 * f.size, new)
            store(f.gates, at + 3 * f.size, leave)
            store(f.cells, to, state)
            store(f.out, to, leave * tanh(state))

        return finish

    return _forward(target, dtype, 4, making, threads)


def lstm_backward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The gradients of the gates of an LSTM, and of its first states, of which the second is kept from step to step."""
    e = target.elements[dtype]
    load, store, tanh, zero, one, nbytes = e.load, e.store, e.math.tanh, e.constant(0), e.constant(1), e.size

    def grads(f):
        return f.grad_x

    def of_cell(f):
        return f.grad_states + f.batch * f.size * nbytes

    def of_last(f, state):
        return load(f.grad_cell.data, state) if f.grad_cell.data != 0 else zero

    def cell(f, product, row, prior, sequence, j, reached):
        at, to, state = row * 4 * f.size + j, row * f.size + j, sequence * f.size + j
        enter, forget = load(f.gates.data, at), load(f.gates.data, at + f.size)
        new, leave = load(f.gates.data, at + 2 * f.size), load(f.gates.data, at + 3 * f.size)
        before = load(f.cells.data, (prior if prior >= 0 else f.rows + sequence) * f.size + j)
        t, d_hidden = tanh(load(f.cells.data, to)), product
        if f.grad_out.data != 0:
            d_hidden += load(f.grad_out.data, to)
        d_state = load(of_cell(f), state) if reached else of_last(f, state)
        d_state += d_hidden * leave * (one - t * t)
        store(f.grad_x, at, d_state * new * enter * (one - enter))
        store(f.grad_x, at + f.size, d_state * before * forget * (one - forget))
        store(f.grad_x, at + 2 * f.size, d_state * enter * (one - new * new))
        store(f.grad_x, at + 3 * f.size, d_hidden * t * leave * (one - leave))
        store(of_cell(f), state, d_state * forget)

    def ended(f, product, state):
        store(f.grad_states, state, product)

    def absent(f, state):
        store(f.grad_states, state, zero)
        store(of_cell(f), state, of_last(f, state))

    return _backward(target, dtype, 4, _Back(grads, cell, ended, absent), threads)


# --- GRU -------------------------------------------------------------------------------------------------------------


def gru(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The outputs of a GRU, and of each gate what is kept."""
    e = target.elements[dtype]
    load, store, sigmoid, tanh = e.load, e.store, e.math.sigmoid, e.math.tanh

    def making(total):
        def finish(f, room, row, prior, sequence, j, r, c):
            at, x, to = row * 4 * f.size + j, row * 3 * f.size + j, row * f.size + j
            reset = sigmoid(total(room, r, c) + load(f.bias.data, j) + load(f.x.data, x))
            update = sigmoid(
                total(room, r, c + 1) + load(f.bias.data, f.size + j) + load(f.x.data, x + f.size)
            )
            state = total(room, r, c + 2) + load(f.bias.data, 2 * f.size + j)
            new = tanh(load(f.x.data, x + 2 * f.size) + reset * state)
            if prior >= 0:
                before = load(f.out, prior * f.size + j)
            else:
                before = load(f.h.data, sequence * f.size + j)
            store(f.gates, at, reset)
            store(f.gates, at + f.size, update)
            store(f.gates, at + 2 * f.size, state)
            store(f.gates, at + 3 * f.size, new)
            store(f.out, to, new + update * (before - new))

        return finish

    return _forward(target, dtype, 3, making, threads)


def gru_backward(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The gradients of the gates of a GRU, and of its first state, which keeps what comes past the gates of a step."""
    e = target.elements[dtype]
    load, store, zero, one, nbytes = e.load, e.store, e.constant(0), e.constant(1), e.size

    def grads(f):
        """Of what the state gives to the gates: they stand behind those of what the input gives."""
        return f.grad_gates + f.rows * 3 * f.size * nbytes

    def cell(f, product, row, prior, sequence, j, reached):
        at, x, to, state = row * 4 * f.size + j, row * 3 * f.size + j, row * f.size + j, sequence * f.size + j
        reset, update = load(f.gates.data, at), load(f.gates.data, at + f.size)
        from_state, new = load(f.gates.data, at + 2 * f.size), load(f.gates.data, at + 3 * f.size)
        before = load(f.out.data, prior * f.size + j) if prior >= 0 else load(f.h.data, state)
        d_hidden = product
        if reached:
            d_hidden += load(f.grad_h, state)
        if f.grad_out.data != 0:
            d_hidden += load(f.grad_out.data, to)
        d_new = d_hidden * (one - update) * (one - new * new)
        d_reset = d_new * from_state * reset * (one - reset)
        d_update = d_hidden * (before - new) * update * (one - update)
        store(f.grad_gates, x, d_reset)
        store(f.grad_gates, x + f.size, d_update)
        store(f.grad_gates, x + 2 * f.size, d_new)
        store(grads(f), x, d_reset)
        store(grads(f), x + f.size, d_update)
        store(grads(f), x + 2 * f.size, d_new * reset)
        store(f.grad_h, state, d_hidden * update)

    def ended(f, product, state):
        store(f.grad_h, state, load(f.grad_h, state) + product)

    def absent(f, state):
        store(f.grad_h, state, zero)

    return _backward(target, dtype, 3, _Back(grads, cell, ended, absent), threads)


# --- simple cells ----------------------------------------------------------------------------------------------------


def _rnn(target: Target, dtype: int, function: Any, threads: int) -> Body:
    """The outputs of simple cells."""
    e = target.elements[dtype]
    load, store = e.load, e.store

    def making(total):
        def finish(f, room, row, prior, sequence, j, r, c):
            to = row * f.size + j
            store(f.out, to, function(total(room, r, c) + load(f.x.data, to)))

        return finish

    return _forward(target, dtype, 1, making, threads)


def _rnn_backward(target: Target, dtype: int, derivative: Any, threads: int) -> Body:
    """The gradients of what simple cells get, and of their first state; ``derivative(y, gradient)`` by the output."""
    e = target.elements[dtype]
    load, store, zero = e.load, e.store, e.constant(0)

    def grads(f):
        return f.grad_x

    def cell(f, product, row, prior, sequence, j, reached):
        to, gradient = row * f.size + j, product
        if f.grad_out.data != 0:
            gradient += load(f.grad_out.data, to)
        store(f.grad_x, to, derivative(load(f.out.data, to), gradient))

    def ended(f, product, state):
        store(f.grad_h, state, product)

    def absent(f, state):
        store(f.grad_h, state, zero)

    return _backward(target, dtype, 1, _Back(grads, cell, ended, absent), threads)


def rnn_tanh(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The outputs of cells with the hyperbolic tangent."""
    return _rnn(target, dtype, target.elements[dtype].math.tanh, threads)


def rnn_relu(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The outputs of cells that let positive numbers through."""
    zero = target.elements[dtype].constant(0)

    def relu(x):
        return zero if x <= zero else x  # nan stays

    return _rnn(target, dtype, relu, threads)


def rnn_tanh_backward(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """Their gradients."""
    one = target.elements[dtype].constant(1)

    def derivative(y, gradient):
        return gradient * (one - y * y)

    return _rnn_backward(target, dtype, derivative, threads)


def rnn_relu_backward(
    kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS
) -> Body:
    """Their gradients."""
    zero = target.elements[dtype].constant(0)

    def derivative(y, gradient):
        return zero if y <= zero else gradient

    return _rnn_backward(target, dtype, derivative, threads)
