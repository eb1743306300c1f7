"""Written by tools/stubs.py."""

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable as _Callable, Iterator as _Iterator, Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal, overload as _overload

import numpy as _np

from fastgrad import return_types as _return_types
from fastgrad.dtypes import dtype as _dtype
from fastgrad.functions.memory_format import layout as _layout
from fastgrad.functions.memory_format import memory_format as _memory_format
from fastgrad.places import device as _device
from fastgrad.random import Generator as _Generator
from fastgrad.tensor import Tensor as _Tensor
from fastgrad.tensor.size import Size as _Size

from fastgrad.functions.matrices import LinAlgError as LinAlgError
def cholesky(A: _Tensor, *, upper: _bool = False) -> _Tensor:
    r"""The lower triangle L of symmetric or Hermitian positive definite matrices ``A = L L'``."""
def cholesky_ex(A: _Tensor, *, upper: _bool = False, check_errors: _bool = False) -> _return_types.linalg_cholesky_ex:
    r"""The Cholesky decomposition, with what LAPACK says of each matrix instead of an exception. See `cholesky`."""
def cond(A: _Tensor, p: _int | _float | _complex | _str | None = None) -> _Tensor:
    r"""The condition number of matrices: the norm times that of the inverse."""
@_overload
def cross(input: _Tensor, other: _Tensor | _int | _float | _complex, *, dim: _int = -1) -> _Tensor:
    r"""The vector products of vectors of three elements along a dimension. See `fastgrad.cross`."""
@_overload
def cross(input: _Tensor, other: _Tensor | _int | _float | _complex, *, axis: _int = -1) -> _Tensor:
    r"""The vector products of vectors of three elements along a dimension. See `fastgrad.cross`."""
def det(input: _Tensor) -> _Tensor:
    r"""The determinants of square matrices."""
def diagonal(A: _Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> _Tensor:
    r"""The diagonals of matrices, as a view."""
def eig(A: _Tensor) -> _return_types.linalg_eig:
    r"""Eigenvalues and eigenvectors of square matrices."""
def eigh(A: _Tensor, UPLO: _str = 'L') -> _return_types.linalg_eigh:
    r"""Eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
def eigvals(A: _Tensor) -> _Tensor:
    r"""Eigenvalues of square matrices, complex and in no particular order. See `eig`."""
def eigvalsh(A: _Tensor, UPLO: _str = 'L') -> _Tensor:
    r"""Eigenvalues of symmetric or Hermitian matrices in ascending order. See `eigh`."""
def householder_product(A: _Tensor, tau: _Tensor) -> _Tensor:
    r"""The first columns of a product of Householder reflectors ``I - tau[k] v[k] v[k]'``."""
def inv(A: _Tensor) -> _Tensor:
    r"""The inverse of square matrices."""
def inv_ex(A: _Tensor, *, check_errors: _bool = False) -> _return_types.linalg_inv_ex:
    r"""The inverse, with what LAPACK says of each matrix instead of an exception. See `inv`."""
def ldl_factor(A: _Tensor, *, hermitian: _bool = False) -> _return_types.linalg_ldl_factor:
    r"""The LDL decomposition ``A = P L D L' P'`` of symmetric matrices in one matrix, for `ldl_solve`."""
def ldl_factor_ex(A: _Tensor, *, hermitian: _bool = False, check_errors: _bool = False) -> _return_types.linalg_ldl_factor_ex:
    r"""The LDL decomposition in one matrix, with what LAPACK says of each matrix. See `ldl_factor`."""
def ldl_solve(LD: _Tensor, pivots: _Tensor, B: _Tensor, *, hermitian: _bool = False) -> _Tensor:
    r"""The solution X of ``A X = B`` by the factors of a symmetric or Hermitian matrix A."""
def lstsq(A: _Tensor, B: _Tensor, rcond: _int | _float | _complex | None = None, *, driver: _str | None = None) -> _return_types.linalg_lstsq:
    r"""The X for which ``A X - B`` has the least norm, of several the one of least norm."""
def lu(A: _Tensor, *, pivot: _bool = True) -> _return_types.linalg_lu:
    r"""The LU decomposition ``A = P L U`` with partial pivoting."""
def lu_factor(A: _Tensor, *, pivot: _bool = True) -> _return_types.linalg_lu_factor:
    r"""The LU decomposition ``A = P L U`` with partial pivoting, in one matrix, for `lu_solve`."""
def lu_factor_ex(A: _Tensor, *, pivot: _bool = True, check_errors: _bool = False) -> _return_types.linalg_lu_factor_ex:
    r"""The LU decomposition in one matrix, with what LAPACK says of each matrix. See `lu_factor`."""
def lu_solve(LU: _Tensor, pivots: _Tensor, B: _Tensor, *, left: _bool = True, adjoint: _bool = False) -> _Tensor:
    r"""The solution X of ``A X = B``, or with ``left=False`` of ``X A = B``, by the factors of A."""
def matmul(input: _Tensor, other: _Tensor) -> _Tensor:
    r"""The matrix product, with vectors as rows or columns and batches broadcast."""
def matrix_exp(input: _Tensor) -> _Tensor:
    r"""The exponential of square matrices."""
@_overload
def matrix_norm(A: _Tensor, ord: _int | _float | _complex | _str = 'fro', dim: _Sequence[_int] = ..., keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The norm of matrices."""
@_overload
def matrix_norm(A: _Tensor, ord: _int | _float | _complex | _str = 'fro', axis: _Sequence[_int] = ..., keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The norm of matrices."""
def matrix_power(input: _Tensor, n: _int) -> _Tensor:
    r"""A square matrix, or each of a batch, multiplied `n` times with itself; with a negative `n`, its inverse."""
def matrix_rank(A: _Tensor, tol: _int | _float | _complex | _Tensor | None = None, hermitian: _bool = False, *, atol: _int | _float | _complex | _Tensor | None = None, rtol: _int | _float | _complex | _Tensor | None = None) -> _Tensor:
    r"""The rank of matrices: how many singular values are above a tolerance."""
def multi_dot(tensors: _Sequence[_Tensor]) -> _Tensor:
    r"""The product of a chain of matrices, of which the first and the last may be vectors."""
@_overload
def norm(A: _Tensor, ord: _int | _float | _complex | _str | None = None, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The norm of vectors or of matrices."""
@_overload
def norm(A: _Tensor, ord: _int | _float | _complex | _str | None = None, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The norm of vectors or of matrices."""
def pinv(A: _Tensor, rcond: _int | _float | _complex | _Tensor | None = None, hermitian: _bool = False, *, atol: _int | _float | _complex | _Tensor | None = None, rtol: _int | _float | _complex | _Tensor | None = None) -> _Tensor:
    r"""The pseudo-inverse of matrices."""
def qr(A: _Tensor, mode: _str = 'reduced') -> _return_types.linalg_qr:
    r"""The QR decomposition ``A = Q R`` of matrices, with orthogonal columns in Q and an upper triangle R."""
def slogdet(A: _Tensor) -> _return_types.linalg_slogdet:
    r"""The signs of determinants, and the logarithms of their absolute values."""
def solve(A: _Tensor, B: _Tensor, *, left: _bool = True) -> _Tensor:
    r"""The solution X of ``A X = B``, or with ``left=False`` of ``X A = B``."""
def solve_ex(A: _Tensor, B: _Tensor, *, left: _bool = True, check_errors: _bool = False) -> _return_types.linalg_solve_ex:
    r"""The solution of a system, with what LAPACK says of each matrix instead of an exception. See `solve`."""
def solve_triangular(A: _Tensor, B: _Tensor, *, upper: _bool, left: _bool = True, unitriangular: _bool = False) -> _Tensor:
    r"""The solution X of ``A X = B``, or with ``left=False`` of ``X A = B``, for triangular matrices."""
def svd(A: _Tensor, full_matrices: _bool = True, *, driver: None = None) -> _return_types.linalg_svd:
    r"""The singular value decomposition ``A = U diag(S) Vh`` of matrices."""
def svdvals(A: _Tensor, *, driver: _Any = None) -> _Tensor:
    r"""Singular values of matrices in descending order. See `svd`."""
def tensorinv(A: _Tensor, ind: _int = 2) -> _Tensor:
    r"""The inverse of a tensor whose first `ind` dimensions are the rows of a square matrix."""
def tensorsolve(A: _Tensor, B: _Tensor, dims: _Sequence[_int] | None = None) -> _Tensor:
    r"""The solution X of ``tensordot(A, X, X.ndim) = B``."""
def vander(x: _Any, *, N: _Any = None) -> _Tensor:
    r"""The powers 0 to ``N - 1`` of elements, along a new last dimension."""
@_overload
def vecdot(x: _Any, y: _Any, *, dim: _int = -1) -> _Tensor:
    r"""Sums of products along a dimension of two tensors, which are broadcast; complex ones of `x` are conjugated."""
@_overload
def vecdot(x: _Any, y: _Any, *, axis: _int = -1) -> _Tensor:
    r"""Sums of products along a dimension of two tensors, which are broadcast; complex ones of `x` are conjugated."""
@_overload
def vector_norm(x: _Tensor, ord: _float = 2, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The norm of the elements over dimensions, ``sum(|x|**ord) ** (1 / ord)``."""
@_overload
def vector_norm(x: _Tensor, ord: _float = 2, axis: _int | _Sequence[_int] | None = None, keepdims: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The norm of the elements over dimensions, ``sum(|x|**ord) ** (1 / ord)``."""
