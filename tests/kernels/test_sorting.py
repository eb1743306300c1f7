"""Sorting where its ways change: order, stability, bits of values, and the same on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg

SHAPES = [
    (0,),
    (1,),
    (96,),
    (97,),
    (8191,),
    (8192,),
    (3, 1000),
    (300, 17),
    (65_535,),
    (65_536,),
    (1, 100_003, 1),
    (4, 130, 33),
    (3, 0),
]


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers with many ties; of floats also NaN of both signs, infinities and zeros of both signs."""
    r = np.random.default_rng(0)
    if dtype == "bool":
        return r.random(shape) < 0.5
    if dtype.startswith("int"):
        return np.where(
            r.random(shape) < 0.5, r.integers(-3, 3, shape), r.integers(-(2**31), 2**31, shape)
        ).astype(dtype)
    special = r.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], shape)
    close = 1 + r.integers(0, 1000, shape) * np.finfo(dtype).eps
    return np.where(r.random(shape) < 0.5, special, close).astype(dtype)


def expected(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    nan = np.isnan(x)
    key = np.where(nan, 0, x).astype(x.dtype if x.dtype.kind == "f" else np.int64)
    return np.lexsort((-key, ~nan) if descending else (key, nan), axis=dim)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_topk(dtype: str, shape: tuple[int, ...], descending: bool) -> None:
    x = numbers(dtype, shape)
    before = fg.get_num_threads()
    try:
        for threads in (1, 2, 5):
            fg.set_num_threads(threads)
            for dim in range(len(shape)):
                order = expected(x, dim, descending)
                for k in {0, min(1, shape[dim]), shape[dim] // 20, shape[dim]}:
                    first = np.take(order, range(k), dim)
                    values, places = fg.topk(fg.tensor(x), k, dim, descending)
                    assert np.array_equal(places.numpy(), first)
                    assert values.numpy().tobytes() == np.take_along_axis(x, first, dim).tobytes()
                assert np.array_equal(fg.sort(fg.tensor(x), dim, descending).indices.numpy(), order)
    finally:
        fg.set_num_threads(before)


def test_a_row_too_long_is_refused() -> None:
    with pytest.raises(RuntimeError, match="too long to be sorted"):
        fg.zeros(1).expand(2**32 + 1).sort()
