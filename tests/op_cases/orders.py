"""Rows for order statistics: medians, quantiles, the k-th element, the most frequent one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import (
    FLOATS,
    ErrorCase,
    OpCase,
    Sample,
    b8,
    distinct,
    f64,
    function,
    method,
    number,
    ones,
)
from .index import fails

NUMBERS = ("float32", "float64", "int64", "int32", "uint8")
X = ones(2, 3)


def along(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [
        Sample((distinct(rng, (5,), dtype),), {"dim": 0}),
        Sample((distinct(rng, (3, 4), dtype),), {"dim": 1, "keepdim": True}),
        Sample((distinct(rng, (2, 3, 2), dtype),), {"dim": -2}),
    ]


def picked(
    x: np.ndarray, order: np.ndarray, k: int, dim: int, keepdim: bool
) -> tuple[np.ndarray, np.ndarray]:
    places = np.take(order, [k], axis=dim)
    out = np.take_along_axis(x, places, dim), places
    return out if keepdim else (out[0].squeeze(dim), out[1].squeeze(dim))


def median_ref(x: np.ndarray, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        return np.sort(x, axis=None)[(x.size - 1) // 2]
    found = picked(x, np.argsort(x, dim, kind="stable"), (x.shape[dim] - 1) // 2, dim, True)
    if x.dtype.kind == "f":
        nan = np.isnan(x).any(dim, keepdims=True)
        first = np.isnan(x).argmax(dim, keepdims=True)
        found = np.where(nan, np.array(np.nan, x.dtype), found[0]), np.where(nan, first, found[1])
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def kth_ref(x: np.ndarray, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return picked(x, np.argsort(x, dim, kind="stable"), k - 1, dim, keepdim)


def with_nan(rng: np.random.Generator, dtype: str) -> list[Sample]:
    x = distinct(rng, (3, 4), dtype)
    x[0, 1] = x[2, 0] = x[2, 3] = np.nan
    return [Sample((x,)), Sample((x,), {"dim": 1}), Sample((x,), {"dim": 0, "keepdim": True})]


def nanmedian_ref(x: np.ndarray, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        found = np.sort(x[~np.isnan(x)])
        return found[(found.size - 1) // 2]
    order = np.argsort(x, dim, kind="stable")
    ranks = np.expand_dims(((~np.isnan(x)).sum(dim) - 1) // 2, dim)
    places = np.take_along_axis(order, ranks, dim)
    out = np.take_along_axis(x, places, dim), places
    return out if keepdim else (out[0].squeeze(dim), out[1].squeeze(dim))


def mode_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [
        Sample((np.array([3, 1, 3, 2, 1, 3], dtype),)),
        Sample((np.array([[1, 2, 2], [5, 5, 4]], dtype), 1, True)),
        Sample((np.array([[1, 2], [1, 2], [4, 3]], dtype), 0)),
    ]


def mode_ref(x: np.ndarray, dim: int = -1, keepdim: bool = False) -> Any:
    rows = np.moveaxis(x, dim, -1)
    values, places = np.empty(rows.shape[:-1], x.dtype), np.empty(rows.shape[:-1], np.int64)
    for at in np.ndindex(values.shape):
        found, counts = np.unique(rows[at], return_counts=True)
        values[at] = found[counts.argmax()]
        places[at] = np.flatnonzero(rows[at] == values[at])[-1]
    return (np.expand_dims(values, dim), np.expand_dims(places, dim)) if keepdim else (values, places)


WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    x = distinct(rng, (3, 4), dtype)
    return [
        *(Sample((x, 0.3), {"interpolation": way}) for way in WAYS),
        Sample((x, 0.5), {"dim": 0}),
        Sample((x, np.array([0.1, 0.5, 1.0], dtype)), {"dim": 1, "keepdim": True}),
        Sample((x, np.array([0.25], dtype))),
    ]


def quantile_ref(name: str) -> Any:
    def ref(
        x: np.ndarray, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear"
    ) -> Any:
        found = getattr(np, name)(x.astype(np.float64), q, axis=dim, keepdims=keepdim, method=interpolation)
        return np.asarray(found).astype(x.dtype)

    return ref


def nan_quantiles(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((*s.args, 0.4), s.kwargs) for s in with_nan(rng, dtype)]


def errors(name: str, *rest: Any) -> list[ErrorCase]:
    return [
        fails(name, "dim", IndexError, X, *rest, 2, mentions=("[Dd]im", number(2))),
        fails(name, "empty", IndexError, ones(2, 0), *rest, 1, mentions=("[Dd]im",)),
    ]


CASES = [
    OpCase(
        "median",
        function("median"),
        along,
        median_ref,
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("median")},
        special=lambda d: (
            [Sample((np.array([[1, np.nan, 0], [3, 1, 2]], d),), {"dim": 1})] if d.startswith("f") else []
        ),
        errors=errors("median"),
    ),
    OpCase(
        "median.all",
        function("median"),
        lambda rng, d: [Sample((distinct(rng, s, d),)) for s in ((5,), (2, 3), (1,))],
        median_ref,
        dtypes=NUMBERS,
        differentiable=True,
        errors=[
            ErrorCase("mask", NotImplementedError, function("median"), (b8([True]),), ("median", "Bool"))
        ],
    ),
    OpCase(
        "nanmedian",
        function("nanmedian"),
        with_nan,
        nanmedian_ref,
        dtypes=FLOATS,
        forms={"method": method("nanmedian")},
    ),
    OpCase(
        "nanmedian.without",
        function("nanmedian"),
        along,
        median_ref,
        dtypes=FLOATS,
        differentiable=True,
    ),
    OpCase(
        "kthvalue",
        function("kthvalue"),
        lambda rng, d: [Sample((*s.args, 2), s.kwargs) for s in along(rng, d)],
        kth_ref,
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("kthvalue")},
        errors=[
            fails("kthvalue", "k", RuntimeError, X, 4, mentions=("k",)),
            fails("kthvalue", "zero", RuntimeError, X, 0, mentions=("k",)),
            fails("kthvalue", "dim", IndexError, X, 1, 2, mentions=("[Dd]im", number(2))),
        ],
    ),
    OpCase(
        "mode",
        function("mode"),
        mode_samples,
        mode_ref,
        dtypes=NUMBERS,
        forms={"method": method("mode")},
        errors=errors("mode"),
    ),
    OpCase(
        "mode.gradient",
        lambda lib, x: lib.mode(x, 1).values,
        lambda rng, d: [Sample((distinct(rng, (3, 1), d),))],
        lambda x: x[:, 0],
        differentiable=True,
    ),
    OpCase(
        "msort",
        function("msort"),
        lambda rng, d: [Sample((distinct(rng, s, d),)) for s in ((5,), (3, 2))],
        lambda x: np.sort(x, axis=0),
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("msort")},
    ),
    OpCase(
        "quantile",
        function("quantile"),
        quantile_samples,
        quantile_ref("quantile"),
        dtypes=FLOATS,
        differentiable=True,
        grad_args=(0,),
        forms={"method": method("quantile")},
        tolerances={"float32": (1e-5, 1e-6), "float64": (1e-12, 1e-12)},
        errors=[
            fails("quantile", "q", RuntimeError, X, 1.5, mentions=("q", r"\[0, 1\]")),
            fails("quantile", "empty", RuntimeError, ones(0), 0.5, mentions=("empty",)),
            fails("quantile", "dtype", RuntimeError, ones(2, dtype="int64"), 0.5, mentions=("float",)),
            fails("quantile", "q dtype", RuntimeError, X, f64([0.5]), mentions=("q", "dtype")),
        ],
    ),
    OpCase(
        "nanquantile",
        function("nanquantile"),
        nan_quantiles,
        quantile_ref("nanquantile"),
        dtypes=FLOATS,
        forms={"method": method("nanquantile")},
        tolerances={"float32": (1e-5, 1e-6), "float64": (1e-12, 1e-12)},
    ),
]
