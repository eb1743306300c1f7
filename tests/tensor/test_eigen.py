"""Eigenvalues and eigenvectors of matrices, symmetric or not: gradients beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg


def matrices(dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    found = rng.normal(size=shape)
    return (found + 1j * rng.normal(size=shape) if dtype.startswith("complex") else found).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 3), (0, 0), (2, 0, 0), (0, 3, 3)])
def test_decomposes(dtype: str, shape: tuple[int, ...]) -> None:
    a = fg.tensor(matrices(dtype, *shape))
    values, vectors = fg.linalg.eig(a)
    wide = {"float32": fg.complex64, "float64": fg.complex128}.get(dtype, a.dtype)
    assert (values.dtype, vectors.dtype) == (wide, wide)
    assert (tuple(values.shape), tuple(vectors.shape)) == (shape[:-1], shape)
    few = 1e-5 if wide is fg.complex64 else 1e-13
    left, right = a.to(wide) @ vectors, vectors * values.unsqueeze(-2)
    np.testing.assert_allclose(left.numpy(), right.numpy(), atol=few)
    np.testing.assert_allclose(fg.linalg.eigvals(a).numpy(), values.numpy())


def free_of_phases(lib: Any, a: Any) -> Any:
    values, vectors = lib.linalg.eig(a)
    return (values.abs() * values.real).sum() + (vectors.abs() ** 3).sum()


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_of_both_orders(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        a = lib.tensor(matrices(dtype, 2, 4, 4)).requires_grad_()
        (first,) = lib.autograd.grad(free_of_phases(lib, a), a, create_graph=True)
        (second,) = lib.autograd.grad((first.abs() ** 2).sum(), a)
        found.append((first.detach().numpy(), second.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


def test_gradient_of_eigenvalues_alone() -> None:
    a = fg.tensor(matrices("float64", 3, 3)).requires_grad_()
    assert fg.autograd.gradcheck(lambda x: fg.linalg.eigvals(x).abs(), (a,))
    fg.linalg.eigvals(a).sum().real.backward()  # the trace
    np.testing.assert_allclose(a.grad.numpy(), np.eye(3), atol=1e-12)


def test_what_depends_on_phases_is_refused() -> None:
    a = fg.tensor(matrices("float64", 4, 4)).requires_grad_()
    with pytest.raises(RuntimeError, match="phi"):
        fg.linalg.eig(a).eigenvectors.imag.sum().backward()
    assert a.grad is None


def test_mapped_and_compiled() -> None:
    a = fg.tensor(matrices("float64", 3, 4, 4))
    assert fg.func.vmap(fg.linalg.eigvals)(a).tolist() == fg.linalg.eigvals(a).tolist()
    compiled = fg.compile(lambda x: fg.linalg.eigvals(x).abs().sum())
    for k in range(3):
        assert compiled(a + k).item() == fg.linalg.eigvals(a + k).abs().sum().item()


@pytest.mark.parity
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_gradients_of_symmetric_matrices_are_symmetric(triangle: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        a = lib.tensor(matrices("float64", 4, 4)).requires_grad_()
        _, vectors = lib.linalg.eigh(a, UPLO=triangle)
        (vectors.abs() * lib.arange(16.0, dtype=lib.float64).reshape(4, 4)).sum().backward()
        found.append(a.grad.numpy())
    np.testing.assert_allclose(*found, atol=1e-11)
    np.testing.assert_allclose(found[0], found[0].T, atol=1e-11)


@pytest.mark.parametrize("view", [lambda z: z.conj(), lambda z: z.conj().imag])
def test_views_of_conjugates(view: Any) -> None:
    a = view(fg.tensor(matrices("complex128", 3, 3)))
    np.testing.assert_array_equal(fg.linalg.eigvals(a).numpy(), fg.linalg.eigvals(a.clone()).numpy())
