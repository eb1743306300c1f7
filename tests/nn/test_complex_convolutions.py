"""Convolutions of complex numbers, and their gradients, as PyTorch has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int | None, dict[str, Any]]] = {
    "conv1d": ((2, 3, 7), (4, 3, 3), 4, {"padding": 1, "stride": 2}),
    "conv1d of one": ((3, 7), (4, 3, 2), None, {"padding": "same"}),
    "conv2d": ((2, 4, 5, 6), (6, 2, 3, 2), 6, {"groups": 2, "dilation": (1, 2), "padding": 1}),
    "conv3d": ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), 2, {}),
    "conv_transpose1d": ((2, 3, 4), (3, 2, 3), 2, {"stride": 2, "output_padding": 1}),
    "conv_transpose2d": ((2, 4, 3, 3), (4, 2, 2, 3), None, {"groups": 2, "padding": 1}),
    "conv_transpose3d": ((1, 2, 2, 3, 2), (2, 2, 2, 2, 2), 2, {}),
}


def numbers(seed: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Using padding=")
def test_results_and_gradients(name: str):
    import torch

    shape, weight, bias, options = CASES[name]
    found = []
    for lib in (fg, torch):
        operands = [lib.tensor(numbers(k, *s), requires_grad=True) for k, s in enumerate((shape, weight))]
        if bias:
            operands.append(lib.tensor(numbers(2, bias), requires_grad=True))
        y = getattr(lib.nn.functional, name.split()[0])(*operands, **options)
        (y * lib.tensor(numbers(3, *y.shape))).abs().square().sum().backward()
        found.append([y.detach().numpy(), *(t.grad.numpy() for t in operands)])
    for mine, wanted in zip(*found, strict=True):
        assert mine.shape == wanted.shape
        np.testing.assert_allclose(mine, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


def test_operands_of_other_dtypes():
    x = fg.tensor(numbers(0, 1, 2, 4))
    with pytest.raises(RuntimeError, match="should be the same"):
        fg.nn.functional.conv1d(x, fg.ones(2, 2, 1))
    with pytest.raises(RuntimeError, match="channels"):
        fg.nn.functional.conv1d(x, fg.tensor(numbers(1, 2, 3, 1)))


def test_the_meta_device():
    x = fg.empty(1, 2, 5, 5, dtype=fg.complex64, device="meta")
    y = fg.nn.functional.conv2d(x, fg.empty(3, 2, 3, 3, dtype=fg.complex64, device="meta"))
    assert (y.dtype, y.shape) == (fg.complex64, (1, 3, 3, 3))


@pytest.mark.parity
def test_padding():
    import torch

    for sides, options in (((1, 2), {}), ((1, 2, 0, 1), {"value": 2.0}), ((2, 1), {"mode": "reflect"}),
                           ((1, 0), {"mode": "circular"})):  # fmt: skip
        results = []
        for lib in (fg, torch):
            x = lib.tensor(numbers(0, 2, 3, 4), requires_grad=True)
            y = lib.nn.functional.pad(x, sides, **options)
            y.abs().square().sum().backward()
            results.append((y.detach().numpy(), x.grad.numpy()))
        for mine, wanted in zip(*results, strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=1e-5)
