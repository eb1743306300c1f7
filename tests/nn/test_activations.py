"""Activations that are random or in place, and those that are compositions."""

from __future__ import annotations

import numpy as np
import pytest


def test_rrelu_draws_factors(lib):
    lib.manual_seed(0)
    x = lib.full((20000,), -1.0, dtype=lib.float64, requires_grad=True)
    y = lib.nn.functional.rrelu(x, 0.1, 0.5, training=True)
    assert float(-y.detach().max()) >= 0.1
    assert float(-y.detach().min()) <= 0.5
    assert -float(y.detach().mean()) == pytest.approx(0.3, abs=0.005)
    assert float(y.detach().std()) == pytest.approx(0.4 / 12**0.5, rel=0.02)
    y.sum().backward()
    assert lib.equal(x.grad, -y.detach())


def test_rrelu_leaves_what_is_positive(lib):
    x = lib.tensor([1.0, -2.0, 3.0])
    y = lib.nn.functional.rrelu_(x, training=True)
    assert y is x
    assert y[::2].tolist() == [1.0, 3.0]
    assert -2 / 3 <= float(y[1]) <= -1 / 4


@pytest.mark.parametrize(
    ("bounds", "text"),
    [((0.5, 0.1), "[Ll]ower"), ((float("nan"), 1.0), "lower bound"), ((0.0, float("inf")), "upper")],
)
def test_rrelu_refuses_bounds(lib, bounds: tuple[float, float], text: str):
    with pytest.raises(RuntimeError, match=text):
        lib.nn.functional.rrelu(lib.ones(2), *bounds, training=True)


def test_gumbel_softmax(lib):
    lib.manual_seed(0)
    logits = lib.tensor(np.log([0.2, 0.3, 0.5])).expand(6000, 3)
    leaf = logits.clone().requires_grad_()
    hard = lib.nn.functional.gumbel_softmax(leaf, tau=0.5, hard=True)
    assert lib.allclose(hard.sum(1), lib.ones(6000, dtype=lib.float64))
    assert np.allclose(hard.detach().mean(0).tolist(), [0.2, 0.3, 0.5], atol=0.02)
    hard[:, 0].sum().backward()
    assert float(leaf.grad.abs().sum()) > 0
    soft = lib.nn.functional.gumbel_softmax(logits, dim=0)
    assert lib.allclose(soft.sum(0), lib.ones(3, dtype=lib.float64))


IN_PLACE = {
    "relu_": (),
    "celu_": (0.5,),
    "selu_": (),
    "elu_": (0.5,),
    "leaky_relu_": (0.3,),
    "hardtanh_": (-0.5, 0.5),
    "threshold_": (0.2, 2.0),
    "rrelu_": (0.2, 0.4),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_functions(lib, name: str):
    x = lib.tensor([-1.5, -0.1, 0.3, 2.0], dtype=lib.float64)
    plain = getattr(lib.nn.functional, name[:-1])(x, *IN_PLACE[name])
    out = getattr(lib.nn.functional, name)(x, *IN_PLACE[name])
    assert out is x
    assert lib.equal(out, plain)


@pytest.mark.parametrize("name", ["softsign", "tanhshrink"])
def test_integers_become_floats(lib, name: str):
    out = getattr(lib.nn.functional, name)(lib.tensor([1, -2]))
    assert out.dtype == lib.float32


def test_softmin_and_its_dtype(lib):
    x = lib.tensor([1.0, 2.0])
    assert lib.equal(lib.nn.functional.softmin(x, 0), lib.nn.functional.softmax(-x, 0))
    assert lib.nn.functional.softmin(x, 0, dtype=lib.float64).dtype == lib.float64


def test_methods_of_tensors(lib):
    functional = lib.nn.functional
    x = lib.tensor([[-2.0, 0.25, 3.0], [0.75, -0.5, -1.0]], requires_grad=True)
    weight = lib.tensor([0.5, 0.25, 2.0], requires_grad=True)
    for out, wanted in (
        (x.hardshrink(), functional.hardshrink(x)),
        (x.hardshrink(lambd=1), functional.hardshrink(x, 1.0)),
        (x.prelu(weight), functional.prelu(x, weight)),
    ):
        assert lib.equal(out, wanted)
        assert out.grad_fn.name() == wanted.grad_fn.name()
    assert lib.prelu(x, weight).tolist() == x.prelu(weight).tolist()
    assert lib.hardshrink(x).tolist() == x.hardshrink().tolist()
    with pytest.raises(TypeError, match="weight"):
        x.prelu(None)
    with pytest.raises((NotImplementedError, RuntimeError), match="Long"):
        x.long().hardshrink()
