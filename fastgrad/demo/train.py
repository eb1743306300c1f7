"""Training: epochs of mini-batches, plain stochastic gradient descent, and what was seen on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import viz
from fastgrad.demo import model
from fastgrad.demo.data import CLASSES, SIDE, Digits
from fastgrad.demo.gradients import GradientRecorder, HookCost, Watch, measure_hooks
from fastgrad.viz import Picture

Progress = Callable[[int, float, float | None], None]


@dataclass(frozen=True)
class Settings:
    """What decides the result, besides the data.

    `noise` is the deviation of the normal noise added to the training inputs: with so few digits, a network
    that never sees the same one twice generalises better.
    """

    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 0.2
    hidden: tuple[int, ...] = (256, 128)
    noise: float = 0.5
    seed: int = 0
    device: str = "cpu"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units from the input to the classes."""
        return (SIDE * SIDE, *self.hidden, CLASSES)


@dataclass
class Run:
    """A finished training run.

    Attributes
    ----------
    steps_per_epoch : int
        Full batches in the training set.
    losses : list of float
        The training loss of every step.
    test_losses, train_accuracies, test_accuracies : list of float
        After every epoch.
    gradients : dict
        Norms as `GradientRecorder` collects them.
    seconds : float
        The time that the steps took, hooks included and evaluation left out.
    logits : array, shape (n, 10)
        What the trained network says to the test set.
    graph : Picture
        The backward graph of a step, with the hooks of the training.
    hook_cost : HookCost
        What the hooks add to a step.
    """

    settings: Settings
    layers: list[model.Layer]
    steps_per_epoch: int
    losses: list[float] = field(default_factory=list)
    test_losses: list[float] = field(default_factory=list)
    train_accuracies: list[float] = field(default_factory=list)
    test_accuracies: list[float] = field(default_factory=list)
    gradients: dict[str, list[list[float]]] = field(default_factory=dict)
    seconds: float = 0.0
    logits: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, CLASSES), np.float32))
    graph: Picture | None = None
    hook_cost: HookCost | None = None

    @property
    def steps_per_second(self) -> float:
        """Training steps in a second, hooks included."""
        return len(self.losses) / self.seconds


def batches(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    size: int,
    rng: np.random.Generator,
    noise: float = 0.0,
    device: str = "cpu",
) -> Iterator[tuple[fg.Tensor, fg.Tensor]]:
    """Yield the set once in random order, in full batches; what is left over sits this epoch out."""
    order = rng.permutation(len(y))
    x, y = x[order], y[order]
    if noise:
        x += np.float32(noise) * rng.standard_normal(x.shape, np.float32)
    for start in range(0, len(y) - size + 1, size):
        yield _on(device, x[start : start + size]), _on(device, y[start : start + size])


def _on(device: str, array: NDArray[np.float32] | NDArray[np.int64]) -> fg.Tensor:
    """An array as a tensor on a device."""
    return fg.from_numpy(array).to(device)


def train_step(
    layers: Sequence[model.Layer],
    optimizer: fg.optim.SGD,
    x: fg.Tensor,
    y: fg.Tensor,
    watch: Watch | None = None,
) -> float:
    """Take one step of gradient descent and return the loss before it."""
    optimizer.zero_grad()
    loss = F.cross_entropy(model.forward(layers, x, watch), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def train(settings: Settings, digits: Digits, progress: Progress | None = None) -> Run:
    """Train a network on `digits`.

    Parameters
    ----------
    settings : Settings
        Its seed fixes weights and batches, and so the result.
    digits : Digits
        Training and test set.
    progress : callable, optional
        Called after every step with the steps done, the loss, and the test accuracy when an epoch has just
        ended, else None.

    Raises
    ------
    ValueError
        If a batch would hold more than the training set.
    """
    if not 1 <= settings.batch_size <= len(digits.train_y):
        raise ValueError(
            f"batch size: expected 1 to {len(digits.train_y)}, the size of the training set, "
            f"got {settings.batch_size}"
        )
    layers = model.init_layers(settings.sizes, settings.seed, settings.device)
    optimizer = fg.optim.SGD(model.parameters(layers), lr=settings.learning_rate)
    run = Run(settings, layers, len(digits.train_y) // settings.batch_size)
    rng = np.random.default_rng(settings.seed)
    with GradientRecorder(layers) as recorder:
        for _ in range(settings.epochs):
            shuffled = batches(
                digits.train_x, digits.train_y, settings.batch_size, rng, settings.noise, settings.device
            )
            for x, y in shuffled:
                start = time.perf_counter()
                run.losses.append(train_step(layers, optimizer, x, y, recorder.watch))
                run.seconds += time.perf_counter() - start
                if progress is not None:
                    progress(len(run.losses), run.losses[-1], None)
            _evaluate(run, digits)
            if progress is not None:
                progress(len(run.losses), run.losses[-1], run.test_accuracies[-1])
        run.gradients = recorder.norms
    return run


def finish(run: Run, digits: Digits, rounds: int = 15) -> None:
    """Fill in what is found out after training: the network's answers, a graph, and what the hooks cost.

    The hooks are measured on a copy of the network, which goes on learning meanwhile.
    """
    size, device = run.settings.batch_size, run.settings.device
    x, y = next(batches(digits.train_x, digits.train_y, size, np.random.default_rng(0), device=device))
    with fg.no_grad():
        run.logits = model.forward(run.layers, _on(device, digits.test_x)).cpu().numpy()
    names = {
        f"{part} {k}": getattr(layer, part)
        for k, layer in enumerate(run.layers, 1)
        for part in ("weight", "bias")
    }
    with GradientRecorder(run.layers) as recorder:
        loss = F.cross_entropy(model.forward(run.layers, x, recorder.watch), y)
        run.graph = viz.graph(loss, params=names)
    twin = model.init_layers(run.settings.sizes, run.settings.seed, device)
    optimizer = fg.optim.SGD(model.parameters(twin), lr=run.settings.learning_rate)
    run.hook_cost = measure_hooks(lambda watch: train_step(twin, optimizer, x, y, watch), twin, rounds)


def _evaluate(run: Run, digits: Digits) -> None:
    device = run.settings.device
    x, y = _on(device, digits.test_x), _on(device, digits.test_y)
    with fg.no_grad():
        run.test_losses.append(F.cross_entropy(model.forward(run.layers, x), y).item())
    run.test_accuracies.append(model.accuracy(run.layers, x, y))
    train_x, train_y = _on(device, digits.train_x), _on(device, digits.train_y)
    run.train_accuracies.append(model.accuracy(run.layers, train_x, train_y))
