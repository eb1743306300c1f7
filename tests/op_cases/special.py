"""Rows for exponentials, logarithms, rounding and activation functions: one operand, with numbers beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .common import (
    FLOATS,
    NUMBERS,
    ErrorCase,
    GradPoint,
    OpCase,
    Sample,
    binary,
    elementwise,
    empty_pairs,
    empty_unary,
    f64,
    function,
    functional,
    method,
    normal,
    number,
    ones,
    positive,
    quiet,
    special_pairs,
    special_unary,
    special_values,
    unary,
)
from .elementwise import not_for_bool, one_operand, sigmoid

erf = np.vectorize(math.erf, otypes=[np.float64])

FUNCTIONS = [
    one_operand("erf", elementwise(erf, result="float")),
    one_operand("expm1", elementwise(np.expm1, result="float")),
    one_operand("exp2", elementwise(np.exp2, result="float")),
    one_operand("log1p", elementwise(np.log1p, result="float"), samples=unary(positive)),
    one_operand("log2", elementwise(np.log2, result="float"), samples=unary(positive)),
    one_operand("log10", elementwise(np.log10, result="float"), samples=unary(positive)),
    one_operand("rsqrt", elementwise(lambda x: 1 / np.sqrt(x), result="float"), samples=unary(positive)),
    one_operand("reciprocal", elementwise(lambda x: 1 / x, result="float"), samples=unary(positive)),
    one_operand("isfinite", elementwise(np.isfinite, result="bool"), differentiable=False),
    one_operand("isinf", elementwise(np.isinf, result="bool"), differentiable=False),
    OpCase(
        "xlogy",
        function("xlogy"),
        binary(positive),
        elementwise(lambda x, y: np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)), result="float"),
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("xlogy")},
        special=special_pairs,
        special_grads=False,
        empty=empty_pairs,
        grad_points=[
            GradPoint((f64([0, 0, 2]), f64([0, 3, 2])), (f64([0, np.log(3), np.log(2)]), f64([np.nan, 0, 1])))
        ],
        errors=[
            ErrorCase("type", TypeError, function("xlogy"), (ones(2), "text"), ("xlogy", "str")),
        ],
    ),
]


def rounding(name: str, ref: Any) -> OpCase:
    points = [GradPoint((f64([0.5, 2, -1.5]),), (f64([0, 0, 0]),))]
    return one_operand(
        name,
        elementwise(ref),
        dtypes=NUMBERS,
        errors=[not_for_bool(name, NotImplementedError)],
        grad_points=points,
    )


ROUNDING = [
    rounding("floor", np.floor),
    rounding("ceil", np.ceil),
    rounding("trunc", np.trunc),
    rounding("round", np.round),
    OpCase(
        "round.decimals",
        function("round"),
        lambda rng, d: [Sample((normal(rng, (2, 3), d),), {"decimals": k}) for k in (1, 2, -1)],
        quiet(lambda x, decimals: np.round(x, decimals)),
        differentiable=True,
        tolerances={"float32": (1e-6, 1e-6), "float64": (1e-14, 1e-14)},
    ),
]

# --- activation functions -------------------------------------------------------------------------------

Oracle = Callable[..., np.ndarray]


def activation(name: str, ref: Oracle, numbers: tuple[dict[str, Any], ...] = ({},), **options: Any) -> OpCase:
    """An activation function, with the numbers that shape it one set after the other."""

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        shapes = ((), (5,), (2, 3), (2, 1, 3))
        return [Sample((np.asarray(normal(rng, shape, dtype) * 2),), k) for k in numbers for shape in shapes]

    def oracle(x: np.ndarray, **kwargs: Any) -> np.ndarray:
        return np.asarray(ref(x.astype(np.float64), **kwargs)).astype(x.dtype)

    refused = ErrorCase(
        "int", NotImplementedError, functional(name), (ones(2, dtype="int64"),), (name, "int64|Long")
    )
    options = {"errors": [refused], "special": special_unary} | options
    return OpCase(
        name,
        functional(name),
        samples,
        quiet(oracle),
        FLOATS,
        differentiable=True,
        empty=empty_unary,
        tolerances={"float32": (5e-6, 1e-6), "float64": (1e-12, 1e-13)},
        **options,
    )


def softplus(x: np.ndarray, beta: float = 1.0, threshold: float = 20.0) -> np.ndarray:
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


def gelu(x: np.ndarray, approximate: str = "none") -> np.ndarray:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def prelu_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    shapes = (((2, 3), (3,)), ((2, 3), (1,)), ((4,), (1,)), ((2, 3, 2), (3,)), ((), (1,)))
    return [Sample((normal(rng, a, dtype), normal(rng, b, dtype))) for a, b in shapes]


def prelu(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    sizes = [1] * x.ndim
    if x.ndim:
        sizes[min(1, x.ndim - 1)] = weight.size
    return np.where(x > 0, x, weight.reshape(sizes) * x)


def piece(points: list[float], slopes: list[float]) -> GradPoint:
    """Gradients of a function of one number where pieces meet."""
    return GradPoint((f64(points),), (f64(slopes),))


def gated(x: np.ndarray, dim: int = -1) -> np.ndarray:
    a, b = np.split(x.astype(np.float64), 2, axis=dim)
    return np.asarray(a * sigmoid(b)).astype(x.dtype)


ACTIVATIONS = [
    # PyTorch's vector loop gives NaN at infinity, and fewer digits where 1 + erf cancels; on some processors it gives 0
    # for -0.
    activation(
        "gelu",
        gelu,
        ({}, {"approximate": "tanh"}),
        zero_signs=False,
        special=lambda d: [Sample((np.array([np.nan, -np.inf, 0.0, -0.0, 1, -1, 30, 1e30], d),))],
        errors=[
            ErrorCase(
                "approximate",
                RuntimeError,
                lambda lib, x: lib.nn.functional.gelu(x, approximate="sin"),
                (ones(2),),
                ("approximate", "none", "tanh"),
            )
        ],
    ),
    activation("silu", lambda x: x * sigmoid(x)),
    activation("mish", lambda x: x * np.tanh(np.logaddexp(0, x))),
    activation("softplus", softplus, ({}, {"beta": 2.0}, {"beta": 0.5, "threshold": 1.0})),
    activation("logsigmoid", lambda x: -np.logaddexp(0, -x), errors=[]),
    activation(
        "leaky_relu",
        lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
        ({}, {"negative_slope": 0.3}),
        grad_points=[GradPoint((f64([0, -1, 2]),), (f64([0.01, 0.01, 1]),))],
    ),
    activation(
        "elu",
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
        ({}, {"alpha": 0.3}),
        special_grads=False,  # PyTorch's own at NaN depends on the processor
        grad_points=[GradPoint((f64([0, 2]),), (f64([1, 1]),))],
    ),
    activation(
        "hardtanh",
        lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
        ({}, {"min_val": -0.3, "max_val": 2.0}),
        special_grads=False,  # PyTorch's own at NaN depends on the dtype
        grad_points=[GradPoint((f64([-1, 0.5, 1, 2]),), (f64([0, 1, 0, 0]),))],
        errors=[
            ErrorCase(
                "bounds",
                ValueError,
                lambda lib, x: lib.nn.functional.hardtanh(x, 2.0, 1.0),
                (ones(2),),
                ("min_val", "max_val"),
            )
        ],
    ),
    activation(
        "hardsigmoid",
        lambda x: np.clip(x + 3, 0, 6) / 6,
        grad_points=[piece([-3, 0, 3], [0, 1 / 6, 0])],
        torch_lacks=("gradients",),  # it multiplies by a sixth that is rounded to float32
    ),
    activation(
        "hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, grad_points=[piece([-3, 0, 3], [0, 0.5, 1])]
    ),
    activation(
        "hardshrink",
        lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x),
        ({}, {"lambd": 1.0}, {"lambd": -1.0}),
        special_grads=False,  # PyTorch's own at NaN depends on the place of the element
        grad_points=[piece([-0.5, 0, 0.5, 1], [0, 0, 0, 1])],
    ),
    activation(
        "softshrink",
        lambda x, lambd=0.5: np.sign(x) * np.maximum(np.abs(x) - lambd, 0),
        ({}, {"lambd": 1.0}),
        special_grads=False,  # PyTorch's own at NaN depends on the place of the element
        zero_signs=False,
        grad_points=[piece([-0.5, 0, 0.5, 1], [0, 0, 0, 1])],
        errors=[
            ErrorCase(
                "lambda",
                RuntimeError,
                lambda lib, x: lib.nn.functional.softshrink(x, -1.0),
                (ones(2),),
                ("lambda",),
            )
        ],
    ),
    OpCase(
        "threshold",
        functional("threshold"),
        lambda rng, d: [
            Sample((normal(rng, s, d), *numbers))
            for s in ((), (5,), (2, 3))
            for numbers in ((0.25, 2.5), (1, 3))
        ],
        lambda x, bound, value: np.where(x <= x.dtype.type(bound), x.dtype.type(value), x),
        NUMBERS,
        differentiable=True,
        special=lambda d: [Sample((special_values(d), 0.5, 2.0))],
        empty=lambda d: [Sample((np.zeros((0, 3), d), 0.5, 2.0))],
        grad_points=[GradPoint((f64([-1, 0.5, 2]), 0.5, 4.0), (f64([0, 0, 1]),))],
        errors=[
            ErrorCase(
                "bool", NotImplementedError, functional("threshold"), (ones(2, dtype="bool"), 1, 2), ("Bool",)
            )
        ],
    ),
    activation(
        "celu",
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        ({}, {"alpha": 0.5}),  # a power of two: PyTorch rounds 1 / alpha to float32
        special_grads=False,  # PyTorch's own at NaN depends on the processor
        grad_points=[piece([0, 2], [1, 1])],
        errors=[
            ErrorCase(
                "alpha", RuntimeError, lambda lib, x: lib.nn.functional.celu(x, 0.0), (ones(2),), ("alpha",)
            )
        ],
    ),
    activation(
        "selu",
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        special_grads=False,  # PyTorch's own at NaN depends on the processor
        grad_points=[piece([2], [1.0507009873554805])],
    ),
    OpCase(
        "glu",
        functional("glu"),
        lambda rng, d: [
            Sample((normal(rng, shape, d),), kwargs)
            for shape, kwargs in (((4,), {}), ((2, 6), {}), ((4, 3), {"dim": 0}), ((2, 4, 3), {"dim": -2}))
        ],
        quiet(gated),
        differentiable=True,
        special=lambda d: [Sample((np.stack([special_values(d)] * 2),), {"dim": 0})],
        empty=lambda d: [Sample((np.zeros((0, 4), d),)), Sample((np.zeros((4, 0), d),))],
        tolerances={"float32": (5e-6, 1e-6), "float64": (1e-12, 1e-13)},
        errors=[
            ErrorCase("odd", RuntimeError, functional("glu"), (ones(3),), ("even", number(3))),
            ErrorCase("scalar", RuntimeError, functional("glu"), (ones(),), ("scalars",)),
            ErrorCase("dim", IndexError, functional("glu"), (ones(2), 3), (number(3),)),
        ],
    ),
    OpCase(
        "prelu",
        functional("prelu"),
        prelu_samples,
        prelu,
        differentiable=True,
        special=lambda d: [Sample((special_values(d), np.array([0.5], d)))],
        empty=lambda d: [Sample((np.zeros((0, 3), d), np.ones(3, d)))],
        grad_points=[GradPoint((f64([0, -2, 3]), f64([0.5])), (f64([0.5, 0.5, 1]), f64([-2])))],
        errors=[
            ErrorCase(
                "weights", RuntimeError, functional("prelu"), (ones(2, 3), ones(2)), (number(2), number(3))
            )
        ],
    ),
]

CASES = [*FUNCTIONS, *ROUNDING, *ACTIVATIONS]
