"""Recurrent layers over whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fastgrad.functions.linalg import linear
from fastgrad.functions.recurrent import (
    States,
    Step,
    gru_step,
    lstm_step,
    relu_step,
    tanh_step,
)
from fastgrad.functions.shape import cat, narrow, stack, t, unbind

MODES: dict[str, tuple[Step, int, int]] = {
    "RNN_TANH": (tanh_step, 1, 1), "RNN_RELU": (relu_step, 1, 1), "GRU": (gru_step, 3, 1), "LSTM": (lstm_step, 4, 2),
}  # fmt: skip
"""For each mode one step, the number of gates and that of states."""


class Weights(NamedTuple):
    """The parameters of one direction of one layer."""

    input: Any
    recurrent: Any
    input_bias: Any = None
    recurrent_bias: Any = None
    projection: Any = None


def recurrent(
    mode: str,
    x: Any,
    states: Sequence[Any],
    weights: Sequence[Weights],
    directions: int,
    between: Callable[[Any], Any] | None,
    sizes: Sequence[int] | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """A stack of recurrent layers.

    Parameters
    ----------
    mode : str
        One of `MODES`.
    x : Tensor
        Shape (T, N, I); or all steps one after the other, (sum of `sizes`, I).
    states : sequence of Tensor
        The first hidden states (layers * directions, N, H), for an LSTM the first cell states as well.
    weights : sequence of Weights
        Those of each layer and direction, directions of a layer side by side.
    directions : int
        1, or 2 for layers that run over the sequence from its end as well.
    between : callable, optional
        Applied to what a layer hands to the next one.
    sizes : sequence of int, optional
        How many sequences each step has, never rising.

    Returns
    -------
    output : Tensor
        Of the last layer, shape (T, N, directions * H) or (sum of `sizes`, directions * H).
    states : tuple of Tensor
        The last states, as `states`.
    """
    step = MODES[mode][0]
    first = [unbind(s, 0) for s in states]
    last: list[States] = []
    for layer in range(len(weights) // directions):
        if layer and between is not None:
            x = between(x)
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            begin = tuple(s[place] for s in first)
            output, end = _layer(step, x, begin, weights[place], direction == 1, sizes)
            outputs.append(output)
            last.append(end)
        x = outputs[0] if directions == 1 else cat(outputs, -1)
    return x, tuple(stack(s, 0) for s in zip(*last, strict=True))


def _layer(
    step: Step, x: Any, states: States, weights: Weights, backwards: bool, sizes: Sequence[int] | None
) -> tuple[Any, States]:
    """One direction of one layer: its outputs, and its states at the end."""
    bias, later_bias = weights.input_bias, weights.recurrent_bias
    if step is not gru_step and bias is not None:  # a GRU multiplies what comes from the state before it adds
        bias, later_bias = bias + later_bias, None
    gates = linear(x, weights.input, bias)
    recurrent_weight = t(weights.recurrent).contiguous()  # small products with rows are faster

    def advance(gate: Any, states: States) -> States:
        states = step(gate, states, recurrent_weight, later_bias)
        if weights.projection is None:
            return states
        return (linear(states[0], weights.projection), *states[1:])

    if sizes is not None:
        return _packed(advance, gates, states, sizes, backwards)
    outputs = []
    steps = unbind(gates, 0)
    for gate in reversed(steps) if backwards else steps:
        states = advance(gate, states)
        outputs.append(states[0])
    return stack(outputs[::-1] if backwards else outputs, 0), states


def _packed(
    advance: Callable[[Any, States], States],
    gates: Any,
    first: States,
    sizes: Sequence[int],
    backwards: bool,
) -> tuple[Any, States]:
    """As in `_layer`, over sequences of different lengths: the longest first, so that each step is a prefix."""
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    order = range(len(sizes) - 1, -1, -1) if backwards else range(len(sizes))
    outputs = []
    states = tuple(narrow(s, 0, 0, sizes[order[0]]) for s in first)
    ended: list[States] = []
    for k in order:
        size, now = sizes[k], states[0].shape[0]
        if size < now:  # some sequences are over: their states stay
            ended.append(tuple(narrow(s, 0, size, now - size) for s in states))
            states = tuple(narrow(s, 0, 0, size) for s in states)
        elif size > now:  # some begin, from their last element
            begin = (narrow(s, 0, now, size - now) for s in first)
            states = tuple(cat(pair, 0) for pair in zip(states, begin, strict=True))
        states = advance(narrow(gates, 0, starts[k], size), states)
        outputs.append(states[0])
    last = tuple(cat(parts[::-1], 0) for parts in zip(*ended, states, strict=True)) if ended else states
    return cat(outputs[::-1] if backwards else outputs, 0), last
