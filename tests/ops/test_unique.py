"""`unique` and `unique_consecutive` beside PyTorch: the order of slices, places and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg

SIZES = [(), (1,), (7,), (0,), (5, 2), (2, 5), (3, 0), (0, 3), (4, 2, 3), (3, 4, 2), (0, 0)]
NUMBERS = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def told(lib: Any, function: str, values: np.ndarray, dtype: str, dim: int | None) -> Any:
    x = lib.tensor(values.reshape(-1).tolist()).to(getattr(lib, dtype)).reshape(values.shape)
    try:
        found = getattr(lib, function)(x, return_inverse=True, return_counts=True, dim=dim)
    except Exception as error:
        return type(error)
    return [(str(t.dtype).partition(".")[2], tuple(t.shape), repr(t.tolist())) for t in found]


@pytest.mark.parity
@pytest.mark.parametrize("function", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_slices_in_pytorchs_order(function: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(NUMBERS.index(dtype))
    for sizes in SIZES:
        values = rng.integers(0, 2, size=sizes)
        for dim in (None, *range(-len(sizes) - 1, len(sizes) + 1)):
            mine, theirs = (told(lib, function, values, dtype, dim) for lib in (fg, torch))
            assert mine == theirs, (sizes, dim, values.tolist())


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_signs_of_zeros_and_nan_in_a_row(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    for sizes in ((6,), (5, 2), (4, 2, 3)):
        zeros = np.where(rng.random(sizes) < 0.5, -0.0, 0.0)
        nans = np.where(rng.random(sizes) < 0.3, np.nan, zeros)
        for dim in range(len(sizes)):  # of all elements PyTorch keeps any zero
            for function, values in (
                ("unique", zeros),
                ("unique_consecutive", zeros),
                ("unique_consecutive", nans),
            ):
                mine, theirs = (told(lib, function, values, dtype, dim) for lib in (fg, torch))
                assert mine == theirs, (function, sizes, dim, values.tolist())


def test_nan_is_the_largest_and_equal_to_nothing() -> None:
    nan = float("nan")
    rows = fg.tensor([[nan, 1.0], [0.0, nan], [0.0, 1.0], [nan, 1.0], [0.0, 1.0]])
    found, inverse, counts = fg.unique(rows, return_inverse=True, return_counts=True, dim=0)
    assert repr(found.tolist()) == "[[0.0, 1.0], [0.0, nan], [nan, 1.0], [nan, 1.0]]"
    assert inverse.tolist() == [2, 1, 0, 3, 0]
    assert counts.tolist() == [2, 1, 1, 1]


def test_slices_without_elements_are_refused() -> None:
    for function in (fg.unique, fg.unique_consecutive):
        with pytest.raises(RuntimeError, match="size 0"):
            function(fg.zeros(3, 0), dim=0)
