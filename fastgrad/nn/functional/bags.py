"""Sums, means and maxima of bags of rows of a table."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_flag, need_tensor
from fastgrad.functions.creation import arange, tensor, zeros
from fastgrad.functions.index import gather, where
from fastgrad.functions.plans import warn
from fastgrad.functions.scattering import scatter_add
from fastgrad.functions.searching import searchsorted
from fastgrad.functions.shape import cat, stack
from fastgrad.native.build.loader import rt
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.sparse import inverse_counts, shorten
from fastgrad.ops.call import apply

_BAG, _MAXIMA = BY_NAME["embedding_bag"].id, BY_NAME["embedding_bag_maxima"].id
_INDICES = (dtypes.int64, dtypes.int32)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, the mean or the maximum of the rows of a table that each bag of indices names.

    The rows themselves are not kept.

    Parameters
    ----------
    input : Tensor
        Indices, int64 or int32: bags of one length (B, L), or all of them one after the other (L), where `offsets` says
        where each bag begins.
    weight : Tensor
        The table, of shape (V, D).
    offsets : Tensor, optional
        Of shape (B,); the first is 0. Only with indices of one dimension.
    max_norm : float, optional
        Rows that are looked up and longer than this are shortened first, in place and without a history.
    norm_type : float
        Which norm that is.
    scale_grad_by_freq : bool
        Divide gradients of the table by how often the index occurs in `input`; not for "max".
    mode : "sum", "mean" or "max"
    sparse : bool
        Not supported.
    per_sample_weights : Tensor, optional
        What each row is multiplied by, of the shape of `input`; for "sum".
    include_last_offset : bool
        Whether `offsets` has at its end the number of indices besides.
    padding_idx : int, optional
        Indices of this row take no part; may be negative.

    Returns
    -------
    Tensor
        Of shape (B, D); zeros for empty bags.

    Raises
    ------
    ValueError
        If shapes or the mode do not fit.
    NotImplementedError
        If `sparse` is set, or there are weights of samples in another mode than "sum".
    RuntimeError
        If dtypes do not fit, or offsets or indices are out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> table = fg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> bags = fg.tensor([0, 2, 1]), fg.tensor([0, 2])
    >>> fg.nn.functional.embedding_bag(bags[0], table, bags[1], mode="sum")
    tensor([[6., 8.],
            [3., 4.]])
    """
    name = "embedding_bag"
    need_tensor(name, input)
    need_tensor(name, weight, "weight", 2)
    if weight.dtype is dtypes.int64 and input.is_floating_point():
        warn(
            "embedding_bag(): embedding_bag(weight, input, ...) is deprecated; the order is embedding_bag(input, "
            "weight, ...)",
            stacklevel=3,
        )
        weight, input = input, weight
    factors = per_sample_weights
    if factors is not None and rt.sizes(need_tensor(name, factors, "per_sample_weights", 9)) != rt.sizes(
        input
    ):
        raise ValueError(
            f"{name}(): per_sample_weights must have the shape of input, {list(input.shape)}, but has "
            f"{list(factors.shape)}"
        )
    if weight.ndim != 2:
        raise ValueError(f"{name}(): weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    indices, bounds, factors = _bags(input, offsets, factors, include_last_offset)
    _check(weight, indices, factors, mode, scale_grad_by_freq, sparse)
    padding = _padding(padding_idx, rt.sizes(weight)[0])
    try:
        if max_norm is not None:
            shorten(weight.detach(), indices, max_norm, norm_type)
        if mode == "max":
            return _largest(weight, indices, bounds, padding)
        scales = None
        if as_flag(name, "scale_grad_by_freq", scale_grad_by_freq):
            scales = inverse_counts(indices, rt.sizes(weight)[0]).to(weight.dtype)
        (rows, width), bags = rt.sizes(weight), rt.sizes(bounds)[0]
        plan = (rows, width, bags, padding, int(mode == "mean"), 0, 0, bags)
        return apply(_BAG, 5, 0, weight, factors, indices, bounds, scales, *plan, 2, bags, width)
    except IndexError as error:
        raise RuntimeError(f"{name}(): an index or an offset is out of range: {error}") from None


def _bags(input: Any, offsets: Any, factors: Any, with_last: bool) -> tuple[Any, Any, Any]:
    """Indices in one dimension, the bounds of each bag (B, 2), and factors in one dimension."""
    name = "embedding_bag"
    if input.dtype not in _INDICES:
        raise RuntimeError(
            f"{name}(): Expected tensor for argument 'input' (the indices) to have one of the following scalar types: "
            f"Long, Int; but got {input.dtype.type_name} instead"
        )
    indices = input.to(dtypes.int64)
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"{name}(): if input is 2D, then offsets has to be None, as its rows are bags of one length; but got "
                f"offsets of type {type(offsets)}"
            )
        count, length = rt.sizes(input)
        places = [[k * length, (k + 1) * length] for k in range(count)]
        bounds = tensor(places, dtype=dtypes.int64, device=input.device).reshape(count, 2)
        return indices.reshape(-1), bounds, None if factors is None else factors.reshape(-1)
    if input.ndim != 1:
        raise ValueError(
            f"{name}(): input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    if offsets is None:
        raise ValueError(f"{name}(): offsets has to be a 1D Tensor but got None")
    if need_tensor(name, offsets, "offsets", 3).ndim != 1:
        raise ValueError(f"{name}(): offsets has to be a 1D Tensor, but has {offsets.ndim} dimensions")
    return indices, _bounds(offsets, rt.sizes(input)[0], with_last), factors


def _bounds(offsets: Any, length: int, with_last: bool) -> Any:
    name = "embedding_bag"
    if offsets.dtype not in _INDICES:
        raise RuntimeError(
            f"{name}(): expected offsets of dtype Long or Int, but got {offsets.dtype.type_name}"
        )
    starts, count = offsets.to(dtypes.int64), rt.sizes(offsets)[0]
    if count > 0 and int(starts[0]) != 0:
        raise RuntimeError(
            f"{name}(): offsets[0] has to be 0, i.e., the first bag has to start from position 0. However, got "
            f"{int(starts[0])}"
        )
    if count > 0 and int(starts[-1]) > length:
        raise RuntimeError(
            f"{name}(): offsets[-1] can not be greater than input's length {length} but got offsets[-1] of "
            f"{int(starts[-1])}"
        )
    if with_last:
        if count == 0:
            raise RuntimeError(f"{name}(): include_last_offset: number of offsets should be at least 1")
        return stack((starts[:-1], starts[1:]), 1)
    last = tensor([length], dtype=dtypes.int64, device=offsets.device)
    return stack((starts, cat((starts[1:], last)) if count else starts), 1)


def _check(weight: Any, indices: Any, factors: Any, mode: str, by_frequency: bool, sparse: bool) -> None:
    name = "embedding_bag"
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{name}(): mode has to be one of sum, mean or max, but got {mode!r}")
    if mode == "max" and by_frequency:
        raise ValueError(f"{name}(): max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError(f"{name}(): max mode does not support sparse weights")
    if sparse:
        raise NotImplementedError(f"{name}(): sparse=True is not supported; gradients are dense")
    if factors is not None and mode != "sum":
        raise NotImplementedError(
            f"{name}(): per_sample_weights is only supported for mode='sum' (got mode={mode!r})"
        )
    if not weight.is_floating_point():
        raise RuntimeError(
            f"{name}(): Expected tensor for argument 'weight' to have one of the following scalar types: Half, "
            f"BFloat16, Float, Double; but got {weight.dtype.type_name} instead"
        )
    if factors is not None and factors.dtype is not weight.dtype:
        raise RuntimeError(
            f"{name}(): Expected per_sample_weights to have the dtype of weight, {weight.dtype.type_name}, but got "
            f"{factors.dtype.type_name}"
        )


def _padding(padding_idx: int | None, rows: int) -> int:
    """The row that takes no part, or -1."""
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"embedding_bag(): padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
            f"got {padding_idx}"
        )
    return padding_idx % rows


def bags_of(
    weight: Any, indices: Any, offsets: Any, with_last: bool, padding_idx: int | None, largest: bool
) -> tuple[Any, Any, Any]:
    """The bag of each index, how many indices of each bag count, and the rows of the largest or the counts again.

    All arguments are checked.
    """
    flat, bounds, _ = _bags(indices.detach(), offsets, None, with_last)
    padding = _padding(padding_idx, rt.sizes(weight)[0])
    bags, starts = rt.sizes(bounds)[0], bounds[:, 0].contiguous()
    places = arange(rt.sizes(flat)[0], device=flat.device)
    counts = zeros(bags, dtype=dtypes.int64, device=flat.device)
    bag_of = searchsorted(starts, places, right=True) - 1
    if bags:
        counts = scatter_add(
            counts, 0, bag_of, ((flat != padding) & (places < bounds[-1, 1])).to(dtypes.int64)
        )
    kind = indices.dtype
    rows = _places(weight.detach(), flat, bounds, padding).clamp(min=0) if largest else counts
    return bag_of.to(kind), counts.to(kind), rows.to(kind)


def _places(weight: Any, indices: Any, bounds: Any, padding: int) -> Any:
    """The row that the largest element of each column and bag is from; -1 of a bag without rows."""
    (rows, width), bags = rt.sizes(weight), rt.sizes(bounds)[0]
    plan = (rows, width, bags, padding, 0, bags, 2, bags, width)
    return apply(_MAXIMA, 3, 0, weight, indices, bounds, *plan)


def _largest(weight: Any, indices: Any, bounds: Any, padding: int) -> Any:
    places = _places(weight, indices, bounds, padding)
    if rt.sizes(weight)[0] == 0:
        return zeros(rt.sizes(places), dtype=weight.dtype, device=weight.device)
    return where(places < 0, 0.0, gather(weight, 0, places.clamp(min=0)))
