"""Kernels of recurrent layers: all steps of some sequences of a batch.

A step is one product with the recurrent weights, which lie in panels, and one pass over the gates that it makes. What
the pass writes is what the steps backwards read.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from fastgrad.kernels.cpu.gemv import adding, clearing
from fastgrad.kernels.cpu.panels import panel_product
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.kernels.reports import Builder
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, memcpy


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

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.lstm(frame)
        size = f.size
        row, step_gates = f.batch * size, 4 * f.batch * size
        h, cells, panels = pointer(f.h.data), pointer(f.cells), pointer(f.panels.data)
        memcpy(f.cells, f.c.data, f.n * size * itemsize)
        for k in range(f.steps):
            t = f.steps - 1 - k if f.backwards else k
            gates, x = advance(pointer(f.gates), t * step_gates), advance(pointer(f.x.data), t * step_gates)
            out = advance(pointer(f.out), t * row)
            product(gates, 4 * size, h, size, panels, f.n, 4 * size, size)
            for i in range(f.n):
                g, y, at = advance(gates, i * 4 * size), advance(x, i * 4 * size), k * row + i * size
                step(
                    g, advance(g, size), advance(g, 2 * size), advance(g, 3 * size),
                    y, advance(y, size), advance(y, 2 * size), advance(y, 3 * size),
                    advance(cells, at), advance(cells, at + row), advance(out, i * size), size,
                )  # fmt: skip
            h = out

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

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.lstm_backward(frame)
        size = f.size
        row, step_gates = f.batch * size, 4 * f.batch * size
        grad_h, grad_c, panels = pointer(f.grad_h), pointer(f.grad_c), pointer(f.panels.data)
        clear(grad_h, f.n * size)
        clear(grad_c, f.n * size)
        if f.grad_cell.data != 0:
            add(grad_c, pointer(f.grad_cell.data), f.n * size)
        for k in range(f.steps - 1, -1, -1):
            t = f.steps - 1 - k if f.backwards else k
            gates, cells = (
                advance(pointer(f.gates.data), t * step_gates),
                advance(pointer(f.cells.data), k * row),
            )
            grad_x = advance(pointer(f.grad_x), t * step_gates)
            if f.grad_out.data != 0:
                add(grad_h, advance(pointer(f.grad_out.data), t * row), f.n * size)
            for i in range(f.n):
                g, d, at = advance(gates, i * 4 * size), advance(grad_x, i * 4 * size), i * size
                step(
                    g, advance(g, size), advance(g, 2 * size), advance(g, 3 * size),
                    advance(cells, at), advance(cells, at + row), advance(grad_h, at), advance(grad_c, at),
                    d, advance(d, size), advance(d, 2 * size), advance(d, 3 * size), size,
                )  # fmt: skip
            product(grad_h, size, grad_x, 4 * size, panels, f.n, size, 4 * size)

    return run, KERNEL
