"""Linear algebra under PyTorch's names: products of vectors and matrices, norms of vectors.

Examples
--------
>>> import fastgrad as fg
>>> fg.linalg.vector_norm(fg.tensor([3.0, 4.0]))
tensor(5.)
"""

from typing import Any

from fastgrad.functions.arguments import as_index, need_tensor, need_tensors
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.linalg import matmul
from fastgrad.functions.plans import planned
from fastgrad.functions.products import cross_product, matrix_power, multiplied_chain
from fastgrad.functions.products import powers as _powers
from fastgrad.functions.shape import diagonal as _diagonal
from fastgrad.functions.statistics import vector_norm
from fastgrad.module_names import getattr_of as _getattr_of


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


@planned
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Sums of products along a dimension of two tensors, which are broadcast."""
    need_tensor("linalg.vecdot", x, "x")
    return (x * need_tensor("linalg.vecdot", y, "y", 2)).sum(as_index("linalg.vecdot", "dim", dim))


@planned
def vander(x: Any, *, N: Any = None) -> Any:  # noqa: N803 - PyTorch's name
    """The powers 0 to ``N - 1`` of elements, along a new last dimension."""
    last = x.shape[-1] if need_tensor("linalg.vander", x, "x").dim() else 1
    return _powers("linalg.vander", x, last if N is None else as_index("linalg.vander", "N", N))


__all__ = ["cross", "diagonal", "matmul", "matrix_power", "multi_dot", "vander", "vecdot", "vector_norm"]

__getattr__ = _getattr_of(__name__)
