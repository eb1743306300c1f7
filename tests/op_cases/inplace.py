"""Rows for ops that write into their first argument.

`call` clones the argument first, so that the gradient through the written tensor can be tested; `inplace` is
the call itself, which must return its argument and count one more version.
"""

from __future__ import annotations

import operator as op
from typing import Any

import numpy as np

from .arithmetic import alpha_ref, rounded_division
from .common import (
    DTYPES,
    FLOATS,
    INTS,
    NUMBERS,
    ErrorCase,
    OpCase,
    Sample,
    b8,
    bracketed,
    elementwise,
    i64,
    into_first,
    method,
    nonzero,
    normal,
    on_clone,
    ones,
    operator,
    positive,
    unary,
)
from .elementwise import clamped, rectified
from .index import filled

WRITTEN_PAIRS = (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((), ()), ((2, 1, 3), (2, 1, 1)))


def written(second: Any = normal, *, scalars: Any = (2, True)) -> Any:
    """Pairs whose second broadcasts to the first; a Python float where the first can hold the result."""

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        numbers = (*scalars, -1.5) if dtype in FLOATS else scalars
        rows = [Sample((normal(rng, a, dtype), second(rng, b, dtype))) for a, b in WRITTEN_PAIRS]
        return rows + [Sample((normal(rng, (2, 3), dtype), value)) for value in numbers]

    return samples


def row(name: str, samples: Any, ref: Any, **options: Any) -> OpCase:
    inplace = options.pop("inplace", method(name))
    forms = {f"operator {k}": on_clone(f) for k, f in options.pop("operators", {}).items()}
    options = {"dtypes": NUMBERS, "differentiable": True} | options
    return OpCase(name, on_clone(inplace), samples, into_first(ref), forms=forms, inplace=inplace, **options)


def on_leaf(name: str, *args: Any) -> ErrorCase:
    def call(lib: Any, x: Any) -> Any:
        return getattr(x.requires_grad_(), name)(*args)

    return ErrorCase("leaf", RuntimeError, call, (ones(2, 3),), (name.rstrip("_"), "leaf", "grad|no_grad"))


def cannot_hold(name: str, *args: Any) -> ErrorCase:
    """A result of a higher category than the tensor it is written to."""
    return ErrorCase(
        "cast",
        RuntimeError,
        method(name),
        (i64([4, 5]), *args),
        (name.rstrip("_"), "float32|Float", "int64|[Ll]ong"),
    )


def would_grow(name: str) -> ErrorCase:
    return ErrorCase(
        "grow",
        RuntimeError,
        method(name),
        (ones(3), ones(2, 3)),
        (name.rstrip("_"), bracketed(3), bracketed(2, 3)),
    )


def overlapping(name: str, *args: Any) -> ErrorCase:
    def call(lib: Any, x: Any) -> Any:
        return getattr(x.expand(3), name)(*args)

    return ErrorCase(
        "overlap", RuntimeError, call, (ones(1),), (name.rstrip("_"), "memory|overlap|expand", "clone")
    )


ARITHMETIC = [
    row(
        "add_",
        written(),
        elementwise(np.add),
        operators={"+=": operator(op.iadd)},
        errors=[
            on_leaf("add_", 1),
            cannot_hold("add_", 1.5),
            cannot_hold("add_", ones(2)),
            would_grow("add_"),
            overlapping("add_", 1),
        ],
    ),
    row(
        "add_.alpha",
        lambda rng, d: [Sample(s.args, {"alpha": 3}) for s in written()(rng, d)],
        alpha_ref(1),
        inplace=method("add_"),
    ),
    row(
        "sub_",
        written(scalars=(2,)),
        elementwise(np.subtract),
        operators={"-=": operator(op.isub)},
        errors=[on_leaf("sub_", 1), would_grow("sub_")],
    ),
    row(
        "mul_",
        written(),
        elementwise(np.multiply),
        operators={"*=": operator(op.imul)},
        errors=[on_leaf("mul_", 2), would_grow("mul_")],
    ),
    row(
        "div_",
        written(nonzero, scalars=(2,)),
        elementwise(np.true_divide, result="float"),
        dtypes=FLOATS,
        operators={"/=": operator(op.itruediv)},
        errors=[on_leaf("div_", 2), cannot_hold("div_", 2), would_grow("div_")],
    ),
    row(
        "div_.rounding_mode",
        lambda rng, d: [
            Sample(s.args, {"rounding_mode": "floor"}) for s in written(nonzero, scalars=(2,))(rng, d)
        ],
        rounded_division,
        inplace=method("div_"),
    ),
    row(
        "add_.mixed",
        lambda rng, d: [s for s in casting_copies(rng, d) if s.args[0].dtype != bool],
        elementwise(np.add),
        inplace=method("add_"),
        dtypes=("mixed",),
    ),
]


def no_argument(name: str, ref: Any, domain: Any = normal, **options: Any) -> OpCase:
    return row(name, unary(domain), ref, **({"errors": [on_leaf(name)]} | options))


def fill_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    values = [2, 2.7, True, normal(rng, (), dtype)]
    return [Sample((normal(rng, (2, 3), dtype), value)) for value in values]


def fill_ref(x: np.ndarray, value: Any) -> np.ndarray:
    return np.broadcast_to(np.asarray(value).astype(x.dtype), x.shape)


def copy_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((normal(rng, a, dtype), normal(rng, b, dtype))) for a, b in WRITTEN_PAIRS]


def casting_copies(rng: np.random.Generator, dtype: str) -> list[Sample]:
    pairs = ((a, b) for a in DTYPES for b in DTYPES if a in FLOATS or b not in FLOATS)
    return [Sample((positive(rng, (3,), a), positive(rng, (3,), b))) for a, b in pairs]


def clamp_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    low, high = (-0.7, 0.9) if dtype in FLOATS else (1, 3)
    bounds = ({"min": low}, {"max": high}, {"min": low, "max": high})
    return [Sample((normal(rng, (2, 3), dtype),), b) for b in bounds]


def mask_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    masks = ((2, 3), (3,), (2, 1), ())
    rows = [Sample((normal(rng, (2, 3), dtype), normal(rng, m, "bool"), 2)) for m in masks]
    return [*rows, Sample((normal(rng, (2, 3), dtype), normal(rng, (2, 3), "bool"), normal(rng, (), dtype)))]


WRITERS = [
    no_argument("zero_", np.zeros_like, dtypes=DTYPES),
    row(
        "fill_",
        fill_samples,
        fill_ref,
        dtypes=DTYPES,
        errors=[
            on_leaf("fill_", 1.0),
            ErrorCase(
                "value",
                RuntimeError,
                method("fill_"),
                (ones(2), ones(1)),
                ("fill_", "value", "0-dim|dimension"),
            ),
        ],
    ),
    row(
        "copy_",
        copy_samples,
        fill_ref,
        dtypes=DTYPES,
        errors=[
            ErrorCase(
                "shapes",
                RuntimeError,
                method("copy_"),
                (ones(2, 3), ones(4)),
                ("copy_", bracketed(2, 3), bracketed(4)),
            ),
            ErrorCase(
                "array", TypeError, lambda lib, x: x.copy_(np.ones(2)), (ones(2),), ("copy_", "ndarray")
            ),
        ],
    ),
    row("copy_.mixed", casting_copies, fill_ref, inplace=method("copy_"), dtypes=("mixed",)),
    row("clamp_", clamp_samples, clamped, errors=[on_leaf("clamp_", 0), cannot_hold("clamp_", 0.5)]),
    no_argument("relu_", elementwise(rectified, wide=False)),
    no_argument(
        "exp_",
        elementwise(np.exp, result="float"),
        dtypes=FLOATS,
        errors=[on_leaf("exp_"), cannot_hold("exp_")],
    ),
    no_argument(
        "neg_",
        elementwise(np.negative),
        errors=[
            on_leaf("neg_"),
            ErrorCase("bool", RuntimeError, method("neg_"), (b8([True]),), ("neg", "bool")),
        ],
    ),
    row(
        "masked_fill_",
        mask_samples,
        filled,
        dtypes=DTYPES,
        errors=[
            ErrorCase(
                "grow",
                RuntimeError,
                lambda lib, x, m: x.masked_fill_(m, 0.0),
                (ones(3), b8(np.ones((2, 3)))),
                ("masked_fill", bracketed(3), bracketed(2, 3)),
            )
        ],
    ),
    row(
        "bitwise.and_",
        written(scalars=(3,)),
        elementwise(np.bitwise_and),
        inplace=operator(op.iand),
        dtypes=INTS,
        differentiable=False,
    ),
]


# --- writing through a view -----------------------------------------------------------------------------


def double_first_row(lib: Any, x: Any) -> Any:
    x[0].mul_(2)
    return x


def zero_transposed_column(lib: Any, x: Any) -> Any:
    x.t()[1:].zero_()
    return x


def add_to_slice(lib: Any, x: Any, y: Any) -> Any:
    x[:, ::2] += y
    return x


def doubled(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:1] * 2, x[1:]])


def cleared(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:, :1], np.zeros_like(x[:, 1:])], axis=1)


def added(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    result = x.copy()
    result[:, ::2] += y
    return result


def matrix(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((normal(rng, (3, 4), dtype),))]


THROUGH_VIEWS = [
    row("view.mul_", matrix, doubled, inplace=double_first_row),
    row("view.zero_", matrix, cleared, inplace=zero_transposed_column),
    row(
        "view.add_",
        lambda rng, d: [Sample((normal(rng, (3, 4), d), normal(rng, s, d))) for s in ((3, 2), (2,), ())],
        added,
        inplace=add_to_slice,
    ),
]

CASES = [*ARITHMETIC, *WRITERS, *THROUGH_VIEWS]
