"""Steps of training of the examples' networks: losses beside the CPU's, times beside PyTorch's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fastgrad as fg
from tests.gpu.steps.machine import Machine, Row, holds
from tools.compare_models import copied, models_of

TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2}


class Work:
    """A network of the examples and its batch, the same in both libraries."""

    def __init__(self, name: str, machine: Machine) -> None:
        rng = np.random.default_rng(0)
        self.weights: dict[str, np.ndarray] | None = None
        if name == "gpt":
            vocabulary, context, layers, width, heads = (96, 128, 4, 128, 4)
            if machine.stand_in:  # which runs what is in halves thread by thread
                vocabulary, context, layers, width, heads = (8, 4, 1, 8, 2)
            self.make: Callable[[Any], Any] = lambda models: models.GPT(
                vocabulary, context, layers, width, heads
            )
            indices = rng.integers(0, vocabulary, (machine.size(16, 1), context + 1))
            self.batch = indices[:, :-1], np.ascontiguousarray(indices[:, 1:])
        else:
            self.make = lambda models: models.CNN() if name == "cnn" else models.RowLSTM()
            images = rng.standard_normal((machine.size(64, 2), 1, 28, 28)).astype(np.float32)
            self.batch = images, rng.integers(0, 10, len(images))

    def step(self, lib: Any, dtype: str, device: str = "cuda") -> Callable[[], Any]:
        """A step of training, which gives its loss."""
        model = self.make(models_of(lib.__name__))
        self.weights = copied(lib, model, self.weights)
        for part in model.modules():
            if isinstance(part, lib.nn.Dropout):
                part.p = 0.0
        model.to(device)
        x, y = (lib.tensor(part).to(device) for part in self.batch)
        optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
        half = dtype != "float32"

        def step() -> Any:
            optimizer.zero_grad()
            with lib.autocast(device, getattr(lib, dtype)) if half else contextlib.nullcontext():
                logits = model(x)
                loss = lib.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))
            loss.backward()
            optimizer.step()
            return loss

        return step


def run(machine: Machine) -> Iterator[Row]:
    for name, dtype, target in (
        ("gpt", "float32", 1.0), ("gpt", "bfloat16", 1.0), ("lstm", "float32", 0.5), ("cnn", "float32", 0.5),
    ):  # fmt: skip
        if machine.stand_in and name == "cnn":
            continue  # its convolutions would take minutes, thread by thread
        work, what = Work(name, machine), f"{name} {dtype}"
        try:
            here, there = (
                [float(step().item()) for _ in range(machine.size(3, 1))]
                for step in (work.step(fg, dtype), work.step(fg, "float32", "cpu"))
            )
        except Exception as error:  # the other rows are worth having
            yield holds(f"losses, {what}", f"{type(error).__name__}: {error}", False)
            continue
        apart = max(abs(a - b) for a, b in zip(here, there, strict=True))
        yield holds(f"losses, {what}", f"{here} and {there} on the CPU", apart < TOLERANCE[dtype])
        yield from machine.compared(
            f"step, {what}", lambda lib, work=work, dtype=dtype: work.step(lib, dtype), target
        )
