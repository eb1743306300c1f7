"""Rows for what layers are made of: linear maps, normalisation, embedding, dropout, statistics, sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import (
    NUMBERS,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    bracketed,
    distinct,
    f64,
    function,
    functional,
    i64,
    method,
    normal,
    number,
    ones,
    positive,
    quiet,
)

LOOSE = {"float32": (2e-5, 2e-5), "float64": (1e-12, 1e-12)}

# --- linear maps ----------------------------------------------------------------------------------------


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    out = x @ weight.T
    return np.asarray(out if bias is None else out + bias)


def linear_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    shapes = ((2, 3), (3,), (2, 4, 3), (1, 2, 2, 3))
    rows = []
    for shape in shapes:
        operands = (normal(rng, shape, dtype), normal(rng, (5, 3), dtype))
        rows += [Sample(operands), Sample((*operands, normal(rng, (5,), dtype)))]
    return rows


MAPS = [
    OpCase(
        "addmm",
        function("addmm"),
        lambda rng, d: [
            Sample((normal(rng, s, d), normal(rng, (2, 3), d), normal(rng, (3, 4), d)), k)
            for s in ((4,), (2, 4), (2, 1), ())
            for k in ({}, {"beta": 0.5, "alpha": 2})
        ],
        lambda c, a, b, beta=1, alpha=1: (beta * c + alpha * (a @ b)).astype(a.dtype),
        differentiable=True,
        tolerances=LOOSE,
        forms={"method": method("addmm")},
        empty=lambda d: [Sample((np.zeros(4, d), np.zeros((0, 3), d), np.zeros((3, 4), d)))],
        errors=[
            ErrorCase(
                "sizes",
                RuntimeError,
                function("addmm"),
                (ones(4), ones(2, 3), ones(4, 4)),
                ("2x3|" + bracketed(2, 3), "4x4|" + bracketed(4, 4)),
            ),
            ErrorCase(
                "added",
                RuntimeError,
                function("addmm"),
                (ones(5), ones(2, 3), ones(3, 4)),
                (number(5), number(4)),
            ),
        ],
    ),
    OpCase(
        "linear",
        functional("linear"),
        linear_samples,
        linear,
        differentiable=True,
        tolerances=LOOSE,
        empty=lambda d: [Sample((np.zeros((0, 3), d), np.zeros((5, 3), d), np.zeros(5, d)))],
        errors=[
            ErrorCase(
                "features",
                RuntimeError,
                functional("linear"),
                (ones(2, 3), ones(4, 5)),
                ("2x3|" + bracketed(2, 3), "5x4|" + bracketed(5, 4)),
            ),
            ErrorCase(
                "bias",
                RuntimeError,
                functional("linear"),
                (ones(2, 3), ones(4, 3), ones(5)),
                (number(5), number(4)),
            ),
            ErrorCase(
                "dtype",
                RuntimeError,
                functional("linear"),
                (ones(2, 3), ones(4, 3, dtype="float64")),
                ("dtype",),
            ),
        ],
    ),
]

# --- normalisation --------------------------------------------------------------------------------------


def standard(x: np.ndarray, axes: tuple[int, ...], eps: float, centred: bool = True) -> np.ndarray:
    x = x.astype(np.float64)
    if centred:
        x = x - x.mean(axes, keepdims=True)
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + eps)


def affine(h: np.ndarray, weight: Any, bias: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    h = h if weight is None else h * weight.reshape(shape)
    return (h if bias is None else h + bias.reshape(shape)).astype(dtype)


@quiet
def layer_norm(
    x: Any, shape: tuple[int, ...], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return affine(standard(x, tuple(range(-len(shape), 0)), eps), weight, bias, shape, x.dtype)


@quiet
def rms_norm(x: Any, shape: tuple[int, ...], weight: Any = None, eps: float | None = None) -> Any:
    eps = float(np.finfo(x.dtype).eps) if eps is None else eps
    return affine(standard(x, tuple(range(-len(shape), 0)), eps, False), weight, None, shape, x.dtype)


@quiet
def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    grouped = x.reshape(x.shape[0], groups, -1)
    h = standard(grouped, (2,), eps).reshape(x.shape)
    return affine(h, weight, bias, (1, -1, *[1] * (x.ndim - 2)), x.dtype)


@quiet
def batch_norm(
    x: Any,
    mean: Any,
    var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    eps: float = 1e-5,
) -> Any:
    shape = (1, -1, *[1] * (x.ndim - 2))
    if training:
        h = standard(x, (0, *range(2, x.ndim)), eps)
    else:
        h = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape).astype(np.float64) + eps)
    return affine(h, weight, bias, shape, x.dtype)


def row_samples(with_bias: bool) -> Any:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        rows = []
        for x, shape in (((4, 3), (3,)), ((2, 3, 5), (3, 5)), ((6,), (6,))):
            vectors = [normal(rng, shape, dtype) for _ in range(1 + with_bias)]
            value = normal(rng, x, dtype)
            rows += [
                Sample((value, shape, *vectors)),
                Sample((value, shape), {"eps": 0.1}),
                Sample((value, shape)),
            ]
            if with_bias:
                rows += [Sample((value, shape, vectors[0])), Sample((value, shape, None, vectors[1]))]
        return rows

    return samples


def group_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    rows = []
    for x, groups in (((2, 4, 3), 2), ((3, 4), 2), ((2, 3, 2, 2), 3), ((2, 6, 2), 1)):
        vectors = [normal(rng, (x[1],), dtype) for _ in range(2)]
        value = normal(rng, x, dtype)
        rows += [
            Sample((value, groups, *vectors)),
            Sample((value, groups)),
            Sample((value, groups), {"eps": 0.1}),
        ]
    return rows


def half_affine_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    value, vector = normal(rng, (2, 4, 3), dtype), normal(rng, (4,), dtype)
    return [Sample((value, 2, vector)), Sample((value, 2, None, vector))]


def batch_samples(training: bool) -> Any:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        rows = []
        for x in ((5, 3), (2, 3, 4), (2, 2, 3, 2)):
            vectors = [normal(rng, (x[1],), dtype) for _ in range(3)]
            found = (None, None) if training else (vectors[2], positive(rng, (x[1],), dtype))
            value = normal(rng, x, dtype)
            for pair in ((vectors[0], vectors[1]), (None, None), (vectors[0], None), (None, vectors[1])):
                rows.append(Sample((value, *found, *pair, training)))
        return [*rows, Sample((value, *found, *vectors[:2], training), {"eps": 0.1})]

    return samples


def wrong_shape(name: str, *args: Any) -> ErrorCase:
    return ErrorCase(
        "shape", RuntimeError, lambda lib, x: functional(name)(lib, x, *args), (ones(2, 3),), ("3",)
    )


def constant_rows(dtype: str) -> list[Sample]:
    return [Sample((np.array([[1, 1, 1], [0, 0, 0], [1, np.nan, 2], [1, np.inf, 2]], dtype), (3,)))]


NORMS = [
    OpCase(
        "layer_norm",
        functional("layer_norm"),
        row_samples(True),
        layer_norm,
        differentiable=True,
        tolerances=LOOSE,
        special=constant_rows,
        empty=lambda d: [Sample((np.zeros((0, 3), d), (3,), np.ones(3, d), np.ones(3, d)))],
        errors=[
            wrong_shape("layer_norm", (4,)),
            ErrorCase(
                "weight",
                RuntimeError,
                lambda lib, x, w: lib.nn.functional.layer_norm(x, (3,), w),
                (ones(2, 3), ones(4)),
                ("weight", bracketed(3), bracketed(4)),
            ),
            ErrorCase(
                "int",
                NotImplementedError,
                lambda lib, x: lib.nn.functional.layer_norm(x, (3,)),
                (ones(2, 3, dtype="int64"),),
                ("[Ll]ayer", "Long"),
            ),
        ],
    ),
    OpCase(
        "rms_norm",
        functional("rms_norm"),
        row_samples(False),
        rms_norm,
        differentiable=True,
        tolerances=LOOSE,
        special=constant_rows,
        special_grads=False,
        empty=lambda d: [Sample((np.zeros((0, 3), d), (3,), np.ones(3, d)))],
        errors=[wrong_shape("rms_norm", (4,))],
    ),
    OpCase(
        "group_norm",
        functional("group_norm"),
        group_samples,
        group_norm,
        differentiable=True,
        tolerances=LOOSE,
        errors=[
            wrong_shape("group_norm", 2),
            ErrorCase(
                "one element",
                ValueError,
                lambda lib, x: lib.nn.functional.group_norm(x, 2),
                (ones(1, 2),),
                ("more than 1 value", bracketed(1, 2)),
            ),
        ],
    ),
    OpCase(
        "group_norm.half_affine",
        functional("group_norm"),
        half_affine_samples,
        group_norm,
        differentiable=True,
        tolerances=LOOSE,
        torch_lacks=("gradients", "strided gradients"),
    ),
    OpCase(
        "batch_norm",
        functional("batch_norm"),
        batch_samples(True),
        batch_norm,
        differentiable=True,
        tolerances=LOOSE,
        errors=[
            ErrorCase(
                "one element",
                ValueError,
                lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True),
                (ones(1, 2),),
                ("more than 1 value", bracketed(1, 2)),
            ),
            ErrorCase(
                "no statistics",
                RuntimeError,
                lambda lib, x: lib.nn.functional.batch_norm(x, None, None),
                (ones(2, 2),),
                ("running_mean",),
            ),
        ],
    ),
    OpCase(
        "batch_norm.fixed",
        functional("batch_norm"),
        batch_samples(False),
        batch_norm,
        differentiable=True,
        grad_args=(0, 3, 4),
        tolerances=LOOSE,
        empty=lambda d: [Sample((np.zeros((0, 3), d), np.zeros(3, d), np.ones(3, d)))],
    ),
]

# --- embedding and dropout ------------------------------------------------------------------------------


def embedding(index: np.ndarray, weight: np.ndarray, padding_idx: int | None = None) -> np.ndarray:
    return weight[index]


LOOKUPS = [
    OpCase(
        "embedding",
        functional("embedding"),
        lambda rng, d: [
            Sample((index, normal(rng, (5, 3), d)), k)
            for index in (i64([1, 0, 4]), i64([[2, 2], [2, 0]]), i64(4), np.array([1, 2], np.int32))
            for k in ({}, {"padding_idx": 3}, {"padding_idx": -2})
        ],
        embedding,
        differentiable=True,
        empty=lambda d: [Sample((i64([]), np.zeros((5, 3), d)))],
        grad_points=[
            GradPoint((i64([1, 0, 1]), f64([[1], [2]])), (f64([[1], [0]]),), {"padding_idx": 1}),
            GradPoint((i64([1, 0, 1]), f64([[1], [2]])), (f64([[1], [1]]),), {"scale_grad_by_freq": True}),
        ],
        errors=[
            ErrorCase(
                "range",
                IndexError,
                functional("embedding"),
                (i64([1, 5]), ones(5, 3)),
                ("index out of range",),
            ),
            ErrorCase(
                "negative",
                IndexError,
                functional("embedding"),
                (i64([-1]), ones(5, 3)),
                ("index out of range",),
            ),
            ErrorCase(
                "dtype", RuntimeError, functional("embedding"), (ones(2), ones(5, 3)), ("indices", "Long")
            ),
            ErrorCase(
                "weight", RuntimeError, functional("embedding"), (i64([1]), ones(5)), ("weight", "2-D")
            ),
            ErrorCase(
                "padding",
                AssertionError,
                lambda lib, i, w: lib.nn.functional.embedding(i, w, padding_idx=7),
                (i64([1]), ones(5, 3)),
                ("[Pp]adding_idx",),
            ),
        ],
    ),
    OpCase(
        "dropout",  # where nothing is left to chance; tests/nn/test_dropout.py has the rest
        functional("dropout"),
        lambda rng, d: [Sample((normal(rng, (2, 3), d),), {"p": 1.0})],
        lambda x, p: 0 * x,
        differentiable=True,
        errors=[
            ErrorCase(
                "p",
                ValueError,
                lambda lib, x: lib.nn.functional.dropout(x, 1.5),
                (ones(2),),
                ("1.5", "between 0 and 1"),
            )
        ],
    ),
]

# --- statistics -----------------------------------------------------------------------------------------


def moment(root: bool) -> Any:
    @quiet
    def ref(x: np.ndarray, dim: Any = None, keepdim: bool = False, correction: int = 1) -> np.ndarray:
        axis = tuple(dim) if isinstance(dim, (tuple, list)) else dim
        wide = np.asarray(np.var(x.astype(np.float64), axis=axis, ddof=correction, keepdims=keepdim))
        return np.asarray(np.sqrt(wide) if root else wide).astype(x.dtype)

    return ref


def with_mean(root: bool) -> Any:
    first = moment(root)

    def ref(x: np.ndarray, dim: Any = None, keepdim: bool = False, **options: Any) -> tuple[np.ndarray, ...]:
        axis = tuple(dim) if isinstance(dim, (tuple, list)) else dim
        mean = np.asarray(np.mean(x.astype(np.float64), axis=axis, keepdims=keepdim)).astype(x.dtype)
        return first(x, dim, keepdim, **options), mean

    return ref


def moment_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    options: list[dict[str, Any]] = [
        {},
        {"dim": 0},
        {"dim": (0, 2), "keepdim": True},
        {"dim": -1, "correction": 0},
    ]
    return [Sample((normal(rng, (3, 4, 2) if "dim" in k else (5,), dtype),), k) for k in options]


def moments(name: str, root: bool, points: list[GradPoint], mean: bool = False) -> OpCase:
    return OpCase(
        name,
        function(name),
        moment_samples,
        with_mean(root) if mean else moment(root),
        differentiable=True,
        tolerances=LOOSE,
        forms={} if mean else {"method": method(name)},
        # PyTorch's mean over an infinity is nan here, and an infinity from `mean`.
        special=lambda d: [
            Sample((np.array([[1, np.nan], [3, 3] if mean else [np.inf, 2], [3, 3]], d),), {"dim": 1})
        ],
        grad_points=points,
        errors=[
            ErrorCase(
                "int", RuntimeError, function(name), (ones(3, dtype="int64"),), (name, "floating point")
            ),
            ErrorCase(
                "dim",
                IndexError,
                lambda lib, x: getattr(lib, name)(x, 2),
                (ones(2, 3),),
                ("[Dd]im", number(2)),
            ),
        ],
    )


@quiet
def norm(x: np.ndarray, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> np.ndarray:
    order = 2.0 if p in ("fro", None) else float(p)
    axis = tuple(dim) if isinstance(dim, (tuple, list)) else dim
    size = np.abs(x.astype(np.float64))
    if np.isinf(order):
        out = (np.max if order > 0 else np.min)(size, axis=axis, keepdims=keepdim)
    elif order == 0:
        out = np.sum(size != 0, axis=axis, keepdims=keepdim)
    else:
        out = np.sum(size**order, axis=axis, keepdims=keepdim) ** (1 / order)
    return np.asarray(out).astype(x.dtype)


STATISTICS = [
    moments("var", False, [GradPoint((f64([2, 2]),), (f64([0, 0]),))]),
    moments("std", True, [GradPoint((f64([2, 2]),), (f64([0, 0]),))]),
    moments("var_mean", False, [GradPoint((f64([2, 2]),), (f64([0.5, 0.5]),))], mean=True),
    moments("std_mean", True, [GradPoint((f64([2, 2]),), (f64([0.5, 0.5]),))], mean=True),
    OpCase(
        "norm",
        function("norm"),
        lambda rng, d: [
            Sample((distinct(rng, (3, 4), d) + np.array(0.1, d),), k)
            for k in (
                {}, {"dim": 0}, {"p": 1, "dim": 1}, {"p": 3, "dim": (0, 1)}, {"p": float("inf"), "dim": 0},
                {"p": -float("inf"), "dim": 1}, {"dim": 1, "keepdim": True}, {"p": 0.5, "dim": 1},
            )
        ],
        norm,
        differentiable=True,
        tolerances=LOOSE,
        forms={"method": method("norm")},
        empty=lambda d: [Sample((np.zeros((0, 3), d),)), Sample((np.zeros((0, 3), d),), {"dim": 1})],
        grad_points=[
            GradPoint((f64([0, 0]),), (f64([0, 0]),)),
            GradPoint((f64([0, 0]),), (f64([0, 0]),), {"p": 3}),
            GradPoint((f64([0, -2]),), (f64([0, -1]),), {"p": 1}),
        ],
        errors=[
            ErrorCase("int", RuntimeError, function("norm"), (ones(3, dtype="int64"),), ("norm", "floating point")),
        ],
    ),
]  # fmt: skip

# --- sorting --------------------------------------------------------------------------------------------


def ordered(x: np.ndarray, dim: int = -1, descending: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Stable, with NaN as the largest."""
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    missing = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    numbers = np.where(missing, 0, x).astype(np.float64)
    keys = (-numbers, ~missing) if descending else (numbers, missing)
    places = np.lexsort(keys, axis=dim)
    return np.take_along_axis(x, places, dim), places


def largest(x: np.ndarray, k: int, dim: int = -1, largest: bool = True) -> tuple[np.ndarray, np.ndarray]:
    values, places = ordered(x, dim, largest)
    keep = (np.s_[:],) * (dim % x.ndim) + (np.s_[:k],)
    return values[keep], places[keep]


def special_rows(dtype: str) -> list[Sample]:
    if not dtype.startswith("float"):
        return []
    rows = np.array([[1, np.nan, -np.inf], [np.inf, 0, -1], [2, 1, np.nan]], dtype)
    return [Sample((rows,), {"dim": 1, "descending": d}) for d in (False, True)]


SORTING = [
    OpCase(
        "sort",
        function("sort"),
        lambda rng, d: [
            Sample((distinct(rng, s, d),), k)
            for s in ((5,), (3, 4), (2, 3, 2))
            for k in ({}, {"dim": 0}, {"dim": 0, "descending": True})
        ] + [Sample((distinct(rng, (), d),))],
        ordered,
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("sort")},
        special=special_rows,
        special_grads=False,
        empty=lambda d: [Sample((np.zeros((0, 3), d),), {"dim": k}) for k in (0, 1)],
        errors=[
            ErrorCase("dim", IndexError, lambda lib, x: x.sort(2), (ones(2, 3),), ("[Dd]im", number(2))),
        ],
    ),
    OpCase(
        "topk",
        function("topk"),
        lambda rng, d: [
            Sample((distinct(rng, (3, 4), d), *a), k)
            for a, k in (((2,), {}), ((1, 0), {}), ((4,), {"largest": False}), ((3, 0), {"largest": False}), ((0,), {}))
        ],
        largest,
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("topk")},
        errors=[
            ErrorCase("k", RuntimeError, lambda lib, x: x.topk(4), (ones(2, 3),), ("k", "range")),
        ],
    ),
]  # fmt: skip

CASES = [*MAPS, *NORMS, *LOOKUPS, *STATISTICS, *SORTING]
