"""`lobpcg` beside NumPy and PyTorch: values, vectors up to signs, gradients, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from errors_beside import kinds_raised

import fastgrad as fg
from fastgrad.autograd import gradcheck, gradgradcheck


def positive(m: int, seed: int = 0) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(m, m))
    return a @ a.T + m * np.eye(m)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("method", ["ortho", "basic", None])
def test_values_and_vectors(largest: bool, method: str | None) -> None:
    a = positive(30)
    values, vectors = fg.lobpcg(fg.tensor(a), k=4, largest=largest, method=method, niter=-1, tol=1e-13)
    exact = np.linalg.eigvalsh(a)
    np.testing.assert_allclose(values.numpy(), exact[::-1][:4] if largest else exact[:4], rtol=1e-12)
    v = vectors.numpy()
    np.testing.assert_allclose(v.T @ v, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(a @ v, v * values.numpy(), atol=1e-9)


def test_general_problems_with_a_preconditioner() -> None:
    a, b = positive(20), positive(20, 1)
    values, vectors = fg.lobpcg(
        fg.tensor(a), k=3, B=fg.tensor(b), iK=fg.tensor(np.linalg.inv(a)), largest=False, niter=-1, tol=1e-13
    )
    exact = np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)
    np.testing.assert_allclose(values.numpy(), exact[:3], rtol=1e-11)
    v = vectors.numpy()
    np.testing.assert_allclose(v.T @ b @ v, np.eye(3), atol=1e-11)


def test_float32_batches_and_starts() -> None:
    a = np.stack([positive(12), positive(12, 1)]).astype(np.float32)
    values, vectors = fg.lobpcg(fg.tensor(a), X=fg.ones(2, 12, 3))  # columns that depend on each other
    assert values.dtype is vectors.dtype is fg.float32
    assert vectors.shape == (2, 12, 3)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(a)[:, ::-1][:, :3], rtol=1e-4)
    assert fg.lobpcg(fg.zeros(0, 6, 6), k=2)[1].shape == (0, 6, 2)
    values, vectors = fg.lobpcg(fg.eye(6), k=2)
    assert values.tolist() == pytest.approx([1.0, 1.0])
    assert fg.lobpcg(fg.zeros(6, 6), k=2)[0].tolist() == [0.0, 0.0]
    with pytest.raises(fg.linalg.LinAlgError, match="non-finite"):
        fg.lobpcg(fg.full((6, 6), float("nan")), k=1, niter=-1)


@pytest.mark.parametrize("k", [1, 3])
def test_both_derivatives(k: int) -> None:
    a = fg.tensor(positive(9), requires_grad=True)

    def run(a: Any) -> Any:
        values, vectors = fg.lobpcg(a, k=k, niter=-1, tol=1e-15)
        return values, vectors * vectors

    assert gradcheck(run, (a,))
    assert gradgradcheck(run, (a,))


@pytest.mark.parity
@pytest.mark.parametrize("largest", [True, False])
def test_as_in_pytorch(largest: bool) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        a = lib.tensor(positive(12), requires_grad=True)
        values, vectors = lib.lobpcg(a, k=2, largest=largest, tol=1e-14, niter=200)
        weights = lib.arange(24, dtype=lib.float64).reshape(12, 2)
        (grad,) = lib.autograd.grad(values[0] * 3 + (vectors * vectors * weights).sum(), a)
        found.append([t.detach().numpy() for t in (values, vectors.abs(), grad)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8)


WRONG = {
    "too many": lambda lib, a: lib.lobpcg(a, k=5),
    "small": lambda lib, a: lib.lobpcg(a[:2, :2]),
    "not square": lambda lib, a: lib.lobpcg(a[:, :3]),
    "vector": lambda lib, a: lib.lobpcg(a[0]),
    "integers": lambda lib, a: lib.lobpcg(a.int()),
    "complex": lambda lib, a: lib.lobpcg(a + 0j),
    "k": lambda lib, a: lib.lobpcg(a, k=1.5),
    "derivative where B is given": lambda lib, a: (
        lib.lobpcg(a.requires_grad_(), B=lib.eye(12, dtype=lib.float64))[0].sum().backward()
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(WRONG))
def test_errors_are_pytorchs(case: str) -> None:
    here, there = kinds_raised(lambda lib: WRONG[case](lib, lib.tensor(positive(12))))
    assert issubclass(here, there)


def test_what_else_is_refused() -> None:
    a = fg.tensor(positive(12))
    for wrong, error in (
        ({"k": 0}, ValueError),
        ({"k": -1}, ValueError),
        ({"n": 0}, ValueError),
        ({"method": "foo"}, ValueError),
        ({"method": 1}, TypeError),
        ({"tracker": print}, NotImplementedError),
        ({"tol": "a"}, TypeError),
        ({"niter": 0.5}, TypeError),
        ({"largest": 1}, TypeError),
        ({"B": 1}, TypeError),
        ({"B": fg.eye(12)}, RuntimeError),
        ({"iK": fg.eye(3, dtype=fg.float64)}, RuntimeError),
        ({"X": fg.ones(12, dtype=fg.float64)}, ValueError),
    ):
        with pytest.raises(error):
            fg.lobpcg(a, **wrong)
    with pytest.raises(TypeError, match="Tensor"):
        fg.lobpcg(1)
    a.requires_grad_()
    with pytest.raises(ValueError, match="B"):
        fg.lobpcg(a, B=fg.eye(12, dtype=fg.float64))[0].sum().backward()
