"""Rows for functions of elements: trigonometry, gamma and error functions, products added to something, bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from .bessel import airy_ai, bessel_j, bessel_k, bessel_y
from .common import (
    DTYPES,
    FLOATS,
    INTS,
    NUMBERS,
    Domain,
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
    i64,
    method,
    normal,
    on_clone,
    ones,
    positive,
    quiet,
    result_dtype,
    special_pairs,
    special_values,
    unary,
)
from .elementwise import one_operand

PROMOTED = (*FLOATS, "int64", "bool")


def between(low: float, high: float) -> Domain:
    """Floats of an interval, integers and truth values as they are."""

    def domain(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
        if dtype in FLOATS:
            return np.asarray(rng.uniform(low, high, shape)).astype(dtype)
        return np.ones(shape, dtype)

    return domain


def vectorized(f: Callable[..., float]) -> Callable[..., np.ndarray]:
    def guarded(*numbers: float) -> float:
        try:
            return f(*numbers)
        except (ValueError, OverflowError):
            return math.nan

    return np.vectorize(guarded, otypes=[np.float64])


def fractional(name: str, ref: Any, domain: Domain = normal, *aliases: str, **options: Any) -> OpCase:
    """A function of one number that gives floats."""
    forms = {alias: function(alias) for alias in aliases} | {f"method {a}": method(a) for a in aliases}
    return one_operand(
        name, elementwise(ref, result="float"), samples=unary(domain), forms=forms,
        tolerances={"float32": (5e-6, 2e-6), "float64": (1e-12, 1e-13)}, special_grads=False,
        **({"dtypes": PROMOTED} | options),
    )  # fmt: skip


def inside(*values: float) -> Callable[[str], list[Sample]]:
    """Special values of functions whose own ones differ from NumPy's elsewhere."""
    return lambda d: (
        [Sample((np.array([np.nan, *values], d if d in FLOATS else "float32"),))] if d in FLOATS else []
    )


TRIGONOMETRY = [
    fractional("tan", np.tan, between(-1.4, 1.4), special=inside(np.inf, 0.0, -0.0, 1.0, -3.0)),
    fractional("asin", np.arcsin, between(-0.95, 0.95), "arcsin"),
    fractional("acos", np.arccos, between(-0.95, 0.95), "arccos"),
    fractional("atan", np.arctan, normal, "arctan"),
    fractional("sinh", np.sinh),
    fractional("cosh", np.cosh),
    fractional("asinh", np.arcsinh, normal, "arcsinh"),
    fractional("acosh", np.arccosh, between(1.1, 5.0), "arccosh"),
    fractional("atanh", np.arctanh, between(-0.9, 0.9), "arctanh"),
    fractional("deg2rad", np.deg2rad),
    fractional("rad2deg", np.rad2deg),
    fractional("sinc", np.sinc, special=inside(0.0, -0.0, 0.5, -2.5)),
]

# --- gamma, error and Bessel functions --------------------------------------------------------------------------


@quiet
def digamma(x: np.ndarray) -> np.ndarray:
    y, total = np.array(x, np.longdouble), np.zeros(x.shape, np.longdouble)
    for _ in range(30):
        total, y = total - 1 / y, y + 1
    z = 1 / (y * y)
    return total + np.log(y) - 0.5 / y - z * (1 / 12 - z * (1 / 120 - z / 252))


@quiet
def zeta(s: Any, q: np.ndarray) -> np.ndarray:
    y, s = np.array(q, np.longdouble), np.asarray(s, np.longdouble)
    total = sum(((y + k) ** -s for k in range(40)), np.zeros(np.broadcast(s, y).shape, np.longdouble))
    w = y + 40
    return total + w**-s * (w / (s - 1) + 0.5 + s / w / 12 - s * (s + 1) * (s + 2) / w**3 / 720)


def incomplete_gamma(upper: bool) -> Callable[..., np.ndarray]:
    def value(a: Any, x: np.ndarray) -> np.ndarray:
        wide, a = np.asarray(x, np.longdouble), np.asarray(a, np.longdouble)
        whole = np.vectorize(lambda v: math.gamma(v) if v > 0 else np.inf, otypes=[float])(
            np.asarray(a, float)
        )
        term = np.ones(np.broadcast(wide, a).shape, np.longdouble) / a
        total = term.copy()
        for k in range(1, 90):
            term = term * wide / (a + k)
            total += term
        lower = wide**a * np.exp(-wide) * total / whole
        return np.asarray(1 - lower if upper else lower)

    return quiet(value)


def polygamma(n: int, x: np.ndarray) -> np.ndarray:
    wide = np.asarray(x, np.longdouble)
    value = digamma(wide) if n == 0 else (-1) ** (n + 1) * math.factorial(n) * zeta(n + 1, wide)
    return value.astype(x.dtype if x.dtype.kind == "f" else "float32")


def bessel(order: int, scaled: bool) -> Callable[..., np.ndarray]:
    def value(x: np.ndarray) -> np.ndarray:
        wide = np.asarray(x, np.longdouble)
        total = sum(
            (wide / 2) ** (2 * k + order) / (math.factorial(k) * math.factorial(k + order)) for k in range(40)
        )
        return total * np.exp(-abs(wide)) if scaled else np.asarray(total)

    return quiet(value)


def erfcx(x: float) -> float:
    return math.erfc(x) * math.exp(x * x)


def erfinv(y: float) -> float:
    x = NormalDist().inv_cdf((y + 1) / 2) / math.sqrt(2)
    return x - (math.erf(x) - y) / (2 / math.sqrt(math.pi) * math.exp(-x * x))


def ndtr(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def entr(x: float) -> float:
    return -x * math.log(x) if x > 0 else 0.0 if x == 0 else -math.inf if x < 0 else math.nan


FEW_ULPS = {"float32": (1e-5, 4e-6), "float64": (1e-12, 1e-13)}
FEWER_DIGITS = {"float32": (1e-5, 4e-6), "float64": (3e-6, 1e-6)}  # as many as PyTorch's own ones have


def special(name: str, ref: Any, domain: Domain = normal, **options: Any) -> OpCase:
    """A function of one number that stands in `special` alone."""
    return OpCase(
        f"special_{name}", lambda lib, x: getattr(lib.special, name)(x), unary(domain),
        elementwise(ref, result="float"), empty=empty_unary, special_grads=False,
        **({"dtypes": PROMOTED, "differentiable": True, "tolerances": FEW_ULPS} | options),
    )  # fmt: skip


def xlog1py(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log1p(y))


def polygamma_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [Sample((n, positive(rng, shape, dtype))) for n in (0, 1, 2, 5) for shape in ((), (2, 3))]


BESSEL = [
    special(
        name,
        ref,
        domain,
        differentiable=False,
        special=inside(*values),
        tolerances=FEWER_DIGITS,
    )
    for name, ref, domain, values in (
        ("bessel_j0", bessel_j(0), normal, (0.0, 0.5, -3.0, 9.0, -20.0)),
        ("bessel_j1", bessel_j(1), normal, (0.0, 0.5, -3.0, 9.0, -20.0)),
        ("bessel_y0", bessel_y(0), positive, (0.5, 3.0, 9.0, 20.0)),
        ("bessel_y1", bessel_y(1), positive, (0.5, 3.0, 9.0, 20.0)),
        *(
            (
                f"{kind}modified_bessel_k{order}",
                bessel_k(order, bool(kind)),
                positive,
                (0.5, 3.0, 20.0),
            )
            for kind in ("", "scaled_")
            for order in (0, 1)
        ),
        ("spherical_bessel_j0", lambda x: np.sinc(x / np.pi), normal, (0.0, 1.0, -9.0)),
        ("airy_ai", vectorized(airy_ai), normal, (0.0, 1.0, -1.0, -3.0, 5.0, -6.0)),
    )
]

NORMAL_SPECIALS = inside(0.0, 1.0, -1.0, 3.0, -8.0)

GAMMA = [
    fractional("erfc", vectorized(math.erfc)),
    fractional(
        "erfinv",
        vectorized(erfinv),
        between(-0.95, 0.95),
        dtypes=FLOATS,
        special=inside(0.5, -0.5, 0.9, -0.99),
    ),
    fractional(
        "lgamma", vectorized(math.lgamma), positive, special=inside(0.5, 1.0, 2.0, 3.5, 20.0, 1e4, -0.5, -2.5)
    ),
    fractional(
        "digamma",
        digamma,
        positive,
        torch_lacks=("gradients",),
        special=inside(0.5, 1.0, 2.0, 3.5, 20.0, 100.0, -0.5, -2.5),
    ),
    fractional("i0", bessel(0, False), special=inside(0.0, 0.5, -3.0, 9.0, -20.0)),
    special("i0e", bessel(0, True), special=inside(0.0, 0.5, -3.0, 9.0, -20.0)),
    special("i1", bessel(1, False), special=inside(0.0, 0.5, -3.0, 9.0, -20.0)),
    special("i1e", bessel(1, True), special=inside(0.0, 0.5, -3.0, 9.0, -20.0)),
    *BESSEL,
    special("erfcx", vectorized(erfcx), special=NORMAL_SPECIALS),
    special("entr", vectorized(entr), positive, special=inside(0.0, 1.0, -1.0, 3.0)),
    special("ndtr", vectorized(ndtr), special=NORMAL_SPECIALS),
    special("log_ndtr", vectorized(lambda x: math.log(ndtr(x))), special=NORMAL_SPECIALS),
    special(
        "ndtri",
        vectorized(NormalDist().inv_cdf),
        between(0.05, 0.95),
        dtypes=FLOATS,
        special=inside(0.5, 0.001, 0.999, 1e-30),
    ),
    OpCase(
        "polygamma",
        function("polygamma"),
        polygamma_samples,
        polygamma,
        dtypes=PROMOTED,
        torch_lacks=("gradients",),
        differentiable=True,
        forms={
            "method": lambda lib, n, x: x.polygamma(n),
            "special": lambda lib, n, x: lib.special.polygamma(n, x),
        },
        tolerances={"float32": (2e-5, 2e-6), "float64": (1e-9, 1e-12)},  # as exact as PyTorch's trigamma
        errors=[
            ErrorCase(
                "negative",
                RuntimeError,
                lambda lib, x: lib.polygamma(-1, x),
                (ones(2),),
                ("polygamma", "negative"),
            )
        ],
    ),
    OpCase(
        "mvlgamma",
        lambda lib, x, p: lib.mvlgamma(x + 2, p),
        lambda rng, d: [Sample((positive(rng, shape, d), p)) for p in (1, 3) for shape in ((), (2, 3))],
        lambda x, p: np.asarray(
            sum(vectorized(math.lgamma)(x.astype(np.float64) + 2 - k / 2) for k in range(p))
            + p * (p - 1) * math.log(math.pi) / 4
        ).astype(x.dtype),
        differentiable=True,
        forms={"method": lambda lib, x, p: (x + 2).mvlgamma(p)},
        tolerances={"float32": (1e-5, 4e-6), "float64": (1e-12, 1e-13)},
        errors=[
            ErrorCase("p", RuntimeError, lambda lib, x: lib.mvlgamma(x, 0), (ones(2),), ("mvlgamma", "p"))
        ],
    ),
    *(
        OpCase(
            name,
            lambda lib, a, x, name=name: getattr(lib, name)(a, x),
            lambda rng, d: [
                Sample((between(0.25, 6)(rng, a, d), positive(rng, b, d)))
                for a, b in (((2, 3), (3,)), ((), (2,)))
            ],
            elementwise(incomplete_gamma(upper), result="float"),
            differentiable=True,
            grad_args=(1,),
            empty=empty_pairs,
            tolerances={"float32": (1e-5, 1e-6), "float64": (1e-11, 1e-12)},
            torch_lacks=("gradients",),
        )
        for name, upper in (("igamma", False), ("igammac", True))
    ),
    OpCase(
        "special_zeta",
        lambda lib, s, q: lib.special.zeta(s, q),
        lambda rng, d: [
            Sample((between(1.5, 4)(rng, a, d), positive(rng, b, d))) for a, b in (((2, 3), (3,)), ((), (2,)))
        ],
        elementwise(zeta, result="float"),
        differentiable=True,
        grad_args=(1,),
        empty=empty_pairs,
        tolerances={"float32": (1e-5, 1e-6), "float64": (1e-12, 1e-13)},
        torch_lacks=("gradients",),
    ),
    OpCase(
        "special_xlog1py",
        lambda lib, x, y: lib.special.xlog1py(x, y),
        binary(positive, scalars=(2, 1.5)),
        elementwise(xlog1py, result="float"),
        dtypes=NUMBERS,
        differentiable=True,
        special=special_pairs,
        special_grads=False,
        empty=empty_pairs,
    ),
]

# --- two operands -----------------------------------------------------------------------------------------------


def two(name: str, ref: Any, first: Domain = normal, second: Domain | None = None, **options: Any) -> OpCase:
    options = {
        "dtypes": FLOATS,
        "differentiable": True,
        "special": special_pairs,
        "result": "float",
    } | options
    result = options.pop("result")
    forms = {"method": method(name)} | options.pop("forms", {})
    return OpCase(
        name, function(name), binary(first, second), elementwise(ref, result=result), forms=forms, empty=empty_pairs,
        errors=[cannot_broadcast(name, function(name), options["dtypes"][0]), *options.pop("errors", ())], **options,
    )  # fmt: skip


def one_sided(name: str) -> OpCase:
    choose = np.fmax if name == "fmax" else np.fmin
    first = f64([1, 0, 1, 0]) if name == "fmax" else f64([1, 1, 0, 0])
    return two(
        name, choose, dtypes=DTYPES, result="same", zero_signs=False,
        grad_points=[GradPoint((f64([1, 1, 0, np.nan]), f64([1, 2, -1, 1])), (first, 1 - first))],
    )  # fmt: skip


def logaddexp2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.logaddexp2(a, b)


def heaviside_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    return [
        Sample((np.round(normal(rng, a, dtype)), normal(rng, b, dtype)))
        for a, b in (((2, 3), (3,)), ((4,), (4,)))
    ]


TWO = [
    two(
        "atan2",
        np.arctan2,
        dtypes=PROMOTED,
        forms={"arctan2": function("arctan2")},
        special_grads=False,
        tolerances={"float32": (5e-6, 1e-6)},
    ),
    two("hypot", np.hypot, special_grads=False),
    two("copysign", np.copysign, dtypes=PROMOTED, special_grads=False),
    two("logaddexp", np.logaddexp, special_grads=False),
    two("logaddexp2", logaddexp2, special_grads=False),
    one_sided("fmax"),
    one_sided("fmin"),
    two("gcd", np.gcd, dtypes=INTS, result="same", differentiable=False, special=None),
    two("lcm", np.lcm, dtypes=INTS, result="same", differentiable=False, special=None),
    two(
        "bitwise_left_shift",
        np.left_shift,
        normal,
        positive,
        dtypes=INTS,
        result="same",
        differentiable=False,
        special=None,
    ),
    two(
        "bitwise_right_shift",
        np.right_shift,
        normal,
        positive,
        dtypes=INTS,
        result="same",
        differentiable=False,
        special=None,
    ),
    OpCase(
        "heaviside",
        function("heaviside"),
        heaviside_samples,
        lambda x, v: np.where(x == 0, v, np.where(x > 0, 1, 0)).astype(x.dtype),
        dtypes=NUMBERS,
        forms={"method": method("heaviside")},
        empty=empty_pairs,
        errors=[
            ErrorCase(
                "dtypes",
                RuntimeError,
                function("heaviside"),
                (ones(2), ones(2, dtype="float64")),
                ("heaviside", "float32", "float64"),
            )
        ],
    ),
    OpCase(
        "ldexp",
        function("ldexp"),
        lambda rng, d: [Sample((normal(rng, (2, 3), d), positive(rng, (3,), d)))],
        elementwise(lambda x, e: x * 2.0**e, result="float"),
        differentiable=True,
        forms={"method": method("ldexp")},
        empty=empty_pairs,
    ),
    OpCase(
        "float_power",
        function("float_power"),
        binary(positive, scalars=(2, 0.5)),
        lambda x, y: np.float_power(x, y).astype("float64"),
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("float_power")},
        empty=empty_pairs,
        tolerances={"float64": (1e-12, 1e-13)},
    ),
]

# --- three and more ---------------------------------------------------------------------------------------------


@quiet
def lerp(x: Any, end: Any, weight: Any) -> np.ndarray:
    wide = [np.asarray(v, np.float64) for v in (x, end, weight)]
    return np.asarray(wide[0] + wide[2] * (wide[1] - wide[0])).astype(x.dtype)


def lerp_samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
    shapes = (((2, 3), (2, 3), (2, 3)), ((2, 1), (3,), (2, 3)), ((), (2,), ()))
    tensors = [Sample(tuple(normal(rng, s, dtype) for s in three)) for three in shapes]
    return tensors + [
        Sample((normal(rng, (2, 3), dtype), normal(rng, (3,), dtype), w)) for w in (0.25, 0.75, 2)
    ]


def product_samples(second: Domain) -> Any:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        shapes = (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), (3,)), ((2, 3), (), (2, 1)))
        found = [
            Sample((normal(rng, a, dtype), normal(rng, b, dtype), second(rng, c, dtype)))
            for a, b, c in shapes
        ]
        return [
            *found,
            Sample(found[0].args, {"value": 2}),
            *([Sample(found[1].args, {"value": 0.5})] if dtype in FLOATS else []),
        ]

    return samples


def product_ref(combine: Any) -> Any:
    def ref(x: np.ndarray, a: np.ndarray, b: np.ndarray, value: Any = 1) -> np.ndarray:
        dtype = result_dtype(x, a, b)
        wide = np.float64 if dtype in FLOATS else dtype
        return np.asarray(x.astype(wide) + combine(value * a.astype(wide), b.astype(wide))).astype(dtype)

    return quiet(ref)


@quiet
def logit(x: np.ndarray, eps: Any = None) -> np.ndarray:
    wide = x.astype(np.float64) if eps is None else np.clip(x.astype(np.float64), eps, 1 - eps)
    return np.asarray(np.log(wide / (1 - wide))).astype(x.dtype if x.dtype.kind == "f" else "float32")


def nan_to_num(x: np.ndarray, nan: Any = None, posinf: Any = None, neginf: Any = None) -> np.ndarray:
    return np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf).astype(x.dtype)


MORE = [
    OpCase(
        "lerp",
        function("lerp"),
        lerp_samples,
        lerp,
        differentiable=True,
        forms={"method": method("lerp")},
        empty=lambda d: [Sample((np.zeros((0, 3), d), np.zeros(3, d), 0.5))],
        tolerances={"float32": (5e-6, 2e-6)},
        errors=[
            ErrorCase(
                "dtypes",
                RuntimeError,
                function("lerp"),
                (ones(2), ones(2, dtype="float64"), 0.5),
                ("lerp", "end", "float64|double"),
            ),
            ErrorCase(
                "shapes",
                RuntimeError,
                function("lerp"),
                (ones(2, 3), ones(2, 4), 0.5),
                ("lerp", bracketed(2, 3), bracketed(2, 4)),
            ),
            ErrorCase(
                "type", TypeError, function("lerp"), (ones(2), ones(2), "text"), ("lerp", "weight", "str")
            ),
        ],
    ),
    OpCase(
        "addcmul",
        function("addcmul"),
        product_samples(normal),
        product_ref(np.multiply),
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("addcmul")},
        empty=lambda d: [Sample((np.zeros((0, 3), d), np.zeros(3, d), np.zeros(1, d)))],
        tolerances={"float32": (5e-6, 2e-6)},
        errors=[
            ErrorCase(
                "type", TypeError, function("addcmul"), (ones(2), 2, ones(2)), ("addcmul", "tensor1", "int")
            ),
        ],
    ),
    OpCase(
        "addcdiv",
        function("addcdiv"),
        product_samples(positive),
        product_ref(np.divide),
        differentiable=True,
        forms={"method": method("addcdiv")},
        empty=lambda d: [Sample((np.zeros((0, 3), d), np.zeros(3, d), np.ones(1, d)))],
        tolerances={"float32": (5e-6, 2e-6)},
        errors=[
            ErrorCase(
                "integers",
                RuntimeError,
                function("addcdiv"),
                (i64([1]), i64([1]), i64([1])),
                ("addcdiv", "[Ii]nteger"),
            )
        ],
    ),
    OpCase(
        "logit",
        function("logit"),
        lambda rng, d: [
            Sample((between(0.05, 0.95)(rng, s, d),), k) for k in ({}, {"eps": 0.2}) for s in ((), (2, 3))
        ],
        logit,
        differentiable=True,
        forms={"method": method("logit"), "special": lambda lib, x, **k: lib.special.logit(x, **k)},
        special=lambda d: [
            Sample((np.array([np.nan, 0.0, 1.0, 2.0, -1.0], d),), k) for k in ({}, {"eps": 0.1})
        ],
        special_grads=False,
        empty=empty_unary,
        tolerances={"float32": (5e-6, 2e-6)},
    ),
    OpCase(
        "nan_to_num",
        function("nan_to_num"),
        lambda rng, d: [
            Sample((normal(rng, s, d),), k) for k in ({}, {"nan": 1.5, "posinf": 2.0}) for s in ((), (2, 3))
        ],
        nan_to_num,
        dtypes=DTYPES,
        differentiable=True,
        forms={"method": method("nan_to_num")},
        special=lambda d: [
            Sample((special_values(d),), k) for k in ({}, {"nan": 1.5, "posinf": 2.0, "neginf": -3.0})
        ],
        empty=empty_unary,
    ),
]


# --- signs and tests of values -----------------------------------------------------------------------------------


def test_of_values(name: str, ref: Any) -> OpCase:
    return one_operand(name, quiet(lambda x: np.asarray(ref(x))), differentiable=False)


def clamp_row(name: str, choose: Any) -> OpCase:
    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        return [
            Sample((normal(rng, (2, 3), dtype), 1)),
            Sample((normal(rng, (2, 3), dtype), normal(rng, (3,), dtype))),
        ]

    def ref(x: np.ndarray, bound: Any) -> np.ndarray:
        return np.asarray(choose(x, np.asarray(bound).astype(x.dtype)))

    return OpCase(
        name, function(name), samples, ref, NUMBERS, differentiable=True, forms={"method": method(name)}
    )


TESTS = [
    one_operand(
        "frac", elementwise(lambda x: x - np.trunc(x)), dtypes=FLOATS, special=inside(0.5, -1.5, 3.0)
    ),
    test_of_values("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0),
    test_of_values("isposinf", lambda x: x == np.inf),
    test_of_values("isneginf", lambda x: x == -np.inf),
    test_of_values("isreal", lambda x: np.ones(x.shape, bool)),
    OpCase(
        "positive",
        function("positive"),
        unary(),
        lambda x: x,
        dtypes=NUMBERS,
        differentiable=True,
        forms={"method": method("positive")},
        view=True,
        errors=[ErrorCase("bool", RuntimeError, function("positive"), (b8([True]),), ("positive", "bool"))],
    ),
    clamp_row("clamp_min", np.maximum),
    clamp_row("clamp_max", np.minimum),
]


# --- in place ----------------------------------------------------------------------------------------------------


def written(name: str, samples: Any, ref: Any, **options: Any) -> OpCase:
    return OpCase(
        name, on_clone(method(name)), samples, ref, inplace=method(name), differentiable=True,
        tolerances={"float32": (1e-5, 4e-6), "float64": (1e-12, 1e-13)}, **options,
    )  # fmt: skip


def first_largest(samples: Any) -> Any:
    """Samples whose first operand has the shape of the result."""

    def chosen(rng: np.random.Generator, dtype: str) -> list[Sample]:
        return [
            s for s in samples(rng, dtype)
            if np.broadcast_shapes(*(a.shape for a in s.arrays())) == s.args[0].shape
        ]  # fmt: skip

    return chosen


IN_PLACE = [
    written("lerp_", first_largest(lerp_samples), lerp),
    written("addcmul_", first_largest(product_samples(normal)), product_ref(np.multiply)),
    written("addcdiv_", first_largest(product_samples(positive)), product_ref(np.divide)),
    written("logit_", lambda rng, d: [Sample((between(0.05, 0.95)(rng, (2, 3), d),))], logit),
    written("nan_to_num_", lambda rng, d: [Sample((normal(rng, (2, 3), d),))], nan_to_num),
    written("atan2_", first_largest(binary()), elementwise(np.arctan2)),
    written(
        "clamp_min_",
        lambda rng, d: [Sample((normal(rng, (2, 3), d), 1))],
        lambda x, b: np.maximum(x, x.dtype.type(b)),
    ),
    written(
        "clamp_max_",
        lambda rng, d: [Sample((normal(rng, (2, 3), d), 1))],
        lambda x, b: np.minimum(x, x.dtype.type(b)),
    ),
    written(
        "fmod_",
        lambda rng, d: [Sample((normal(rng, (2, 3), d), positive(rng, (3,), d)))],
        elementwise(np.fmod),
    ),
    written(
        "ldexp_",
        lambda rng, d: [Sample((normal(rng, (2, 3), d), positive(rng, (3,), d)))],
        elementwise(lambda x, e: x * 2.0**e),
    ),
    written(
        "polygamma_", lambda rng, d: [Sample((positive(rng, (2, 3), d), 2))], lambda x, n: polygamma(n, x)
    ),
    written(
        "mvlgamma_",
        lambda rng, d: [Sample((positive(rng, (2, 3), d), 1))],
        lambda x, p: vectorized(math.lgamma)(x).astype(x.dtype),
    ),
    OpCase(
        "float_power_",
        on_clone(method("float_power_")),
        lambda rng, d: [Sample((positive(rng, (2, 3), d), 2))],
        lambda x, e: x**e,
        dtypes=("float64",),
        inplace=method("float_power_"),
        differentiable=True,
        errors=[
            ErrorCase(
                "dtype", RuntimeError, method("float_power_"), (ones(2), 2), ("float_power_", "Float|float32")
            )
        ],
    ),
    OpCase(
        "heaviside_",
        on_clone(method("heaviside_")),
        lambda rng, d: [heaviside_samples(rng, d)[0]],
        lambda x, v: np.where(x == 0, v, np.where(x > 0, 1, 0)).astype(x.dtype),
        inplace=method("heaviside_"),
    ),
]

CASES = [*TRIGONOMETRY, *GAMMA, *TWO, *MORE, *TESTS, *IN_PLACE]
