"""Recurrent layers over whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from fastgrad.autograd.engine import grad
from fastgrad.autograd.function import Function
from fastgrad.autograd.modes import is_grad_enabled
from fastgrad.functions.linalg import linear, mm
from fastgrad.functions.recurrent import (
    States,
    Step,
    gru_step,
    lstm_step,
    relu_step,
    tanh_step,
)
from fastgrad.functions.shape import cat, narrow, stack, t, unbind
from fastgrad.native.contracts.frames.framed import AS_BEFORE
from fastgrad.native.contracts.frames.recurrent import PANEL_COLUMNS
from fastgrad.ops.call import apply
from fastgrad.ops.recurrent import LSTM, LSTM_BACKWARD, PANELS

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


class MkldnnRnnLayer(Function):
    """The steps of one direction of an LSTM as one node, as PyTorch has it: the outputs and the last cell state.

    It takes what the input gives to the gates, (T, N, 4 H), the first states and the recurrent weights.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, h: Any, cell: Any, weight: Any, backwards: bool) -> tuple[Any, Any]:
        """Run all steps, and keep the gates and the cell states."""
        steps, batch, width = x.shape
        size = width // 4
        panels, wide = _panels(weight, width, size, True)
        output, cells, gates = apply(
            LSTM.id, 4, 0, x, h, cell, panels, steps, steps + 1, batch, batch, size, int(backwards), wide,
            3, steps, batch, size, 3, steps + 1, batch, size, -1,
        )  # fmt: skip
        ctx.save_for_backward(x, h, cell, weight, output, cells, gates)
        ctx.set_materialize_grads(False)
        ctx.backwards = backwards
        return output, narrow(cells, 0, steps, 1).clone().reshape(batch, size)

    @staticmethod
    def backward(ctx: Any, grad_out: Any, grad_cell: Any) -> tuple[Any, ...]:
        """The gradients of what the gates get, of the first states and of the weights."""
        x, h, cell, weight, output, cells, gates = ctx.saved_tensors
        if is_grad_enabled():
            return *_recorded(x, (h, cell), weight, ctx.backwards, (grad_out, grad_cell)), None
        steps, batch, width = gates.shape
        size = width // 4
        panels, wide = _panels(weight, size, width, False)
        grad_x, grad_h, grad_first = apply(
            LSTM_BACKWARD.id, 5, 0, gates, cells, panels, grad_out, grad_cell, steps, steps + 1, batch, batch, size,
            int(ctx.backwards), wide, -1, 2, batch, size, AS_BEFORE,
        )  # fmt: skip
        grad_weight = _weight_gradient(grad_x, output, h, ctx.backwards) if ctx.needs_input_grad[3] else None
        return grad_x, grad_h, grad_first, grad_weight, None


def _weight_gradient(grad_x: Any, output: Any, h: Any, backwards: bool) -> Any:
    """That of the recurrent weights: one product over all steps but the first, and one for that."""
    steps, batch, width = grad_x.shape
    if batch == 0:
        return mm(t(grad_x.reshape(0, width)), h)  # zeros
    first, others = (steps - 1, 0) if backwards else (0, 1)
    total = mm(t(grad_x[first]), h)
    if steps > 1:
        later, earlier = narrow(grad_x, 0, others, steps - 1), narrow(output, 0, 1 - others, steps - 1)
        total += mm(t(later.reshape(-1, width)), earlier.reshape(-1, h.shape[1]))
    return total


def _panels(weight: Any, n: int, k: int, transposed: bool) -> tuple[Any, int]:
    """A matrix of k rows and n columns, or its transpose, laid out for many products; how many columns these are."""
    count = -(-n // PANEL_COLUMNS)
    plan = (count, n, k, n, int(transposed), 3, count, k, PANEL_COLUMNS)
    return apply(PANELS.id, 1, 0, weight, *plan), count * PANEL_COLUMNS


def _recorded(
    x: Any, states: States, weight: Any, backwards: bool, gradients: Sequence[Any]
) -> Sequence[Any]:
    """The same gradients as ops that can be differentiated: those of the single steps."""
    advance = partial(lstm_step, weight=t(weight), bias=None)
    output, end = _steps(advance, unbind(x, 0), states, backwards)
    ends = {y: g for y, g in zip((output, end[1]), gradients, strict=True) if g is not None}
    inputs = (x, *states, weight)
    wanted = [y for y in inputs if y.requires_grad]
    found = iter(grad(list(ends), wanted, list(ends.values()), create_graph=True, allow_unused=True))
    return [next(found) if y.requires_grad else None for y in inputs]


def _layer(
    step: Step, x: Any, states: States, weights: Weights, backwards: bool, sizes: Sequence[int] | None
) -> tuple[Any, States]:
    """One direction of one layer: its outputs, and its states at the end."""
    bias, later_bias = weights.input_bias, weights.recurrent_bias
    if step is not gru_step and bias is not None:  # a GRU multiplies what comes from the state before it adds
        bias, later_bias = bias + later_bias, None
    gates = linear(x, weights.input, bias)
    if step is lstm_step and sizes is None and weights.projection is None:
        output, cell = MkldnnRnnLayer.apply(gates, *states, weights.recurrent, backwards)
        return output, (output[0 if backwards else -1], cell)
    recurrent_weight = t(weights.recurrent).contiguous()  # small products with rows are faster

    def advance(gate: Any, states: States) -> States:
        states = step(gate, states, recurrent_weight, later_bias)
        if weights.projection is None:
            return states
        return (linear(states[0], weights.projection), *states[1:])

    if sizes is not None:
        return _packed(advance, gates, states, sizes, backwards)
    return _steps(advance, unbind(gates, 0), states, backwards)


def _steps(
    advance: Callable[[Any, States], States], gates: Sequence[Any], states: States, backwards: bool
) -> tuple[Any, States]:
    """The outputs of all steps, and the states at the end."""
    outputs = []
    for gate in reversed(gates) if backwards else gates:
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
