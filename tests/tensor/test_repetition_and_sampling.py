"""Repeating, turning and rolling beside torch; draws of `bernoulli`, `normal`, `multinomial` and `randperm`."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.functions.sampling import probabilities

CALLS = """
x.repeat(2, 1)
x.repeat(2, 1, 3)
x.repeat(0, 1)
lib.tile(x, (2,))
lib.tile(x, (2, 1, 1))
lib.repeat_interleave(x, 2)
lib.repeat_interleave(x, 2, dim=1)
lib.repeat_interleave(x, lib.tensor([0, 2]), dim=0)
lib.repeat_interleave(lib.tensor([1, 0, 2]))
lib.repeat_interleave(x, 2, dim=1, output_size=6)
lib.flip(x, (0, 1))
lib.linspace(3, 0, 7, dtype=lib.uint8)
lib.linspace(3, -3, 7, dtype=lib.uint8)
lib.linspace(0.5, 1.9, 3, dtype=lib.int64)
lib.linspace(7.9, -2.9, 9, dtype=lib.int32)
lib.linspace(300, 1, 0, dtype=lib.uint8)
lib.linspace(1, 2, 1, dtype=lib.bool)
lib.flip(x, ())
lib.roll(x, 1)
lib.roll(x, -2, 1)
lib.roll(x, (1, 5), (0, 1))
lib.nonzero(x > 2)
lib.masked_select(x, x > 2)
lib.masked_select(x, lib.tensor([True, False, True]))
lib.isclose(x, x + 1e-9)
lib.outer(x[0], x[1])
lib.round(x / 3, decimals=1)
lib.linalg.vector_norm(x, 3, dim=0)
lib.var_mean(x, 0)[0]
lib.std_mean(x, 1)[1]
lib.argsort(x, 1, descending=True)
lib.nn.functional.one_hot(lib.tensor([0, 2]), 4)
""".strip().splitlines()


@pytest.mark.parity
@pytest.mark.parametrize("call", CALLS)
def test_call(call: str):
    torch = pytest.importorskip("torch")
    ours, theirs = (
        eval(call, {"lib": lib, "x": lib.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=lib.float64)})
        for lib in (fg, torch)
    )
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
    assert tuple(ours.shape) == tuple(theirs.shape)


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_follows_the_weights(replacement: bool):
    weights = fg.tensor([0.0, 1.0, 3.0]).expand(20_000, 3)
    draws = fg.multinomial(weights, 2, replacement).numpy()
    assert draws.min() > 0
    assert np.mean(draws[:, 0] == 2) == pytest.approx(0.75, abs=0.02)
    if not replacement:
        assert (draws[:, 0] != draws[:, 1]).all()


def test_permutations_hold_every_number():
    order = fg.randperm(1000)
    assert sorted(order.tolist()) == list(range(1000))
    assert order.tolist() != list(range(1000))
    fg.manual_seed(1)
    first = fg.randperm(50).tolist()
    fg.manual_seed(1)
    assert fg.randperm(50).tolist() == first


def test_bernoulli_and_normal():
    p = fg.tensor([0.0, 0.3, 1.0]).expand(50_000, 3)
    assert fg.bernoulli(p).mean(0).tolist() == pytest.approx([0.0, 0.3, 1.0], abs=0.02)
    draws = fg.normal(fg.full((50_000,), 2.0), 3.0)
    assert float(draws.mean()) == pytest.approx(2.0, abs=0.1)
    assert float(draws.std()) == pytest.approx(3.0, abs=0.1)


def test_what_else_fails_is_not_taken_for_a_wrong_probability():
    with pytest.raises(RuntimeError, match="too large"):
        probabilities(fg.tensor([1.5]), "too large")
    with pytest.raises(NotImplementedError, match="not implemented"):  # as where a device has no such kernel
        probabilities(fg.ones(2, dtype=fg.int64), "too large")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fg.multinomial(fg.tensor([-1.0, 2.0]), 1), "element < 0"),
        (lambda: fg.multinomial(fg.ones(2), 3), "without replacement"),
        (lambda: fg.multinomial(fg.tensor([0.0, 1.0]), 2), "above zero"),
        (lambda: fg.bernoulli(fg.tensor([1.5])), "p_in"),
        (lambda: fg.randperm(-1), "non-negative"),
        (lambda: fg.ones(2, 2).repeat(2), "dimensions"),
        (lambda: fg.roll(fg.ones(2), (1, 2), 0), "align"),
    ],
)
def test_bad_input(call, text: str):
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda lib: lib.repeat_interleave(lib.arange(3), 2, output_size=5), RuntimeError),
        (lambda lib: lib.repeat_interleave(lib.arange(2), lib.tensor([1, 2]), output_size=2), RuntimeError),
        (lambda lib: lib.repeat_interleave(lib.arange(3), 2, output_size="6"), TypeError),
        (lambda lib: lib.repeat_interleave(lib.ones(2, 2).long()), RuntimeError),
        (lambda lib: lib.linspace(0, 300, 3, dtype=lib.uint8), RuntimeError),
        (lambda lib: lib.linspace(0, 2**63, 3, dtype=lib.int64), RuntimeError),
        (lambda lib: lib.linspace(float("nan"), 1, 3, dtype=lib.int32), RuntimeError),
        (lambda lib: lib.linspace(0, float("inf"), 3, dtype=lib.int64), RuntimeError),
        (lambda lib: lib.linspace(0, 1, 3, dtype=lib.bool), NotImplementedError),
    ],
)
def test_what_is_refused(lib, call, error):
    with pytest.raises(error):
        call(lib)
