"""Histograms: how many elements, or points, fall into intervals and cells."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import dtypes, return_types
from fastgrad.functions.arguments import as_flag, as_index, is_number, is_tensor, need_tensor
from fastgrad.functions.creation import full, linspace, zeros
from fastgrad.functions.index import where
from fastgrad.functions.placing import index_add
from fastgrad.functions.public import public
from fastgrad.functions.searching import searchsorted
from fastgrad.functions.shape import reshape
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.records import TENSOR

_DTYPE = TENSOR.fields["dtype"][0]
_field = rt.field


def _range(name: str, x: Any, low: float, high: float, margin: float) -> tuple[float, float]:
    if low == high and x.numel():
        low, high = float(x.min()), float(x.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{name}(): range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}(): max must be larger than min, but got [{low}, {high}]")
    return (low - margin, high + margin) if low == high else (low, high)


def _binned(x: Any, bins: int, low: float, high: float, weights: Any = None) -> Any:
    """Sums of what falls into bins of one width; elements beyond the range and NaN count nowhere."""
    inside = (x >= low) & (x <= high)
    scaled = ((where(inside, x, low) - low) / (high - low) * bins).to(dtypes.int64).clamp(0, bins - 1)
    ones = inside.to(x.dtype) if weights is None else where(inside, weights, 0.0)
    return index_add(zeros(bins, dtype=x.dtype, device=x.device), 0, scaled, ones)


@public()
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements fall into each of `bins` equal intervals.

    Parameters
    ----------
    input : Tensor
        Floating point.
    bins : int
    min, max : number
        The range; where they are equal, that of the elements. Others count nowhere.

    Returns
    -------
    Tensor
        Of the dtype of `input`.

    Raises
    ------
    RuntimeError
        If there are no bins, or the range is not finite or upside down.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.histc(fg.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=4)
    tensor([0., 2., 1., 0.])
    """
    x = need_tensor("histc", input).detach()
    count = as_index("histc", "bins", bins)
    if _field(x, _DTYPE) not in FLOATS:
        raise NotImplementedError(f"histc(): not implemented for '{x.dtype.type_name}'")
    if count <= 0:
        raise RuntimeError("histc(): bins must be > 0")
    low, high = _range("histc", x, float(min), float(max), 1.0)
    return _binned(reshape(x, -1) if x.numel() else reshape(x, 0), count, low, high)


@public()
def histogram(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> return_types.histogram:
    """How many elements fall between neighbouring edges.

    Parameters
    ----------
    input : Tensor
        Floating point.
    bins : int or Tensor
        The number of equal intervals, or edges in order.
    range : tuple of two numbers, optional
        Of equal intervals; that of the elements if not given.
    weight : Tensor, optional
        What each element counts.
    density : bool
        Divide by the sum and the widths.

    Returns
    -------
    (hist, bin_edges)

    Raises
    ------
    RuntimeError
        If there are no bins, the range is not finite or upside down, or dtypes or sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.histogram(fg.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 4.0)).hist
    tensor([0., 2., 1., 0.])
    """
    x = need_tensor("histogram", input).detach()
    if _field(x, _DTYPE) not in FLOATS:
        raise NotImplementedError(f"histogram(): not implemented for '{x.dtype.type_name}'")
    flat = reshape(x, x.numel())
    if weight is not None:
        if (
            tuple(need_tensor("histogram", weight, "weight").shape) != tuple(x.shape)
            or weight.dtype is not x.dtype
        ):
            raise RuntimeError(
                "histogram(): if weight tensor is provided it should have the same shape and dtype"
            )
        weight = reshape(weight.detach(), x.numel())
    if is_tensor(bins):
        if bins.dim() != 1 or bins.numel() == 0 or bins.dtype is not x.dtype:
            raise RuntimeError(
                "histogram(): bins tensor should have one dimension and the dtype of the input"
            )
        edges = bins.detach()
        ones = full((), 1, dtype=x.dtype, device=x.device).expand(flat.numel()) if weight is None else weight
        hist = _between(flat, edges, ones)
    else:
        count = as_index("histogram", "bins", bins)
        if count <= 0:
            raise RuntimeError(f"histogram(): bins must be > 0, but got {count}")
        ends = (0.0, 0.0) if range is None else (float(range[0]), float(range[1]))
        low, high = _range("histogram", x, *(ends if range is not None or x.numel() else (0.0, 1.0)), 0.5)
        edges = linspace(low, high, count + 1, dtype=x.dtype, device=x.device)
        hist = _binned(flat, count, low, high, weight)
    if as_flag("histogram", "density", density):
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return return_types.histogram._make((hist, edges))


@public()
def histogramdd(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> return_types.histogramdd:
    """How many points fall into the cells of a grid.

    Parameters
    ----------
    input : Tensor
        Points, whose D coordinates are the last dimension; floating point.
    bins : int, sequence of D ints, or of D tensors
        How many equal intervals each coordinate has, or the edges of intervals in order.
    range : sequence of 2 D numbers, optional
        From where to where the equal intervals of each coordinate are; those of the points if not given.
    weight : Tensor, optional
        What each point counts.
    density : bool
        Divide by the sum and the volumes of the cells.

    Returns
    -------
    (hist, bin_edges)
        The second is a tuple with the edges of each coordinate.

    Raises
    ------
    RuntimeError
        If there are no bins, the range is not finite or upside down, or sizes do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> points = fg.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> fg.histogramdd(points, (2, 2)).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    x = need_tensor("histogramdd", input).detach()
    if _field(x, _DTYPE) not in FLOATS:
        raise NotImplementedError(f"histogramdd(): not implemented for '{x.dtype.type_name}'")
    if x.dim() < 2:
        raise RuntimeError("histogramdd(): input tensor should have at least 2 dimensions")
    n = x.shape[-1]
    points = reshape(x, (x.numel() // n if n else 0, n))
    weights = full((), 1, dtype=x.dtype, device=x.device).expand(points.shape[0])
    if weight is not None:
        if tuple(need_tensor("histogramdd", weight, "weight").shape) != tuple(x.shape[:-1]):
            raise RuntimeError(
                f"histogramdd(): weight should have the shape {list(x.shape[:-1])} of the points, but got "
                f"{list(weight.shape)}"
            )
        weights = reshape(weight.detach().to(x.dtype), points.shape[0])
    edges = _edges_of(points, bins, range)
    places, inside = zeros(points.shape[0], dtype=dtypes.int64, device=x.device), None
    for k, own in enumerate(edges):
        place = searchsorted(own, points[:, k].contiguous(), right=True) - 1
        place = where(points[:, k] == own[-1], own.numel() - 2, place)
        fits = (place >= 0) & (place < own.numel() - 1)
        inside = fits if inside is None else inside & fits
        places = places * (own.numel() - 1) + place.clamp(0, own.numel() - 2)
    cells = [own.numel() - 1 for own in edges]
    counted = where(inside, weights, 0.0)
    hist = reshape(
        index_add(zeros(math.prod(cells), dtype=x.dtype, device=x.device), 0, places, counted), cells
    )
    if as_flag("histogramdd", "density", density):
        hist = hist / hist.sum()
        for k, own in enumerate(edges):
            hist = hist / reshape(own[1:] - own[:-1], [-1 if d == k else 1 for d, _ in enumerate(edges)])
    return return_types.histogramdd._make((hist, edges))


def _edges_of(points: Any, bins: Any, ends: Any) -> tuple[Any, ...]:
    n = points.shape[1]
    each = [bins] * n if is_number(bins) else list(bins)
    if len(each) != n:
        raise RuntimeError(
            "histogramdd(): The size of bins must be equal to the innermost dimension of the input, but got "
            f"{len(each)} for {n}"
        )
    if all(is_tensor(own) for own in each) and each:
        if any(own.dim() != 1 or own.numel() < 2 or own.dtype is not points.dtype for own in each):
            raise RuntimeError(
                "histogramdd(): edges should be vectors of at least two elements with the dtype of the input"
            )
        return tuple(own.detach() for own in each)
    if ends is not None and len(ends) != 2 * n:
        raise RuntimeError(
            f"histogramdd(): for a {n}-dimensional histogram range should have {2 * n} elements, but got {len(ends)}"
        )
    found = []
    for k, own in enumerate(each):
        count = as_index("histogramdd", "bins", own)
        if count <= 0:
            raise RuntimeError(f"histogramdd(): bins must be > 0, but got {count} for dimension {k}")
        given = (0.0, 1.0) if not points.shape[0] else (0.0, 0.0)
        low, high = given if ends is None else (float(ends[2 * k]), float(ends[2 * k + 1]))
        low, high = _range("histogramdd", points[:, k], low, high, 0.5)
        found.append(linspace(low, high, count + 1, dtype=points.dtype, device=points.device))
    return tuple(found)


def _between(x: Any, edges: Any, weights: Any) -> Any:
    bins = edges.numel() - 1
    if bins == 0:
        return zeros(0, dtype=x.dtype, device=x.device)
    places = searchsorted(edges, x, right=True) - 1
    places = where(x == edges[-1], bins - 1, places)
    inside = (places >= 0) & (places < bins)
    ones = where(inside, weights, 0.0)
    return index_add(zeros(bins, dtype=x.dtype, device=x.device), 0, places.clamp(0, bins - 1), ones)
