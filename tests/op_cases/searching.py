"""Rows for what stands where in an order: searchsorted, unique and its like, histograms, isin."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import DTYPES, FLOATS, OpCase, Sample, f32, function, i64, method, normal, number, ones
from .index import fails

NUMBERS = ("float32", "float64", "int64", "int32", "uint8")
X = ones(2, 3)


def in_rows(boundaries: np.ndarray, values: np.ndarray, right: bool = False) -> np.ndarray:
    side = "right" if right else "left"
    if boundaries.ndim == 1:
        return np.asarray(np.searchsorted(boundaries, values, side))
    rows = zip(
        boundaries.reshape(-1, boundaries.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True
    )
    return np.stack([np.searchsorted(b, v, side) for b, v in rows]).reshape(values.shape)


def search_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = [((5,), (2, 3)), ((5,), ()), ((2, 4), (2, 3)), ((2, 2, 3), (2, 2, 1))]
    found = []
    for boundaries, values in rows:
        ordered, sought = np.sort(normal(rng, boundaries, dtype), axis=-1), normal(rng, values, dtype)
        found += [Sample((ordered, sought)), Sample((ordered, sought), {"right": True})]
    return found


def bucket_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [
        Sample((s.args[1], s.args[0]), s.kwargs) for s in search_samples(rng, dtype) if s.args[0].ndim == 1
    ]


def few(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.asarray(rng.integers(0, 2 if dtype == "bool" else 3, shape)).astype(dtype)


def unique_ref(x: np.ndarray, **options: Any) -> Any:
    named = {k: v for k, v in options.items() if k.startswith("return")}
    found = np.unique(x, axis=options.get("dim"), **named)
    if not named:
        return found
    out = list(found)
    if "return_inverse" in named:
        out[1] = out[1].reshape(x.shape if "dim" not in options else -1)
    return tuple(out)


def consecutive(
    x: np.ndarray, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    slices = np.moveaxis(x, dim, 0) if dim is not None else x.reshape(-1)
    starts = [k == 0 or bool((slices[k] != slices[k - 1]).any()) for k in range(len(slices))]
    found = slices[np.array(starts, bool)]
    found = found if dim is None else np.moveaxis(found, 0, dim)
    inverse = np.cumsum(starts) - 1
    out = [found]
    if return_inverse:
        out.append(inverse if dim is not None else inverse.reshape(x.shape))
    if return_counts:
        out.append(np.bincount(inverse))
    return tuple(out) if len(out) > 1 else found


def unique_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    both = {"return_inverse": True, "return_counts": True}
    return [
        Sample((few(rng, (7,), dtype),)),
        Sample((few(rng, (3, 4), dtype),), both),
        Sample((few(rng, (5, 2), dtype),), {"dim": 0, **both}),
        Sample((few(rng, (2, 6), dtype),), {"dim": 1}),
    ]


def histogram_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    x = normal(rng, (20,), dtype)
    return [
        Sample((x, 4), {"min": -2, "max": 2}),
        Sample((x.reshape(4, 5), 3)),
        Sample((np.array([1, 1], dtype), 2)),
    ]


def histc_ref(x: np.ndarray, bins: int, min: float = 0, max: float = 0) -> np.ndarray:
    low, high = (min, max) if min != max else (float(x.min()), float(x.max()))
    if low == high:
        low, high = low - 1, high + 1
    return np.histogram(x, bins, (low, high))[0].astype(x.dtype)


def histogram_ref(x: np.ndarray, bins: Any, **options: Any) -> Any:
    return tuple(a.astype(x.dtype) for a in np.histogram(x, bins, **options))


def counted(x: np.ndarray, weights: Any = None, minlength: int = 0) -> np.ndarray:
    return np.bincount(x, weights, minlength).astype(np.int64 if weights is None else weights.dtype)


CASES = [
    OpCase(
        "searchsorted",
        function("searchsorted"),
        search_samples,
        in_rows,
        dtypes=NUMBERS,
        forms={
            "side": lambda lib, b, v, right=False: lib.searchsorted(b, v, side="right" if right else "left"),
            "sorter": lambda lib, b, v, right=False: lib.searchsorted(
                b.flip(-1), v, right=right, sorter=lib.argsort(b.flip(-1), -1, stable=True)
            ),
        },
        empty=lambda d: [Sample((np.zeros(0, d), np.zeros(2, d))), Sample((np.zeros(2, d), np.zeros(0, d)))],
        errors=[
            fails("searchsorted", "rows", RuntimeError, ones(3, 2), X, mentions=("dim", "bound")),
            fails("searchsorted", "number", RuntimeError, f32(1), X, mentions=("dim", "bound")),
        ],
    ),
    OpCase(
        "bucketize",
        function("bucketize"),
        bucket_samples,
        lambda x, boundaries, right=False: in_rows(boundaries, x, right),
        dtypes=NUMBERS,
        errors=[fails("bucketize", "dims", RuntimeError, X, X, mentions=("bound", number(2)))],
    ),
    OpCase(
        "isin",
        function("isin"),
        lambda rng, d: [
            Sample((few(rng, (3, 4), d), few(rng, (2,), d)), options) for options in ({}, {"invert": True})
        ],
        lambda x, others, invert=False: np.isin(x, others, invert=invert),
        dtypes=NUMBERS,
        empty=lambda d: [Sample((np.zeros(3, d), np.zeros(0, d))), Sample((np.zeros(0, d), np.zeros(2, d)))],
    ),
    OpCase(
        "unique",
        function("unique"),
        unique_samples,
        unique_ref,
        dtypes=DTYPES,
        forms={"method": method("unique")},
        empty=lambda d: [Sample((np.zeros(0, d),), {"return_inverse": True, "return_counts": True})],
    ),
    OpCase(
        "unique_consecutive",
        function("unique_consecutive"),
        unique_samples,
        consecutive,
        dtypes=DTYPES,
        forms={"method": method("unique_consecutive")},
    ),
    OpCase(
        "bincount",
        function("bincount"),
        lambda rng, d: [
            Sample((np.asarray(rng.integers(0, 5, 9)).astype(d),)),
            Sample((np.asarray(rng.integers(0, 5, 9)).astype(d),), {"minlength": 8}),
            Sample((np.asarray(rng.integers(0, 5, 4)).astype(d), normal(rng, (4,), "float32"))),
        ],
        counted,
        dtypes=("int64", "int32", "uint8"),
        forms={"method": method("bincount")},
        empty=lambda d: [Sample((np.zeros(0, d),)), Sample((np.zeros(0, d),), {"minlength": 2})],
        errors=[
            fails("bincount", "negative", RuntimeError, i64([-1]), mentions=("non-negative",)),
            fails("bincount", "dims", RuntimeError, i64([[1]]), mentions=("1-d",)),
            fails("bincount", "dtype", NotImplementedError, ones(2), mentions=("not implemented",)),
        ],
    ),
    OpCase(
        "histc",
        function("histc"),
        histogram_samples,
        histc_ref,
        dtypes=FLOATS,
        forms={"method": method("histc")},
        errors=[
            fails("histc", "bins", RuntimeError, X, 0, mentions=("bins",)),
            fails("histc", "range", RuntimeError, X, 2, 3.0, 1.0, mentions=("max",)),
            fails("histc", "finite", RuntimeError, f32([np.nan]), mentions=("finite",)),
            fails("histc", "dtype", NotImplementedError, i64([1]), mentions=("not implemented",)),
        ],
    ),
    OpCase(
        "histogram",
        function("histogram"),
        lambda rng, d: [
            Sample((normal(rng, (20,), d), 4), {"range": (-2.0, 2.0)}),
            Sample((normal(rng, (20,), d), 3), {"density": True}),
            Sample((normal(rng, (20,), d), np.array([-2, -0.5, 0, 3], d))),
        ],
        histogram_ref,
        dtypes=FLOATS,
        forms={"method": method("histogram")},
        errors=[fails("histogram", "bins", RuntimeError, X, 0, mentions=("bins",))],
    ),
]
