"""What the package offers of linear algebra under older names; see `fastgrad.linalg` for the newer ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad import return_types
from fastgrad.functions.arguments import as_dims, as_flag, as_index, need_tensor
from fastgrad.functions.creation import empty
from fastgrad.functions.factors import (
    cholesky_of,
    factored,
    need_pivots,
    not_positive,
    permutation,
    singular_values,
    svd_of,
    triangles,
)
from fastgrad.functions.matrices import adjoint, need_matrices, raise_for
from fastgrad.functions.matrix_functions import matrix_norm_of
from fastgrad.functions.orthogonal import householder
from fastgrad.functions.orthogonal import qr as qr_of
from fastgrad.functions.plans import warn
from fastgrad.functions.public import public
from fastgrad.functions.shape import existing
from fastgrad.functions.statistics import vector_norm
from fastgrad.functions.systems import solved_by_factors


@public()
def cholesky(input: Any, upper: bool = False) -> Any:
    """The Cholesky decomposition. See `linalg.cholesky`.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite.
    """
    found = cholesky_of("cholesky", input, bool(as_flag("cholesky", "upper", upper)))
    raise_for("cholesky", found.info, not_positive)
    return found.L


@public()
def qr(input: Any, some: bool = True) -> return_types.qr:
    """The QR decomposition; with ``some=False`` Q is square. See `linalg.qr`."""
    return return_types.qr._make(qr_of(input, "reduced" if as_flag("qr", "some", some) else "complete"))


@public()
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> return_types.svd:
    """The singular value decomposition ``U diag(S) V'``. See `linalg.svd`.

    Parameters
    ----------
    input : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    some : bool
        Return as many singular vectors as there are singular values, otherwise all.
    compute_uv : bool
        Compute singular vectors; otherwise U and V are zeros.

    Returns
    -------
    (U, S, V)
    """
    few = bool(as_flag("svd", "some", some))
    if as_flag("svd", "compute_uv", compute_uv):
        u, s, vh = svd_of("svd", input, not few)
        return return_types.svd._make((u, s, adjoint(vh)))
    s = singular_values("svd", input)
    m, n = input.shape[-2:]
    return return_types.svd._make((_zeros(input, m), s, _zeros(input, n)))


def _zeros(like: Any, n: int) -> Any:
    return like.new_zeros((*like.shape[:-2], n, n))


@public()
def lu(input: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """The LU decomposition in one matrix and pivots, with `get_infos` also what LAPACK says. See `linalg.lu_factor`.

    Without `get_infos` a matrix that is singular raises `RuntimeError`.
    """
    found = factored("lu", input, pivot)
    if as_flag("lu", "get_infos", get_infos):
        return return_types._lu_with_info._make(found)
    raise_for(
        "lu", found.info, lambda code: f"U[{code},{code}] is zero, the matrix is singular.", RuntimeError
    )
    return found.LU, found.pivots


@public()
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> Any:  # noqa: N803 - PyTorch's names
    """The solution X of ``A X = input`` by the factors of A. See `linalg.lu_solve`."""
    return solved_by_factors("lu_solve", LU_data, LU_pivots, input, True, False)


@public(method=False)
def lu_unpack(
    LU_data: Any,  # noqa: N803 - PyTorch's names
    LU_pivots: Any,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> return_types.lu_unpack:
    """P, L and U of what `linalg.lu_factor` gives.

    Parameters
    ----------
    LU_data, LU_pivots : Tensor
    unpack_data, unpack_pivots : bool
        Whether L and U, and whether P, are wanted; what is not is empty.

    Returns
    -------
    (P, L, U)

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.lu_unpack(*fg.linalg.lu_factor(fg.tensor([[1.0, 2.0], [2.0, 3.0]]))).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    name = "lu_unpack"
    need_matrices(name, LU_data, "LU_data")
    none = empty(0, dtype=LU_data.dtype, device=LU_data.device)
    p, lower, upper = none, none, none
    if as_flag(name, "unpack_pivots", unpack_pivots):
        need_pivots(name, LU_data, LU_pivots, "LU_data")
        p = permutation(LU_data.detach(), LU_pivots, LU_data.shape[-2])
    if as_flag(name, "unpack_data", unpack_data):
        lower, upper = triangles(LU_data, min(LU_data.shape[-2:]))
    return return_types.lu_unpack._make((p, lower, upper))


@public(method=False)
def frobenius_norm(input: Any, dim: int | Sequence[int], keepdim: bool = False) -> Any:
    """The square root of the sum of squares over one or two dimensions, or all. Use `linalg.vector_norm`."""
    name = "frobenius_norm"
    x, dims = need_tensor(name, input), as_dims(name, dim)
    _warn_of(name, "linalg.vector_norm")
    if len(dims) > 2:
        raise RuntimeError(
            f"{name}(): Expected at most 2 dimensions, but got {len(dims)} dimensions instead."
        )
    return vector_norm(x, 2.0, dims or None, bool(as_flag(name, "keepdim", keepdim)))


@public(method=False)
def nuclear_norm(input: Any, dim: Sequence[int] | bool = (-2, -1), keepdim: bool = False) -> Any:
    """The sum of the singular values of matrices. Use `linalg.matrix_norm`.

    Called as ``nuclear_norm(input, keepdim=False)`` or ``nuclear_norm(input, dim, keepdim=False)``.
    """
    name = "nuclear_norm"
    x, dims = need_tensor(name, input), tuple(dim) if isinstance(dim, Sequence) else (dim, dim)
    if isinstance(dim, bool):
        dims, keepdim = (-2, -1), dim
    _warn_of(name, "linalg.matrix_norm")
    keep = bool(as_flag(name, "keepdim", keepdim))
    return matrix_norm_of(name, x, "nuc", dims, keep, None)


def _warn_of(name: str, newer: str) -> None:
    warn(f"{name}() is deprecated; use {newer}()", stacklevel=4)


@public(method=False)
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norms of order `pow` of the slices along `dim`, which keeps its size; of -1 the norm of the whole.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.norm_except_dim(fg.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    name = "norm_except_dim"
    order = as_index(name, "pow", pow)
    if dim == -1:
        return vector_norm(need_tensor(name, v, "v"), order)
    kept = existing(name, as_index(name, "dim", dim), need_tensor(name, v, "v").dim())
    others = tuple(d for d in range(v.dim()) if d != kept)
    if not others and not (v.is_floating_point() or v.is_complex()):
        raise RuntimeError(
            f"{name}(): expected a floating point or complex dtype, but got {v.dtype.type_name}"
        )
    return vector_norm(v, order, others, True) if others else v.abs()


@public()
def orgqr(input: Any, input2: Any) -> Any:
    """The first columns of a product of reflectors. See `linalg.householder_product`."""
    return householder("orgqr", input, need_tensor("orgqr", input2, "input2", 2))
