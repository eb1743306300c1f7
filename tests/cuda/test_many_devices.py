"""Optimizers and clipping with parameters on several devices, as models in parts have them."""

from __future__ import annotations

import math

import pytest

import fastgrad as fg
from fastgrad.ops.optim import scale
from tests.cuda.steps import OPTIMIZERS

pytestmark = pytest.mark.usefixtures("all_is_done")
PLACES = ("cuda:1", "cuda:0", "cpu", "cuda:1")


def parameters(places):
    made = [
        fg.tensor([1.0 + k, -2.0, 0.5], device=where, requires_grad=True) for k, where in enumerate(places)
    ]
    for k, p in enumerate(made):
        p.grad = fg.tensor([0.5, 3.0 - k, -1.0], device=p.device)
    return made


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(driver, name):
    here, there = parameters(["cpu"] * 4), parameters(PLACES)
    for params in (here, there):
        optimizer = OPTIMIZERS[name](params)
        for _ in range(2):
            optimizer.step()
    for a, b, where in zip(here, there, PLACES, strict=True):
        assert b.device == fg.device(where)
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("order", [2.0, 1.0, 0.0, 3.0, math.inf, -math.inf])
def test_norms(driver, order):
    here, there = parameters(["cpu"] * 4), parameters(PLACES)
    wanted = fg.nn.utils.clip_grad_norm_(here, 0.5, order)
    total = fg.nn.utils.clip_grad_norm_(there, 0.5, order)
    assert total.device == fg.device("cuda:1")
    assert total.item() == pytest.approx(wanted.item(), rel=1e-6)
    for a, b in zip(here, there, strict=True):
        assert b.grad.tolist() == pytest.approx(a.grad.tolist(), rel=1e-6)
    fg.nn.utils.clip_grad_value_(there, 0.01)
    assert max(p.grad.abs().max().item() for p in there) == pytest.approx(0.01)


def test_a_gradient_elsewhere(driver):
    params = parameters(PLACES)
    buffer = fg.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        scale([params[0].detach(), buffer[:1]])
