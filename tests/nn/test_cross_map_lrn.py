"""`CrossMapLRN2d` beside PyTorch's, whose sums keep the first channel; its derivatives against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from errors_beside import kinds_raised

import fastgrad as fg
from fastgrad.autograd import gradcheck, gradgradcheck


def images(*sizes: int) -> np.ndarray:
    return np.random.default_rng(4).normal(size=sizes)


@pytest.mark.parity
@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("channels", [1, 2, 4, 6, 9])
def test_values(size: int, channels: int) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        layer = lib.nn.CrossMapLRN2d(size, alpha=0.5, beta=0.7, k=2.0)
        out = layer(lib.tensor(images(2, channels, 3, 2)))
        found.append((out.numpy(), repr(layer), str(out.dtype).partition(".")[2]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    assert found[0][1:] == found[1][1:]


@pytest.mark.parametrize("size", [2, 3])
def test_derivatives(size: int) -> None:
    x = fg.tensor(images(1, 5, 2, 1), requires_grad=True)
    layer = fg.nn.CrossMapLRN2d(size, alpha=0.9, beta=0.6)
    assert gradcheck(layer, (x,))
    assert gradgradcheck(layer, (x,))


WRONG: dict[str, Any] = {
    "three dimensions": lambda lib: lib.nn.CrossMapLRN2d(3)(lib.ones(2, 3, 4)),
    "text": lambda lib: lib.nn.CrossMapLRN2d("a")(lib.ones(1, 3, 2, 2)),
    "no size": lambda lib: lib.nn.CrossMapLRN2d(),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(WRONG))
def test_errors_are_pytorchs(case: str) -> None:
    here, there = kinds_raised(WRONG[case])
    assert here is there


def test_what_else_is_refused() -> None:
    for size in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            fg.nn.CrossMapLRN2d(size)(fg.ones(1, 3, 2, 2))
    with pytest.raises(TypeError, match="Tensor"):
        fg.nn.CrossMapLRN2d(3)(3)


def test_nothing_and_halves() -> None:
    assert fg.nn.CrossMapLRN2d(3)(fg.ones(0, 3, 4, 4)).shape == (0, 3, 4, 4)
    assert fg.nn.CrossMapLRN2d(3)(fg.ones(2, 0, 4, 4)).shape == (2, 0, 4, 4)
    assert fg.nn.CrossMapLRN2d(3)(fg.ones(1, 3, 2, 2, dtype=fg.float16)).dtype is fg.float16
