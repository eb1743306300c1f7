"""Places and values of the greatest and smallest elements, in rows of all lengths and distances, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

# Around the lengths at which a row is searched in another way, and around tiles of columns; few long rows go by blocks.
SHAPES = [
    (1,), (6,), (7,), (511,), (512,), (513,), (1030,), (1 << 17,), (131_075,),
    (3, 1), (5, 6), (4, 7), (3, 513), (9, 1), (40, 3), (300, 3), (257, 64), (20, 127), (20, 128), (20, 129), (3, 300),
    (2, 5, 3), (3, 130, 2), (2, 9, 131), (65_536, 2), (2, 65_536),
]  # fmt: skip
DTYPES = ["float32", "float64", "int32", "int64", "uint8", "bool"]


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few different values, so that many are equal; for floats zeros of both signs are among them."""
    rng = np.random.default_rng(sum(shape))
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype == "uint8":
        return rng.integers(0, 256, shape).astype(dtype)
    x = rng.integers(-9, 10, shape).astype(dtype)
    if dtype.startswith("float"):
        x[x == 9] = -0.0
        x[x == -9] = 0.0
        x = np.where(rng.random(shape) < 0.5, -abs(x), x)
    return x


def compare(lib, x: np.ndarray, dim: int, t=None) -> None:
    t = lib.tensor(x) if t is None else t
    for name in ("max", "min"):
        places = getattr(np, f"arg{name}")(x, dim)
        expected = np.take_along_axis(x, np.expand_dims(places, dim), dim)
        values, found = getattr(lib, name)(t, dim, keepdim=True)
        np.testing.assert_array_equal(found.numpy(), np.expand_dims(places, dim))
        np.testing.assert_array_equal(values.numpy(), expected)
        if lib.__name__ == "fastgrad" and x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(values.numpy()), np.signbit(expected))
        if x.dtype != bool:
            np.testing.assert_array_equal(getattr(lib, f"arg{name}")(t, dim).numpy(), places)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_first_of_equals(lib, shape, dtype):
    x = drawn(shape, dtype)
    for dim in range(x.ndim):
        compare(lib, x, dim)


@pytest.mark.parametrize("dtype", DTYPES[:-1])
@pytest.mark.parametrize("shape", [(), (4, 5), (300, 7), (512, 512)], ids=str)
def test_of_all_elements(lib, shape, dtype):
    x = drawn(shape, dtype)
    assert lib.argmax(lib.tensor(x)).item() == x.argmax()
    assert lib.argmin(lib.tensor(x)).item() == x.argmin()


@pytest.mark.parametrize("dtype", DTYPES[:2])
@pytest.mark.parametrize("shape", [(5,), (40,), (1100,), (1 << 17,), (3, 600), (600, 3), (9, 200)], ids=str)
def test_the_first_nan_goes_before_all(lib, shape, dtype):
    x = drawn(shape, dtype)
    rng = np.random.default_rng(0)
    for dim in range(x.ndim):
        for count in (1, 2, 5):
            y = x.copy()
            y[rng.random(shape) < count / x.shape[dim]] = np.nan
            compare(lib, y, dim)
    for y in (np.full(shape, np.nan, dtype), np.full(shape, -np.inf, dtype), np.full(shape, np.inf, dtype)):
        compare(lib, y, 0)


def test_rows_that_do_not_lie_in_one_piece(lib):
    x = drawn((7, 60, 50), "float32")
    t = lib.tensor(x)
    compare(lib, x.transpose(2, 0, 1), 2, t.permute(2, 0, 1))
    compare(lib, x[:, ::3, 5:], 1, t[:, ::3, 5:])
    compare(lib, np.broadcast_to(x[:, :1], x.shape), 1, t[:, :1].expand(7, 60, 50))


def test_the_smallest_and_largest_integers(lib):
    for dtype in ("int32", "int64", "uint8"):
        info = np.iinfo(dtype)
        x = np.resize(np.array([info.min, info.max, 0, 1], dtype), (4, 70))
        compare(lib, x, 0)
        compare(lib, x, 1)


def test_no_elements(lib):
    x = lib.zeros(3, 0, 4)
    for dim in (0, 2):
        values, places = x.max(dim)
        assert values.shape == places.shape
        assert x.argmin(dim, keepdim=True).shape == tuple(
            1 if d == dim else n for d, n in enumerate((3, 0, 4))
        )
    for name in ("max", "argmax"):
        with pytest.raises((IndexError, RuntimeError)):
            getattr(x, name)(1)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_gradient_goes_to_the_place(lib, dim):
    x = drawn((9, 20, 11), "float64")
    t = lib.tensor(x).requires_grad_()
    values, places = t.max(dim)
    weights = np.arange(1.0, values.numel() + 1).reshape(tuple(values.shape))
    (values * lib.tensor(weights)).sum().backward()
    expected = np.zeros_like(x)
    np.put_along_axis(expected, np.expand_dims(places.numpy(), dim), np.expand_dims(weights, dim), dim)
    np.testing.assert_array_equal(t.grad.numpy(), expected)
