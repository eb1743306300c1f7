"""Reading at indices, as functions: `take`, `take_along_dim`; what a mask says: `masked_scatter`, `argwhere`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.errors import renamed
from fastgrad.functions.arguments import as_index, need_tensor
from fastgrad.functions.creation import full
from fastgrad.functions.elementwise import inplace as write_over
from fastgrad.functions.index import gather, nonzero, where
from fastgrad.functions.index_writes import need_apart
from fastgrad.functions.placing import need_index
from fastgrad.functions.plans import planned, unplanned
from fastgrad.functions.public import public
from fastgrad.functions.reduce import cumsum
from fastgrad.functions.shape import expand, reshape, wrapped
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import BOOL, INT64
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

_DTYPE = TENSOR.fields["dtype"][0]
_field = rt.field


@public()
@planned
def take(input: Any, index: Any) -> Any:
    """The elements to which indices into all of them, row by row, point.

    Parameters
    ----------
    input : Tensor
    index : Tensor
        int64; negative ones count from the end.

    Returns
    -------
    Tensor
        Of the sizes of the index.

    Raises
    ------
    IndexError
        If an index is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.take(fg.tensor([[1.0, 2.0], [3.0, 4.0]]), fg.tensor([3, 0]))
    tensor([4., 1.])
    """
    need_tensor("take", input)
    need_index("take", index)
    if input.numel() == 0 and index.numel() != 0:
        raise IndexError("take(): tried to take from an empty tensor")
    try:
        out = apply(BY_NAME["index"].id, 2, 0, reshape(input, -1), reshape(index, -1), 0, 0)
    except (RuntimeError, IndexError) as error:
        raise renamed(error, "take") from error.__cause__
    return reshape(out, tuple(index.shape))


@public()
@planned
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """The elements along a dimension to which indices point, as `argsort` and `argmax` give them.

    Parameters
    ----------
    input : Tensor
    indices : Tensor
        int64; broadcast with `input` but for the dimension.
    dim : int, optional
        Without it both are taken as vectors.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If an index is out of range, or numbers of dimensions differ.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([[3.0, 1.0, 2.0]])
    >>> fg.take_along_dim(x, fg.argsort(x, 1), 1)
    tensor([[1., 2., 3.]])
    """
    need_tensor("take_along_dim", input)
    need_tensor("take_along_dim", indices, "indices", 2)
    if _field(indices, _DTYPE) != INT64:
        raise RuntimeError(
            f"take_along_dim(): dtype of indices should be Long but got {indices.dtype.type_name}"
        )
    if dim is None:
        return gather(reshape(input, -1), 0, reshape(indices, -1))
    if input.dim() != indices.dim():
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.dim()} dimensions for input, and {indices.dim()} dimensions for indices"
        )
    d = wrapped("take_along_dim", dim, input.dim())
    ours, theirs = list(input.shape), list(indices.shape)
    common = [b if a == 1 else a for a, b in zip(ours, theirs, strict=True)]
    for sizes in (ours, theirs) if ours else ():
        for k, size in enumerate(common):
            sizes[k] = sizes[k] if k == d else size
    length = ours[d] if ours else 1
    places = where(indices < 0, indices + length, indices)
    return gather(expand(input, ours), d, expand(places, theirs))


# --- masks -------------------------------------------------------------------------------------------------------


def _masked(name: str, input: Any, mask: Any, source: Any, sizes: Callable[..., Any]) -> Any:
    need_tensor(name, input)
    need_tensor(name, mask, "mask", 2)
    need_tensor(name, source, "source", 3)
    if _field(mask, _DTYPE) != BOOL:
        raise RuntimeError(
            f"{name}(): only supports boolean masks, but got mask with dtype {mask.dtype.name}"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): expected self and source to have same dtypes but got {input.dtype.type_name} and "
            f"{source.dtype.type_name}"
        )
    shape = sizes(tuple(input.shape), tuple(mask.shape))
    x, mask = expand(input, shape), expand(mask, shape)
    counts = cumsum(reshape(mask, -1), 0)
    total = int(counts[-1]) if counts.numel() else 0  # what is not there cannot be read
    if total > source.numel():
        raise RuntimeError(
            f"{name}(): Number of elements of source ({source.numel()}) < number of ones in mask ({total})"
        )
    if source.numel() == 0:
        return x.clone()
    unplanned()
    spread = take(source, (counts - 1).clamp(min=0))
    return where(mask, reshape(spread, shape), x)


@public()
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """A copy of `input` with the elements where a mask holds replaced by those of `source`, in their order.

    Parameters
    ----------
    input : Tensor
    mask : Tensor
        Of dtype bool; broadcast with `input`.
    source : Tensor
        Of the dtype of `input`; at least as many elements as the mask holds.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If dtypes or sizes do not fit, or there are too few elements.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.masked_scatter(fg.zeros(4), fg.tensor([True, False, True, False]), fg.tensor([1.0, 2.0]))
    tensor([1., 0., 2., 0.])
    """
    return _masked("masked_scatter", input, mask, source, _broadcast)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    ours, theirs = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(ours, theirs, strict=True)):
        raise RuntimeError(f"masked_scatter(): the shapes {list(a)} and {list(b)} do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(ours, theirs, strict=True))


@public(package=False)
def masked_scatter_(input: Any, mask: Any, source: Any) -> Any:
    """`masked_scatter` in place."""
    need_apart(
        "masked_scatter_",
        need_tensor("masked_scatter_", input),
        need_tensor("masked_scatter_", mask, "mask", 2),
    )
    out = _masked("masked_scatter_", input, mask, source, lambda ours, theirs: ours)
    return write_over(BY_NAME["assign"], input, out)


@public()
def argwhere(input: Any) -> Any:
    """The places of the elements that are not zero, a row for each. See `nonzero`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.argwhere(fg.tensor([0.0, 2.0]))
    tensor([[1]])
    """
    return nonzero(need_tensor("argwhere", input))


@public()
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first `size` places of elements that are not zero, and rows of `fill_value` where there are fewer.

    Parameters
    ----------
    input : Tensor
    size : int
    fill_value : int

    Returns
    -------
    Tensor
        Of dtype int64 and `size` rows.

    Raises
    ------
    RuntimeError
        If `size` is negative.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nonzero_static(fg.tensor([0, 5]), size=2)
    tensor([[ 1],
            [-1]])
    """
    found = nonzero(need_tensor("nonzero_static", input))
    count = as_index("nonzero_static", "size", size)
    if count < 0:
        raise RuntimeError("nonzero_static(): 'size' must be an non-negative integer")
    filling = as_index("nonzero_static", "fill_value", fill_value)
    out = full((count, input.dim()), filling, dtype=found.dtype, device=found.device)
    rows = min(count, found.shape[0])
    out[:rows] = found[:rows]
    return out


@public(method=False)
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The indices in each dimension of elements that are counted row by row.

    Parameters
    ----------
    indices : Tensor
        Of integers; they wrap around at the number of elements of the shape.
    shape : int or sequence of int

    Returns
    -------
    tuple of Tensor
        One for each dimension, of the shape of `indices`.

    Raises
    ------
    TypeError
        If `indices` is no tensor of integers, or `shape` no sequence of them.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.unravel_index(fg.tensor([4, 1]), (2, 3))
    (tensor([1, 0]), tensor([1, 1]))
    """
    kind = need_tensor("unravel_index", indices, "indices").dtype
    if kind.is_floating_point or kind.is_complex or kind is dtypes.bool_:
        raise TypeError(f"unravel_index(): expected 'indices' to be integer dtype, but got {kind}")
    if isinstance(shape, int) and not isinstance(shape, bool):
        shape = (shape,)
    if not isinstance(shape, (tuple, list)):
        what = type(shape).__name__
        raise TypeError(f"unravel_index(): expected 'shape' to be int or sequence of ints, but got {what}")
    sizes = [as_index("unravel_index", "shape", size) for size in shape]
    if any(size < 0 for size in sizes):
        raise ValueError(f"unravel_index(): 'shape' cannot have negative values, but got {tuple(sizes)}")
    found, left = [], indices
    for size in reversed(sizes):
        if size == 0 and indices.numel() != 0:
            raise ValueError(f"unravel_index(): there are no elements in the shape {tuple(sizes)}")
        found.append(left % max(size, 1))
        left = left // max(size, 1)
    return tuple(reversed(found))
