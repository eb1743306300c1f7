"""Variance, standard deviation and norms over dimensions."""

from __future__ import annotations

import math
from typing import Any

from fastgrad.functions import elementwise
from fastgrad.functions.argument_names import also_by_name
from fastgrad.functions.arguments import as_dims, as_flag, need_tensor, records
from fastgrad.functions.autocasting import full_precision_on_gpus
from fastgrad.functions.complex_numbers import imag, real
from fastgrad.functions.index import where
from fastgrad.functions.outs import taking_out
from fastgrad.functions.plans import planned, warn
from fastgrad.functions.public import public
from fastgrad.functions.reduce import amax, amin
from fastgrad.functions.reduce import sum as sum_
from fastgrad.functions.shape import wrapped, wrapped_dims
from fastgrad.functions.unaffected import unaffected
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX, FLOATS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, float_bits

_DTYPE, _NUMEL = TENSOR.fields["dtype"][0], TENSOR.fields["numel"][0]
_EUCLIDEAN_NORM = BY_NAME["euclidean_norm"].id
_field = rt.field


def _spread(name: str, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
    need_tensor(name, input)
    if _field(input, _DTYPE) in COMPLEX:
        return _spread_of_parts(name, input, dim, unbiased, keepdim, correction)
    if _field(input, _DTYPE) not in FLOATS:
        raise RuntimeError(
            f"{name}(): only support floating point and complex dtypes, but got {input.dtype.name}"
        )
    keep = as_flag(name, "keepdim", keepdim)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 0 if unbiased is False else 1
    dims = as_dims(name, dim)
    if dims:
        sizes = rt.sizes(input)
        count = math.prod(sizes[wrapped(name, d, len(sizes))] if sizes else 1 for d in dims)
    else:
        count = _field(input, _NUMEL)
    left = count - correction
    if left <= 0:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            stacklevel=3,
        )
    divisor = float_bits(float(left) if left > 0 else 0.0)
    return apply(BY_NAME[name].id, 1, 0, input, divisor, keep, *dims)


def _spread_of_parts(name: str, input: Any, dim: Any, *how: Any) -> Any:
    """The variance of complex numbers is the sum of those of their parts."""
    total = sum(_spread("var", part, dim, *how) for part in (real(input), imag(input)))
    spread = total.sqrt() if name.startswith("std") else total
    if name in ("var", "std"):
        return spread
    return spread, input.mean(None if isinstance(dim, bool) else dim, how[1])


@public()
@planned
def var(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """The variance over dimensions, ``sum((x - mean(x))**2) / (n - correction)``.

    Parameters
    ----------
    input : Tensor
        Floating point.
    dim : int or tuple of int, optional
        All dimensions if not given.
    unbiased : bool, optional
        ``False`` is ``correction=0``.
    keepdim : bool
        Keep reduced dimensions with size 1.
    correction : number, default 1

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If the tensor is not floating point.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.var(fg.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _spread("var", input, dim, unbiased, keepdim, correction)


@public()
@planned
def std(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """The square root of the variance; its gradient is zero where it is zero. See `var`."""
    return _spread("std", input, dim, unbiased, keepdim, correction)


@public(method=False)
@planned
def var_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Any, Any]:
    """The variance and the mean over dimensions. See `var`."""
    return _spread("var_mean", input, dim, unbiased, keepdim, correction)  # type: ignore[no-any-return]


@public(method=False)
@planned
def std_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Any, Any]:
    """The standard deviation and the mean over dimensions. See `var`."""
    return _spread("std_mean", input, dim, unbiased, keepdim, correction)  # type: ignore[no-any-return]


@taking_out
@also_by_name
def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of the elements over dimensions, ``sum(|x|**ord) ** (1 / ord)``.

    Parameters
    ----------
    x : Tensor
        Floating point.
    ord : number
        ``inf`` and ``-inf`` give the largest and the smallest absolute value, 0 the number of elements that are not
        zero.
    dim : int or tuple of int, optional
        All dimensions if not given.
    keepdim : bool
        Keep reduced dimensions with size 1.
    dtype : dtype, optional
        Cast to this before.

    Returns
    -------
    Tensor
        Its gradient is zero where the norm is zero.

    Raises
    ------
    RuntimeError
        If the tensor is not floating point, or has no elements and `ord` is negative or infinite.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.vector_norm(fg.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return _norm("vector_norm", x, ord, dim, keepdim, dtype)


@full_precision_on_gpus
def _norm(name: str, x: Any, order: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    need_tensor(name, x)
    if dtype is not None:
        x = x.to(dtype)
    if _field(x, _DTYPE) in COMPLEX:
        x = elementwise.absolute(x)
    if _field(x, _DTYPE) not in FLOATS:
        raise RuntimeError(f"{name}(): Expected a floating point tensor as input. Got {x.dtype.type_name}")
    if isinstance(order, (bool, str)) or not isinstance(order, (int, float)):
        raise TypeError(f"{name}(): argument 'ord' must be a number, not {type(order).__name__}")
    keep = as_flag(name, "keepdim", keepdim)
    dims = as_dims(name, dim)
    if order == 2:
        return apply(_EUCLIDEAN_NORM, 1, 0, x, 0, keep, *dims)
    chosen = dims or None
    if (order < 0 or math.isinf(order)) and x.numel() == 0:
        reduced = wrapped_dims(name, dims, x.dim()) or range(x.dim())
        if any(x.shape[d] == 0 for d in reduced):
            raise RuntimeError(f"{name}(): cannot compute the {order} norm of a tensor without elements")
    if math.isinf(order):
        return (amax if order > 0 else amin)(elementwise.absolute(x), dims, keepdim)
    if order == 0:
        count = sum_((x != 0).to(x.dtype), chosen, keepdim)
        return unaffected(count, x) if records(x) else count
    if order == 1:
        return sum_(elementwise.absolute(x), chosen, keepdim)
    total = sum_(_powers(x, order), chosen, keepdim)
    nothing = total == 0  # where the root would have an infinite slope, the gradient is zero
    return where(nothing, total.detach() ** (1.0 / order), where(nothing, 1.0, total) ** (1.0 / order))


def _powers(x: Any, order: float) -> Any:
    """Powers of absolute values, whose derivative is zero where these are."""
    if order >= 1:
        return elementwise.absolute(x) ** order
    zero = x == 0
    return where(zero, 0.0 if order > 0 else math.inf, where(zero, 1.0, elementwise.absolute(x)) ** order)


@public()
@planned
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The vector norm over dimensions; "fro" and None stand for 2. See `linalg.vector_norm`.

    "nuc" is the sum of the singular values of matrices: see `linalg.matrix_norm`.
    """
    if isinstance(p, str) and p == "nuc":
        return _nuclear_norm(input, dim, keepdim, dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm(): expected p to be a number or 'fro', but got {p!r}")
    return _norm("norm", input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype)


def _nuclear_norm(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    from fastgrad.functions.matrix_functions import matrix_norm_of  # which calls functions of this module

    if dim is None and need_tensor("norm", input).dim() != 2:
        raise RuntimeError(
            f"norm(): expected a matrix for the nuclear norm without dim, but got {input.dim()}D"
        )
    return matrix_norm_of("norm", input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype)
