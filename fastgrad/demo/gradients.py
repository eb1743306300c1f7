"""The hooks of the demo: they write down how large the gradients are, and what that costs is measured.

Every layer carries three hooks:

- a tensor hook on its weight, called with the weight's gradient;
- a pre-hook on the node that made its output, called with the gradient that arrives there;
- a hook on the same node, called after it with the gradients that it passed on, the bias's among them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import fastgrad as fg
from fastgrad.demo.model import Layer

HOOKS_PER_LAYER = 3
KINDS = ("weight", "output", "bias")

Watch = Callable[[int, fg.Tensor], None]


def norm(gradient: fg.Tensor) -> float:
    """Compute the Euclidean norm, the root of the sum of squares, on NumPy's view of the gradient."""
    flat = gradient.cpu().numpy().ravel()
    return math.sqrt(np.dot(flat, flat))


class GradientRecorder:
    """Hooks that append gradient norms to lists.

    Use as a context: the tensor hooks stand on the weights while it lasts. Node hooks belong to one graph, so
    `watch` registers them anew in every forward pass.

    Attributes
    ----------
    norms : dict
        For each of the kinds ``weight``, ``output`` and ``bias`` one list per layer, one number per step.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers
        self._handles: list[Any] = []
        self.norms: dict[str, list[list[float]]] = {kind: [[] for _ in layers] for kind in KINDS}

    def __enter__(self) -> GradientRecorder:
        for index, layer in enumerate(self._layers):
            self._handles.append(layer.weight.register_hook(partial(self._on_weight, index)))
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def watch(self, index: int, output: fg.Tensor) -> None:
        """Hang a pre-hook and a hook on the node that made layer `index`'s output."""
        node = output.grad_fn
        if node is None:
            raise ValueError("the output of a layer has no gradient function: was it made under no_grad?")
        node.register_prehook(partial(self._before_node, index))
        node.register_hook(partial(self._after_node, index))

    def _on_weight(self, index: int, gradient: fg.Tensor) -> None:
        self.norms["weight"][index].append(norm(gradient))

    def _before_node(self, index: int, grad_outputs: tuple[fg.Tensor, ...]) -> None:
        self.norms["output"][index].append(norm(grad_outputs[0]))

    def _after_node(self, index: int, grad_inputs: tuple[fg.Tensor, ...], _: tuple[fg.Tensor, ...]) -> None:
        self.norms["bias"][index].append(norm(grad_inputs[1]))


class SilentHooks(GradientRecorder):
    """The same hooks with nothing to do: what they take is the cost of being called."""

    def _on_weight(self, index: int, gradient: fg.Tensor) -> None:
        pass

    def _before_node(self, index: int, grad_outputs: tuple[fg.Tensor, ...]) -> None:
        pass

    def _after_node(self, index: int, grad_inputs: tuple[fg.Tensor, ...], _: tuple[fg.Tensor, ...]) -> None:
        pass


@dataclass(frozen=True)
class Timing:
    """The median of several timings and how far they spread, in microseconds.

    Attributes
    ----------
    median : float
        Not below zero: what takes time cannot take less, even where the differences of noisy timings say so.
    spread : float
        Half of the range in which the middle half of them lies.
    """

    median: float
    spread: float

    @classmethod
    def of(cls, timings: Sequence[float]) -> Timing:
        """Sum up timings, or differences of timings."""
        low, middle, high = np.percentile(timings, (25, 50, 75))
        return cls(max(float(middle), 0.0), float(high - low) / 2)


@dataclass(frozen=True)
class HookCost:
    """Microseconds of a training step.

    Attributes
    ----------
    plain : Timing
        A step without hooks.
    called, recording : Timing
        What one hook adds to it, registration included: one that does nothing, and one that takes a norm.
    hooks : int
        Hooks called in a step.
    """

    plain: Timing
    called: Timing
    recording: Timing
    hooks: int

    @property
    def step_share(self) -> float:
        """The recording hooks' part of a step without hooks."""
        return self.recording.median * self.hooks / self.plain.median


def measure_hooks(
    step: Callable[[Watch | None], object], layers: Sequence[Layer], rounds: int = 15, steps: int = 40
) -> HookCost:
    """Time `step` with no hooks, with silent ones and with recording ones.

    The three take turns, so that whatever else the machine does weighs on all three alike. What hooks add is the median
    of the differences within the rounds, where that of a turn is the median of its steps. One round more goes ahead, in
    which everything is called for the first time.

    Parameters
    ----------
    step : callable
        One training step; it is given the function that hangs hooks on a layer's output, or None.
    layers : sequence of Layer
        The network, for the hooks on its weights.
    rounds, steps : int
        How often the three take turns, and how many steps a turn lasts.
    """

    def turn(hooks: GradientRecorder | None) -> float:
        watch = hooks.watch if hooks is not None else None
        ends = [time.perf_counter()]
        for _ in range(steps):
            step(watch)
            ends.append(time.perf_counter())
        return float(np.median(np.diff(ends))) * 1e6

    count = HOOKS_PER_LAYER * len(layers)
    plain, called, recording = [], [], []
    for _ in range(1 + rounds):
        plain.append(turn(None))
        with SilentHooks(layers) as silent:
            called.append((turn(silent) - plain[-1]) / count)
        with GradientRecorder(layers) as recorder:
            recording.append((turn(recorder) - plain[-1]) / count)
    return HookCost(Timing.of(plain[1:]), Timing.of(called[1:]), Timing.of(recording[1:]), count)
