"""Complex numbers in kernels of the CUDA device over the host's memory, compared with the CPU's."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, bits, numbers
from cuda_halves import kind_of, stored

from fastgrad.native.contracts.element_types import (
    COMPLEX,
    COMPLEX64,
    COMPLEX128,
    DTYPES,
    FLOAT32,
    FLOAT64,
    FLOATS,
    SELDOM,
    real_of,
)
from fastgrad.native.contracts.frame import AS_COMPLEX
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE, STRIDED
from fastgrad.native.contracts.limits import FIRST_GPU

pytestmark = pytest.mark.cudasim

ELEMENTWISE = [
    (kernel.name, dtype)
    for kernel in ROWS.values()
    for dtype in (*COMPLEX, FLOAT32, FLOAT64)
    if kernel.builder == "elementwise:build"
    and (dtype in COMPLEX or AS_COMPLEX in kernel.elements.values())
    and kernel.takes(dtype, FIRST_GPU)
]
FINITE = ("pow", "rpow", "pow_da")  # of infinities the C library knows more
LOOSE = {"sinc_dx": 1e4}  # a difference about its zero
LOOSE |= dict.fromkeys(FINITE, 100)  # an exponential of what was rounded, as PyTorch's on GPUs
# Sums of what the CPU multiplies and adds with one rounding.
LOOSE |= dict.fromkeys(
    ("addcmul", "addcdiv", "add_scaled", "sub_scaled", "lerp", "square_dx", "mul", "div"), 1000
)


@pytest.mark.parametrize(("name", "dtype"), ELEMENTWISE, ids=lambda v: v if isinstance(v, str) else DTYPES[v])
def test_formulas(name, dtype):
    rng, count, frame = np.random.default_rng(0), 200, ROWS[name].frame()
    given = {n: numbers(rng, count, frame.element(n, dtype)) for n in ROWS[name].inputs}
    if name in FINITE:
        given = {n: np.where(np.isfinite(x), x, 1.5).astype(x.dtype) for n, x in given.items()}
    out = np.zeros(count, kind_of(frame.element("out", dtype)))
    with np.errstate(all="ignore"):
        agree(name, dtype, FLAT, {"out": out}, LOOSE.get(name, 12), 32, n=count, **given)


@pytest.mark.parametrize("dtype", COMPLEX, ids=DTYPES.__getitem__)
@pytest.mark.parametrize(
    "name", ["log", "sqrt", "asin", "acosh", "atanh", "tanh", "sinh", "abs.complex", "reciprocal"]
)
def test_far_and_near(name, dtype):
    """Close to one, to zero, to the cuts, to the largest and to the smallest number."""
    info = np.finfo(DTYPES[real_of(dtype)])
    ends = [0.0, -0.0, 1.0, 1 + info.eps, 1 - info.eps, 0.6, 0.8, 1e-3, float(info.tiny), float(info.max) / 4]
    parts = np.array([*ends, *(-x for x in ends)], DTYPES[real_of(dtype)])
    x = np.empty((parts.size, parts.size), DTYPES[dtype])
    x.real, x.imag = parts[:, None], parts[None]
    with np.errstate(all="ignore"):
        out = {"out": np.zeros(x.size, kind_of(ROWS[name].frame().element("out", dtype)))}
        agree(name, dtype, FLAT, out, 16, 32, n=x.size, x=x.ravel())


@pytest.mark.parametrize("count", [0, 1, 7, 129])
@pytest.mark.parametrize("shift", [0, 1])
def test_sizes_addresses_and_places(count, shift):
    rng = np.random.default_rng(1)
    for dtype in COMPLEX:
        a, b = (numbers(rng, count + shift, dtype)[shift:] for _ in range(2))
        agree("add", dtype, FLAT, {"out": np.zeros(count, DTYPES[dtype])}, 0, 32, n=count, a=a, b=b)
        agree("mul", dtype, INPLACE, {"out": a}, 2, 32, n=count, b=b)


def test_strides():
    rng = np.random.default_rng(2)
    for dtype in COMPLEX:
        a, b = (numbers(rng, 24, dtype) for _ in range(2))
        layout = {
            "rank": 2,
            "sizes": [4, 6],
            "out__strides": [1, 4],
            "a__strides": [6, 1],
            "b__strides": [0, 1],
        }
        out = {"out__data": np.zeros(24, DTYPES[dtype])}
        agree("sub", dtype, STRIDED, out, 0, 32, a__data=a, b__data=b, **layout)


@pytest.mark.parametrize("source", [c for c in range(12) if c not in SELDOM], ids=DTYPES.__getitem__)
def test_casts(source):
    x = np.arange(37) % 11
    x = stored(
        (x - 3 if DTYPES[source][0] != "u" else x) / (2 if source in (*FLOATS, *COMPLEX) else 1), source
    )
    x = x + x.dtype.type(1j) if source in COMPLEX else x
    for target in COMPLEX:
        agree(f"copy_from_{source}", target, FLAT, {"out": np.zeros(37, DTYPES[target])}, 0, 32, n=37, x=x)
    if source in COMPLEX:
        for target in ROWS[f"copy_from_{source}"].dtypes_on(FIRST_GPU):
            out = {"out": np.zeros(37, kind_of(target))}
            agree(f"copy_from_{source}", target, FLAT, out, 0, 32, n=37, x=x)


@pytest.mark.parametrize("dtype", COMPLEX, ids=DTYPES.__getitem__)
def test_constants_and_triangles(dtype):
    kind = DTYPES[dtype]
    agree("constant", dtype, FLAT, {"out": np.zeros(70, kind)}, 0, 32, n=70, value=bits(-1.25))
    x = numbers(np.random.default_rng(0), 2 * 4 * 5, dtype)
    for name in ("tril", "triu"):
        frame = {"matrices": 2, "rows": 4, "columns": 5, "diagonal": 1}
        agree(name, dtype, FLAT, {"out": np.zeros(x.size, kind)}, 0, 32, x=x, **frame)


@pytest.mark.parametrize("dtype", COMPLEX, ids=DTYPES.__getitem__)
@pytest.mark.parametrize("name", ["sum", "mean", "any", "all"])
def test_reductions(name, dtype):
    x = np.nan_to_num(numbers(np.random.default_rng(0), 600, dtype), posinf=3, neginf=5) + 40
    layouts = (
        ([5], [40], [40], [1]),
        ([1], [0], [300], [1]),
        ([21], [1], [7], [21]),
        ([4], [15], [15, 3], [1, 60]),
    )
    for sizes, strides, gone, steps in layouts:
        frame = {
            "kept__rank": 1, "kept__sizes": sizes, "kept__strides": strides, "gone__rank": len(gone),
            "gone__sizes": gone, "gone__strides": steps, "count": int(np.prod(gone)), "results": sizes[0],
        }  # fmt: skip
        out = {"out": np.zeros(sizes[0], kind_of(ROWS[name].frame().element("out", dtype)))}
        agree(name, dtype, FLAT, out, 4, 32, x=x, **frame)


@pytest.mark.parametrize("dtype", COMPLEX, ids=DTYPES.__getitem__)
@pytest.mark.parametrize(
    "name", [k.name for k in ROWS.values() if k.builder == "rows:build" and k.takes(COMPLEX64)]
)
def test_rows(name, dtype):
    rng = np.random.default_rng(0)
    for before, length, after in (5, 37, 1), (2, 19, 5), (1, 1, 1):
        x, second = (
            np.exp(1j * rng.standard_normal(before * length * after)).astype(DTYPES[dtype]) for _ in range(2)
        )
        frame = {"before": before, "length": length, "after": after, "pitch": after}
        out = {"out": np.zeros(before * after * (1 if name == "prod" else length), DTYPES[dtype])}
        more = {"second": second} if "carried" in name else {}
        agree(name, dtype, FLAT, out, 3000, 32, x=x, **frame, **more)


# --- Fourier transforms ----------------------------------------------------------------------------------------

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 15, 16, 22, 35, 60, 64, 121, 127, 210)


def transformed(
    name: str, dtype: int, x: np.ndarray, length: int, columns: int, kind: str, **how: int
) -> np.ndarray:
    """What the kernel of a transform writes of some rows."""
    from cuda_simulator import run, words_of

    kernel, out = ROWS[name], np.zeros((x.shape[0], columns), kind)
    scale = bits(1 / length if name[0] == "i" else 1.0)
    words = words_of(kernel.frame(), out=out, x__data=x, rows=x.shape[0], length=length, scale=scale, **how)
    run(kernel, dtype, FLAT, words, 32)
    return out


def near(found: np.ndarray, wanted: np.ndarray, dtype: int) -> None:
    """Within some units of the largest one of a row, which is what rounding by stages costs."""
    unit = np.finfo(DTYPES[real_of(dtype)]).eps
    largest = np.abs(wanted).max(-1, keepdims=True)
    assert (np.abs(found - wanted) <= 6 * unit * largest).all(), (
        np.max(np.abs(found - wanted) / largest) / unit
    )


@pytest.mark.parametrize("dtype", COMPLEX, ids=DTYPES.__getitem__)
@pytest.mark.parametrize("length", LENGTHS)
def test_transforms(length, dtype):
    rng, kind, part = np.random.default_rng(length), DTYPES[dtype], DTYPES[real_of(dtype)]
    x = (rng.standard_normal((3, length)) + 1j * rng.standard_normal((3, length))).astype(kind)
    reals, wide = x.real.copy(), x.astype(np.complex128)
    one, half = {"first": length, "passes": 1}, length // 2 + 1
    near(transformed("fft", dtype, x, length, length, kind, **one), np.fft.fft(wide), dtype)
    near(transformed("ifft", dtype, x, length, length, kind, **one), np.fft.ifft(wide), dtype)
    for name, whole in ("fft_of_reals", np.fft.fft), ("ifft_of_reals", np.fft.ifft):
        near(transformed(name, real_of(dtype), reals, length, length, kind, **one), whole(wide.real), dtype)
    wanted = np.fft.rfft(wide.real)
    near(transformed("rfft", real_of(dtype), reals, length, half, kind, half=half), wanted, dtype)
    double = np.where((np.arange(half) > 0) & (2 * np.arange(half) < length), 2, 1)
    near(
        transformed("rfft_doubled", real_of(dtype), reals, length, half, kind, half=half),
        wanted * double,
        dtype,
    )
    given = x[:, :half].copy()
    back = np.fft.irfft(given.astype(np.complex128), length)
    near(transformed("irfft", dtype, given, length, length, part, half=half), back, dtype)
    halved = np.fft.irfft(given.astype(np.complex128) / double, length)
    near(transformed("irfft_halved", dtype, given, length, length, part, half=half), halved, dtype)


@pytest.mark.parametrize(("length", "first"), [(6, 2), (12, 4), (35, 5), (22, 11), (64, 8), (96, 48)])
def test_two_passes(length, first):
    rng = np.random.default_rng(length)
    x = (rng.standard_normal((2, length)) + 1j * rng.standard_normal((2, length))).astype(np.complex64)
    how = {"first": first, "passes": 2}
    found = transformed("ifft", COMPLEX64, x, length, length, "complex64", **how)
    near(found, np.fft.ifft(x.astype(np.complex128)), COMPLEX64)
    found = transformed("fft_of_reals", FLOAT64, x.real.astype(float), length, length, "complex128", **how)
    near(found, np.fft.fft(x.real.astype(float)), COMPLEX128)
