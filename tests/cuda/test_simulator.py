"""Kernels of the CUDA device over the host's memory, compared with the CPU's: the same frame, the same results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, numbers

from fastgrad.kernels.cuda.compile import BUILDERS
from fastgrad.native.contracts.element_types import (
    BOOL,
    DTYPES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT8,
)
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE, STRIDED

pytestmark = pytest.mark.cudasim

# --- elementwise -----------------------------------------------------------------------------------------------

LOOSE = {
    "pow": 8,
    "sigmoid": 4,
    "softplus": 8,
    "gelu_dx": 40,
    "gelu_tanh_dx": 40,
    "mish_dx": 40,
    "log_sigmoid": 8,
    "lstm_state": 60,
}
EVERYWHERE = (
    "add", "mul", "maximum", "minimum", "where", "floor_divide", "div_trunc", "remainder", "fmod", "pow", "abs", "sign",
    "relu", "lt", "eq", "bitwise_not", "clamp", "assign", "logical_and",
)  # fmt: skip
OF_FLOATS = (
    "exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "sin",
    "cos", "erf", "softplus", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "xlogy", "mul_da",
    "gelu_dx", "masked_fill_dx", "square_dx", "div_db", "lstm_state", "log_sigmoid",
)  # fmt: skip


def operands(name: str, dtype: int, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    kernel = ROWS[name]
    return {n: numbers(rng, count, kernel.frame().element(n, dtype)) for n in kernel.inputs}


def result_of(name: str, dtype: int, count: int) -> np.ndarray:
    return np.zeros(count, DTYPES[ROWS[name].frame().element("out", dtype)])


CASES = [(name, dtype) for name in EVERYWHERE for dtype in ROWS[name].dtypes] + [
    (name, dtype) for name in OF_FLOATS for dtype in (FLOAT32, FLOAT64)
]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda v: v if isinstance(v, str) else DTYPES[v])
def test_formulas(name, dtype):
    with np.errstate(all="ignore"):
        count = 333
        given = operands(name, dtype, count)
        agree(name, dtype, FLAT, {"out": result_of(name, dtype, count)}, LOOSE.get(name, 3), n=count, **given)


@pytest.mark.parametrize("count", [0, 1, 7, 64, 511, 512, 513, 1100])
@pytest.mark.parametrize("shift", [0, 1])
def test_flat_sizes_and_addresses(count, shift):
    a, b = (v[shift:] for v in operands("add", FLOAT32, count + shift).values())
    agree("add", FLOAT32, FLAT, {"out": np.zeros(count, np.float32)}, 0, 32, n=count, a=a, b=b)
    condition = np.arange(count + shift)[shift:] % 3 == 0
    out = {"out": np.zeros(count, np.float32)}
    agree("where", FLOAT32, FLAT, out, 0, 32, n=count, a=a, b=b, condition=condition)


@pytest.mark.parametrize("dtype", [UINT8, FLOAT32, INT64])
def test_inplace(dtype):
    a, b = operands("mul", dtype, 300).values()
    agree("mul", dtype, INPLACE, {"out": a}, 0, 32, n=300, b=b)


def strided(rank, sizes, **operand_strides):
    values = {"rank": rank, "sizes": list(sizes)}
    return values | {f"{name}__strides": list(strides) for name, strides in operand_strides.items()}


@pytest.mark.parametrize("dtype", [BOOL, INT32, FLOAT32])
def test_strides(dtype):
    sizes = (5, 3, 7)  # innermost first
    count = 105
    a, b = operands("add", dtype, count).values()
    for s_a, s_b in itertools.product(
        [(1, 5, 15), (21, 7, 1), (0, 1, 0), (-1, 5, 15)], [(1, 5, 15), (0, 0, 0)]
    ):
        start = a[4:] if s_a[0] < 0 else a
        layout = strided(3, sizes, out=(1, 5, 15), a=s_a, b=s_b)
        out = result_of("add", dtype, count)
        agree("add", dtype, STRIDED, {"out__data": out}, 0, 32, a__data=start, b__data=b, **layout)


def test_ranks():
    rng = np.random.default_rng(0)
    for rank in range(1, 9):
        sizes = [3, 1, 2, 2, 3, 1, 2, 3][:rank]
        strides = [int(np.prod(sizes[:d])) for d in range(rank)]
        count = int(np.prod(sizes))
        x = rng.standard_normal(count).astype(np.float32)
        layout = strided(rank, sizes, out=strides, x=strides[::-1] if rank == 2 else strides)
        agree("exp", FLOAT32, STRIDED, {"out__data": np.zeros(count, np.float32)}, 2, 32, x__data=x, **layout)


def test_casts():
    for source, target in itertools.product(range(12), repeat=2):
        name = f"copy_from_{source}"
        if target not in ROWS[name].dtypes:
            continue
        x = np.arange(77) % 11
        x = (x - 3 if DTYPES[source][0] != "u" else x).astype(DTYPES[source])
        x = x / 2 if source in (FLOAT32, FLOAT64) else x
        x = x.astype(DTYPES[source])
        agree(name, target, FLAT, {"out": np.zeros(77, DTYPES[target])}, 0, 32, n=77, x=x)
    x = np.arange(12, dtype=np.float32)
    layout = strided(2, (4, 3), out=(1, 4), x=(3, 1)) | {"across": 1}
    agree("copy_from_8", FLOAT64, STRIDED, {"out__data": np.zeros(12)}, 0, 32, x__data=x, **layout)


def test_all_builders_are_met():
    assert BUILDERS
