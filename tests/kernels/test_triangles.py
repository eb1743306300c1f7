"""Triangular systems of many sizes, across the sizes at which kernels divide them, against products in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fastgrad as fg

RNG = np.random.default_rng(17)
SIZES = [(1, 1), (3, 70), (15, 1), (16, 64), (17, 65), (33, 5), (64, 130), (100, 16), (300, 7), (260, 140)]


def triangle(n: int, upper: bool, unit: bool, dtype: str) -> np.ndarray:
    """One whose solutions do not grow."""
    a = RNG.standard_normal((n, n)) / max(n, 1)
    a[np.arange(n), np.arange(n)] = 1 if unit else RNG.uniform(1, 2, n)
    return (np.triu(a) if upper else np.tril(a)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_of_many_sizes(n: int, k: int, dtype: str):
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    for upper, unit, transposed in itertools.product((False, True), repeat=3):
        a, b = triangle(n, upper, unit, dtype), RNG.standard_normal((n, k)).astype(dtype)
        read = a + (np.tril(np.full((n, n), np.nan), -1) if upper else np.triu(np.full((n, n), np.nan), 1))
        if unit:
            read[np.arange(n), np.arange(n)] = np.nan
        x = fg.tensor(read.T.copy() if transposed else read).to(getattr(fg, dtype))
        x = x.mT if transposed else x
        found = fg.linalg.solve_triangular(x, fg.tensor(b), upper=upper, unitriangular=unit).numpy()
        assert found.dtype == dtype
        np.testing.assert_allclose(a.astype("float64") @ found, b, rtol=0, atol=tolerance * 10)


@pytest.mark.parametrize("upper", [False, True])
def test_zeros_on_the_diagonal_give_what_division_gives(upper: bool):
    a = fg.eye(20)
    a[7, 7] = 0
    found = fg.linalg.solve_triangular(a, fg.ones(20, 3), upper=upper)
    assert found[7].tolist() == [float("inf")] * 3
