"""Rows for ops on every element alone: functions, comparison, logic, selection."""

from __future__ import annotations

import operator as op
from typing import Any

import numpy as np

from .common import (
    DTYPES,
    FLOATS,
    INTS,
    NUMBERS,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    b8,
    binary,
    bracketed,
    cannot_broadcast,
    elementwise,
    empty_pairs,
    empty_unary,
    f64,
    function,
    functional,
    method,
    normal,
    ones,
    operator,
    positive,
    quiet,
    result_dtype,
    scalar_first,
    special_pairs,
    special_unary,
    special_values,
    unary,
    wrong_type,
)

# --- one operand ----------------------------------------------------------------------------------------


@quiet
def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def rectified(x: np.ndarray) -> np.ndarray:
    return np.where(x <= 0, np.zeros_like(x), x)


def one_operand(name: str, ref: Any, **options: Any) -> OpCase:
    options = {
        "samples": unary(),
        "dtypes": DTYPES,
        "differentiable": True,
        "special": special_unary,
        "empty": empty_unary,
    } | options
    forms = {"method": method(name)} | options.pop("forms", {})
    return OpCase(name, function(name), ref=ref, forms=forms, **options)


def not_for_bool(name: str, raises: type[Exception]) -> ErrorCase:
    return ErrorCase("bool", raises, function(name), (b8([True]),), (name, "[Bb]ool"))


UNARY = [
    one_operand(
        "neg",
        elementwise(np.negative),
        dtypes=NUMBERS,
        forms={"operator": operator(op.neg), "negative": function("negative")},
        errors=[not_for_bool("neg", RuntimeError)],
    ),
    one_operand(
        "abs",
        elementwise(np.abs),
        dtypes=NUMBERS,
        forms={"builtin": operator(abs), "absolute": function("absolute")},
        errors=[not_for_bool("abs", NotImplementedError)],
        grad_points=[GradPoint((f64([0, -2]),), (f64([0, -1]),))],
    ),
    one_operand("exp", elementwise(np.exp, result="float")),
    one_operand("log", elementwise(np.log, result="float"), samples=unary(positive)),
    one_operand(
        "sqrt",
        elementwise(np.sqrt, result="float"),
        samples=unary(positive),
        grad_points=[GradPoint((f64([0, 4]),), (f64([np.inf, 0.25]),))],
    ),
    one_operand("tanh", elementwise(np.tanh, result="float")),
    one_operand(
        "sigmoid",
        elementwise(sigmoid, result="float"),
        grad_points=[GradPoint((f64([-1e3, 0, 1e3]),), (f64([0, 0.25, 0]),))],
    ),
    one_operand("sin", elementwise(np.sin, result="float")),
    one_operand("cos", elementwise(np.cos, result="float")),
    one_operand("square", elementwise(np.square), dtypes=NUMBERS),
    one_operand(
        "sign",
        elementwise(quiet(lambda x: np.where(np.isnan(x), 0, np.sign(x)))),
        dtypes=NUMBERS,
        grad_points=[GradPoint((f64([-2, 0, 3]),), (f64([0, 0, 0]),))],
    ),
    one_operand("isnan", elementwise(np.isnan, result="bool"), differentiable=False),
    one_operand(
        "relu",
        elementwise(rectified, wide=False),
        dtypes=NUMBERS,
        forms={"functional": functional("relu")},
        errors=[not_for_bool("relu", RuntimeError)],
        grad_points=[GradPoint((f64([0, -1, 2, np.inf]),), (f64([0, 0, 1, 1]),))],
    ),
    one_operand("logical_not", elementwise(np.logical_not, result="bool"), differentiable=False),
    one_operand(
        "bitwise_not",
        elementwise(np.invert),
        dtypes=(*INTS, "bool"),
        differentiable=False,
        forms={"operator": operator(op.invert)},
        errors=[
            ErrorCase(
                "float", TypeError, operator(op.invert), (ones(2),), ("~|bitwise_not|invert", "float32|integ")
            )
        ],
    ),
]


# --- comparison and logic -------------------------------------------------------------------------------


def relation(name: str, python: Any, ref: Any, alias: str, errors: list[ErrorCase]) -> OpCase:
    # Integers in the samples make ties, which the relations tell apart.
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        tied = rng.integers(0, 2, (3, 4)).astype(dtype)
        scalars = (1, 0.5, True)
        return [*binary(scalars=scalars)(rng, dtype), Sample((tied, tied[:1].copy())), Sample((tied, 1))]

    forms = {
        "method": method(name),
        "operator": operator(python),
        alias: function(alias),
        f"method {alias}": method(alias),
    }
    return OpCase(
        name,
        function(name),
        samples,
        elementwise(ref, result="bool"),
        dtypes=DTYPES,
        forms=forms,
        special=special_pairs,
        empty=empty_pairs,
        errors=[cannot_broadcast(name, operator(python)), *errors],
    )


def unordered(symbol: str, python: Any) -> list[ErrorCase]:
    return [wrong_type(f"{symbol}|lt|le|gt|ge", operator(python))]


RELATIONS = [
    relation("eq", op.eq, np.equal, "eq", []),
    relation("ne", op.ne, np.not_equal, "not_equal", []),
    relation("lt", op.lt, np.less, "less", unordered("<", op.lt)),
    relation("le", op.le, np.less_equal, "less_equal", unordered("<=", op.le)),
    relation("gt", op.gt, np.greater, "greater", unordered(">", op.gt)),
    relation("ge", op.ge, np.greater_equal, "greater_equal", unordered(">=", op.ge)),
]


def logical(name: str, ref: Any) -> OpCase:
    return OpCase(
        name,
        function(name),
        binary(),
        elementwise(ref, result="bool"),
        dtypes=DTYPES,
        forms={"method": method(name)},
        special=special_pairs,
        empty=empty_pairs,
        errors=[cannot_broadcast(name, function(name))],
    )


def bitwise(name: str, python: Any, ref: Any) -> list[OpCase]:
    refused = ErrorCase(
        "float", NotImplementedError, operator(python), (ones(2), ones(2)), (name, "float32|[Ff]loat")
    )
    main = OpCase(
        name,
        function(name),
        binary(scalars=(3, True)),
        elementwise(ref),
        dtypes=(*INTS, "bool"),
        forms={"method": method(name), "operator": operator(python)},
        special=special_pairs,
        empty=empty_pairs,
        errors=[refused, cannot_broadcast(name, operator(python), "int64")],
    )
    left = OpCase(
        f"{name}.scalar_first",
        operator(python),
        scalar_first(normal, (3, True)),
        elementwise(ref),
        dtypes=(*INTS, "bool"),
    )
    return [main, left]


LOGIC = [
    logical("logical_and", np.logical_and),
    logical("logical_or", np.logical_or),
    logical("logical_xor", np.logical_xor),
    *bitwise("bitwise_and", op.and_, np.bitwise_and),
    *bitwise("bitwise_or", op.or_, np.bitwise_or),
    *bitwise("bitwise_xor", op.xor, np.bitwise_xor),
]


# --- selection ------------------------------------------------------------------------------------------


def clamped(x: Any, min: Any = None, max: Any = None) -> np.ndarray:
    """The upper bound wins where the bounds cross; nan in any place is contagious."""
    bounds = [b for b in (min, max) if b is not None]
    dtype = result_dtype(x, *bounds)
    x = np.asarray(x).astype(dtype)
    if min is not None:
        x = np.maximum(x, np.asarray(min).astype(dtype))
    if max is not None:
        x = np.minimum(x, np.asarray(max).astype(dtype))
    return x


def clamp_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    low, high = (-0.7, 0.9) if dtype in FLOATS else (1, 3)
    bounds = [{"min": low}, {"max": high}, {"min": low, "max": high}, {"min": high, "max": low}]
    bounds += [{"min": 1}, {"min": 0.5, "max": 2}]
    xs = [normal(rng, shape, dtype) for shape in ((2, 3), (4,), (), (2, 3), (3,), (3,))]
    positional = Sample((normal(rng, (5,), dtype), low, high))
    return [positional, *(Sample((x,), b) for x, b in zip(xs, bounds, strict=True))]


def clamp_tensor_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    shapes = (((2, 3), (2, 3), (2, 3)), ((2, 3), (3,), (2, 1)), ((4,), (), ()))
    samples = [Sample(tuple(normal(rng, shape, dtype) for shape in triple)) for triple in shapes]
    return [*samples, Sample((normal(rng, (2, 3), dtype), normal(rng, (3,), dtype)))]


def where_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    shapes = (((2, 3), (2, 3), (2, 3)), ((3,), (2, 3), (2, 1)), ((2, 1), (3,), ()), ((), (2,), (2,)))
    samples = []
    for condition, a, b in shapes:
        samples.append(Sample((normal(rng, condition, "bool"), normal(rng, a, dtype), normal(rng, b, dtype))))
    condition, x = normal(rng, (2, 3), "bool"), normal(rng, (2, 3), dtype)
    return [*samples, Sample((condition, x, 2)), Sample((condition, 1.5, x)), Sample((condition, 1, 2.5))]


def where_ref(condition: np.ndarray, a: Any, b: Any) -> np.ndarray:
    dtype = result_dtype(a, b)
    return np.where(condition, np.asarray(a).astype(dtype), np.asarray(b).astype(dtype))


def extremum(name: str, ref: Any, both: str) -> OpCase:
    return OpCase(
        name,
        function(name),
        binary(),
        elementwise(ref),
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method(name), both: function(both), f"method {both}": method(both)},
        special=special_pairs,
        zero_signs=False,
        empty=empty_pairs,
        grad_points=[GradPoint((f64([1, 1, 0]), f64([1, 2, -1])), tie_grads(name))],
        errors=[
            cannot_broadcast(name, function(name)),
            ErrorCase("number", TypeError, function(name), (ones(2), 2), (name, "other", "[Tt]ensor", "int")),
        ],
    )


def tie_grads(name: str) -> tuple[np.ndarray, np.ndarray]:
    first = f64([0.5, 0, 1]) if name == "maximum" else f64([0.5, 1, 0])
    return first, 1 - first


SELECTION = [
    OpCase(
        "clamp",
        function("clamp"),
        clamp_samples,
        clamped,
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("clamp"), "clip": function("clip"), "method clip": method("clip")},
        special=lambda d: [Sample((special_values(d),), {"min": 0 if d == "uint8" else -1, "max": 2})],
        empty=lambda d: [Sample((np.zeros((0, 2), d),), {"min": 1})],
        grad_points=[GradPoint((f64([0, 1, -1, 2]),), (f64([1, 1, 0, 0]),), {"min": 0, "max": 1})],
        errors=[
            ErrorCase(
                "no bounds", RuntimeError, lambda lib, x: x.clamp(), (ones(2),), ("clamp", "min", "max")
            )
        ],
    ),
    OpCase(
        "clamp.tensor",
        function("clamp"),
        clamp_tensor_samples,
        clamped,
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("clamp")},
        errors=[
            ErrorCase(
                "mixed bounds",
                TypeError,
                lambda lib, x, b: x.clamp(b, 1.0),
                (ones(2), ones(2)),
                ("clamp", "float"),
            ),
            ErrorCase(
                "shapes",
                RuntimeError,
                lambda lib, x, b: x.clamp(b),
                (ones(2, 3), ones(4)),
                ("clamp", bracketed(2, 3), bracketed(4)),
            ),
        ],
    ),
    OpCase(
        "clamp.upper_tensor",
        lambda lib, x, high: lib.clamp(x, max=high),
        lambda rng, d: [Sample((normal(rng, (2, 3), d), normal(rng, (3,), d)))],
        lambda x, high: clamped(x, max=high),
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": lambda lib, x, high: x.clamp(max=high)},
    ),
    OpCase(
        "clamp.wider_bounds",
        function("clamp"),
        lambda rng, d: [Sample((normal(rng, (3,), d), normal(rng, (2, 3), d), normal(rng, (3,), d)))],
        clamped,
        dtypes=NUMBERS,
        differentiable=True,
        torch_lacks=("gradients",),
    ),
    OpCase(
        "where",
        function("where"),
        where_samples,
        where_ref,
        dtypes=DTYPES,
        differentiable=True,
        special=lambda d: [
            Sample(
                (
                    b8([True, False] * 7)[: len(special_values(d))],
                    special_values(d),
                    special_values(d)[::-1].copy(),
                )
            )
        ],
        empty=lambda d: [Sample((np.zeros((0, 3), bool), np.zeros((1, 3), d), np.zeros(3, d)))],
        grad_points=[
            GradPoint((b8([True, False]), f64([1, np.inf]), f64([np.nan, 2])), (f64([1, 0]), f64([0, 1]))),
        ],
        errors=[
            ErrorCase(
                "condition",
                RuntimeError,
                function("where"),
                (ones(2), ones(2), ones(2)),
                ("where", "condition", "bool", "float32|Float"),
            ),
            ErrorCase(
                "shapes",
                RuntimeError,
                function("where"),
                (b8([True, False]), ones(3), ones(3)),
                ("where", bracketed(2), bracketed(3)),
            ),
        ],
    ),
    OpCase(
        "where.method",
        lambda lib, c, x, y: x.where(c, y),
        lambda rng, d: where_samples(rng, d)[:4],
        where_ref,
        dtypes=DTYPES,
        differentiable=True,
    ),
    extremum("maximum", np.maximum, "max"),
    extremum("minimum", np.minimum, "min"),
]

CASES = [*UNARY, *RELATIONS, *LOGIC, *SELECTION]
