"""Written by tools/stubs.py."""

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable as _Callable, Iterator as _Iterator, Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal, overload as _overload

import numpy as _np

from fastgrad.dtypes import dtype as _dtype
from fastgrad.functions.memory_format import memory_format as _memory_format
from fastgrad.places import device as _device
from fastgrad.random import Generator as _Generator
from fastgrad.tensor import Tensor as _Tensor
from fastgrad.tensor.size import Size as _Size

def cross(input: _Tensor, other: _Tensor | _int | _float | _complex, *, dim: _int = -1) -> _Tensor:
    r"""The vector products of vectors of three elements along a dimension. See `fastgrad.cross`."""
def diagonal(A: _Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> _Tensor:
    r"""The diagonals of matrices, as a view."""
def matmul(input: _Tensor, other: _Tensor) -> _Tensor:
    r"""The matrix product, with vectors as rows or columns and batches broadcast."""
def matrix_power(input: _Tensor, n: _int) -> _Tensor:
    r"""A square matrix, or each of a batch, multiplied `n` times with itself."""
def multi_dot(tensors: _Sequence[_Tensor]) -> _Tensor:
    r"""The product of a chain of matrices, of which the first and the last may be vectors."""
def vander(x: _Any, *, N: _Any = None) -> _Tensor:
    r"""The powers 0 to ``N - 1`` of elements, along a new last dimension."""
def vecdot(x: _Any, y: _Any, *, dim: _int = -1) -> _Tensor:
    r"""Sums of products along a dimension of two tensors, which are broadcast."""
def vector_norm(x: _Tensor, ord: _float = 2, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> _Tensor:
    r"""The norm of the elements over dimensions, ``sum(|x|**ord) ** (1 / ord)``."""
