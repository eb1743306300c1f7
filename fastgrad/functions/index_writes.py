"""Writing at indices: ``x[...] = value``."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.autograd.modes import no_grad
from fastgrad.errors import raise_status, renamed
from fastgrad.functions.arguments import is_tensor
from fastgrad.functions.creation import full, tensor, zeros
from fastgrad.functions.elementwise import inplace, number_for, write
from fastgrad.functions.index import (
    Indices,
    Places,
    grouped,
    is_list_of_truths,
    is_mask,
    items_of,
    read,
    stacked,
    views,
    where,
)
from fastgrad.functions.plans import planned, unplanned
from fastgrad.functions.shape import expand, reshape
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import BOOL
from fastgrad.native.contracts.integers import STACKED
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.contracts.status import PARTIAL_OVERLAP
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import DEVICE_FIELD, apply, invoke, is_recorded
from fastgrad.ops.index import MOST_INDICES

_FILL = BY_NAME["masked_fill.copy_number"]
_DTYPE = TENSOR.fields["dtype"][0]
_PUT_INTO = BY_NAME["index_put_"].id
_field = rt.field


@planned
def setitem(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value``, in place; the value is broadcast and cast."""
    if not is_tensor(value) and not isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
        raise TypeError(
            f"setitem(): can't assign a {type(value).__name__} to a fastgrad.{x.dtype.type_name}Tensor; make "
            "it a tensor first"
        )
    if _is_mask_of(x, index) and not is_tensor(value) and not is_recorded(x):
        write("setitem", _FILL, x, number_for("setitem", value, x), index)
        return
    if index is False:
        return
    target, advanced = views(x, ... if index is True else index)
    try:
        if advanced:
            _put(x, target, advanced, _beside_masks(target, index, value))
        elif is_tensor(value):
            target.copy_(leading_ones_dropped(value, target.dim()))
        else:
            inplace(BY_NAME["assign.fill"], target, number_for("setitem", value, target))
    except (RuntimeError, IndexError) as error:
        raise renamed(error, "setitem") from error.__cause__


def _is_mask_of(x: Any, index: Any) -> bool:
    """Whether an index is one mask that says of each element of a tensor whether it is meant, and lies beside it."""
    if not isinstance(index, TensorBase) or _field(index, _DTYPE) != BOOL:
        return False
    return _field(index, DEVICE_FIELD) == _field(x, DEVICE_FIELD) and rt.sizes(index) == rt.sizes(x)


def leading_ones_dropped(value: Any, ndim: int) -> Any:
    """A value without dimensions of size 1 before its last `ndim`."""
    while value.dim() > ndim and value.shape[0] == 1:
        value = value[0]
    return value


def need_apart(name: str, x: Any, *others: Any) -> None:
    """What is written shares no memory with what is read. Ops that write at indices see to that themselves."""
    unplanned()  # whose memory overlaps whose is another matter at each call
    for other in others:
        if _field(other, DEVICE_FIELD) == _field(x, DEVICE_FIELD) and rt.overlap(x, other):
            raise_status(PARTIAL_OVERLAP, name)


def _beside_masks(target: Any, index: Any, value: Any) -> Any:
    """The value, where a mask says what is written: masks share no memory with that; one value behind one mask may."""
    items = [item for item in items_of(index) if is_tensor(item) or isinstance(item, (list, np.ndarray))]
    masks = [item for item in items if is_mask(item) or is_list_of_truths(item)]
    if masks:
        unplanned()  # how many places there are says what is in them
        need_apart("index_put_", target, *filter(is_tensor, masks))
        if is_tensor(value) and len(items) == 1 and value.numel() == 1:
            return value.to(target.dtype, copy=True)  # what fills is converted, as in PyTorch
    return value


def _put(base: Any, target: Any, advanced: list[tuple[int, Any]], value: Any) -> None:
    view, indices = grouped(target, advanced)
    if not is_tensor(value):
        value = full((), value, dtype=base.dtype, device=base.device)
    need_one_dtype("index_put_", base, value)
    if is_recorded(base, value):
        need_apart("index_put_", view, value, *indices.tensors)
        places = stacked(indices)
        _put_recorded(base, view, places, spread("index_put_", view, places, value))
    else:
        write_at(view, value, 0, indices)


def need_one_dtype(name: str, x: Any, value: Any) -> None:
    """What is written at index tensors has the dtype of what it is written to."""
    if value.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}(): Index put requires the source and destination dtypes match, got {x.dtype.type_name} for the "
            f"destination and {value.dtype.type_name} for the source."
        )


def _fitting(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """A value that can be broadcast to a shape, without dimensions in front; raises for `name` if it does not fit."""
    fitting = leading_ones_dropped(value, len(shape))
    sizes = rt.sizes(fitting)
    if len(sizes) > len(shape) or any(
        n not in (1, m) for n, m in zip(reversed(sizes), reversed(shape), strict=False)
    ):
        raise RuntimeError(
            f"{name}(): shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing "
            f"result of shape {list(shape)}"
        )
    return fitting


def spread(name: str, view: Any, places: Places, value: Any) -> Any:
    """A value for each of the places, for `name`; raises if it does not fit."""
    shape = places.within(view, places.shape)
    value = expand(_fitting(name, value, shape), shape)
    return reshape(value, places.within(view, places.indices.shape[1:])) if places.flat else value


def write_at(view: Any, value: Any, adds: int, indices: Indices) -> None:
    """Write a value of its dtype to a tensor at index tensors, or add it, where nothing is recorded."""
    n, shape = len(indices.tensors), indices.within(view)
    if n > MOST_INDICES or len(shape) > MAX_DIMS:
        places = stacked(indices)
        _write(view, places, spread("index_put_", view, places, value), adds)
        return
    value = _fitting("index_put_", value, shape)
    apply(_PUT_INTO, 2 + n, -1, view, value, *indices.tensors, indices.first, 0, adds)


def _write(view: Any, places: Places, value: Any, adds: int = 0) -> None:
    apply(_PUT_INTO, 3, -1, view, value, places.indices, places.first, STACKED, adds)


def _put_recorded(base: Any, view: Any, places: Places, value: Any) -> None:
    """A write that autograd sees: the old value without the places, plus the value at them."""
    device, sizes = view.device, tuple(view.shape)
    with no_grad():
        keep = full(sizes, True, device=device)
        _write(keep, places, full((), False, device=device).expand(tuple(value.shape)))
        # Of places that are written twice only the last write counts, forward and backward.
        winner = zeros(sizes, dtype=dtypes.int64, device=device)
        order = tensor(np.arange(1, value.numel() + 1), device=device).reshape(tuple(value.shape))
        _write(winner, places, order)
        counts = read(winner, places) == order
    written, target = where(counts, value, 0), (view.dim(), *sizes)
    spread = invoke(BY_NAME["index_backward"], (written, places.indices), places.first, 1, target)
    fresh = where(keep, view, spread)  # what is overwritten may be infinite, and so may what is not written
    view.copy_(fresh)
