"""Kernels of GPUs that take halves as they lie give what the same ones over float32 copies give, rounded once."""

from __future__ import annotations

import gc
from contextlib import contextmanager

import numpy as np
import pytest
from cuda_halves import read

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.functions.data import elements_of
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16
from fastgrad.native.contracts.ops import HALVES_ON_GPUS
from fastgrad.ops.registry import OPS
from tests.cuda.fake_driver import FakeDriver, attached

pytestmark = pytest.mark.cudasim
CODES = {fg.float16: FLOAT16, fg.bfloat16: BFLOAT16}
HALVES = pytest.mark.parametrize("half", [fg.float16, fg.bfloat16], ids=lambda d: d.name)


@pytest.fixture(scope="module")
def driver():
    fake = FakeDriver()
    with attached(fake, fake.simulator):
        yield fake
        gc.collect()


@contextmanager
def converting():
    """Ops over halves on GPUs work on copies, as they do on the CPU."""
    direct = [op for op in OPS if op.facts["flags"] & HALVES_ON_GPUS]
    try:
        for op in direct:
            op.write("flags", op.facts["flags"] & ~HALVES_ON_GPUS)
        yield
    finally:
        for op in direct:
            op.write("flags", op.facts["flags"])


def leaf(*sizes: int, dtype, seed: int = 0):
    values = np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)
    return fg.tensor(values, device="cuda", dtype=dtype).requires_grad_()


def classes(*sizes: int, most: int, seed: int = 5):
    return fg.tensor(np.random.default_rng(seed).integers(0, most, sizes), device="cuda")


def norm_of_batches(training):
    def program(h):
        x, w, b = leaf(3, 4, 5, dtype=h), leaf(4, dtype=h, seed=1), leaf(4, dtype=h, seed=2)
        mean, var = leaf(4, dtype=h, seed=3).detach(), leaf(4, dtype=h, seed=4).detach().abs() + 0.5
        out = F.batch_norm(x, mean, var, w, b, training=training)
        return (x, w, b), out, mean, var

    return program


def attention(heads, shared, queries, keys, width, causal=False, masked=False):
    def program(h):
        q = leaf(1, heads, queries, width, dtype=h)
        k, v = (leaf(1, shared, keys, width, dtype=h, seed=seed) for seed in (1, 2))
        mask = leaf(1, heads, queries, keys, dtype=h, seed=3).detach() if masked else None
        out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=heads != shared)
        return (q, k, v), out

    return program


def of(function, *sizes):
    """A program of one tensor, or of the last of them and others of other seeds."""

    def program(h):
        xs = tuple(leaf(*size, dtype=h, seed=k) for k, size in enumerate(sizes or ((3, 7),)))
        return xs, function(*xs)

    return program


IMAGE = (2, 3, 6, 5)
PROGRAMS = {
    "softmax": (of(lambda x: x.softmax(1)), {"softmax", "softmax_backward"}),
    "softmax of columns": (of(lambda x: x.softmax(0)), {"softmax"}),
    "log_softmax": (of(lambda x: F.log_softmax(x, 1)), {"log_softmax", "log_softmax_backward"}),
    "logsumexp": (of(lambda x: x.logsumexp(1)), {"logsumexp"}),
    "layer_norm": (
        of(lambda x, w, b: F.layer_norm(x, (40,), w, b), (5, 40), (40,), (40,)), {"norm_rows", "norm_rows_gradients"}
    ),
    "layer_norm without weights": (of(lambda x: F.layer_norm(x, (7,))), {"norm_rows", "norm_rows_backward"}),
    "rms_norm": (
        of(lambda x, w: F.rms_norm(x, (40,), w), (5, 40), (40,)), {"rms_rows", "rms_rows_gradients"}
    ),
    "group_norm": (
        of(lambda x, w, b: F.group_norm(x, 2, w, b), (3, 4, 5), (4,), (4,)),
        {"norm_rows", "norm_rows_backward", "norm_rows_weight"},
    ),
    "batch_norm": (norm_of_batches(True), {"norm_channels", "norm_channels_backward", "norm_channels_weight"}),
    "batch_norm in evaluation": (norm_of_batches(False), {"norm_channels_fixed", "norm_channels_fixed_backward"}),
    "sum": (of(lambda x: x.sum()), {"sum"}),
    "sum of rows": (of(lambda x: x.sum(1)), {"sum"}),
    "broadcast": (of(lambda x, y: x * y, (3, 7), (7,)), {"sum"}),
    "mean": (of(lambda x: x.mean(0)), {"mean"}),
    "amax": (of(lambda x: x.amax(1)), {"amax"}),
    "amin": (of(lambda x: x.amin()), {"amin"}),
    "prod": (of(lambda x: x.prod(1)), {"prod", "products_before", "products_after"}),
    "cumsum": (of(lambda x: x.cumsum(1)), {"cumsum", "reversed_cumsum"}),
    "max": (of(lambda x: x.max(1).values), {"max_dim"}),
    "cross_entropy": (
        of(lambda x: F.cross_entropy(x, classes(3, most=7))),
        {"log_softmax", "nll_loss", "nll_loss_backward", "log_softmax_backward"},
    ),
    "each cross_entropy": (
        of(lambda x: F.cross_entropy(x, classes(3, most=7), reduction="none")), {"nll_loss", "nll_loss_backward"}
    ),
    "weighed nll of images": (
        of(lambda x: F.nll_loss(x, classes(2, 6, 5, most=3), weight=fg.tensor([1, 2.5, 0.1]).to(x)), IMAGE),
        {"nll_loss", "nll_loss_backward"},
    ),
    "max_pool2d": (of(lambda x: F.max_pool2d(x, 3, 1, 1), IMAGE), {"max_pool2d", "max_pool2d_backward"}),
    "avg_pool2d": (of(lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE), {"avg_pool2d", "avg_pool2d_backward"}),
    "adaptive": (
        of(lambda x: F.adaptive_avg_pool2d(x, 2), IMAGE), {"adaptive_avg_pool2d", "adaptive_avg_pool2d_backward"}
    ),
    "pad": (of(lambda x: F.pad(x, (1, 2), value=1 / 3)), {"pad"}),
    "reflect": (of(lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect"), IMAGE), {"pad"}),
    "embedding": (
        of(lambda x: F.embedding(classes(9, most=5), x, padding_idx=1), (5, 3)), {"embedding", "embedding_backward"}
    ),
    "scaled embedding": (
        of(lambda x: F.embedding(classes(9, most=5), x, scale_grad_by_freq=True), (5, 3)), {"embedding_backward"}
    ),
}  # fmt: skip


def bits(t):
    return elements_of(t.detach().cpu().contiguous()).view(np.uint16).copy()


def results(program, half):
    """The bits of results and of gradients."""
    leaves, out, *moved = program(half)
    weights = leaf(*out.shape, dtype=half, seed=9).detach()
    (out * weights).sum().backward()
    assert out.dtype is half
    return [bits(t) for t in (out, *(x.grad for x in leaves), *moved)]


def both_ways(driver, program, half):
    """What a program gives of halves as they lie, and where operands are converted; and the launches of the former."""
    driver.launched.clear()
    found = results(program, half)
    launched = list(driver.launched)
    with converting():
        driver.launched.clear()
        return found, results(program, half), launched


@HALVES
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_rounded_but_results(driver, half, name):
    program, kernels = PROGRAMS[name]
    found, expected, launched = both_ways(driver, program, half)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert kernels <= set(launched)
    assert len(launched) < len(driver.launched)  # what is not copied


@HALVES
def test_attention_rounds_weights_besides(driver, half):
    program = attention(4, 2, 5, 20, 7, causal=True, masked=True)
    found, expected, launched = both_ways(driver, program, half)
    for a, b in zip(found, expected, strict=True):
        x, y = (read(v, CODES[half]) for v in (a, b))
        np.testing.assert_allclose(x, y, rtol=0, atol=2 * fg.finfo(half).eps * np.abs(y).max())
    assert {"attention", "attention_backward"} <= set(launched)
    assert len(launched) < len(driver.launched)
