"""Decompositions, systems and functions of complex matrices: values and derivatives beside PyTorch's, and refusals.

Eigenvectors and singular vectors are compared by what does not depend on their phases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from complex_cases import pairs

import fastgrad as fg
from fastgrad.autograd.gradcheck import gradcheck, gradgradcheck

Function = Callable[..., Any]
BATCH, TALL, WIDE, RIGHT = (2, 3, 3), (2, 4, 2), (2, 2, 4), (2, 3, 2)


def hermitian(x: Any) -> Any:
    return x + x.mH


def definite(x: Any) -> Any:
    return x @ x.mH * 0.25 + eye(x)


def regular(x: Any) -> Any:
    return x * 0.5 + eye(x) * 3


def eye(x: Any) -> Any:
    return (x.detach() * 0).diagonal(0, -2, -1).exp().diag_embed()


def upper(x: Any) -> Any:
    return x.triu(1) * 0.3 + eye(x) * 2


def from_eigh(lib: Any, x: Any, side: str = "L") -> tuple[Any, ...]:
    values, vectors = lib.linalg.eigh(hermitian(x), side)
    return values, (vectors * values.exp().unsqueeze(-2)) @ vectors.mH, vectors.abs()


def from_svd(lib: Any, x: Any, full: bool = False) -> tuple[Any, ...]:
    u, s, vh = lib.linalg.svd(x, full)
    k = s.shape[-1]
    few_u, few_vh = u[..., :k], vh[..., :k, :]
    return s, (few_u * (s**2).unsqueeze(-2)) @ few_vh, few_u.abs(), few_vh.abs()


def by_triangles(lib: Any, x: Any, b: Any, **options: Any) -> Any:
    a = upper(x) if options["upper"] else upper(x).mT
    return lib.linalg.solve_triangular(a, b if options.get("left", True) else b.mT, **options)


def by_reflectors(lib: Any, x: Any, c: Any, **options: Any) -> Any:
    a, tau = lib.geqrf(x.detach())
    return lib.ormqr(a, tau, c if options.get("left", True) else c.mT, **options)


def by_factors(lib: Any, x: Any, b: Any, **options: Any) -> Any:
    return lib.linalg.lu_solve(*lib.linalg.lu_factor(regular(x)), b if options["left"] else b.mT, **options)


def by_ldl(lib: Any, x: Any, b: Any, adjoint: bool) -> Any:
    factors = lib.linalg.ldl_factor((hermitian(x) if adjoint else x + x.mT).detach(), hermitian=adjoint)
    return lib.linalg.ldl_solve(*factors, b, hermitian=adjoint)


def by_eig(lib: Any, x: Any) -> tuple[Any, ...]:
    values, vectors = lib.linalg.eig(x)
    return (vectors * values.exp().unsqueeze(-2)) @ lib.linalg.inv(vectors), vectors.abs() * values.abs().sum(
        -1
    )[..., None, None]


CASES: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "inv": (lambda lib, x: lib.linalg.inv(regular(x)), (BATCH,)),
    "inv_ex": (lambda lib, x: tuple(lib.linalg.inv_ex(regular(x))), (BATCH,)),
    "solve": (lambda lib, x, b: lib.linalg.solve(regular(x), b), (BATCH, RIGHT)),
    "solve.right": (lambda lib, x, b: lib.linalg.solve(regular(x), b.mT, left=False), (BATCH, RIGHT)),
    "solve.vector": (lambda lib, x, b: lib.linalg.solve(regular(x), b), ((3, 3), (3,))),
    "solve.broadcast": (lambda lib, x, b: lib.linalg.solve_ex(regular(x), b).result, ((3, 3), RIGHT)),
    "det": (lambda lib, x: lib.linalg.det(x), (BATCH,)),
    "slogdet": (lambda lib, x: tuple(lib.linalg.slogdet(x)), (BATCH,)),
    "logdet": (lambda lib, x: lib.logdet(regular(x)), (BATCH,)),
    "cholesky": (lambda lib, x: lib.linalg.cholesky(definite(x)), (BATCH,)),
    "cholesky.upper": (lambda lib, x: lib.linalg.cholesky_ex(definite(x), upper=True).L, (BATCH,)),
    "cholesky_solve": (lambda lib, x, b: lib.cholesky_solve(b, upper(x).mT.tril()), (BATCH, RIGHT)),
    "cholesky_solve.upper": (lambda lib, x, b: lib.cholesky_solve(b, upper(x).triu(), True), (BATCH, RIGHT)),
    "cholesky_inverse": (lambda lib, x: lib.cholesky_inverse(upper(x).mT.tril()), (BATCH,)),
    "cholesky_inverse.upper": (lambda lib, x: lib.cholesky_inverse(upper(x).triu(), True), (BATCH,)),
    "solve_triangular": (lambda lib, x, b: by_triangles(lib, x, b, upper=True), (BATCH, RIGHT)),
    "solve_triangular.lower": (lambda lib, x, b: by_triangles(lib, x, b, upper=False, left=False), (BATCH, RIGHT)),
    "solve_triangular.unit": (
        lambda lib, x, b: by_triangles(lib, x, b, upper=False, unitriangular=True), (BATCH, RIGHT)
    ),
    "triangular_solve": (lambda lib, x, b: lib.triangular_solve(b, upper(x), True, True).solution, (BATCH, RIGHT)),
    "lu": (lambda lib, x: tuple(lib.linalg.lu(x)), (BATCH,)),
    "lu.tall": (lambda lib, x: tuple(lib.linalg.lu(x)), (TALL,)),
    "lu.wide": (lambda lib, x: tuple(lib.linalg.lu_factor(x)), (WIDE,)),
    "lu_unpack": (lambda lib, x: tuple(lib.lu_unpack(*lib.linalg.lu_factor(x))), (BATCH,)),
    "qr": (lambda lib, x: tuple(lib.linalg.qr(x)), (TALL,)),
    "qr.wide": (lambda lib, x: tuple(lib.linalg.qr(x)), (WIDE,)),
    "householder_product": (lambda lib, x, tau: lib.linalg.householder_product(x, tau), ((4, 3), (2,))),
    "pinv": (lambda lib, x: lib.linalg.pinv(x), (TALL,)),
    "pinv.hermitian": (lambda lib, x: lib.linalg.pinv(hermitian(x), hermitian=True), (BATCH,)),
    "pinv.tolerance": (lambda lib, x: lib.linalg.pinv(x, atol=lib.tensor([0.1, 0.2]).to(x.real.dtype)), (WIDE,)),
    "lstsq": (lambda lib, x, b: tuple(lib.linalg.lstsq(x, b, driver="gelsd"))[:2], (TALL, (2, 4, 3))),
    "lstsq.wide": (lambda lib, x, b: lib.linalg.lstsq(x, b).solution, (WIDE, (2, 2, 3))),
    "matrix_exp": (lambda lib, x: lib.linalg.matrix_exp(x), (BATCH,)),
    "matrix_power": (lambda lib, x: lib.linalg.matrix_power(regular(x), -3), (BATCH,)),
    "eigh": (from_eigh, (BATCH,)),
    "eigh.upper": (lambda lib, x: from_eigh(lib, x, "U"), (BATCH,)),
    "eigvalsh": (lambda lib, x: lib.linalg.eigvalsh(hermitian(x)), (BATCH,)),
    "svd": (from_svd, (BATCH,)),
    "svd.tall": (from_svd, (TALL,)),
    "svd.wide": (lambda lib, x: from_svd(lib, x, True), (WIDE,)),
    "svdvals": (lambda lib, x: lib.linalg.svdvals(x), (TALL,)),
    "svd.older": (lambda lib, x: (lambda u, s, v: (u * s.unsqueeze(-2)) @ v.mH)(*lib.svd(x)), (TALL,)),
    "cond": (lambda lib, x: lib.linalg.cond(regular(x)), (BATCH,)),
    "eig": (by_eig, (BATCH,)),
    "tensorinv": (lambda lib, x: lib.linalg.tensorinv(x.reshape(2, 2, 4)), ((4, 4),)),
    "tensorsolve": (lambda lib, x, b: lib.linalg.tensorsolve(x.reshape(2, 2, 4), b), ((4, 4), (2, 2))),
    "multi_dot": (lambda lib, x, y, z: lib.linalg.multi_dot([x, y, z]), ((2, 3), (3, 4), (4, 2))),
    "vander": (lambda lib, x: lib.linalg.vander(x, N=4), ((3,),)),
    "cross": (lambda lib, x, y: lib.linalg.cross(x, y), ((2, 3), (2, 3))),
}  # fmt: skip
CASES |= {
    f"ormqr.{left}.{turn}": (
        lambda lib, x, c, left=left, turn=turn: by_reflectors(lib, x, c, left=left, transpose=turn),
        ((2, 4, 3), (2, 4, 2)),
    )
    for left in (False, True)
    for turn in (False, True)
}
CASES |= {
    f"lu_solve.{left}.{turn}": (
        lambda lib, x, b, left=left, turn=turn: by_factors(lib, x, b, left=left, adjoint=turn), (BATCH, RIGHT)
    )
    for left in (False, True)
    for turn in (False, True)
}  # fmt: skip
CASES |= {
    f"matrix_norm.{order}": (lambda lib, x, order=order: lib.linalg.matrix_norm(x, order), (TALL,))
    for order in ("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf)
}


def resolved(x: Any) -> np.ndarray:
    x = x.detach()
    return x.resolve_conj().resolve_neg().numpy() if hasattr(x, "resolve_neg") else x.numpy()


def several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def seed(x: Any) -> np.ndarray:
    """A gradient; that of a matrix product of phases is what it is for every choice of them."""
    rng = np.random.default_rng(tuple(x.shape))
    found = rng.standard_normal(tuple(x.shape))
    return found + 1j * rng.standard_normal(tuple(x.shape)) if x.is_complex() else found


def operands(name: str, dtype: str = "complex128") -> list[np.ndarray]:
    rng = np.random.default_rng(sum(map(ord, name)))
    shapes = CASES[name][1]
    return [(rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype) for s in shapes]


def derivatives(lib: Any, name: str, arrays: list[np.ndarray]) -> tuple[list[Any], list[Any], list[Any]]:
    """Results, gradients, and gradients of these."""
    leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
    found = several(CASES[name][0](lib, *leaves))
    recorded = [x for x in found if x.requires_grad]
    first = lib.autograd.grad(
        recorded, leaves, [lib.tensor(seed(x)).to(x.dtype) for x in recorded], create_graph=True, allow_unused=True
    )  # fmt: skip
    again = [g for g in first if g is not None and g.requires_grad]
    second: Any = []
    if again:
        seeds = [lib.tensor(seed(g)).to(g.dtype) for g in again]
        second = lib.autograd.grad(again, leaves, seeds, allow_unused=True)
    return list(found), list(first), list(second)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name: str) -> None:
    """Values and derivatives of both orders."""
    torch = pytest.importorskip("torch")
    arrays = operands(name)
    theirs, ours = derivatives(torch, name, arrays), derivatives(fg, name, arrays)
    for order, (wanted, found) in enumerate(zip(theirs, ours, strict=True)):
        if order == 2 and not (wanted and found):
            continue  # without a term of second order one of the two may record nothing
        for x, y in zip(wanted, found, strict=True):
            if x is None or y is None:
                assert x is y is None or not np.any(resolved(y if x is None else x))
                continue
            assert resolved(x).dtype == resolved(y).dtype
            np.testing.assert_allclose(resolved(y), resolved(x), rtol=1e-8, atol=1e-9, err_msg=str(order))


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_complex64_as_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    arrays = operands(name, "complex64")
    theirs, ours = (several(CASES[name][0](lib, *map(lib.tensor, arrays))) for lib in (torch, fg))
    for x, y in zip(theirs, ours, strict=True):
        assert resolved(x).dtype == resolved(y).dtype
        np.testing.assert_allclose(resolved(y), resolved(x), rtol=2e-3, atol=2e-4)


NOT_AGAIN = ("lu_unpack", "svd.older", "eigh.upper")
"""Others once more; and `ormqr`, for which operands are made that have no gradient."""


@pytest.mark.parametrize("name", [n for n in CASES if n not in NOT_AGAIN and not n.startswith("ormqr")])
def test_derivatives_are_those_of_differences(name: str) -> None:
    leaves = [fg.tensor(a[:1] if a.ndim == 3 else a, requires_grad=True) for a in operands(name)]
    if name == "pinv.tolerance":
        leaves = [fg.tensor(a, requires_grad=True) for a in operands(name)]

    def function(*xs: Any) -> Any:
        return tuple(x for x in several(CASES[name][0](fg, *xs)) if x.requires_grad)

    assert gradcheck(function, leaves)
    assert gradgradcheck(function, leaves, atol=1e-4)


# --- what decompositions are ---------------------------------------------------------------------------------------

SIZES = ((0, 0), (2, 0, 0), (0, 3, 3), (1, 1), (3, 3), (2, 5, 5), (40, 40))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", SIZES)
def test_square_matrices_are_what_their_factors_make(dtype: str, shape: tuple[int, ...]) -> None:
    x = fg.tensor(pairs(*shape, dtype=dtype))
    a = hermitian(x)
    close = {"rtol": 1e-4, "atol": 1e-3} if dtype == "complex64" else {"rtol": 1e-9, "atol": 1e-9}
    values, vectors = fg.linalg.eigh(a)
    assert values.dtype is x.real.dtype
    fg.testing.assert_close((vectors * values.unsqueeze(-2)) @ vectors.mH, a, **close)
    fg.testing.assert_close(fg.linalg.eigvalsh(a), values, **close)
    b = x @ x.mH + eye(x)
    for turned in (False, True):
        found = fg.linalg.cholesky(b, upper=turned)
        fg.testing.assert_close(found.mH @ found if turned else found @ found.mH, b, **close)
    fg.testing.assert_close(fg.linalg.inv(regular(b)) @ regular(b), eye(x), **close)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "shape", [*SIZES, (3, 0), (0, 3), (2, 3, 0), (5, 2), (2, 5), (2, 2, 5), (30, 7), (7, 90)]
)
def test_matrices_are_what_their_factors_make(dtype: str, shape: tuple[int, ...]) -> None:
    a = fg.tensor(pairs(*shape, dtype=dtype))
    close = {"rtol": 1e-4, "atol": 1e-3} if dtype == "complex64" else {"rtol": 1e-9, "atol": 1e-9}
    k = min(shape[-2:])
    for full in (False, True):
        u, s, vh = fg.linalg.svd(a, full)
        assert s.dtype is a.real.dtype
        fg.testing.assert_close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, **close)
        for unitary in (u.mH @ u, vh @ vh.mH):
            fg.testing.assert_close(unitary, eye(unitary), **close)
    fg.testing.assert_close(fg.linalg.svdvals(a), s, **close)
    for mode in ("reduced", "complete"):
        q, r = fg.linalg.qr(a, mode)
        fg.testing.assert_close(q @ r, a, **close)
        fg.testing.assert_close(q.mH @ q, eye(q.mH @ q), **close)
    fg.testing.assert_close(a @ fg.linalg.pinv(a) @ a, a, **close)
    p, lower, upper_ = fg.linalg.lu(a)
    fg.testing.assert_close(p @ lower @ upper_, a, **close)


@pytest.mark.parity
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 40, 30), (60, 33)])
def test_each_method_of_least_squares(driver: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    a, b = pairs(*shape), pairs(*shape[:-1], 4)
    theirs, ours = (lib.linalg.lstsq(lib.tensor(a), lib.tensor(b), driver=driver) for lib in (torch, fg))
    for x, y in zip(theirs, ours, strict=True):
        assert resolved(x).dtype == resolved(y).dtype
        np.testing.assert_allclose(resolved(y), resolved(x), rtol=1e-8, atol=1e-9)


@pytest.mark.parity
@pytest.mark.parametrize("adjoint", [False, True])
def test_ldl(adjoint: bool) -> None:
    torch = pytest.importorskip("torch")
    x, b = pairs(2, 5, 5), pairs(2, 5, 3)
    theirs, ours = (by_ldl(lib, lib.tensor(x), lib.tensor(b), adjoint) for lib in (torch, fg))
    np.testing.assert_allclose(ours.numpy(), resolved(theirs), rtol=1e-9, atol=1e-10)
    right = fg.tensor(b[:, :, :1], requires_grad=True)  # PyTorch has no derivative of it
    assert gradcheck(lambda y: by_ldl(fg, fg.tensor(x), y, adjoint), right)


@pytest.mark.parity
@pytest.mark.parametrize("upper", [False, True])
def test_gradients_of_triangles_off_the_hermitian_matrices(upper: bool) -> None:
    """What a gradient says off the Hermitian matrices is a convention, and PyTorch's."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    b, w, v = rng.standard_normal((3, 2, 3, 3)) + 1j * rng.standard_normal((3, 2, 3, 3))
    data = b @ b.conj().mT + 3 * np.eye(3)
    found = []
    for lib in (fg, torch):
        a = lib.tensor(data, requires_grad=True)
        loss = (lib.linalg.cholesky(a, upper=upper) * lib.tensor(w)).sum().abs()
        (first,) = lib.autograd.grad(loss, a, create_graph=True)
        (second,) = lib.autograd.grad((first * lib.tensor(v)).sum().abs(), a)
        found.append((np.asarray(first.detach()), np.asarray(second)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert abs(found[0][0] - found[0][0].conj().mT).max() > 0.1


@pytest.mark.parity
def test_ranks_and_a_singular_determinant() -> None:
    torch = pytest.importorskip("torch")
    a = pairs(4, 1) @ pairs(1, 4) + pairs(4, 1) @ pairs(1, 4)
    for hermitian_ in (False, True):
        b = a @ a.conj().T if hermitian_ else a
        assert fg.linalg.matrix_rank(fg.tensor(b), hermitian=hermitian_).item() == 2
    assert fg.linalg.matrix_rank(fg.zeros(0, 3, dtype=fg.complex64)).item() == 0
    c = pairs(3, 2) @ pairs(2, 3)  # of rank 2: cofactors are no zeros
    x, y = (lib.tensor(c, requires_grad=True) for lib in (fg, torch))
    fg.linalg.det(x).backward(fg.tensor(1 + 2j, dtype=fg.complex128))
    torch.linalg.det(y).backward(torch.tensor(1 + 2j, dtype=torch.complex128))
    np.testing.assert_allclose(x.grad.numpy(), resolved(y.grad), rtol=1e-6, atol=1e-8)
    assert gradgradcheck(fg.linalg.det, fg.tensor(pairs(2, 1) @ pairs(1, 2), requires_grad=True))


def test_low_rank() -> None:
    a = fg.tensor(pairs(7, 2) @ pairs(2, 5))
    for x in (a, a.mH):
        u, s, v = fg.svd_lowrank(x, q=3)
        assert s.dtype is fg.float64
        fg.testing.assert_close((u * s) @ v.mH, x)
    u, s, v = fg.pca_lowrank(a, q=3)
    fg.testing.assert_close((u * s) @ v.mH, a - a.mean(0, True))
    across = fg.zeros(3, 2, dtype=fg.complex64).t()
    assert fg.randn_like(across).stride() == (1, 2)
    assert not fg.rand_like(across).imag.eq(0).any()


# --- in which memory, and within what --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["inv", "solve", "cholesky", "qr", "det", "matrix_exp", "pinv", "eigh", "svd"]
)
def test_operands_with_strides(name: str) -> None:
    arrays = operands(name)
    strided = []
    for a in arrays:
        room = fg.zeros(*a.shape[:-2], a.shape[-1] * 2, a.shape[-2] + 1, dtype=fg.complex128)
        view = room[..., ::2, 1:].mT
        strided.append(view.copy_(fg.tensor(a)))
    for x, y in zip(
        several(CASES[name][0](fg, *strided)),
        several(CASES[name][0](fg, *map(fg.tensor, arrays))),
        strict=True,
    ):
        fg.testing.assert_close(x, y)


def test_out() -> None:
    a, b = fg.tensor(pairs(3, 3)), fg.tensor(pairs(3, 2))
    out = fg.empty(0, dtype=fg.complex128)
    assert fg.linalg.inv(a, out=out) is out
    fg.testing.assert_close(out @ a, fg.eye(3, dtype=fg.complex128))
    fg.testing.assert_close(
        fg.linalg.solve(a, b, out=fg.empty(3, 2, dtype=fg.complex128)), fg.linalg.solve(a, b)
    )
    values, vectors = fg.empty(0, dtype=fg.float64), fg.empty(0, dtype=fg.complex128)
    fg.linalg.eigh(hermitian(a), out=(values, vectors))
    fg.testing.assert_close((vectors * values) @ vectors.mH, hermitian(a))
    with pytest.raises(RuntimeError):
        fg.linalg.inv(a, out=fg.empty(3, 3, dtype=fg.float64))


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "qr", "pinv", "eigh", "svd", "eig", "matrix_exp"])
@pytest.mark.filterwarnings("ignore")  # `diag_embed`, of the test, runs for each element of the batch
def test_mapped_and_with_tangents(name: str) -> None:
    function, x = CASES[name][0], fg.tensor(operands(name)[0])

    def of_one(a: Any) -> Any:
        return function(fg, a)

    for one, whole in zip(several(fg.func.vmap(of_one)(x)), several(of_one(x)), strict=True):
        fg.testing.assert_close(one, whole)
    tangent, step = fg.tensor(pairs(*x.shape)), 1e-6
    _, found = fg.func.jvp(of_one, (x,), (tangent,))
    ends = (several(of_one(x + sign * step * tangent)) for sign in (1, -1))
    for t, after, before in zip(several(found), *ends, strict=True):
        fg.testing.assert_close(t, (after - before) / (2 * step), rtol=1e-5, atol=1e-6)


# --- refusals --------------------------------------------------------------------------------------------------------

PHASES = {
    "svd": lambda lib, x: lib.linalg.svd(x, False)[0].sum().abs(),
    "svd.right": lambda lib, x: lib.linalg.svd(x, False)[2].sum().abs(),
    "eigh": lambda lib, x: lib.linalg.eigh(hermitian(x))[1].sum().abs(),
    "eig": lambda lib, x: lib.linalg.eig(x)[1].sum().abs(),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", PHASES)
def test_what_depends_on_phases_is_refused_as_by_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    said = []
    for lib in (fg, torch):
        x = lib.tensor(pairs(3, 3), requires_grad=True)
        with pytest.raises(RuntimeError) as caught:
            PHASES[name](lib, x).backward()
        said.append(str(caught.value))
    assert said[0] == said[1]


SINGULAR = np.array([[1, 1j], [1j, -1]])
RAISES = {
    "inv": (lambda lib, x: lib.linalg.inv(x), "singular"),
    "solve": (lambda lib, x: lib.linalg.solve(x, x), "singular"),
    "cholesky": (lambda lib, x: lib.linalg.cholesky(x), "positive-definite"),
    "svd": (lambda lib, x: lib.linalg.svd(x * math.nan), "non-finite"),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", RAISES)
def test_matrices_that_have_none_are_refused_as_by_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, said = RAISES[name]
    for lib in (fg, torch):
        with pytest.raises(lib.linalg.LinAlgError, match=said):
            function(lib, lib.tensor(SINGULAR))


def test_eigenvalues_of_what_is_not_finite_are_refused() -> None:  # PyTorch's are NaN
    with pytest.raises(fg.linalg.LinAlgError, match="failed to converge"):
        fg.linalg.eigh(fg.tensor(SINGULAR) * math.nan)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: fg.linalg.solve(x, x.real),
        lambda x: fg.linalg.solve(x, x.to(fg.complex64)),
        lambda x: fg.linalg.inv(x[0]),
        lambda x: fg.linalg.inv(x[:2]),
        lambda x: fg.linalg.pinv(x, atol=fg.ones((), dtype=fg.complex128)),
        lambda x: fg.linalg.matrix_rank(x, atol=fg.ones((), dtype=fg.complex128)),
        lambda x: fg.linalg.lstsq(x, x.real),
        lambda x: fg.linalg.householder_product(x, x.real[0]),
    ],
)
def test_operands_that_do_not_fit_are_refused(call: Function) -> None:
    with pytest.raises(RuntimeError):
        call(fg.tensor(pairs(3, 3)))
