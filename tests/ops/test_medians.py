"""Medians of what holds NaN: which one is found, and what is differentiated."""

from __future__ import annotations

import math

import pytest

import fastgrad as fg

NAN = math.nan
DATA = (
    [NAN, 1.0, 2.0], [1.0, NAN, NAN], [NAN, NAN], [NAN], [2.0, NAN, 2.0, 1.0], [1.0, NAN, 2.0, 2.0, 3.0],
    [3.0, 1.0, 1.0, 2.0], [0.1, 0.1, 0.1], [math.inf, 1.0, math.inf], [-math.inf, -math.inf, NAN],
)  # fmt: skip


def _found(lib, name, data, dim):
    x = lib.tensor(data, requires_grad=True)
    found = getattr(x, name)(*dim)
    value, place = (found.values, found.indices.tolist()) if dim else (found, None)
    value.backward()
    return value.item(), place, x.grad.tolist()


@pytest.mark.parity
@pytest.mark.parametrize("data", DATA, ids=str)
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_as_in_pytorch(name, data):
    torch = pytest.importorskip("torch")
    numbers = [n for n in data if not math.isnan(n)]
    ties = len(set(numbers)) < len(numbers) and (name == "nanmedian" or numbers == data)
    for dim in ((),) if ties else ((), (0,)):  # of equal numbers PyTorch finds any
        assert str(_found(fg, name, data, dim)) == str(_found(torch, name, data, dim))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_nan_shares_the_gradient_among_all_that_are(name):
    x = fg.tensor([NAN, NAN], requires_grad=True)
    getattr(x, name)().backward(fg.tensor(3.0))
    assert x.grad.tolist() == [1.5, 1.5]
    x = fg.tensor([2.0, NAN, 2.0, NAN, 1.0], requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == ([0.0, 0.5, 0.0, 0.5, 0.0] if name == "median" else [0.5, 0.0, 0.5, 0.0, 0.0])


def test_the_first_nan_of_a_row_is_found():
    x = fg.tensor([[1.0, NAN, NAN], [NAN, NAN, NAN], [3.0, 1.0, 2.0]], requires_grad=True)
    found = x.median(1)
    assert found.indices.tolist() == [1, 0, 2]
    found.values.sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_no_nan_arises_on_the_way():
    x = fg.tensor([3.0, 1.0, 2.0], requires_grad=True)
    with fg.autograd.detect_anomaly():
        (grad,) = fg.autograd.grad(x.median(), x, create_graph=True)
    assert grad.tolist() == [0.0, 0.0, 1.0]
