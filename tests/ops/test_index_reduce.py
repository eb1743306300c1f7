"""`index_reduce`: values and gradients against PyTorch and against loops, errors."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg

SHAPES = [((4,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), -2)]
REDUCTIONS = ("prod", "mean", "amax", "amin")
DTYPES = ("float32", "float64", "int64", "int32")


def arrays(shape, dim, dtype):
    rng = np.random.default_rng(3)
    sizes = list(shape)
    sizes[dim] = 5
    x, source = ((rng.standard_normal(s) * 3).astype(dtype) for s in (shape, sizes))
    return x, source, rng.integers(0, shape[dim], 5)


def found_by(lib, shape, dim, dtype, reduce, include_self):
    x, source, index = arrays(shape, dim, dtype)
    a, b = lib.tensor(x), lib.tensor(source)
    if "float" in dtype:
        a.requires_grad_(), b.requires_grad_()
    y = lib.index_reduce(a, dim, lib.tensor(index), b, reduce, include_self=include_self)
    found = [y.detach().numpy()]
    if "float" in dtype:
        y.backward(lib.tensor(np.linspace(1, 2, y.numel()).reshape(shape).astype(dtype)))
        found += [a.grad.numpy(), b.grad.numpy()]
    return found


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_values_and_gradients_are_those_of_pytorch(shape, dim, reduce, dtype):
    torch = pytest.importorskip("torch")
    for include_self in (True, False):
        ours = found_by(fg, shape, dim, dtype, reduce, include_self)
        theirs = found_by(torch, shape, dim, dtype, reduce, include_self)
        for found, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
            assert found.dtype == wanted.dtype


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "amax", "amin"])
def test_it_is_a_loop_over_slices(reduce, include_self):
    x, source, index = arrays((3, 4), 1, "float64")
    wanted, seen = x.copy(), set()
    fold = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    for k, to in enumerate(index):
        fresh = not include_self and to not in seen
        wanted[:, to] = source[:, k] if fresh else fold(wanted[:, to], source[:, k])
        seen.add(to)
    y = fg.tensor(x)
    y.index_reduce_(1, fg.tensor(index), fg.tensor(source), reduce, include_self=include_self)
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-12)


def test_derivatives():
    x, source, index = arrays((3, 4), 0, "float64")
    operands = fg.tensor(x, requires_grad=True), fg.tensor(source, requires_grad=True)
    for reduce in REDUCTIONS:
        assert fg.autograd.gradcheck(
            lambda a, b, r=reduce: a.index_reduce(0, fg.tensor(index), b, r), operands
        )


def test_tensors_without_dimensions_and_without_elements():
    assert fg.index_reduce(fg.tensor(2.0), 0, fg.tensor(0), fg.tensor(3.0), "prod").item() == 6
    empty = fg.index_reduce(fg.ones(0, 3), 0, fg.tensor([], dtype=fg.int64), fg.ones(0, 3), "mean")
    assert empty.shape == (0, 3)


X = fg.ones(2, 3)


@pytest.mark.parametrize(
    ("index", "source", "reduce", "error", "says"),
    [
        (fg.tensor([0, 0]), X, "sum", RuntimeError, "one of prod, mean"),
        (fg.tensor([0, 0]), X, None, TypeError, "reduce"),
        (fg.tensor([0, 5]), X, "prod", IndexError, "out of bounds"),
        (fg.tensor([0, -1]), X, "mean", IndexError, "out of bounds"),
        (fg.tensor([[0]]), fg.ones(1, 3), "prod", IndexError, "vector"),
        (fg.tensor([0]), X, "prod", RuntimeError, "Number of indices"),
        (fg.tensor([0.0]), fg.ones(1, 3), "prod", RuntimeError, "dtype int32 or int64"),
        (fg.tensor([0]), fg.ones(1, 3).double(), "prod", RuntimeError, "same dtype"),
        (fg.tensor([0]), fg.ones(1, 4), "prod", RuntimeError, "same slice shapes"),
        (None, X, "prod", TypeError, "index"),
        (fg.tensor([0]), None, "prod", TypeError, "source"),
    ],
)
def test_errors(index, source, reduce, error, says):
    kept = X.clone()
    for call in (fg.index_reduce, fg.Tensor.index_reduce_):
        with pytest.raises(error, match=says):
            call(kept, 0, index, source, reduce)
    assert kept.tolist() == X.tolist()
