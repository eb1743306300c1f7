"""Kernels of recurrent layers: all steps of some sequences of a batch.

A step is one product with the recurrent weights, which lie in panels, and one pass over the gates that it makes. What
the pass writes is what the steps backwards read. The walk over the steps is the same for all layers; of each there is
its cell, and the cell of its gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from fastgrad.kernels.cpu.gemv import adding, clearing
from fastgrad.kernels.cpu.panels import panel_product
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.kernels.reports import Builder, report_index
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, memcpy
from fastgrad.native.contracts.element_types import INT64

_integers = ELEMENTS[INT64].pointer

# --- steps -----------------------------------------------------------------------------------------------------------


@njit(**INLINE)
def _present(f, t):  # type: ignore[no-untyped-def]
    """How many sequences have step `t`; none if there is no such step."""
    if t < 0 or t >= f.steps:
        return 0
    return f.batch if f.sizes.data == 0 else _integers(f.sizes.data)[t]


@njit(**INLINE)
def _fits(f, columns):  # type: ignore[no-untyped-def]
    """Whether sequences and panels are there, no step has more sequences than the one before, and all have its rows."""
    if f.first < 0 or f.n < 0 or f.first > f.batch - f.n:
        report_index(f, f.first, f.batch - f.n)
        return False
    if columns > f.width:
        report_index(f, columns, f.width)
        return False
    total, most = 0, f.batch
    for t in range(f.steps):
        now = _present(f, t)
        if now < 0 or now > most:
            report_index(f, now, most + 1)
            return False
        total, most = total + now, now
    if total != f.rows:
        report_index(f, total, f.rows)
        return False
    return True


def _walk(begin: Any, cell: Any, back: bool, columns: int = 1) -> Any:
    """A function of a frame: ``begin(f)``, then the steps in the order of computing, or `back` in the other one.

    The panels have so many `columns` for each element of a state.

    ``cell(f, at, sequence, prior, n)`` does a step of `n` sequences, whose rows begin at `at`, from the rows of their
    step before, which begin at `prior`. This is negative for their first step. Where sequences of different lengths
    run backwards, some begin at a step that others reach, so that there may be two calls.
    """

    @njit(**INLINE)
    def walk(f):  # type: ignore[no-untyped-def]
        if not _fits(f, columns * f.size):
            return
        begin(f)
        rising = (f.backwards != 0) == back
        start = 0 if rising else f.rows
        for k in range(f.steps):
            t = k if rising else f.steps - 1 - k
            size = _present(f, t)
            if not rising:
                start -= size
            before = _present(f, t + 1 if f.backwards else t - 1)
            prior = start + size if f.backwards else start - before
            n = max(0, min(size - f.first, f.n))
            going = min(n, max(0, before - f.first))
            if going > 0:
                cell(f, start + f.first, f.first, prior + f.first, going)
            if going < n:
                cell(f, start + f.first + going, f.first + going, -1, n - going)
            if rising:
                start += size

    return walk


@njit(**INLINE)
def _nothing(f):  # type: ignore[no-untyped-def]
    """What there is to do before the first step."""


@njit(**INLINE)
def _earlier(values, first, prior, sequence, size):  # type: ignore[no-untyped-def]
    """The states before a step: those of rows computed before, or the first ones."""
    return advance(values, prior * size) if prior >= 0 else advance(first, sequence * size)


# --- LSTM ------------------------------------------------------------------------------------------------------------


def _lstm_step(dtype: int) -> Any:
    """What a step makes of a row of products with the hidden state, which become the gates' values."""
    sigmoid, tanh = ELEMENTS[dtype].math.sigmoid, ELEMENTS[dtype].math.tanh

    @njit(**LOOP)
    def step(enter, forget, candidate, leave, x_e, x_f, x_c, x_l, before, cell, out, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            e, f = sigmoid(enter[i] + x_e[i]), sigmoid(forget[i] + x_f[i])
            c, o = tanh(candidate[i] + x_c[i]), sigmoid(leave[i] + x_l[i])
            state = f * before[i] + e * c
            enter[i], forget[i], candidate[i], leave[i], cell[i] = e, f, c, o, state
            out[i] = o * tanh(state)

    return step


def lstm(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The outputs, cell states and gates of an LSTM."""
    pointer, product, step = ELEMENTS[dtype].pointer, panel_product(dtype), _lstm_step(dtype)
    itemsize = ELEMENTS[dtype].scalar.bitwidth // 8

    @njit(**KERNEL)
    def cell(f, at, sequence, prior, n):  # type: ignore[no-untyped-def]
        size, cells = f.size, pointer(f.cells)
        h = _earlier(pointer(f.out), pointer(f.h.data), prior, sequence, size)
        gates, x = advance(pointer(f.gates), at * 4 * size), advance(pointer(f.x.data), at * 4 * size)
        state = prior if prior >= 0 else f.rows + sequence
        if prior < 0:
            row = size * itemsize
            memcpy(f.cells + state * row, f.c.data + sequence * row, n * row)
        product(gates, 4 * size, h, size, pointer(f.panels.data), n, 4 * size, size, 0)
        for i in range(n):
            g, y = advance(gates, i * 4 * size), advance(x, i * 4 * size)
            step(
                g, advance(g, size), advance(g, 2 * size), advance(g, 3 * size),
                y, advance(y, size), advance(y, 2 * size), advance(y, 3 * size),
                advance(cells, (state + i) * size), advance(cells, (at + i) * size),
                advance(pointer(f.out), (at + i) * size), size,
            )  # fmt: skip

    walk = _walk(_nothing, cell, False, 4)

    def run(frame):  # type: ignore[no-untyped-def]
        walk(frames.lstm(frame))

    return run, KERNEL


def _lstm_step_back(dtype: int) -> Any:
    """What a row of gradients of hidden and cell state makes of the gates' values: their gradients.

    The gradient of the cell state becomes that of the one before.
    """
    one, tanh = ELEMENTS[dtype].constant(1), ELEMENTS[dtype].math.tanh

    @njit(**LOOP)
    def step(enter, forget, new, leave, before, cell, d_h, d_s, d_e, d_f, d_c, d_l, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            e, f, c, o = enter[i], forget[i], new[i], leave[i]
            t, dh = tanh(cell[i]), d_h[i]
            dc = d_s[i] + dh * o * (one - t * t)
            d_l[i] = dh * t * o * (one - o)
            d_f[i] = dc * before[i] * f * (one - f)
            d_e[i] = dc * c * e * (one - e)
            d_c[i] = dc * e * (one - c * c)
            d_s[i] = dc * f

    return step


def lstm_backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The gradients of the gates of an LSTM, and of its first states, which hold those of each step in turn."""
    pointer, product, step = ELEMENTS[dtype].pointer, panel_product(dtype), _lstm_step_back(dtype)
    add, clear = adding(), clearing(dtype)

    @njit(**INLINE)
    def begin(f):  # type: ignore[no-untyped-def]
        grad_h = advance(pointer(f.grad_states), f.first * f.size)
        grad_c = advance(grad_h, f.batch * f.size)
        clear(grad_h, f.n * f.size)
        clear(grad_c, f.n * f.size)
        if f.grad_cell.data != 0:
            add(grad_c, advance(pointer(f.grad_cell.data), f.first * f.size), f.n * f.size)

    @njit(**KERNEL)
    def cell(f, at, sequence, prior, n):  # type: ignore[no-untyped-def]
        size, cells = f.size, pointer(f.cells.data)
        grad_h = advance(pointer(f.grad_states), sequence * size)
        grad_c = advance(grad_h, f.batch * size)
        gates = advance(pointer(f.gates.data), at * 4 * size)
        grad_x = advance(pointer(f.grad_x), at * 4 * size)
        state = prior if prior >= 0 else f.rows + sequence
        if f.grad_out.data != 0:
            add(grad_h, advance(pointer(f.grad_out.data), at * size), n * size)
        for i in range(n):
            g, d = advance(gates, i * 4 * size), advance(grad_x, i * 4 * size)
            step(
                g, advance(g, size), advance(g, 2 * size), advance(g, 3 * size),
                advance(cells, (state + i) * size), advance(cells, (at + i) * size),
                advance(grad_h, i * size), advance(grad_c, i * size),
                d, advance(d, size), advance(d, 2 * size), advance(d, 3 * size), size,
            )  # fmt: skip
        product(grad_h, size, grad_x, 4 * size, pointer(f.panels.data), n, size, 4 * size, 0)

    walk = _walk(begin, cell, True)

    def run(frame):  # type: ignore[no-untyped-def]
        walk(frames.lstm_backward(frame))

    return run, KERNEL


# --- GRU -------------------------------------------------------------------------------------------------------------


def _gru_step(dtype: int) -> Any:
    """What a step makes of a row of products with the hidden state, which become what is kept of the gates."""
    sigmoid, tanh = ELEMENTS[dtype].math.sigmoid, ELEMENTS[dtype].math.tanh

    @njit(**LOOP)
    def step(reset, update, state, new, x_r, x_u, x_n, b_r, b_u, b_n, before, out, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            r, u = sigmoid(reset[i] + b_r[i] + x_r[i]), sigmoid(update[i] + b_u[i] + x_u[i])
            s = state[i] + b_n[i]
            c = tanh(x_n[i] + r * s)
            reset[i], update[i], state[i], new[i] = r, u, s, c
            out[i] = c + u * (before[i] - c)

    return step


def gru(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The outputs of a GRU, and of each gate what is kept."""
    pointer, product, step = ELEMENTS[dtype].pointer, panel_product(dtype), _gru_step(dtype)

    @njit(**KERNEL)
    def cell(f, at, sequence, prior, n):  # type: ignore[no-untyped-def]
        size, b = f.size, pointer(f.bias.data)
        h = _earlier(pointer(f.out), pointer(f.h.data), prior, sequence, size)
        gates, x = advance(pointer(f.gates), at * 4 * size), advance(pointer(f.x.data), at * 3 * size)
        product(gates, 4 * size, h, size, pointer(f.panels.data), n, 3 * size, size, 0)
        for i in range(n):
            g, y = advance(gates, i * 4 * size), advance(x, i * 3 * size)
            step(
                g, advance(g, size), advance(g, 2 * size), advance(g, 3 * size),
                y, advance(y, size), advance(y, 2 * size), b, advance(b, size), advance(b, 2 * size),
                advance(h, i * size), advance(pointer(f.out), (at + i) * size), size,
            )  # fmt: skip

    walk = _walk(_nothing, cell, False, 3)

    def run(frame):  # type: ignore[no-untyped-def]
        walk(frames.gru(frame))

    return run, KERNEL


def _gru_step_back(dtype: int) -> Any:
    """What a row of gradients of the hidden state makes of what is kept of the gates: their gradients.

    Those of what the input gives to them, and of the product for the candidate, which differs. The gradient of the
    hidden state becomes the part of the one before that comes past the gates.
    """
    one = ELEMENTS[dtype].constant(1)

    @njit(**LOOP)
    def step(reset, update, state, new, before, d_h, x_r, x_u, x_n, h_r, h_u, h_n, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            r, u, c, dh = reset[i], update[i], new[i], d_h[i]
            dc = dh * (one - u) * (one - c * c)
            dr, du = dc * state[i] * r * (one - r), dh * (before[i] - c) * u * (one - u)
            x_r[i], x_u[i], x_n[i] = dr, du, dc
            h_r[i], h_u[i], h_n[i] = dr, du, dc * r
            d_h[i] = dh * u

    return step


def gru_backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The gradients of the gates of a GRU, and of its first state, which holds those of each step in turn."""
    pointer, product, step = ELEMENTS[dtype].pointer, panel_product(dtype), _gru_step_back(dtype)
    add = adding()

    @njit(**KERNEL)
    def cell(f, at, sequence, prior, n):  # type: ignore[no-untyped-def]
        size = f.size
        before = _earlier(pointer(f.out.data), pointer(f.h.data), prior, sequence, size)
        grad_h = advance(pointer(f.grad_h), sequence * size)
        gates = advance(pointer(f.gates.data), at * 4 * size)
        grad_x = advance(pointer(f.grad_gates), at * 3 * size)
        grad_products = advance(grad_x, f.rows * 3 * size)
        if f.grad_out.data != 0:
            add(grad_h, advance(pointer(f.grad_out.data), at * size), n * size)
        for i in range(n):
            g, x, p = (
                advance(gates, i * 4 * size), advance(grad_x, i * 3 * size), advance(grad_products, i * 3 * size),
            )  # fmt: skip
            step(
                g, advance(g, size), advance(g, 2 * size), advance(g, 3 * size),
                advance(before, i * size), advance(grad_h, i * size),
                x, advance(x, size), advance(x, 2 * size), p, advance(p, size), advance(p, 2 * size), size,
            )  # fmt: skip
        product(grad_h, size, grad_products, 3 * size, pointer(f.panels.data), n, size, 3 * size, 1)

    walk = _walk(_no_gradient(dtype), cell, True)

    def run(frame):  # type: ignore[no-untyped-def]
        walk(frames.gru_backward(frame))

    return run, KERNEL


def _no_gradient(dtype: int) -> Any:
    """What gradients of a hidden state begin with."""
    pointer, clear = ELEMENTS[dtype].pointer, clearing(dtype)

    @njit(**INLINE)
    def begin(f):  # type: ignore[no-untyped-def]
        clear(advance(pointer(f.grad_h), f.first * f.size), f.n * f.size)

    return begin


# --- simple cells ----------------------------------------------------------------------------------------------------


def _rnn_tanh(dtype: int) -> tuple[Any, Any]:
    """The function of the cell, and its derivative by its value, times a gradient."""
    one, tanh = ELEMENTS[dtype].constant(1), ELEMENTS[dtype].math.tanh

    @njit(**INLINE)
    def back(y, gradient):  # type: ignore[no-untyped-def]
        return gradient * (one - y * y)

    return tanh, back


def _rnn_relu(dtype: int) -> tuple[Any, Any]:
    zero = ELEMENTS[dtype].constant(0)

    @njit(**INLINE)
    def relu(x):  # type: ignore[no-untyped-def]
        return zero if x <= zero else x  # nan stays

    @njit(**INLINE)
    def back(y, gradient):  # type: ignore[no-untyped-def]
        return zero if y <= zero else gradient

    return relu, back


def _rnn(dtype: int, functions: Callable[[int], tuple[Any, Any]]) -> Builder:
    """The outputs of simple cells."""
    pointer, product, (function, _) = ELEMENTS[dtype].pointer, panel_product(dtype), functions(dtype)

    @njit(**LOOP)
    def step(out, x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = function(out[i] + x[i])

    @njit(**KERNEL)
    def cell(f, at, sequence, prior, n):  # type: ignore[no-untyped-def]
        size, out = f.size, advance(pointer(f.out), at * f.size)
        h = _earlier(pointer(f.out), pointer(f.h.data), prior, sequence, size)
        product(out, size, h, size, pointer(f.panels.data), n, size, size, 0)
        step(out, advance(pointer(f.x.data), at * size), n * size)

    walk = _walk(_nothing, cell, False)

    def run(frame):  # type: ignore[no-untyped-def]
        walk(frames.rnn(frame))

    return run, KERNEL


def _rnn_backward(dtype: int, functions: Callable[[int], tuple[Any, Any]]) -> Builder:
    """The gradients of what simple cells get, and of their first state, which holds those of each step in turn."""
    pointer, product, (_, derivative) = ELEMENTS[dtype].pointer, panel_product(dtype), functions(dtype)
    add = adding()

    @njit(**LOOP)
    def step(grad_x, grad_h, out, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            grad_x[i] = derivative(out[i], grad_h[i])

    @njit(**KERNEL)
    def cell(f, at, sequence, prior, n):  # type: ignore[no-untyped-def]
        size = f.size
        grad_h = advance(pointer(f.grad_h), sequence * size)
        grad_x = advance(pointer(f.grad_x), at * size)
        if f.grad_out.data != 0:
            add(grad_h, advance(pointer(f.grad_out.data), at * size), n * size)
        step(grad_x, grad_h, advance(pointer(f.out.data), at * size), n * size)
        product(grad_h, size, grad_x, size, pointer(f.panels.data), n, size, size, 0)

    walk = _walk(_no_gradient(dtype), cell, True)

    def run(frame):  # type: ignore[no-untyped-def]
        walk(frames.rnn_backward(frame))

    return run, KERNEL


def rnn_tanh(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The outputs of cells with the hyperbolic tangent."""
    return _rnn(dtype, _rnn_tanh)


def rnn_relu(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """The outputs of cells that let positive numbers through."""
    return _rnn(dtype, _rnn_relu)


def rnn_tanh_backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Their gradients."""
    return _rnn_backward(dtype, _rnn_tanh)


def rnn_relu_backward(kernel: Any, dtype: int, layout_class: int) -> Builder:
    """Their gradients."""
    return _rnn_backward(dtype, _rnn_relu)
