"""Recurrent layers in compiled calls: what they launch stands on the tape, and no Python runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import nn

KINDS = ("LSTM", "GRU", "RNN")


def plain(layer: Any, x: Any, _: Callable[..., Any]) -> Any:
    return layer(x)[0].square().sum()


def hooked(layer: Any, x: Any, hook: Callable[..., Any]) -> Any:
    y = layer(x)[0]
    y.register_hook(hook)
    y.grad_fn.register_hook(hook)
    return y.square().sum()


def penalty(layer: Any, x: Any, _: Callable[..., Any]) -> Any:
    x = x.clone().requires_grad_()
    (g,) = fg.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    return g.square().sum()


def packed(layer: Any, x: Any, _: Callable[..., Any]) -> Any:
    rows = nn.utils.rnn.pack_sequence([x[:, 0], x[:3, 1], x[:1, 2]])
    return layer(rows)[0].data.square().sum()


def trained(kind: str, loss: Callable[..., Any], compiles: bool) -> tuple[Any, Any]:
    """What five steps give, and the compiled function."""
    fg.manual_seed(0)
    two_ways = loss in (plain, packed)
    layer = getattr(nn, kind)(3, 4, num_layers=1 + two_ways, bidirectional=two_ways)
    optimizer = fg.optim.SGD(layer.parameters(), lr=0.01)
    calls: list[int] = []

    def hook(*gradients: Any) -> Any:
        calls.append(len(gradients))
        return gradients[0] * 2 if len(gradients) == 1 else None

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        found = loss(layer, x, hook)
        found.backward()
        optimizer.step()
        return found.detach()

    run = fg.compile(step) if compiles else step
    draws = np.random.default_rng(0)
    losses = [run(fg.tensor(draws.standard_normal((5, 3, 3)).astype(np.float32))).item() for _ in range(5)]
    weights = np.concatenate([p.detach().numpy().ravel() for p in layer.parameters()])
    return (losses, weights, calls), run


@pytest.mark.parametrize("loss", [plain, hooked, penalty, packed])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_eager_calls(kind: str, loss: Callable[..., Any]):
    expected, _ = trained(kind, loss, False)
    found, compiled = trained(kind, loss, True)
    assert found[2] == expected[2]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-7)
    (signature,) = fg.compile.explain(compiled).signatures
    assert (signature.n_replayed > 0) == (loss is not packed), signature  # whose sizes Python reads
    if loss in (plain, penalty):
        assert all("a hook" not in str(fused) for fused in signature.fused)


@pytest.mark.parametrize("kind", KINDS)
def test_functions_that_only_compute(kind: str):
    layer = getattr(nn, kind)(3, 4)
    run = fg.compile(lambda x: layer(x)[0].tanh())
    for k in range(4):
        x = fg.full((5, 2, 3), 0.1 * k, requires_grad=True)
        y, wanted = run(x), layer(x)[0].tanh()
        assert y.tolist() == wanted.tolist()
        seed = fg.ones_like(y)
        assert fg.autograd.grad(y, x, seed)[0].tolist() == fg.autograd.grad(wanted, x, seed)[0].tolist()
    (signature,) = fg.compile.explain(run).signatures
    assert signature.n_replayed > 0
