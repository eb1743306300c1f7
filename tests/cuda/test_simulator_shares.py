"""Rows of every length, at addresses of every kind, through the kernels that keep shares of them in registers."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, bits, both, close, run_simulated
from cuda_halves import kind_of, read, stored, unit_of_half
from cuda_simulator import words_of

from fastgrad.native.contracts.element_types import BFLOAT16, DTYPES, FLOAT16, FLOAT32, FLOAT64, HALVES
from fastgrad.native.contracts.frames.elementwise import FLAT

pytestmark = pytest.mark.cudasim

THREADS = 64
LENGTHS = (1, 3, 7, 8, 31, 32, 33, 100, 520, 1024, 1025, 1040)
DTYPE = pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, FLOAT16, BFLOAT16], ids=DTYPES.__getitem__)


def kind_of_sums(dtype: int) -> type:
    """What statistics and sums are to NumPy."""
    return np.float64 if dtype == FLOAT64 else np.float32


def at(address: int, values: np.ndarray, dtype: int) -> np.ndarray:
    """A copy of some numbers as elements that begin so many bytes behind a multiple of 16."""
    given = stored(values, dtype).ravel()
    room = np.zeros(given.nbytes + 64, np.uint8)
    first = -room.ctypes.data % 16 + address
    found = room[first : first + given.nbytes].view(given.dtype)
    found[:] = given
    return found


def normal(*sizes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(sizes)


def same(name: str, dtype: int, outs: dict, ulps: float, of_largest: float = 0, **values) -> None:
    """Compare with the CPU's kernel, of halves with what the same kernel makes of them as float32.

    Statistics and sums, which are float32 then, are given as such; every other array holds elements.
    """
    if dtype not in HALVES:
        return agree(name, dtype, FLAT, outs, ulps, THREADS, of_largest, **values)
    found = []
    for code in (dtype, FLOAT32):
        whole = {
            k: read(v, dtype) if v.dtype == np.uint16 and code == FLOAT32 else v.copy()
            for k, v in outs.items()
        }
        given = {
            k: read(v, dtype) if isinstance(v, np.ndarray) and v.dtype == np.uint16 and code == FLOAT32 else v
            for k, v in values.items()
        }
        run_simulated(ROWS[name], code, FLAT, words_of(ROWS[name].frame(), **whole, **given), THREADS)
        found.append(whole)
    for key, expected in found[1].items():
        got, halves = found[0][key], found[0][key].dtype == np.uint16
        unit = functools.partial(unit_of_half, dtype=dtype) if halves else np.spacing
        close(
            read(got, dtype) if halves else got,
            expected,
            1 if halves else ulps,
            f"{name} {key}",
            of_largest,
            unit,
        )


def extents(rows: int, length: int) -> dict:
    return {"before": rows, "length": length, "after": 1, "pitch": 1}


def normalised(rows: int, length: int, **arrays) -> dict:
    frame = {"n": rows, "groups": 1, "c": length, "s": 1, "channels_last": 0, "eps": bits(1e-5)}
    frame |= {f"{name}__data": value for name, value in arrays.items()}
    return frame | {f"{name}__numel": value.size for name, value in arrays.items()}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_lengths(name, length):
    x = at(0, normal(3, length), FLOAT32)
    out = {"out": np.zeros(3 if name == "logsumexp" else 3 * length, np.float32)}
    agree(name, FLOAT32, FLAT, out, 16, THREADS, x=x, **extents(3, length))


@DTYPE
@pytest.mark.parametrize("length", [7, 32, 1040])
def test_addresses(dtype, length):
    for shift in (0, np.dtype(kind_of(dtype)).itemsize):
        x, v = at(shift, normal(3, length), dtype), at(0, abs(normal(3, length, seed=1)), dtype)
        out = {"out": np.zeros(3 * length, kind_of(dtype))}
        same("softmax", dtype, out, 16, x=x, **extents(3, length))
        same("log_softmax_backward", dtype, out, 64, 0.1, x=v, second=x, **extents(3, length))
        same("sum", dtype, {"out": np.zeros(3, kind_of_sums(dtype))}, 4, x=v, count=length, results=3,
              kept__rank=1, kept__sizes=[3], kept__strides=[length], gone__rank=1, gone__sizes=[length],
              gone__strides=[1])  # fmt: skip


@DTYPE
@pytest.mark.parametrize("length", [7, 40, 1040])
def test_normalisation(dtype, length):
    size, weight = np.dtype(kind_of(dtype)).itemsize, at(0, normal(length, seed=2), dtype)
    bias, statistics = at(0, normal(length, seed=3), dtype), kind_of_sums(dtype)
    for shift in (0, size):
        x, v = at(shift, normal(3, length), dtype), at(0, normal(3, length, seed=1), dtype)
        empty, of_row = np.zeros(3 * length, kind_of(dtype)), np.zeros(3, statistics)
        outs = {"out": empty, "mean": of_row, "rstd": of_row}
        given = normalised(3, length, x=x, weight=weight, bias=bias)
        same("norm_rows", dtype, outs, 16, 0.5, **given)
        mean, rstd = (abs(normal(3, seed=seed)).astype(statistics) for seed in (4, 5))
        given = normalised(3, length, x=x, grad=v, weight=weight, mean=mean, rstd=rstd)
        same("norm_rows_backward", dtype, {"out": empty}, 16, 0.5, **given)


@DTYPE
@pytest.mark.parametrize(("rows", "length"), [(9, 7), (9, 48), (5, 528), (3, 1040), (1, 8)])
def test_gradients_of_weights(dtype, rows, length):
    x, v, w = (at(0, normal(n, length, seed=k), dtype) for k, n in enumerate((rows, rows, 1)))
    kind, size = kind_of_sums(dtype), -(-rows // 4)
    mean, rstd = (abs(normal(rows, seed=seed)).astype(kind) for seed in (4, 5))
    frame = {
        "x": x, "grad": v, "weight": w, "mean": mean, "rstd": rstd, "rows": rows, "length": length,
        "blocks": size, "block": 4,
    }  # fmt: skip
    outs = {"out": np.zeros(rows * length, kind_of(dtype))}
    sums = np.zeros(size * length * 2)
    same("norm_rows_gradients", dtype, outs, 32, 0.5, **frame, sums=sums, steps=size)
    if dtype not in HALVES:
        mine, theirs = both(
            "norm_rows_gradients", dtype, FLAT, outs | {"sums": sums}, THREADS, **frame, steps=size
        )
        np.testing.assert_allclose(mine["sums"], theirs["sums"], rtol=4e-6, atol=2e-6)
        sums = theirs["sums"]
    columns = {"weight_out": np.zeros(length, kind), "bias_out": np.zeros(length, kind)}
    same("norm_rows_gradients", dtype, columns, 64 if dtype == FLOAT64 else 1, 0.1, **frame, sums=sums, stage=1,
         steps=-(-length // 512))  # fmt: skip


@pytest.mark.parametrize("length", [5, 64])
def test_special_rows(length):
    x = normal(7, length).astype(np.float32)
    x[0, 3], x[1, 2], x[2], x[3, 1], x[4] = np.inf, -np.inf, -np.inf, np.nan, np.nan
    x[5, :2] = np.nan, np.inf
    x[6, :2] = np.nan, -np.inf
    for name in ("softmax", "safe_softmax", "log_softmax", "logsumexp"):
        out = {"out": np.zeros(7 if name == "logsumexp" else 7 * length, np.float32)}
        agree(name, FLOAT32, FLAT, out, 8, THREADS, x=at(0, x, FLOAT32), **extents(7, length))


def test_rows_of_nothing():
    for rows, length in ((0, 8), (3, 0)):
        out = {"out": np.zeros(rows, np.float32)}
        agree("logsumexp", FLOAT32, FLAT, out, 0, THREADS, x=np.zeros(8, np.float32), **extents(rows, length))


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, BFLOAT16], ids=DTYPES.__getitem__)
@pytest.mark.parametrize("classes", [5, 24])
def test_gradients_of_losses(dtype, classes):
    rows = 9
    targets = np.random.default_rng(1).integers(0, classes, rows)
    targets[2] = -100
    frame = {
        "targets": targets, "rows": rows, "classes": classes, "inner": 1, "ignore_index": -100,
        "row_stride": classes, "class_stride": 1, "inner_stride": 1,
    }  # fmt: skip
    total = np.array([3.5], kind_of_sums(dtype))
    for reduction, weights in ((0, at(0, abs(normal(classes)), dtype)), (1, 0), (2, 0)):
        given = {
            "loss": at(0, normal(rows if reduction == 0 else 1), dtype),
            "total": total,
            "weights": weights,
        }
        outs = {"x": np.ones(rows * classes, kind_of(dtype))}
        same("nll_loss_backward", dtype, outs, 2, reduction=reduction, **given, **frame)
    if dtype in HALVES:
        return
    targets[4] = classes
    outs = {"x": np.ones(rows * classes, kind_of(dtype)), "status": np.zeros(3, np.int64)}
    mine, theirs = both("nll_loss_backward", dtype, FLAT, outs, 32, reduction=2, **given, **frame)
    np.testing.assert_array_equal(mine["status"], theirs["status"])
