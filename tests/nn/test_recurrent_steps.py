"""Recurrent layers whose steps are one kernel: against their single steps, over sizes, lengths and orders."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.nn.utils.rnn import PackedSequence, pack_padded_sequence

RNG = np.random.default_rng(0)
KINDS = ("RNN", "relu", "GRU", "LSTM")
CELLS = {"RNN": fg.rnn_tanh_cell, "relu": fg.rnn_relu_cell, "GRU": fg.gru_cell, "LSTM": fg.lstm_cell}
STATES = {"RNN": 1, "relu": 1, "GRU": 1, "LSTM": 2}


def layer_of(kind: str, *sizes: int, **options: Any) -> Any:
    if kind == "relu":
        return nn.RNN(*sizes, nonlinearity="relu", **options)
    return getattr(nn, kind)(*sizes, **options)


def by_cells(kind: str, x: list[Any], states: list[Any], parameters: list[Any]) -> tuple[Any, list[Any]]:
    """The outputs after each of the steps and the last states, by single steps."""
    outputs = []
    for step in x:
        if kind == "LSTM":
            states = list(fg.lstm_cell(step, states, *parameters))
        else:
            states = [CELLS[kind](step, states[0], *parameters)]
        outputs.append(states[0])
    return outputs, states


def whole(kind: str, layer: Any, x: Any, states: list[Any]) -> list[Any]:
    """What the layer gives: the outputs, then the last states."""
    first = [s.unsqueeze(0) for s in states]
    output, last = layer(x, tuple(first) if kind == "LSTM" else first[0])
    found = list(last) if kind == "LSTM" else [last]
    return [output.data if isinstance(output, PackedSequence) else output, *(s[0] for s in found)]


def assert_same(
    found: list[Any], expected: list[Any], leaves: list[Any], used: tuple[int, ...], dtype: str
) -> None:
    """Whether results agree, and all gradients of those that are used."""
    used = tuple(k for k in used if k < len(found))
    weights = [fg.tensor(RNG.standard_normal(y.shape).astype(dtype)) for y in found]
    gradients = [
        fg.autograd.grad([ys[k] for k in used], leaves, [weights[k] for k in used])
        for ys in (found, expected)
    ]
    bound = 100 * float(np.finfo(dtype).eps)
    for a, b in zip((*found, *gradients[0]), (*expected, *gradients[1]), strict=True):
        a, b = a.detach().numpy(), b.detach().numpy()
        np.testing.assert_allclose(a, b, bound, bound * max(1.0, float(np.abs(b).max(initial=0))))


def leaves_of(kind: str, shape: tuple[int, ...], batch: int, size: int, dtype: str) -> list[Any]:
    shapes = (shape, *[(batch, size)] * STATES[kind])
    return [fg.tensor(RNG.standard_normal(s).astype(dtype), requires_grad=True) for s in shapes]


# Steps, sequences, features: one of each; tails of tiles, of panels and of parts; no sequences.
EXTENTS = ((1, 1, 1), (2, 3, 7), (4, 16, 8), (3, 19, 40), (3, 33, 65), (1, 0, 5), (2, 8, 300))


@pytest.mark.parametrize("extent", EXTENTS, ids=lambda extent: "x".join(map(str, extent)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("kind", "used"),
    [(kind, used) for kind in KINDS for used in ((0,), (1,), (0, 1, 2))] + [("LSTM", (2,))],
    ids=str,
)
def test_all_steps_are_the_single_ones(kind, extent, dtype, bias, used):
    steps, batch, size = extent
    layer = layer_of(kind, 3, size, bias=bias, dtype=getattr(fg, dtype))
    leaves = leaves_of(kind, (steps, batch, 3), batch, size, dtype)
    x, states, parameters = leaves[0], leaves[1:], list(layer.parameters())
    outputs, last = by_cells(kind, x.unbind(0), states, parameters)
    expected = [fg.stack(outputs), *last]
    assert_same(whole(kind, layer, x, states), expected, [*leaves, *parameters], used, dtype)


# Of each step how many sequences it has: all the same, one by one, many at once, more than a part has.
LENGTHS = ((1,), (3, 3), (3, 2, 1), (5, 5, 1, 1), (35, 20, 17, 16, 3), (20, 1), (4, 2, 0))


@pytest.mark.parametrize("sizes", LENGTHS, ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize(
    ("kind", "used"),
    [(kind, used) for kind in KINDS for used in ((0,), (1,), (0, 1, 2))] + [("LSTM", (2,))],
    ids=str,
)
def test_steps_of_packed_sequences_are_the_single_ones(kind, sizes, reverse, used):
    layer = layer_of(kind, 3, 6, bidirectional=True, dtype=fg.float64)
    leaves = leaves_of(kind, (sum(sizes), 3), sizes[0], 6, "float64")
    parameters = [p for name, p in layer.named_parameters() if name.endswith("_reverse") == reverse]
    data, states = leaves[0], leaves[1:]
    rows = data.split(list(sizes))
    lengths = [sum(size > k for size in sizes) for k in range(sizes[0])]
    ends, outputs = [], [[None] * size for size in sizes]
    for k, length in enumerate(lengths):
        order = range(length)[:: -1 if reverse else 1]
        found, last = by_cells(
            kind, [rows[t][k : k + 1] for t in order], [s[k : k + 1] for s in states], parameters
        )
        for t, y in zip(order, found, strict=True):
            outputs[t][k] = y
        ends.append(last)
    expected = [fg.cat([y for step in outputs for y in step]), *(fg.cat(s) for s in zip(*ends, strict=True))]
    first = [fg.stack([s, s]) for s in states]
    output, last = layer(PackedSequence(data, fg.tensor(sizes)), tuple(first) if kind == "LSTM" else first[0])
    own = output.data.chunk(2, -1)[reverse]
    found = [own, *(s[int(reverse)] for s in (last if kind == "LSTM" else [last]))]
    assert_same(found, expected, [*leaves, *parameters], used, "float64")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True], ids=["even", "packed"])
def test_derivatives_by_all_that_a_layer_takes(kind, packed):
    layer = layer_of(kind, 2, 3, bidirectional=True, dtype=fg.float64)
    x = fg.tensor(RNG.standard_normal((3, 2, 2)), requires_grad=True)
    states = [fg.tensor(RNG.standard_normal((2, 2, 3)), requires_grad=True) for _ in range(STATES[kind])]

    def f(x, *leaves):
        first = leaves[: len(states)]
        sequences = pack_padded_sequence(x, [3, 2]) if packed else x
        output, last = layer(sequences, first if kind == "LSTM" else first[0])
        return (output.data if packed else output), *(last if kind == "LSTM" else [last])

    assert fg.autograd.gradcheck(f, (x, *states, *layer.parameters()))
    assert fg.autograd.gradgradcheck(f, (x, *states, *layer.parameters()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True], ids=["even", "packed"])
def test_results_are_the_same_on_any_number_of_threads(kind, packed):
    layer, x = layer_of(kind, 5, 70, bidirectional=True), fg.randn(6, 83, 5)
    sequences = pack_padded_sequence(x, sorted((k % 6 + 1 for k in range(83)), reverse=True)) if packed else x
    before, results = fg.get_num_threads(), []
    for n in (1, 2, 5):
        fg.set_num_threads(n)
        layer.zero_grad()
        output = layer(sequences)[0]
        values = output.data if packed else output
        (values * values).sum().backward()
        results.append([values.detach().numpy(), *(p.grad.numpy().copy() for p in layer.parameters())])
    fg.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert (a == b).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["input", "state"])
def test_nan_stays_in_its_sequence(kind, where):
    layer, x, h = layer_of(kind, 4, 33), fg.randn(3, 9, 4), fg.zeros(1, 9, 33)
    (x[1, 5] if where == "input" else h[0, 5]).fill_(float("nan"))
    output = layer(x, (h, fg.zeros(1, 9, 33)) if kind == "LSTM" else h)[0].isnan()
    assert output[:, 5].all(1).tolist() == [where == "state", True, True]
    assert not output[:, [0, 1, 2, 3, 4, 6, 7, 8]].any()


@pytest.mark.parametrize("kind", KINDS)
def test_operands_may_lie_anyhow(kind):
    layer = layer_of(kind, 6, 5, dtype=fg.float64)
    x = fg.tensor(RNG.standard_normal((6, 4, 3)))
    states = [fg.tensor(RNG.standard_normal((5, 4, 2))) for _ in range(STATES[kind])]
    first = [s[:, :, 1].T for s in states]
    found = whole(kind, layer, x.permute(2, 1, 0), first)
    expected = whole(kind, layer, x.permute(2, 1, 0).contiguous(), [s.contiguous() for s in first])
    for strided, plain in zip(found, expected, strict=True):
        assert (strided == plain).all()
    gradients = []
    for other in (fg.ones(5, 4, 3, dtype=fg.float64).permute(2, 1, 0), fg.ones(3, 4, 5, dtype=fg.float64)):
        output = whole(kind, layer, x.permute(2, 1, 0), first)[0]
        gradients.append(fg.autograd.grad(output, list(layer.parameters()), other))
    for strided, plain in zip(*gradients, strict=True):
        assert (strided == plain).all()


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(request.param)


def test_an_lstm_is_one_node_as_in_torch(lib):
    output, _ = lib.nn.LSTM(4, 3)(lib.zeros(5, 2, 4))
    assert output.grad_fn.name().startswith("MkldnnRnnLayerBackward")


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_hooks_of_parameters_and_inputs(lib, kind, gates):
    layer, x = getattr(lib.nn, kind)(4, 3), lib.zeros(5, 2, 4, requires_grad=True)
    seen = []
    for name, leaf in (("x", x), *layer.named_parameters()):
        leaf.register_hook(lambda g, name=name: seen.append((name, tuple(g.shape))))
    layer(x)[0].sum().backward()
    size = 3 * gates
    assert sorted(seen) == [
        ("bias_hh_l0", (size,)), ("bias_ih_l0", (size,)), ("weight_hh_l0", (size, 3)), ("weight_ih_l0", (size, 4)),
        ("x", (5, 2, 4)),
    ]  # fmt: skip


def test_outputs_of_an_lstm_stay_as_they_are_until_backward(lib):
    output, _ = lib.nn.LSTM(4, 3)(lib.zeros(5, 2, 4))
    output.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("frozen", ["weight_hh_l0", "bias_hh_l0", "weight_ih_l0"])
def test_frozen_parameters_get_no_gradient(kind, frozen):
    layer = layer_of(kind, 4, 3)
    getattr(layer, frozen).requires_grad_(False)
    layer(fg.randn(5, 2, 4))[0].sum().backward()
    for name, parameter in layer.named_parameters():
        assert (parameter.grad is None) == (name == frozen)


@pytest.mark.parametrize("kind", KINDS)
def test_what_saved_tensor_hooks_bring_is_checked(kind):
    layer = layer_of(kind, 4, 3)
    with fg.autograd.graph.saved_tensors_hooks(
        lambda x: x, lambda x: x.reshape(-1)[:1].reshape([1] * x.ndim)
    ):
        output, _ = layer(fg.randn(5, 2, 4))
    with pytest.raises(RuntimeError):
        output.sum().backward()
