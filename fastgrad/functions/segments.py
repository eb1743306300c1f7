"""Reductions of segments: pieces of a dimension, given by their lengths or by where they begin and end."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.arguments import as_flag, as_float, need_optional, need_tensor, need_type
from fastgrad.functions.creation import arange, full
from fastgrad.functions.index import where
from fastgrad.functions.public import public
from fastgrad.functions.reduce import cumsum
from fastgrad.functions.searching import searchsorted
from fastgrad.functions.shape import expand, narrow, reshape, wrapped
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import FLOATS, INT32, INT64
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply
from fastgrad.ops.scatter import WITH_BASE

_DTYPE = TENSOR.fields["dtype"][0]
_field = rt.field
_NAME = "segment_reduce"
_INF = float("inf")
_MAX, _MIN = (BY_NAME[f"segment_reduce.{how}"].id for how in ("max", "min"))
_SUM, _PROD = BY_NAME["segment_reduce"].id, BY_NAME["segment_reduce.prod"].id
_REDUCTIONS = {
    "sum": (_SUM, 0.0),
    "mean": (_SUM, 0.0),
    "prod": (_PROD, 1.0),
    "max": (_MAX, -_INF),
    "amax": (_MAX, -_INF),
    "min": (_MIN, _INF),
    "amin": (_MIN, _INF),
}
"""The op of each, and what a segment begins with."""


def _first(initial: Any, otherwise: float) -> float:
    if initial is None:
        return otherwise
    if isinstance(initial, complex):
        raise RuntimeError(f"{_NAME}(): argument 'initial' must be a real number, not {initial}")
    try:
        return as_float(_NAME, "initial", initial)
    except TypeError:
        raise TypeError(
            f"{_NAME}(): argument 'initial' must be Number, not {type(initial).__name__}"
        ) from None


def _need_limits(data: Any, limits: Any, axis: int, argument: str) -> None:
    """That lengths or offsets are integers in rows, one for each place in the dimensions before the axis."""
    if _field(limits, _DTYPE) not in (INT32, INT64):
        raise NotImplementedError(
            f"{_NAME}(): '{argument}' must be int64 or int32, not '{limits.dtype.type_name}'"
        )
    if limits.dim() != axis + 1:
        raise RuntimeError(
            f"{_NAME}(): expected axis to be the last dimension of {argument}, but got axis {axis} and "
            f"{argument} of {limits.dim()} dimensions"
        )
    if tuple(limits.shape[:axis]) != tuple(data.shape[:axis]):
        raise RuntimeError(
            f"{_NAME}(): {argument} of shape {tuple(limits.shape)} must have the sizes of data "
            f"{tuple(data.shape)} before axis {axis}"
        )
    if limits.device != data.device:
        raise RuntimeError(f"{_NAME}(): {argument} is on {limits.device}, and data on {data.device}")


def _need_lengths(lengths: Any, size: int) -> None:
    if not lengths.numel():
        raise RuntimeError(f"{_NAME}(): there must be at least one length")
    if int(lengths.min()) < 0:
        raise RuntimeError(f"{_NAME}(): lengths contains negative value!")
    if not bool((lengths.sum(-1) == size).all()):
        raise RuntimeError(
            f"{_NAME}(): expected all rows of lengths along axis to sum to the {size} elements of data there, as "
            "unsafe is not given"
        )


def _segments(data: Any, axis: int, lengths: Any, offsets: Any, unsafe: bool) -> tuple[Any, Any]:
    """The lengths of segments, and for each place of the axis its segment: one more than there are for none."""
    size = data.shape[axis]
    places = expand(arange(size, device=data.device), (*data.shape[:axis], size))
    if lengths is not None:
        _need_limits(data, lengths, axis, "lengths")
        if not unsafe:
            _need_lengths(lengths, size)
        elif lengths.device.type == "cpu" and bool((lengths < 0).any()):
            raise RuntimeError(f"{_NAME}(): lengths contains negative value!")
        ends = cumsum(lengths, -1)
        return lengths, _before(ends, places)
    _need_limits(data, offsets, axis, "offsets")
    count = offsets.shape[-1] - 1
    if count < 0:
        raise RuntimeError(
            f"{_NAME}(): offsets must hold one more number than there are segments, but are empty"
        )
    spans = narrow(offsets, -1, 1, count) - narrow(offsets, -1, 0, count)
    if offsets.device.type == "cpu" or not unsafe:
        within = bool(((offsets >= 0) & (offsets <= size)).all())
        if not within or bool((spans < 0).any()):
            raise RuntimeError(f"{_NAME}(): offsets must ascend from 0 or more to {size} or less")
    found = _before(offsets.to(places.dtype), places) - 1
    return spans, where(found < 0, count, found)


def _before(ends: Any, places: Any) -> Any:
    """How many of the ends are no larger than each place."""
    return searchsorted(ends.contiguous(), places.contiguous(), right=True)


@public(method=False)
def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """Reduce pieces of a dimension to one element each.

    Parameters
    ----------
    data : Tensor
        Of a floating dtype.
    reduce : "sum", "mean", "max", "min" or "prod"
    lengths : Tensor, optional
        int64 or int32, with the sizes of `data` before the axis, then a length for each segment.
    indices : None
        Nothing else is possible, as in PyTorch.
    offsets : Tensor, optional
        In the place of `lengths`: where each segment begins, and where the last one ends.
    axis : int
        The dimension: the last one of `lengths` or `offsets`.
    unsafe : bool
        Do not look whether the lengths add up to the size of the dimension. Elements in no segment do not count.
    initial : number, optional
        What each segment begins with. Without it, the maximum of an empty segment is minus infinity, and its mean NaN.

    Returns
    -------
    Tensor
        With as many elements along the axis as there are segments. Gradients of maxima and minima go in equal parts to
        all elements that are the result.

    Raises
    ------
    RuntimeError
        If neither lengths nor offsets are given, or their sizes or values do not fit.
    NotImplementedError
        If the data are no floats, or lengths and offsets no int64 or int32.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.segment_reduce(fg.tensor([1.0, 2.0, 3.0]), "sum", lengths=fg.tensor([2, 0, 1]))
    tensor([3., 0., 3.])
    """
    need_tensor(_NAME, data, "data")
    need_type(_NAME, reduce, str, "reduce", 2)
    for argument, given in (("lengths", lengths), ("indices", indices), ("offsets", offsets)):
        need_optional(_NAME, given, argument, 3)
    skips = bool(as_flag(_NAME, "unsafe", unsafe))
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"{_NAME}(): reduce must be one of sum, mean, max, min and prod, but got {reduce!r}"
        )
    op, otherwise = _REDUCTIONS[reduce]
    first = _first(initial, otherwise)
    d = wrapped(_NAME, axis, data.dim())
    if indices is not None:
        raise RuntimeError(
            f"{_NAME}(): indices based reduction is not supported yet; pass lengths or offsets"
        )
    if lengths is None and offsets is None:
        raise RuntimeError(f"{_NAME}(): either lengths or offsets must be given")
    if _field(data, _DTYPE) not in FLOATS:
        raise NotImplementedError(f"{_NAME}(): not implemented for '{data.dtype.type_name}'")
    if not data.dim():
        raise RuntimeError(f"{_NAME}(): data must have at least one dimension")
    spans, places = _segments(data, d, lengths, offsets, skips)
    count, behind = spans.shape[-1], data.dim() - d - 1
    start = full(
        (*data.shape[:d], count + 1, *data.shape[d + 1 :]), first, dtype=data.dtype, device=data.device
    )
    index = expand(reshape(places, (*places.shape, *(1,) * behind)), tuple(data.shape))
    out = narrow(apply(op, 3, 0, start, data, index, d, WITH_BASE), d, 0, count)
    if reduce != "mean":
        return out
    divisors = spans if initial is None else spans.clamp(min=1)
    return out / reshape(divisors, (*spans.shape, *(1,) * behind)).to(data.dtype)
