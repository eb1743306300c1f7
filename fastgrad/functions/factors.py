"""Decompositions of matrices: Cholesky, LU, LDL, eigenvalues of Hermitian matrices, singular values."""

from __future__ import annotations

from typing import Any

from fastgrad import return_types
from fastgrad.functions.arguments import as_flag, need_tensor, need_type, records
from fastgrad.functions.complex_numbers import is_complex_tensor
from fastgrad.functions.complex_spectra import LinalgEigh, LinalgSvd
from fastgrad.functions.matrices import (
    eyes,
    need_matrices,
    need_square,
    not_converged,
    raise_for,
    shape_of,
    sizes_of,
    turned,
)
from fastgrad.functions.outs import taking_out
from fastgrad.native.contracts.element_types import INT32
from fastgrad.ops import spectra, systems

# --- Cholesky ------------------------------------------------------------------------------------------------------


def not_positive(code: int) -> str:
    """What is wrong where a Cholesky decomposition ends."""
    return (
        "The factorization could not be completed because the input is not positive-definite (the leading minor of "
        f"order {code} is not positive-definite)."
    )


def cholesky_of(name: str, A: Any, upper: bool) -> return_types.linalg_cholesky_ex:  # noqa: N803 - PyTorch's name
    """The triangle, and what LAPACK says."""
    need_square(name, A)
    batch, n, _ = sizes_of(A)
    of_complex = systems.cholesky_turned if upper else systems.cholesky_complex
    op = of_complex if is_complex_tensor(A) else systems.cholesky
    triangle, info = op.all_of((turned(A) if upper else A,), batch, n)
    return return_types.linalg_cholesky_ex._make((turned(triangle) if upper else triangle, info))


@taking_out
def cholesky_ex(
    A: Any,  # noqa: N803 - PyTorch's name
    *,
    upper: bool = False,
    check_errors: bool = False,
) -> return_types.linalg_cholesky_ex:
    """The Cholesky decomposition, with what LAPACK says of each matrix instead of an exception. See `cholesky`.

    Returns
    -------
    (L, info)
        `info` is 0, or the order of the first leading minor that is not positive definite.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.cholesky_ex(fg.tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=fastgrad.int32)
    """
    found = cholesky_of("linalg.cholesky_ex", A, bool(as_flag("linalg.cholesky_ex", "upper", upper)))
    if as_flag("linalg.cholesky_ex", "check_errors", check_errors):
        raise_for("linalg.cholesky_ex", found.info, not_positive)
    return found


@taking_out
def cholesky(A: Any, *, upper: bool = False) -> Any:  # noqa: N803 - PyTorch's name
    """The lower triangle L of symmetric or Hermitian positive definite matrices ``A = L L'``.

    Parameters
    ----------
    A : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers. Its lower triangle is read, or
        with `upper` its upper one.
    upper : bool
        Return the upper triangle U of ``A = U' U``.

    Returns
    -------
    Tensor
        Its gradient is symmetric, or Hermitian.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.cholesky(fg.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    found = cholesky_of("linalg.cholesky", A, bool(as_flag("linalg.cholesky", "upper", upper)))
    raise_for("linalg.cholesky", found.info, not_positive)
    return found.L


# --- LU ------------------------------------------------------------------------------------------------------------


def factored(name: str, A: Any, pivot: Any) -> return_types.linalg_lu_factor_ex:  # noqa: N803 - PyTorch's name
    """The factors, and what LAPACK says."""
    batch, m, n = sizes_of(need_matrices(name, A))
    if not as_flag(name, "pivot", pivot):
        raise RuntimeError(f"{name}(): LU without pivoting is not implemented on the CPU")
    return return_types.linalg_lu_factor_ex._make(
        systems.LU[shape_of(m, n)].all_of((A,), batch, m, n, min(m, n), abs(m - n))
    )


@taking_out
def lu_factor_ex(
    A: Any,  # noqa: N803 - PyTorch's name
    *,
    pivot: bool = True,
    check_errors: bool = False,
) -> return_types.linalg_lu_factor_ex:
    """The LU decomposition in one matrix, with what LAPACK says of each matrix. See `lu_factor`.

    Returns
    -------
    (LU, pivots, info)
        `info` is 0, or the number of the first pivot that is zero.
    """
    found = factored("linalg.lu_factor_ex", A, pivot)
    if as_flag("linalg.lu_factor_ex", "check_errors", check_errors):
        raise_for("linalg.lu_factor_ex", found.info, _zero_pivot, RuntimeError)
    return found


@taking_out
def lu_factor(A: Any, *, pivot: bool = True) -> return_types.linalg_lu_factor:  # noqa: N803 - PyTorch's name
    """The LU decomposition ``A = P L U`` with partial pivoting, in one matrix, for `lu_solve`.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    pivot : bool
        Has to be True.

    Returns
    -------
    (LU, pivots)
        L without the ones on its diagonal below U; for each row, from 1 on, which one it was interchanged with.

    Raises
    ------
    RuntimeError
        If U has a zero on its diagonal.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.lu_factor(fg.tensor([[1.0, 2.0], [2.0, 3.0]])).LU
    tensor([[2.0000, 3.0000],
            [0.5000, 0.5000]])
    """
    found = factored("linalg.lu_factor", A, pivot)
    raise_for("linalg.lu_factor", found.info, _zero_pivot, RuntimeError)
    return return_types.linalg_lu_factor._make((found.LU, found.pivots))


def _zero_pivot(code: int) -> str:
    return (
        f"U[{code},{code}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
        "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


@taking_out
def lu(A: Any, *, pivot: bool = True) -> return_types.linalg_lu:  # noqa: N803 - PyTorch's name
    """The LU decomposition ``A = P L U`` with partial pivoting.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    pivot : bool
        Has to be True.

    Returns
    -------
    (P, L, U)
        Of shapes (..., m, m), (..., m, k) and (..., k, n), where k is the smaller one of m and n.

    Examples
    --------
    >>> import fastgrad as fg
    >>> P, L, U = fg.linalg.lu(fg.tensor([[1.0, 2.0], [2.0, 3.0]]))
    >>> U
    tensor([[2.0000, 3.0000],
            [0.0000, 0.5000]])
    """
    found = factored("linalg.lu", A, pivot)
    return unpacked(found.LU, found.pivots)


def unpacked(LU: Any, pivots: Any) -> return_types.linalg_lu:  # noqa: N803 - PyTorch's name
    """P, L and U of factors in one matrix."""
    _, m, n = sizes_of(LU)
    k = min(m, n)
    lower, upper = triangles(LU, k)
    return return_types.linalg_lu._make((permutation(LU, pivots, m), lower, upper))


def triangles(LU: Any, k: int) -> tuple[Any, Any]:  # noqa: N803 - PyTorch's name
    """L and U, of which `k` columns and rows."""
    lower = LU if LU.shape[-1] == k else LU[..., :, :k]
    upper = LU if LU.shape[-2] == k else LU[..., :k, :]
    return lower.tril(-1) + eyes(LU, LU.shape[-2], k), upper.triu()


def permutation(LU: Any, pivots: Any, m: int) -> Any:  # noqa: N803 - PyTorch's name
    """The matrix P that pivots stand for."""
    whole = eyes(LU, m, m).expand(*LU.shape[:-2], m, m)
    batch = sizes_of(whole).batch
    return interchanged("lu_unpack", whole, pivots, batch, m, m, True)


def interchanged(name: str, x: Any, pivots: Any, batch: int, m: int, k: int, backwards: bool) -> Any:
    """Rows of matrices interchanged as pivots say; RuntimeError where these are no row."""
    try:
        return systems.interchanged(x, pivots, batch, m, k, pivots.shape[-1], backwards)
    except IndexError as error:
        raise RuntimeError(
            f"{name}(): pivots must be between 1 and LU.size(-2), which is {m}, inclusive; pass the result of lu_factor"
        ) from error


def need_pivots(name: str, LU: Any, pivots: Any, argument: str = "LU") -> None:  # noqa: N803
    """Refuse what cannot be the pivots of factors."""
    if need_tensor(name, pivots, "pivots", 2).dtype.code != INT32:
        raise RuntimeError(
            f"{name}(): pivots should be a Tensor of scalar type torch.int32, but got {pivots.dtype.type_name}"
        )
    if tuple(pivots.shape) != (*LU.shape[:-2], min(LU.shape[-2:])):
        raise RuntimeError(
            f"{name}(): Number of pivots per batch should be same as the dimension of the matrix: expected pivots of "
            f"shape "
            f"{[*LU.shape[:-2], min(LU.shape[-2:])]} for {argument} of shape {list(LU.shape)}, but got "
            f"{list(pivots.shape)}"
        )


# --- LDL -----------------------------------------------------------------------------------------------------------


def _ldl(name: str, A: Any, hermitian: Any) -> return_types.linalg_ldl_factor_ex:  # noqa: N803 - PyTorch's name
    batch, n, _ = sizes_of(need_square(name, A))
    adjoint = int(bool(as_flag(name, "hermitian", hermitian)))
    return return_types.linalg_ldl_factor_ex._make(systems.ldl.all_of((A,), batch, n, adjoint))


@taking_out
def ldl_factor_ex(
    A: Any,  # noqa: N803 - PyTorch's name
    *,
    hermitian: bool = False,
    check_errors: bool = False,
) -> return_types.linalg_ldl_factor_ex:
    """The LDL decomposition in one matrix, with what LAPACK says of each matrix. See `ldl_factor`."""
    found = _ldl("linalg.ldl_factor_ex", A, hermitian)
    if as_flag("linalg.ldl_factor_ex", "check_errors", check_errors):
        raise_for("linalg.ldl_factor_ex", found.info, _zero_block)
    return found


@taking_out
def ldl_factor(A: Any, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:  # noqa: N803 - PyTorch's name
    """The LDL decomposition ``A = P L D L' P'`` of symmetric matrices in one matrix, for `ldl_solve`.

    Parameters
    ----------
    A : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers; its lower triangle is read.
    hermitian : bool
        Of Hermitian matrices ``A = P L D L^H P'``; the same for real ones.

    Returns
    -------
    (LD, pivots)
        They have no gradient.

    Raises
    ------
    LinAlgError
        If D has a zero on its diagonal.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.ldl_factor(fg.tensor([[4.0, 2.0], [2.0, -3.0]])).LD
    tensor([[ 4.0000,  0.0000],
            [ 0.5000, -4.0000]])
    """
    found = _ldl("linalg.ldl_factor", A, hermitian)
    raise_for("linalg.ldl_factor", found.info, _zero_block)
    return return_types.linalg_ldl_factor._make((found.LD, found.pivots))


def _zero_block(code: int) -> str:
    return f"D[{code},{code}] is zero and using it on ldl_solve would result in a division by zero."


# --- eigenvalues and singular values -------------------------------------------------------------------------------


def _lower(name: str, UPLO: Any) -> int:  # noqa: N803 - PyTorch's name
    if need_type(name, UPLO, str, "UPLO", 2).upper() not in ("L", "U"):
        raise RuntimeError(f"{name}(): Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return int(UPLO.upper() == "L")


@taking_out
def eigh(A: Any, UPLO: str = "L") -> return_types.linalg_eigh:  # noqa: N803 - PyTorch's names
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Parameters
    ----------
    A : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers.
    UPLO : str
        Which triangle is read: "L" the lower, "U" the upper one.

    Returns
    -------
    (eigenvalues, eigenvectors)
        Eigenvalues in ascending order, which are real; eigenvectors of length 1 as columns, determined up to signs, or
        to phases. Gradients are those of functions that do not depend on the choice.

    Raises
    ------
    LinAlgError
        If the method does not converge.
    RuntimeError
        In backward, if the loss depends on the phase of a complex eigenvector.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.eigh(fg.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
    tensor([1., 3.])
    """
    name = "linalg.eigh"
    batch, n, _ = sizes_of(need_square(name, A))
    lower = _lower(name, UPLO)
    if is_complex_tensor(A):
        return return_types.linalg_eigh._make(LinalgEigh.apply(A, lower, name))
    values, vectors, info = spectra.eigh.all_of((A,), batch, n, lower)
    raise_for(name, info, not_converged)
    return return_types.linalg_eigh._make((values, vectors))


@taking_out
def eigvalsh(A: Any, UPLO: str = "L") -> Any:  # noqa: N803 - PyTorch's names
    """Eigenvalues of symmetric or Hermitian matrices in ascending order. See `eigh`."""
    name = "linalg.eigvalsh"
    batch, n, _ = sizes_of(need_square(name, A))
    lower = _lower(name, UPLO)
    if records(A) and is_complex_tensor(A):
        return LinalgEigh.apply(A, lower, name)[0]
    op = spectra.eigh if records(A) else spectra.eigvalsh
    found = op.all_of((A,), batch, n, lower)
    raise_for(name, found[-1], not_converged)
    return found[0]


def svd_of(name: str, A: Any, full: bool) -> return_types.linalg_svd:  # noqa: N803 - PyTorch's name
    """The singular value decomposition, with all singular vectors or those of a singular value."""
    batch, m, n = sizes_of(need_matrices(name, A))
    if is_complex_tensor(A):
        return return_types.linalg_svd._make(LinalgSvd.apply(A, full, name))
    k, shape = min(m, n), shape_of(m, n)
    op = spectra.SVD[shape, full and shape != "square"]
    u, s, vh, info = op.all_of((A,), batch, m, n, k, m if full else k, n if full else k)
    raise_for(name, info, not_converged)
    return return_types.linalg_svd._make((u, s, vh))


def _no_driver(name: str, driver: Any) -> None:
    if driver is not None:
        raise RuntimeError(
            f"{name}(): keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


@taking_out
def svd(A: Any, full_matrices: bool = True, *, driver: Any = None) -> return_types.linalg_svd:  # noqa: N803
    """The singular value decomposition ``A = U diag(S) Vh`` of matrices.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    full_matrices : bool
        Return all of the singular vectors, so that U and Vh are square; otherwise as many as there are singular values.
    driver : None
        For GPUs.

    Returns
    -------
    (U, S, Vh)
        Singular values in descending order. Gradients are those of functions that do not depend on the signs or phases
        of the vectors, nor on those without a singular value.

    Raises
    ------
    LinAlgError
        If the method does not converge.
    RuntimeError
        In backward, if the loss depends on the phase of complex vectors.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.svd(fg.tensor([[3.0, 0.0], [4.0, 0.0]])).S
    tensor([5., 0.])
    """
    _no_driver("linalg.svd", driver)
    return svd_of("linalg.svd", A, bool(as_flag("linalg.svd", "full_matrices", full_matrices)))


@taking_out
def svdvals(A: Any, *, driver: Any = None) -> Any:  # noqa: N803 - PyTorch's name
    """Singular values of matrices in descending order. See `svd`."""
    _no_driver("linalg.svdvals", driver)
    return singular_values("linalg.svdvals", A)


def singular_values(name: str, A: Any) -> Any:  # noqa: N803 - PyTorch's name
    """The same, for a function of that name."""
    if records(need_matrices(name, A)):
        return svd_of(name, A, False).S
    batch, m, n = sizes_of(A)
    s, _, info = spectra.svdvals.all_of((A,), batch, m, n, min(m, n))
    raise_for(name, info, not_converged)
    return s
