"""Recurrent layers and cells over complex numbers, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg

LAYERS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}), ("GRU", {}), ("RNN", {"batch_first": True}), ("LSTM", {"proj_size": 2, "num_layers": 2}),
    ("LSTM", {"bidirectional": True, "bias": False}), ("GRU", {"bidirectional": True, "num_layers": 2}),
]  # fmt: skip
CELLS = ("LSTMCell", "GRUCell", "RNNCell")


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / 2


def both(name: str, **options: Any) -> list[tuple[Any, Any]]:
    """The layer of each library, with the same parameters."""
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, name)(3, 4, dtype=torch.complex128, **options)
    mine = getattr(fg.nn, name)(3, 4, dtype=fg.complex128, **options)
    mine.load_state_dict({k: fg.tensor(v.detach().numpy()) for k, v in theirs.state_dict().items()})
    return [(fg, mine), (torch, theirs)]


def results(module: Any, x: Any, outputs: list[Any]) -> list[np.ndarray]:
    """Outputs, and the gradients of the input and the parameters."""
    total = sum((y.abs() ** 3).sum() + (y * y * (2 - 1j)).sum().real for y in outputs)
    total.backward()
    found = [*outputs, *(p.grad for p in module.parameters())]
    if x.requires_grad:
        found.append(x.grad)
    return [t.detach().numpy() for t in found]


def compare(mine: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(mine, wanted, strict=True):
        assert a.dtype == b.dtype == np.complex128
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parity
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "options"), LAYERS)
def test_layers(name: str, options: dict[str, Any], packed: bool):
    found = []
    for lib, module in both(name, **options):
        x = lib.tensor(
            numbers(4, 2, 3), requires_grad=not packed
        )  # PyTorch's packing has no complex derivative
        operand = x
        if packed:
            first = options.get("batch_first", False)
            lengths = [2, 2, 1, 1] if first else [4, 2]
            operand = lib.nn.utils.rnn.pack_padded_sequence(x, lib.tensor(lengths), batch_first=first)
        output, end = module(operand)
        ends = end if isinstance(end, tuple) else (end,)
        found.append(results(module, x, [output.data if packed else output, *ends]))
    compare(*found)


@pytest.mark.parity
@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str):
    found = []
    for lib, module in both(name):
        x = lib.tensor(numbers(2, 3), requires_grad=True)
        out = module(x)
        found.append(results(module, x, list(out) if isinstance(out, tuple) else [out]))
    compare(*found)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_derivatives_of_both_orders(name: str):
    module = getattr(fg.nn, name)(2, 2, dtype=fg.complex128)
    x = fg.tensor(numbers(2, 1, 2), requires_grad=True)
    assert fg.autograd.gradcheck(lambda x: module(x)[0], x)
    assert fg.autograd.gradgradcheck(lambda x: module(x)[0], x)


def test_what_there_is_no_complex_form_of():
    with pytest.raises(NotImplementedError, match="relu"):
        fg.nn.RNN(2, 3, nonlinearity="relu", dtype=fg.complex64)(fg.zeros(1, 1, 2, dtype=fg.complex64))
    with pytest.raises(ValueError, match="does not match weight dtype"):
        fg.nn.LSTM(2, 3, dtype=fg.complex64)(fg.zeros(1, 1, 2))
