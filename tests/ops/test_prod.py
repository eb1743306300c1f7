"""Derivatives of products, of every order: a product is linear in each factor, so they are known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from op_testing import array_of

FACTORS = {
    "no zero": [1.5, -2.0, 0.5, 3.0, -1.25],
    "one zero": [1.5, 0.0, 0.5, 3.0, -1.25],
    "two zeros": [1.5, 0.0, 0.5, 0.0, -1.25],
    "three zeros": [0.0, 0.0, 0.5, 0.0, -1.25],
    "nothing but zeros": [0.0, 0.0, 0.0, 0.0, 0.0],
    "two factors": [2.0, 0.0],
    "one factor": [0.0],
}

# Shape, and arguments of the call: several rows, which do not see each other.
PLANS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 4), {}),
    ((2, 4), {"dim": 1}),
    ((4, 2), {"dim": 0, "keepdim": True}),
    ((2, 3, 2), {"dim": -2}),
]


def rows_of(x: np.ndarray, dim: int | None = None, keepdim: bool = False) -> np.ndarray:
    """The places in x, one row for each product."""
    places = np.arange(x.size).reshape(x.shape)
    return places.reshape(1, -1) if dim is None else np.moveaxis(places, dim, -1).reshape(-1, x.shape[dim])


def exact(x: np.ndarray, rows: np.ndarray, weights: np.ndarray, path: Sequence[int]) -> float:
    """The derivative of the weighted sum of the products by the elements of `path`, one after the other."""
    if len(set(path)) < len(path):
        return 0.0
    kept = [
        (w, np.setdiff1d(row, path)) for w, row in zip(weights, rows, strict=True) if set(path) <= set(row)
    ]
    return float(sum(w * np.prod(x.reshape(-1)[left]) for w, left in kept))


def gradient(lib: Any, value: Any, x: Any) -> Any:
    """A gradient that can be differentiated again; zeros of what depends on nothing any more."""
    if not value.requires_grad:
        return lib.zeros_like(x)
    return lib.autograd.grad(value, x, create_graph=True)[0]


def check_orders(lib: Any, x: np.ndarray, kwargs: dict[str, Any], orders: int) -> None:
    rows = rows_of(x, **kwargs)
    weights = np.linspace(1, 2, len(rows))
    t = lib.tensor(x, requires_grad=True)
    w = lib.tensor(weights)
    value = (lib.prod(t, **kwargs).reshape(-1) * w).sum()
    assert value.item() == pytest.approx(exact(x, rows, weights, ()), rel=1e-13, abs=1e-13)
    found = {(): value}
    for order in range(1, orders + 1):
        gradients: dict[tuple[int, ...], np.ndarray] = {}
        for path in combinations_with_replacement(range(x.size), order):
            before = path[:-1]
            if before not in gradients:
                g = gradient(lib, found[before], t)
                for k in range(x.size):
                    found[*before, k] = g.reshape(-1)[k]
                gradients[before] = array_of(g).reshape(-1)
            wanted = exact(x, rows, weights, path)
            assert gradients[before][path[-1]] == pytest.approx(wanted, rel=1e-13, abs=1e-13), path


@pytest.mark.parametrize("factors", FACTORS)
def test_to_fourth_order(lib, factors: str):
    check_orders(lib, np.array(FACTORS[factors]), {}, 4)


@pytest.mark.parametrize(("shape", "kwargs"), PLANS)
@pytest.mark.parametrize("zeros", range(4))
def test_rows_to_third_order(lib, shape: tuple[int, ...], kwargs: dict[str, Any], zeros: int):
    x = np.linspace(-1.5, 2.25, int(np.prod(shape)))
    x[[0, 1, 3][:zeros]] = 0  # of these, all lie in one row, or some
    check_orders(lib, x.reshape(shape), kwargs, 3)


@pytest.mark.parametrize("zeros", range(3))
def test_third_order_by_the_gradient_that_came_in(lib, zeros: int):
    """d/dw d/dx d/dx of w * prod(x): the second derivatives of the product."""
    x = np.array([1.5, -2.0, 0.5, 3.0])
    x[:zeros] = 0
    t = lib.tensor(x, requires_grad=True)
    w = lib.tensor(2.0, dtype=lib.float64, requires_grad=True)
    (first,) = lib.autograd.grad(lib.prod(t) * w, t, create_graph=True)
    for i in range(4):
        (second,) = lib.autograd.grad(first[i], t, create_graph=True)
        for j in range(4):
            (third,) = lib.autograd.grad(second[j], w, retain_graph=True)
            assert third.item() == pytest.approx(exact(x, np.arange(4)[None], np.ones(1), (i, j)))


@pytest.mark.parametrize(("shape", "kwargs"), [((0,), {}), ((0, 3), {"dim": 0}), ((3, 0), {"dim": 0})])
def test_nothing_to_multiply(lib, shape: tuple[int, ...], kwargs: dict[str, Any]):
    """Without factors there is nothing to differentiate by, in any order."""
    x = lib.zeros(*shape, dtype=lib.float64, requires_grad=True)
    y = lib.prod(x, **kwargs)
    np.testing.assert_array_equal(array_of(y), np.prod(np.zeros(shape), axis=kwargs.get("dim")))
    for _ in range(3):
        (y,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        assert tuple(y.shape) == shape
