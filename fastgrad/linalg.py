"""Linear algebra under PyTorch's names: products, norms, decompositions, systems of equations.

Matrices are of float32, float64 or complex numbers, and any leading dimensions are those of a batch.
LAPACK is the one inside of NumPy's wheel.

Examples
--------
>>> import fastgrad as fg
>>> fg.linalg.vector_norm(fg.tensor([3.0, 4.0]))
tensor(5.)
"""

from typing import Any

from fastgrad import return_types as _return_types
from fastgrad.functions.arguments import as_index, need_tensor, need_tensors
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.complex_numbers import conj
from fastgrad.functions.eigen import eig, eigvals
from fastgrad.functions.factors import (
    cholesky,
    cholesky_ex,
    eigh,
    eigvalsh,
    ldl_factor,
    ldl_factor_ex,
    lu,
    lu_factor,
    lu_factor_ex,
    svd,
    svdvals,
)
from fastgrad.functions.least_squares import lstsq, pinv
from fastgrad.functions.linalg import matmul
from fastgrad.functions.matrices import LinAlgError
from fastgrad.functions.matrix_functions import cond, matrix_exp, matrix_norm, matrix_power, matrix_rank, norm
from fastgrad.functions.orthogonal import householder_product, qr
from fastgrad.functions.outs import taking_out
from fastgrad.functions.plans import planned
from fastgrad.functions.products import cross_product, multiplied_chain
from fastgrad.functions.products import powers as _powers
from fastgrad.functions.shape import diagonal as _diagonal
from fastgrad.functions.statistics import vector_norm
from fastgrad.functions.systems import (
    det,
    inv,
    inv_ex,
    ldl_solve,
    lu_solve,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from fastgrad.functions.systems import (
    log_determinants as _log_determinants,
)
from fastgrad.module_names import getattr_of as _getattr_of


@taking_out
@planned
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The vector products of vectors of three elements along a dimension. See `fastgrad.cross`."""
    need_tensor("linalg.cross", input)
    return cross_product(
        "linalg.cross",
        input,
        need_tensor("linalg.cross", other, "other", 2),
        as_index("linalg.cross", "dim", dim),
    )


@planned
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:  # noqa: N803 - PyTorch's name
    """The diagonals of matrices, as a view."""
    return _diagonal(A, offset, dim1, dim2)


@taking_out
def slogdet(A: Any) -> _return_types.linalg_slogdet:  # noqa: N803 - PyTorch's name
    """The signs of determinants, and the logarithms of their absolute values.

    Parameters
    ----------
    A : Tensor
        Of shape (..., n, n), of float32, float64 or complex numbers.

    Returns
    -------
    (sign, logabsdet)
        For a singular matrix 0 and -inf. The sign of a complex determinant is what is left of it with the absolute
        value 1.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.slogdet(fg.tensor([[0.0, 1.0], [1.0, 0.0]])).sign
    tensor(-1.)
    """
    return _return_types.linalg_slogdet._make(_log_determinants(A))


@taking_out
@lower_precision
def multi_dot(tensors: Any) -> Any:
    """The product of a chain of matrices, of which the first and the last may be vectors.

    Raises
    ------
    RuntimeError
        If there are fewer than two, or sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.multi_dot([fg.ones(2), fg.ones(2, 3), fg.ones(3)])
    tensor(6.)
    """
    return multiplied_chain("linalg.multi_dot", need_tensors("linalg.multi_dot", tensors))


@taking_out
@planned
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Sums of products along a dimension of two tensors, which are broadcast; complex ones of `x` are conjugated."""
    need_tensor("linalg.vecdot", x, "x")
    return (conj(x) * need_tensor("linalg.vecdot", y, "y", 2)).sum(as_index("linalg.vecdot", "dim", dim))


@planned
def vander(x: Any, *, N: Any = None) -> Any:  # noqa: N803 - PyTorch's name
    """The powers 0 to ``N - 1`` of elements, along a new last dimension."""
    x = x if need_tensor("linalg.vander", x, "x").dim() else x.reshape(1)
    last = x.shape[-1]
    return _powers("linalg.vander", x, last if N is None else as_index("linalg.vander", "N", N))


__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

__getattr__ = _getattr_of(__name__)
