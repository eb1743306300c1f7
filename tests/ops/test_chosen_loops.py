"""Loops that kernels have for some numbers and for usual elements give the bits that the others give."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

FLOATS = ["float32", "float64", "bfloat16"]
POWERS = [-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, math.inf, math.nan]
ENDS = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 3e38, 1e-20, -1e19]


def same(a: Any, b: Any) -> bool:
    """Whether two tensors have the same values and signs, NaN where the other has it."""
    a, b = a.double(), b.double()
    alike = (a == b) & (a.signbit() == b.signbit()) | (a.isnan() & b.isnan())
    return a.dtype is b.dtype and bool(alike.all())


def bases(dtype: str) -> Any:
    values = np.concatenate([ENDS, np.linspace(-3, 3, 61), np.logspace(-30, 30, 41)])
    return fg.tensor(values, dtype=getattr(fg, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("power", POWERS)
def test_powers_and_their_gradients(power: float, dtype: str) -> None:
    x = bases(dtype)
    exponents = fg.full_like(x, power)
    values, gradients = [], []
    for exponent in (power, exponents):
        leaf = x.clone().requires_grad_()
        y = leaf**exponent
        values.append(y.detach())
        weights = (None, fg.ones_like(y), fg.ones(1, dtype=x.dtype).expand(len(x)))
        gradients += [
            fg.autograd.grad(y.sum() if w is None else y, leaf, w, retain_graph=True)[0] for w in weights
        ]
    changed = x.clone()
    changed **= power
    assert same(values[0], values[1])
    assert same(values[0], changed)
    assert same(values[0], fg.stack([x, x], 1)[:, 0] ** power)
    for one, other in itertools.pairwise(gradients):
        assert same(one, other)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["erfinv", "special.ndtri"])
def test_usual_elements_beside_others(name: str, dtype: str) -> None:
    function = fg.erfinv if name == "erfinv" else fg.special.ndtri
    near = fg.linspace(-0.9985, 0.9985, 4097, dtype=getattr(fg, dtype))
    edge = fg.tensor([0.999, 0.9990001, 0.99903, 0.9991, 1, 1.5, math.nan, 0.0005, 0.0004999, 1e-30, 0, -0.0])
    for x in (near, edge.to(near.dtype), fg.cat([near[:1000], edge.to(near.dtype), near[1000:]])):
        x = x if name == "erfinv" else (x + 1) / 2 if x is near else x.abs()
        alone = function(fg.stack([x, x], 1)[:, 0])  # no neighbours, so no pieces
        assert same(function(x), alone)
        assert same(function(x.flip(0)).flip(0), alone)
        changed = x.clone()
        if name == "erfinv":
            assert same(changed.erfinv_(), alone)


@pytest.mark.parity
@pytest.mark.parametrize("power", [p for p in POWERS if not math.isnan(p)])
def test_powers_as_in_pytorch(power: float) -> None:
    torch = pytest.importorskip("torch")
    x = bases("float64")
    x = x[
        (x > 0) | (x < 0) & x.isfinite()
    ]  # to PyTorch powers of a half are roots, also at -0 and -infinity, where `pow` of C differs
    found, expected = [], []
    for lib, results in ((fg, found), (torch, expected)):
        leaf = lib.tensor(x.tolist(), dtype=lib.float64, requires_grad=True)
        y = leaf**power
        y.sum().backward()
        results += [np.array(y.tolist()), np.array(leaf.grad.tolist())]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-14)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-14)
