"""Rows for ops that reduce dimensions: sums, extremes, truth, products, logsumexp, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .common import (
    DTYPES,
    FLOATS,
    NUMBERS,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    distinct,
    f64,
    floating,
    function,
    method,
    nonzero,
    normal,
    number,
    ones,
    quiet,
    special_values,
)

INF, NAN = np.inf, np.nan

# Shape and keyword arguments of one call each.
NO_DIM: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3), {}),
    ((), {}),
    ((4,), {}),
    ((2, 3, 2), {}),
)
ONE_DIM = (
    ((2, 3), {"dim": 0}),
    ((2, 3), {"dim": -1, "keepdim": True}),
    ((2, 3, 2), {"dim": 1}),
    ((), {"dim": 0}),
    ((4,), {"dim": -1}),
    ((1, 3), {"dim": 0, "keepdim": True}),
)
SEVERAL_DIMS = (
    ((2, 3, 2), {"dim": (0, 2)}),
    ((2, 3, 2), {"dim": (-1, 0), "keepdim": True}),
    ((2, 3), {"dim": (0, 1)}),
    ((2, 3), {"dim": None, "keepdim": True}),
    ((2, 3), {"dim": ()}),
)


def over(plan: Any, domain: Any = normal) -> Callable[..., list[Sample]]:
    return lambda rng, dtype: [Sample((domain(rng, shape, dtype),), kwargs) for shape, kwargs in plan]


def special_rows(dtype: str) -> np.ndarray:
    """Rows with nan, infinities of both signs, zeros, in several places."""
    if dtype in FLOATS:
        rows = [
            [1, NAN, 3, NAN],
            [INF, 1, -INF, 2],
            [INF, INF, 1, 0],
            [-INF, -INF, -INF, -INF],
            [0, -0.0, 0, 0],
        ]
        return np.array(rows, dtype)
    return np.resize(special_values(dtype), (3, 4))


def special_reductions(*kwargs: dict[str, Any]) -> Callable[[str], list[Sample]]:
    return lambda dtype: [Sample((special_rows(dtype),), k) for k in kwargs]


def empties(*plan: Any) -> Callable[[str], list[Sample]]:
    return lambda dtype: [Sample((np.zeros(shape, dtype),), kwargs) for shape, kwargs in plan]


BY_ROW = special_reductions({"dim": 1})
EMPTY_SUMS = (((0,), {}), ((0, 3), {"dim": 0}), ((0, 3), {"dim": 1}), ((2, 0), {"dim": 1, "keepdim": True}))
EMPTY_ROWS = (((0, 3), {"dim": 1}), ((2, 0, 3), {"dim": 2, "keepdim": True}))


# --- oracles --------------------------------------------------------------------------------------------


def axes(x: np.ndarray, dim: Any) -> Any:
    """NumPy's `axis`: no dims mean all of them, and the one dim of a 0-dim tensor changes nothing."""
    if dim is None or dim == () or x.ndim == 0:
        return None
    return dim


def reduced(f: Callable[..., Any], result: Callable[[str], str]) -> Callable[..., np.ndarray]:
    """An oracle that applies `f` along axes, to floats in float64, and rounds to ``result(dtype)``."""

    @quiet
    def ref(x: np.ndarray, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> np.ndarray:
        target = dtype or result(str(x.dtype))
        wide = x.astype(dtype or x.dtype)
        wide = wide.astype(np.float64 if target in FLOATS else target)
        return np.asarray(f(wide, axis=axes(x, dim), keepdims=keepdim)).astype(target)

    return ref


def widened(dtype: str) -> str:
    """Sums and products of integers and booleans are int64."""
    return dtype if dtype in FLOATS else "int64"


def unchanged(dtype: str) -> str:
    return dtype


def located(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """An oracle for argmax and argmin: the first place, nan counting as the extreme."""

    @quiet
    def ref(x: np.ndarray, dim: int | None = None, keepdim: bool = False) -> np.ndarray:
        if dim is None:
            flat = np.asarray(f(x.reshape(-1)))
            return flat.reshape((1,) * x.ndim if keepdim else ())
        if x.ndim == 0:
            return np.zeros((), np.int64)
        return np.asarray(f(x, axis=dim, keepdims=keepdim))

    return ref


def with_index(values: Callable[..., Any], place: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim, keepdim=False: (values(x, dim, keepdim), place(x, dim, keepdim))


def average(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    total = np.asarray(np.sum(x, axis=axis, keepdims=keepdims))
    return total / (x.size / max(total.size, 1))


def truth(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def ref(x: np.ndarray, dim: Any = None, keepdim: bool = False) -> np.ndarray:
        result = np.asarray(f(x.astype(bool), axis=axes(x, dim), keepdims=keepdim))
        return result.astype("uint8" if x.dtype == np.uint8 else "bool")

    return ref


@quiet
def log_sum_exp(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    largest = np.max(x, axis=axis, keepdims=True, initial=-INF)
    shift = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return total if keepdims else np.squeeze(total, axis=axis)


@quiet
def running_sum(x: np.ndarray, dim: int, dtype: str | None = None) -> np.ndarray:
    target = dtype or widened(str(x.dtype))
    wide = x.astype(np.float64 if target in FLOATS else target)
    return (np.cumsum(wide, axis=dim) if x.ndim else wide).astype(target)


# --- errors ---------------------------------------------------------------------------------------------


def bad_dim(name: str, *, call: Any = None) -> ErrorCase:
    call = call or (lambda lib, x: getattr(lib, name)(x, dim=2))
    return ErrorCase("dim", IndexError, call, (ones(2, 3),), (name, "dim", number(2), r"-2\b", r"\b1\b"))


def repeated_dim(name: str) -> ErrorCase:
    return ErrorCase(
        "repeated dim",
        RuntimeError,
        lambda lib, x: getattr(lib, name)(x, dim=(0, -2)),
        (ones(2, 3),),
        (name, "dim", number(0)),
    )


def nothing_to_choose(name: str, raises: type[Exception]) -> list[ErrorCase]:
    """Without an element there is no largest one."""
    return [
        ErrorCase(
            "empty",
            raises,
            lambda lib, x: getattr(lib, name)(x),
            (np.zeros((0, 3)),),
            (name, "dim|empty|element"),
        ),
        ErrorCase(
            "empty dim",
            IndexError,
            lambda lib, x: getattr(lib, name)(x, dim=0),
            (np.zeros((0, 3)),),
            (name, "dim", number(0)),
        ),
    ]


def refuses(name: str, dtype: str, raises: type[Exception], *mentions: str, **kwargs: Any) -> ErrorCase:
    return ErrorCase(
        dtype,
        raises,
        lambda lib, x: getattr(lib, name)(x, **kwargs),
        (ones(2, 3, dtype=dtype),),
        (name, *mentions),
    )


# --- rows -----------------------------------------------------------------------------------------------


def reduction(name: str, ref: Any, plan: Any, **options: Any) -> OpCase:
    domain = options.pop("domain", normal)
    return OpCase(
        name,
        function(name.split(".")[0]),
        over(plan, domain),
        ref,
        forms={"method": method(name.split(".")[0])},
        **options,
    )


SUMS = [
    reduction(
        "sum",
        reduced(np.sum, widened),
        NO_DIM + ONE_DIM + SEVERAL_DIMS,
        dtypes=DTYPES,
        differentiable=True,
        special=BY_ROW,
        empty=empties(*EMPTY_SUMS),
        errors=[bad_dim("sum"), repeated_dim("sum")],
    ),
    reduction(
        "sum.dtype",
        reduced(np.sum, widened),
        (
            ((2, 3), {"dtype": "float64"}),
            ((2, 3), {"dim": 0, "dtype": "float32"}),
            ((4,), {"dtype": "int32"}),
        ),
        dtypes=NUMBERS,
    ),
    reduction(
        "mean",
        reduced(average, unchanged),
        NO_DIM + ONE_DIM + SEVERAL_DIMS,
        differentiable=True,
        special=BY_ROW,
        empty=empties(*EMPTY_SUMS),
        errors=[bad_dim("mean"), refuses("mean", "int64", RuntimeError, "dtype", "float", "int64|Long")],
    ),
    reduction(
        "mean.dtype",
        reduced(average, unchanged),
        (((2, 3), {"dtype": "float64"}), ((2, 3), {"dim": 1, "dtype": "float32"})),
        dtypes=DTYPES,
    ),
]


def chosen(name: str, f: Any, place: Any) -> list[OpCase]:
    """max or min: over everything, and along a dimension with indices."""
    values, where = reduced(f, unchanged), located(place)
    high = 3 if name == "max" else -3
    tie = f64([[1, high, high], [high, 0, 2]])
    named = {
        "method": method(name),
        "named": lambda lib, x, **k: (getattr(x, name)(**k).values, getattr(x, name)(**k).indices),
        "positional": lambda lib, x, dim, keepdim=False: getattr(x, name)(dim, keepdim),
    }
    return [
        reduction(
            name,
            values,
            NO_DIM,
            dtypes=DTYPES,
            domain=distinct,
            differentiable=True,
            special=special_reductions({}),
            zero_signs=False,
            grad_points=[GradPoint((tie,), ((tie == high) / 3,))],
            errors=[nothing_to_choose(name, RuntimeError)[0]],
        ),
        OpCase(
            f"{name}.dim",
            function(name),
            over(ONE_DIM, distinct),
            with_index(values, where),
            dtypes=DTYPES,
            forms=named,
            differentiable=True,
            special=BY_ROW,
            empty=empties(*EMPTY_ROWS),
            grad_points=[GradPoint((tie,), (f64([[0, 1, 0], [1, 0, 0]]),), {"dim": 1})],
            errors=[bad_dim(name), nothing_to_choose(name, RuntimeError)[1]],
        ),
    ]


def bounds(name: str, f: Any, high: int) -> OpCase:
    """amax or amin: several dimensions at once, ties share the gradient."""
    tie = f64([[1, high, high], [high, 0, 2]])
    shared = f64([[0, 0.5, 0.5], [1, 0, 0]])
    plan = NO_DIM + ONE_DIM + SEVERAL_DIMS[:3] + SEVERAL_DIMS[4:]
    return reduction(
        name,
        reduced(f, unchanged),
        plan,
        dtypes=DTYPES,
        domain=distinct,
        differentiable=True,
        special=BY_ROW,
        zero_signs=False,
        empty=empties(*EMPTY_ROWS),
        grad_points=[GradPoint((tie,), (shared,), {"dim": 1})],
        errors=[bad_dim(name), repeated_dim(name), *nothing_to_choose(name, RuntimeError)],
    )


def places(name: str, f: Any) -> OpCase:
    return reduction(
        name,
        located(f),
        (*NO_DIM, *ONE_DIM, ((2, 3), {"keepdim": True})),
        dtypes=NUMBERS,
        domain=distinct,
        special=BY_ROW,
        empty=empties(*EMPTY_ROWS),
        errors=[
            bad_dim(name),
            *nothing_to_choose(name, IndexError),
            refuses(name, "bool", RuntimeError, "bool"),
        ],
    )


EXTREMES = [
    *chosen("max", np.max, np.argmax),
    *chosen("min", np.min, np.argmin),
    bounds("amax", np.max, 3),
    bounds("amin", np.min, -3),
    places("argmax", np.argmax),
    places("argmin", np.argmin),
]

TRUTH_PLAN = NO_DIM + ONE_DIM + SEVERAL_DIMS[:3]

TRUTH = [
    reduction(
        "all",
        truth(np.all),
        TRUTH_PLAN,
        dtypes=DTYPES,
        special=BY_ROW,
        empty=empties(*EMPTY_SUMS),
        errors=[bad_dim("all")],
    ),
    reduction(
        "any",
        truth(np.any),
        TRUTH_PLAN,
        dtypes=DTYPES,
        special=BY_ROW,
        empty=empties(*EMPTY_SUMS),
        errors=[bad_dim("any")],
    ),
]


def with_zeros(count: int) -> Callable[[np.random.Generator, str], list[Sample]]:
    """Products with none, one or two zero factors, whose derivatives must not divide by them."""

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        rows = []
        for kwargs in ({}, {"dim": 1}, {"dim": 0, "keepdim": True}):
            x = nonzero(rng, (3, 4), dtype)
            x.reshape(-1)[[1, 6][:count]] = 0
            rows.append(Sample((x,), kwargs))
        return rows

    return samples


PRODUCTS = [
    reduction(
        "prod",
        reduced(np.prod, widened),
        NO_DIM + ONE_DIM,
        dtypes=DTYPES,
        domain=nonzero,
        differentiable=True,
        special=BY_ROW,
        empty=empties(*EMPTY_SUMS),
        special_grads=False,
        grad_points=[
            GradPoint((f64([0, 2, 3]),), (f64([6, 0, 0]),)),
            GradPoint((f64([0, 2, 0]),), (f64([0, 0, 0]),)),
            GradPoint((f64([[0, 2, 3], [4, 0, 0]]),), (f64([[6, 0, 0], [0, 0, 0]]),), {"dim": 1}),
        ],
        errors=[
            bad_dim("prod"),
            ErrorCase(
                "several dims", TypeError, lambda lib, x: x.prod((0, 1)), (ones(2, 3),), ("prod", "dim|tuple")
            ),
        ],
    ),
    reduction(
        "prod.dtype",
        reduced(np.prod, widened),
        (((2, 3), {"dtype": "float64"}), ((2, 3), {"dim": 0, "dtype": "int64"})),
        dtypes=NUMBERS,
    ),
    OpCase("prod.one_zero", function("prod"), with_zeros(1), reduced(np.prod, widened), differentiable=True),
    OpCase("prod.two_zeros", function("prod"), with_zeros(2), reduced(np.prod, widened), differentiable=True),
]

LOGSUMEXP_PLAN = ONE_DIM + SEVERAL_DIMS[:3]

LOGSUMEXP = [
    reduction(
        "logsumexp",
        reduced(log_sum_exp, floating),
        LOGSUMEXP_PLAN,
        dtypes=DTYPES,
        differentiable=True,
        special=BY_ROW,
        empty=empties(*EMPTY_SUMS[1:]),
        grad_points=[GradPoint((f64([1e4, 0, -1e4]),), (f64([1, 0, 0]),), {"dim": 0})],
        errors=[
            bad_dim("logsumexp"),
            ErrorCase("no dim", TypeError, lambda lib, x: x.logsumexp(), (ones(2, 3),), ("logsumexp", "dim")),
        ],
    ),
]

CUMSUM_PLAN = (((2, 3), {"dim": 0}), ((2, 3, 2), {"dim": -2}), ((5,), {"dim": -1}), ((), {"dim": 0}))

CUMSUM = [
    reduction(
        "cumsum",
        running_sum,
        CUMSUM_PLAN,
        dtypes=DTYPES,
        differentiable=True,
        special=BY_ROW,
        empty=empties(((0, 3), {"dim": 0}), ((2, 0), {"dim": 0})),
        errors=[bad_dim("cumsum")],
    ),
    reduction("cumsum.dtype", running_sum, (((2, 3), {"dim": 1, "dtype": "float64"}),), dtypes=NUMBERS),
]

CASES = [*SUMS, *EXTREMES, *TRUTH, *PRODUCTS, *LOGSUMEXP, *CUMSUM]
