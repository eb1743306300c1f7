"""Order statistics: medians, quantiles, the k-th element, the most frequent one."""

from __future__ import annotations

from typing import Any

from fastgrad import return_types
from fastgrad.functions.arguments import as_flag, as_index, need_tensor
from fastgrad.functions.creation import arange, full, tensor
from fastgrad.functions.index import gather, where
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.reduce import amax, argmax
from fastgrad.functions.reduce import any as any_
from fastgrad.functions.reduce import sum as sum_
from fastgrad.functions.repetition import roll
from fastgrad.functions.running import cummax
from fastgrad.functions.shape import reshape, squeeze, transpose, unsqueeze, wrapped
from fastgrad.functions.sorting import sort, topk
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import BOOL, FLOATS
from fastgrad.native.contracts.records import TENSOR

_DTYPE = TENSOR.fields["dtype"][0]
_field = rt.field


def _picked(x: Any, places: Any, d: int, keep: int) -> tuple[Any, Any]:
    """The elements at places along a dimension, which are kept with size 1."""
    values = gather(x, d, places) if x.dim() else x.clone()
    if keep or not x.dim():
        return values, places
    return squeeze(values, d), squeeze(places, d)


def _apart(x: Any) -> Any:
    """A tensor without its history, for what is not differentiated; itself where it has none."""
    return x.detach() if x.requires_grad else x


def _need_elements(name: str, x: Any, d: int) -> None:
    if x.dim() and x.shape[d] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _need_order(name: str, x: Any) -> None:
    if _field(x, _DTYPE) == BOOL:
        raise NotImplementedError(f"{name}(): not implemented for 'Bool'")


def _counted(mask: Any, d: int) -> Any:
    """How often a mask holds along a dimension, kept with size 1."""
    return sum_(mask, d, True)


# --- medians -----------------------------------------------------------------------------------------------------


def _ranked(x: Any, d: int, ignore_nan: bool) -> Any:
    """Where the median of each row stands: the lower of two, and NaN where there is one that counts."""
    order = sort(_apart(x), d, stable=True).indices
    length = x.shape[d] if x.dim() else 1
    sizes = [1 if k == d else n for k, n in enumerate(x.shape)]
    middle = full(sizes, (length - 1) // 2, dtype=order.dtype, device=x.device)
    if _field(x, _DTYPE) in FLOATS:
        nan = _apart(x).isnan()
        if ignore_nan:
            middle = ((length - _counted(nan, d)) - 1).clamp(min=0).div(2, rounding_mode="floor")
        else:
            count = _counted(nan, d)  # behind all numbers, the first of them in front
            middle = where(count > 0, length - count, middle)
    return gather(order, d, middle) if x.dim() else order


def _lower_middle(x: Any, ignore_nan: bool) -> Any:
    """The median of a vector, for which only its lower half is sorted. NaN comes behind all numbers."""
    length = x.shape[0]
    lower = topk(x, (length - 1) // 2 + 1, 0, False).values
    if _field(x, _DTYPE) not in FLOATS:
        return lower[-1].clone()
    nan = x.isnan()
    if ignore_nan:
        middle = (length - _counted(nan, 0) - 1).clamp(min=0).div(2, rounding_mode="floor")
        return reshape(gather(lower, 0, middle), ())
    return where(any_(nan), float("nan"), lower[-1])


_MEDIANS = {kind.__name__: return_types.maker(kind) for kind in (return_types.median, return_types.nanmedian)}


def _median(name: str, input: Any, dim: Any, keepdim: Any, ignore_nan: bool) -> Any:
    x = need_tensor(name, input)
    _need_order(name, x)
    keep = as_flag(name, "keepdim", keepdim)
    if dim is None:
        return _median_of_all(x, ignore_nan)
    d = wrapped(name, dim, x.dim())
    _need_elements(name, x, d)
    return _MEDIANS[name](_picked(x, _ranked(x, d, ignore_nan), d, keep))


def _median_of_all(x: Any, ignore_nan: bool) -> Any:
    """The median of all elements; its gradient goes in equal parts to all that are equal to it."""
    if x.numel() == 0:
        value: Any = float("nan") if _field(x, _DTYPE) in FLOATS else -(1 << 8 * x.dtype.itemsize - 1)
        return full((), value if x.dtype.is_floating_point or x.dtype.itemsize > 1 else 0, dtype=x.dtype)
    flat = reshape(x, -1)
    value = _lower_middle(_apart(flat), ignore_nan)
    if not x.requires_grad:
        return value
    # A mean of equal numbers need not be that number, and `amax` gives NaN a gradient of NaN and knows no -inf apart.
    number = amax(where(flat == value, flat, float("-inf")), 0)
    same = (flat == value) | (flat.isnan() & value.isnan())
    return where(value.isfinite(), number, sum_(where(same, flat, 0.0)) / sum_(same))


@public()
@planned
def median(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The median of all elements, or along a dimension with where it stands; of two the lower one.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
    keepdim : bool
        Keep the dimension with size 1.

    Returns
    -------
    Tensor or (values, indices)
        NaN where there is one.

    Raises
    ------
    IndexError
        If the dimension has no elements.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.median(fg.tensor([3.0, 1.0, 2.0, 4.0]))
    tensor(2.)
    """
    return _median("median", input, dim, keepdim, False)


@public()
@planned
def nanmedian(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The median of what is not NaN. See `median`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nanmedian(fg.tensor([3.0, float("nan"), 2.0]))
    tensor(2.)
    """
    return _median("nanmedian", input, dim, keepdim, True)


# --- the k-th, the most frequent -----------------------------------------------------------------------------------


@public()
@planned
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> return_types.kthvalue:
    """The k-th smallest element along a dimension, from 1 on, and where it stands.

    Parameters
    ----------
    input : Tensor
    k : int
    dim : int
    keepdim : bool
        Keep the dimension with size 1.

    Returns
    -------
    (values, indices)

    Raises
    ------
    RuntimeError
        If there is no k-th element.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.kthvalue(fg.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """
    x = need_tensor("kthvalue", input)
    d, count = wrapped("kthvalue", dim, x.dim()), as_index("kthvalue", "k", k)
    keep = as_flag("kthvalue", "keepdim", keepdim)
    _need_order("kthvalue", x)
    _need_elements("kthvalue", x, d)
    if not 1 <= count <= (x.shape[d] if x.dim() else 1):
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(d))
    order = sort(_apart(x), d, stable=True).indices
    return return_types.kthvalue._make(
        _picked(x, order.narrow(d, count - 1, 1) if x.dim() else order, d, keep)
    )


@public()
@planned
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> return_types.mode:
    """The most frequent element along a dimension, the smallest of several, and the last place where it stands.

    Parameters
    ----------
    input : Tensor
    dim : int
    keepdim : bool
        Keep the dimension with size 1.

    Returns
    -------
    (values, indices)

    Raises
    ------
    IndexError
        If the dimension has no elements.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.mode(fg.tensor([3.0, 1.0, 3.0, 2.0])).values
    tensor(3.)
    """
    x = need_tensor("mode", input)
    d, keep = wrapped("mode", dim, x.dim()), as_flag("mode", "keepdim", keepdim)
    _need_elements("mode", x, d)
    if not x.dim():
        return return_types.mode._make(_picked(x, full((), 0, device=x.device).long(), d, keep))
    ordered, order = sort(transpose(_apart(x), d, -1), -1, stable=True)
    # What stands behind k elements that equal it, the most of all, is the last one of the longest run of equal ones.
    before, places = roll(ordered, 1, -1), arange(x.shape[d], device=x.device)
    same = ordered == before
    if _field(x, _DTYPE) in FLOATS:
        same = same | before.isnan()
    begins = cummax(where(same, 0, places), -1).values
    last = gather(order, -1, argmax(places - begins, -1, True))
    return return_types.mode._make(_picked(x, transpose(last, d, -1), d, keep))


@public()
@planned
def msort(input: Any) -> Any:
    """The elements of the first dimension in order.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.msort(fg.tensor([3.0, 1.0, 2.0]))
    tensor([1., 2., 3.])
    """
    return sort(need_tensor("msort", input), 0, stable=True).values


# --- quantiles ---------------------------------------------------------------------------------------------------

_WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def _need_quantiles(name: str, x: Any, q: Any, interpolation: Any) -> Any:
    """The quantiles as a tensor, if they are such."""
    need_tensor(name, x)
    if x.numel() == 0:
        raise RuntimeError(f"{name}(): input tensor must be non-empty")
    if _field(x, _DTYPE) not in FLOATS:
        raise RuntimeError(f"{name}(): input tensor must be either float or double dtype")
    if interpolation not in _WAYS:
        raise RuntimeError(
            f"{name}(): interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    if not isinstance(q, TensorBase):
        if isinstance(q, bool) or not isinstance(q, (int, float)):
            raise TypeError(
                f"{name}(): argument 'q' (position 2) must be Tensor or float, not {type(q).__name__}"
            )
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}(): q must be in the range [0, 1] but got {q}")
        return tensor(q, dtype=x.dtype, device=x.device)
    if q.dim() > 1:  # type: ignore[attr-defined]
        raise RuntimeError(f"{name}(): q must be a scalar or 1D tensor")
    if q.dtype is not x.dtype:  # type: ignore[attr-defined]
        raise RuntimeError(f"{name}(): q tensor must be same dtype as the input tensor")
    if q.device.type != "meta" and not bool(((q >= 0) & (q <= 1)).all()):  # type: ignore[attr-defined, operator]
        raise RuntimeError(f"{name}(): q values must be in the range [0, 1]")
    return q


def _quantile(name: str, x: Any, q: Any, dim: Any, keepdim: Any, way: Any, ignore_nan: bool) -> Any:
    marks = _need_quantiles(name, x, q, way)
    keep = as_flag(name, "keepdim", keepdim)
    whole = [1] * x.dim()
    if dim is None:
        rows = reshape(x, -1)
    else:
        d = wrapped(name, dim, x.dim())
        whole = [1 if k == d else n for k, n in enumerate(x.shape)]
        rows = transpose(unsqueeze(x, -1), d, -1) if x.dim() else reshape(x, 1)
    values = sort(rows, -1, stable=True).values
    length = values.shape[-1]
    nan = rows.detach().isnan()
    count = _counted(~nan, -1)
    ranks = (
        reshape(marks, -1) * (count - 1).clamp(min=0).to(x.dtype)
        if ignore_nan
        else reshape(marks, -1) * (length - 1)
    )
    if not ignore_nan:
        ranks = where(any_(nan, -1, True), float(length - 1), ranks.expand(*values.shape[:-1], marks.numel()))
    out = _between(values, ranks, way)
    shape = (
        (whole if keep else [n for k, n in enumerate(whole) if dim is not None and k != d]) if x.dim() else []
    )
    if dim is not None and x.dim():
        out = out.movedim(-1, 0)
    out = reshape(out, marks.numel(), *shape)
    return out if marks.dim() else reshape(out, shape)


def _between(values: Any, ranks: Any, way: str) -> Any:
    """Elements of rows that are in order, at ranks which may lie between two."""
    if way == "lower":
        ranks = ranks.floor()
    elif way == "higher":
        ranks = ranks.ceil()
    elif way == "nearest":
        ranks = ranks.round()
    low = ranks.floor()
    below = gather(values, -1, low.long())
    if way in ("lower", "higher", "nearest"):
        return below
    weight = full((), 0.5, dtype=ranks.dtype, device=ranks.device) if way == "midpoint" else ranks - low
    above = gather(values, -1, ranks.ceil().long())
    return where((above == below) | (weight == 0), below, below + (above - below) * weight)


@public()
def quantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Quantiles of all elements, or along a dimension.

    Parameters
    ----------
    input : Tensor
        Floating point.
    q : float or Tensor
        Between 0 and 1; of a vector of them the result has a first dimension.
    dim : int, optional
    keepdim : bool
        Keep the dimension with size 1.
    interpolation : "linear", "lower", "higher", "midpoint" or "nearest"
        What lies between two elements.

    Returns
    -------
    Tensor
        NaN where there is one.

    Raises
    ------
    RuntimeError
        If there are no elements, or a quantile is not between 0 and 1.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.quantile(fg.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
    tensor(1.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@public()
def nanquantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Quantiles of what is not NaN. See `quantile`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nanquantile(fg.tensor([0.0, float("nan"), 2.0]), 0.5)
    tensor(1.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
