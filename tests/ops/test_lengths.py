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


def count(lib: Any, x: Any) -> Any:
    return lib.linalg.vector_norm(x, 0)


WITHOUT_SLOPES: dict[str, Any] = {
    "vector_norm": count,
    "rows": lambda lib, x: lib.norm(x, 0, dim=1, keepdim=True),
    "mapped": lambda lib, x: lib.func.vmap(lambda row: count(lib, row))(x),
    "columns, mapped": lambda lib, x: lib.func.vmap(lambda row: count(lib, row), in_dims=1)(x),
    "no reflectors": lambda lib, x: lib.linalg.householder_product(x, x[:, :0].sum(0)),
    "no reflectors, product": lambda lib, x: lib.ormqr(x[:, :0], x[0, :0], x.detach()),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", WITHOUT_SLOPES)
def test_history_without_a_gradient(name: str):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        x = lib.tensor([[1.0, 0.0], [2.0, 3.0], [0.0, 0.0]], requires_grad=True)
        y = WITHOUT_SLOPES[name](lib, x)
        assert y.requires_grad
        y.sum().backward()
        found.append((y.tolist(), None if x.grad is None or "reflectors" in name else x.grad.tolist()))
    assert found[0] == found[1]


def test_transforms_of_counts():
    x = fg.tensor([[1.0, 0.0], [2.0, 3.0]])
    value, tangent = fg.func.jvp(lambda t: count(fg, t), (x,), (x,))
    assert (value.item(), tangent.item()) == (3.0, 0.0)
    assert fg.func.vmap(fg.func.grad(lambda row: count(fg, row)))(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_distances_of_order_zero_have_a_slope():
    x = fg.tensor([[1.0, 0.0], [2.0, 0.0]], requires_grad=True)
    (fg.cdist(x, x, p=0).sum() + fg.pdist(x, p=0).sum()).backward()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parity
@pytest.mark.parametrize("order", [-1, -2.5, float("inf"), float("-inf"), 0, 1, 3])
@pytest.mark.parametrize(
    ("sizes", "dim"), [((0,), None), ((0, 3), 0), ((0, 3), 1), ((3, 0), -1), ((3, 0), (0, 1))]
)
def test_norms_without_elements(order: float, sizes: tuple[int, ...], dim: Any):
    torch = pytest.importorskip("torch")
    found: list[Any] = []
    for lib in (fg, torch):
        try:
            found.append(lib.linalg.vector_norm(lib.ones(sizes), order, dim=dim).tolist())
        except RuntimeError:
            found.append(RuntimeError)
    assert found[0] == found[1]
