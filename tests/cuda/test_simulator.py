"""Kernels of the CUDA device over the host's memory, compared with the CPU's: the same frame, the same results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, bits, both, numbers
from cuda_halves import kind_of, read, stored

from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    HALVES,
    INT32,
    INT64,
    REAL,
    SELDOM,
    UINT8,
)
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE, STRIDED
from fastgrad.native.contracts.limits import FIRST_GPU

pytestmark = pytest.mark.cudasim

# --- elementwise -----------------------------------------------------------------------------------------------

LOOSE = {
    "pow": 8,
    "sigmoid": 4,
    "softplus": 8,
    "gelu_dx": 60,  # a difference about its zero
    "gelu_tanh_dx": 40,
    "mish_dx": 40,
    "log_sigmoid": 8,
    "lstm_state": 60,
}
LOOSE |= dict.fromkeys(("special_modified_bessel_k0", "special_modified_bessel_k1", "special_airy_ai"), 8)
LOOSE |= dict.fromkeys(  # differences of larger terms
    ("lgamma", "digamma", "special_bessel_y0", "special_bessel_y1"), 4000
)
LOOSE |= dict.fromkeys(("addcmul", "addcdiv", "lerp", "logaddexp", "logaddexp2"), 1000)
EVERYWHERE = (
    "add", "mul", "maximum", "minimum", "where", "floor_divide", "div_trunc", "remainder", "fmod", "pow", "abs", "sign",
    "relu", "lt", "eq", "bitwise_not", "clamp", "assign", "logical_and", "fmax", "fmin", "gcd", "lcm",
    "bitwise_left_shift", "bitwise_right_shift", "addcmul",
)  # fmt: skip
OF_FLOATS = (
    "exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "sin",
    "cos", "erf", "softplus", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "xlogy", "mul_da",
    "gelu_dx", "masked_fill_dx", "square_dx", "div_db", "lstm_state", "log_sigmoid",
    "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "sinc", "hypot", "erfc",
    "erfinv", "special_erfcx", "special_ndtri", "special_log_ndtr", "special_entr", "lgamma", "digamma", "special_zeta",
    "i0", "special_i0e", "special_i1", "special_i1e", "special_bessel_j0", "special_bessel_j1", "special_bessel_y0",
    "special_bessel_y1", "special_modified_bessel_k0", "special_modified_bessel_k1",
    "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1", "special_spherical_bessel_j0",
    "special_airy_ai", "frac", "lerp", "addcdiv", "copysign", "logaddexp", "logaddexp2",
    "logit", "nan_to_num", "heaviside", "signbit", "isposinf", "isneginf",
)  # fmt: skip


def operands(name: str, dtype: int, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    kernel = ROWS[name]
    return {n: numbers(rng, count, kernel.frame().element(n, dtype)) for n in kernel.inputs}


def result_of(name: str, dtype: int, count: int) -> np.ndarray:
    return np.zeros(count, kind_of(ROWS[name].frame().element("out", dtype)))


def dtypes_of(name: str) -> list[int]:
    """The real ones that GPUs have kernels for; of complex ones there is a file of its own."""
    return [dtype for dtype in ROWS[name].dtypes if dtype in REAL and ROWS[name].takes(dtype, FIRST_GPU)]


CASES = [(name, dtype) for name in EVERYWHERE for dtype in dtypes_of(name)] + [
    (name, dtype) for name in OF_FLOATS for dtype in FLOATS
]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda v: v if isinstance(v, str) else DTYPES[v])
def test_formulas(name, dtype):
    with np.errstate(all="ignore"):
        count = 333
        given = operands(name, dtype, count)
        agree(name, dtype, FLAT, {"out": result_of(name, dtype, count)}, LOOSE.get(name, 3), n=count, **given)


@pytest.mark.parametrize("count", [0, 1, 7, 64, 511, 512, 513, 1100])
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=DTYPES.__getitem__)
def test_flat_sizes_and_addresses(count, shift, dtype):
    a, b = (v[shift:] for v in operands("add", dtype, count + shift).values())
    agree("add", dtype, FLAT, {"out": np.zeros(count, kind_of(dtype))}, 0, 32, n=count, a=a, b=b)
    condition = np.arange(count + shift)[shift:] % 3 == 0
    out = {"out": np.zeros(count, kind_of(dtype))}
    agree("where", dtype, FLAT, out, 0, 32, n=count, a=a, b=b, condition=condition)


@pytest.mark.parametrize("dtype", [UINT8, FLOAT32, INT64, *HALVES])
def test_inplace(dtype):
    a, b = operands("mul", dtype, 300).values()
    agree("mul", dtype, INPLACE, {"out": a}, 0, 32, n=300, b=b)


def strided(rank, sizes, **operand_strides):
    values = {"rank": rank, "sizes": list(sizes)}
    return values | {f"{name}__strides": list(strides) for name, strides in operand_strides.items()}


@pytest.mark.parametrize("dtype", [BOOL, INT32, FLOAT32, *HALVES])
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
    for source, target in itertools.product(range(10), repeat=2):
        name = f"copy_from_{source}"
        if target not in dtypes_of(name) or source in SELDOM:
            continue
        x = np.arange(77) % 11
        x = (x - 3 if DTYPES[source][0] != "u" else x) / (2 if source in FLOATS else 1)
        agree(name, target, FLAT, {"out": np.zeros(77, kind_of(target))}, 0, 32, n=77, x=stored(x, source))
    x = np.arange(12, dtype=np.float32)
    layout = strided(2, (4, 3), out=(1, 4), x=(3, 1)) | {"across": 1}
    agree("copy_from_8", FLOAT64, STRIDED, {"out__data": np.zeros(12)}, 0, 32, x__data=x, **layout)


def awkward(dtype: int) -> np.ndarray:
    """Halves of every size, what lies between them and their neighbours, and beside that; and beyond the largest."""
    every = np.concatenate([np.arange(0, 1 << 15, 37), np.arange(40), 0x7C00 - np.arange(1, 9)])
    found = read(every.astype(np.uint16), dtype).astype(np.float64)
    above = read((every + 1).astype(np.uint16), dtype).astype(np.float64)
    both = np.isfinite(found) & np.isfinite(above)
    ties = (found[both] + above[both]) / 2
    largest = {FLOAT16: 65520.0, BFLOAT16: float(np.float32(3.3961775e38))}[dtype]
    ties = np.append(ties, largest)
    values = [found, ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf), [np.inf, np.nan, 5e-324, 1e300]]
    values = np.concatenate(values)
    return np.concatenate([values, -values])


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", HALVES, ids=DTYPES.__getitem__)
def test_halves_are_rounded_once_to_the_next_one(dtype):
    for source in (FLOAT64, FLOAT32, FLOAT16, BFLOAT16):
        x = stored(awkward(dtype), source)
        out = {"out": np.zeros(x.size, np.uint16)}
        agree(f"copy_from_{source}", dtype, FLAT, out, 0, 64, n=x.size, x=x)
    rng = np.random.default_rng(0)
    x = np.append(
        rng.integers(-(1 << 62), 1 << 62, 200) >> rng.integers(0, 62, 200), [257, 65519, 65520, -65537]
    )
    for source in (INT32, INT64):
        given = x.astype(DTYPES[source])
        out = {"out": np.zeros(x.size, np.uint16)}
        agree(f"copy_from_{source}", dtype, FLAT, out, 0, 64, n=x.size, x=given)


@pytest.mark.parametrize("dtype", HALVES, ids=DTYPES.__getitem__)
def test_copies_of_halves_keep_their_bits(dtype):
    x = np.arange(0, 1 << 16, 5).astype(np.uint16)  # among them NaN of every kind
    for launch, found in zip(("gpu", "cpu"), both(
        f"copy_from_{dtype}", dtype, FLAT, {"out": np.zeros_like(x)}, 64, n=x.size, x=x
    ), strict=True):  # fmt: skip
        np.testing.assert_array_equal(found["out"], x, err_msg=launch)


def test_vectors_along_the_innermost_dimension():
    cases = ((8, 1), (0, 0)), ((1, 8), (1, 0)), ((0, 1), (1, 8)), ((1, 12), (0, 1)), ((1, 9), (1, 8))
    for (s_a, s_b), dtype in itertools.product(cases, (FLOAT16, FLOAT32)):
        a, b = operands("add", dtype, 120).values()
        layout = strided(2, (8, 9), out=(1, 8), a=s_a, b=s_b)
        out = {"out__data": np.zeros(72, kind_of(dtype))}
        agree("add", dtype, STRIDED, out, 0, 32, a__data=a, b__data=b, **layout)
    layout = strided(1, (64,), out=(1,), a=(1,), b=(0,))
    agree("mul", UINT8, STRIDED, {"out__data": np.zeros(64, np.uint8)}, 0, 32, **layout,
          a__data=np.arange(64, dtype=np.uint8), b__data=np.array([3], np.uint8))  # fmt: skip
    condition = np.arange(72) % 3 == 0
    layout = strided(2, (8, 9), out=(1, 8), a=(1, 8), b=(0, 0), condition=(1, 8))
    agree("where", FLOAT32, STRIDED, {"out__data": np.zeros(72, np.float32)}, 0, 32, a__data=a, b__data=b,
          condition__data=condition, **layout)  # fmt: skip


@pytest.mark.parametrize(("sizes", "inner"), [((70, 45), 1), ((33, 2, 40), 2), ((20, 35, 3), 1)])
def test_transposed_copies(sizes, inner):
    count, rank = int(np.prod(sizes)), len(sizes)
    to = [int(np.prod(sizes[:d])) for d in range(rank)]
    order = [inner, 0, *(d for d in range(rank) if d not in (0, inner))]
    source = [0] * rank
    for k, d in enumerate(order):
        source[d] = int(np.prod([sizes[o] for o in order[:k]]))
    x = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    layout = strided(rank, sizes, out=to, x=source) | {"across": rank - inner}
    for dtype in (FLOAT32, INT32, BOOL, *HALVES):
        out = {"out__data": np.zeros(count, kind_of(dtype))}
        agree("copy_from_8", dtype, STRIDED, out, 0, 64, x__data=x, **layout)


# --- filling ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", dtypes_of("constant"), ids=DTYPES.__getitem__)
def test_constants_sequences_and_triangles(dtype):
    kind, floating = kind_of(dtype), dtype in FLOATS
    value = bits(-1.25) if floating else 1
    agree("constant", dtype, FLAT, {"out": np.zeros(300, kind)}, 0, 32, n=300, value=value)
    if dtype in dtypes_of("sequence"):
        start, step = (bits(0.1), bits(0.3)) if floating else (3, 2)
        for numbers_of in ({"turn": 131, "step": step}, {"turn": 66, "end": step}):
            out = {"out": np.zeros(131, kind)}
            agree("sequence", dtype, FLAT, out, 0, 32, n=131, start=start, **numbers_of)
    x = numbers(np.random.default_rng(0), 3 * 5 * 4, dtype)
    for name, diagonal in itertools.product(("tril", "triu"), (-2, 0, 1)):
        sizes = {"matrices": 3, "rows": 5, "columns": 4, "diagonal": diagonal}
        agree(name, dtype, FLAT, {"out": np.zeros(60, kind)}, 0, 32, x=x, **sizes)


@pytest.mark.parametrize("dtype", dtypes_of("triangle_places"), ids=DTYPES.__getitem__)
def test_places_in_triangles(dtype):
    for rows, columns, diagonal in itertools.product((1, 7, 20), (1, 5, 20), (-6, -1, 0, 3, 4)):
        for upper, places in enumerate((np.tril_indices, np.triu_indices)):
            expected = np.concatenate(places(rows, diagonal, columns)).astype(kind_of(dtype))
            out, sizes = {"out": np.zeros_like(expected)}, {"columns": columns, "diagonal": diagonal}
            if expected.size:
                mine, theirs = both(
                    "triangle_places", dtype, FLAT, out, 32, n=expected.size, upper=upper, **sizes
                )
                np.testing.assert_array_equal(mine["out"], expected)
                np.testing.assert_array_equal(theirs["out"], expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=DTYPES.__getitem__)
def test_random_numbers(dtype):
    stream = {"n": 203, "seed": -7 << 40 | 5, "offset": 2**32 - 3, "per_block": 2 if dtype == FLOAT64 else 4}
    out = {"out": np.zeros(203, kind_of(dtype))}
    agree("uniform", dtype, FLAT, out, 0, 32, a=bits(-1.0), b=bits(2.5), **stream)
    mine, theirs = both("normal", dtype, FLAT, out, 32, a=bits(0.5), b=bits(2.0), **stream)
    got, expected = (read(found["out"], dtype) for found in (mine, theirs))
    off = {FLOAT64: 1e-14, FLOAT32: 4e-6}.get(dtype, 0)
    np.testing.assert_allclose(got, expected, rtol=1e-2 if dtype in HALVES else 0, atol=off)


@pytest.mark.parametrize("dtype", [UINT8, INT32, INT64, FLOAT32, *HALVES], ids=DTYPES.__getitem__)
def test_random_integers(dtype):
    for a, b in ((0, 200), (-(2**62), 2**62)) if dtype == INT64 else ((0, 200),):
        stream = {"n": 101, "seed": 5, "offset": 9, "per_block": 2, "a": a, "b": b}
        agree("integers", dtype, FLAT, {"out": np.zeros(101, kind_of(dtype))}, 0, 32, **stream)


# --- reductions ------------------------------------------------------------------------------------------------

REDUCTIONS = ("sum", "mean", "amax", "amin", "any", "all")


def dims(name: str, sizes, strides) -> dict:
    return {f"{name}__rank": len(sizes), f"{name}__sizes": list(sizes), f"{name}__strides": list(strides)}


def reduced(name: str, dtype: int, kept, gone, x: np.ndarray, threads: int = 64, ulps: float = 2) -> None:
    """Compare a reduction; `kept` and `gone` are pairs of sizes and strides, innermost dimension first."""
    results, count = int(np.prod(kept[0])), int(np.prod(gone[0]))
    out = np.zeros(results, DTYPES[ROWS[name].frame().element("out", dtype)])
    frame = dims("kept", *kept) | dims("gone", *gone) | {"count": count, "results": results}
    agree(name, dtype, FLAT, {"out": out}, ulps, threads, x=x, **frame)


LAYOUTS = {
    "rows": (([5], [40]), ([40], [1])),
    "one": (([1], [0]), ([300], [1])),
    "long rows": (([2], [150]), ([150], [1])),
    "columns": (([21], [1]), ([37], [21])),
    "inner and outer": (([4], [15]), ([15, 3], [1, 60])),
    "many": (([3, 5], [1, 12]), ([4, 2], [3, 60])),
    "single elements": (([70], [1]), ([1], [0])),
    "nothing": (([9], [0]), ([0], [1])),
    "broadcast": (([3], [0]), ([33], [1])),
}


REDUCED = [(n, k) for n in REDUCTIONS for k in LAYOUTS if k != "nothing" or n not in ("amax", "amin", "mean")]


@pytest.mark.parametrize(("name", "layout"), REDUCED)
def test_reductions(name, layout):
    for dtype in dtypes_of(name) if layout in ("rows", "inner and outer") else (FLOAT32,):
        x = numbers(np.random.default_rng(0), 7500, dtype)
        if x.dtype.kind == "f":
            x = x if name in ("amax", "amin", "any", "all") else np.abs(np.nan_to_num(x, posinf=3, neginf=5))
        reduced(name, dtype, *LAYOUTS[layout], x)


def test_sums_of_special_numbers_and_long_ones():
    for value in (np.inf, -np.inf, np.nan):
        x = np.ones(200, np.float32)
        x[77] = value
        reduced("sum", FLOAT32, ([2], [100]), ([100], [1]), x)
    x = np.full(20000, 0.1, np.float32)
    # Equal terms round alike in all blocks, which on the CPU are as many sums as its vectors have lanes.
    reduced("sum", FLOAT32, ([1], [0]), ([20000], [1]), x, ulps=4)


# --- rows ------------------------------------------------------------------------------------------------------

ROW_OPS = tuple(kernel.name for kernel in ROWS.values() if kernel.builder == "rows:build")
EXTENTS = {
    "rows": (5, 37, 1),
    "long": (2, 150, 1),
    "columns": (2, 19, 5),
    "few": (3, 4, 1),
    "single": (1, 1, 1),
}


def row_numbers(name: str, dtype: int, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = np.dtype(DTYPES[dtype])
    if kind.kind != "f":
        return numbers(rng, count, dtype)
    x = rng.standard_normal(count)
    if "prod" in name or "carried" in name:
        x = np.where(x > 0, 1 + x / 50, 0.98 + x / 50)
    return (np.abs(x) if "sum" in name and name != "logsumexp" else x).astype(kind)


def rows_agree(
    name: str, dtype: int, extents: tuple[int, int, int], x: np.ndarray, ulps: float, **more
) -> None:
    before, length, after = extents
    one = name in ("prod", "logsumexp")
    kind = DTYPES[ROWS[name].frame().element("out", dtype)]
    out = np.zeros(before * after * (1 if one else length), kind)
    frame = {"before": before, "length": length, "after": after, "pitch": after}
    agree(name, dtype, FLAT, {"out": out}, ulps, 64, x=x, **frame, **more)


@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("name", ROW_OPS)
def test_rows(name, extents):
    count = int(np.prod(EXTENTS[extents]))
    long = extents == "long"
    for dtype in dtypes_of(name) if extents == "rows" else (FLOAT32,):
        x = row_numbers(name, dtype, count, 0)
        more = {}
        if "backward" in name or "carried" in name:
            more = {"second": row_numbers(name, dtype, count, 1)}
        if "backward" in name:  # sums of both signs
            x, more["second"] = np.abs(x), -np.abs(more["second"])
        ulps = 200 if ("prod" in name or "carried" in name) and long else 30
        rows_agree(
            name, dtype, EXTENTS[extents], x, ulps if np.dtype(DTYPES[dtype]).kind == "f" else 0, **more
        )


def test_rows_with_infinities():
    x = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    x[0, 3], x[1, 2], x[2] = np.inf, -np.inf, -np.inf
    for name in ("softmax", "safe_softmax", "log_softmax", "logsumexp"):
        rows_agree(name, FLOAT32, (4, 9, 1), x.ravel(), 8)
    x[0, 5], x[3, 7] = 7, np.nan
    rows_agree("cumsum", FLOAT32, (4, 9, 1), np.abs(x.ravel()), 1)


@pytest.mark.parametrize("name", ["max_dim", "min_dim"])
def test_extremes(name):
    for (before, length, columns), dtype in itertools.product(EXTENTS.values(), (FLOAT32, UINT8)):
        x = numbers(np.random.default_rng(0), before * length * columns, dtype)
        if x.dtype.kind == "f":
            x = np.round(np.where(np.isnan(x), 0, x))  # many that are equal
        frame = {"before": before, "length": length, "after": columns, "columns": columns, "step": 0}
        outs = {"values": np.zeros(before * columns, x.dtype), "places": np.zeros(before * columns, np.int64)}
        agree(name, dtype, FLAT, outs, 0, 64, x=x, **frame)
    for dtype in dtypes_of(name):
        x = numbers(np.random.default_rng(1), 60, dtype)
        within = np.arange(60)[::-1].copy()
        frame = {"before": 4, "length": 5, "after": 3, "columns": 3, "step": 100}
        agree(name, dtype, FLAT, {"places": np.zeros(12, np.int64)}, 0, 64, x=x, within=within, **frame)
