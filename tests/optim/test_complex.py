"""Complex parameters: steps take them, and their state, as pairs of real numbers, as PyTorch does."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}, "Adam": {"lr": 0.1, "amsgrad": True},
    "AdamW": {"lr": 0.1, "weight_decay": 0.1}, "Adagrad": {"lr": 0.1, "initial_accumulator_value": 0.5},
    "RMSprop": {"lr": 0.1, "centered": True, "momentum": 0.5}, "Adadelta": {"lr": 0.5}, "Adamax": {"lr": 0.1},
    "NAdam": {"lr": 0.1}, "RAdam": {"lr": 0.1}, "Rprop": {"lr": 0.1}, "ASGD": {"lr": 0.1},
}  # fmt: skip


def numbers(seed: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def trained(lib: Any, name: str, options: dict[str, Any], steps: int = 4) -> list[Any]:
    """A complex and a real parameter after some steps, and the optimizer."""
    p = lib.tensor(numbers(0, 3, 2), requires_grad=True)
    q = lib.tensor(numbers(1, 3).real.copy(), requires_grad=True)
    optimizer = getattr(lib.optim, name)([p, q], **options)
    for k in range(steps):
        optimizer.zero_grad()
        (
            (p - lib.tensor(numbers(2 + k, 3, 2))).abs().square().sum() + (q[:, None] * p).real.sum() ** 2
        ).backward()
        optimizer.step()
    return [p, q, optimizer]


@pytest.mark.parity
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name: str):
    import torch

    mine, wanted = (trained(lib, name, OPTIMIZERS[name]) for lib in (fg, torch))
    for a, b in zip(mine[:2], wanted[:2], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-6)
    for state, other in zip(mine[2].state.values(), wanted[2].state.values(), strict=True):
        for key, value in state.items():
            np.testing.assert_allclose(
                np.asarray(value), np.asarray(other[key]), rtol=2e-5, atol=2e-6, err_msg=key
            )


def test_optimizers_that_were_copied_or_stored():
    p, q, optimizer = trained(fg, "SGD", OPTIMIZERS["SGD"])
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        mine = again.param_groups[0]["params"]
        for a, b in zip(mine, (p, q), strict=True):
            a.grad = fg.ones_like(b)
        again.step()
        assert mine[0].is_complex()
        assert not np.array_equal(mine[0].detach().numpy(), p.detach().numpy())
    added = fg.optim.SGD([q], lr=0.1)
    added.add_param_group({"params": [p]})
    before = p.detach().numpy().copy()
    p.grad = fg.ones_like(p)
    added.step()
    np.testing.assert_allclose(p.detach().numpy(), before - np.float32(0.1), rtol=1e-6)


@pytest.mark.parity
def test_absolute_differences():
    import torch

    found = []
    for lib in (fg, torch):
        x = lib.tensor(numbers(0, 3, 2), requires_grad=True)
        for reduction in ("none", "sum", "mean"):
            lib.nn.functional.l1_loss(x, lib.tensor(numbers(1, 3, 2)), reduction=reduction).sum().backward()
        found.append(x.grad.numpy())
        for name in ("mse_loss", "huber_loss", "smooth_l1_loss"):
            with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
                getattr(lib.nn.functional, name)(x, x.detach())
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search: str | None):
    import torch

    found = []
    for lib in (fg, torch):
        p = lib.tensor(numbers(0, 3, 2).astype(np.complex128), requires_grad=True)
        q = lib.tensor(numbers(1, 3).real.astype(np.float64), requires_grad=True)
        unused = lib.tensor([1j], dtype=lib.complex128, requires_grad=True)
        aim = lib.tensor(numbers(2, 3, 2).astype(np.complex128))
        optimizer = lib.optim.LBFGS([p, unused, q], lr=0.5, max_iter=6, line_search_fn=search)

        def closure() -> Any:
            optimizer.zero_grad()  # noqa: B023
            loss = ((p - aim).abs() ** 4).sum() + (q[:, None] * p).abs().square().sum()  # noqa: B023
            loss.backward()
            return loss

        first = optimizer.step(closure)
        optimizer.step(closure)
        found.append((first, p, q, unused, optimizer.state[p]["d"], optimizer.state[p]["func_evals"]))
    *mine, evaluated = found[0]
    *wanted, count = found[1]
    assert evaluated == count
    for a, b in zip(mine, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)
