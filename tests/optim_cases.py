"""Optimizers with their options, and runs of them that are the same in fastgrad and in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np

STEPS = 20
SHAPES = ((3, 4), (5,), (), (0, 2), (4, 3))


def _product(name: str, **options: tuple[Any, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    for values in product(*options.values()):
        yield name, dict(zip(options, values, strict=True))


def _cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for _, shared in _product("", weight_decay=(0, 0.1), maximize=(False, True)):
        for options in (
            {"lr": 0.1},
            {"momentum": 0.9},
            {"momentum": 0.9, "dampening": 0.3},
            {"momentum": 0.9, "nesterov": True},
        ):
            yield "SGD", options | shared
    yield from _product(
        "Adam", weight_decay=(0, 0.1), amsgrad=(False, True), maximize=(False, True),
        decoupled_weight_decay=(False, True),
    )  # fmt: skip
    yield "Adam", {"lr": 0.1, "betas": (0.3, 0.8), "eps": 1e-3}
    yield from _product("AdamW", weight_decay=(0, 0.1), amsgrad=(False, True), maximize=(False, True))
    yield from _product(
        "RMSprop", weight_decay=(0, 0.1), momentum=(0, 0.9), centered=(False, True), maximize=(False, True)
    )
    yield "RMSprop", {"lr": 0.1, "alpha": 0.5, "eps": 1e-3}
    yield from _product(
        "Adagrad", weight_decay=(0, 0.1), lr_decay=(0, 0.1), initial_accumulator_value=(0, 0.5),
        maximize=(False, True),
    )  # fmt: skip
    yield from _new_cases()


def _new_cases() -> Iterator[tuple[str, dict[str, Any]]]:
    shared = {"weight_decay": (0, 0.1), "maximize": (False, True)}
    yield from _product("Adadelta", **shared)
    yield "Adadelta", {"lr": 0.1, "rho": 0.5, "eps": 1e-3}
    yield from _product("Adamax", **shared)
    yield "Adamax", {"lr": 0.1, "betas": (0.3, 0.8), "eps": 1e-3}
    yield from _product("ASGD", **shared, t0=(1e6, 3))
    yield "ASGD", {"lr": 0.1, "lambd": 0.1, "alpha": 0.5}
    yield from _product("NAdam", **shared, decoupled_weight_decay=(False, True))
    yield "NAdam", {"lr": 0.1, "betas": (0.3, 0.8), "eps": 1e-3, "momentum_decay": 0.5}
    yield from _product("RAdam", **shared, decoupled_weight_decay=(False, True))
    yield "RAdam", {"lr": 0.1, "betas": (0.3, 0.5), "eps": 1e-3}
    yield from _product("Rprop", maximize=(False, True))
    yield "Rprop", {"lr": 0.1, "etas": (0.3, 1.8), "step_sizes": (1e-2, 0.2)}


CASES = list(_cases())
ONE_OF_EACH = [
    ("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True}), ("AdamW", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}), ("Adagrad", {"lr_decay": 0.1}),
    ("Adadelta", {}), ("Adamax", {}), ("ASGD", {"t0": 3, "lambd": 0.1}), ("NAdam", {}), ("RAdam", {}), ("Rprop", {}),
]  # fmt: skip


def case_id(case: Any) -> str:
    if not isinstance(case, tuple):
        return str(case)
    return "-".join([case[0], *(f"{k}={v}" for k, v in case[1].items() if v not in (0, False))])


def parameters(lib: ModuleType, dtype: str) -> list[Any]:
    """Leaves of several sizes, the last one a transposed view in memory."""
    rng = np.random.default_rng(0)
    params = [lib.tensor(rng.standard_normal(s).astype(dtype)) for s in SHAPES]
    params[-1] = params[-1].t()
    return [p.requires_grad_() for p in params]


def set_gradients(lib: ModuleType, params: list[Any], step: int) -> None:
    """Give parameters other gradients for each step: some None, one of them not contiguous."""
    rng = np.random.default_rng(100 + step)
    for k, p in enumerate(params):
        values = rng.standard_normal(tuple(p.shape)).astype(str(p.dtype).rpartition(".")[2])
        if (step + k) % 7 == 3:
            p.grad = None
        elif k == 0:
            p.grad = lib.tensor(np.ascontiguousarray(values.T)).t()
        else:
            p.grad = lib.tensor(values)


def groups(params: list[Any]) -> list[dict[str, Any]]:
    """Two groups, the second with a rate of its own."""
    return [{"params": params[:2]}, {"params": params[2:], "lr": 0.02}]


def trained(lib: ModuleType, case: tuple[str, dict[str, Any]], dtype: str) -> tuple[list[Any], Any]:
    """Parameters after the steps, and the optimizer."""
    name, options = case
    params = parameters(lib, dtype)
    optimizer = getattr(lib.optim, name)(groups(params), **options)
    for step in range(STEPS):
        set_gradients(lib, params, step)
        optimizer.step()
    return params, optimizer


def arrays(params: list[Any]) -> list[np.ndarray]:
    return [np.array(p.detach().tolist(), dtype=np.float64).reshape(tuple(p.shape)) for p in params]
