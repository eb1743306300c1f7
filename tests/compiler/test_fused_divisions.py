"""Divisions by what is the same all along a row, in fused kernels: the bits of eager ones."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.kernels.cpu.formulas import sealed
from fastgrad.native.build import processors
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.ops.kernel_table import KERNELS

ROWS, LENGTH = 64, 512
LEAST = np.finfo(np.float32).tiny


def divided(x, y):
    """By the largest of each row of y, of which nothing but that is used."""
    return x * 1 / y.amax(-1, keepdim=True)


def both(x, y):
    """Eager and fused quotients, as bits."""
    compiled = fg.compile(divided)
    for _ in range(3):
        fused = compiled(x, y)
    assert "1 launches, of" in str(fg.compile.explain(compiled))
    return divided(x, y), fused


def bits(x):
    return x.numpy().view(np.int32)


def floats(rng, shape):
    """Of any bits, NaN and infinities and subnormals among them."""
    return rng.integers(-(2**31), 2**31, shape).astype(np.int32).view(np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(8))
def test_quotients_have_the_bits_of_eager_ones(seed):
    rng = np.random.default_rng(seed)
    x = floats(rng, (ROWS, LENGTH))
    y = np.repeat(floats(rng, (ROWS, 1)), LENGTH, 1)
    if seed % 2:  # quotients near to one, which are not lost in infinities
        x = np.ldexp(rng.standard_normal((ROWS, LENGTH)), rng.integers(-20, 20, (ROWS, 1))).astype(np.float32)
        y = np.repeat(np.ldexp(rng.standard_normal((ROWS, 1)), 3).astype(np.float32), LENGTH, 1)
    eager, fused = both(fg.from_numpy(x), fg.from_numpy(y))
    a, b = eager.numpy(), fused.numpy()
    assert np.array_equal(np.isnan(a), np.isnan(b))
    small = (np.abs(a) < LEAST) & (a != 0)
    usual = ~np.isnan(a) & ~small
    assert np.array_equal(bits(eager)[usual], bits(fused)[usual])
    assert np.abs(bits(eager) - bits(fused))[small].max(initial=0) <= 1
    assert usual.sum() > ROWS * LENGTH / 4


@pytest.mark.parametrize("divisor", [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -3.0])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values(divisor):
    x = np.resize(
        np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, 3e38], np.float32), (ROWS, LENGTH)
    )
    y = np.full((ROWS, LENGTH), divisor, np.float32)
    eager, fused = both(fg.from_numpy(x), fg.from_numpy(y))
    a, b = eager.numpy(), fused.numpy()
    assert np.array_equal(np.isnan(a), np.isnan(b))
    assert np.array_equal(bits(eager)[~np.isnan(a)], bits(fused)[~np.isnan(a)])


def test_gradients_have_the_bits_of_eager_ones():
    rng = np.random.default_rng(0)
    x, y, g = (fg.from_numpy(rng.standard_normal((ROWS, LENGTH)).astype(np.float32)) for _ in range(3))
    x.requires_grad_()

    def step(x, y, g):
        e = x * y
        return fg.autograd.grad(e / e.detach().amax(-1, keepdim=True), x, g)[0]

    compiled = fg.compile(step)
    for _ in range(3):
        fused = compiled(x, y, g)
    assert "1 launches, of" in str(fg.compile.explain(compiled))
    assert np.array_equal(bits(step(x, y, g)), bits(fused))


@pytest.mark.parametrize(
    ("name", "dtype", "alike", "count"),
    [
        ("div", FLOAT32, (1,), 1), ("div", FLOAT32, (0,), 0), ("div", FLOAT32, (), 0), ("div", FLOAT64, (1,), 0),
        ("div_da", FLOAT32, (1,), 1), ("div_db", FLOAT32, (2,), 2), ("div_db", FLOAT32, (1, 2), 2),
        ("add", FLOAT32, (1,), 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("slow", [False, True])
def test_which_divisions_become_products(monkeypatch, name, dtype, alike, count, slow):
    monkeypatch.setattr(processors, "divides_slowly", lambda: slow)
    (kernel,) = (k for k in KERNELS if k.name == name)
    calls = sealed(kernel, dtype, FLAT, alike).text.count("call float @fastgrad_quotient(")
    assert calls == (count if slow else 0)
