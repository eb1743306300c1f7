"""Functions of matrices: norms, condition numbers, ranks, exponentials, powers; approximations of low rank."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fastgrad import dtypes
from fastgrad.functions.argument_names import also_by_name
from fastgrad.functions.arguments import as_dims, as_flag, as_index, need_tensor
from fastgrad.functions.complex_numbers import real_dtype
from fastgrad.functions.creation import eye
from fastgrad.functions.factors import eigvalsh, singular_values, svd_of
from fastgrad.functions.least_squares import tolerances
from fastgrad.functions.likeness import randn_like
from fastgrad.functions.matrices import (
    adjoint,
    need_floats,
    need_matrices,
    need_square,
    room_on,
    sizes_of,
    turned,
)
from fastgrad.functions.orthogonal import qr
from fastgrad.functions.outs import taking_out
from fastgrad.functions.public import public
from fastgrad.functions.shape import wrapped
from fastgrad.functions.statistics import vector_norm
from fastgrad.functions.systems import inv, inverse_of
from fastgrad.native.contracts.frames.linalg import room_of_exponential
from fastgrad.ops import systems

# --- norms ---------------------------------------------------------------------------------------------------------

_ORDERS = (1, -1, 2, -2, math.inf, -math.inf)


@taking_out
@also_by_name
def matrix_norm(
    A: Any,  # noqa: N803 - PyTorch's name
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """The norm of matrices.

    Parameters
    ----------
    A : Tensor
        Of float32, float64 or complex numbers.
    ord : number or str
        "fro": the square root of the sum of squares; "nuc": the sum of the singular values; 2 and -2: the largest and
        the smallest one; 1 and -1: the largest and the smallest sum of a column's absolute values; inf and -inf: of a
        row's.
    dim : tuple of int
        The dimensions of rows and columns.
    keepdim : bool
        Keep these dimensions with size 1.
    dtype : dtype, optional
        Cast to this before.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.matrix_norm(fg.tensor([[3.0, 0.0], [0.0, 4.0]]), "nuc")
    tensor(7.)
    """
    return matrix_norm_of("linalg.matrix_norm", A, ord, dim, keepdim, dtype)


def matrix_norm_of(name: str, A: Any, ord: Any, dim: Any, keepdim: Any, dtype: Any) -> Any:  # noqa: N803
    """The same, for a function of that name."""
    need_tensor(name, A, "A")
    x = need_floats(name, A if dtype is None else A.to(dtype))
    if x.dim() < 2:
        raise RuntimeError(
            f"{name}(): The input tensor A must have at least 2 dimensions, but it has {x.dim()}"
        )
    if isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise RuntimeError(f"{name}(): Order {ord} not supported.")
    if not isinstance(ord, str) and (isinstance(ord, bool) or ord not in _ORDERS):
        raise RuntimeError(f"{name}(): Order {ord} not supported.")
    dims = as_dims(name, dim)
    if len(dims) != 2:
        raise RuntimeError(f"{name}(): dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    keep = bool(as_flag(name, "keepdim", keepdim))
    rows, columns = (wrapped(name, d, x.dim()) for d in dims)
    if rows == columns:
        raise RuntimeError(f"{name}(): dims must be different. Got ({dims[0]}, {dims[1]})")
    if ord == "fro":
        return vector_norm(x, 2, (rows, columns), keep)
    out = _norm_of_last_two(name, x.movedim((rows, columns), (-2, -1)), ord)
    return out.unsqueeze(min(rows, columns)).unsqueeze(max(rows, columns)) if keep else out


def _norm_of_last_two(name: str, x: Any, ord: Any) -> Any:
    if ord == "nuc":
        return singular_values(name, x).sum(-1)
    largest = ord > 0
    if abs(ord) == 2:
        sums = singular_values(name, x)
    else:
        sums = x.abs().sum(-2 if abs(ord) == 1 else -1)
    if largest and sums.shape[-1] == 0:
        return sums.sum(-1)
    return sums.amax(-1) if largest else sums.amin(-1)


@taking_out
@also_by_name
def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:  # noqa: N803
    """The norm of vectors or of matrices.

    Parameters
    ----------
    A : Tensor
    ord : number or str, optional
        As `vector_norm` and `matrix_norm` take it; by default the square root of the sum of squares.
    dim : int or tuple of int, optional
        One dimension for vectors, two for matrices. Without it and with `ord`, a tensor of one or two dimensions is
        one vector or matrix; without both, any is a vector.
    keepdim : bool
    dtype : dtype, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.norm(fg.tensor([[3.0, 0.0], [0.0, 4.0]]), 1)
    tensor(4.)
    """
    name = "linalg.norm"
    need_tensor(name, A, "A")
    dims = None if dim is None else as_dims(name, dim)
    if dims is not None and ord is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"{name}(): If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if dims is None and ord is not None and A.dim() not in (1, 2):
        raise RuntimeError(
            f"{name}(): If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D."
        )
    matrix = ord is not None and (len(dims) == 2 if dims is not None else A.dim() == 2)
    if isinstance(ord, str) and not matrix:
        raise RuntimeError(f"{name}(): a norm of order '{ord}' is one of matrices, but got a vector")
    if matrix:
        return matrix_norm_of(name, A, ord, (-2, -1) if dims is None else dims, keepdim, dtype)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


@taking_out
def cond(A: Any, p: Any = None) -> Any:  # noqa: N803 - PyTorch's name
    """The condition number of matrices: the norm times that of the inverse.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers; square where `p` is not 2 or -2.
    p : number or str, optional
        As `matrix_norm` takes it; 2 if not given.

    Returns
    -------
    Tensor
        Infinite for a singular matrix.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.cond(fg.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor(2.)
    """
    name = "linalg.cond"
    need_matrices(name, A)
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        if A.numel() == 0:
            return A.new_zeros(A.shape[:-2], dtype=real_dtype(A))
        s = singular_values(name, A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    if p not in ("fro", "nuc") if isinstance(p, str) else isinstance(p, bool) or p not in _ORDERS:
        raise RuntimeError(f"{name}(): got an invalid norm type: {p}")
    need_square(name, A)
    if A.numel() == 0:
        return A.new_zeros(A.shape[:-2], dtype=real_dtype(A))
    found, info = inverse_of(name, A)
    singular = info != 0
    found = found.masked_fill(singular[..., None, None], 0.0)
    out = matrix_norm_of(name, A, p, (-2, -1), False, None) * matrix_norm_of(
        name, found, p, (-2, -1), False, None
    )
    return out.masked_fill(singular, math.inf)


@taking_out
def matrix_rank(
    A: Any,  # noqa: N803 - PyTorch's name
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Any:
    """The rank of matrices: how many singular values are above a tolerance.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    tol : number or Tensor, optional
        The same as `atol`, with ``rtol=0``.
    hermitian : bool
        The matrices are symmetric, or Hermitian: their lower triangle is read.
    atol, rtol : number or Tensor, optional
        As `pinv` takes them.

    Returns
    -------
    Tensor
        Of int64, of shape (...).

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.matrix_rank(fg.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    name = "linalg.matrix_rank"
    symmetric = as_flag(name, "hermitian", hermitian)
    x = (need_square if symmetric else need_matrices)(name, A).detach()
    if tol is not None:
        if atol is not None or rtol is not None:
            raise TypeError(f"{name}(): tol is atol with rtol=0; give it or them")
        atol, rtol = tol, 0.0
    absolute, relative = tolerances(name, x, atol, rtol)
    if x.numel() == 0:
        return x.new_zeros(x.shape[:-2], dtype=dtypes.int64)
    s = eigvalsh(x).abs() if symmetric else singular_values(name, x)
    bound = absolute.maximum(relative * s.amax(-1))
    return (s > bound.unsqueeze(-1)).sum(-1)


# --- exponentials and powers ---------------------------------------------------------------------------------------


@public()
def matrix_exp(input: Any) -> Any:
    """The exponential of square matrices.

    Parameters
    ----------
    input : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers.

    Returns
    -------
    Tensor
        By scaling and squaring a Pade approximant.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.matrix_exp(fg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    batch, n, _ = sizes_of(need_square("linalg.matrix_exp", input))
    rooms = (room_on(input, room_of_exponential(k)) for k in (n, 2 * n))
    return systems.exponential.first_of((input,), batch, n, *rooms)


@public()
def matrix_power(input: Any, n: int) -> Any:
    """A square matrix, or each of a batch, multiplied `n` times with itself; with a negative `n`, its inverse.

    Raises
    ------
    LinAlgError
        If `n` is negative and a matrix is singular.
    RuntimeError
        If the matrices are not square.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.matrix_power(fg.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    sizes = need_tensor("matrix_power", input).shape
    n = as_index("matrix_power", "n", n)
    if len(sizes) < 2 or sizes[-1] != sizes[-2]:
        raise RuntimeError(f"matrix_power(): A must be batches of square matrices, but got {list(sizes)}")
    if n == 0:
        return input.clone().copy_(eye(sizes[-1], dtype=input.dtype, device=input.device))
    base = inv(input) if n < 0 else input
    result, n = None, abs(n)
    while n:
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        base = base @ base if n else base
    return result.clone() if result is input else result  # type: ignore[attr-defined]


# --- low rank ------------------------------------------------------------------------------------------------------


class LowRank(NamedTuple):
    """Singular vectors as columns, and singular values."""

    U: Any
    S: Any
    V: Any


def _basis(A: Any, q: int, niter: int) -> Any:  # noqa: N803 - PyTorch's name
    """Orthogonal columns that span about what the first singular vectors span, of matrices that are not wide.

    N. Halko, P. Martinsson and J. Tropp, Finding structure with randomness, 2009, algorithm 4.4.
    """
    Q = qr(A @ turned(randn_like(A[..., :q, :]))).Q  # noqa: N806
    for _ in range(niter):
        Q = qr(A @ qr(adjoint(A) @ Q).Q).Q  # noqa: N806
    return Q


@public(method=False)
def svd_lowrank(A: Any, q: int = 6, niter: int = 2, M: Any = None) -> LowRank:  # noqa: N803 - PyTorch's names
    """An approximation of the first singular values and vectors of matrices, or of ``A - M``.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    q : int
        How many; a few more than the rank.
    niter : int
        Iterations that bring them closer.
    M : Tensor, optional
        Of shape (..., m, n), or what broadcasts to it.

    Returns
    -------
    (U, S, V)
        Of random vectors of the default generator.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.svd_lowrank(fg.diag(fg.tensor([3.0, 2.0, 0.0])), q=2).S
    tensor([3.0000, 2.0000])
    """
    name = "svd_lowrank"
    need_matrices(name, A)
    if M is not None:
        A = A - need_tensor(name, M, "M", 4).expand(A.shape)  # noqa: N806
    m, n = A.shape[-2:]
    q, niter = as_index(name, "q", q), as_index(name, "niter", niter)
    if not 0 <= q <= min(m, n):
        raise ValueError(
            f"{name}(): q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"{name}(): niter(={niter}) must be non-negative integer")
    tall = A if m >= n else adjoint(A)  # the smaller side is what is sampled
    Q = _basis(tall, q, niter)  # noqa: N806
    u, s, vh = svd_of(name, adjoint(Q) @ tall, False)
    left, right = Q @ u, adjoint(vh)
    return LowRank(left, s, right) if m >= n else LowRank(right, s, left)


@public(method=False)
def pca_lowrank(A: Any, q: Any = None, center: bool = True, niter: int = 2) -> LowRank:  # noqa: N803
    """An approximation of the first principal components of matrices, whose rows are samples.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    q : int, optional
        How many; the least of 6, m and n if not given.
    center : bool
        Subtract the means of columns first.
    niter : int
        Iterations that bring them closer.

    Returns
    -------
    (U, S, V)
        The columns of V are the principal directions.
    """
    name = "pca_lowrank"
    m, n = need_matrices(name, A).shape[-2:]
    q = min(6, m, n) if q is None else as_index(name, "q", q)
    if not 0 <= q <= min(m, n):
        raise ValueError(
            f"{name}(): q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    centred = A - A.mean(-2, True) if as_flag(name, "center", center) else A
    return svd_lowrank(centred, q, niter)
