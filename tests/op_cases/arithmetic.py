"""Rows for sums, products, quotients and powers."""

from __future__ import annotations

import operator as op
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
    b8,
    binary,
    cannot_broadcast,
    elementwise,
    empty_pairs,
    f64,
    function,
    i64,
    method,
    nonzero,
    normal,
    ones,
    operator,
    positive,
    quiet,
    scalar_first,
    special_pairs,
    special_values,
    wrong_type,
)

# --- arithmetic on two operands -------------------------------------------------------------------------


def exact_division_specials(dtype: str) -> list[Sample]:
    """Quotients with every sign and remainder; integers without a zero divisor."""
    if dtype in FLOATS:
        return special_pairs(dtype)
    info = np.iinfo(dtype)
    values = np.array([0, 1, 6, 7, info.max, info.min + 1], dtype)
    if dtype == "uint8":
        return [Sample((values[:, None].copy(), np.array([1, 2, 3, 255], dtype)))]
    values = np.concatenate([values, -values])
    return [Sample((values[:, None].copy(), np.array([1, 2, 3, -2, -3], dtype)))]


@quiet
def floor_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.floor_divide(a, b)


@quiet
def truncated_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    return (np.sign(a) * np.sign(b) * (abs(a) // abs(b))).astype(a.dtype)


def rounded_division(a: Any, b: Any, *, rounding_mode: str | None) -> np.ndarray:
    quotient = {"floor": floor_quotient, "trunc": truncated_quotient, None: np.true_divide}[rounding_mode]
    return elementwise(quotient, result="same" if rounding_mode else "float", wide=False)(a, b)


def zero_divisor(name: str, call: Any) -> ErrorCase:
    return ErrorCase("zero", RuntimeError, call, (i64([4, 5]), i64([2, 0])), (name, "zero|ZeroDivision"))


def rounding_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [
        Sample(s.args, {"rounding_mode": mode})
        for mode in ("floor", "trunc", None)
        for s in binary(normal, nonzero, scalars=(2,))(rng, dtype)
    ]


def alpha_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    alpha = 0.75 if dtype in FLOATS else 3
    return [Sample(s.args, {"alpha": alpha}) for s in binary(scalars=(2,))(rng, dtype)]


def alpha_ref(sign: int) -> Any:
    def ref(a: Any, b: Any, *, alpha: Any) -> np.ndarray:
        def scaled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            product = np.asarray(alpha).astype(y.dtype) * y
            return x + product if sign > 0 else x - product

        return elementwise(scaled)(a, b)

    return ref


def alpha_error(name: str) -> ErrorCase:
    return ErrorCase(
        "alpha",
        RuntimeError,
        lambda lib, a, b: getattr(lib, name)(a, b, alpha=1.5),
        (ones(2, dtype="int64"), ones(2, dtype="int64")),
        (name, "alpha", "int64|[Ii]nteg"),
    )


def arithmetic(
    name: str,
    python: Any,
    ref: Any,
    *,
    aliases: tuple[str, ...] = (),
    reflected: Any = (2, 1.5),
    **options: Any,
) -> list[OpCase]:
    """The op as function, method and operator, and with a Python number on the left."""
    forms = {"method": method(name), "operator": operator(python)}
    forms |= {alias: function(alias) for alias in aliases} | {f"method {a}": method(a) for a in aliases}
    errors = [
        cannot_broadcast(name, operator(python)),
        wrong_type(rf"{name}|unsupported operand", operator(python)),
        wrong_type(name, function(name), "type of argument"),
        *options.pop("errors", ()),
    ]
    options = {"special": special_pairs, "empty": empty_pairs, "differentiable": True} | options
    divisor = options.pop("divisor", normal)
    main = OpCase(name, function(name), ref=ref, forms=forms, errors=errors, **options)
    left = OpCase(
        f"{name}.scalar_first",
        operator(python),
        scalar_first(divisor, reflected),
        ref,
        dtypes=main.dtypes,
        differentiable=main.differentiable,
        torch_lacks=("gradients",) if name == "remainder" else (),
    )
    return [main, left]


BOOL_MINUS = [
    ErrorCase(
        "bool", RuntimeError, operator(op.sub), (b8([True]), b8([True])), ("sub", "bool", r"\^|logical_xor")
    ),
    ErrorCase(
        "1 - bool", RuntimeError, lambda lib, x: 1 - x, (b8([True]),), ("sub", "bool", "~|logical_not")
    ),
]

ARITHMETIC = [
    *arithmetic(
        "add",
        op.add,
        elementwise(np.add),
        dtypes=DTYPES,
        samples=binary(scalars=(2, -1.5, True)),
        errors=[alpha_error("add")],
    ),
    *arithmetic(
        "sub",
        op.sub,
        elementwise(np.subtract),
        aliases=("subtract",),
        dtypes=NUMBERS,
        samples=binary(scalars=(2, -1.5)),
        errors=[alpha_error("sub"), *BOOL_MINUS],
    ),
    *arithmetic(
        "mul",
        op.mul,
        elementwise(np.multiply),
        aliases=("multiply",),
        dtypes=DTYPES,
        samples=binary(scalars=(3, -1.5, True)),
    ),
    *arithmetic(
        "div",
        op.truediv,
        elementwise(np.true_divide, result="float"),
        aliases=("divide", "true_divide"),
        dtypes=DTYPES,
        samples=binary(normal, nonzero, scalars=(2, -1.5)),
        divisor=nonzero,
        errors=[
            ErrorCase(
                "rounding_mode",
                RuntimeError,
                lambda lib, x: lib.div(x, 2, rounding_mode="up"),
                (ones(2),),
                ("div", "rounding_mode", "up", "floor", "trunc"),
            ),
        ],
    ),
    *arithmetic(
        "floor_divide",
        op.floordiv,
        elementwise(floor_quotient, wide=False),
        dtypes=NUMBERS,
        samples=binary(normal, nonzero, scalars=(2, 1.5)),
        divisor=nonzero,
        differentiable=False,
        special=exact_division_specials,
        errors=[zero_divisor("floor_divide", operator(op.floordiv))],
    ),
    *arithmetic(
        "remainder",
        op.mod,
        elementwise(np.remainder, wide=False),
        dtypes=NUMBERS,
        samples=binary(normal, nonzero, scalars=(2, 1.5)),
        divisor=nonzero,
        special=exact_division_specials,
        errors=[zero_divisor("remainder", operator(op.mod))],
        tolerances={"float32": (1e-5, 1e-6), "float64": (1e-13, 1e-14)},
    ),
    OpCase(
        "fmod",
        function("fmod"),
        binary(normal, nonzero, scalars=(2, 1.5)),
        elementwise(np.fmod, wide=False),
        dtypes=NUMBERS,
        forms={"method": method("fmod")},
        differentiable=True,
        special=exact_division_specials,
        empty=empty_pairs,
        errors=[
            cannot_broadcast("fmod", function("fmod")),
            wrong_type("fmod", function("fmod")),
            zero_divisor("fmod", function("fmod")),
        ],
    ),
    OpCase(
        "add.alpha",
        function("add"),
        alpha_samples,
        alpha_ref(1),
        dtypes=NUMBERS,
        forms={"method": method("add")},
        differentiable=True,
    ),
    OpCase(
        "sub.alpha",
        function("sub"),
        alpha_samples,
        alpha_ref(-1),
        dtypes=NUMBERS,
        forms={"method": method("sub")},
        differentiable=True,
    ),
    OpCase(
        "div.rounding_mode",
        function("div"),
        rounding_samples,
        rounded_division,
        dtypes=NUMBERS,
        forms={"method": method("div")},
        differentiable=True,
        special=lambda dtype: [
            Sample(s.args, {"rounding_mode": mode})
            for mode in ("floor", "trunc")
            for s in exact_division_specials(dtype)
        ],
        errors=[zero_divisor("div", lambda lib, a, b: a.div(b, rounding_mode="trunc"))],
    ),
]


# --- pow ------------------------------------------------------------------------------------------------

POW_FORMS = {"method": method("pow"), "operator": operator(op.pow)}
POW_TOLERANCES = {"float32": (5e-6, 1e-6), "float64": (1e-13, 1e-14)}


def small_exponents(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    return (
        normal(rng, shape, dtype) if dtype in FLOATS else np.asarray(rng.integers(0, 4, shape)).astype(dtype)
    )


def scalar_exponents(rng: np.random.Generator, dtype: str) -> list[Sample]:
    exponents: tuple[Any, ...] = (2, 3, 0, 1, 2.5, 0.5) + ((-1, -2.0) if dtype in FLOATS else ())
    return [Sample((positive(rng, (2, 3), dtype), e)) for e in exponents]


def special_exponents(dtype: str) -> list[Sample]:
    if dtype not in FLOATS:
        return []
    # Not 1.5: its derivative is a power of 0.5, for which torch takes the root; that of -inf and -0 is another one.
    return [Sample((special_values(dtype), e)) for e in (2, 3, 0, 1, -1, 0.0, 2.5, -2.0)]


power = elementwise(np.power)

POW = [
    OpCase(
        "pow",
        function("pow"),
        binary(positive, small_exponents),
        power,
        dtypes=NUMBERS,
        forms=POW_FORMS,
        differentiable=True,
        special=lambda d: special_pairs(d) if d in FLOATS else [],
        empty=empty_pairs,
        grad_points=[GradPoint((f64([0, 0, 2]), f64([2, 0, 0])), (f64([0, 0, 0]), f64([0, 0, np.log(2)])))],
        errors=[
            cannot_broadcast("pow", operator(op.pow)),
            wrong_type("pow|unsupported operand", operator(op.pow)),
        ],
        tolerances=POW_TOLERANCES,
    ),
    OpCase(
        "pow.scalar",
        function("pow"),
        scalar_exponents,
        power,
        dtypes=NUMBERS,
        forms=POW_FORMS,
        differentiable=True,
        special=special_exponents,
        tolerances=POW_TOLERANCES,
        grad_points=[
            GradPoint((f64([0, -3]), 0), (f64([0, 0]),)),
            GradPoint((f64([0, -3]), 1), (f64([1, 1]),)),
            GradPoint((f64([0, -3]), 2), (f64([0, -6]),)),
        ],
        errors=[
            ErrorCase(
                "negative",
                RuntimeError,
                lambda lib, x: x**-1,
                (i64([1, 2]),),
                ("pow|power", "[Ii]nteg", "negative"),
            ),
        ],
    ),
    OpCase(
        "pow.scalar_first",
        function("pow"),
        scalar_first(small_exponents, (2, 2.5, 1)),
        power,
        dtypes=NUMBERS,
        forms={"operator": operator(op.pow)},
        differentiable=True,
        tolerances=POW_TOLERANCES,
        special=lambda d: (
            [Sample((base, special_values(d))) for base in (2.0, 0.0, 0.5)] if d in FLOATS else []
        ),
    ),
]

CASES = [*ARITHMETIC, *POW]
