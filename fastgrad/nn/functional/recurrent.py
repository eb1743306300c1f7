"""Recurrent layers over whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from fastgrad.autograd.engine import grad
from fastgrad.autograd.function import Function
from fastgrad.autograd.modes import is_grad_enabled
from fastgrad.dtypes import int64
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.creation import tensor, zeros
from fastgrad.functions.index import index_select
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
from fastgrad.ops.call import apply
from fastgrad.ops.linalg import in_panels
from fastgrad.ops.recurrent import (
    GRU,
    GRU_BACKWARD,
    LSTM,
    LSTM_BACKWARD,
    RNN_RELU,
    RNN_RELU_BACKWARD,
    RNN_TANH,
    RNN_TANH_BACKWARD,
)
from fastgrad.ops.registry import Op

MODES: dict[str, tuple[Step, int, int]] = {
    "RNN_TANH": (tanh_step, 1, 1), "RNN_RELU": (relu_step, 1, 1), "GRU": (gru_step, 3, 1), "LSTM": (lstm_step, 4, 2),
}  # fmt: skip
"""For each mode one step, the number of gates and that of states."""

SIMPLE: dict[Step, tuple[Op, Op]] = {
    tanh_step: (RNN_TANH, RNN_TANH_BACKWARD),
    relu_step: (RNN_RELU, RNN_RELU_BACKWARD),
}
"""The ops of all steps of simple cells, forward and backward, by one step."""

AS_INPUT = -1
"""In place of the rank of an output: it has the sizes of the first operand."""


class Weights(NamedTuple):
    """The parameters of one direction of one layer."""

    input: Any
    recurrent: Any
    input_bias: Any = None
    recurrent_bias: Any = None
    projection: Any = None


@lower_precision
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
    if sizes is not None:
        x = _rows(x, sizes)
    first = [unbind(s, 0) for s in states]
    last: list[States] = []
    for layer in range(len(weights) // directions):
        if layer and between is not None:
            x = between(x)
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            begin = tuple(s[place] for s in first)
            output, end = _layer(step, x, begin, weights[place], Course(direction == 1, sizes))
            outputs.append(output)
            last.append(end)
        x = outputs[0] if directions == 1 else cat(outputs, -1)
    return x, tuple(stack(s, 0) for s in zip(*last, strict=True))


def _rows(x: Any, sizes: Sequence[int]) -> Any:
    """The rows of x that belong to steps of these sizes."""
    if any(a < b for a, b in pairwise((*sizes, 0))):
        raise RuntimeError(
            f"Expected `batch_sizes` never to rise and not to be negative, but got {list(sizes)}"
        )
    return x if sum(sizes) == x.shape[0] else narrow(x, 0, 0, sum(sizes))


class Course(NamedTuple):
    """In which order a layer does its steps, and how many sequences each has if that differs."""

    backwards: bool
    sizes: Sequence[int] | None


class MkldnnRnnLayer(Function):
    """The steps of one direction of an LSTM as one node, as PyTorch has it: the outputs and the last cell state.

    It takes what the input gives to the gates, (T, N, 4 H) or (sum of sizes, 4 H), the first states and the recurrent
    weights.
    """

    _only_launches = True

    @staticmethod
    def forward(ctx: Any, x: Any, h: Any, cell: Any, weight: Any, course: Course) -> tuple[Any, Any]:
        """Run all steps, and keep the gates and the cell states."""
        panels, sizes, integers = _prepared(course, x, h, weight, True)
        rows, size = integers[1], h.shape[1]
        states = rows + h.shape[0]
        output, cells, gates = apply(
            LSTM.id, 5, 0, x, h, cell, panels, sizes, *integers, states, *_like(x, size), 2, states, size, AS_INPUT,
        )  # fmt: skip
        ctx.save_for_backward(x, h, cell, weight, output, cells, gates)
        ctx.set_materialize_grads(False)
        ctx.course = course
        return output, _last(narrow(cells, 0, 0, rows).reshape(output.shape), course).clone()

    @staticmethod
    def backward(ctx: Any, grad_out: Any, grad_cell: Any) -> tuple[Any, ...]:
        """The gradients of what the gates get, of the first states and of the weights."""
        x, h, cell, weight, output, cells, gates = ctx.saved_tensors
        if is_grad_enabled():
            gradients = (grad_out, grad_cell)
            return *_recorded(lstm_step, x, (h, cell), weight, None, ctx.course, gradients)[:-1], None
        panels, sizes, integers = _prepared(ctx.course, gates, h, weight, False)
        grad_x, grad_states = apply(
            LSTM_BACKWARD.id, 6, 0, gates, cells, panels, grad_out, grad_cell, sizes, *integers, cells.shape[0],
            AS_INPUT, 3, 2, *h.shape,
        )  # fmt: skip
        grad_weight = _weight_gradient(grad_x, output, h, ctx.course) if ctx.needs_input_grad[3] else None
        return grad_x, *unbind(grad_states, 0), grad_weight, None


class GRULayer(Function):
    """The steps of one direction of a GRU as one node.

    It takes what the input gives to the gates, (T, N, 3 H) or (sum of sizes, 3 H), the first state, the recurrent
    weights and their bias.
    """

    _only_launches = True

    @staticmethod
    def forward(ctx: Any, x: Any, h: Any, weight: Any, bias: Any, course: Course) -> Any:
        """Run all steps, and keep what the derivative reads of the gates."""
        panels, sizes, integers = _prepared(course, x, h, weight, True)
        rows, size = integers[1], h.shape[1]
        added = zeros(3 * size, dtype=x.dtype, device=x.device) if bias is None else bias
        output, gates = apply(
            GRU.id, 5, 0, x, h, panels, added, sizes, *integers, *_like(x, size), 2, rows, 4 * size
        )
        ctx.save_for_backward(x, h, weight, bias, output, gates)
        ctx.course = course
        return output

    @staticmethod
    def backward(ctx: Any, grad_out: Any) -> tuple[Any, ...]:
        """The gradients of what the gates get, of the first state, of the weights and of the bias."""
        x, h, weight, bias, output, gates = ctx.saved_tensors
        if is_grad_enabled():
            return *_recorded(gru_step, x, (h,), weight, bias, ctx.course, (grad_out,)), None
        panels, sizes, integers = _prepared(ctx.course, output, h, weight, False)
        grad_gates, grad_h = apply(
            GRU_BACKWARD.id, 6, 0, gates, output, h, panels, grad_out, sizes, *integers,
            x.ndim + 1, 2, *x.shape, 2, *h.shape,
        )  # fmt: skip
        grad_x, grad_products = unbind(grad_gates, 0)
        if h.numel() == 0:  # the second of nothing would begin behind it
            grad_products = grad_x
        needs = ctx.needs_input_grad
        grad_weight = _weight_gradient(grad_products, output, h, ctx.course) if needs[2] else None
        grad_bias = grad_products.reshape(-1, x.shape[-1]).sum(0) if needs[3] else None
        return grad_x, grad_h, grad_weight, grad_bias, None


class RNNLayer(Function):
    """The steps of one direction of a layer of simple cells as one node.

    It takes what the input gives to the cells, (T, N, H) or (sum of sizes, H), the first state and the recurrent
    weights.
    """

    _only_launches = True

    @staticmethod
    def forward(ctx: Any, x: Any, h: Any, weight: Any, course: Course, step: Step) -> Any:
        """Run all steps."""
        panels, sizes, integers = _prepared(course, x, h, weight, True)
        output = apply(SIMPLE[step][0].id, 4, 0, x, h, panels, sizes, *integers, AS_INPUT)
        ctx.save_for_backward(x, h, weight, output)
        ctx.course, ctx.step = course, step
        return output

    @staticmethod
    def backward(ctx: Any, grad_out: Any) -> tuple[Any, ...]:
        """The gradients of what the cells get, of the first state and of the weights."""
        x, h, weight, output = ctx.saved_tensors
        if is_grad_enabled():
            return *_recorded(ctx.step, x, (h,), weight, None, ctx.course, (grad_out,))[:-1], None, None
        panels, sizes, integers = _prepared(ctx.course, output, h, weight, False)
        grad_x, grad_h = apply(
            SIMPLE[ctx.step][1].id, 4, 0, output, panels, grad_out, sizes, *integers, AS_INPUT, 2, *h.shape
        )
        grad_weight = _weight_gradient(grad_x, output, h, ctx.course) if ctx.needs_input_grad[2] else None
        return grad_x, grad_h, grad_weight, None, None


def _prepared(
    course: Course, rows: Any, h: Any, weight: Any, transposed: bool
) -> tuple[Any, Any, tuple[int, ...]]:
    """What all kernels over steps get: the weights by panels, how many sequences each step has, and integers.

    `rows` is a tensor with a row for each sequence of each step, weights are `transposed` for products with states.
    """
    size = weight.shape[1]
    panels = apply(in_panels.id, 1, 0, t(weight) if transposed else weight)
    width = panels.shape[0] * panels.shape[2]
    batch, sizes = h.shape[0], course.sizes
    if sizes is None:
        steps = rows.shape[0]
        numbers, count = None, steps * batch
    else:
        steps, count = len(sizes), rows.shape[0]
        numbers = tensor(sizes, dtype=int64, device=h.device)
    return panels, numbers, (steps, count, batch, batch, 0, size, int(course.backwards), width)


def _like(x: Any, size: int) -> tuple[int, ...]:
    """The plan of an output of the sizes of x, but for the last one."""
    return x.ndim, *x.shape[:-1], size


def _last(values: Any, course: Course) -> Any:
    """The rows of each sequence's last step."""
    if course.sizes is None:
        return values[0 if course.backwards else -1]
    if course.backwards:
        return narrow(values, 0, 0, course.sizes[0])
    ends, start = [0] * course.sizes[0], 0
    for size in course.sizes:  # a later step overwrites
        ends[:size] = range(start, start + size)
        start += size
    return index_select(values, 0, tensor(ends, dtype=int64, device=values.device))


def _before(values: Any, first: Any, course: Course) -> Any:
    """For each row the states that its step began with, of `values` after each step and the `first` ones."""
    if course.sizes is None:
        others = narrow(values, 0, int(course.backwards), values.shape[0] - 1).reshape(-1, first.shape[1])
        return cat((others, first) if course.backwards else (first, others), 0)
    parts, sizes, start = [], course.sizes, 0
    for size, following in pairwise((*sizes, 0)):
        if course.backwards:  # the states after the following step, and those of sequences that begin here
            start += size
            parts += [narrow(values, 0, start, following), narrow(first, 0, following, size - following)]
        else:
            parts.append(narrow(values, 0, start, following))
            start += size
    return cat(parts if course.backwards else [narrow(first, 0, 0, sizes[0]), *parts], 0)


def _weight_gradient(grad_gates: Any, output: Any, h: Any, course: Course) -> Any:
    """That of the recurrent weights: one product over all steps."""
    gradient = grad_gates.reshape(h.numel() and -1, grad_gates.shape[-1])
    return mm(t(gradient), _before(output, h, course))


def _recorded(
    step: Step,
    x: Any,
    states: States,
    weight: Any,
    bias: Any,
    course: Course,
    gradients: Sequence[Any],
) -> Sequence[Any]:
    """The gradients of a layer as ops that can be differentiated: those of the single steps."""
    rows = t(weight)
    output, end = _steps(lambda gate, states: step(gate, states, rows, bias), x, states, course)
    ends = {y: g for y, g in zip((output, *end[1:]), gradients, strict=True) if g is not None}
    inputs = (x, *states, weight, bias)
    wanted = [y for y in inputs if y is not None and y.requires_grad]
    found = iter(grad(list(ends), wanted, list(ends.values()), create_graph=True, allow_unused=True))
    return [next(found) if y is not None and y.requires_grad else None for y in inputs]


def _layer(step: Step, x: Any, states: States, weights: Weights, course: Course) -> tuple[Any, States]:
    """One direction of one layer: its outputs, and its states at the end."""
    bias, later_bias = weights.input_bias, weights.recurrent_bias
    if step is not gru_step and bias is not None:  # a GRU multiplies what comes from the state before it adds
        bias, later_bias = bias + later_bias, None
    gates = linear(x, weights.input, bias)
    if weights.projection is not None or gates.is_complex():  # the kernels over all steps know neither
        recurrent_weight = t(weights.recurrent).contiguous()  # small products with rows are faster

        def advance(gate: Any, states: States) -> States:
            states = step(gate, states, recurrent_weight, later_bias)
            if weights.projection is None:
                return states
            return (linear(states[0], weights.projection), *states[1:])

        return _steps(advance, gates, states, course)
    if step is lstm_step:
        output, cell = MkldnnRnnLayer.apply(gates, *states, weights.recurrent, course)
        return output, (_last(output, course), cell)
    if step is gru_step:
        output = GRULayer.apply(gates, *states, weights.recurrent, later_bias, course)
    else:
        output = RNNLayer.apply(gates, *states, weights.recurrent, course, step)
    return output, (_last(output, course),)


def _steps(
    advance: Callable[[Any, States], States], gates: Any, states: States, course: Course
) -> tuple[Any, States]:
    """The same by single steps."""
    if course.sizes is not None:
        return _packed(advance, gates, states, course.sizes, course.backwards)
    outputs, steps = [], unbind(gates, 0)
    for gate in reversed(steps) if course.backwards else steps:
        states = advance(gate, states)
        outputs.append(states[0])
    return stack(outputs[::-1] if course.backwards else outputs, 0), states


def _packed(
    advance: Callable[[Any, States], States],
    gates: Any,
    first: States,
    sizes: Sequence[int],
    backwards: bool,
) -> tuple[Any, States]:
    """As in `_steps`, over sequences of different lengths: the longest first, so that each step is a prefix."""
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
