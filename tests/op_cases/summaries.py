"""Rows for running products, differences, integrals, distances and covariances, and sums without NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrangement import as_method, row
from .common import FLOATS, ErrorCase, OpCase, Sample, function, method, normal, ones, quiet

TOLERANCES = {"float32": (2e-5, 2e-5), "float64": (1e-12, 1e-12)}
FLOATING: dict[str, Any] = {"dtypes": FLOATS, "tolerances": TOLERANCES}
NUMBERS: dict[str, Any] = {"dtypes": ("float32", "float64", "int64"), "tolerances": TOLERANCES}


def with_nan(name: str, ref: Any) -> OpCase:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        x = normal(rng, (2, 3), dtype)
        x[0, 1] = np.nan
        return [Sample((x,), k) for k in ({}, {"dim": 1}, {"dim": 0, "keepdim": True})]

    def exact(x: np.ndarray, dim: Any = None, keepdim: bool = False) -> np.ndarray:
        return np.asarray(ref(x, axis=dim, keepdims=keepdim))

    return OpCase(
        name,
        function(name),
        samples,
        exact,
        FLOATS,
        differentiable=True,
        special_grads=False,
        forms={"method": method(name)},
    )


def aminmax(x: np.ndarray, dim: Any = None, keepdim: bool = False) -> tuple[Any, Any]:
    return x.min(axis=dim, keepdims=keepdim), x.max(axis=dim, keepdims=keepdim)


def cumulative(y: np.ndarray, dx: float = 1.0, dim: int = -1) -> np.ndarray:
    y = np.moveaxis(y, dim, -1)
    return np.moveaxis(np.cumsum((y[..., 1:] + y[..., :-1]) / 2 * dx, -1), -1, dim).astype(y.dtype)


def trapezoid(y: np.ndarray, x: Any = None, dx: float = 1.0, dim: int = -1) -> np.ndarray:
    return np.asarray(np.trapezoid(y, x, dx, dim)).astype(y.dtype)


def covariances(x: np.ndarray, correction: int = 1) -> np.ndarray:
    return np.asarray(np.cov(x, ddof=correction)).astype(x.dtype)


def correlations(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.corrcoef(x)).astype(x.dtype)


def cdist(a: np.ndarray, b: np.ndarray, p: float = 2.0) -> np.ndarray:
    return np.asarray(np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, -1))


def renorm(x: np.ndarray, p: float, dim: int, maxnorm: float) -> np.ndarray:
    axes = tuple(k for k in range(x.ndim) if k != dim)
    length = (abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)
    return np.asarray(np.where(length > maxnorm, x * (maxnorm / (length + 1e-7)), x)).astype(x.dtype)


CASES = [
    row("cumprod", (((3,), 0), ((2, 3), 1), ((2, 3), -2)), np.cumprod, **FLOATING, **as_method("cumprod")),
    with_nan("nansum", np.nansum),
    with_nan("nanmean", np.nanmean),
    row(
        "count_nonzero",
        (((2, 3),), ((2, 3), 1), ((2, 3), [0, 1])),
        lambda x, dim=None: np.count_nonzero(x, tuple(dim) if isinstance(dim, list) else dim),
        differentiable=False,
        **as_method("count_nonzero"),
    ),
    row(
        "aminmax",
        (((2, 3),), ((2, 3), {"dim": 1}), ((2, 3), {"dim": 0, "keepdim": True})),
        aminmax,
        **FLOATING,
        errors=[ErrorCase("empty", RuntimeError, function("aminmax"), (ones(0),), ("aminmax", "empty"))],
        **as_method("aminmax"),
    ),
    row(
        "diff",
        (((4,),), ((2, 4), 2), ((3, 2), 1, 0), ((3,), 0), ((2,), 3)),
        lambda x, n=1, dim=-1: np.diff(x, n, dim),
        view=None,
        errors=[ErrorCase("order", RuntimeError, function("diff"), (ones(2), -1), ("diff", "-1"))],
        **as_method("diff"),
    ),
    row(
        "diff.ends",
        (((3,), (2,), (1,)), ((2, 3), (2, 1), (2, 2))),
        lambda x, a, b: np.diff(x, 1, -1, a, b),
        lambda lib, x, a, b: lib.diff(x, prepend=a, append=b),
        dtypes=("float32", "float64", "int64"),
    ),
    row(
        "trapezoid",
        (((4,),), ((2, 3), {"dx": 0.5}), ((3, 2), {"dim": 0}), ((2, 3), (3,)), ((2, 3), (2, 3))),
        trapezoid,
        forms={"trapz": function("trapz")},
        **FLOATING,
    ),
    row(
        "cumulative_trapezoid", (((4,),), ((2, 3), {"dx": 0.5}), ((3, 2), {"dim": 0})), cumulative, **FLOATING
    ),
    row(
        "dist",
        (((2, 3), (2, 3)), ((2, 3), (3,), 1)),
        lambda a, b, p=2: np.linalg.norm((a - b).reshape(-1), p),
        **FLOATING,
        **as_method("dist"),
    ),
    row(
        "cdist",
        (((2, 3), (4, 3)), ((2, 2, 3), (3, 3), 1.0), ((2, 3), (4, 3), 3.0)),
        cdist,
        **FLOATING,
        errors=[
            ErrorCase(
                "columns", RuntimeError, function("cdist"), (ones(2, 3), ones(2, 4)), ("cdist", "3", "4")
            )
        ],
    ),
    row(
        "pdist",
        (((4, 3),), ((3, 2), 1.0), ((2, 3), 3.0)),
        lambda x, p=2.0: cdist(x, x, p)[np.triu_indices(len(x), 1)],
        **FLOATING,
        torch_lacks=("gradients",),
        errors=[ErrorCase("dims", RuntimeError, function("pdist"), (ones(3),), ("pdist", "1D"))],
    ),
    row(
        "cov",
        (((3, 5),), ((5,),), ((2, 4), {"correction": 0})),
        covariances,
        **FLOATING,
        **as_method("cov"),
    ),
    row("corrcoef", (((3, 5),),), correlations, **FLOATING, **as_method("corrcoef")),
    row(
        "renorm",
        (((2, 3), 2, 0, 1.0), ((2, 3), 1, 1, 0.5), ((2, 3, 2), 2, 1, 50.0)),
        quiet(renorm),
        **FLOATING,
        **as_method("renorm"),
    ),
]
