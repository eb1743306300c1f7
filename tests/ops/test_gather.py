"""Gathering and scattering along each dimension, whatever the sizes and strides, against loops of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

# Sizes of x, and of an index for each dimension: dimensions of one element, few elements, some left out.
SIZES = [
    ((5,), (5,)), ((5,), (40,)), ((4, 6), (4, 9)), ((4, 6), (3, 6)), ((4, 6), (4, 1)), ((4, 6), (1, 6)),
    ((70, 2), (70, 2)), ((2, 70), (2, 70)), ((70, 3), (60, 2)), ((3, 4, 5), (3, 4, 5)), ((3, 4, 5), (2, 4, 3)),
    ((3, 4, 5), (3, 1, 5)), ((3, 1, 5), (3, 1, 5)), ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 40, 2), (1, 3, 40, 2)),
    ((1, 1), (1, 1)), ((6, 130), (6, 130)),
]  # fmt: skip
DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]


def values(sizes: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    x = np.random.default_rng(sum(sizes)).integers(0, 100, sizes)
    return x % 2 == 0 if dtype == "bool" else x.astype(dtype)


def cases(x_sizes: tuple[int, ...], sizes: tuple[int, ...]):
    """Each dimension along which an index of these sizes fits, and one with places there."""
    rng = np.random.default_rng(len(sizes))
    for dim in range(len(sizes)):
        if all(n <= m for d, (n, m) in enumerate(zip(sizes, x_sizes, strict=True)) if d != dim):
            yield dim, rng.integers(0, x_sizes[dim], sizes)


def places(index: np.ndarray, dim: int) -> tuple[np.ndarray, ...]:
    """Where in x each element of the index points."""
    grid = list(np.indices(index.shape))
    grid[dim] = index
    return tuple(grid)


def scattered(x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = x.copy()
    add = np.logical_or if x.dtype == bool else np.add
    add.at(out, places(index, dim), source[tuple(slice(n) for n in index.shape)])
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("x_sizes", "sizes"), SIZES, ids=str)
def test_against_loops(lib, x_sizes, sizes, dtype):
    x, source = values(x_sizes, dtype), values(sizes, dtype)[::-1].copy()
    for dim, index in cases(x_sizes, sizes):
        if dtype == "float32":
            index = index.astype(np.int32 if lib.__name__ == "fastgrad" else np.int64)
        t, i, s = lib.tensor(x), lib.tensor(index), lib.tensor(source)
        np.testing.assert_array_equal(t.gather(dim, i).numpy(), x[places(index, dim)])
        if sizes[dim] == x_sizes[dim] or dtype == "float32":
            expected = scattered(x, dim, index, source)
            np.testing.assert_array_equal(t.scatter_add(dim, i, s).numpy(), expected)


@pytest.mark.parametrize(("x_sizes", "sizes"), SIZES, ids=str)
def test_gradients(lib, x_sizes, sizes):
    x, weights = values(x_sizes), values(sizes)
    for dim, index in cases(x_sizes, sizes):
        t = lib.tensor(x).requires_grad_()
        i = lib.tensor(index)
        (t.gather(dim, i) * lib.tensor(weights)).sum().backward()
        np.testing.assert_array_equal(t.grad.numpy(), scattered(np.zeros_like(x), dim, index, weights))
        s = lib.tensor(weights).requires_grad_()
        t = lib.tensor(x).requires_grad_()
        (t.scatter_add(dim, i, s) * lib.tensor(x)).sum().backward()
        np.testing.assert_array_equal(t.grad.numpy(), x)
        np.testing.assert_array_equal(s.grad.numpy(), x[places(index, dim)])


def test_the_gradient_of_the_gradient(lib):
    x = lib.tensor(values((3, 5))).requires_grad_()
    g = lib.tensor(values((3, 4))).requires_grad_()
    index = lib.tensor([[0, 2, 2, 4], [1, 1, 1, 1], [3, 0, 3, 0]])
    y = x.gather(1, index)
    (back,) = lib.autograd.grad(y, x, g, create_graph=True)
    assert type(back.grad_fn).__name__ == "ScatterAddBackward0"
    assert [f is None for f, _ in back.grad_fn.next_functions] == [True, False]
    (again,) = lib.autograd.grad(back, g, x)
    np.testing.assert_array_equal(again.numpy(), x.detach().gather(1, index).numpy())


def test_operands_that_do_not_lie_in_one_piece(lib):
    x, index = values((20, 30)), np.random.default_rng(0).integers(0, 20, (30, 20))
    t, i = lib.tensor(x), lib.tensor(index)
    for dim, at in ((1, index), (0, index % 20)):
        np.testing.assert_array_equal(t.t().gather(dim, i).numpy(), x.T[places(at, dim)])
        np.testing.assert_array_equal(t.gather(dim, i.t()).numpy(), x[places(at.T, dim)])
        row = i[:1].expand(30, 20)
        wide = np.broadcast_to(at[:1], (30, 20))
        np.testing.assert_array_equal(t.t().gather(dim, row).numpy(), x.T[places(wide, dim)])
        ones = lib.ones(1, 1, dtype=lib.float64).expand(20, 30)
        expected = scattered(x, dim, at.T, np.ones((20, 30)))
        np.testing.assert_array_equal(t.scatter_add(dim, i.t(), ones).numpy(), expected)
    wide = np.broadcast_to(x[:1], (20, 30))
    np.testing.assert_array_equal(t[:1].expand(20, 30).gather(0, i.t()).numpy(), wide[places(index.T, 0)])


@pytest.mark.parametrize("wrong", [-1, 5, 1 << 40, -(1 << 63), (1 << 63) - 1])
@pytest.mark.parametrize("at", [(0, 0), (3, 7), (5, 19)])
@pytest.mark.parametrize("dim", [0, 1])
def test_an_index_that_is_out_of_range_is_named(lib, dim, at, wrong):
    index = np.zeros((6, 20) if dim else (20, 6), np.int64)
    index[at if dim else at[::-1]] = wrong
    x = lib.zeros(*((6, 5) if dim else (5, 6)), dtype=lib.float64)
    i = lib.tensor(index)
    for call in (
        lambda: x.gather(dim, i),
        lambda: x.scatter_add(dim, i, lib.ones(*i.shape, dtype=lib.float64)),
    ):
        with pytest.raises((IndexError, RuntimeError), match=f"index {wrong} is out of bounds"):
            call()


def test_nothing_to_gather(lib):
    x = lib.ones(3, 4)
    none = lib.zeros(3, 0, dtype=lib.int64)
    assert x.gather(1, none).shape == (3, 0)
    np.testing.assert_array_equal(x.scatter_add(1, none, lib.ones(3, 0)).numpy(), np.ones((3, 4)))
    with pytest.raises((IndexError, RuntimeError)):
        lib.ones(3, 0).gather(1, lib.zeros(3, 1, dtype=lib.int64))
