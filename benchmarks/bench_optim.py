"""Steps of optimizers and clipping of gradients, over many small parameters and over a large one."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastgrad as fg

OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda params: fg.optim.SGD(params, momentum=0.9),
    "Adam": fg.optim.Adam,
    "RMSprop": fg.optim.RMSprop,
    "Adagrad": fg.optim.Adagrad,
    "Adadelta": fg.optim.Adadelta,
    "Adamax": fg.optim.Adamax,
    "ASGD": fg.optim.ASGD,
    "NAdam": fg.optim.NAdam,
    "RAdam": fg.optim.RAdam,
    "Rprop": fg.optim.Rprop,
}
SHAPES = {"small": [(64, 64)] * 200, "large": [(10_000_000,)]}


def parameters(size: str) -> list[fg.Tensor]:
    """Parameters with gradients: 200 of 64 by 64, or one of ten million elements."""
    rng = np.random.default_rng(0)
    params = []
    for shape in SHAPES[size]:
        p = fg.tensor(rng.standard_normal(shape).astype(np.float32), requires_grad=True)
        p.grad = fg.tensor(rng.standard_normal(shape).astype(np.float32))
        params.append(p)
    return params


class Small:
    """A step over 200 parameters."""

    params = list(OPTIMIZERS)

    def setup(self, name: str) -> None:
        self.optimizer = OPTIMIZERS[name](parameters("small"))
        self.time_step(name)

    def time_step(self, name: str) -> None:
        self.optimizer.step()


class Large:
    """A step over ten million elements: a matter of memory."""

    params = list(OPTIMIZERS)

    def setup(self, name: str) -> None:
        self.optimizer = OPTIMIZERS[name](parameters("large"))
        self.time_step(name)

    def time_step(self, name: str) -> None:
        self.optimizer.step()


class Clipping:
    """Gradients of 200 parameters made shorter."""

    def setup(self) -> None:
        self.parameters = parameters("small")
        self.time_norm()
        self.time_value()

    def time_norm(self) -> None:
        fg.nn.utils.clip_grad_norm_(self.parameters, 1e-3)

    def time_value(self) -> None:
        fg.nn.utils.clip_grad_value_(self.parameters, 1.0)


class Unscaling:
    """Gradients of 200 parameters without the scale of their loss, and whether they are finite."""

    def setup(self) -> None:
        self.scaler = fg.amp.GradScaler("cpu", init_scale=1.0)
        self.optimizer = fg.optim.SGD(parameters("small"))
        self.scaler.scale(fg.ones(1))
        self.time_unscale()

    def time_unscale(self) -> None:
        self.scaler.unscale_(self.optimizer)
        self.scaler.update()
