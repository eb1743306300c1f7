"""Calls of modules with hooks, and training steps of the networks that people know."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn

CHAIN = 10


def examples() -> ModuleType:
    """The networks of the examples, `examples/models.py`."""
    path = Path(__file__).parent.parent / "examples" / "models.py"
    spec = importlib.util.spec_from_file_location("fastgrad_example_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Times(nn.Module):
    """A product, so that next to nothing but the call is timed."""

    def __init__(self, factor: fg.Tensor) -> None:
        super().__init__()
        self.__dict__["factor"] = factor

    def forward(self, x: fg.Tensor) -> fg.Tensor:
        return x * self.factor


class ModuleHooks:
    """Ten modules in a row, each with one hook; subtract ``none`` for what ten hooks cost."""

    KINDS: dict[str, Any] = {
        "none": lambda m: None,
        "forward pre-hook": lambda m: m.register_forward_pre_hook(lambda module, args: None),
        "forward hook": lambda m: m.register_forward_hook(lambda module, args, output: None),
        "full backward hook": lambda m: m.register_full_backward_hook(lambda module, ins, outs: None),
    }
    params = list(KINDS)
    param_names = ["hook"]

    def setup(self, hook: str) -> None:
        self.x, self.g = fg.ones(16, requires_grad=True), fg.ones(16)
        self.modules = [_Times(fg.ones(16)) for _ in range(CHAIN)]
        for module in self.modules:
            self.KINDS[hook](module)
        self.time_chain(hook)

    def time_chain(self, hook: str) -> None:
        h = self.x
        for module in self.modules:
            h = module(h)
        h.backward(self.g)


def _network(name: str) -> tuple[nn.Module, tuple[int, ...], int, int]:
    """A network, the sizes of its inputs, the number of classes, and below what inputs lie that are indices."""
    if name == "mlp":
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), (32, 64), 10, 0
    if name == "cnn":
        return examples().CNN(), (64, 1, 28, 28), 10, 0
    if name == "gpt":
        return examples().GPT(96), (16, 128), 96, 96
    assert name == "lstm"
    return examples().RowLSTM(), (64, 1, 28, 28), 10, 0


class Training:
    """One step of training: forward, cross entropy, backward, Adam."""

    params = ["mlp", "cnn", "gpt", "lstm"]
    param_names = ["network"]

    def setup(self, network: str) -> None:
        fg.manual_seed(0)
        rng = np.random.default_rng(0)
        self.model, sizes, classes, below = _network(network)
        given = rng.integers(0, below, sizes) if below else rng.standard_normal(sizes).astype(np.float32)
        self.inputs = fg.tensor(given)
        self.targets = fg.tensor(rng.integers(0, classes, sizes if below else sizes[:1])).flatten()
        self.optimizer = fg.optim.Adam(self.model.parameters(), lr=1e-4)
        self.time_step(network)

    def time_step(self, network: str) -> None:
        self.optimizer.zero_grad()
        logits = self.model(self.inputs)
        F.cross_entropy(logits.flatten(0, -2), self.targets).backward()
        self.optimizer.step()


class Recurrent:
    """A recurrent layer over sequences, forward and backward: of one length, or packed."""

    LAYERS: dict[str, Any] = {
        "RNN tanh": lambda: nn.RNN(64, 128),
        "RNN relu": lambda: nn.RNN(64, 128, nonlinearity="relu"),
        "GRU": lambda: nn.GRU(64, 128),
        "LSTM": lambda: nn.LSTM(64, 128),
    }
    params = list(LAYERS)
    param_names = ["layer"]

    def setup(self, layer: str) -> None:
        fg.manual_seed(0)
        self.layer, self.inputs = self.LAYERS[layer](), fg.randn(50, 32, 64)
        lengths = [50 - k for k in range(32)]
        self.packed = nn.utils.rnn.pack_padded_sequence(self.inputs, lengths)
        self.time_even(layer)
        self.time_packed(layer)

    def time_even(self, layer: str) -> None:
        self.layer(self.inputs)[0].sum().backward()

    def time_packed(self, layer: str) -> None:
        self.layer(self.packed)[0].data.sum().backward()
