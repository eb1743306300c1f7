"""Rows for decompositions of matrices, systems of equations and functions of matrices.

Eigenvectors and singular vectors are compared by what does not depend on their signs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .common import ErrorCase, OpCase, Sample, normal, ones, quiet

TOLERANCES = {"float32": (1e-3, 2e-4), "float64": (1e-9, 1e-10)}


def turned(x: Any) -> Any:
    return x.mT if hasattr(x, "mT") else np.swapaxes(x, -2, -1)


def symmetric(x: Any) -> Any:
    return x + turned(x)


def indefinite(x: Any) -> Any:
    """Symmetric, and not singular where all rows are the same."""
    return symmetric(x) - _diagonal(x)


def definite(x: Any) -> Any:
    """Symmetric and positive definite, and a linear function plus something fixed near the diagonal."""
    return x @ turned(x) * 0.25 + _diagonal(x)


def _diagonal(x: Any) -> Any:
    """A multiple of the identity of the same kind."""
    if isinstance(x, np.ndarray):
        return np.eye(x.shape[-1], dtype=x.dtype)
    return (x.detach() * 0).diagonal(0, -2, -1).exp().diag_embed() if x.shape[-1] else x


def regular(x: Any) -> Any:
    """Well away from a singular matrix."""
    return x * 0.5 + _diagonal(x) * 3


def row(
    name: str,
    call: Callable[..., Any],
    shapes: Sequence[tuple[Any, ...]],
    ref: Callable[..., Any],
    **options: Any,
) -> OpCase:
    """A function of matrices of these shapes; dicts at the end are keywords."""

    def samples(rng: np.random.Generator, dtype: str) -> list[Sample]:
        found = []
        for shape in shapes:
            *args, last = shape if isinstance(shape[-1], dict) else (*shape, {})
            found.append(
                Sample(tuple(normal(rng, a, dtype) if isinstance(a, tuple) else a for a in args), last)
            )
        return found

    def exact(*args: Any, **kwargs: Any) -> Any:
        dtype = args[0].dtype
        wide = [a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in args]
        out = ref(*wide, **kwargs)
        return (
            tuple(np.asarray(x).astype(dtype) for x in out)
            if isinstance(out, tuple)
            else np.asarray(out).astype(dtype)
        )

    options = {"differentiable": True, "tolerances": TOLERANCES} | options
    return OpCase(name, call, samples, quiet(exact), **options)


def bad(label: str, call: Callable[..., Any], shapes: Sequence[tuple[int, ...]], *mentions: str) -> ErrorCase:
    return ErrorCase(label, RuntimeError, call, tuple(ones(*s) for s in shapes), mentions)


SQUARE = (((3, 3),), ((1, 1),), ((2, 3, 3),), ((2, 1, 2, 2),))
ANY = (((3, 3),), ((2, 3),), ((3, 2),), ((2, 4, 2),))


def stable_qr(x: np.ndarray, mode: str = "reduced") -> tuple[np.ndarray, ...]:
    return tuple(np.linalg.qr(x, mode))


def lu_of(x: np.ndarray) -> np.ndarray:
    """P L U in one matrix, by elimination."""
    out = np.array(x)
    for a in out.reshape(-1, *out.shape[-2:]):
        for k in range(min(a.shape)):
            pivot = k + int(np.abs(a[k:, k]).argmax())
            a[[k, pivot]] = a[[pivot, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return out


def series(x: np.ndarray) -> np.ndarray:
    out = term = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    for k in range(1, 60):
        term = term @ x / k
        out = out + term
    return out


def reflect(lib: Any, x: Any) -> Any:
    return lib.linalg.householder_product(*lib.geqrf(x.detach()))


def householder_of(lib: Any, a: Any, tau: Any) -> Any:
    return lib.linalg.householder_product(a, tau)


def reflected(a: np.ndarray, tau: np.ndarray, complete: bool = False) -> np.ndarray:
    """The product of reflectors, one by one."""
    m = a.shape[-2]
    out = np.broadcast_to(np.eye(m), (*a.shape[:-2], m, m)).copy()
    v = np.tril(a, -1) + np.eye(*a.shape[-2:])
    for i in range(tau.shape[-1]):
        column = v[..., :, i : i + 1]
        out = out - tau[..., i, None, None] * ((out @ column) @ np.swapaxes(column, -2, -1))
    return out if complete else out[..., :, : a.shape[-1]]


def lstsq(lib: Any, a: Any, b: Any) -> Any:
    return lib.linalg.lstsq(a, b).solution


CASES = [
    row(
        "inv",
        lambda lib, x: lib.linalg.inv(regular(x)),
        SQUARE,
        lambda x: np.linalg.inv(regular(x)),
        forms={
            "ex": lambda lib, x: lib.linalg.inv_ex(regular(x)).inverse,
            "inverse": lambda lib, x: lib.inverse(regular(x)),
            "method": lambda lib, x: regular(x).inverse(),
        },
        errors=[
            bad("square", lambda lib, x: lib.linalg.inv(x), ((2, 3),), "inv", "2 by 3"),
            bad("vector", lambda lib, x: lib.linalg.inv(x), ((2,),), "inv", "at least 2"),
        ],
    ),
    row(
        "solve",
        lambda lib, a, b, left=True: lib.linalg.solve(regular(a), b, left=left),
        (
            ((3, 3), (3, 2)),
            ((3, 3), (3,)),
            ((2, 3, 3), (3, 2)),
            ((3, 3), (2, 3, 2)),
            ((2, 3, 3), (2, 3)),
            ((3, 3), (2, 3), {"left": False}),
        ),
        lambda a, b, left=True: (
            np.linalg.solve(
                regular(a), b if b.ndim >= 2 and b.shape != a.shape[:-1] else b[..., None]
            ).reshape(
                np.linalg.solve(
                    regular(a), b if b.ndim >= 2 and b.shape != a.shape[:-1] else b[..., None]
                ).shape
                if b.ndim >= 2 and b.shape != a.shape[:-1]
                else b.shape
            )
            if left
            else turned(np.linalg.solve(turned(regular(a)), turned(b)))
        ),
        forms={"ex": lambda lib, a, b, left=True: lib.linalg.solve_ex(regular(a), b, left=left).result},
        errors=[
            bad("sizes", lambda lib, a, b: lib.linalg.solve(a, b), ((3, 3), (4, 2)), "solve", "3x3", "4x2"),
        ],
    ),
    row(
        "solve_triangular",
        lambda lib, a, b, upper, **kw: lib.linalg.solve_triangular(regular(a), b, upper=upper, **kw),
        (
            *(
                ((3, 3), (3, 2) if left else (2, 3), upper, {"left": left, "unitriangular": unit})
                for upper, left, unit in itertools.product((False, True), repeat=3)
            ),
            ((2, 3, 3), (3, 2), True),
        ),
        lambda a, b, upper, left=True, unitriangular=False: _by_triangle(
            regular(a), b, upper, left, unitriangular
        ),
        errors=[
            bad(
                "sizes",
                lambda lib, a, b: lib.linalg.solve_triangular(a, b, upper=True),
                ((3, 3), (2, 2)),
                "solve_triangular",
                "3x3",
                "2x2",
            )
        ],
    ),
    row(
        "cholesky_solve",
        lambda lib, b, l, upper=False: lib.cholesky_solve(
            b, regular(l).triu() if upper else regular(l).tril(), upper
        ),
        (((3, 2), (3, 3)), ((3, 2), (3, 3), {"upper": True}), ((2, 3, 1), (2, 3, 3))),
        lambda b, l, upper=False: np.linalg.solve(
            turned(np.triu(regular(l))) @ np.triu(regular(l))
            if upper
            else np.tril(regular(l)) @ turned(np.tril(regular(l))),
            b,
        ),
    ),
    row(
        "cholesky_inverse",
        lambda lib, l: lib.cholesky_inverse(regular(l).tril()),
        (((3, 3),), ((2, 2, 2),)),
        lambda l: np.linalg.inv(np.tril(regular(l)) @ turned(np.tril(regular(l)))),
    ),
    row(
        "triangular_solve",
        lambda lib, b, a, **kw: (
            _by_newer_name(lib, b, regular(a), **kw)
            if lib.__name__ == "torch"
            else lib.triangular_solve(b, regular(a), **kw).solution
        ),  # it warns there
        (((3, 2), (3, 3)), ((3, 2), (3, 3), {"upper": False, "transpose": True})),
        lambda b, a, upper=True, transpose=False: np.linalg.solve(
            turned(np.triu(regular(a)) if upper else np.tril(regular(a)))
            if transpose
            else (np.triu(regular(a)) if upper else np.tril(regular(a))),
            b,
        ),
    ),
    row(
        "det",
        lambda lib, x: lib.linalg.det(x),
        SQUARE,
        np.linalg.det,
        forms={"package": lambda lib, x: lib.det(x), "method": lambda lib, x: x.det()},
        errors=[bad("square", lambda lib, x: lib.linalg.det(x), ((2, 3),), "det", "2 by 3")],
    ),
    row(
        "slogdet",
        lambda lib, x: tuple(lib.linalg.slogdet(regular(x))),
        SQUARE,
        lambda x: tuple(np.linalg.slogdet(regular(x))),
        forms={"package": lambda lib, x: tuple(lib.slogdet(regular(x)))},
    ),
    row(
        "logdet",
        lambda lib, x: lib.logdet(definite(x)),
        SQUARE,
        lambda x: np.log(np.linalg.det(definite(x))),
        forms={"method": lambda lib, x: definite(x).logdet()},
    ),
    row(
        "cholesky",
        lambda lib, x, upper=False: lib.linalg.cholesky(definite(x), upper=upper),
        (*SQUARE, ((3, 3), {"upper": True})),
        lambda x, upper=False: (
            turned(np.linalg.cholesky(definite(x))) if upper else np.linalg.cholesky(definite(x))
        ),
        forms={"ex": lambda lib, x, upper=False: lib.linalg.cholesky_ex(definite(x), upper=upper).L},
    ),
    row(
        "lu_factor",
        lambda lib, x: lib.linalg.lu_factor(x).LU,
        ANY,
        lu_of,
        strided=False,  # with equal rows a matrix is singular
        forms={"ex": lambda lib, x: lib.linalg.lu_factor_ex(x).LU},
        errors=[
            bad("singular", lambda lib, x: lib.linalg.lu_factor(x), ((2, 2),), "lu_factor", "U\\[2,2\\]")
        ],
    ),
    row(
        "lu",
        lambda lib, x: lib.linalg.lu(x)[1] @ lib.linalg.lu(x)[2],
        ANY,
        lambda x: _unpack(lu_of(x)),
    ),
    row(
        "lu_solve",
        lambda lib, a, b, **kw: lib.linalg.lu_solve(*lib.linalg.lu_factor(regular(a)), b, **kw),
        (
            ((3, 3), (3, 2)),
            ((3, 3), (3, 2), {"adjoint": True}),
            ((3, 3), (2, 3), {"left": False}),
            ((3, 3), (2, 3), {"left": False, "adjoint": True}),
            ((2, 3, 3), (3, 2)),
        ),
        lambda a, b, left=True, adjoint=False: _by_matrix(
            turned(regular(a)) if adjoint else regular(a), b, left
        ),
    ),
    row(
        "ldl_factor",
        lambda lib, x: lib.linalg.ldl_factor(definite(x).detach()).LD,
        (((3, 3),), ((2, 2, 2),)),
        lambda x: _ldl(definite(x)),
        differentiable=False,
    ),
    row(
        "ldl_solve",
        lambda lib, a, b: lib.linalg.ldl_solve(*lib.linalg.ldl_factor(indefinite(a).detach()), b),
        (((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 1))),
        lambda a, b: np.linalg.solve(indefinite(a), b),
        grad_args=(1,),
        torch_lacks=("gradients",),
    ),
    row(
        "lstsq",
        lstsq,
        (((4, 2), (4, 1)), ((2, 4), (2, 2)), ((2, 3, 3), (2, 3, 1))),
        lambda a, b: np.linalg.pinv(a) @ b,
    ),
    row(
        "pinv",
        lambda lib, x: lib.linalg.pinv(x),
        ANY,
        np.linalg.pinv,
        forms={"package": lambda lib, x: lib.pinverse(x)},
    ),
    row(
        "eigh",
        lambda lib, x: _abs(lib.linalg.eigh(symmetric(x))),
        SQUARE,
        lambda x: _abs(np.linalg.eigh(symmetric(x))),
        forms={"upper": lambda lib, x: _abs(lib.linalg.eigh(symmetric(x), "U"))},
    ),
    row(
        "eigvalsh",
        lambda lib, x: lib.linalg.eigvalsh(symmetric(x)),
        SQUARE,
        lambda x: np.linalg.eigvalsh(symmetric(x)),
    ),
    row(
        "svd",
        lambda lib, x: _abs(lib.linalg.svd(x, full_matrices=False)),
        ANY,
        lambda x: _abs(np.linalg.svd(x, full_matrices=False)),
        forms={
            "full": lambda lib, x: _first(lib.linalg.svd(x), min(x.shape[-2:])),
            "package": lambda lib, x: _older(lib.svd(x)),
        },
    ),
    row("svdvals", lambda lib, x: lib.linalg.svdvals(x), ANY, lambda x: np.linalg.svd(x, compute_uv=False)),
    row(
        "qr",
        lambda lib, x: tuple(lib.linalg.qr(x)),
        ANY,
        stable_qr,
        errors=[bad("mode", lambda lib, x: lib.linalg.qr(x, "all"), ((2, 2),), "qr", "all", "reduced")],
    ),
    row(
        "qr.complete",
        lambda lib, x: tuple(lib.linalg.qr(x, "complete")),
        ANY,
        lambda x: stable_qr(x, "complete"),
        differentiable=False,
    ),
    row(
        "geqrf",
        lambda lib, x: reflect(lib, x),
        (((3, 2),), ((3, 3),), ((2, 4, 2),)),
        lambda x: np.linalg.qr(x).Q,
        differentiable=False,
    ),
    row(
        "householder_product",
        householder_of,
        (((3, 2), (2,)), ((2, 3, 3), (2, 1))),
        reflected,
        forms={"package": lambda lib, a, tau: lib.orgqr(a, tau)},
    ),
    row(
        "ormqr",
        lambda lib, a, tau, c, **kw: lib.ormqr(a, tau, c, **kw),
        tuple(
            ((3, 2), (2,), (3, 2) if left else (2, 3), {"left": left, "transpose": turn})
            for left in (True, False)
            for turn in (True, False)
        ),
        lambda a, tau, c, left=True, transpose=False: _times(
            turned(reflected(a, tau, True)) if transpose else reflected(a, tau, True), c, left
        ),
    ),
    row(
        "matrix_exp",
        lambda lib, x: lib.linalg.matrix_exp(x),
        SQUARE,
        series,
        forms={"package": lambda lib, x: lib.matrix_exp(x), "method": lambda lib, x: x.matrix_exp()},
    ),
    row(
        "matrix_norm",
        lambda lib, x, order, dim=(-2, -1), keepdim=False: lib.linalg.matrix_norm(x, order, dim, keepdim),
        (
            *(((3, 2), order) for order in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"))),
            ((2, 3, 2), "nuc", {"dim": (0, 2), "keepdim": True}),
            ((2, 3, 2), 1, {"dim": (2, 0)}),
        ),
        lambda x, order, dim=(-2, -1), keepdim=False: np.linalg.norm(x, order, dim, keepdim),
        errors=[bad("order", lambda lib, x: lib.linalg.matrix_norm(x, 3), ((2, 2),), "matrix_norm", "3")],
    ),
    row(
        "cond",
        lambda lib, x, p=None: lib.linalg.cond(regular(x), p),
        tuple(((3, 3), {"p": p}) for p in (None, 1, -1, 2, -2, float("inf"), "fro", "nuc")),
        lambda x, p=None: _cond(regular(x), p),
        torch_lacks=("gradients",),  # it changes the inverse in place
    ),
    row(
        "tensorinv",
        lambda lib, x: lib.linalg.tensorinv(x, ind=1),
        (((4, 2, 2),),),
        lambda x: np.linalg.tensorinv(x, ind=1),
        strided=False,
    ),
    row(
        "tensorsolve",
        lambda lib, a, b, dims=None: lib.linalg.tensorsolve(a, b, dims),
        (((2, 2, 4), (2, 2)), ((4, 2, 2), (2, 2), {"dims": (0,)})),
        lambda a, b, dims=None: np.linalg.tensorsolve(a, b, dims),
        strided=False,
    ),
]


def _by_newer_name(lib: Any, b: Any, a: Any, upper: bool = True, transpose: bool = False) -> Any:
    return lib.linalg.solve_triangular(a.mT if transpose else a, b, upper=upper != transpose)


def _abs(values: Any) -> tuple[Any, ...]:
    return tuple(abs(x) for x in values)


def _first(values: Any, k: int) -> tuple[Any, ...]:
    u, s, vh = values
    return _abs((u[..., :, :k], s, vh[..., :k, :]))


def _older(values: Any) -> tuple[Any, ...]:
    u, s, v = values
    return _abs((u, s, turned(v)))


def _by_matrix(a: np.ndarray, b: np.ndarray, left: bool) -> np.ndarray:
    return np.linalg.solve(a, b) if left else turned(np.linalg.solve(turned(a), turned(b)))


def _by_triangle(a: np.ndarray, b: np.ndarray, upper: bool, left: bool, unit: bool) -> np.ndarray:
    triangle = np.triu(a, int(unit)) if upper else np.tril(a, -int(unit))
    return _by_matrix(triangle + np.eye(a.shape[-1]) if unit else triangle, b, left)


def _times(q: np.ndarray, c: np.ndarray, left: bool) -> np.ndarray:
    return q @ c if left else c @ q


def _unpack(lu: np.ndarray) -> np.ndarray:
    k = min(lu.shape[-2:])
    lower = np.tril(lu[..., :, :k], -1) + np.eye(lu.shape[-2], k)
    return lower @ np.triu(lu[..., :k, :])


def _ldl(x: np.ndarray) -> np.ndarray:
    """L and D in one matrix, without interchanges: of a definite matrix whose diagonal is large."""
    c = np.linalg.cholesky(x)
    d = np.diagonal(c, 0, -2, -1)
    return np.tril(c / d[..., None, :], -1) + (d * d)[..., None] * np.eye(x.shape[-1])


def _cond(x: np.ndarray, p: Any) -> np.ndarray:
    return (
        np.linalg.norm(x, p if p is not None else 2)
        * np.linalg.norm(np.linalg.inv(x), p if p is not None else 2)
        if p != -2
        else np.linalg.cond(x, -2)
    )
