"""Norms over dimensions: sizes on both sides of the blocks and columns of the reduction, elements of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("sizes", "dim"), [
    ((1,), 0), ((513,), 0), ((4, 4), 1), ((4, 4), 0), ((9, 600), 0), ((9, 600), 1), ((3, 5, 7), (0, 2)),
    ((1 << 18,), None), ((5000, 40), 0), ((40, 5000), (0, 1)), ((0, 3), 0), ((3, 0), 0), ((), None),
])  # fmt: skip
def test_norms_are_lengths(sizes: tuple[int, ...], dim: Any, dtype: str):
    x = RNG.standard_normal(sizes).astype(dtype)
    wanted = np.sqrt(np.square(x.astype(np.float64)).sum(dim))
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    for t in (fg.tensor(x), fg.tensor(x.T.copy()).permute(tuple(range(x.ndim))[::-1])):
        np.testing.assert_allclose(t.norm(dim=dim).numpy(), wanted, rtol=tolerance)
        kept = np.sqrt(np.square(x.astype(np.float64)).sum(dim, keepdims=True))
        np.testing.assert_allclose(t.norm(dim=dim, keepdim=True).numpy(), kept, rtol=tolerance)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dim", [0, 1])
def test_what_is_not_finite_stays_in_its_row(value: float, dim: int):
    x = np.ones((20, 20), np.float32)
    x[3, 3] = value
    found = fg.tensor(x).norm(dim=dim).numpy()
    assert np.isnan(found[3]) if np.isnan(value) else found[3] == np.inf
    np.testing.assert_allclose(np.delete(found, 3), np.sqrt(20), rtol=1e-6)
