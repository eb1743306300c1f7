"""Indexing: ``x[...]`` for reading, gathering and scattering.

An index is taken apart into views (integers, slices, None, Ellipsis) and at most one group of index tensors, whose
dimensions are brought next to each other, as NumPy and PyTorch define it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fastgrad import dtypes
from fastgrad.errors import renamed
from fastgrad.functions.arguments import (
    LIMIT,
    TOO_LONG,
    as_flag,
    as_index,
    is_number,
    is_tensor,
    need_tensor,
)
from fastgrad.functions.creation import tensor
from fastgrad.functions.data import array_of
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import expand, permute, reshape, wrapped
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import BOOL, INT32, INT64, UINT8
from fastgrad.native.contracts.integers import FROM_FRONT
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import DEVICE_FIELD, apply, invoke
from fastgrad.ops.index import MOST_INDICES

_SELECT, _SLICE, _UNSQUEEZE, _WHERE = (BY_NAME[n].id for n in ("select", "slice", "unsqueeze", "where"))
_INDEX, _GATHER, _INDEX_SELECT, _NONZERO = (
    BY_NAME[n].id for n in ("index", "gather", "index.select", "nonzero")
)
_NDIM, _DTYPE, _NUMEL = (TENSOR.fields[n][0] for n in ("ndim", "dtype", "numel"))
_field, _view_at = rt.field, rt.view_at
_MASKS = (BOOL, UINT8)
_END, _WHOLE, _NO_INDICES = (1 << 63) - 1, slice(None), (slice, type(None), type(...))
_PLAIN = frozenset((int, slice))  # what items of an index are most often; each stands for one dimension


def getitem(x: Any, index: Any) -> Any:
    """``x[index]``: a view for integers and slices, a copy where an index is a tensor, a list or a mask."""
    out = _view_at(x, index)
    if out is NotImplemented:
        return _indexed(x, index)
    return _anew(x, index) if out is x else out


@planned
def _indexed(x: Any, index: Any) -> Any:
    """``x[index]`` where that is more than the views which are compiled."""
    if type(index) is int:
        if _field(x, _NDIM) == 0:
            raise IndexError(
                "index(): invalid index of a 0-dim tensor. Use `tensor.item()` to convert it to a number"
            )
        return apply(_SELECT, 1, 0, x, 0, index)
    if isinstance(index, TensorBase) and _is_simple(x, index):
        return apply(_INDEX, 2, 0, x, index, 0, 0)
    out, advanced = views(x, index)
    if advanced:
        return _take(out, advanced)
    return _anew(x, index) if out is x else out


def _anew(x: Any, index: Any) -> Any:
    """All of a tensor, as a tensor of its own."""
    return _slice(x, 0, index) if type(index) is slice else invoke(BY_NAME["alias"], (x,))


def _is_simple(x: Any, index: Any) -> bool:
    """Whether an index is one tensor that picks along the first dimension, as it is."""
    side_by_side = _field(index, DEVICE_FIELD) == _field(x, DEVICE_FIELD)
    return (
        side_by_side and _field(index, _DTYPE) == INT64 and _field(index, _NDIM) > 0 and _field(x, _NDIM) > 0
    )


def is_mask(index: Any) -> bool:
    """Whether an index is a tensor that says of each place whether it is meant."""
    return is_tensor(index) and _field(index, _DTYPE) in _MASKS


def _is_advanced(item: Any) -> bool:
    if is_tensor(item):
        return item.dim() > 0 or is_mask(item)
    return isinstance(item, (list, tuple, range)) or (isinstance(item, np.ndarray) and item.ndim > 0)


def _is_each(item: Any) -> bool:
    """Whether an index is an integer of `vmap` that is another for each element, so that no view has them all."""
    return isinstance(item, TensorBase) and hasattr(item, "_level")


def items_of(index: Any) -> list[Any]:
    """The indices of dimensions that an index consists of."""
    listed = isinstance(index, list) and any(isinstance(i, _NO_INDICES) for i in index)  # read as the tuple
    return list(index) if listed or isinstance(index, tuple) else [index]


def _items(x: Any, index: Any) -> list[Any]:
    items = items_of(index)
    consumed = 0
    ellipses = 0
    for item in items:
        if type(item) in _PLAIN:
            consumed += 1
        elif item is Ellipsis:
            ellipses += 1
        elif item is not None and not _is_truth(item):
            consumed += _mask_rank(item)
    if ellipses > 1:
        raise IndexError("index(): an index can only have a single ellipsis ('...')")
    ndim = _field(x, _NDIM)
    if consumed > ndim:
        raise IndexError(f"index(): too many indices ({consumed}) for tensor of dimension {ndim}")
    rest = [_WHOLE] * (ndim - consumed)
    for k, item in enumerate(items):
        if item is Ellipsis:
            return items[:k] + rest + items[k + 1 :]
    return items + rest


def _is_truth(item: Any) -> bool:
    """Whether an index says yes or no to a whole new dimension: a bool, or a mask without dimensions."""
    if is_tensor(item):
        return item.dim() == 0 and is_mask(item)
    return isinstance(item, bool) or (
        isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype == np.bool_
    )


def is_list_of_truths(item: Any) -> bool:
    """Whether an index is a mask that is no tensor: an array or lists of bools."""
    array = np.asarray(item) if isinstance(item, list) else item
    return isinstance(array, np.ndarray) and array.dtype == np.bool_


def _mask_rank(item: Any) -> int:
    if is_mask(item):
        return item.dim()
    return np.ndim(item) if is_list_of_truths(item) else 1


def views(x: Any, index: Any) -> tuple[Any, list[tuple[int, Any]]]:
    """Apply what is a view; returns the view and the index tensors with their dimensions."""
    out = x
    advanced: list[tuple[int, Any]] = []
    dim = 0
    source = 0  # the dimension of x that the item stands for
    for item in _items(x, index):
        if item is None:
            out = apply(_UNSQUEEZE, 1, 0, out, dim)
            dim += 1
        elif isinstance(item, slice):
            if item is not _WHOLE and item != _WHOLE:
                out = _slice(out, dim, item)
            dim += 1
            source += 1
        elif type(item) is not int and _is_truth(item):
            out = apply(_UNSQUEEZE, 1, 0, out, dim)
            advanced.append((dim, tensor([0] if item else [], dtype=dtypes.int64)))
            dim += 1
        elif type(item) is not int and (_is_advanced(item) or _is_each(item)):
            for part in _index_tensors(item, rt.sizes(out), dim):
                advanced.append((dim, part))
                dim += 1
                source += 1
        else:
            place = _integer(item)
            size = rt.sizes(out)[dim]
            if not -size <= place < size:
                raise IndexError(
                    f"index(): index {place} is out of bounds for dimension {source} with size {size}"
                )
            out = apply(_SELECT, 1, 0, out, dim, place)
            source += 1
    return out, advanced


def _integer(item: Any) -> int:
    if is_tensor(item):
        if item.dtype.is_floating_point:
            raise IndexError(
                f"index(): tensors used as indices must be long, int, byte or bool tensors, but got {item.dtype.name}"
            )
        return int(item.item())
    if isinstance(item, (str, bytes)):
        raise TypeError(f"index(): invalid data type '{type(item).__name__}'")
    try:
        place = operator.index(item)
    except TypeError:
        raise IndexError(
            "index(): only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
            "indices "
            f"(got {type(item).__name__})"
        ) from None
    if not -LIMIT <= place < LIMIT:
        raise ValueError(f"index(): {TOO_LONG}, the index is {place}")
    return place


def _slice(x: Any, dim: int, item: slice) -> Any:
    start, stop, step = item.start, item.stop, item.step
    step = 1 if step is None else _clamped(step)
    if step <= 0:
        raise ValueError(f"slice(): step must be greater than zero, but got {step}")
    start = 0 if start is None else _clamped(start)
    stop = _END if stop is None else _clamped(stop)
    return apply(_SLICE, 1, 0, x, dim, start, stop, step)


def _clamped(value: Any) -> int:
    if type(value) is int and -_END <= value <= _END:
        return value
    try:
        return max(min(operator.index(value), _END), -_END)
    except TypeError:
        if hasattr(type(value), "__index__"):  # which said what it lacks
            raise
        raise TypeError(
            "slice(): slice indices must be integers or None or have an __index__ method, but got "
            f"{type(value).__name__}"
        ) from None


def _index_tensors(item: Any, shape: tuple[int, ...], dim: int) -> list[Any]:
    """An index as tensors of integers: one, or for a mask one per dimension of the mask."""
    if not is_tensor(item):
        array = np.asarray(item)
        if array.dtype.kind in "OUS":  # ints of more than 64 bits, or what no tensor can be made of
            try:
                array, _ = array_of(item)
            except (TypeError, ValueError, RuntimeError) as error:
                raise renamed(error, "index") from None
        if array.dtype.kind == "u" and array.max(initial=0) >= LIMIT:
            raise ValueError(f"index(): {TOO_LONG}, the index is {array.max()}")
        if array.size == 0 and array.dtype != np.bool_:
            array = array.astype(np.int64)
        if array.dtype.kind not in "bui":
            raise IndexError(
                f"index(): tensors used as indices must be long, int, byte or bool tensors, but got {array.dtype}"
            )
        item = tensor(array if array.dtype == np.bool_ else array.astype(np.int64))
    if is_mask(item):
        for k in range(item.dim()):
            if item.shape[k] != shape[dim + k]:
                raise IndexError(
                    f"index(): The shape of the mask {list(item.shape)} at index {k} does not match the shape "
                    "of the indexed "
                    f"tensor {list(shape)} at index {dim + k}"
                )
        return _columns(item)
    if item.dtype not in (dtypes.int64, dtypes.int32):
        raise IndexError(
            f"index(): tensors used as indices must be long, int, byte or bool tensors, but got {item.dtype.name}"
        )
    return [item]


def _columns(x: Any) -> list[Any]:
    """The places of what is not zero, a vector for each dimension; a number counts as a vector of one element."""
    places = apply(_NONZERO, 1, 0, x, 0)
    return [apply(_SELECT, 1, 0, places, 0, k) for k in range(rt.sizes(places)[0])]


class Indices(NamedTuple):
    """Index tensors of dimensions from `first` on, and the sizes that they have in common."""

    tensors: list[Any]
    shape: tuple[int, ...]
    first: int

    def within(self, x: Any) -> tuple[int, ...]:
        """The sizes of what they take from x."""
        sizes = rt.sizes(x)
        return (*sizes[: self.first], *self.shape, *sizes[self.first + len(self.tensors) :])


class Places(NamedTuple):
    """Where index tensors point to: dimensions from `first` on, one for each of the stacked `indices`."""

    indices: Any  # (n, *shape), or (n, number of elements) if `shape` leaves no dimension to stack along
    shape: tuple[int, ...]
    first: int

    @property
    def flat(self) -> bool:
        """Whether the ops see the indices without their shape."""
        return self.indices.dim() != 1 + len(self.shape)

    def within(self, x: Any, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of x with the sizes `shape` in the place of the indexed dimensions."""
        return (*x.shape[: self.first], *shape, *x.shape[self.first + self.indices.shape[0] :])


def grouped(x: Any, advanced: list[tuple[int, Any]]) -> tuple[Any, Indices]:
    """Bring the indexed dimensions next to each other, and the indices to where x lies."""
    dims = [d for d, _ in advanced]
    shape = rt.sizes(advanced[0][1])
    if any(rt.sizes(i) != shape for _, i in advanced[1:]):
        shape = np.broadcast_shapes(*_same_shapes([i for _, i in advanced]))
    where = rt.field(x, DEVICE_FIELD)
    indices = [i if rt.field(i, DEVICE_FIELD) == where else i.to(device=x.device) for _, i in advanced]
    first = dims[0]
    if dims != list(range(first, first + len(dims))):
        rest = [d for d in range(x.ndim) if d not in dims]
        x = permute(x, (*dims, *rest))
        first = 0
    return x, Indices(indices, shape, first)


def stacked(indices: Indices) -> Places:
    """Indices as one contiguous tensor."""
    tensors = [expand(i.to(dtypes.int64), indices.shape) for i in indices.tensors]
    if len(indices.shape) == MAX_DIMS:
        tensors = [reshape(i, -1) for i in tensors]
    if len(tensors) == 1:
        stacked = invoke(BY_NAME["unsqueeze"], (tensors[0].contiguous(),), 0)
    else:
        stacked = invoke(BY_NAME["stack"], tensors, 0)
    return Places(stacked, indices.shape, indices.first)


def _same_shapes(indices: Sequence[Any]) -> list[tuple[int, ...]]:
    shapes = [tuple(i.shape) for i in indices]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        text = ", ".join(str(list(s)) for s in shapes)
        raise IndexError(
            f"index(): shape mismatch: indexing tensors could not be broadcast together with shapes {text}"
        ) from None
    return shapes


def _take(x: Any, advanced: list[tuple[int, Any]], op: str = "index") -> Any:
    x, indices = grouped(x, advanced)
    if len(indices.tensors) > MOST_INDICES:
        places = stacked(indices)
        out = read(x, places)
        return reshape(out, places.within(x, places.shape)) if places.flat else out
    return apply(BY_NAME[op].id, 1 + len(indices.tensors), 0, x, *indices.tensors, indices.first, 0)


def read(x: Any, places: Places) -> Any:
    """What stands at places."""
    return apply(BY_NAME["index"].id, 2, 0, x, places.indices, places.first, 1)


# --- gather and scatter ----------------------------------------------------------------------------------------


@public()
@planned
def gather(input: Any, dim: int, index: Any) -> Any:
    """``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on for other dimensions.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        int64 or int32, of as many dimensions as `input`; a number counts as a vector of one element.

    Raises
    ------
    RuntimeError
        If the dtype, rank or sizes of the index do not fit or an index is out of range.
    """
    need_tensor("gather", input)
    need_tensor("gather", index, "index", 3)
    ranks = _field(input, _NDIM), _field(index, _NDIM)
    if not _field(index, _NUMEL) and index.dtype is not dtypes.int64:  # then of any dtype and rank
        return gather(reshape(input, -1), 0, reshape(index.long(), -1)).reshape(index.shape)
    if 0 in ranks and max(ranks) == 1:  # a tensor without dimensions counts as a vector
        input = input if ranks[0] else reshape(input, 1)
        index = index if ranks[1] else reshape(index, 1)
        out = apply(_GATHER, 2, 0, input, index, as_index("gather", "dim", dim))
        return out if ranks[1] else reshape(out, ())
    return apply(_GATHER, 2, 0, input, index, as_index("gather", "dim", dim))


@public()
@planned
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of a dimension that a vector of indices names.

    Raises
    ------
    IndexError
        If the index has more than one dimension or a value out of range.
    """
    need_tensor("index_select", input)
    need_tensor("index_select", index, "index", 3)
    if _field(index, _NDIM) > 1:
        raise IndexError(f"index_select(): Index is supposed to be a vector, but got dim: {index.dim()}")
    if _field(index, _DTYPE) not in (INT64, INT32):
        raise RuntimeError(
            f"index_select(): Expected dtype int32 or int64 for index, but got {index.dtype.name}"
        )
    ndim = _field(input, _NDIM)
    d = wrapped("index_select", dim, ndim)
    try:
        out = apply(_INDEX_SELECT, 2, 0, input if ndim else reshape(input, 1), index, d, FROM_FRONT)
    except IndexError as error:
        raise renamed(error, "index_select") from error.__cause__
    return out if ndim else reshape(out, ())


# --- masks -----------------------------------------------------------------------------------------------------


@public()
@planned
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The places of the elements that are not zero, in order.

    Parameters
    ----------
    input : Tensor
    as_tuple : bool
        One vector for each dimension instead of one row for each place.

    Returns
    -------
    Tensor or tuple of Tensor
        Of dtype int64.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nonzero(fg.tensor([0.0, 2.0, 3.0]))
    tensor([[1],
            [2]])
    """
    need_tensor("nonzero", input)
    if as_flag("nonzero", "as_tuple", as_tuple):
        return tuple(_columns(input))
    return apply(_NONZERO, 1, 0, input, 1)


_ABSENT: Any = object()


@public(method=False)
@planned
def where(condition: Any, input: Any = _ABSENT, other: Any = _ABSENT) -> Any:
    """``input`` where the condition holds, else ``other``; without them the places where it holds.

    Parameters
    ----------
    condition : Tensor
        Of dtype bool.
    input, other : Tensor or number

    Returns
    -------
    Tensor or tuple of Tensor
        Without `input` and `other` what ``nonzero(condition, as_tuple=True)`` gives.

    Raises
    ------
    TypeError
        If only one of them is given.
    RuntimeError
        If the condition is not bool or the shapes do not broadcast.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([-1.0, 2.0])
    >>> fg.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if isinstance(condition, TensorBase) and isinstance(input, TensorBase) and isinstance(other, TensorBase):
        return apply(_WHERE, 3, 0, input, other, condition)
    need_tensor("where", condition, "condition")
    if input is _ABSENT and other is _ABSENT:
        return nonzero(condition, as_tuple=True)
    if not (is_number(input) and is_number(other)):
        argument, position, x = ("other", 3, other) if is_number(input) else ("input", 2, input)
        kind = "nothing" if x is _ABSENT else type(x).__name__
        raise TypeError(
            f"where(): argument '{argument}' (position {position}) must be Tensor or Number, not {kind}"
        )
    return invoke(BY_NAME["where"], (input, other, condition))


@public()
@planned
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where a mask holds, as a vector; both are broadcast.

    Raises
    ------
    RuntimeError
        If the mask is not bool or the shapes do not broadcast.
    """
    need_tensor("masked_select", input)
    if need_tensor("masked_select", mask, "mask", 2).dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_select(): expected BoolTensor for mask, but got {mask.dtype.name}")
    try:
        shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape)) or (1,)
    except ValueError:
        raise RuntimeError(
            f"masked_select(): the shapes {list(input.shape)} and {list(mask.shape)} do not broadcast"
        ) from None
    return getitem(expand(input, shape), expand(mask, shape))
