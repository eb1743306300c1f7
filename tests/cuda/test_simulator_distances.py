"""Distances between rows on the CUDA device, in the simulator, compared with the CPU's kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cuda_comparing import agree, bits, both

from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frames.elementwise import FLAT

pytestmark = pytest.mark.cudasim

ORDERS = (0.0, 0.5, 1.0, 2.0, 3.0, math.inf)
BOTH = pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)


def numbers(dtype: int, *sizes: int, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal(sizes).astype(DTYPES[dtype])
    return np.round(found * 4) / 4  # many that are equal


def operands(dtype: int, batch: int, n: int, k: int, m: int, p: float) -> dict:
    sides = {"x1__data": numbers(dtype, batch, n, m), "x2__data": numbers(dtype, batch, k, m, seed=1)}
    if n and k:
        sides["x2__data"][:, 0] = sides["x1__data"][:, 0]  # a distance of zero
    return sides | {"batch": batch, "n": n, "k": k, "m": m, "order": bits(p), "first": 0, "count": batch * n}


def distances(dtype: int, given: dict) -> np.ndarray:
    out = {"out": np.zeros(given["batch"] * given["n"] * given["k"], DTYPES[dtype])}
    return both("cdist", dtype, FLAT, out, **given, others=given["batch"] * given["k"])[1]["out"]


@BOTH
@pytest.mark.parametrize("p", ORDERS)
def test_distances(dtype, p):
    for batch, n, k, m in ((2, 3, 5, 4), (1, 1, 1, 0), (1, 0, 3, 2)):
        given = operands(dtype, batch, n, k, m, p)
        out = {"out": np.full(batch * n * k, 7, DTYPES[dtype])}
        agree("cdist", dtype, FLAT, out, 8, **given, others=batch * k)


@BOTH
@pytest.mark.parametrize("p", ORDERS)
def test_gradients_of_distances(dtype, p):
    for batch, n, k, m in ((2, 3, 5, 4), (1, 2, 0, 3)):
        given = operands(dtype, batch, n, k, m, p)
        given |= {"y__data": distances(dtype, given), "g__data": numbers(dtype, batch, n, k, seed=2)}
        out = {"out": np.full(batch * n * m, 7, DTYPES[dtype])}
        agree("cdist_backward", dtype, FLAT, out, 20, of_largest=1, **given)


@pytest.mark.parametrize("p", [2.0, 0.5])
def test_squares_and_rows_that_do_not_come_out_even(p):
    given = operands(FLOAT32, 1, 67, 70, 19, p)  # of squares of 64 and of 32, with 16 terms at a time
    out = {"out": np.zeros(67 * 70, np.float32)}
    agree("cdist", FLOAT32, FLAT, out, 20, **given, others=70)


def test_gradients_of_squares_that_do_not_come_out_even():
    given = operands(FLOAT32, 1, 33, 19, 35, 2.0)
    given |= {"y__data": distances(FLOAT32, given), "g__data": numbers(FLOAT32, 33, 19, seed=2)}
    agree("cdist_backward", FLOAT32, FLAT, {"out": np.zeros(33 * 35, np.float32)}, 20, of_largest=1, **given)


@pytest.mark.parametrize("p", ORDERS)
def test_what_is_not_finite_stays_so(p):
    given = operands(FLOAT32, 1, 3, 4, 3, p)
    given["x1__data"][0, 0, 1], given["x1__data"][0, 1, 2], given["x2__data"][0, 2, 2] = (
        np.nan,
        np.inf,
        np.inf,
    )
    agree("cdist", FLOAT32, FLAT, {"out": np.zeros(12, np.float32)}, 8, **given, others=4)
    given |= {"y__data": distances(FLOAT32, given), "g__data": numbers(FLOAT32, 1, 3, 4, seed=2)}
    agree("cdist_backward", FLOAT32, FLAT, {"out": np.zeros(9, np.float32)}, 20, of_largest=1, **given)
