"""Rows for layers whose places follow from values: sampling at a grid, bags of rows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .common import ErrorCase, OpCase, Sample, bracketed, functional, i64, normal, ones

# --- sampling at a grid -----------------------------------------------------------------------------------


def inside(at: float, size: int, padding: str, corners: bool) -> float:
    """A coordinate moved into the image, if what lies outside is the border or a reflection."""
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        if high <= low:
            return 0.0
        while not low <= at <= high:
            at = 2 * low - at if at < low else 2 * high - at
    return min(max(at, 0.0), size - 1.0)


def keys(d: float) -> float:
    a, d = -0.75, abs(d)
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4)


def weights(g: float, size: int, mode: str, padding: str, corners: bool) -> list[tuple[int, float]]:
    """Elements of one dimension with their weights."""
    at = (g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2
    if mode == "bicubic":
        first = math.floor(at)
        taps = [(first + k, keys(at - first - k)) for k in range(-1, 3)]
        if padding != "zeros":
            taps = [(int(inside(k, size, padding, corners)), w) for k, w in taps]
    else:
        at = inside(at, size, padding, corners) if padding != "zeros" else at
        first = math.floor(at)
        taps = [(first, 1 - (at - first)), (first + 1, at - first)]
        if mode == "nearest":
            taps = [(round(at), 1.0)]
    return [(k, w) for k, w in taps if 0 <= k < size]


def sampled(
    x: np.ndarray,
    grid: np.ndarray,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> np.ndarray:
    sizes = x.shape[2:]
    out = np.zeros((x.shape[0], x.shape[1], *grid.shape[1:-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        places = [
            weights(float(g), n, mode, padding_mode, align_corners)
            for g, n in zip(grid[at][::-1], sizes, strict=True)
        ]
        for taps in itertools.product(*places):
            element = x[(at[0], slice(None), *(k for k, _ in taps))].astype(np.float64)
            out[(at[0], slice(None), *at[1:])] += math.prod(w for _, w in taps) * element
    return out.astype(x.dtype)


IMAGE, VOLUME = ((2, 2, 3, 4), (2, 3, 2, 2)), ((1, 2, 2, 3, 4), (1, 2, 1, 3, 3))
PADDINGS = ("zeros", "border", "reflection")
SETTINGS = [
    *((IMAGE, mode, padding) for mode in ("bilinear", "nearest", "bicubic") for padding in PADDINGS),
    *((VOLUME, mode, padding) for mode in ("bilinear", "nearest") for padding in PADDINGS),
]


def grids(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [
        Sample(
            (normal(rng, image, dtype), np.asarray(rng.uniform(-1.6, 1.6, grid)).astype(dtype)),
            {"mode": mode, "padding_mode": padding, "align_corners": bool(k % 2)},
        )
        for k, ((image, grid), mode, padding) in enumerate(SETTINGS)
    ]


def bad_grid(
    label: str, raises: type[Exception], image: Any, grid: Any, settings: Any, *mentions: str
) -> ErrorCase:
    call = functional("grid_sample")
    settings = {"align_corners": False, **settings}
    return ErrorCase(
        label,
        raises,
        lambda lib, *a: call(lib, *a, **settings),
        (ones(*image), ones(*grid)),
        ("grid_sampler?", *mentions),
    )


X, G = (1, 1, 3, 3), (1, 2, 2, 2)
GRID_SAMPLE = OpCase(
    "grid_sample",
    functional("grid_sample"),
    grids,
    sampled,
    differentiable=True,
    empty=lambda d: [
        Sample((np.zeros((0, 2, 3, 3), d), np.zeros((0, 2, 2, 2), d)), {"align_corners": True}),
        Sample((np.ones((1, 2, 3, 3), d), np.zeros((1, 0, 2, 2), d)), {"align_corners": True}),
        Sample((np.zeros((1, 0, 3, 3), d), np.zeros((1, 2, 2, 2), d)), {"align_corners": True}),
    ],
    errors=[
        bad_grid("mode", ValueError, X, G, {"mode": "cubic"}, "cubic"),
        bad_grid("padding", ValueError, X, G, {"padding_mode": "wrap"}, "wrap"),
        bad_grid("batch", RuntimeError, X, (2, 2, 2, 2), {}, "batch", bracketed(2, 2, 2, 2)),
        bad_grid("last", RuntimeError, X, (1, 2, 2, 3), {}, "last dimension", bracketed(1, 2, 2, 3)),
        bad_grid("dims", RuntimeError, X, (1, 2, 2), {}, "dimensions"),
        bad_grid("volume", RuntimeError, (1, 1, 2, 2, 2), (1, 1, 1, 1, 3), {"mode": "bicubic"}, "bicubic"),
        bad_grid("empty", RuntimeError, (1, 1, 0, 3), G, {}, "empty", bracketed(1, 1, 0, 3)),
        ErrorCase(
            "dtype", RuntimeError,
            lambda lib, x, g: functional("grid_sample")(lib, x, g, align_corners=True),
            (ones(*X), ones(*G, dtype="float64")), ("Float", "Double"),
        ),
    ],
)  # fmt: skip

# --- bags -------------------------------------------------------------------------------------------------


def bags(
    index: np.ndarray, weight: np.ndarray, offsets: Any = None, mode: str = "mean", per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> np.ndarray:  # fmt: skip
    if index.ndim == 2:
        offsets = np.arange(index.shape[0]) * index.shape[1]
    ends = list(offsets[1:]) + ([] if include_last_offset or len(offsets) == 0 else [index.size])
    factors = np.ones(index.size) if per_sample_weights is None else per_sample_weights.ravel()
    out = np.zeros((len(ends), weight.shape[1]))
    for b, (begin, end) in enumerate(zip(offsets, ends, strict=False)):
        kept = [
            i
            for i in range(begin, end)
            if padding_idx is None or index.flat[i] != padding_idx % weight.shape[0]
        ]
        if kept:
            rows = np.stack([factors[i] * weight[index.flat[i]].astype(np.float64) for i in kept])
            out[b] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, axis=0)
    return out.astype(weight.dtype)


INDEX, OFFSETS = i64([0, 3, 1, 1, 4, 2, 3]), i64([0, 3, 3])


def bag_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    def table() -> np.ndarray:
        return normal(rng, (5, 3), dtype)

    found = [Sample((INDEX, table(), OFFSETS), {"mode": mode}) for mode in ("sum", "mean", "max")]
    found += [
        Sample((INDEX, table(), OFFSETS), {"mode": mode, "padding_idx": -2})
        for mode in ("sum", "mean", "max")
    ]
    found += [Sample((INDEX[:6].reshape(2, 3), table())), Sample((i64([]), table(), i64([0, 0])))]
    found.append(Sample((INDEX, table(), i64([0, 4, 7])), {"include_last_offset": True}))
    return found


def weighted(lib: Any, index: Any, weight: Any, factors: Any, offsets: Any = None, **settings: Any) -> Any:
    return lib.nn.functional.embedding_bag(
        index, weight, offsets, mode="sum", per_sample_weights=factors, **settings
    )


def weighted_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    table, factors = normal(rng, (5, 3), dtype), normal(rng, (7,), dtype)
    return [
        Sample((INDEX, table, factors, OFFSETS)),
        Sample((INDEX, table, factors, OFFSETS), {"padding_idx": 1}),
        Sample((INDEX[:6].reshape(3, 2), table, factors[:6].reshape(3, 2))),
    ]


def bad_bag(label: str, raises: type[Exception], args: Any, settings: Any, *mentions: str) -> ErrorCase:
    call = functional("embedding_bag")
    return ErrorCase(label, raises, lambda lib, *a: call(lib, *a, **settings), args, mentions)


TABLE = ones(5, 3)
EMBEDDING_BAG = OpCase(
    "embedding_bag",
    functional("embedding_bag"),
    bag_samples,
    bags,
    differentiable=True,
    torch_lacks=("gradients",),
    empty=lambda d: [Sample((i64([]), np.ones((5, 3), d), i64([]))), Sample((i64([1]), np.ones((5, 0), d), i64([0])))],
    errors=[
        bad_bag("index", RuntimeError, (i64([5]), TABLE, i64([0])), {}, "5"),
        bad_bag("negative", RuntimeError, (i64([-1]), TABLE, i64([0])), {"mode": "max"}, "-1"),
        bad_bag("mode", ValueError, (INDEX, TABLE, OFFSETS), {"mode": "min"}, "sum, mean or max"),
        bad_bag("no offsets", ValueError, (INDEX, TABLE), {}, "offsets"),
        bad_bag("offsets of rows", ValueError, (INDEX[:6].reshape(2, 3), TABLE, OFFSETS), {}, "2D", "offsets"),
        bad_bag("first", RuntimeError, (INDEX, TABLE, i64([1, 2])), {}, r"offsets\[0\]", "1"),
        bad_bag("last", RuntimeError, (INDEX, TABLE, i64([0, 8])), {}, r"offsets\[-1\]", "8"),
        bad_bag("none", RuntimeError, (INDEX, TABLE, i64([])), {"include_last_offset": True}, "at least 1"),
        bad_bag("float", RuntimeError, (ones(2), TABLE, OFFSETS), {}, "Long"),
        bad_bag("table", ValueError, (INDEX, ones(5), OFFSETS), {}, "2D"),
        bad_bag("padding", RuntimeError, (INDEX, TABLE, OFFSETS), {"padding_idx": 5}, "padding_idx", "5"),
        bad_bag("frequency", ValueError, (INDEX, TABLE, OFFSETS), {"mode": "max", "scale_grad_by_freq": True}, "max"),
        ErrorCase(
            "weights", NotImplementedError,
            lambda lib, i, w, o, s: lib.nn.functional.embedding_bag(i, w, o, per_sample_weights=s),
            (INDEX, TABLE, OFFSETS, ones(7)), ("per_sample_weights", "mean"),
        ),
    ],
)  # fmt: skip
WEIGHTED = OpCase(
    "embedding_bag.weighted",
    weighted,
    weighted_samples,
    lambda index, weight, factors, offsets=None, padding_idx=None: bags(
        index, weight, offsets, "sum", factors, padding_idx=padding_idx
    ),
    differentiable=True,
    torch_lacks=("gradients",),
)

CASES = [GRID_SAMPLE, EMBEDDING_BAG, WEIGHTED]
