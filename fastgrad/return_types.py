"""What functions with several results return: tuples with names, of a type for each function.

They are tuples in every respect. A type makes one of a sequence of its fields, or of the fields themselves. Results
that were written to ``out`` are of the type whose name ends in ``_out``.

Examples
--------
>>> import fastgrad as fg
>>> found = fg.tensor([3.0, 1.0, 2.0]).max(0)
>>> found
fastgrad.return_types.max(
values=tensor(3.),
indices=tensor(0))
>>> isinstance(found, fg.return_types.max), found == (found.values, found.indices)
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fastgrad import module_names

if TYPE_CHECKING:
    from fastgrad.tensor import Tensor

Returned = TypeVar("Returned", bound=tuple[Any, ...])


def _repr(self: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{module_names.shown}.return_types.{type(self).__name__}(\n{fields})"


def _with_fields(kind: type[Returned]) -> type[Returned]:
    """Let a named tuple be made of a sequence, as programs do that know PyTorch's, and print as those do."""
    of_fields: Callable[..., Any] = kind.__new__
    count = len(kind._fields)  # type: ignore[attr-defined]

    def __new__(cls: Any, *fields: Any, **named: Any) -> Any:  # noqa: N807 - it becomes that of the class
        if len(fields) == 1 and not named:
            fields = tuple(fields[0])
            if len(fields) != count:
                raise TypeError(
                    f"{module_names.shown}.return_types.{cls.__name__}() takes a {count}-sequence "
                    f"({len(fields)}-sequence given)"
                )
        return of_fields(cls, *fields, **named)

    kind.__new__ = staticmethod(__new__)  # type: ignore[method-assign]
    kind.__repr__ = _repr  # type: ignore[assignment, method-assign]
    return kind


def maker(kind: type[Returned]) -> Callable[[Iterable[Any]], Returned]:
    """What makes one of as many results as it has fields: what the class does, too, but slower."""
    return partial(tuple.__new__, kind)  # type: ignore[arg-type]


# --- the names of the fields -----------------------------------------------------------------------------------------


@_with_fields
class _ValuesIndices(NamedTuple):
    """Elements, and where they stand."""

    values: Tensor
    indices: Tensor


@_with_fields
class _Eigenpairs(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@_with_fields
class _QR(NamedTuple):
    """A matrix with orthogonal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


@_with_fields
class _SignAndLogarithm(NamedTuple):
    """Signs of determinants, and logarithms of their absolute values."""

    sign: Tensor
    logabsdet: Tensor


@_with_fields
class _PLU(NamedTuple):
    """A permutation, a lower and an upper triangle."""

    P: Tensor
    L: Tensor
    U: Tensor


@_with_fields
class _LUFactorsEx(NamedTuple):
    """L and U in one matrix, LAPACK's pivots, and the number of the first pivot that is zero, or 0."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


# --- the types -------------------------------------------------------------------------------------------------------


class _lu_with_info(_LUFactorsEx):
    """What `lu` gives with ``get_infos=True``."""

    __slots__ = ()


@_with_fields
class aminmax(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor


class cummax(_ValuesIndices):
    """The largest elements so far, and where they stand."""

    __slots__ = ()


class cummin(_ValuesIndices):
    """The smallest elements so far, and where they stand."""

    __slots__ = ()


@_with_fields
class frexp(NamedTuple):
    """Significands, and exponents of 2."""

    mantissa: Tensor
    exponent: Tensor


@_with_fields
class geqrf(NamedTuple):
    """R, under it the reflectors of which Q is the product, and their factors."""

    a: Tensor
    tau: Tensor


@_with_fields
class histogram(NamedTuple):
    """Counts of intervals, and what they lie between."""

    hist: Tensor
    bin_edges: Tensor


@_with_fields
class histogramdd(NamedTuple):
    """Counts of the cells of a grid, and what these lie between along each dimension."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


class kthvalue(_ValuesIndices):
    """The k-th smallest elements, and where they stand."""

    __slots__ = ()


@_with_fields
class linalg_cholesky_ex(NamedTuple):
    """A triangle, and the order of the first leading minor that is not positive definite, or 0."""

    L: Tensor
    info: Tensor


class linalg_eig(_Eigenpairs):
    """Complex eigenvalues, and eigenvectors of length 1 as columns."""

    __slots__ = ()


class linalg_eigh(_Eigenpairs):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    __slots__ = ()


@_with_fields
class linalg_inv_ex(NamedTuple):
    """Inverse matrices, and what LAPACK says of each."""

    inverse: Tensor
    info: Tensor


@_with_fields
class linalg_ldl_factor(NamedTuple):
    """L and D in one matrix, and LAPACK's pivots."""

    LD: Tensor
    pivots: Tensor


@_with_fields
class linalg_ldl_factor_ex(NamedTuple):
    """L and D in one matrix, pivots, and the number of the first pivot that is zero, or 0."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


@_with_fields
class linalg_lstsq(NamedTuple):
    """Solutions, sums of the squares of what is left, ranks and singular values, as far as the method gives them."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class linalg_lu(_PLU):
    """A permutation, a lower and an upper triangle."""

    __slots__ = ()


@_with_fields
class linalg_lu_factor(NamedTuple):
    """L and U in one matrix, and LAPACK's pivots."""

    LU: Tensor
    pivots: Tensor


class linalg_lu_factor_ex(_LUFactorsEx):
    """L and U in one matrix, pivots, and the number of the first pivot that is zero, or 0."""

    __slots__ = ()


class linalg_qr(_QR):
    """A matrix with orthogonal columns, and an upper triangle."""

    __slots__ = ()


class linalg_slogdet(_SignAndLogarithm):
    """Signs of determinants, and logarithms of their absolute values."""

    __slots__ = ()


@_with_fields
class linalg_solve_ex(NamedTuple):
    """Solutions, and what LAPACK says of each matrix."""

    result: Tensor
    info: Tensor


@_with_fields
class linalg_svd(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class lu_unpack(_PLU):
    """A permutation, a lower and an upper triangle."""

    __slots__ = ()


class max(_ValuesIndices):
    """The largest elements, and where they stand."""

    __slots__ = ()


class median(_ValuesIndices):
    """Medians, and where they stand."""

    __slots__ = ()


class min(_ValuesIndices):
    """The smallest elements, and where they stand."""

    __slots__ = ()


class mode(_ValuesIndices):
    """The most frequent elements, and where they stand."""

    __slots__ = ()


class nanmedian(_ValuesIndices):
    """Medians of what is not NaN, and where they stand."""

    __slots__ = ()


class qr(_QR):
    """A matrix with orthogonal columns, and an upper triangle."""

    __slots__ = ()


class slogdet(_SignAndLogarithm):
    """Signs of determinants, and logarithms of their absolute values."""

    __slots__ = ()


class sort(_ValuesIndices):
    """Elements in order, and where they stood."""

    __slots__ = ()


@_with_fields
class svd(NamedTuple):
    """Left singular vectors, singular values in descending order, right singular vectors; vectors are columns."""

    U: Tensor
    S: Tensor
    V: Tensor


class topk(_ValuesIndices):
    """The largest elements, or the smallest, and where they stand."""

    __slots__ = ()


@_with_fields
class triangular_solve(NamedTuple):
    """A solution, and a copy of the matrix."""

    solution: Tensor
    cloned_coefficient: Tensor


_TYPES = (
    aminmax, cummax, cummin, frexp, geqrf, histogram, histogramdd, kthvalue, linalg_cholesky_ex, linalg_eig,
    linalg_eigh, linalg_inv_ex, linalg_ldl_factor, linalg_ldl_factor_ex, linalg_lstsq, linalg_lu,
    linalg_lu_factor, linalg_lu_factor_ex, linalg_qr, linalg_slogdet, linalg_solve_ex, linalg_svd, lu_unpack,
    max, median, min, mode, nanmedian, qr, slogdet, sort, svd, topk, triangular_solve,
)  # fmt: skip

OUT: dict[type, Any] = {
    kind: type(
        f"{kind.__name__}_out", (kind,), {"__slots__": (), "__doc__": kind.__doc__, "__module__": __name__}
    )
    for kind in _TYPES
    if kind is not histogramdd
}
"""The types of results that were written to ``out``."""

globals().update((kind.__name__, kind) for kind in OUT.values())
__all__ = [kind.__name__ for kind in (*_TYPES, *OUT.values())]
