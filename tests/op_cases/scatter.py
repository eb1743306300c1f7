"""Rows for writing at indices by functions: scatter, index_add and their like, index_put, put, take, masked_scatter."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .common import (
    DTYPES,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    distinct,
    f64,
    function,
    i64,
    method,
    normal,
    number,
    ones,
)
from .index import fails, scatter_samples

X = ones(2, 3)
NUMBERS = ("float32", "float64", "int64", "int32", "uint8")


def over_places(how: Any) -> Any:
    """An oracle that goes through the places one by one."""

    def ref(x: np.ndarray, dim: int, index: np.ndarray, src: Any, *rest: Any, **options: Any) -> np.ndarray:
        out, places = np.atleast_1d(x).copy(), np.atleast_1d(index)
        values = np.broadcast_to(np.asarray(src, x.dtype), places.shape) if np.ndim(src) == 0 else src
        for at in np.ndindex(places.shape):
            to = list(at)
            to[dim] = places[at]
            out[tuple(to)] = how(out[tuple(to)], values[at], *rest, **options)
        return out.reshape(x.shape)

    return ref


def reduced(
    x: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, reduce: str, include_self: bool = True
) -> Any:
    """Each place collects what comes to it, then is reduced."""
    flat, places = np.atleast_1d(x), np.atleast_1d(index)
    found: dict[tuple[int, ...], list[Any]] = {}
    for at in np.ndindex(places.shape):
        to = list(at)
        to[dim] = places[at]
        found.setdefault(tuple(to), []).append(np.atleast_1d(src)[at])
    out = flat.copy()
    for place, values in found.items():
        every = np.array([*([flat[place]] if include_self else []), *values], x.dtype)
        if reduce == "mean" and x.dtype.kind != "f":
            out[place] = every.sum(dtype=x.dtype) // len(every)
        else:
            named = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}
            out[place] = named[reduce](every)
    return out.reshape(x.shape)


def value_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((*s.args[:3], dtype != "bool" and 2)) for s in scatter_samples(rng, dtype)]


def single(samples: list[Sample]) -> list[Sample]:
    """No place twice: which element stays is not for PyTorch to say."""
    found = []
    for s in samples:
        x, dim, index, src = s.args
        if index.ndim and index.shape[dim] > (x.shape[dim] if x.ndim else 1):
            continue
        order = (
            np.argsort(np.random.default_rng(3).random(index.shape), axis=dim)
            if index.ndim
            else np.zeros((), np.int64)
        )
        found.append(Sample((x, dim, np.asarray(order, np.int64), src)))
    return found


def distinct_sources(reduce: str) -> Any:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        made = []
        for s in scatter_samples(rng, dtype):
            x, dim, index, src = s.args
            both = distinct(rng, (x.size + src.size,), dtype)
            if reduce == "prod" and dtype.startswith("f"):
                both = np.abs(both) % 2 + 0.5
            x, src = both[: x.size].reshape(x.shape), both[x.size :].reshape(src.shape)
            made += [Sample((x, dim, index, src, reduce), {"include_self": k}) for k in (True, False)]
        return made

    return samples


def in_place(name: str) -> Any:
    return lambda lib, x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def cloned(name: str) -> Any:
    return lambda lib, x, *args, **kwargs: getattr(x.clone(), name)(*args, **kwargs)


def scatter_errors(name: str, *last: Any, src: Any = X) -> list[ErrorCase]:
    return [
        fails(name, "range", RuntimeError, X, 0, i64([[2]]), src, *last, mentions=("index", number(2))),
        fails(name, "negative", RuntimeError, X, 0, i64([[-1]]), src, *last, mentions=("index", "-1")),
        fails(name, "dims", RuntimeError, X, 0, i64([1]), src, *last, mentions=("index", "dim")),
        fails(name, "dtype", RuntimeError, X, 0, ones(1, 1), src, *last, mentions=("index", "int64")),
        fails(name, "dim", IndexError, X, 2, i64([[0]]), src, *last, mentions=("dim", number(2))),
    ]


def with_reduce(how: str, inplace: bool = False) -> Any:
    """A scatter that adds or multiplies, of which PyTorch says that it will go."""

    def call(lib: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (
                x.clone().scatter_(dim, index, src, reduce=how)
                if inplace
                else x.scatter(dim, index, src, reduce=how)
            )

    return call


SCATTERING = [
    OpCase(
        "scatter",
        function("scatter"),
        lambda rng, d: single(scatter_samples(rng, d)),
        over_places(lambda old, new: new),
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("scatter"), "in place": cloned("scatter_")},
        empty=lambda d: [Sample((np.zeros((3, 2), d), 0, np.zeros((0, 2), np.int64), np.zeros((0, 2), d)))],
        errors=scatter_errors("scatter"),
    ),
    OpCase(
        "scatter.value",
        function("scatter"),
        value_samples,
        over_places(lambda old, new: new),
        dtypes=DTYPES,
        differentiable=True,
        forms={
            "in place": cloned("scatter_"),
            "by name": lambda lib, x, dim, index, value: x.scatter(dim=dim, index=index, value=value),
        },
        errors=scatter_errors("scatter", src=1.0),
    ),
    OpCase(
        "scatter.add",
        with_reduce("add"),
        scatter_samples,
        over_places(lambda old, new: old + new),
        dtypes=NUMBERS,
        forms={"in place": with_reduce("add", True)},
    ),
    OpCase(
        "scatter.multiply",
        with_reduce("multiply"),
        scatter_samples,
        over_places(lambda old, new: old * new),
        dtypes=NUMBERS[:-1],
        forms={"in place": with_reduce("multiply", True)},
    ),
    OpCase(
        "scatter_add_",
        cloned("scatter_add_"),
        scatter_samples,
        over_places(lambda old, new: old | new if old.dtype == bool else old + new),
        dtypes=DTYPES,
        differentiable=True,
        inplace=in_place("scatter_add_"),
    ),
    *(
        OpCase(
            "scatter_reduce" if reduce == "prod" else f"scatter_reduce.{reduce}",
            function("scatter_reduce"),
            distinct_sources(reduce),
            reduced,
            dtypes=("float32", "float64", "int64", "int32") if reduce == "mean" else NUMBERS,
            differentiable=True,
            forms={"method": method("scatter_reduce"), "in place": cloned("scatter_reduce_")},
            errors=scatter_errors("scatter_reduce", "sum") if reduce == "prod" else (),
            grad_points=(
                [
                    GradPoint(
                        (f64([2, 0, 3]), 0, i64([0, 0, 1, 2]), f64([0, 5, 0, 7]), "prod"),
                        (f64([0, 0, 7]), f64([10, 0, 0, 3])),
                    )
                ]
                if reduce == "prod"
                else []
            ),
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
    ),
]


# --- along one dimension ------------------------------------------------------------------------------------------

PLACED = (
    ((3, 4), 0, [2, 0], (2, 4)),
    ((3, 4), -1, [1, 3, 0], (3, 3)),
    ((5,), 0, [4], (1,)),
    ((2, 3, 2), 1, [0, 2], (2, 2, 2)),
)


def along(how: Any) -> Any:
    def ref(x: np.ndarray, dim: int, index: np.ndarray, source: Any, alpha: Any = 1) -> np.ndarray:
        out = x.copy()
        for k, place in enumerate(index):
            at = (slice(None),) * (dim % x.ndim) + (int(place),)
            new = source if np.ndim(source) == 0 else np.take(source, k, axis=dim)
            out[at] = how(out[at], (new * np.asarray(alpha, x.dtype)) if alpha != 1 else new)
        return out

    return ref


def placed_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [
        Sample((normal(rng, shape, dtype), dim, i64(index), normal(rng, source, dtype)))
        for shape, dim, index, source in PLACED
    ]


def added_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    repeated = Sample((normal(rng, (3,), dtype), 0, np.array([1, 1, 0], np.int32), normal(rng, (3,), dtype)))
    scaled = [Sample(s.args, {"alpha": 2}) for s in placed_samples(rng, dtype)] if dtype != "bool" else []
    return [*placed_samples(rng, dtype), repeated, *scaled]


def fill_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    found = [Sample((*s.args[:3], dtype != "bool" and 3)) for s in placed_samples(rng, dtype)]
    return [*found, Sample((normal(rng, (4,), dtype), 0, i64([1, 0, 0]), normal(rng, (), dtype)))]


def negative_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((normal(rng, (4,), dtype), 0, i64([-1, 0, 0]), normal(rng, (), dtype)))]


def along_errors(
    name: str, dtype: type[Exception], count: type[Exception], place: type[Exception] = IndexError
) -> list[ErrorCase]:
    two = ones(2, 3)
    return [
        fails(name, "range", place, X, 0, i64([0, 2]), two, mentions=("index",)),
        fails(name, "negative", place, X, 0, i64([0, -1]), two, mentions=("index",)),
        fails(name, "dims", IndexError, X, 0, i64([[0, 1]]), two, mentions=("[Ii]ndex", "vector|dim")),
        fails(name, "dtype", dtype, X, 0, ones(2), two, mentions=("index", "int64")),
        fails(name, "count", count, X, 0, i64([0]), two, mentions=("[Nn]umber", "ind")),
        fails(
            name, "source", RuntimeError, X, 0, i64([0, 1]), ones(2, 3, dtype="float64"), mentions=("dtype",)
        ),
        fails(name, "dim", IndexError, X, 2, i64([0, 1]), two, mentions=("[Dd]im", number(2))),
    ]


ALONG = [
    OpCase(
        "index_add",
        function("index_add"),
        added_samples,
        along(lambda old, new: old | new if old.dtype == bool else old + new),
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("index_add"), "in place": cloned("index_add_")},
        empty=lambda d: [Sample((np.zeros((3, 2), d), 0, np.zeros(0, np.int64), np.zeros((0, 2), d)))],
        errors=along_errors("index_add", RuntimeError, RuntimeError, RuntimeError),
    ),
    OpCase(
        "index_copy",
        function("index_copy"),
        placed_samples,
        along(lambda old, new: new),
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("index_copy"), "in place": cloned("index_copy_")},
        empty=lambda d: [Sample((np.zeros((3, 2), d), 0, np.zeros(0, np.int64), np.zeros((0, 2), d)))],
        errors=along_errors("index_copy", RuntimeError, IndexError),
    ),
    OpCase(
        "index_fill",
        function("index_fill"),
        fill_samples,
        along(lambda old, new: new),
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("index_fill"), "in place": cloned("index_fill_")},
        empty=lambda d: [Sample((np.zeros((3, 2), d), 0, np.zeros(0, np.int64), 1))],
        errors=[
            fails("index_fill", "range", IndexError, X, 0, i64([2]), 1.0, mentions=("index",)),
            fails("index_fill", "dtype", IndexError, X, 0, ones(1), 1.0, mentions=("index", "int64")),
            fails("index_fill", "value", RuntimeError, X, 0, i64([0]), ones(2), mentions=("value", "0-dim")),
        ],
    ),
    # PyTorch's gradient of the value does not know indices that count from the end.
    OpCase(
        "index_fill.negative",
        function("index_fill"),
        negative_samples,
        along(lambda old, new: new),
        dtypes=DTYPES,
    ),
]


# --- at index tensors ---------------------------------------------------------------------------------------------


def put_at(
    lib: Any, x: Any, values: Any, *indices: Any, accumulate: bool = False, inplace: bool = False
) -> Any:
    if inplace:
        return x.clone().index_put_(indices, values, accumulate)
    return lib.index_put(x, indices, values, accumulate)


def put_ref(x: np.ndarray, values: Any, *indices: Any, accumulate: bool = False) -> np.ndarray:
    out = x.copy()
    at = indices
    if accumulate:
        (np.logical_or if x.dtype == bool else np.add).at(out, at, values)
    else:
        out[at] = values
    return out


def put_samples(accumulate: bool) -> Any:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        twice = [1, 1] if accumulate else [1, 0]
        rows = [
            ((3, 4), (2, 4), (i64(twice),)),
            ((3, 4), (2,), (i64([2, 0]), i64([1, -1]))),
            ((3, 2, 4), (2, 4), (i64([0, 2]), i64([1, 0]))),
            ((5,), (), (np.array([True, False, True, False, True]),)),
            ((3, 4, 2), (2, 2), (i64(1), i64([0, -1]))),
            ((4, 3), (3,), (i64(-2),)),
        ]
        options = {"accumulate": True} if accumulate else {}
        return [Sample((normal(rng, x, dtype), normal(rng, v, dtype), *at), options) for x, v, at in rows]

    return samples


def flat_put(x: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool = False) -> np.ndarray:
    out = x.reshape(-1).copy()
    if accumulate:
        (np.logical_or if x.dtype == bool else np.add).at(out, index.reshape(-1), source.reshape(-1))
    else:
        out[index.reshape(-1)] = source.reshape(-1)
    return out.reshape(x.shape)


def flat_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = [((2, 3), i64([5, -6])), ((4,), i64([[0, 3]])), ((), i64(0))]
    found = [Sample((normal(rng, s, dtype), i, normal(rng, i.shape, dtype))) for s, i in rows]
    return [*found, Sample((normal(rng, (3,), dtype), i64([1, 1]), normal(rng, (2,), dtype), True))]


def take_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = [((2, 3), i64([5, -6, 0])), ((4,), i64([[0, 3], [1, 1]])), ((), i64(0))]
    return [Sample((normal(rng, s, dtype), i)) for s, i in rows]


def along_dim_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    x = normal(rng, (2, 3), dtype)
    return [
        Sample((x, i64([[2, 0], [1, -1]]), 1)),
        Sample((x, i64([[1, 0, 1]]), 0)),
        Sample((x, i64([[1]]), 1)),
        Sample((x, i64([5, 0]))),
    ]


def masked(x: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    x, mask = np.broadcast_arrays(x, mask)
    out = x.copy()
    out[mask] = source.reshape(-1)[: int(mask.sum())]
    return out


def masked_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = [((2, 3), (2, 3), (7,)), ((2, 3), (3,), (2, 4)), ((3,), (2, 3), (6,)), ((), (), (1,))]
    return [
        Sample((normal(rng, x, dtype), normal(rng, m, "bool"), normal(rng, s, dtype))) for x, m, s in rows
    ]


AT = [
    *(
        OpCase(
            "index_put.accumulate" if accumulate else "index_put",
            put_at,
            put_samples(accumulate),
            put_ref,
            dtypes=DTYPES,
            differentiable=True,
            forms={"in place": lambda lib, *args, **kwargs: put_at(lib, *args, **kwargs, inplace=True)},
            errors=[
                ErrorCase("range", IndexError, put_at, (X, ones(1, 3), i64([2])), ("index_put", "index")),
                ErrorCase(
                    "sizes", RuntimeError, put_at, (X, ones(2, 4), i64([0, 1])), ("index_put", "shape")
                ),
                ErrorCase(
                    "dtype",
                    RuntimeError,
                    put_at,
                    (X, ones(1, dtype="float64"), i64([0])),
                    ("index_put", "dtype"),
                ),
            ],
        )
        for accumulate in (False, True)
    ),
    OpCase(
        "put",
        function("put"),
        flat_samples,
        flat_put,
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("put"), "in place": cloned("put_")},
        errors=[
            fails("put", "range", IndexError, X, i64([6]), ones(1), mentions=("index",)),
            fails("put", "count", IndexError, X, i64([0]), ones(2), mentions=("number",)),
            fails("put", "dtype", RuntimeError, X, ones(1), ones(1), mentions=("index",)),
        ],
    ),
    OpCase(
        "take",
        function("take"),
        take_samples,
        lambda x, index: x.reshape(-1)[index],
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("take")},
        errors=[
            fails("take", "range", IndexError, X, i64([6]), mentions=("index",)),
            fails("take", "dtype", RuntimeError, X, ones(1), mentions=("index",)),
        ],
    ),
    OpCase(
        "take_along_dim",
        function("take_along_dim"),
        along_dim_samples,
        lambda x, index, dim=None: np.take_along_axis(x, index, axis=dim),
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("take_along_dim")},
        errors=[
            fails("take_along_dim", "dims", RuntimeError, X, i64([0]), 0, mentions=("dim",)),
            fails("take_along_dim", "dtype", RuntimeError, X, ones(1, 1), 0, mentions=("indices", "Long")),
        ],
    ),
    OpCase(
        "masked_scatter",
        function("masked_scatter"),
        masked_samples,
        masked,
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("masked_scatter")},
        errors=[
            fails("masked_scatter", "dtype", RuntimeError, X, ones(2, 3), X, mentions=("mask", "bool")),
            fails(
                "masked_scatter",
                "few",
                RuntimeError,
                X,
                X > 0,
                ones(2),
                mentions=("source", number(2), number(6)),
            ),
        ],
    ),
]

PLACES = [
    OpCase(
        "argwhere",
        function("argwhere"),
        lambda rng, d: [Sample((normal(rng, s, d),)) for s in ((4,), (2, 3))],
        lambda x: np.argwhere(x),
        dtypes=DTYPES,
        forms={"method": method("argwhere")},
    ),
    OpCase(
        "nonzero_static",
        function("nonzero_static"),
        lambda rng, d: [
            Sample((normal(rng, (2, 3), d),), {"size": 9}),
            Sample((normal(rng, (5,), d),), {"size": 2, "fill_value": 7}),
        ],
        lambda x, size, fill_value=-1: np.concatenate(
            [np.argwhere(x), np.full((size, x.ndim), fill_value, np.int64)]
        )[:size],
        dtypes=DTYPES,
        forms={"method": method("nonzero_static")},
    ),
]

CASES = [*SCATTERING, *ALONG, *AT, *PLACES]
