"""Sorting and the largest elements of rows."""

from __future__ import annotations

from typing import Any

from fastgrad import return_types
from fastgrad.functions.arguments import as_flag, as_index, need_tensor
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import wrapped
from fastgrad.native.build.loader import rt
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

_SORTED, _FIRST = return_types.maker(return_types.sort), return_types.maker(return_types.topk)


def _first(name: str, input: Any, dim: Any, k: int | None, largest: int) -> Any:
    sizes = rt.sizes(need_tensor(name, input))
    d = wrapped(name, dim, len(sizes))
    length = sizes[d] if sizes else 1
    count = length if k is None else as_index(name, "k", k)
    if not 0 <= count <= length:
        raise RuntimeError(
            f"{name}(): selected index k out of range: got k={count} for a dimension of size {length}"
        )
    return apply(BY_NAME[name].id, 1, 0, input, d, count, largest)


@public()
@planned
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> return_types.sort:
    """The elements of a dimension in order, and where they stood.

    Parameters
    ----------
    input : Tensor
    dim : int
    descending : bool
        From the largest on. NaN counts as larger than any number.
    stable : bool
        Equal elements keep their order in any case.

    Returns
    -------
    (values, indices)

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.sort(fg.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """
    return _SORTED(_first("sort", input, dim, None, as_flag("sort", "descending", descending)))


@public()
@planned
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The places of the elements of a dimension in order. See `sort`."""
    return sort(need_tensor("argsort", input), dim, descending, stable).indices


@public()
@planned
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> return_types.topk:
    """The `k` largest (or smallest) elements of a dimension in order, and where they stood.

    Parameters
    ----------
    input : Tensor
    k : int
    dim : int
    largest : bool
        Or else the smallest.
    sorted : bool
        They are in order in any case.

    Returns
    -------
    (values, indices)

    Raises
    ------
    RuntimeError
        If there are less than `k` elements.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.topk(fg.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """
    return _FIRST(_first("topk", input, dim, as_index("topk", "k", k), as_flag("topk", "largest", largest)))
