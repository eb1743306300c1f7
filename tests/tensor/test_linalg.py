"""Functions of `linalg` beyond the rows of the op table: failures, forms of arguments, derivatives of higher order."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import fastgrad as fg
from fastgrad.autograd.gradcheck import gradcheck, gradgradcheck
from fastgrad.kernels.cpu.lapack import need_lapack

L = fg.linalg


def random(*shape: int, seed: int = 0, grad: bool = False) -> Any:
    out = fg.tensor(np.random.default_rng(seed).standard_normal(shape))
    return out.requires_grad_() if grad else out


def definite(*shape: int, seed: int = 0) -> Any:
    x = random(*shape, seed=seed)
    return x @ x.mT + fg.eye(shape[-1], dtype=fg.float64)


# --- failures ------------------------------------------------------------------------------------------------------

SINGULAR = fg.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]])
RAISES: tuple[tuple[Callable[[], Any], type[Exception], str], ...] = (
    (lambda: L.inv(SINGULAR), L.LinAlgError, r"linalg.inv.*Batch element 1.*diagonal element 2 is zero"),
    (lambda: L.inv(SINGULAR[1]), L.LinAlgError, r"linalg.inv\(\): The diagonal element 2 is zero"),
    (lambda: L.inv(fg.tensor([[0.0, 1.0], [0.0, 2.0]])), L.LinAlgError, "diagonal element 1 is zero"),
    (lambda: L.solve(SINGULAR, SINGULAR), L.LinAlgError, r"Batch element 1.*singular"),
    (lambda: L.cholesky(-SINGULAR), L.LinAlgError, r"Batch element 0.*order 1 is not positive-definite"),
    (lambda: fg.cholesky(-SINGULAR), L.LinAlgError, r"^cholesky\(\): \(Batch element 0\)"),
    (lambda: L.lu_factor(SINGULAR), RuntimeError, r"Batch element 1.*U\[2,2\] is zero"),
    (lambda: L.tensorinv(SINGULAR[1], 1), L.LinAlgError, "singular"),
    (lambda: L.ldl_factor(SINGULAR * 0), L.LinAlgError, r"D\[1,1\] is zero"),
    (lambda: L.eigh(SINGULAR * math.nan), L.LinAlgError, "converge"),
    (lambda: L.svd(SINGULAR * math.nan), L.LinAlgError, "non-finite"),
    (lambda: L.matrix_power(SINGULAR, -1), L.LinAlgError, "singular"),
    (lambda: L.inv(fg.ones(2)), RuntimeError, "at least 2 dimensions"),
    (lambda: L.inv(fg.ones(2, 2, dtype=fg.int64)), RuntimeError, "Got Long"),
    (lambda: L.inv(fg.ones(2, 2, dtype=fg.float16)), RuntimeError, "Low precision"),
    (lambda: L.inv(None), TypeError, "'A'.*NoneType"),
    (lambda: L.solve(fg.ones(2, 2), fg.ones(2, 2).double()), RuntimeError, "same dtype"),
    (lambda: L.solve(fg.ones(2, 2, 2), fg.ones(3, 2, 2)), RuntimeError, "do not broadcast"),
    (lambda: L.solve(fg.ones(2, 2), fg.ones(2), left=False), RuntimeError, "left=False"),
    (lambda: L.lu(fg.eye(2), pivot=False), RuntimeError, "without pivoting"),
    (lambda: L.lu_solve(fg.eye(2), fg.tensor([3, 1], dtype=fg.int32), fg.ones(2, 1)), RuntimeError, "pivots"),
    (lambda: L.lu_solve(fg.eye(2), fg.tensor([-1, 1], dtype=fg.int32), fg.ones(2, 1)), RuntimeError, "pivots"),
    (lambda: L.lu_solve(fg.eye(2), fg.tensor([1, 2]), fg.ones(2, 1)), RuntimeError, "int32"),
    (lambda: L.lu_solve(fg.eye(2), fg.tensor([1], dtype=fg.int32), fg.ones(2, 1)), RuntimeError, "pivots"),
    (lambda: fg.lu_unpack(fg.eye(2), fg.tensor([3, 1], dtype=fg.int32)), RuntimeError, "pivots"),
    (lambda: L.ldl_solve(fg.eye(2), fg.tensor([1, -2], dtype=fg.int32), fg.ones(2, 1)), RuntimeError, "pivots"),
    (lambda: L.ldl_solve(fg.eye(2), fg.tensor([-9, -9], dtype=fg.int32), fg.ones(2, 1)), RuntimeError, "pivots"),
    (lambda: L.ldl_solve(fg.eye(2), fg.tensor([0, 0], dtype=fg.int32), fg.ones(2, 1)), RuntimeError, "pivots"),
    (lambda: L.eigh(fg.eye(2), "X"), RuntimeError, "'L' or 'U'"),
    (lambda: L.eigh(fg.eye(2), 1), TypeError, "UPLO"),
    (lambda: L.svd(fg.eye(2), driver="gesvd"), RuntimeError, "driver"),
    (lambda: L.lstsq(fg.ones(3, 2), fg.ones(3, 1), driver="x"), RuntimeError, "gelsy"),
    (lambda: L.lstsq(fg.ones(3, 2), fg.ones(2, 1)), RuntimeError, "size"),
    (lambda: L.matrix_norm(fg.ones(2, 2), "x"), RuntimeError, "Order x"),
    (lambda: L.matrix_norm(fg.ones(2, 2), dim=(0, 0)), RuntimeError, "different"),
    (lambda: L.matrix_norm(fg.ones(2, 2), dim=0), RuntimeError, "2-tuple"),
    (lambda: L.norm(fg.ones(2, 2, 2), 1), RuntimeError, "1D or 2D"),
    (lambda: L.norm(fg.ones(2), "fro"), RuntimeError, "matrices"),
    (lambda: L.cond(fg.ones(2, 2), 5), RuntimeError, "invalid norm type"),
    (lambda: L.householder_product(fg.ones(2, 3), fg.ones(2)), RuntimeError, "shape"),
    (lambda: L.householder_product(fg.ones(3, 2), fg.ones(3)), RuntimeError, "tau"),
    (lambda: L.householder_product(fg.ones(3, 2), fg.ones(())), RuntimeError, "tau"),
    (lambda: fg.ormqr(fg.ones(3, 2), fg.ones(2), fg.ones(4, 2)), RuntimeError, r"other.shape\[-2\]"),
    (lambda: L.tensorinv(fg.ones(2, 3, 4)), RuntimeError, "4 != 6"),
    (lambda: L.tensorinv(fg.ones(2, 2), 0), RuntimeError, "positive"),
    (lambda: L.tensorsolve(fg.ones(2, 3, 4), fg.ones(2)), RuntimeError, "12 != 2"),
    (lambda: fg.svd_lowrank(fg.ones(3, 2), q=3), ValueError, "q"),
    (lambda: fg.norm(fg.ones(2, 2, 2), "nuc"), RuntimeError, "nuclear"),
    (lambda: L.eig(fg.ones(2, 3)), RuntimeError, "2 by 3"),
    (lambda: L.eig(fg.ones(3)), RuntimeError, "at least 2 dimensions"),
    (lambda: L.eig(fg.ones(2, 2, dtype=fg.int64)), RuntimeError, "Long"),
    (lambda: L.eig(fg.ones(2, 2, dtype=fg.float16)), NotImplementedError, "Half"),
    (lambda: L.eig(fg.eye(2) * math.nan), RuntimeError, "infs or NaNs"),
    (lambda: L.eigvals(fg.eye(2) * math.inf), RuntimeError, "infs or NaNs"),
    (lambda: L.eigvals(None), TypeError, "must be Tensor, not NoneType"),
)  # fmt: skip


def test_what_fails_says_why():
    for call, kind, text in RAISES:
        with pytest.raises(kind, match=text):
            call()
    assert issubclass(L.LinAlgError, RuntimeError)


def test_instead_of_an_exception():
    """Forms with `info` say which matrices failed, and raise only if they are asked to."""
    assert L.inv_ex(SINGULAR).info.tolist() == [0, 2]
    assert L.inv_ex(SINGULAR).inverse[1].isnan().all()
    assert L.solve_ex(SINGULAR, SINGULAR).info.tolist() == [0, 2]
    assert L.cholesky_ex(SINGULAR).info.tolist() == [0, 2]
    assert L.cholesky_ex(fg.tensor([[[fg.nan]], [[1.0]]])).info.tolist() == [1, 0]
    assert L.lu_factor_ex(SINGULAR).info.tolist() == [0, 2]
    assert L.ldl_factor_ex(SINGULAR * 0).info.tolist() == [1, 1]
    for function in (L.inv_ex, L.cholesky_ex, L.lu_factor_ex):
        with pytest.raises(RuntimeError, match="Batch element 1"):
            function(SINGULAR, check_errors=True)


def test_what_has_no_derivative():
    for function in (lambda x: L.qr(x, "r").R, lambda x: L.qr(x, "complete").Q, lambda x: fg.geqrf(x).a):
        with pytest.raises(NotImplementedError, match="derivative"):
            function(random(3, 2, grad=True)).sum().backward()
    with pytest.raises(NotImplementedError, match="derivative"):
        L.ldl_factor(definite(2, 2).requires_grad_()).LD.sum().backward()


# --- derivatives ---------------------------------------------------------------------------------------------------


def outer_columns(x: Any) -> Any:
    """Products of vectors with themselves, which do not depend on signs."""
    return x[..., :, None, :] * x[..., None, :, :]


def spectral(x: Any) -> tuple[Any, ...]:
    values, vectors = L.eigh(x + x.mT)
    return values, outer_columns(vectors)


def singular(full: bool) -> Callable[[Any], tuple[Any, ...]]:
    def function(x: Any) -> tuple[Any, ...]:
        u, s, vh = L.svd(x, full_matrices=full)
        k = s.shape[-1]
        return outer_columns(u[..., :k]), s, u[..., :k] @ vh[..., :k, :], outer_columns(vh[..., :k, :].mT)

    return function


DERIVATIVES: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (spectral, (random(2, 3, 3, grad=True),)),
    (L.det, (fg.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=fg.float64, requires_grad=True),)),
    (L.det, (fg.zeros(2, 2, dtype=fg.float64, requires_grad=True),)),
    (L.det, ((random(3, 1) @ random(1, 3, seed=1)).detach().requires_grad_(),)),
    *((singular(full), (random(*shape, grad=True),)) for full in (False, True) for shape in ((3, 3), (3, 2), (2, 3))),
    (lambda x: L.pinv(x + x.mT, hermitian=True), (random(3, 3, grad=True),)),
    (lambda a, b: L.lstsq(a, b, driver="gels").residuals, (random(4, 2, grad=True), random(4, 2, seed=1, grad=True))),
    (lambda x: L.matrix_power(x, -2), (definite(3, 3).requires_grad_(),)),
    (lambda x: L.vector_norm(x, 3), (random(3, grad=True),)),
)  # fmt: skip


def test_first_and_second_derivatives():
    for k, (function, inputs) in enumerate(DERIVATIVES):
        assert gradcheck(function, inputs), k
        assert gradgradcheck(function, inputs), k


@pytest.mark.parametrize(
    ("driver", "deficient"),  # the first is for matrices of full rank
    [
        ("gels", False),
        *((driver, deficient) for driver in ("gelsy", "gelsd", "gelss") for deficient in (False, True)),
    ],
)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 5, 4)], ids=str)
@pytest.mark.parametrize("parts", [False, True], ids=["real", "complex"])
def test_gradients_of_least_squares_are_those_of_pseudo_inverses(driver, deficient, shape, parts):
    def matrix(*size: int, seed: int) -> Any:
        x = random(*size, seed=seed)
        return fg.complex(x, random(*size, seed=seed + 1)) if parts else x

    a, b = matrix(*shape, seed=0), matrix(*shape[:-1], 2, seed=2).requires_grad_()
    if deficient:
        a[..., 0, :] = a[..., 1, :]
        a[..., :, 0] = a[..., :, 1]
    a.requires_grad_()
    rule = matrix(*shape[:-2], shape[-1], 2, seed=4)
    found = [
        fg.autograd.grad((rule * x).sum().abs(), (a, b))
        for x in (L.lstsq(a, b, driver=driver).solution, L.pinv(a) @ b)
    ]
    for ours, theirs in zip(*found, strict=True):
        assert fg.allclose(ours, theirs, rtol=1e-9, atol=1e-10)


def test_a_third_derivative_of_a_determinant():
    x, v = random(3, 3, grad=True), random(3, 3, seed=1)

    def second(y: Any) -> Any:
        (g,) = fg.autograd.grad(L.det(y), y, create_graph=True)
        return fg.autograd.grad((g * v).sum(), y, create_graph=True)[0]

    assert gradcheck(second, (x,))


def test_lapack_works_with_one_thread_of_blas():
    """Which would divide small matrices as well, and others among more threads; NumPy gets back what it had."""
    get, put = (llvm.address_of_symbol(symbol) for symbol in need_lapack()[2:4])
    get, put = ctypes.CFUNCTYPE(ctypes.c_int)(get), ctypes.CFUNCTYPE(None, ctypes.c_int)(put)
    before = get()
    x = random(3, 64, 64)
    x = fg.complex(x, random(3, 64, 64, seed=1))
    x = x @ x.mH
    found: list[set[bytes]] = []
    try:
        for count in (1, 2, 4):
            put(count)
            results = (
                L.cholesky(x),
                L.inv(x),
                *L.eigh(x),
                *L.svd(x),
                *L.qr(x),
                L.pinv(x),
                L.lstsq(x, x).solution,
            )
            assert get() == count
            found.append({r.resolve_conj().numpy().tobytes() for r in results})
    finally:
        put(before)
    assert found[0] == found[1] == found[2]


def test_equal_values_leave_no_nan():
    """A function that does not depend on the choice of vectors has a gradient, also where values are equal."""
    x = fg.eye(3, dtype=fg.float64).requires_grad_()
    values, vectors = L.eigh(x)
    (vectors @ values.diag() @ vectors.mT).sum().backward()
    assert x.grad.isfinite().all()
    y = fg.eye(3, dtype=fg.float64).requires_grad_()
    u, _s, vh = L.svd(y)
    (u @ vh).sum().backward()
    assert y.grad.isfinite().all()


# --- shapes --------------------------------------------------------------------------------------------------------


def test_nothing_at_all():
    """Matrices without elements, and batches without matrices."""
    for shape in ((0, 0), (0, 2, 2), (3, 0, 0)):
        x = fg.zeros(shape, requires_grad=True)
        for out in (
            L.inv(x),
            L.det(x),
            L.cholesky(x),
            L.eigh(x).eigenvalues,
            L.matrix_exp(x),
            L.lu(x).U,
            L.solve(x, x),
        ):
            out.sum().backward()
        assert x.grad.shape == x.shape
    assert L.det(fg.zeros(0, 0)).item() == 1
    for shape in ((0, 2), (2, 0), (2, 0, 3)):
        x = fg.zeros(shape)
        m, n = shape[-2:]
        assert L.svd(x).U.shape[-2:] == (m, m)
        assert L.svd(x).Vh.shape[-2:] == (n, n)
        assert L.qr(x, "complete").Q.shape[-2:] == (m, m)
        assert L.pinv(x).shape[-2:] == (n, m)
        assert L.lstsq(x, fg.zeros(*shape[:-1], 1)).solution.shape[-2:] == (n, 1)
        assert L.matrix_rank(x).sum().item() == 0
        assert L.matrix_norm(x, 2).sum().item() == 0
    with fg.no_grad():
        assert L.cond(fg.zeros(2, 2), 1).item() == math.inf


def test_large_matrices_and_batches():
    """What is divided over threads, and large enough for blocks of LAPACK."""
    for shape in ((70, 70), (300, 5, 5)):
        a = definite(*shape)
        same = lambda x, y: bool(fg.allclose(x, y, rtol=1e-7, atol=1e-8))  # noqa: E731
        whole = fg.eye(shape[-1], dtype=fg.float64).expand(a.shape)
        assert same(a @ L.inv(a), whole)
        assert same(L.cholesky(a) @ L.cholesky(a).mT, a)
        assert same(a @ L.solve(a, a), a)
        values, vectors = L.eigh(a)
        assert same(a @ vectors, vectors * values[..., None, :])
        p, l, u = L.lu(a)
        assert same(p @ l @ u, a)
        q, r = L.qr(a)
        assert same(q @ r, a)
        u, s, vh = L.svd(a)
        assert same((u * s[..., None, :]) @ vh, a)
        assert same(L.matrix_exp(a / a.abs().sum()) @ L.matrix_exp(-a / a.abs().sum()), whole)


def test_approximations_of_low_rank():
    fg.manual_seed(0)
    for shape in ((8, 6), (6, 8), (2, 8, 6)):
        a = random(*shape[:-2], shape[-2], 2) @ random(*shape[:-2], 2, shape[-1], seed=1)
        u, s, v = fg.svd_lowrank(a, q=3)
        assert fg.allclose((u * s[..., None, :]) @ v.mT, a)
        u, s, v = fg.pca_lowrank(a, q=3)
        assert fg.allclose((u * s[..., None, :]) @ v.mT, a - a.mean(-2, True))


# --- PyTorch -------------------------------------------------------------------------------------------------------


def calls(lib: ModuleType) -> list[Any]:
    """Results of forms of arguments that the rows of the table leave out."""
    rng = np.random.default_rng(3)
    tensor = lambda *shape: lib.tensor(rng.standard_normal(shape))  # noqa: E731
    a, b, tall, wide = tensor(3, 3), tensor(3, 2), tensor(4, 2), tensor(2, 4)
    low = tall @ wide
    out: list[Any] = [lib.linalg.norm(a), lib.linalg.norm(a, dim=0), lib.linalg.norm(a, 1, keepdim=True)]
    out += [lib.linalg.norm(tensor(3), o) for o in (0, 1, 2.5, math.inf, -1)]
    out += [lib.norm(a, "nuc"), lib.norm(tensor(2, 3, 4), "nuc", dim=(0, 2), keepdim=True)]
    out += [
        lib.linalg.matrix_rank(low),
        lib.linalg.matrix_rank(low, atol=100.0),
        lib.linalg.matrix_rank(a, hermitian=True),
    ]
    out += [
        lib.linalg.matrix_rank(low, tol=1e-3),
        lib.linalg.matrix_rank(low, rtol=lib.tensor(0.9, dtype=lib.float64)),
    ]
    out += [lib.linalg.pinv(low), lib.linalg.pinv(low, 0.5), lib.linalg.pinv(a + a.mT, hermitian=True)]
    out += [lib.linalg.pinv(lib.stack([a, a]), atol=lib.tensor([0.1, 2.0], dtype=lib.float64))]
    for driver, (x, y) in itertools.product(
        (None, "gels", "gelsd", "gelss"), ((tall, tensor(4, 1)), (wide, tensor(2, 1)))
    ):
        out += list(lib.linalg.lstsq(x, y, driver=driver))
    out += list(lib.linalg.lstsq(tall, tensor(4)))
    out += (
        list(lib.linalg.lu_factor(tall))
        + list(lib.linalg.lu(wide))
        + list(lib.lu_unpack(*lib.linalg.lu_factor(a)))
    )
    out += list(lib.lu_unpack(*lib.linalg.lu_factor(a), unpack_data=False))
    out += [*list(lib.linalg.ldl_factor(a + a.mT)), lib.linalg.ldl_solve(*lib.linalg.ldl_factor(a + a.mT), b)]
    out += [lib.lu_solve(b, *lib.linalg.lu_factor(a)), b.lu_solve(*lib.linalg.lu_factor(a))]
    out += [*list(lib.geqrf(wide)), lib.ormqr(*lib.geqrf(tall), tensor(4, 3), True, True)]
    out += [lib.linalg.qr(tall, "r").Q, lib.linalg.qr(tall, "r").R, lib.linalg.matrix_power(a, -3)]
    out += [
        lib.linalg.eigvalsh(a + a.mT, "U"),
        lib.linalg.cond(tall),
        lib.linalg.vander(lib.tensor(2.0), N=3),
    ]
    out += [lib.svd(a, compute_uv=False).U, lib.linalg.matrix_exp(a * 20) / 1e9, lib.linalg.slogdet(a * 0)[1]]
    return out


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_as_pytorch():
    torch = pytest.importorskip("torch")
    for k, (mine, theirs) in enumerate(zip(calls(fg), calls(torch), strict=True)):
        assert tuple(mine.shape) == tuple(theirs.shape), k
        assert str(mine.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2], k
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-9, err_msg=str(k))
