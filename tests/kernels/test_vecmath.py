"""The scalar mathematics of compiled loops: accuracy, special values, integers' limits, generated code.

Functions are called as kernels call them, in a loop over raw pointers. References have at least 11 more bits
than the dtype under test. Nothing here is timed.
"""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from numba import njit, types

import fastgrad as fg
from fastgrad.kernels import vecmath
from fastgrad.kernels.vecmath import BOOL, F32, F64, INT

NUMBA = {np.dtype(t.name): t for t in (types.float32, types.float64, types.int64, types.int32, types.uint8)}
NUMBA[np.dtype(bool)] = types.uint8  # how booleans lie in memory
F32_DTYPE, F64_DTYPE = np.dtype("float32"), np.dtype("float64")
SPACES = {F32_DTYPE: F32, F64_DTYPE: F64}
WIDER = {F32_DTYPE: np.float64, F64_DTYPE: np.longdouble}
WIDE = np.longdouble
KERNEL_FLAGS = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
FLOATS = pytest.mark.parametrize("dtype", [F32_DTYPE, F64_DTYPE], ids=str)
WHERE_DTYPES = [np.dtype(t) for t in ("float32", "float64", "int64", "int32", "uint8", "bool")]
INTEGERS = pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("int64", "int32", "uint8")], ids=str)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow and invalid values


def words(space):
    """The names that a namespace offers."""
    return {name for name in vars(space) if not name.startswith("_")}


class Loop:
    """``out[i] = function(inputs[0][i], ...)`` over pointers, with its optimised IR."""

    def __init__(self, function, inputs, output):
        pointers = [types.CPointer(NUMBA[d]) for d in (*inputs, output)]
        self.output = output
        self.arity = len(inputs)
        bodies = {1: _loop1, 2: _loop2, 3: _loop3}
        signature = types.void(*pointers, types.int64)
        dispatcher = njit(signature, **KERNEL_FLAGS)(bodies[self.arity](function))
        self.compiled = dispatcher.overloads[dispatcher.signatures[0]]
        address = self.compiled.library.get_pointer_to_function(self.compiled.fndesc.llvm_func_name)
        words = [ctypes.c_void_p] * (2 + len(pointers))  # two for what Numba returns
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int, *words, ctypes.c_int64)(address)

    @property
    def ir(self):
        return self.compiled.library.get_llvm_str()

    def __call__(self, *arrays):
        arrays = [np.ascontiguousarray(a) for a in np.broadcast_arrays(*arrays)]
        out = np.empty(arrays[0].shape, self.output)
        words = np.zeros(2, np.int64)
        where = [a.ctypes.data for a in (words[:1], words[1:], *arrays, out)]
        assert self.entry(*where, out.size) in (0, -2)
        return out


def _loop1(f):
    def loop(a, out, n):
        for i in range(n):
            out[i] = f(a[i])

    return loop


def _loop2(f):
    def loop(a, b, out, n):
        for i in range(n):
            out[i] = f(a[i], b[i])

    return loop


def _loop3(f):
    def loop(a, b, c, out, n):
        for i in range(n):
            out[i] = f(a[i], b[i], c[i])

    return loop


@functools.cache
def loop_of(function, dtype, arity=1, output=None):
    return Loop(function, (dtype,) * arity, output or dtype)


# --- references ---------------------------------------------------------------------------------------------


def _sigmoid(x):
    z = np.exp(-abs(x))
    return np.where(x >= 0, 1 / (1 + z), z / (1 + z))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


# 2 / sqrt(pi) to 51 digits.
TWO_OVER_ROOT_PI = Fraction(1128379167095512573896158903121545171688101258657997, 10**51)


def _exact_erf(x):
    """The Taylor series in 240-bit fixed point; its first term for tiny x; one beyond 6.5."""
    if abs(x) < 1e-40:
        return Fraction(*x.as_integer_ratio()) * TWO_OVER_ROOT_PI
    if abs(x) > 6.5:
        return Fraction(int(math.copysign(1, x)))
    one = 1 << 240
    fixed = int(Fraction(*x.as_integer_ratio()) * one)
    square, power, total, k = fixed * fixed // one, fixed, 0, 0
    while power not in (0, -1):
        total += (-1) ** k * power // (2 * k + 1)
        k += 1
        power = power * square // (one * k)
    return Fraction(total, one) * TWO_OVER_ROOT_PI


def _erf(x):
    exact = [_exact_erf(v) for v in x]
    high = np.array([float(v) for v in exact])
    low = np.array([float(v - Fraction(h)) for v, h in zip(exact, high.tolist(), strict=True)])
    return x.dtype.type(high) + low


REFERENCES = {
    "exp": np.exp, "expm1": np.expm1, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "log2": np.log2,
    "log10": np.log10, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
    "tanh": np.tanh, "sigmoid": _sigmoid, "softplus": _softplus, "sin": np.sin, "cos": np.cos, "erf": _erf,
}  # fmt: skip

# Function: largest error allowed in ulp, and where most of the points lie.
ACCURACY = {
    "exp": (1.1, -105, 90), "expm1": (1.15, -18, 20), "exp2": (0.9, -12, 12),
    "log": (0.9, 0.3, 3), "log1p": (1.0, -0.9, 3), "log2": (1.2, 0.3, 3), "log10": (1.1, 0.3, 3),
    "sqrt": (0.5, 0, 4), "rsqrt": (1.5, 0, 4), "reciprocal": (0.5, -4, 4),
    "tanh": (1.1, -3, 3), "sigmoid": (2.5, -20, 20), "softplus": (1.75, -20, 20),
    "sin": (0.9, -100, 100), "cos": (0.9, -100, 100),
}  # fmt: skip


def bit_patterns(dtype, count):
    """Finite numbers of every exponent and both signs."""
    last = 2 ** (8 * dtype.itemsize) - 1
    step = last // count | 1
    bits = np.arange(count, dtype=np.uint64) * np.uint64(step)
    numbers = bits.astype(f"uint{8 * dtype.itemsize}").view(dtype)
    return numbers[np.isfinite(numbers)]


def ulps(got, exact):
    """The distance in units in the last place of the exact value rounded to the dtype of `got`."""
    nearest = exact.astype(got.dtype)
    unit = np.spacing(np.abs(nearest)).astype(exact.dtype)
    error = np.abs(got.astype(exact.dtype) - exact) / unit
    same = (np.isnan(got) & np.isnan(nearest)) | (np.isinf(nearest) & (got == nearest))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def assert_within(limit, got, exact, *arguments):
    errors = ulps(got, exact)
    worst = int(np.argmax(errors))
    at, error = [a[worst] for a in arguments], float(errors[worst])
    assert error <= limit, f"{error:.3f} ulp at {at}: {got[worst]!r} for {exact[worst]!r}"


def _needs_wide(dtype):
    if dtype == F64_DTYPE and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("no type wider than float64 here")


# --- accuracy -----------------------------------------------------------------------------------------------


@FLOATS
@pytest.mark.parametrize("name", ACCURACY)
def test_error_in_ulp(name, dtype):
    _needs_wide(dtype)
    limit, low, high = ACCURACY[name]
    function = loop_of(getattr(SPACES[dtype], name), dtype)
    for x in (
        bit_patterns(dtype, 200_003),
        np.linspace(low, high, 200_003).astype(dtype),
        np.linspace(low / 32, high / 32, 50_003).astype(dtype),
    ):
        assert_within(limit, function(x), REFERENCES[name](x.astype(WIDER[dtype])), x)


@FLOATS
def test_error_of_exponentials_at_most_1(dtype):
    _needs_wide(dtype)
    function = loop_of(SPACES[dtype].exp_of_negative, dtype)
    for x in (-np.abs(bit_patterns(dtype, 200_003)), np.linspace(-760, 0, 200_003).astype(dtype)):
        assert_within(1.1, function(x), np.exp(x.astype(WIDER[dtype])), x)
    assert np.isnan(function(np.full(40, np.nan, dtype))).all()
    assert (function(np.full(40, -np.inf, dtype)) == 0).all()


@FLOATS
def test_erf_error_in_ulp(dtype):
    _needs_wide(dtype)
    grids = [bit_patterns(dtype, 997), np.linspace(-6.2, 6.2, 2503), np.linspace(0.8, 1.1, 501)]
    x = np.concatenate(grids).astype(dtype)
    got = loop_of(SPACES[dtype].erf, dtype)(x)
    assert_within(1.2 if dtype == F32_DTYPE else 1.0, got, _erf(x.astype(WIDER[dtype])), x)


def _normal_density(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * WIDE(np.pi) + WIDE(2.4492935982947064e-16))


def _normal_cdf(x):
    """By the error function in the middle, and by the continued fraction of Mills's ratio."""
    a, rest = abs(x), 0
    for k in range(400, 0, -1):
        rest = k / (a + rest)
    middle = a < 2
    beyond = _normal_density(x) / np.where(middle, 1, a + rest)
    beyond[middle] = (1 - _erf(a[middle] * np.sqrt(WIDE(0.5)))) / 2
    return np.where(x < 0, beyond, 1 - beyond)


@FLOATS
def test_normal_distribution_error_in_ulp(dtype):
    """Its weight up to x, far below too, and its density."""
    _needs_wide(dtype)
    grids = [bit_patterns(dtype, 997), np.linspace(-8, 8, 5003), np.linspace(-38, -8, 501)]
    x = np.concatenate(grids).astype(dtype)
    space, wide = SPACES[dtype], x.astype(WIDE)
    assert_within(2.2, loop_of(space.normal_density, dtype)(x), _normal_density(wide), x)
    assert_within(4, loop_of(space.normal_cdf, dtype)(x), _normal_cdf(wide), x)


@FLOATS
def test_pow_error_in_ulp(dtype):
    _needs_wide(dtype)
    rng = np.random.default_rng(1)
    base = np.exp(rng.uniform(-80, 80, 200_000)).astype(dtype)
    exponent = (rng.uniform(-100, 100, base.size) / np.log(base.astype(np.float64))).astype(dtype)
    near_one = rng.uniform(0.9, 1.1, base.size).astype(dtype)
    whole = rng.integers(-9, 10, base.size).astype(dtype)
    function = loop_of(SPACES[dtype].pow, dtype, 2)
    for x, y in ((base, exponent), (near_one, exponent), (-base, whole), (base, np.full_like(base, 2.5))):
        exact = np.power(x.astype(WIDER[dtype]), y)
        assert_within(0.6 if dtype == F32_DTYPE else 0.8, function(x, y), exact, x, y)


def test_large_and_small_powers_error_in_ulp():
    """Where the logarithm is multiplied by the most, and where the result has lost digits."""
    _needs_wide(F64_DTYPE)
    rng = np.random.default_rng(2)
    function = loop_of(F64.pow, F64_DTYPE, 2)
    for low, high in (
        (0.7, 1.42),
        (1 - 1e-3, 1 + 1e-3),
        (1 - 1e-9, 1 + 1e-9),
        (1e-308, 1e-305),
        (1e-323, 1e-308),
    ):
        x = rng.uniform(low, high, 200_000)
        y = rng.uniform(-745, 709.7, x.size) / np.log(x)
        assert_within(1.0, function(x, y), np.power(x.astype(WIDE), y), x, y)


@FLOATS
@pytest.mark.parametrize("power", [1, 2, 3, -1, -2, 0.5, -0.5])
def test_small_powers_are_rounded_once(dtype, power):
    """Whether the exponent is one for all elements, which has a loop of its own, or not."""
    _needs_wide(dtype)
    x = np.concatenate([bit_patterns(dtype, 997), np.linspace(-8, 8, 50_001)]).astype(dtype)
    x = np.abs(x) if abs(power) == 0.5 else x
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        exact = x.astype(WIDER[dtype]) ** power
    y = np.full_like(x, power)
    normal = np.isfinite(exact.astype(dtype)) & (np.abs(exact) >= np.finfo(dtype).tiny)
    found = loop_of(SPACES[dtype].pow, dtype, 2)(x, y)
    assert_within(0.505, found[normal], exact[normal], x[normal])
    assert_same(found, (fg.tensor(x) ** power).numpy(), x, y)


@FLOATS
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_and_small_arguments_in_one_vector(name, dtype):
    _needs_wide(dtype)
    function = loop_of(getattr(SPACES[dtype], name), dtype)
    x = np.tile(np.array([0.5, 1e30, -3.0, 1e5, -1e12, 1e-20, 7e37, 3e4, 2.0**15, 2.0**30, 11.0], dtype), 31)
    assert_within(0.9, function(x), REFERENCES[name](x.astype(WIDER[dtype])), x)


# --- special values -----------------------------------------------------------------------------------------


def specials(dtype):
    info = np.finfo(dtype)
    tiny = [info.smallest_subnormal, info.smallest_subnormal * 1000, info.smallest_normal, info.eps / 4]
    values = [0, 0.5, 1, 1.5, 2, 2.5, 3, 30, 88.8, 103.9, 150, 709.8, 745.2, 1e6, 2.0**25, info.max, np.inf]
    positive = values + tiny
    return np.concatenate([[np.nan], positive, np.negative(positive)]).astype(dtype)


def assert_same(got, expected, *arguments, limit=0):
    """Equal up to `limit` ulp; NaN equals NaN and zeros have the same sign."""
    error = ulps(got, expected.astype(np.result_type(got, expected)))
    zero = expected == 0
    wrong = (error > limit) | (zero & (np.signbit(got) != np.signbit(expected)))
    report = [(*(a[i] for a in arguments), got[i], expected[i]) for i in np.flatnonzero(wrong)[:9]]
    assert not wrong.any(), f"{wrong.sum()} differ (arguments, result, expected): {report}"


@FLOATS
@pytest.mark.parametrize("name", REFERENCES)
def test_special_values(name, dtype):
    x = specials(dtype)
    reference = np.vectorize(math.erf, [dtype]) if name == "erf" else REFERENCES[name]
    expected = reference(x.astype(WIDER[dtype])).astype(dtype)
    assert_same(loop_of(getattr(SPACES[dtype], name), dtype)(x), expected, x, limit=2)


ROUNDINGS = {"abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round}


@FLOATS
@pytest.mark.parametrize("name", ROUNDINGS)
def test_roundings_and_abs_are_those_of_numpy(name, dtype):
    x = np.concatenate([specials(dtype), np.arange(-9, 9, 0.25)]).astype(dtype)
    assert_same(loop_of(getattr(SPACES[dtype], name), dtype)(x), ROUNDINGS[name](x), x)


@FLOATS
def test_sign_of_nan_is_zero(dtype):
    x = specials(dtype)
    expected = np.where(np.isnan(x), 0, np.sign(x)).astype(dtype) + 0.0  # and of -0 it is +0
    assert_same(loop_of(SPACES[dtype].sign, dtype)(x), expected.astype(dtype), x)


@FLOATS
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_classification(name, dtype):
    x = specials(dtype)
    np.testing.assert_array_equal(
        loop_of(getattr(SPACES[dtype], name), dtype, 1, np.dtype(bool))(x), getattr(np, name)(x)
    )


def _pairs(dtype):
    some = np.concatenate([specials(dtype), [-7, 7, 0.3, -0.3, 1e20, -1e20]]).astype(dtype)
    x, y = np.meshgrid(some, some)
    return x.ravel(), y.ravel()


@FLOATS
def test_pow_of_special_values(dtype):
    x, y = _pairs(dtype)
    expected = np.power(x.astype(WIDER[dtype]), y.astype(WIDER[dtype])).astype(dtype)
    assert_same(loop_of(SPACES[dtype].pow, dtype, 2)(x, y), expected, x, y, limit=1)


@FLOATS
@pytest.mark.parametrize("name", ["fmod", "copysign"])
def test_exact_functions_of_two(name, dtype):
    x, y = _pairs(dtype)
    assert_same(loop_of(getattr(SPACES[dtype], name), dtype, 2)(x, y), getattr(np, name)(x, y), x, y)


@FLOATS
@pytest.mark.parametrize(("name", "reference"), [("remainder", np.remainder), ("floor_div", np.floor_divide)])
def test_division_with_remainder(name, reference, dtype):
    x, y = _pairs(dtype)
    got, expected = loop_of(getattr(SPACES[dtype], name), dtype, 2)(x, y), reference(x, y)
    np.testing.assert_array_equal(got, expected)  # NumPy gives zeros other signs than PyTorch


@FLOATS
def test_division_without_fraction(dtype):
    x, y = _pairs(dtype)
    assert_same(loop_of(SPACES[dtype].trunc_div, dtype, 2)(x, y), np.trunc(x / y), x, y)


@FLOATS
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum(name, dtype):
    x, y = _pairs(dtype)
    expected = getattr(np, name)(x, y)
    both_zero = (x == 0) & (y == 0)
    negative = (np.signbit(x) & np.signbit(y)) if name == "maximum" else (np.signbit(x) | np.signbit(y))
    expected = np.where(both_zero, np.where(negative, -0.0, 0.0), expected).astype(dtype)
    assert_same(loop_of(getattr(SPACES[dtype], name), dtype, 2)(x, y), expected, x, y)


@FLOATS
def test_fma_rounds_once(dtype):
    info = np.finfo(dtype)
    x = np.full(40, 1 + info.eps, dtype)
    got = loop_of(SPACES[dtype].fma, dtype, 3)(x, x, -np.full(40, 1 + 2 * info.eps, dtype))
    np.testing.assert_array_equal(got, np.full(40, info.eps**2, dtype))


@pytest.mark.parity
@FLOATS
@pytest.mark.parametrize("name", ["sign", "sigmoid", "softplus", "remainder", "floor_divide", "fmod", "pow"])
def test_special_values_are_those_of_torch(name, dtype):
    torch = pytest.importorskip("torch")
    reference = torch.nn.functional.softplus if name == "softplus" else getattr(torch, name)
    arguments = (specials(dtype),) if name in ("sign", "sigmoid", "softplus") else _pairs(dtype)
    if name in ("remainder", "fmod"):  # torch's vector code gives NaN where the quotient is very large
        keep = ~(np.abs(arguments[0] / arguments[1]) > 1e30) | np.isinf(arguments[0]) | (arguments[1] == 0)
        arguments = tuple(a[keep] for a in arguments)
    expected = reference(*map(torch.from_numpy, arguments)).numpy()
    function = getattr(SPACES[dtype], {"floor_divide": "floor_div"}.get(name, name))
    got = loop_of(function, dtype, len(arguments))(*arguments)
    if name in ("sigmoid", "softplus"):  # torch loses denormal results, and log1p(exp(-x)) beyond x = 20
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=np.finfo(dtype).smallest_normal)
    else:
        assert_same(got, expected, *arguments, limit=4 if name == "pow" else 0)


# --- integers and booleans ----------------------------------------------------------------------------------


def _integers(dtype):
    info = np.iinfo(dtype)
    near = np.arange(-9, 10) if info.min else np.arange(19)
    far = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2]
    return np.concatenate([near, far]).astype(dtype)


def _wrapped(value, dtype):
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def _towards_zero(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER_REFERENCES = {
    "maximum": max,
    "minimum": min,
    "floor_div": lambda a, b: a // b if b else 0,
    "remainder": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: a - b * _towards_zero(a, b) if b else 0,
    "trunc_div": lambda a, b: _towards_zero(a, b) if b else 0,
}


@INTEGERS
@pytest.mark.parametrize("name", INTEGER_REFERENCES)
def test_integer_functions_of_two(name, dtype):
    values = _integers(dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    function = INTEGER_REFERENCES[name]
    expected = [_wrapped(function(a, b), dtype) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_array_equal(loop_of(getattr(INT, name), dtype, 2)(x, y), np.array(expected, dtype))


@INTEGERS
def test_integer_pow_wraps_around(dtype):
    exponents = [n for n in (*range(10), 31, 63, 64, 100, 255) if n <= np.iinfo(dtype).max]
    x, n = (grid.ravel() for grid in np.meshgrid(_integers(dtype), np.array(exponents, dtype)))
    expected = [_wrapped(a**k, dtype) for a, k in zip(x.tolist(), n.tolist(), strict=True)]
    np.testing.assert_array_equal(loop_of(INT.pow, dtype, 2)(x, n), np.array(expected, dtype))


@pytest.mark.parametrize("dtype", [np.dtype("int64"), np.dtype("int32")], ids=str)
def test_integer_pow_of_negative_exponents(dtype):
    x, n = np.array([0, 1, -1, -1, 2, -5], dtype), np.array([-1, -3, -3, -4, -1, -2], dtype)
    np.testing.assert_array_equal(loop_of(INT.pow, dtype, 2)(x, n), [0, 1, -1, 1, 0, 0])


@INTEGERS
def test_integer_functions_of_one(dtype):
    x = _integers(dtype)
    np.testing.assert_array_equal(loop_of(INT.bitwise_not, dtype)(x), ~x)
    expected = [_wrapped(abs(v), dtype) for v in x.tolist()]
    np.testing.assert_array_equal(loop_of(INT.abs, dtype)(x), np.array(expected, dtype))
    np.testing.assert_array_equal(loop_of(INT.sign, dtype)(x), np.sign(x))


@pytest.mark.parametrize("dtype", WHERE_DTYPES, ids=str)
def test_where(dtype):
    assert F32.where is F64.where is INT.where is BOOL.where
    condition, x, y = np.arange(70) % 3 == 0, np.arange(70).astype(dtype), np.arange(70)[::-1].astype(dtype)
    where = njit(lambda c, x, y: BOOL.where(c != 0, x, y))
    loop = Loop(where, (np.dtype(bool), dtype, dtype), dtype)
    np.testing.assert_array_equal(loop(condition, x, y), np.where(condition, x, y))


def test_not():
    x = np.array([False, True, True] * 30)
    loop = Loop(njit(lambda x: BOOL.bitwise_not(x != 0)), (np.dtype(bool),), np.dtype(bool))
    np.testing.assert_array_equal(loop(x), ~x)


@pytest.mark.parametrize(("name", "reference"), [("maximum", operator.or_), ("minimum", operator.and_)])
def test_booleans(name, reference):
    x, y = np.array([False, False, True, True] * 20), np.array([False, True] * 40)
    function = getattr(BOOL, name)
    loop = Loop(njit(lambda x, y: function(x != 0, y != 0)), (np.dtype(bool),) * 2, np.dtype(bool))
    np.testing.assert_array_equal(loop(x, y), reference(x, y))


# --- the code that is generated -----------------------------------------------------------------------------

VECTORISED = [
    *ACCURACY,
    *ROUNDINGS,
    "erf",
    "normal_cdf",
    "normal_density",
    "sign",
    "copysign",
    "maximum",
    "minimum",
    "fma",
    "pow",
]
LIBM = {"sin", "cos", "fmod"}


def _arity(name):
    pairs = (
        "copysign",
        "maximum",
        "minimum",
        "pow",
        "fmod",
        "remainder",
        "floor_div",
        "trunc_div",
        "xlogy",
        "of_dtype",
    )
    return {"fma": 3}.get(name, 2 if name in pairs else 1)


NOT_OF_FLOATS = ("where", "isnan", "isinf", "isfinite", "masked_fill", "logical_and", "whole_power", "make")
"""What takes or gives a condition, a whole number or a complex one."""


@FLOATS
@pytest.mark.parametrize("name", [n for n in sorted(words(F32)) if n not in NOT_OF_FLOATS])
def test_generated_code(name, dtype):
    text = loop_of(getattr(SPACES[dtype], name), dtype, _arity(name)).ir
    called = set(re.findall(r"^declare [^@]*@\"?([\w.]+)", text, re.MULTILINE))
    outside = {symbol for symbol in called if not symbol.startswith("llvm.")}
    suffix = "f" if dtype == F32_DTYPE else ""
    assert outside <= {f"{libm}{suffix}" for libm in LIBM}, "only libm may be called"
    assert not re.search(r"NRT_|@numba_|@Py", text)
    if name in VECTORISED:
        kind = {4: "float", 8: "double"}[dtype.itemsize]
        body = re.search(r"^vector\.body:.*?^$", text, re.MULTILINE | re.DOTALL)
        assert body, "the loop is not vectorised"
        assert re.search(rf"store <\d+ x {kind}>", body.group())
        assert not re.search(rf"call [^<]*{kind} @", body.group()), "a call is made for each lane"
    if dtype == F32_DTYPE and name != "pow":
        assert "double" not in text, "a float32 was promoted"


def test_import_compiles_nothing():
    program = (
        "from fastgrad.kernels import vecmath\n"
        "for space in (vecmath.F32, vecmath.F64, vecmath.INT, vecmath.BOOL):\n"
        "    for function in vars(space).values():\n"
        "        assert not getattr(function, 'signatures', ()), function\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_namespace_has_its_functions():
    assert words(F32) == words(F64) >= {*ACCURACY, *ROUNDINGS, "erf", "pow", "fma"}
    assert {"maximum", "minimum", "where"} < words(BOOL) < words(INT)
    for name in words(F64) | words(INT) | words(BOOL):
        assert re.search(rf"\b{name}\b", vecmath.__doc__), f"{name} is not documented"


def test_formulas_look_words_up_in_a_namespace():
    loop = loop_of(njit(lambda x: F64.where(x > 1.0, F64.exp(x), F64.fma(x, x, x))), F64_DTYPE)
    np.testing.assert_allclose(loop(np.array([0.5, 2.0])), [0.75, math.exp(2)], rtol=1e-15)
