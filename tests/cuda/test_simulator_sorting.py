"""Kernels of the CUDA device that sort and that find what is not zero, over the host's memory; see `test_simulator`."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import agree, both, numbers

from fastgrad.kernels.cuda import nonzero, sorting, sorting_digits
from fastgrad.native.contracts.element_types import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64, UINT8
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.frames.sorting import DIGITS, PASSES

pytestmark = pytest.mark.cudasim
EVERY = (FLOAT32, FLOAT64, BOOL, UINT8, INT32, INT64)
FITS, PIECE = 16, 64
THREADS = 32  # more of them are needed where warps work together


@pytest.fixture
def small(monkeypatch):
    """Blocks with room for a few elements."""
    monkeypatch.setattr(sorting, "FITS", FITS)
    monkeypatch.setattr(sorting_digits, "DIGIT_PIECE", PIECE)
    monkeypatch.setattr(nonzero, "NONZERO_PIECE", PIECE)


def with_ties(count: int, dtype: int, seed: int = 0) -> np.ndarray:
    """Numbers of which many are equal, among them NaN of both signs and zeros of both."""
    rng = np.random.default_rng(seed)
    x = numbers(rng, count, dtype)
    if x.dtype.kind == "f":
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0, -0.0, 1, 2], x.dtype)
        x = np.where(rng.random(count) < 0.5, rng.choice(special, count), x)
    return x.astype(DTYPES[dtype])


def select(dtype: int, before: int, length: int, after: int, k: int, largest: int, threads: int = 0) -> None:
    """Compare what both write for a frame as the shape rule would make it."""
    rows = before * after
    pieces = -(-length // PIECE)
    launches, steps = (PASSES * np.dtype(DTYPES[dtype]).itemsize, rows * pieces) if threads else (1, rows)
    if length <= FITS:
        steps = -(-rows // (FITS >> (length - 1).bit_length()))
    room = np.zeros(
        33 * (length + 8) + 3 * (1 << 11) + 2 * rows * length + rows * DIGITS * (1 + pieces), np.int64
    )
    frame = {
        "before": before, "length": length, "columns": after, "after": after, "k": k, "largest": largest,
        "launches": launches, "steps": steps, "scratch__data": room, "scratch__nbytes": room.nbytes,
        "scratch__count": 1,
    }  # fmt: skip
    bits = f"i{np.dtype(DTYPES[dtype]).itemsize}"  # those of NaN count
    outs = {"values": np.zeros(rows * k, bits), "places": np.zeros(rows * k, np.int64)}
    agree(
        "select_sorted",
        dtype,
        FLAT,
        outs,
        threads=threads or THREADS,
        x=with_ties(rows * length, dtype),
        **frame,
    )


@pytest.mark.parametrize("dtype", EVERY, ids=DTYPES.__getitem__)
def test_rows_that_fit(dtype, small):
    for before, length, after, k, largest in (
        (1, 16, 1, 16, 0), (5, 3, 1, 3, 1), (1, 7, 3, 5, 1), (1, 1, 9, 1, 0),
    ):  # fmt: skip
        select(dtype, before, length, after, k, largest)


@pytest.mark.parametrize("dtype", EVERY, ids=DTYPES.__getitem__)
def test_few_of_long_rows(dtype, small):
    for before, length, after, k, largest in ((1, 200, 1, 16, 0), (1, 50, 2, 7, 1)):
        select(dtype, before, length, after, k, largest)


@pytest.mark.parametrize("dtype", EVERY, ids=DTYPES.__getitem__)
def test_by_digits(dtype, small):
    for before, length, after, k, largest in ((1, 100, 1, 100, 0), (1, 40, 2, 33, 1)):
        select(dtype, before, length, after, k, largest, 32)


@pytest.mark.parametrize("together", [1, 1000])
def test_many_pieces(together, small, monkeypatch):
    monkeypatch.setattr(sorting_digits, "FEW_PIECES", 0)
    monkeypatch.setattr(sorting_digits, "TOGETHER", together)
    select(UINT8, 1, 200, 1, 200, 0, 64)


@pytest.mark.parametrize("dtype", EVERY, ids=DTYPES.__getitem__)
def test_places_of_what_is_not_zero(dtype, small):
    rng = np.random.default_rng(1)
    for sizes, dense, by_rows in (((150,), 0.1, 0), ((4, 5, 9), 0.3, 1), ((4, 5, 9), 1.0, 0), ((1,), 0.0, 0)):
        n = int(np.prod(sizes))
        x = np.where(rng.random(n) < dense, np.ones(n), 0).astype(DTYPES[dtype])
        if dtype == FLOAT32 and n > 9:
            x[[2, 7]] = np.nan, -0.0
        frame = {"x": x, "n": n, "rank": len(sizes), "sizes": list(sizes), "by_rows": by_rows}
        counts = np.zeros(1 + -(-n // PIECE), np.int64)
        mine, theirs = both("nonzero", dtype, FLAT, {"count": counts}, 64, launches=2, **frame)
        found = int(theirs["count"][0])
        assert mine["count"][0] == found
        if found:
            for room in (found, found + 3)[: 1 + by_rows]:  # another thread may have left less
                outs = {"places": np.zeros(room * len(sizes), np.int64), "count": mine["count"]}
                agree("nonzero", dtype, FLAT, outs, launches=1, found=room, **frame)


def test_probabilities():
    for value, fits in ((0.5, True), (0.0, True), (1.0, True), (1.5, False), (-0.1, False), (np.nan, False)):
        for dtype in (FLOAT32, FLOAT64):
            x = np.full(150, 0.25, DTYPES[dtype])
            x[120] = value
            mine, theirs = both("probabilities", dtype, FLAT, {"status": np.zeros(3, np.int64)}, x=x, n=150)
            np.testing.assert_array_equal(mine["status"], theirs["status"])
            assert (mine["status"][0] == 0) == fits
