"""QR decompositions, and orthogonal matrices as products of reflectors."""

from __future__ import annotations

from typing import Any

from fastgrad import return_types
from fastgrad.functions.arguments import as_flag, need_tensor, need_type, records
from fastgrad.functions.complex_numbers import conj, is_complex_tensor
from fastgrad.functions.creation import empty
from fastgrad.functions.matrices import adjoint, eyes, need_alike, need_matrices, sizes_of
from fastgrad.functions.outs import taking_out
from fastgrad.functions.public import public
from fastgrad.functions.unaffected import unaffected
from fastgrad.ops import reflectors


@taking_out
def qr(A: Any, mode: str = "reduced") -> return_types.linalg_qr:  # noqa: N803 - PyTorch's name
    """The QR decomposition ``A = Q R`` of matrices, with orthogonal columns in Q and an upper triangle R.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    mode : str
        "reduced": Q has k columns and R k rows, where k is the smaller one of m and n. "complete": Q is square. "r":
        without Q.

    Returns
    -------
    (Q, R)
        They have a derivative if the first k columns of the matrix are independent, and Q has k columns.

    Examples
    --------
    >>> import fastgrad as fg
    >>> Q, R = fg.linalg.qr(fg.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> R
    tensor([[-5.0000, -2.2000],
            [ 0.0000,  0.4000]])
    """
    name = "linalg.qr"
    batch, m, n = sizes_of(need_matrices(name, A))
    k = min(m, n)
    columns, rows = {"reduced": (k, k), "complete": (m, m), "r": (0, k)}.get(
        need_type(name, mode, str, "mode", 2), (-1, -1)
    )
    if columns < 0:
        raise RuntimeError(
            f"{name}(): received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    op = reflectors.qr_partial if columns != k else reflectors.QR[m < n, is_complex_tensor(A)]
    q, r, *_ = op.all_of((A,), batch, m, n, k, abs(m - n), columns, rows)
    return return_types.linalg_qr._make((empty(0, dtype=A.dtype, device=A.device) if mode == "r" else q, r))


@public()
def geqrf(input: Any) -> return_types.geqrf:
    """The QR decomposition by LAPACK's reflectors, for `ormqr` and `linalg.householder_product`.

    Parameters
    ----------
    input : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.

    Returns
    -------
    (a, tau)
        R and, below its diagonal, the reflectors, but for the ones that they begin with; their factors.
    """
    batch, m, n = sizes_of(need_matrices("geqrf", input, "input"))
    return return_types.geqrf._make(reflectors.geqrf.all_of((input,), batch, m, n, min(m, n)))


def _reflect(columns: Any, tau: Any, c: Any, left: bool, first_on_top: bool) -> Any:
    """Multiply with reflectors one by one, as ops that have derivatives: from the left, or from the right."""
    m, k = columns.shape[-2], tau.shape[-1]
    vectors = columns[..., :k].tril(-1) + eyes(columns, m, k)
    for i in range(k) if first_on_top else reversed(range(k)):
        v, factor = vectors[..., i : i + 1], tau[..., i, None, None]
        c = c - factor * (v @ (adjoint(v) @ c) if left else (c @ v) @ adjoint(v))
    return c


def _need_factors(name: str, A: Any, tau: Any, argument: str = "input") -> None:  # noqa: N803
    """Refuse what cannot be reflectors and their factors."""
    need_matrices(name, A, argument)
    need_tensor(name, tau, "tau", 2)
    m, n = A.shape[-2:]
    if m < n and argument == "input":
        raise RuntimeError(
            f"{name}(): input.shape[-2] must be greater than or equal to input.shape[-1], but got {m} and {n}"
        )
    if tau.dim() == 0 or tau.shape[-1] > min(m, n):
        raise RuntimeError(
            f"{name}(): input.shape[-1] must be greater than or equal to tau.shape[-1], but got shapes "
            f"{list(A.shape)} and {list(tau.shape)}"
        )
    if tuple(tau.shape[:-1]) != tuple(A.shape[:-2]):
        raise RuntimeError(
            f"{name}(): Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.shape[:-1])} and {list(A.shape[:-2])}"
        )
    need_alike(name, A, tau, argument, "tau")


@taking_out
def householder_product(A: Any, tau: Any) -> Any:  # noqa: N803 - PyTorch's name
    """The first columns of a product of Householder reflectors ``I - tau[k] v[k] v[k]'``.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n) with m >= n: below its diagonal the reflectors, which have a one there.
    tau : Tensor
        Of shape (..., k) with k <= n.

    Returns
    -------
    Tensor
        Of the shape of `A`. Where a gradient is asked for, reflectors are multiplied one by one.

    Examples
    --------
    >>> import fastgrad as fg
    >>> a, tau = fg.geqrf(fg.tensor([[3.0], [4.0]]))
    >>> fg.linalg.householder_product(a, tau)
    tensor([[-0.6000],
            [-0.8000]])
    """
    return householder("linalg.householder_product", A, tau)


def householder(name: str, A: Any, tau: Any) -> Any:  # noqa: N803 - PyTorch's name
    """The same, for a function of that name."""
    _need_factors(name, A, tau)
    batch, m, n = sizes_of(A)
    if records(A, tau):
        start = eyes(A, m, n)
        return (
            _reflect(A, tau, start, True, False) if A.numel() and tau.numel() else unaffected(start, A, tau)
        )
    return reflectors.householder.all_of((A, tau), batch, m, n, tau.shape[-1])


@public()
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """The product of a matrix with the orthogonal matrix Q of `geqrf`.

    Parameters
    ----------
    input, tau : Tensor
        What `geqrf` gives: of shapes (..., mn, k) and (..., k).
    other : Tensor
        Of shape (..., m, n).
    left : bool
        Whether Q, which has m rows then, stands on the left; otherwise it has n.
    transpose : bool
        Multiply with Q transposed, and conjugate.

    Returns
    -------
    Tensor
        Of the shape of `other`.
    """
    name = "ormqr"
    _need_factors(name, input, tau, "a")
    need_matrices(name, other, "other", 3)
    on_left, transposed = bool(as_flag(name, "left", left)), bool(as_flag(name, "transpose", transpose))
    need_alike(name, input, other, "input", "other")
    batch, m, n = sizes_of(other)
    order, width = input.shape[-2:]
    if order != (m if on_left else n) or tuple(input.shape[:-2]) != tuple(other.shape[:-2]):
        raise RuntimeError(
            f"{name}(): other.shape[{-2 if on_left else -1}] must be equal to input.shape[-2], and their batch "
            f"dimensions must be the same, but got {list(other.shape)} and {list(input.shape)}"
        )
    if records(input, tau, other):
        if input.numel() and tau.numel():
            factors = conj(tau) if transposed else tau
            return _reflect(input, factors, other, on_left, on_left == transposed)
        return unaffected(other, input, tau)
    return reflectors.reflected.all_of(
        (input, tau, other), batch, m, n, order, width, tau.shape[-1], int(on_left), int(transposed)
    )
