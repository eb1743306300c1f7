"""Attention on the CUDA device over the host's memory, by tensor cores and without, against attention in float64."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cuda_comparing import ROWS, bits, guarded
from cuda_halves import read, rounded
from cuda_simulator import TARGET, words_of
from cuda_simulator import run as run_simulated

from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    HALVES,
    computed_in,
)
from fastgrad.native.contracts.frames.elementwise import FLAT

pytestmark = pytest.mark.cudasim

# Of the largest number of a result: weights, and gradients of scores, are rounded to halves as factors.
TOLERANCES = {FLOAT16: 2e-3, BFLOAT16: 1.6e-2, FLOAT32: 1e-5, FLOAT64: 1e-12}


@dataclasses.dataclass
class Case:
    """Sizes of a call. `gap` elements lie between rows, and `shift` before the first one."""

    queries: int
    keys: int
    width: int
    heads: int = 1
    group: int = 1
    causal: int = 0
    masked: bool = False
    scale: float = 0.4
    gap: int = 0
    shift: int = 0
    threads: int = 32


def numbers(dtype, sizes, seed):
    """Elements of a dtype as float64, which hold them exactly."""
    values = np.random.default_rng(seed).uniform(-1, 1, sizes)
    return read(rounded(values.astype(np.float32), dtype), dtype).astype(np.float64) if dtype in HALVES else (
        values.astype(DTYPES[dtype]).astype(np.float64))  # fmt: skip


class Operand:
    """Heads of rows in memory of their own, those of a position one after the other."""

    def __init__(self, case: Case, dtype: int, values: np.ndarray) -> None:
        heads, rows, width = values.shape
        self.row = heads * (width + case.gap)
        self.dtype, self.place = dtype, (slice(None), slice(None), slice(0, width))
        flat = np.zeros((rows, heads, width + case.gap))
        flat[self.place] = values.transpose(1, 0, 2)
        elements = rounded(flat.astype(np.float32), dtype) if dtype in HALVES else flat.astype(DTYPES[dtype])
        self.whole = guarded(np.concatenate([np.zeros(case.shift, elements.dtype), elements.ravel()]))
        self.shape, self.shift, self.head = flat.shape, case.shift, width + case.gap

    def values(self) -> np.ndarray:
        found = read(self.whole[self.shift :].reshape(self.shape), self.dtype)
        return found[self.place].transpose(1, 0, 2).astype(np.float64)

    def words(self, name: str) -> dict:
        start = self.whole.ctypes.data + self.shift * self.whole.itemsize
        return {f"{name}__data": start, f"{name}__head": self.head, f"{name}__row": self.row}


def expected(case: Case, q, k, v, g, mask):
    """Result, logarithms of sums and gradients, by the whole matrix of scores."""
    k, v = (np.repeat(x, case.group, 0) for x in (k, v))
    scores = q @ k.mT * case.scale + (mask if case.masked else 0)
    if case.causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    with np.errstate(divide="ignore"):
        sums = np.exp(scores).sum(-1, keepdims=True)
        lse = np.where(sums == 0, np.inf, np.log(sums))
    weights = np.exp(scores - lse)
    out = weights @ v
    d_scores = weights * (g @ v.mT - (g * out).sum(-1, keepdims=True)) * case.scale
    of_keys = (x.reshape(-1, case.group, *x.shape[1:]).sum(1) for x in (d_scores.mT @ q, weights.mT @ g))
    return out, lse[..., 0], d_scores @ k, *of_keys


def near(found, wanted, dtype, what):
    if dtype in HALVES and what == "lse":
        dtype = FLOAT32
    most = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-3)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCES[dtype] * most, err_msg=what)


def check(dtype: int, case: Case) -> None:
    """Forward and backward."""
    groups = case.heads // case.group
    sizes = ((case.heads, case.queries, case.width), (groups, case.keys, case.width))
    q, g = (numbers(dtype, sizes[0], seed) for seed in (0, 1))
    k, v = (numbers(dtype, sizes[1], seed) for seed in (2, 3))
    mask = numbers(dtype, (case.heads, case.queries, case.keys), 4)
    mask[mask > 0.6] = -np.inf
    mask[:, 0] = -np.inf  # a query without keys
    out, lse, *grads = expected(case, q, k, v, g, mask)
    inputs = {name: Operand(case, dtype, x) for name, x in (("q", q), ("k", k), ("v", v), ("grad_out", g))}
    outs = {"out": q, "grad_q": q, "grad_k": k, "grad_v": k}
    outs = {name: Operand(case, dtype, np.zeros_like(x)) for name, x in outs.items()}
    kept = np.zeros((case.heads, case.queries), DTYPES[computed_in(dtype)])
    frame = {
        "batch": 1, "heads": case.heads, "group": case.group, "queries": case.queries, "keys": case.keys,
        "width": case.width, "causal": case.causal, "scale": bits(case.scale), "launches": 2, "lse": kept,
        "scratch__data": np.zeros_like(kept),
    }  # fmt: skip
    if case.masked:
        inputs["mask"] = Operand(case, dtype, mask)
    for name, operand in {**inputs, **outs}.items():
        frame |= operand.words(name)
    for name in ("attention", "attention_backward"):
        words = words_of(ROWS[name].frame(FLAT), **frame)
        run_simulated(ROWS[name], dtype, FLAT, words, case.threads)
    near(outs["out"].values(), out, dtype, "out")
    near(kept, lse, dtype, "lse")
    for name, wanted in zip(("grad_q", "grad_k", "grad_v"), grads, strict=True):
        near(outs[name].values(), wanted, dtype, name)
    for name, operand in outs.items():
        whole = operand.whole.base
        assert (whole[:8].view(np.uint8) == 0x5A).all(), name
        assert (whole[-8:].view(np.uint8) == 0x5A).all(), name


CASES = {
    "one": Case(1, 1, 1),
    "odd": Case(5, 7, 3, masked=True),
    "of two tiles of keys": Case(18, 67, 8),
    "causal": Case(35, 35, 16, causal=1),
    "causal, fewer keys": Case(34, 20, 8, causal=1),
    "groups": Case(3, 17, 24, heads=4, group=2, causal=1, masked=True),
    "a negative scale": Case(4, 33, 8, scale=-2.5),
    "no scale": Case(4, 5, 8, scale=0.0, causal=1),
    "misaligned": Case(3, 5, 8, shift=1, masked=True),
    "rows apart": Case(3, 5, 6, heads=2, gap=3),
    "usual": Case(3, 20, 72, causal=1),
    "wide": Case(3, 5, 136),
}


@pytest.mark.parametrize("name", CASES)
def test_halves(name):
    check(BFLOAT16, CASES[name])


@pytest.mark.parametrize("name", ["odd", "groups"])
def test_float16(name):
    check(FLOAT16, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_floats(name):
    check(FLOAT32, CASES[name])


@pytest.mark.parametrize("name", ["odd", "groups"])
def test_doubles(name):
    check(FLOAT64, CASES[name])


def test_halves_without_tensor_cores(monkeypatch):
    monkeypatch.setattr("cuda_simulator.TARGET", TARGET._replace(cores={}, kept={}))
    check(BFLOAT16, CASES["groups"])


def test_several_warps():
    check(BFLOAT16, Case(40, 70, 8, causal=1, threads=64))
    check(FLOAT32, Case(20, 70, 8, causal=1, threads=64))
