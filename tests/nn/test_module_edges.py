"""Sizes and arguments at the edge of what layers take: in fastgrad and in PyTorch the same."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
def test_states_of_cells(lib: ModuleType, kind: str):
    """A batch of states with a batch of inputs, and one state with one input."""
    cell = getattr(lib.nn, kind)(4, 3)

    def call(x: Any, h: Any) -> Any:
        state = lib.zeros(*h)
        out = cell(lib.zeros(*x), (state, state) if kind == "LSTMCell" else state)
        return tuple((out[0] if kind == "LSTMCell" else out).shape)

    assert call((4,), (3,)) == (3,)
    assert call((2, 4), (2, 3)) == (2, 3)
    for x, h in (
        ((4,), (1, 3)),
        ((4,), (2, 3)),
        ((2, 4), (3,)),
        ((1, 4), (3,)),
        ((2, 4), (1, 3)),
        ((4,), (5,)),
    ):
        with pytest.raises(RuntimeError):
            call(x, h)


@pytest.mark.parametrize(("rank", "sizes"), [(1, (0, 3, 4)), (2, (0, 3, 4, 4)), (1, (0, 4))])
def test_adaptive_pooling_of_nothing(lib: ModuleType, rank: int, sizes: tuple[int, ...]):
    x = lib.zeros(sizes, requires_grad=True)
    y = getattr(lib.nn, f"AdaptiveAvgPool{rank}d")(2)(x)
    assert tuple(y.shape) == (*sizes[:-rank], *[2] * rank)
    y.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer_layer_on_an_empty_batch(lib: ModuleType, batch_first: bool, training: bool):
    layer = lib.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=batch_first).train(training)
    x = lib.zeros((0, 3, 4) if batch_first else (3, 0, 4), requires_grad=True)
    y = layer(x)
    assert y.shape == x.shape
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_label_smoothing_out_of_range(lib: ModuleType):
    logits = lib.zeros(2, 3)
    for target in (lib.tensor([0, 1]), lib.softmax(logits, 1)):
        for reduction in ("mean", "none"):
            with pytest.raises(RuntimeError, match=r"label_smoothing must be between 0\.0 and 1\.0"):
                lib.nn.functional.cross_entropy(logits, target, label_smoothing=1.2, reduction=reduction)
