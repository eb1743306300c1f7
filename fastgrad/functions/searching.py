"""What stands where in an order: `searchsorted`, `unique` and its like, `bincount`, `isin`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fastgrad import dtypes
from fastgrad.dtypes import promote_types
from fastgrad.functions.arguments import as_flag, as_index, is_number, is_tensor, need_tensor
from fastgrad.functions.creation import arange, full, tensor, zeros
from fastgrad.functions.index import nonzero
from fastgrad.functions.placing import index_add
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.reduce import cumsum
from fastgrad.functions.scattering import scatter
from fastgrad.functions.shape import cat, movedim, reshape, wrapped
from fastgrad.functions.sorting import sort
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import BOOL, FLOATS, INEXACT, INT64
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

if TYPE_CHECKING:
    pass

_DTYPE = TENSOR.fields["dtype"][0]
_field = rt.field
_SEARCH = BY_NAME["searchsorted"].id


# --- searching ---------------------------------------------------------------------------------------------------


def _from_right(name: str, right: Any, side: Any) -> int:
    after = as_flag(name, "right", right)
    if side is None:
        return after
    if side not in ("left", "right"):
        raise RuntimeError(f"{name}(): side can only be 'left' or 'right' but got {side}")
    if after and side == "left":
        raise RuntimeError(
            f"{name}(): side and right can't be set to opposites, got side of left while right was True"
        )
    return int(side == "right")


def _values(name: str, boundaries: Any, value: Any) -> Any:
    if is_tensor(value):
        return value
    if not is_number(value):
        raise TypeError(f"{name}(): argument 'input' must be Tensor or Number, not {type(value).__name__}")
    return tensor(value, device=boundaries.device)


def _sought(name: str, boundaries: Any, values: Any, sorter: Any, right: int, as_int32: Any) -> Any:
    if boundaries.dim() == 0:
        raise RuntimeError(f"{name}(): boundaries tensor should have positive dimension, but got 0 dimension")
    if boundaries.dim() > 1 and tuple(boundaries.shape[:-1]) != tuple(values.shape[:-1]):
        raise RuntimeError(
            f"{name}(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but we got boundaries tensor {list(boundaries.shape)} and input value "
            f"tensor {list(values.shape)}"
        )
    if values.dim() == 0 and boundaries.dim() > 1:
        raise RuntimeError(
            f"{name}(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries "
            f"tensor dim({boundaries.dim()})"
        )
    if sorter is not None:
        need_tensor(name, sorter, "sorter", 3)
        if tuple(sorter.shape) != tuple(boundaries.shape) or _field(sorter, _DTYPE) != INT64:
            raise RuntimeError(
                f"{name}(): sorter must be of the sizes of the boundary tensor and of dtype long, but got "
                f"{list(sorter.shape)} and {sorter.dtype.name}"
            )
    common = promote_types(boundaries.dtype, values.dtype)
    values, boundaries = values.to(common), boundaries.to(common)
    length = boundaries.shape[-1]
    rows = math.prod(boundaries.shape[:-1])
    if values.numel() == 0 or length == 0:
        out = zeros(tuple(values.shape), dtype=dtypes.int64, device=values.device)
    else:
        per_row = values.numel() // rows
        out = apply(_SEARCH, 3, 0, values, boundaries, sorter, rows, length, per_row, right, -1)
    return out.to(dtypes.int32) if as_flag(name, "out_int32", as_int32) else out


@public(method=False)
@planned
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Where values would have to stand in rows that are in order.

    Parameters
    ----------
    sorted_sequence : Tensor
        In order along the last dimension.
    input : Tensor or number
        Of the same first dimensions, or any if there is one row only.
    out_int32 : bool
        Give int32 instead of int64.
    right : bool
        Behind equal elements instead of before them.
    side : "left" or "right", optional
        The same in words.
    sorter : Tensor, optional
        int64: in which order the elements would be in order, as `argsort` gives it.

    Returns
    -------
    Tensor
        Of the sizes of `input`.

    Raises
    ------
    RuntimeError
        If sizes do not fit or `side` and `right` contradict each other.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.searchsorted(fg.tensor([1.0, 3.0, 5.0]), fg.tensor([3.0, 6.0]))
    tensor([1, 3])
    """
    need_tensor("searchsorted", sorted_sequence, "sorted_sequence")
    values = _values("searchsorted", sorted_sequence, input)
    after = _from_right("searchsorted", right, side)
    return _sought("searchsorted", sorted_sequence, values, sorter, after, out_int32)


@public(method=False)
@planned
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the interval between boundaries, which are in order, that each value lies in.

    Parameters
    ----------
    input : Tensor or number
    boundaries : Tensor
        A vector.
    out_int32 : bool
        Give int32 instead of int64.
    right : bool
        A boundary belongs to the interval behind it.

    Returns
    -------
    Tensor
        Of the sizes of `input`.

    Raises
    ------
    RuntimeError
        If the boundaries are no vector.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.bucketize(fg.tensor([0.0, 2.0, 9.0]), fg.tensor([1.0, 3.0]))
    tensor([0, 1, 2])
    """
    need_tensor("bucketize", boundaries, "boundaries", 2)
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    values = _values("bucketize", boundaries, input)
    return _sought("bucketize", boundaries, values, None, as_flag("bucketize", "right", right), out_int32)


@public(method=False)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element is one of others.

    Parameters
    ----------
    elements, test_elements : Tensor or number
        At least one is a tensor.
    assume_unique : bool
        Changes nothing.
    invert : bool
        Whether it is none of them.

    Returns
    -------
    Tensor
        Of dtype bool.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.isin(fg.tensor([1, 2, 3]), fg.tensor([3, 1]))
    tensor([ True, False,  True])
    """
    as_flag("isin", "assume_unique", assume_unique)
    against = as_flag("isin", "invert", invert)
    if not is_tensor(elements):
        need_tensor("isin", test_elements, "test_elements", 2)
        elements = tensor(elements, device=test_elements.device)
    if not is_tensor(test_elements):
        test_elements = tensor(test_elements, device=elements.device)
    common = promote_types(elements.dtype, test_elements.dtype)
    x, others = elements.detach().to(common), reshape(test_elements.detach().to(common), -1)
    if others.numel() == 0:
        return full(tuple(x.shape), bool(against), device=x.device)
    ordered = sort(others).values
    places = searchsorted(ordered, x).clamp(max=others.numel() - 1)
    found = ordered[places] == x
    return ~found if against else found


# --- distinct elements -------------------------------------------------------------------------------------------


def _runs(starts: Any) -> Any:
    """The places where runs begin, by the marks of their beginnings."""
    return nonzero(starts, as_tuple=True)[0]


def _first_of_runs(rows: Any) -> Any:
    """Of rows of a matrix, whether each differs from the one before."""
    n = rows.shape[0]
    starts = full((n,), True, device=rows.device)
    if n > 1:
        starts[1:] = (rows[1:] != rows[:-1]).any(1)
    return starts


def _lengths(first: Any, n: int) -> Any:
    """How long runs of n elements together are, by where they begin."""
    ends = cat([first[1:], full((min(1, n),), n, dtype=first.dtype, device=first.device)])
    return ends - first


def _answer(found: Any, *more: Any) -> Any:
    """What was found, and what of the rest is there."""
    out = (found, *(x for x in more if x is not None))
    return out if len(out) > 1 else found


def _rows(name: str, x: Any, dim: int) -> tuple[Any, Any]:
    """The slices of a dimension as rows of a matrix, each in the order of the other dimensions."""
    if 0 in (size for k, size in enumerate(x.shape) if k != dim):
        raise RuntimeError(
            f"{name}(): slices of dimension {dim} of a tensor of shape {tuple(x.shape)} have no elements: there are "
            "dimensions of size 0 besides"
        )
    moved = movedim(x, dim, 0)
    return reshape(moved, moved.shape[0], math.prod(moved.shape[1:])), moved


def _ordered_rows(rows: Any) -> Any:
    """The order of rows of a matrix by their first elements, then by the second ones, and so on."""
    order = arange(rows.shape[0], device=rows.device)
    for k in range(rows.shape[1] - 1, -1, -1):
        order = order[sort(rows[:, k][order], stable=True).indices]
    return order


@public()
def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
) -> Any:
    """The distinct elements in order, or the distinct slices along a dimension.

    Parameters
    ----------
    input : Tensor
    sorted : bool
        They are in order in any case.
    return_inverse : bool
        Also for each element where it stands among the distinct ones.
    return_counts : bool
        Also how often each is there.
    dim : int, optional

    Returns
    -------
    Tensor or tuple of Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.unique(fg.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    name = "unique"
    x = need_tensor(name, input).detach()
    as_flag(name, "sorted", sorted)
    wants_inverse = as_flag(name, "return_inverse", return_inverse)
    wants_counts = as_flag(name, "return_counts", return_counts)
    if dim is None:
        rows, shape = reshape(x, x.numel(), 1), tuple(x.shape)
        ordered, order = sort(reshape(x, x.numel()), stable=True)
        starts = _first_of_runs(reshape(ordered, ordered.numel(), 1))
        first = _runs(starts)
        found = ordered[first]
    else:
        d = wrapped(name, dim, x.dim())
        rows, moved = _rows(name, x, d)
        shape = (rows.shape[0],)
        order = _ordered_rows(rows)
        starts = _first_of_runs(rows[order])
        first = _runs(starts)
        found = movedim(moved[order[first]], 0, d)
    inverse = None
    if wants_inverse:
        places = full((rows.shape[0],), 0, dtype=dtypes.int64, device=x.device)
        inverse = reshape(scatter(places, 0, order, cumsum(starts, 0) - 1), shape)
    return _answer(found, inverse, _lengths(first, rows.shape[0]) if wants_counts else None)


@public()
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """The elements, or the slices along a dimension, that differ from the one before.

    Parameters
    ----------
    input : Tensor
    return_inverse : bool
        Also for each element where it stands among these.
    return_counts : bool
        Also how often each is there in a row.
    dim : int, optional

    Returns
    -------
    Tensor or tuple of Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.unique_consecutive(fg.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    name = "unique_consecutive"
    x = need_tensor(name, input).detach()
    wants_inverse = as_flag(name, "return_inverse", return_inverse)
    wants_counts = as_flag(name, "return_counts", return_counts)
    if dim is None:
        moved, shape, d = reshape(x, x.numel()), tuple(x.shape), 0
        rows = reshape(moved, x.numel(), 1)
    else:
        d = wrapped(name, dim, x.dim())
        rows, moved = _rows(name, x, d)
        shape = (rows.shape[0],)
    starts = _first_of_runs(rows)
    first = _runs(starts)
    found = movedim(moved[first], 0, d) if d else moved[first]
    inverse = reshape(cumsum(starts, 0) - 1, shape) if wants_inverse else None
    return _answer(found, inverse, _lengths(first, rows.shape[0]) if wants_counts else None)


# --- counting ----------------------------------------------------------------------------------------------------


@public()
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each non-negative integer stands in a vector.

    Parameters
    ----------
    input : Tensor
        A vector of integers.
    weights : Tensor, optional
        As long: what each counts.
    minlength : int
        The least number of counts.

    Returns
    -------
    Tensor
        int64; with weights of their dtype, which is float64 for integers.

    Raises
    ------
    RuntimeError
        If the input is no vector of non-negative integers or the weights do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.bincount(fg.tensor([1, 1, 3]))
    tensor([0, 2, 0, 1])
    """
    need_tensor("bincount", input)
    least = as_index("bincount", "minlength", minlength)
    if _field(input, _DTYPE) in INEXACT or _field(input, _DTYPE) == BOOL:
        raise NotImplementedError(f"bincount(): not implemented for '{input.dtype.type_name}'")
    if input.dim() != 1 or (input.numel() and int(input.min()) < 0):
        raise RuntimeError("bincount(): only supports 1-d non-negative integral inputs.")
    if least < 0:
        raise RuntimeError("bincount(): minlength should be >= 0")
    if weights is not None and tuple(need_tensor("bincount", weights, "weights", 2).shape) != tuple(
        input.shape
    ):
        raise RuntimeError("bincount(): weights should be 1-d and have the same length as input")
    size = max(least, int(input.max()) + 1 if input.numel() else 0)
    if weights is None:
        weights = full((), 1, dtype=dtypes.int64, device=input.device).expand(input.numel())
    elif _field(weights, _DTYPE) not in FLOATS:
        weights = weights.to(dtypes.float64)
    start = zeros(size, dtype=weights.dtype, device=input.device)
    return index_add(start, 0, input.to(dtypes.int64), weights.detach())
