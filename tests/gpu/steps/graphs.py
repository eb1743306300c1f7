"""Captured steps: the same weights as eager ones, bit for bit, and their time beside PyTorch's captured step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fastgrad as fg
from tests.gpu.steps.machine import Machine, Row, holds

SIZES = (64, 128, 128, 10)


class Training:
    """A network, its optimizer and a batch, the same in both libraries."""

    def __init__(self, lib: Any, batch: int) -> None:
        nn, rng = lib.nn, np.random.default_rng(0)
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(SIZES)]
        self.model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
        with lib.no_grad():
            for p in self.model.parameters():
                p.copy_(lib.tensor((rng.standard_normal(tuple(p.shape)) * 0.1).astype(np.float32)))
        self.model.to("cuda")
        self.x = lib.tensor(rng.standard_normal((batch, SIZES[0])).astype(np.float32)).to("cuda")
        self.y = lib.tensor(rng.integers(0, SIZES[-1], batch)).to("cuda")
        # A captured step of Adam counts on the GPU; PyTorch has to be asked for that.
        options = {} if lib is fg else {"capturable": True}
        self.optimizer = lib.optim.Adam(self.model.parameters(), lr=1e-3, **options)
        self.lib = lib

    def step(self) -> Any:
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.lib.nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def captured(self) -> Callable[[], Any]:
        """Warm up on a stream of its own, as PyTorch wants it, and capture one step."""
        cuda = self.lib.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(3):
                self.step()
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            self.loss = self.step()
        return graph.replay

    def weights(self) -> list[np.ndarray]:
        return [p.detach().cpu().numpy() for p in self.model.parameters()]


def run(machine: Machine) -> Iterator[Row]:
    batch = machine.size(64, 4)
    eager, captured = Training(fg, batch), Training(fg, batch)
    replay = captured.captured()
    for _ in range(10):
        replay()
    for _ in range(13):
        eager.step()
    pairs = zip(eager.weights(), captured.weights(), strict=True)
    yield holds("a captured step equals an eager one", "", all(np.array_equal(a, b) for a, b in pairs))
    before = fg.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(5):
        replay()
    made = fg.cuda.memory_stats()["allocation.all.allocated"] - before
    yield holds("tensors made by replays", made, not made)
    yield from machine.compared("captured step", lambda lib: Training(lib, batch).captured(), 1.0)
    yield from machine.compared("eager step", lambda lib: Training(lib, batch).step, 3.0)
