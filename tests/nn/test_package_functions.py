"""Functions of layers that PyTorch's package has beside `nn.functional`: beside PyTorch's, and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape)


def outcome(lib: Any, shape: tuple[int, ...], function: Callable[[Any, Any], Any]) -> list[Any]:
    """What a function gives, with the gradient of its floating results."""
    x = lib.tensor(numbers(*shape), requires_grad=True)
    out = function(lib, x)
    parts = [t for t in (out if isinstance(out, tuple) else (out,)) if t is not None]
    total = sum((t * t).sum() for t in parts if t.requires_grad)
    total.backward()
    return [*parts, x.grad]


def same(mine: list[Any], wanted: list[Any]) -> None:
    for a, b in zip(mine, wanted, strict=True):
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)


def table(**options: Any) -> Callable[[Any, Any], Any]:
    def function(lib: Any, x: Any) -> Any:
        return lib.embedding_bag(x, lib.tensor([1, 2, 4, 0, 1]), lib.tensor([0, 2, 2]), False, **options)

    return function


def renormed(lib: Any, x: Any) -> Any:
    y = x.detach().clone()
    assert lib.embedding_renorm_(y, lib.tensor([[0, 2], [2, 2]]), 0.5, 2.0) is y
    return (y, x * 1)


CASES: dict[str, tuple[tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "embedding_bag, mean": ((5, 3), table(mode=1)),
    "embedding_bag, mean, padding": (
        (5, 3), lambda lib, x: lib.embedding_bag(
            x, lib.tensor([1, 2, 4, 0, 1]), lib.tensor([0, 2, 2]), False, 1, False, None, False, 1
        )
    ),
    "embedding_bag, max": ((5, 3), table(mode=2)),
    "embedding_bag, last offset": (
        (5, 3), lambda lib, x: lib.embedding_bag(
            x, lib.tensor([1, 2, 4, 0, 1]), lib.tensor([0, 2, 2, 5]), mode=1, include_last_offset=True
        )
    ),
    "embedding_bag, sum": ((5, 3), lambda lib, x: table()(lib, x)[0]),
    "embedding_renorm_": ((4, 3), renormed),
    "grid_sampler": (
        (1, 2, 3, 4),
        lambda lib, x: lib.grid_sampler(x, lib.linspace(-1, 1, 12, dtype=x.dtype).reshape(1, 2, 3, 2), 0, 1, True),
    ),
    "grid_sampler of volumes": (
        (1, 1, 2, 3, 2),
        lambda lib, x: lib.grid_sampler(x, lib.linspace(-1, 1, 12, dtype=x.dtype).reshape(1, 2, 2, 1, 3), 0, 0, False),
    ),
    "affine_grid_generator": ((2, 2, 3), lambda lib, x: lib.affine_grid_generator(x, (2, 1, 3, 2), False)),
    "affine_grid_generator of volumes": ((1, 3, 4), lambda lib, x: lib.affine_grid_generator(x, (1, 1, 3, 2, 2), True)),
    "conv_tbc": (
        (5, 2, 3), lambda lib, x: lib.conv_tbc(x, lib.tensor(numbers(2, 3, 4)), lib.tensor(numbers(4)), 1)
    ),
    "convolution": (
        (2, 4, 5, 6), lambda lib, x: lib.convolution(
            x, lib.tensor(numbers(6, 2, 2, 3)), lib.tensor(numbers(6)), (2, 1), (1, 0), (1, 2), False, (0, 0), 2
        )
    ),
    "convolution of signals": (
        (2, 3, 5),
        lambda lib, x: lib.convolution(x, lib.tensor(numbers(4, 3, 2)), None, [1], [1], [1], False, [0], 1),
    ),
    "convolution, transposed": (
        (2, 4, 3, 3), lambda lib, x: lib.convolution(
            x, lib.tensor(numbers(4, 2, 2, 2)), None, (2, 2), (0, 1), (1, 1), True, (1, 0), 2
        )
    ),
    "adaptive_max_pool1d": ((2, 3, 7), lambda lib, x: lib.adaptive_max_pool1d(x, 3)),
    "max_pool1d_with_indices": ((2, 3, 7), lambda lib, x: lib.max_pool1d_with_indices(x, 3, 2, 1)),
    "dropout_, off": ((2, 3), lambda lib, x: lib.dropout_(x * 2, 0.5, False)),
    "dropout_, all": ((2, 3), lambda lib, x: lib.dropout_(x * 2, 1.0, True)),
    "feature_dropout_, off": ((2, 3, 2), lambda lib, x: lib.feature_dropout_(x * 2, 0.5, False)),
    "feature_dropout_, all": ((2, 3, 2), lambda lib, x: lib.feature_dropout_(x * 2, 1.0, True)),
    "alpha_dropout_, off": ((2, 3), lambda lib, x: lib.alpha_dropout_(x * 2, 0.5, False)),
    "feature_alpha_dropout_, all": ((2, 3, 2), lambda lib, x: lib.feature_alpha_dropout_(x * 2, 1.0, True)),
    "native_dropout, off": ((2, 3), lambda lib, x: lib.native_dropout(x, 0.5, False)),
    "native_dropout, all": ((2, 3), lambda lib, x: lib.native_dropout(x, 1.0, None)),
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str):
    torch = pytest.importorskip("torch")
    shape, function = CASES[name]
    same(outcome(fg, shape, function), outcome(torch, shape, function))


@pytest.mark.parametrize("name", ["dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_"])
def test_dropout_in_place(name: str):
    fg.manual_seed(0)
    x = fg.ones(8, 16, 3)
    assert getattr(fg, name)(x, 0.5, True) is x
    changed = x != 1
    assert changed.any()
    if name.startswith("feature"):
        assert (x == x[..., :1]).all()
        assert x[..., 0].unique().numel() == 2


def test_native_dropout_says_what_stays():
    fg.manual_seed(0)
    x = fg.ones(1000, requires_grad=True)
    y, kept = fg.native_dropout(x, 0.25, True)
    assert kept.dtype is fg.bool
    assert 650 < kept.sum() < 850
    y.sum().backward()
    for values in (y.detach(), x.grad):
        fg.testing.assert_close(values, fg.where(kept, 1 / 0.75, 0.0))
    with pytest.raises(ValueError, match="probability"):
        fg.native_dropout(x, 1.5, True)


LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}), "lstm of two directions": ("LSTM", {"bidirectional": True, "num_layers": 2}),
    "lstm with projections": ("LSTM", {"proj_size": 2}), "lstm without biases": ("LSTM", {"bias": False}),
    "lstm, batches first": ("LSTM", {"batch_first": True}), "gru": ("GRU", {"num_layers": 2}),
    "rnn_tanh": ("RNN", {}), "rnn_relu": ("RNN", {"nonlinearity": "relu", "bidirectional": True}),
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", LAYERS)
def test_recurrent_layers(case: str, packed: bool):
    torch = pytest.importorskip("torch")
    kind, options = LAYERS[case]
    theirs = getattr(torch.nn, kind)(3, 4, dtype=torch.float64, **options)
    weights = [p.detach().numpy() for p in theirs.parameters()]
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    found = []
    for lib in (fg, torch):
        params = [lib.tensor(w, requires_grad=True) for w in weights]
        x = lib.tensor(numbers(6, 3) if packed else numbers(4, 2, 3), requires_grad=True)
        batch = 4 if options.get("batch_first") and not packed else 2
        hx = [lib.tensor(numbers(count, batch, options.get("proj_size", 4)))]
        if kind == "LSTM":
            hx.append(lib.tensor(numbers(count, batch, 4) / 2))
        numbers_of_it = (options.get("bias", True), options.get("num_layers", 1), 0.5, False)
        both = options.get("bidirectional", False)
        states = hx if kind == "LSTM" else hx[0]
        function = getattr(lib, case.split(",")[0].split()[0])
        if packed:
            out = function(x, lib.tensor([2, 2, 1, 1]), states, params, *numbers_of_it, both)
        else:
            first = options.get("batch_first", False)
            out = function(x, states, params, *numbers_of_it, bidirectional=both, batch_first=first)
        sum((y**3).sum() for y in out).backward()
        found.append([*out, x.grad, *(p.grad for p in params)])
    same(*found)


def wrong_calls(lib: Any) -> list[Callable[[], Any]]:
    x, w, zero = lib.ones(2, 1, 3), [lib.ones(4, 3), lib.ones(4, 4)], lib.zeros(1, 1, 4)
    return [
        lambda: lib.gru(x, zero, [], False, 1, 0.0, False, False, False),
        lambda: lib.gru(x, None, w, False, 1, 0.0, False, False, False),
        lambda: lib.rnn_tanh(x, zero, w, False, 1, 0.0, False, False),
        lambda: lib.rnn_tanh(x, zero, w, False, 1, 0.0, False, False, False, 3),
        lambda: lib.rnn_tanh(x, zero, w, False, 1, 0.0, False, False, batch_last=True),
        lambda: lib.rnn_tanh(x, zero, w, False, 1, 0.0, False, "no", False),
        lambda: lib.rnn_tanh(x, lib.zeros(1, 1, 5), w, False, 1, 0.0, False, False, False),
        lambda: lib.rnn_tanh(x, zero, w, False, 3, 0.0, False, False, False),
        lambda: lib.lstm(x, (zero,), w, False, 1, 0.0, False, False, False),
        lambda: lib.lstm(None, (zero, zero), w, False, 1, 0.0, False, False, False),
        lambda: lib.embedding_bag(w[0], lib.tensor([0]), None),
        lambda: lib.embedding_bag(w[0], lib.tensor([9]), lib.tensor([0])),
        lambda: lib.embedding_bag(None, lib.tensor([0]), lib.tensor([0])),
        lambda: lib.embedding_renorm_(lib.ones(2), lib.tensor([0]), 1.0, 2.0),
        lambda: lib.embedding_renorm_(lib.ones(2, 2), lib.tensor([0.5]), 1.0, 2.0),
        lambda: lib.grid_sampler(lib.ones(2), lib.ones(2), 0, 0, False),
        lambda: lib.affine_grid_generator(None, (1, 1, 2, 2), False),
        lambda: lib.convolution(None, w[0], None, [1], [0], [1], False, [0], 1),
        lambda: lib.convolution(lib.ones(2), lib.ones(2), None, [1], [0], [1], False, [0], 1),
        lambda: lib.dropout_(lib.ones(2), 0.5, None),
        lambda: lib.native_dropout(None, 0.5, True),
        lambda: lib.adaptive_max_pool1d(lib.ones(2), 1),
    ]


@pytest.mark.parity
@pytest.mark.parametrize("k", range(22))
def test_wrong_arguments(k: int):
    torch = pytest.importorskip("torch")
    calls = wrong_calls(torch)
    assert len(calls) == 22
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as wanted:  # noqa: PT011 - PyTorch says which one
            calls[k]()
    with pytest.raises(wanted.type):
        wrong_calls(fg)[k]()
