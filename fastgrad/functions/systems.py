"""Systems of linear equations, inverses, pseudo-inverses, least squares, determinants."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import return_types
from fastgrad.functions.arguments import as_flag, as_index, as_sizes, need_tensor
from fastgrad.functions.complex_numbers import conj, is_complex_tensor
from fastgrad.functions.factors import interchanged, need_pivots
from fastgrad.functions.matrices import (
    broadcast,
    need_alike,
    need_matrices,
    need_square,
    raise_for,
    room_on,
    sizes_of,
    turned,
)
from fastgrad.functions.outs import taking_out
from fastgrad.functions.public import public
from fastgrad.native.contracts.frames.linalg import room_of_cofactors
from fastgrad.ops import systems

# --- general matrices ----------------------------------------------------------------------------------------------


def _is_vector(a: Any, b: Any) -> bool:
    """Whether a right side is a batch of vectors, as PyTorch decides it."""
    return b.dim() == 1 or (a.dim() - 1 == b.dim() and tuple(b.shape) == tuple(a.shape[:-1]))


def _need_sides(name: str, a: Any, b: Any, left: bool, first: str = "A") -> None:
    """Refuse a right side that does not fit matrices."""
    if (b.shape[-2] if left else b.shape[-1]) != a.shape[-1]:
        form = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}(): Incompatible shapes of {first} and B for the equation {form} ({a.shape[-2]}x{a.shape[-1]} and "
            f"{b.shape[-2]}x{b.shape[-1]})"
        )


def _solved(name: str, A: Any, B: Any, left: Any) -> return_types.linalg_solve_ex:  # noqa: N803 - PyTorch's names
    need_square(name, A)
    need_tensor(name, B, "B", 2)
    need_alike(name, A, B)
    vector = _is_vector(A, B)
    on_left = bool(as_flag(name, "left", left))
    if vector and not on_left:
        raise RuntimeError(
            f"{name}(): Vector broadcasting of the left hand side is not supported for left=False. In this case "
            "linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    b = need_matrices(name, B.unsqueeze(-1) if vector else B, "B", 2)
    _need_sides(name, A, b, on_left)
    a, b = (A, b) if on_left else (turned(A), turned(b))
    if a.dim() == 2 and b.dim() > 2:  # one matrix: the right sides of a batch are columns side by side
        columns = b.movedim(-2, 0)
        out, info = _solved_alike(a, columns.reshape(a.shape[0], math.prod(columns.shape[1:])))
        out = out.reshape(columns.shape).movedim(0, -2)
    else:
        out, info = _solved_alike(*broadcast(name, a, b))
    if not on_left:
        out = turned(out)
    return return_types.linalg_solve_ex._make((out.squeeze(-1) if vector else out, info))


def _solved_alike(a: Any, b: Any) -> tuple[Any, Any]:
    batch, n, k = sizes_of(b)
    found = systems.solve.all_of((a, b), batch, n, k)
    return found[0], found[3]


def _singular(code: int) -> str:
    return "The solver failed because the input matrix is singular."


@taking_out
def solve(A: Any, B: Any, *, left: bool = True) -> Any:  # noqa: N803 - PyTorch's names
    """The solution X of ``A X = B``, or with ``left=False`` of ``X A = B``.

    Parameters
    ----------
    A : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers.
    B : Tensor
        Of shape (..., n, k), or (..., n) for vectors; batches broadcast.
    left : bool

    Returns
    -------
    Tensor

    Raises
    ------
    LinAlgError
        If a matrix is singular.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.solve(fg.tensor([[2.0, 0.0], [1.0, 4.0]]), fg.tensor([2.0, 9.0]))
    tensor([1., 2.])
    """
    found = _solved("linalg.solve", A, B, left)
    raise_for("linalg.solve", found.info, _singular)
    return found.result


@taking_out
def solve_ex(
    A: Any,  # noqa: N803 - PyTorch's names
    B: Any,  # noqa: N803
    *,
    left: bool = True,
    check_errors: bool = False,
) -> return_types.linalg_solve_ex:
    """The solution of a system, with what LAPACK says of each matrix instead of an exception. See `solve`."""
    found = _solved("linalg.solve_ex", A, B, left)
    if as_flag("linalg.solve_ex", "check_errors", check_errors):
        raise_for("linalg.solve_ex", found.info, _singular)
    return found


def _not_invertible(code: int) -> str:
    return (
        f"The diagonal element {code} is zero, the inversion could not be completed because the input matrix is "
        "singular."
    )


def inverse_of(name: str, A: Any, argument: str = "A") -> return_types.linalg_inv_ex:  # noqa: N803 - PyTorch's name
    """Inverse matrices, and what LAPACK says."""
    batch, n, _ = sizes_of(need_square(name, A, argument))
    found, info, _ = systems.inverse.all_of((A,), batch, n)
    return return_types.linalg_inv_ex._make((found, info))


@taking_out
def inv(A: Any) -> Any:  # noqa: N803 - PyTorch's name
    """The inverse of square matrices.

    Parameters
    ----------
    A : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers.

    Returns
    -------
    Tensor

    Raises
    ------
    LinAlgError
        If a matrix is singular.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.inv(fg.tensor([[2.0, 1.0], [1.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  2.]])
    """
    found = inverse_of("linalg.inv", A)
    raise_for("linalg.inv", found.info, _not_invertible)
    return found.inverse


@taking_out
def inv_ex(A: Any, *, check_errors: bool = False) -> return_types.linalg_inv_ex:  # noqa: N803 - PyTorch's name
    """The inverse, with what LAPACK says of each matrix instead of an exception. See `inv`.

    Returns
    -------
    (inverse, info)
        `info` is 0, or the number of the pivot that is zero; then the inverse is NaN.
    """
    found = inverse_of("linalg.inv_ex", A)
    if as_flag("linalg.inv_ex", "check_errors", check_errors):
        raise_for("linalg.inv_ex", found.info, _not_invertible)
    return found


@public()
@taking_out
def inverse(input: Any) -> Any:
    """The inverse of square matrices. See `linalg.inv`."""
    return inv(input)


@public()
@taking_out
def det(input: Any) -> Any:
    """The determinants of square matrices.

    Parameters
    ----------
    input : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers.

    Returns
    -------
    Tensor
        Of shape (...). The gradient is the matrix of cofactors, also of singular matrices.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.det(fg.tensor([[2.0, 1.0], [1.0, 4.0]]))
    tensor(7.)
    """
    batch, n, _ = sizes_of(need_square("linalg.det", input))
    return systems.det.first_of((input,), batch, n, room_on(input, room_of_cofactors(n)))


def log_determinants(input: Any) -> tuple[Any, Any]:
    """Signs of determinants, and logarithms of their absolute values."""
    batch, n, _ = sizes_of(need_square("linalg.slogdet", input))
    op = systems.slogdet_complex if is_complex_tensor(input) else systems.slogdet
    sign, logarithm, _ = op.all_of((input,), batch, n)
    return sign, logarithm


@public()
@taking_out
def slogdet(input: Any) -> return_types.slogdet:
    """The signs of determinants, and the logarithms of their absolute values. See `linalg.slogdet`."""
    return return_types.slogdet._make(log_determinants(input))


@public()
def logdet(input: Any) -> Any:
    """The logarithms of determinants: NaN where these are real and negative. See `slogdet`."""
    sign, logarithm = log_determinants(input)
    if is_complex_tensor(sign):
        return sign.log() + logarithm
    return logarithm.masked_fill(sign == -1, math.nan)


# --- factors -------------------------------------------------------------------------------------------------------


def _triangular_op(upper: bool, unit: bool, transposed: bool, a: Any, b: Any) -> Any:
    batch, n, k = sizes_of(b)
    return systems.TRIANGULAR[upper, unit, transposed].solved(a, b, batch, n, k)


def triangular(name: str, A: Any, B: Any, upper: bool, unit: bool, transposed: bool = False) -> Any:  # noqa: N803
    """The solution of ``A X = B`` by a triangle of square matrices."""
    need_alike(name, need_square(name, A), need_matrices(name, B, "B", 2))
    _need_sides(name, A, B, True)
    return _triangular_op(upper, unit, transposed, *broadcast(name, A, B))


@taking_out
def solve_triangular(
    A: Any,  # noqa: N803 - PyTorch's names
    B: Any,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    """The solution X of ``A X = B``, or with ``left=False`` of ``X A = B``, for triangular matrices.

    Parameters
    ----------
    A : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers; what stands on the other side of
        its diagonal is not read.
    B : Tensor
        Of shape (..., n, k), or (..., k, n); batches broadcast.
    upper : bool
    left : bool
    unitriangular : bool
        Take the diagonal for ones.

    Returns
    -------
    Tensor
        With infinite elements if a matrix is singular.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.solve_triangular(fg.tensor([[2.0, 1.0], [0.0, 4.0]]), fg.tensor([[4.0], [8.0]]), upper=True)
    tensor([[1.],
            [2.]])
    """
    name = "linalg.solve_triangular"
    need_alike(name, need_square(name, A), need_matrices(name, B, "B", 2))
    on_left = bool(as_flag(name, "left", left))
    _need_sides(name, A, B, on_left)
    which, unit = bool(as_flag(name, "upper", upper)), bool(as_flag(name, "unitriangular", unitriangular))
    a, b = broadcast(name, A, B)
    if on_left:
        return _triangular_op(which, unit, False, a, b)
    return turned(_triangular_op(which, unit, True, a, turned(b)))


@taking_out
def lu_solve(
    LU: Any,  # noqa: N803 - PyTorch's names
    pivots: Any,
    B: Any,  # noqa: N803
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Any:
    """The solution X of ``A X = B``, or with ``left=False`` of ``X A = B``, by the factors of A.

    Parameters
    ----------
    LU, pivots : Tensor
        What `lu_factor` gives for A.
    B : Tensor
        Of shape (..., n, k), or (..., k, n); batches broadcast.
    left : bool
    adjoint : bool
        Solve for A transposed, and conjugate.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> LU, pivots = fg.linalg.lu_factor(fg.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> fg.linalg.lu_solve(LU, pivots, fg.tensor([[5.0], [6.0]]))
    tensor([[1.],
            [2.]])
    """
    return solved_by_factors("linalg.lu_solve", LU, pivots, B, left, adjoint)


def solved_by_factors(name: str, LU: Any, pivots: Any, B: Any, left: Any, adjoint: Any) -> Any:  # noqa: N803
    """The same, for a function of that name."""
    need_alike(name, need_square(name, LU, "LU"), need_matrices(name, B, "B", 3), "LU")
    need_pivots(name, LU, pivots)
    on_left, transposed = bool(as_flag(name, "left", left)), bool(as_flag(name, "adjoint", adjoint))
    _need_sides(name, LU, B, on_left, "LU")
    lu, x = broadcast(name, LU, B)
    if tuple(pivots.shape[:-1]) != tuple(lu.shape[:-2]):
        pivots = pivots.expand(*lu.shape[:-2], pivots.shape[-1])
    if not on_left:  # the transposed system has the transposed matrix
        x, transposed = turned(x), not transposed
    conjugate = bool(adjoint) and is_complex_tensor(x)
    x = conj(x) if conjugate else x
    batch, n, k = sizes_of(x)
    if transposed:
        x = _triangular_op(False, True, True, lu, _triangular_op(True, False, True, lu, x))
        x = interchanged(name, x, pivots, batch, n, k, True)
    else:
        x = interchanged(name, x, pivots, batch, n, k, False)
        x = _triangular_op(True, False, False, lu, _triangular_op(False, True, False, lu, x))
    x = conj(x) if conjugate else x
    return x if on_left else turned(x)


@taking_out
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:  # noqa: N803 - PyTorch's names
    """The solution X of ``A X = B`` by the factors of a symmetric or Hermitian matrix A.

    Parameters
    ----------
    LD, pivots : Tensor
        What `ldl_factor` gives for A. They have no gradient.
    B : Tensor
        Of shape (..., n, k); batches broadcast.
    hermitian : bool
        As for `ldl_factor`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> LD, pivots = fg.linalg.ldl_factor(fg.tensor([[4.0, 2.0], [2.0, -3.0]]))
    >>> fg.linalg.ldl_solve(LD, pivots, fg.tensor([[8.0], [-4.0]]))
    tensor([[1.],
            [2.]])
    """
    name = "linalg.ldl_solve"
    adjoint = bool(as_flag(name, "hermitian", hermitian))
    need_alike(name, need_square(name, LD, "LD"), need_matrices(name, B, "B", 3), "LD")
    need_pivots(name, LD, pivots, "LD")
    _need_sides(name, LD, B, True, "LD")
    factors, b = broadcast(name, LD, B)
    if tuple(pivots.shape[:-1]) != tuple(factors.shape[:-2]):
        pivots = pivots.expand(*factors.shape[:-2], pivots.shape[-1])
    batch, n, k = sizes_of(b)
    try:
        op = systems.ldl_solve_hermitian if adjoint else systems.ldl_solve
        return op.all_of((factors, pivots, b), batch, n, k, int(adjoint))
    except IndexError as error:
        raise RuntimeError(
            f"{name}(): pivots are none of an LDL decomposition; pass the result of ldl_factor"
        ) from error


@public()
def triangular_solve(
    input: Any,
    A: Any,  # noqa: N803 - PyTorch's name
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> return_types.triangular_solve:
    """The solution of ``A X = input`` for triangular matrices, and a copy of these. See `linalg.solve_triangular`."""
    name = "triangular_solve"
    which, turn, unit = (
        bool(as_flag(name, argument, value))
        for argument, value in (("upper", upper), ("transpose", transpose), ("unitriangular", unitriangular))
    )
    need_tensor(name, input)
    need_square(name, A, "A", 2)
    return return_types.triangular_solve(
        triangular(name, A, input, which, unit, turn), broadcast(name, A, input)[0].clone()
    )


# --- tensors as matrices -------------------------------------------------------------------------------------------


@taking_out
def tensorinv(A: Any, ind: int = 2) -> Any:  # noqa: N803 - PyTorch's name
    """The inverse of a tensor whose first `ind` dimensions are the rows of a square matrix.

    Returns
    -------
    Tensor
        Of shape ``A.shape[ind:] + A.shape[:ind]``.

    Raises
    ------
    LinAlgError
        If the matrix is singular.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.tensorinv(fg.ones(1, 1, 1) * 2, ind=1)
    tensor([[[0.5000]]])
    """
    name = "linalg.tensorinv"
    shape = tuple(need_tensor(name, A, "A").shape)
    k = as_index(name, "ind", ind)
    if k <= 0:
        raise RuntimeError(f"{name}(): Expected a strictly positive integer for 'ind', but got {k}")
    rows, columns = math.prod(shape[:k]), math.prod(shape[k:])
    if rows != columns:
        raise RuntimeError(
            f"{name}(): Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but "
            f"got {columns} != {rows}"
        )
    found = inverse_of(name, A.reshape(rows, columns))
    raise_for(name, found.info, _not_invertible)
    return found.inverse.reshape(shape[k:] + shape[:k])


@taking_out
def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:  # noqa: N803 - PyTorch's names
    """The solution X of ``tensordot(A, X, X.ndim) = B``.

    Parameters
    ----------
    A : Tensor
        Its first dimensions, as many as `B` has, are the rows of a square matrix.
    B : Tensor
    dims : tuple of int, optional
        Dimensions of `A` that are moved behind the others first.

    Returns
    -------
    Tensor
        Of shape ``A.shape[B.ndim:]``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.tensorsolve(fg.eye(4).reshape(2, 2, 4), fg.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    name = "linalg.tensorsolve"
    need_tensor(name, A, "A")
    need_tensor(name, B, "B", 2)
    if dims is not None:
        moved = as_sizes(name, (dims,), "dims")
        A = A.movedim(moved, tuple(range(A.dim() - len(moved), A.dim())))  # noqa: N806
    rest = tuple(A.shape[B.dim() :])
    rows, columns = math.prod(A.shape[: B.dim()]), math.prod(rest)
    if rows != columns:
        raise RuntimeError(
            f"{name}(): Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != {rows}"
        )
    found = _solved(name, A.reshape(rows, columns), B.reshape(rows), True)
    raise_for(name, found.info, _singular)
    return found.result.reshape(rest)
