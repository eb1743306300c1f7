"""Copies and casts of what lies across the result, and ops whose operands do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.native.contracts.frames.elementwise import ACROSS
from fastgrad.native.launch.strided import COPIES_PAY

# Sizes and orders of dimensions: squares, tails on either side, less than a square, outer and middle dimensions.
CASES = (
    ((ACROSS, ACROSS), (1, 0)), ((65, 47), (1, 0)), ((ACROSS - 1, 40), (1, 0)), ((40, ACROSS - 1), (1, 0)),
    ((3, 33, 50), (0, 2, 1)), ((33, 5, 50), (2, 1, 0)), ((33, 5, 50), (2, 0, 1)), ((2, 19, 3, 37), (0, 3, 2, 1)),
    ((2, 70, 9, 16), (0, 2, 3, 1)), ((17, 2, 2, 3, 18), (4, 1, 2, 3, 0)), ((300, 257), (1, 0)),
    ((129, 31, 64), (2, 0, 1)),
)  # fmt: skip
DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")


def elements(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        x = rng.standard_normal(shape).astype(dtype)
        x.reshape(-1)[::13] = np.nan
        x.reshape(-1)[1::17] = -0.0
        return x
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def bits(x):
    return np.ascontiguousarray(x).view(np.uint8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_bits_arrive(case, dtype):
    shape, order = case
    x = elements(shape, dtype)
    assert (bits(fg.tensor(x).permute(order).contiguous().numpy()) == bits(x.transpose(order))).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_left_out_stays_out(case):
    shape, order = case
    wide = np.full([n + 3 for n in shape], 77.0, np.float32)
    inner = tuple(slice(1, -2) for _ in shape)
    wide[inner] = elements(shape, "float32")
    to = fg.full([shape[d] + 2 for d in order], 5.0)
    to[tuple(slice(1, -1) for _ in shape)] = fg.tensor(wide)[inner].permute(order)
    expected = np.full(to.shape, 5.0, np.float32)
    expected[tuple(slice(1, -1) for _ in shape)] = wide[inner].transpose(order)
    assert (bits(to.numpy()) == bits(expected)).all()


@pytest.mark.parametrize(
    ("source", "to"), list(itertools.permutations(("bool", "uint8", "int64", "float32", "float64"), 2)),
)  # fmt: skip
def test_casts(source, to):
    x = np.nan_to_num(elements((70, 33), source))
    got = fg.empty(33, 70, dtype=getattr(fg, to)).copy_(fg.tensor(x).t())
    assert (bits(got.numpy()) == bits(x.T.astype(to))).all()


def binary_cases():
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((150, 140)).astype(np.float32) for _ in range(2))
    t = fg.tensor(x), fg.tensor(y), fg.tensor(x.T.copy()), fg.tensor(y.T.copy())
    assert x.size >= COPIES_PAY
    mask = x > 0
    return {
        "one across": (lambda: t[0] + t[3].t(), x + y),
        "the first across": (lambda: t[2].t() - t[1], x - y),
        "into one that lies by columns": (lambda: fg.empty(140, 150).t().copy_(t[0]).mul_(t[1]), x * y),
        "onto itself": (lambda: t[2].clone().t().add_(t[1]), x + y),
        "a square onto its transpose": (
            lambda: fg.tensor(x[:140]).add_(fg.tensor(x[:140]).t()), x[:140] + x[:140].T,
        ),
        "a row besides": (lambda: fg.where(fg.tensor(mask.T.copy()).t(), t[0], t[1][0]), np.where(mask, x, y[0])),
        "a mask across": (lambda: fg.where(fg.tensor(mask.T.copy()).t(), t[0], t[3].t()), np.where(mask, x, y)),
        "into a part": (lambda: fg.zeros(150, 160)[:, 3:143].copy_(t[0]).add_(t[3].t()), x + y),
        "another dtype": (lambda: t[0] + fg.tensor(y.T.astype(np.float64)).t(), x + y.astype(np.float64)),
    }  # fmt: skip


@pytest.mark.parametrize("case", binary_cases())
def test_operands_that_lie_across(case):
    run, expected = binary_cases()[case]
    before, results = fg.get_num_threads(), []
    for threads in (1, 2, 5):
        fg.set_num_threads(threads)
        results.append(run())
    fg.set_num_threads(before)
    for got in results:
        assert got.numpy().dtype == expected.dtype
        assert (got.numpy() == expected).all()
        assert got.stride() == results[0].stride()


def test_an_operand_that_is_its_own_transpose_in_place():
    x = np.arange(160 * 160, dtype=np.float32).reshape(160, 160)
    t = fg.tensor(x)
    with pytest.raises(RuntimeError, match="memory"):
        t.add_(t.t())
    assert (t.numpy() == x).all()


def test_gradients_of_operands_that_lie_across():
    rng = np.random.default_rng(5)
    x, y, g = (rng.standard_normal(s) for s in ((130, 150), (150, 130), (130, 150)))
    a, b = (fg.tensor(v, requires_grad=True) for v in (x, y))
    (a * b.t()).backward(fg.tensor(g))
    assert (a.grad.numpy() == g * y.T).all()
    assert (b.grad.numpy() == (g * x).T).all()


@pytest.mark.parametrize("columns", [1, 7, 64, 301])
@pytest.mark.parametrize("of", ["a row", "a column", "a part", "a number of its own"])
def test_onto_the_first_operand(columns, of):
    rng = np.random.default_rng(columns)
    x = rng.standard_normal((37, columns + 5)).astype(np.float32)
    shape = {
        "a row": (columns,),
        "a column": (37, 1),
        "a part": (37, columns),
        "a number of its own": (1, 1),
    }[of]
    y = rng.standard_normal(shape).astype(np.float32)
    t = fg.tensor(x)
    part = t[:, 2 : columns + 2]
    part.sub_(fg.tensor(y))
    part.mul_(fg.tensor(y)[..., :1] if of == "a part" else fg.tensor(y))
    expected = x.copy()
    expected[:, 2 : columns + 2] -= y
    expected[:, 2 : columns + 2] *= y[..., :1] if of == "a part" else y
    assert (t.numpy() == expected).all()
