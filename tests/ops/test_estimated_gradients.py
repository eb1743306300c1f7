"""`gradient`, `unravel_index`, `rsub` and `scalar_tensor`: values, derivatives, errors, and what PyTorch says."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg

SHAPES = ((4,), (3, 4), (3,), (2, 3, 5))


def options(lib, shape, mode, dim, edge_order, seed=0):
    rng = np.random.default_rng(seed)
    dims = range(len(shape)) if dim is None else [dim]
    coordinates = [lib.tensor(np.cumsum(rng.random(shape[d]) + 0.1)) for d in dims]
    spacing = {
        "none": None,
        "number": 2.5,
        "list": [k + 1.5 for k, _ in enumerate(dims)],
        "places": coordinates,
    }
    found = {"spacing": spacing[mode], "dim": dim, "edge_order": edge_order}
    return {name: value for name, value in found.items() if value is not None}


CASES = [
    (shape, mode, dim, edge_order)
    for shape in SHAPES
    for mode in ("none", "number", "list", "places")
    for dim in (None, 0, -1)
    for edge_order in (1, 2)
    if min(shape) > edge_order
]


@pytest.mark.parity
@pytest.mark.parametrize(("shape", "mode", "dim", "edge_order"), CASES)
def test_gradient_is_that_of_pytorch(shape, mode, dim, edge_order):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).standard_normal(shape)
    ours = fg.gradient(fg.tensor(x), **options(fg, shape, mode, dim, edge_order))
    theirs = torch.gradient(torch.tensor(x), **options(torch, shape, mode, dim, edge_order))
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_of_a_parabola(edge_order):
    places = fg.tensor([0.0, 0.5, 2.0, 3.0, 7.0], dtype=fg.float64)
    (found,) = fg.gradient(places * places, spacing=[places], edge_order=edge_order)
    inside = slice(None) if edge_order == 2 else slice(1, -1)
    np.testing.assert_allclose(found.numpy()[inside], 2 * places.numpy()[inside], rtol=1e-12, atol=1e-12)


def test_gradient_has_derivatives():
    x = fg.tensor(np.random.default_rng(2).standard_normal((3, 4)), requires_grad=True)
    places = [
        fg.tensor([0.0, 1.0, 3.0], dtype=fg.float64),
        fg.tensor([0.0, 0.5, 0.75, 2.0], dtype=fg.float64),
    ]
    assert fg.autograd.gradcheck(lambda x: fg.gradient(x, spacing=places, edge_order=2), (x,))
    assert fg.autograd.gradgradcheck(lambda x: fg.gradient(x * x, spacing=0.5), (x,))


@pytest.mark.parametrize("dtype", [fg.int32, fg.int64, fg.float32, fg.float64])
def test_gradient_of_other_dtypes(dtype):
    (found,) = fg.gradient(fg.tensor([1, 4, 9, 16], dtype=dtype))
    assert found.tolist() == [3, 4, 6, 7]
    assert found.dtype is (dtype if dtype.is_floating_point else fg.float32)


def test_gradient_of_no_dimensions_is_empty():
    assert fg.gradient(fg.tensor(1.0)) == ()
    assert fg.gradient(fg.ones(3), dim=()) == ()


def test_unravel_index_undoes_ravelling():
    shape = (2, 3, 4)
    found = fg.unravel_index(fg.arange(24).reshape(4, 6), shape)
    wanted = np.unravel_index(np.arange(24).reshape(4, 6), shape)
    assert [f.tolist() for f in found] == [w.tolist() for w in wanted]
    assert [f.tolist() for f in fg.unravel_index(fg.tensor([7, -1]), (2, 3))] == [[0, 1], [1, 2]]
    assert [f.dtype for f in fg.unravel_index(fg.tensor([3], dtype=fg.int32), 6)] == [fg.int32]
    assert [f.shape for f in fg.unravel_index(fg.ones(0, dtype=fg.int64), (2, 0))] == [(0,), (0,)]


def test_rsub_and_operators_of_the_right_operand():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = fg.rsub(x, fg.tensor([[1.0], [2.0]]), alpha=3)
    assert y.tolist() == [[-2, -5], [-1, -4]]
    y.sum().backward()
    assert x.grad.tolist() == [-6, -6]
    assert fg.rsub(x, 2).tolist() == [1, 0]
    assert x.__rdiv__(2).tolist() == [2, 1]
    assert x.__rmatmul__(x).item() == 5
    assert x.__rmatmul__(3) is NotImplemented


def test_scalar_tensor_has_the_default_dtype():
    assert [fg.scalar_tensor(v).dtype for v in (3, True, 2.5)] == [fg.float32] * 3
    assert fg.scalar_tensor(3, dtype=fg.int64).item() == 3
    assert fg.scalar_tensor(1j, dtype=fg.complex64).item() == 1j
    assert fg.scalar_tensor(2.0, requires_grad=True).requires_grad


X = fg.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: fg.gradient(None), TypeError, "must be Tensor"),
        (lambda: fg.gradient(X, edge_order=2), RuntimeError, "at least edge_order"),
        (lambda: fg.gradient(X, edge_order=3), RuntimeError, "edge_order"),
        (lambda: fg.gradient(X, dim=3), IndexError, "out of range"),
        (lambda: fg.gradient(fg.ones(3, 3), dim=(0, 0)), RuntimeError, "multiple times"),
        (lambda: fg.gradient(X, spacing="a"), TypeError, "spacing"),
        (lambda: fg.gradient(fg.ones(3, 3), spacing=[1.0]), RuntimeError, "length 2"),
        (lambda: fg.gradient(fg.ones(3, 3), dim=0, spacing=[fg.arange(4.0)]), RuntimeError, "coordinates"),
        (lambda: fg.gradient(fg.ones(3, dtype=fg.uint8)), RuntimeError, "uint8"),
        (lambda: fg.unravel_index(3, (2,)), TypeError, "must be Tensor"),
        (lambda: fg.unravel_index(X, (2,)), TypeError, "integer dtype"),
        (lambda: fg.unravel_index(fg.tensor(1), (2, -1)), ValueError, "negative"),
        (lambda: fg.unravel_index(fg.tensor(1), (2, 0)), ValueError, "no elements"),
        (lambda: fg.unravel_index(fg.tensor(1), X), TypeError, "sequence of ints"),
        (lambda: fg.rsub(2, X), TypeError, "must be Tensor"),
        (lambda: fg.rsub(X, None), TypeError, "other"),
        (lambda: fg.scalar_tensor([1]), TypeError, "must be Number"),
        (lambda: fg.scalar_tensor(1j), RuntimeError, "without loss"),
    ],
)
def test_errors(call, error, says):
    with pytest.raises(error, match=says):
        call()
