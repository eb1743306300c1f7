"""Ops that run along a dimension, and views that name strides, windows or another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import (
    FLOATS,
    NUMBERS,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    distinct,
    f64,
    function,
    method,
    normal,
    ones,
)

NAN, INF = np.nan, np.inf
SHAPES = (((5,), 0), ((2, 4), 1), ((3, 2, 2), 0), ((2, 3, 2), -2), ((), 0))


def along(domain: Any) -> Any:
    return lambda rng, d: [Sample((domain(rng, shape, d), dim)) for shape, dim in SHAPES]


def extreme(best: Any) -> Any:
    """The extreme value so far and its place: the last of equal ones."""

    def ref(x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.moveaxis(x[None] if x.ndim == 0 else x, dim, -1)
        places = np.zeros(rows.shape, np.int64)
        for at in np.ndindex(rows.shape[:-1]):
            place = 0
            for k, value in enumerate(rows[at]):
                if np.isnan(value) or best(value, rows[at][place]):
                    place = k
                places[at][k] = place
        values = np.take_along_axis(rows, places, -1)
        found = (np.moveaxis(values, -1, dim), np.moveaxis(places, -1, dim))
        return tuple(v.reshape(x.shape) for v in found)  # type: ignore[return-value]

    return ref


def log_sums(x: np.ndarray, dim: int) -> np.ndarray:
    if x.ndim == 0:
        return x
    with np.errstate(all="ignore"):
        return np.logaddexp.accumulate(x.astype(np.float64), dim).astype(x.dtype)


def special_rows(dtype: str) -> list[Sample]:
    if dtype not in FLOATS:
        return []
    rows = [[1, NAN, 3, NAN, 2], [-INF, -INF, 1, INF, 2], [INF, 1, -INF, 0, -0.0]]
    return [Sample((np.array(rows, dtype), 1))]


def empty_rows(dtype: str) -> list[Sample]:
    return [
        Sample((np.zeros(s, dtype), dim)) for s, dim in (((0,), 0), ((0, 3), 1), ((3, 0), 1), ((0, 3), 0))
    ]


def windows(x: np.ndarray, dim: int, size: int, step: int) -> np.ndarray:
    if x.ndim == 0:
        return np.repeat(x[None], size)
    return np.lib.stride_tricks.sliding_window_view(x, size, dim)[
        tuple(slice(None, None, step if k == dim % x.ndim else 1) for k in range(x.ndim))
    ]


def with_strides(x: np.ndarray, size: Any, stride: Any, offset: int = 0) -> np.ndarray:
    flat = np.ascontiguousarray(x).reshape(-1)[offset:]
    return np.lib.stride_tricks.as_strided(flat, size, [s * flat.itemsize for s in stride])


def scattered(x: np.ndarray, src: np.ndarray, size: Any, stride: Any) -> np.ndarray:
    out = x.copy()
    np.lib.stride_tricks.as_strided(out, size, [s * out.itemsize for s in stride])[...] = src
    return out


X = ones(3, 4)


def fails(
    name: str, what: str, raises: type[Exception], *args: Any, mentions: Any, call: Any = None
) -> ErrorCase:
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    others = args[len(arrays) :]
    called = call or function(name)
    return ErrorCase(
        what, raises, lambda lib, *tensors: called(lib, *tensors, *others), tuple(arrays), mentions
    )


UNFOLD = method("unfold")


def extremes(name: str, best: Any) -> OpCase:
    return OpCase(
        name,
        function(name),
        along(distinct),
        extreme(best),
        dtypes=(*NUMBERS, "bool"),
        differentiable=True,
        forms={"method": method(name)},
        special=special_rows,
        empty=empty_rows,
        grad_points=[GradPoint((f64([1, 1, 1]),), (f64([1, 1, 1]),), {"dim": 0})],
        errors=[fails(name, "dim", IndexError, X, 2, mentions=(name, "[Dd]im"))],
    )


CASES = [
    extremes("cummax", lambda a, b: a >= b),
    extremes("cummin", lambda a, b: a <= b),
    OpCase(
        "logcumsumexp",
        function("logcumsumexp"),
        along(normal),
        log_sums,
        differentiable=True,
        forms={"method": method("logcumsumexp")},
        special=special_rows,
        special_grads=False,  # PyTorch's go through logarithms of gradients
        empty=empty_rows,
        errors=[
            fails("logcumsumexp", "dim", IndexError, X, 2, mentions=("logcumsumexp", "[Dd]im")),
            fails("logcumsumexp", "dtype", NotImplementedError, ones(2, dtype="int64"), 0, mentions=("Long",)),
        ],
    ),
    OpCase(
        "cumprod.integers",
        function("cumprod"),
        along(normal),
        lambda x, dim: np.cumprod(x.astype(np.int64), dim if x.ndim else None).reshape(x.shape),
        dtypes=("int64", "int32", "uint8", "bool"),
    ),
    OpCase(
        "unfold",
        method("unfold"),
        lambda rng, d: [
            Sample((normal(rng, shape, d), *window))
            for shape, window in (
                ((6,), (0, 3, 1)), ((2, 5), (1, 2, 2)), ((4, 3), (0, 4, 3)), ((2, 5, 2), (-2, 3, 2)), ((), (0, 1, 1)),
            )
        ],
        windows,
        dtypes=NUMBERS,
        differentiable=True,
        view=True,
        errors=[
            fails("unfold", "size", RuntimeError, X, 0, 4, 1, mentions=("unfold", "maximum size"), call=UNFOLD),
            fails("unfold", "step", RuntimeError, X, 0, 2, 0, mentions=("step",), call=UNFOLD),
            fails("unfold", "dim", IndexError, X, 2, 2, 1, mentions=("[Dd]im",), call=UNFOLD),
        ],
    ),
    OpCase(
        "as_strided",
        function("as_strided"),
        lambda rng, d: [
            Sample((normal(rng, (3, 4), d), *layout))
            for layout in (((3,), (2,)), ((2, 3), (4, 1), 2), ((3, 3), (1, 1)), ((2, 2, 2), (3, 0, 1), 1), ((), ()))
        ],
        with_strides,
        dtypes=NUMBERS,
        differentiable=True,
        view=True,
        strided=False,  # it names the memory
        forms={"method": method("as_strided")},
        errors=[
            fails("as_strided", "lengths", RuntimeError, X, (2,), (1, 1), mentions=("length of strides",)),
            fails("as_strided", "negative", RuntimeError, X, (2,), (-1,), mentions=("[Nn]egative",)),
            fails("as_strided", "reach", RuntimeError, X, (13,), (1,), mentions=("storage",)),
        ],
    ),
    OpCase(
        "as_strided_scatter",
        function("as_strided_scatter"),
        lambda rng, d: [Sample((normal(rng, (3, 4), d), normal(rng, (2, 3), d), (2, 3), (4, 1)))],
        scattered,
        differentiable=True,
        strided=False,
        torch_lacks=("gradients",),  # that of input has the replaced elements, not the others
        errors=[
            fails("as_strided_scatter", "src", RuntimeError, X, ones(3), (2,), (1,), mentions=("src",)),
        ],
    ),
    OpCase(
        "view.dtype",
        lambda lib, x, name: x.view(getattr(lib, name)),
        lambda rng, d: [Sample((normal(rng, (3, 4), d), name)) for name in ("uint8", "int32", "int64", d)],
        lambda x, name: x.view(name),
        dtypes=("float64", "int32"),
        strided=False,
        view=True,
    ),
    OpCase(
        "view_copies",
        lambda lib, x: [
            lib.unfold_copy(x, 0, 2, 1), lib.transpose_copy(x, 0, 1), lib.slice_copy(x, 1, 0, 2),
            *lib.split_copy(x, 2), *lib.unbind_copy(x), lib.view_copy(x, (12,)), lib.as_strided_copy(x, (3,), (2,)),
            x.sum_to_size(1, 4),
        ],
        lambda rng, d: [Sample((normal(rng, (3, 4), d),))],
        lambda x: (
            windows(x, 0, 2, 1), x.T, x[:, :2], x[:2], x[2:], *x, x.reshape(12), x.reshape(-1)[:6:2],
            x.sum(0, keepdims=True),
        ),
        differentiable=True,
        strided=False,
    ),
]  # fmt: skip
