"""Reductions: functions that take dimensions away."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes, return_types
from fastgrad.functions.arguments import as_dims, as_flag, as_index, need_tensor
from fastgrad.functions.autocasting import full_precision
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import joined_dims
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import BOOL
from fastgrad.native.contracts.limits import ALL_DIMS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, invoke
from fastgrad.ops.registry import Op
from fastgrad.ops.vocabulary import m

_NUMEL, _DTYPE, _NDIM = (TENSOR.fields[n][0] for n in ("numel", "dtype", "ndim"))
_field = rt.field
_CUMSUM = BY_NAME["cumsum"].id
_SUM, _SUM_DIM, _MEAN, _MEAN_DIM = (BY_NAME[n] for n in ("sum", "sum.dim", "mean", "mean.dim"))


def _reduce(name: str, op: Op, input: Any, dim: Any, keepdim: bool) -> Any:
    if not isinstance(input, TensorBase):
        need_tensor(name, input)
    keep = 0 if keepdim is False else as_flag(name, "keepdim", keepdim)
    if dim is None:
        return apply(op.id, 1, 0, input, keep)
    if type(dim) is int:
        return apply(op.id, 1, 0, input, keep, as_index(name, "dim", dim))
    return apply(op.id, 1, 0, input, keep, *as_dims(name, dim))


@public()
@planned
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum over dimensions.

    Parameters
    ----------
    input : Tensor
        Integers and bools are summed as int64.
    dim : int or tuple of int, optional
        All dimensions if not given.
    keepdim : bool
        Keep reduced dimensions with size 1.
    dtype : dtype, optional
        Cast to this before summing.

    Returns
    -------
    Tensor

    Raises
    ------
    IndexError
        If a dimension is out of range.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.sum(fg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    op = _SUM if dim is None else _SUM_DIM
    if dtype is not None:
        return _reduce("sum", op, need_tensor("sum", input).to(dtype), dim, keepdim).to(dtype)
    return _reduce("sum", op, input, dim, keepdim)


@public()
@planned
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean over dimensions; of floating-point tensors only. See `sum` for the parameters."""
    if dtype is not None:
        input = need_tensor("mean", input).to(dtype)
    return _reduce("mean", _MEAN if dim is None else _MEAN_DIM, input, dim, keepdim)


@public()
@planned
def amax(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The largest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
    return _reduce("amax", BY_NAME["amax"], input, dim, keepdim)


@public()
@planned
def amin(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The smallest value over dimensions; its gradient is shared among equals. See `sum` for the parameters."""
    return _reduce("amin", BY_NAME["amin"], input, dim, keepdim)


@public()
@planned
def any(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether any element is not zero. See `sum` for the parameters."""
    return _truth("any", input, dim, keepdim)


@public()
@planned
def all(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether all elements are not zero. See `sum` for the parameters."""
    return _truth("all", input, dim, keepdim)


def _truth(name: str, input: Any, dim: Any, keepdim: bool) -> Any:
    out = _reduce(name, BY_NAME[name], input, dim, keepdim)
    return out.to(dtypes.uint8) if input.dtype is dtypes.uint8 else out


@public()
@planned
@full_precision
def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product over one dimension, or over all. See `sum` for the parameters."""
    need_tensor("prod", input)
    if dtype is not None:
        return prod(input.to(dtype), dim, keepdim).to(dtype)
    keep = as_flag("prod", "keepdim", keepdim)
    if dim is None:
        return invoke(BY_NAME["prod"], (input,), ALL_DIMS, 0)
    return invoke(BY_NAME["prod.dim"], (input,), as_index("prod", "dim", dim), keep)


def _arg(name: str, input: Any, dim: int | None, keepdim: bool) -> Any:
    if _field(need_tensor(name, input), _DTYPE) == BOOL:
        raise RuntimeError(
            f"{name}(): does not support bool input; convert it with .to(fastgrad.uint8) first"
        )
    keep = as_flag(name, "keepdim", keepdim)
    if dim is None:
        if _field(input, _NUMEL) == 0:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        flat = input if _field(input, _NDIM) == 1 else input.reshape(-1)
        out = apply(BY_NAME[name].id, 1, 0, flat, 0, 0)
        return out.reshape([1] * input.dim()) if keepdim else out
    return apply(BY_NAME[name].id, 1, 0, input, as_index(name, "dim", dim), keep)


@public()
@planned
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The position of the largest value: the first of equals, a NaN before all.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
        The dimension to search; without it the position in the flattened tensor.
    keepdim : bool

    Returns
    -------
    Tensor
        Of dtype int64.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.argmax(fg.tensor([1.0, 3.0, 2.0]))
    tensor(1)
    """
    return _arg("argmax", input, dim, keepdim)


@public()
@planned
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The position of the smallest value. See `argmax`."""
    return _arg("argmin", input, dim, keepdim)


_EXTREMES = {
    kind.__name__: (BY_NAME[kind.__name__].id, BY_NAME[f"{kind.__name__}_dim"].id, return_types.maker(kind))
    for kind in (return_types.max, return_types.min)
}


def _extreme(name: str, binary: str, input: Any, dim: Any, keepdim: bool) -> Any:
    if not isinstance(input, TensorBase):
        need_tensor(name, input)
    whole, along, named = _EXTREMES[name]
    if dim is None:
        if _field(input, _NUMEL) == 0:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
        return apply(whole, 1, 0, input, 0)
    if isinstance(dim, TensorBase):
        return invoke(BY_NAME[binary], (input, dim))
    keep = 0 if keepdim is False else as_flag(name, "keepdim", keepdim)
    return named(apply(along, 1, 0, input, as_index(name, "dim", dim), keep))


@public()
@planned
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with `dim` the largest of each row and its position; with a tensor the larger of two.

    Parameters
    ----------
    input : Tensor
    dim : int or Tensor, optional
    keepdim : bool

    Returns
    -------
    Tensor or (values, indices)

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.max(fg.tensor([[1.0, 3.0], [4.0, 2.0]]), 1).indices
    tensor([1, 0])
    """
    return _extreme("max", "maximum", input, other if other is not None else dim, keepdim)


@public()
@planned
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element. See `max`."""
    return _extreme("min", "minimum", input, other if other is not None else dim, keepdim)


@public()
@planned
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running sums along a dimension."""
    need_tensor("cumsum", input)
    if dtype is not None:
        return cumsum(input.to(dtype), dim).to(dtype)
    return apply(_CUMSUM, 1, 0, input, as_index("cumsum", "dim", dim), 0)


def _complex_logsumexp(x: Any) -> Any:
    """That of complex numbers along the last dimension. Real parts are kept in range; imaginary ones are angles."""
    if not x.shape[-1]:
        return m.log(m.exp(x).sum(-1))
    largest = amax(x.detach().real, -1, True)
    largest = m.where(m.isinf(largest), 0.0, largest)
    return m.log(m.exp(x - largest).sum(-1)) + largest.squeeze(-1)


@public()
@planned
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """``log(sum(exp(input)))`` along one or more dimensions, without overflow."""
    need_tensor("logsumexp", input)
    keep = as_flag("logsumexp", "keepdim", keepdim)
    if not input.dtype.inexact:
        input = input.to(dtypes.get_default_dtype())
    dims = as_dims("logsumexp", dim)
    if input.is_complex():
        return joined_dims("logsumexp", input, dims, keepdim, _complex_logsumexp)
    if len(dims) == 1:
        return invoke(BY_NAME["logsumexp"], (input,), dims[0], keep)
    return joined_dims("logsumexp", input, dims, keepdim, lambda x: invoke(BY_NAME["logsumexp"], (x,), -1, 0))


def _softmax(name: str, input: Any, dim: int, dtype: Any) -> Any:
    need_tensor(name, input)
    if dtype is not None:
        input = input.to(dtype)
    return apply(BY_NAME[name].id, 1, 0, input, as_index(name, "dim", dim), 0)


@public()
@planned
def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """``exp(x) / sum(exp(x))`` along a dimension.

    Parameters
    ----------
    input : Tensor
        Floating point.
    dim : int
    dtype : dtype, optional
        Cast to this before.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.softmax(fg.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return _softmax("softmax", input, dim, dtype)


@public()
@planned
def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`, without overflow."""
    return _softmax("log_softmax", input, dim, dtype)
