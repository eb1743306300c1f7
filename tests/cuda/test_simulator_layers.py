"""Kernels of the CUDA device that layers, losses and optimizers run, over the host's memory; see `test_simulator`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cuda_comparing import (
    ROWS,
    agree,
    bits,
    both,
    close,
    numbers,
    run_simulated,
    uniform,
)
from cuda_halves import kind_of
from cuda_simulator import words_of

from fastgrad.kernels.cuda import index, losses
from fastgrad.native.contracts.element_types import (
    BOOL,
    DTYPES,
    FLOAT32,
    FLOATS,
    HALVES,
    INT32,
    INT64,
    UINT8,
)
from fastgrad.native.contracts.frames.elementwise import FLAT

pytestmark = pytest.mark.cudasim

STORED = pytest.mark.parametrize("dtype", [FLOAT32, *HALVES], ids=DTYPES.__getitem__)


@pytest.fixture
def small_grid(monkeypatch):
    """Two blocks in place of hundreds."""
    for module in (losses, index):
        monkeypatch.setattr(module, "GRID", (2, 1))
        monkeypatch.setattr(module, "BLOCKS", 2)


@STORED
@pytest.mark.parametrize("n", [1, 130])
def test_dropout(n, dtype):
    x = numbers(np.random.default_rng(0), n, dtype)
    frame = {"x__data": x, "x__numel": n, "seed": 11, "offset": 5, "threshold": 3 << 30, "scale": bits(4 / 3)}
    outs = {"out": np.zeros_like(x), "mask": np.zeros(n, np.bool_)}
    agree("dropout", dtype, FLAT, outs, 0, 32, **frame)
    mask = np.arange(n) % 3 > 0
    frame = {"x__data": x, "x__numel": n, "mask__data": mask, "scale": bits(1.5)}
    agree("dropout_backward", dtype, FLAT, {"out": np.zeros_like(x)}, 0, 32, **frame)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("inner", [1, 3])
def test_losses(reduction, inner, small_grid):
    rows, classes = 23, 5
    count = rows * inner
    x = -uniform(count * classes, 0)
    targets = np.random.default_rng(1).integers(0, classes, count)
    targets[::7] = -100
    shape = {"rows": rows, "classes": classes, "inner": inner, "ignore_index": -100, "reduction": reduction}
    strides = {"row_stride": classes * inner, "class_stride": inner, "inner_stride": 1}
    for weights in (0, uniform(classes, 2)):
        frame = {"targets": targets, "weights": weights, **shape, **strides}
        outs = {
            "loss": np.zeros(count if reduction == 0 else 1, np.float32),
            "total": np.zeros(1, np.float32),
        }
        agree("nll_loss", FLOAT32, FLAT, outs, 2, 32, x=x, **frame)
        given = {"loss": uniform(count if reduction == 0 else 1, 3), "total": uniform(1, 4)}
        outs = {"x": np.ones(count * classes, np.float32)}
        agree("nll_loss_backward", FLOAT32, FLAT, outs, 2, 32, **given, **frame)
    targets[4] = classes
    report = {"status": np.zeros(3, np.int64)}
    frame = {"targets": targets, "x": x, **shape, **strides}
    outs = {"loss": np.zeros(count, np.float32), "total": np.zeros(1, np.float32)}
    mine, theirs = both("nll_loss", FLOAT32, FLAT, outs | report, 32, **frame)
    np.testing.assert_array_equal(mine["status"], theirs["status"])


# --- indices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [0, 1])
def test_embeddings(transposed):
    rows, width, n = 21, 37, 45
    indices = np.random.default_rng(0).integers(0, rows, n)
    frame = {
        "indices__data": indices, "indices__numel": n, "rows": rows, "width": width, "padding": 4,
        "transposed": transposed,
    }  # fmt: skip
    for dtype in (FLOAT32, *HALVES):
        out, table = {"out": np.zeros(n * width, kind_of(dtype))}, uniform(rows * width, 1, dtype)
        agree("embedding", dtype, FLAT, out, 0, 64, table__data=table, **frame)
    out = {"out": np.zeros(n * width, np.float32)}
    agree(
        "embedding", FLOAT32, FLAT, out, 0, 64, table__data=uniform(rows * width, 1), factors__data=uniform(n, 2),
        **frame,
    )  # fmt: skip
    del frame["transposed"]
    grad = uniform(n * width, 3)
    for factors, first, columns in ((0, 0, width), (uniform(n, 4), 0, width), (0, 5, 20)):
        out = {"out": np.ones(rows * width, np.float32)}
        part = {"factors__data": factors, "first": first, "columns": columns}
        agree("embedding_backward", FLOAT32, FLAT, out, 4, 32, grad__data=grad, **frame, **part)
    frame["indices__data"] = np.where(np.arange(n) == 9, rows, indices)
    for name, more in (("embedding", {"table__data": grad}), ("embedding_backward", {"grad__data": grad})):
        size = n * width if name == "embedding" else rows * width
        outs = {"out": np.zeros(size, np.float32), "status": np.zeros(3, np.int64)}
        more |= {"columns": width} if name == "embedding_backward" else {"transposed": 0}
        mine, theirs = both(name, FLOAT32, FLAT, outs, 64, **frame, **more)
        np.testing.assert_array_equal(mine["status"], theirs["status"])


def gathering(sizes, along, length, x_strides, step):
    """A frame over an index that is contiguous; dimensions from the outermost on."""
    strides = [int(np.prod(sizes[d + 1 :])) for d in range(len(sizes))]
    return {
        "rank": len(sizes), "sizes": list(sizes), "out_strides": strides, "index_strides": strides,
        "x_strides": list(x_strides), "length": length, "step": step, "along": along,
    }  # fmt: skip


@pytest.mark.parametrize("many", [1, 1 << 12])
def test_gathering_and_scattering(many, small_grid, monkeypatch):
    monkeypatch.setattr(index, "MANY", many)
    rng = np.random.default_rng(0)
    cases = (((3, 40, 2), 1, 23, (46, 0, 1), 2), ((50,), 0, 20, (0,), 1), ((6, 5), -1, 1, (5, 1), 0))
    for (sizes, along, length, x_strides, step), dtype in itertools.product(
        cases, (FLOAT32, BOOL, UINT8, *HALVES)
    ):
        n, extent = int(np.prod(sizes)), 3 * 23 * 2
        where = rng.integers(0, length, n)
        frame = gathering(sizes, along, length, x_strides, step) | {"index": where}
        x, values = numbers(rng, extent, dtype), numbers(rng, n, dtype)
        if dtype in FLOATS:
            x, values = uniform(extent, 1, dtype), uniform(n, 2, dtype)
        agree("gather", dtype, FLAT, {"out": np.zeros(n, x.dtype)}, 0, 32, x=x, **frame)
        agree("scatter_add", dtype, FLAT, {"x": x}, 0, 32, out=values, **frame)
    frame["index"] = np.full(n, length)
    outs = {"x": x, "status": np.zeros(3, np.int64)}
    mine, theirs = both("scatter_add", dtype, FLAT, outs, 32, out=values, **frame)
    np.testing.assert_array_equal(mine["status"], theirs["status"])


@pytest.mark.parametrize("many", [1, 1 << 12])
def test_indexing(many, small_grid, monkeypatch):
    monkeypatch.setattr(index, "MANY", many)
    rng = np.random.default_rng(0)
    for (before, after), lengths, dtype in itertools.product(
        ((1, 1), (2, 5)), ([11], [5, 4]), (FLOAT32, *HALVES, BOOL, INT32)
    ):
        n, inner = 45, int(np.prod(lengths))
        indices = np.concatenate([rng.integers(-size, size, n) for size in lengths])
        frame = {
            "indices": indices, "count": len(lengths), "n": n, "before": before, "after": after, "lengths": lengths,
        }  # fmt: skip
        x, values = numbers(rng, before * inner * after, dtype), numbers(rng, before * n * after, dtype)
        if dtype in FLOATS:
            x, values = uniform(x.size, 1, dtype), uniform(values.size, 2, dtype)
        agree("index", dtype, FLAT, {"out": np.zeros(values.size, x.dtype)}, 0, 32, x=x, **frame)
        for accumulate in (0, 1):
            agree("index_put", dtype, FLAT, {"x": x}, 0, 32, out=values, accumulate=accumulate, **frame)
    frame |= {"from_front": 1, "indices": np.abs(indices) % np.repeat(lengths, n)}
    frame["indices"][3] = -1
    outs = {"x": x, "status": np.zeros(3, np.int64)}
    mine, theirs = both("index_put", dtype, FLAT, outs, 32, out=values, **frame)
    np.testing.assert_array_equal(mine["status"], theirs["status"])


# --- normalisation ---------------------------------------------------------------------------------------------

# n, groups, c, s, and whether channels lie last
IMAGES = {
    "layer": (5, 1, 41, 1, 0),
    "long": (2, 1, 150, 1, 0),
    "group": (2, 3, 4, 5, 0),
    "last": (2, 3, 4, 5, 1),
}
BATCHES = {"images": (3, 1, 5, 7, 0), "channels last": (21, 1, 5, 1, 32), "vectors": (9, 1, 13, 1, 0)}


def extents(n, groups, c, s, last):
    return {"n": n, "groups": groups, "c": c, "s": s, "channels_last": last, "eps": bits(1e-5)}


def inputs(**arrays) -> dict:
    """Operands of a framed kernel."""
    given = {f"{name}__data": value for name, value in arrays.items()}
    return given | {
        f"{name}__numel": value.size for name, value in arrays.items() if not isinstance(value, int)
    }


@pytest.mark.parametrize("case", IMAGES)
def test_normalised_rows(case):
    frame = extents(*IMAGES[case])
    n, groups, c, s, _ = IMAGES[case]
    size, rows = n * groups * c * s, n * groups
    x, v, w, b = uniform(size, 0), uniform(size, 1) - 0.2, uniform(groups * c, 2), uniform(groups * c, 3)
    empty, of_row = np.zeros(size, np.float32), np.zeros(rows, np.float32)
    statistics = inputs(mean=uniform(rows, 4), rstd=uniform(rows, 5))
    # Both sides round a mean, by up to a unit and a half of it, and all deviations move by that.
    for weight, bias in ((w, b), (0, 0), (w, 0)):
        given = frame | inputs(x=x, weight=weight, bias=bias)
        outs = {"out": empty, "mean": of_row, "rstd": of_row}
        agree("norm_rows", FLOAT32, FLAT, outs, 12, 64, 0.5, **given)
        agree("rms_rows", FLOAT32, FLAT, {"out": empty, "rstd": of_row}, 8, 64, 0.5, **given)
        given = frame | inputs(x=x, grad=v, weight=weight) | statistics
        agree("norm_rows_backward", FLOAT32, FLAT, {"out": empty}, 8, 64, 0.5, **given)
        agree("rms_rows_backward", FLOAT32, FLAT, {"out": empty}, 8, 64, 0.5, **given)
    given = frame | inputs(x=x + 1, grad=uniform(size, 6)) | statistics
    for name in ("norm_rows_weight", "rms_rows_weight"):
        agree(name, FLOAT32, FLAT, {"out": np.zeros(groups * c, np.float32)}, 8, 64, **given)


@pytest.mark.parametrize("case", BATCHES)
def test_normalised_channels(case):
    frame = extents(*BATCHES[case])
    n, _, c, s, _ = BATCHES[case]
    size = n * c * s
    x, v, w, b = uniform(size, 0), uniform(size, 1), uniform(c, 2), uniform(c, 3)
    empty, of_channel = np.zeros(size, np.float32), np.zeros(c, np.float32)
    statistics = inputs(mean=uniform(c, 4), rstd=uniform(c, 5))
    for weight, bias in ((w, b), (0, 0)):
        given = frame | inputs(x=x, weight=weight, bias=bias)
        outs = {"out": empty, "mean": of_channel, "rstd": of_channel}
        agree("norm_channels", FLOAT32, FLAT, outs, 8, 64, 0.5, momentum=bits(0.1), **given)
        moved = {"means__data": uniform(c, 6), "variances__data": uniform(c, 7)}
        agree("norm_channels", FLOAT32, FLAT, outs | moved, 8, 64, 0.5, momentum=bits(0.1), **given)
        given |= inputs(means=uniform(c, 6), variances=uniform(c, 7))
        agree("norm_channels_fixed", FLOAT32, FLAT, {"out": empty}, 8, 32, 0.5, **given)
        given = frame | inputs(grad=v, weight=weight, variances=uniform(c, 7))
        agree("norm_channels_fixed_backward", FLOAT32, FLAT, {"out": empty}, 4, 32, **given)
        given = frame | inputs(x=x, grad=v, weight=weight) | statistics
        agree("norm_channels_backward", FLOAT32, FLAT, {"out": empty}, 8, 64, 0.5, **given)
    given = frame | inputs(x=x + 1, grad=v) | statistics
    agree("norm_channels_weight", FLOAT32, FLAT, {"out": of_channel}, 8, 64, **given)


@pytest.mark.parametrize("name", ["norm_rows_gradients", "rms_rows_gradients"])
def test_all_gradients_of_rows(name):
    rows, length, rows_of_block = 11, 600, 4
    blocks = -(-rows // rows_of_block)
    x, v, w = uniform(rows * length, 0), uniform(rows * length, 1), uniform(length, 2)
    frame = {
        "x": x, "grad": v, "weight": w, "mean": uniform(rows, 3), "rstd": uniform(rows, 4), "rows": rows,
        "length": length, "blocks": blocks, "block": rows_of_block,
    }  # fmt: skip
    sums = np.zeros(blocks * length * 2)
    outs = {"out": np.zeros(rows * length, np.float32), "sums": sums}
    mine, theirs = both(name, FLOAT32, FLAT, outs, 64, **frame, steps=blocks)
    np.testing.assert_allclose(mine["out"], theirs["out"], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(mine["sums"], theirs["sums"], rtol=2e-6, atol=1e-6)
    outs = {"weight_out": np.zeros(length, np.float32), "bias_out": np.zeros(length, np.float32)}
    agree(name, FLOAT32, FLAT, outs, 1, 64, **frame, sums=theirs["sums"], stage=1, steps=2)


# --- pooling and padding ---------------------------------------------------------------------------------------


def planes(count, channels, size, out):
    return {"planes": count, "channels": channels, "extent": list(size), "out_extent": list(out)}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [FLOAT32, INT64], ids=DTYPES.__getitem__)
def test_pooling(channels, dtype):
    rng = np.random.default_rng(0)
    kind = np.dtype(DTYPES[dtype])
    for size, kernel, stride, padding, dilation in (
        ((7, 9), (3, 2), (2, 1), (1, 1), (1, 2)), ((6, 8), (2, 2), (2, 2), (0, 0), (1, 1)),
    ):  # fmt: skip
        window = {
            "kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": stride[0], "stride_w": stride[1],
            "padding_h": padding[0], "padding_w": padding[1],
        }  # fmt: skip
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
        out = [(s + 2 * p - r) // t + 1 for s, p, r, t in zip(size, padding, reach, stride, strict=True)]
        large, small = 2 * channels * size[0] * size[1], 2 * channels * out[0] * out[1]
        x = np.round(numbers(rng, large, dtype)).astype(kind)
        spread = {"dilation_h": dilation[0], "dilation_w": dilation[1]}
        outs = {"out": np.zeros(small, kind), "indices": np.zeros(small, np.int64)}
        frame = planes(2, channels, size, out) | window | spread
        _, found = both("max_pool2d", dtype, FLAT, outs, 32, x=x, **frame)
        agree("max_pool2d", dtype, FLAT, outs, 0, 32, x=x, **frame)
        places = {"indices": found["indices"]}
        agree("pool_gather", dtype, FLAT, {"out": np.zeros(small, kind)}, 0, 32, x=x, **places,
              **planes(2, channels, size, out))  # fmt: skip
        g = uniform(small, 1, dtype) if dtype == FLOAT32 else rng.integers(-9, 9, small)
        agree("max_pool2d_backward", dtype, FLAT, {"out": np.ones(large, kind)}, 2, 32, x=g, **places,
              **planes(2, channels, out, size))  # fmt: skip
        out = [(s + 2 * p - k) // t + 1 for s, p, k, t in zip(size, padding, kernel, stride, strict=True)]
        small = 2 * channels * out[0] * out[1]
        x = uniform(large, 2, dtype) if dtype == FLOAT32 else rng.integers(-9, 9, large)
        g = uniform(small, 3, dtype) if dtype == FLOAT32 else rng.integers(-9, 9, small)
        for counts, divisor in ((0, 0), (1, 0), (0, 5)):
            settings = window | {"counts_padding": counts, "divisor": divisor}
            frame = planes(2, channels, size, out) | settings
            agree("avg_pool2d", dtype, FLAT, {"out": np.zeros(small, kind)}, 8, 32, x=x, **frame)
            frame = planes(2, channels, out, size) | settings
            agree("avg_pool2d_backward", dtype, FLAT, {"out": np.ones(large, kind)}, 8, 32, x=g, **frame)


@pytest.mark.parametrize("channels", [1, 3])
def test_adaptive_pooling(channels):
    for size, out in (((7, 9), (3, 4)), ((3, 2), (5, 2))):
        large, small = 2 * channels * size[0] * size[1], 2 * channels * out[0] * out[1]
        frame = planes(2, channels, size, out)
        outs = {"out": np.zeros(small, np.float32)}
        agree("adaptive_avg_pool2d", FLOAT32, FLAT, outs, 8, 32, x=uniform(large, 0), **frame)
        frame, outs = planes(2, channels, out, size), {"out": np.ones(large, np.float32)}
        agree("adaptive_avg_pool2d_backward", FLOAT32, FLAT, outs, 8, 32, x=uniform(small, 1), **frame)


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("mode", range(4))
def test_padding(mode, after):
    for dtype, (length, begin, longer) in itertools.product(
        (FLOAT32, INT64, BOOL), ((6, 2, 10), (6, 0, 6), (6, 3, 13) if mode else (6, -2, 3))
    ):
        x = numbers(np.random.default_rng(0), 2 * length * after, dtype)
        value = bits(0.25) if dtype == FLOAT32 else 1
        frame = {
            "rows": 2,
            "length": length,
            "out_length": longer,
            "after": after,
            "begin": begin,
            "mode": mode,
        }
        outs = {"out": np.zeros(2 * longer * after, x.dtype)}
        agree("pad", dtype, FLAT, outs, 0, 32, x=x, value=value, **frame)
        if dtype == BOOL:
            continue
        g = uniform(2 * longer * after, 1) if dtype == FLOAT32 else np.arange(2 * longer * after)
        frame |= {"length": longer, "out_length": length}
        agree("pad_backward", dtype, FLAT, {"out": np.ones(2 * length * after, x.dtype)}, 4, 32, x=g, **frame)


# --- attention -------------------------------------------------------------------------------------------------


def heads_of(name: str, heads: int, rows: int, width: int) -> dict:
    """Strides of an operand whose heads lie within its rows."""
    return {f"{name}__batch": heads * rows * width, f"{name}__head": width, f"{name}__row": heads * width}


@pytest.mark.parametrize(
    ("queries", "keys", "width", "causal", "masked"), [(3, 4, 3, 0, 1), (3, 3, 2, 1, 0), (1, 34, 33, 0, 0)]
)
def test_attention(queries, keys, width, causal, masked):
    batch, heads, group = 1, 2, 2
    of_queries, of_keys = batch * heads * queries * width, batch * heads // group * keys * width
    q, g = uniform(of_queries, 0) - 0.5, uniform(of_queries, 1) - 0.3
    k, v = uniform(of_keys, 2) - 0.5, uniform(of_keys, 3)
    room = np.zeros(1 << 18, np.float32)
    frame = {
        "batch": batch, "heads": heads, "group": group, "queries": queries, "keys": keys, "width": width,
        "causal": causal, "scale": bits(0.7), "launches": 2, "q__data": q, "k__data": k, "v__data": v,
        "scratch__data": room, "scratch__nbytes": room.nbytes, "scratch__count": 1,
    }  # fmt: skip
    for name in ("q", "out", "grad_out", "grad_q"):
        frame |= heads_of(name, heads, queries, width)
    for name in ("k", "v", "grad_k", "grad_v"):
        frame |= heads_of(name, heads // group, keys, width)
    if masked:
        mask = np.where(uniform(batch * heads * queries * keys, 4) < 0.3, -np.inf, 0.25).astype(np.float32)
        mask[:keys] = -np.inf  # a query without keys
        frame |= {"mask__data": mask, "mask__batch": heads * queries * keys, "mask__head": queries * keys}
        frame |= {"mask__row": keys}
    outs = {
        "out__data": np.ones(of_queries, np.float32),
        "lse": np.zeros(batch * heads * queries, np.float32),
    }
    mine, found = both("attention", FLOAT32, FLAT, outs, 32, **frame)
    for key in outs:
        close(mine[key], found[key], 16, key, 0.5)
    frame |= {"out__data": found["out__data"], "lse": found["lse"], "grad_out__data": g}
    outs = {"grad_q__data": np.ones(of_queries, np.float32)}
    outs |= {f"grad_{name}__data": np.ones(of_keys, np.float32) for name in ("k", "v")}
    agree("attention_backward", FLOAT32, FLAT, outs, 64, 32, 0.5, **frame)


# --- matrices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FLOAT32, INT32], ids=DTYPES.__getitem__)
def test_products(dtype):
    m, n, k, batch = 67, 66, 19, 2
    a, b = (
        numbers(np.random.default_rng(0), batch * m * k, INT32),
        numbers(np.random.default_rng(1), batch * k * n, INT32),
    )
    a, b = (np.abs(np.clip(v, -9, 9)).astype(DTYPES[dtype]) for v in (a, b))
    frame = {
        "m": m, "n": n, "k": k, "batch": batch, "row_out": n, "step_out": m * n, "step_a": m * k, "step_b": k * n,
    }  # fmt: skip
    for by_columns in (0, 1):
        layout = {
            "a_by_columns": by_columns, "row_a": m if by_columns else k, "b_by_columns": by_columns,
            "row_b": k if by_columns else n,
        }  # fmt: skip
        outs = {"out": np.zeros(batch * m * n, DTYPES[dtype])}
        words = words_of(ROWS["gemm"].frame(FLAT), a=a, b=b, **outs, **frame, **layout)
        run_simulated(ROWS["gemm"], dtype, FLAT, words, 256)
        x, y = (a.reshape(batch, k, m).mT, b.reshape(batch, n, k).mT) if by_columns else (
            a.reshape(batch, m, k), b.reshape(batch, k, n))  # fmt: skip
        np.testing.assert_array_equal(outs["out"].reshape(batch, m, n), x @ y)


def test_panels():
    n, k, batch, panels = 45, 7, 2, 2
    x = uniform(batch * n * k, 0)
    out = {"out": np.zeros(batch * panels * k * 32, np.float32)}
    for by_columns in (0, 1):
        frame = {
            "batch": batch,
            "panels": panels,
            "n": n,
            "k": k,
            "step": n * k,
            "row": k if by_columns else n,
        }
        agree("panels", FLOAT32, FLAT, out, 0, 32, x=x, by_columns=by_columns, **frame)
