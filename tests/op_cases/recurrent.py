"""Rows for recurrent cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .common import ErrorCase, OpCase, Sample, bracketed, normal, number, ones, quiet


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(gates_x: np.ndarray, gates_h: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
    i, f, g, o = np.split(gates_x + gates_h, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(gates_x: np.ndarray, gates_h: np.ndarray, h: np.ndarray) -> np.ndarray:
    (xr, xz, xn), (hr, hz, hn) = np.split(gates_x, 3, -1), np.split(gates_h, 3, -1)
    z, n = sigmoid(xz + hz), np.tanh(xn + sigmoid(xr + hr) * hn)
    return (1 - z) * n + z * h


def simple(f: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda gates_x, gates_h, h: f(gates_x + gates_h)


def cell(name: str, gates: int, n_states: int, step: Callable[..., Any]) -> OpCase:
    """The cell `name`, called with its states one by one."""

    def call(lib: Any, x: Any, *rest: Any) -> Any:
        states, weights = rest[:n_states], rest[n_states:]
        return getattr(lib, name)(x, states if n_states == 2 else states[0], *weights)

    @quiet
    def ref(x: np.ndarray, *rest: np.ndarray) -> Any:
        wide = [a.astype(np.float64) for a in (x, *rest)]
        states, (w_ih, w_hh, *biases) = wide[1 : 1 + n_states], wide[1 + n_states :]
        b_ih, b_hh = biases or (0, 0)
        out = step(wide[0] @ w_ih.T + b_ih, states[0] @ w_hh.T + b_hh, *states)
        return tuple(o.astype(x.dtype) for o in out) if n_states == 2 else out.astype(x.dtype)

    def shapes(n: int, width: int, h: int, bias: bool = True) -> list[tuple[int, ...]]:
        biases = [(gates * h,)] * 2 if bias else []
        return [(n, width), *[(n, h)] * n_states, (gates * h, width), (gates * h, h), *biases]

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        return [
            Sample(tuple(normal(rng, shape, dtype) for shape in shapes(*sizes)))
            for sizes in ((2, 3, 2), (1, 1, 3, False))
        ]

    def with_shape(place: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        return tuple(ones(*(shape if k == place else s)) for k, s in enumerate(shapes(2, 3, 4, False)))

    weights = 1 + n_states
    return OpCase(
        name,
        call,
        samples,
        ref,
        differentiable=True,
        empty=lambda d: [Sample(tuple(np.zeros(s, d) for s in shapes(0, 3, 2)))],
        errors=[
            ErrorCase("input", RuntimeError, call, with_shape(0, (2, 5)), (name, number(5), number(3))),
            ErrorCase("batch", RuntimeError, call, with_shape(0, (7, 3)), (name, number(7), number(2))),
            ErrorCase(
                "hidden",
                RuntimeError,
                call,
                with_shape(weights + 1, (9, 4)),
                (name, "hidden", bracketed(9, 4)),
            ),
            ErrorCase("dims", IndexError, call, with_shape(weights, (4,)), (name, "dim")),
            ErrorCase("type", TypeError, call, ("text", *with_shape(0, (2, 3))[1:]), (name, "str")),
        ],
        tolerances={"float32": (1e-5, 2e-6), "float64": (1e-12, 1e-13)},
    )


CASES = [
    cell("lstm_cell", 4, 2, lstm),
    cell("gru_cell", 3, 1, gru),
    cell("rnn_tanh_cell", 1, 1, simple(np.tanh)),
    cell("rnn_relu_cell", 1, 1, simple(lambda x: np.maximum(x, 0))),
]
