"""The row of images of other sizes: a matrix for each dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .common import ErrorCase, OpCase, Sample, functional, normal, ones


def hat(d: float) -> float:
    return max(1 - abs(d), 0.0)


def keys(d: float, a: float) -> float:
    d = abs(d)
    if d >= 2:
        return 0.0
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4)


def matrix(old: int, new: int, cubic: bool, corners: bool, antialias: bool) -> np.ndarray:
    """What an element of the result is made of, one row for each."""
    rows = np.zeros((new, old))
    step = ((old - 1) / (new - 1) if new > 1 else 0.0) if corners else old / new
    for i in range(new):
        at = i * step if corners else (i + 0.5) * step - 0.5
        if antialias:
            wide = max(step, 1.0)
            for k in range(old):
                rows[i, k] = keys((k - at) / wide, -0.5) if cubic else hat((k - at) / wide)
            rows[i] /= rows[i].sum()
        elif cubic:
            first = math.floor(at)
            for k in range(first - 1, first + 3):
                rows[i, min(max(k, 0), old - 1)] += keys(at - k, -0.75)
        else:
            at = max(at, 0.0)
            first = min(math.floor(at), old - 1)
            rows[i, first] += 1 - (at - first)
            rows[i, min(first + 1, old - 1)] += at - first
    return rows


def resized(
    x: np.ndarray, size: tuple[int, ...], mode: str, align_corners: bool = False, antialias: bool = False
) -> np.ndarray:
    out = x.astype(np.float64)
    for k, n in enumerate(size):
        rows = matrix(x.shape[k + 2], n, mode == "bicubic", align_corners, antialias)
        out = np.moveaxis(np.tensordot(rows, out, (1, k + 2)), 0, k + 2)
    return out.astype(x.dtype)


SETTINGS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 5), {"size": (9,), "mode": "linear"}),
    ((1, 2, 6), {"size": (4,), "mode": "linear", "align_corners": True}),
    ((2, 3, 4, 5), {"size": (8, 10), "mode": "bilinear"}),
    ((1, 2, 5, 6), {"size": (3, 1), "mode": "bilinear", "align_corners": True}),
    ((1, 2, 9, 7), {"size": (4, 12), "mode": "bilinear", "antialias": True}),
    ((2, 1, 4, 3), {"size": (7, 3), "mode": "bicubic"}),
    ((1, 1, 3, 6), {"size": (3, 4), "mode": "bicubic", "align_corners": True}),
    ((1, 2, 8, 7), {"size": (5, 3), "mode": "bicubic", "antialias": True}),
    ((1, 2, 3, 2, 4), {"size": (5, 4, 3), "mode": "trilinear"}),
]


def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((normal(rng, shape, dtype),), settings) for shape, settings in SETTINGS]


def bad(
    label: str, raises: type[Exception], shape: tuple[int, ...], settings: Any, *mentions: str
) -> ErrorCase:
    call = functional("interpolate")
    return ErrorCase(label, raises, lambda lib, x: call(lib, x, **settings), (ones(*shape),), mentions)


CASES = [
    OpCase(
        "interpolate",
        functional("interpolate"),
        samples,
        resized,
        differentiable=True,
        empty=lambda d: [Sample((np.zeros((0, 2, 3, 3), d),), {"size": (5, 2), "mode": "bilinear"})],
        errors=[
            bad("mode", NotImplementedError, (1, 1, 3), {"size": 4, "mode": "cubic"}),
            bad("dims", NotImplementedError, (1, 1, 3), {"size": 4, "mode": "bilinear"}),
            bad("sizes", RuntimeError, (1, 1, 3), {"size": 0, "mode": "linear"}, "greater than 0"),
            bad("both", ValueError, (1, 1, 3), {"size": 3, "scale_factor": 2.0}, "scale_factor"),
        ],
    )
]
