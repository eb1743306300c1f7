"""Gradients no longer than they should be: norms over many tensors and clipping, one compiled call each."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

from fastgrad.autograd.modes import no_grad
from fastgrad.dtypes import float32, float64, promote_types
from fastgrad.functions.arguments import need_tensor, need_tensors
from fastgrad.functions.complex_numbers import view_as_real
from fastgrad.functions.creation import full
from fastgrad.functions.elementwise import maximum, minimum
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.ops.optim import clip, norm_part, scale


def _listed(name: str, tensors: Any, argument: str = "parameters") -> list[Any]:
    return [tensors] if isinstance(tensors, TensorBase) else need_tensors(name, tensors, argument)


def _gradients(parameters: Iterable[Any]) -> list[Any]:
    return [g for g in map(rt.get_grad, parameters) if g is not None]


def _in_parts(gradient: Any) -> Any:
    """A gradient as real numbers over the same memory: scaling does not ask whether they are read negated."""
    if not gradient.is_complex():
        return gradient
    return view_as_real(gradient.conj() if gradient.is_conj() else gradient)


@no_grad()
def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Any:
    """The norm of the norms of tensors, which is that of all their elements together.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
        Floating, or complex: then the magnitudes count.
    norm_type : float
        The order p of ``(sum |x|**p)**(1/p)``; infinite orders give the largest or smallest magnitude, 0 the number of
        tensors that are not zero. Tensors without elements do not count.
    error_if_nonfinite : bool
    foreach : bool, optional
        Changes nothing.

    Returns
    -------
    Tensor
        0-dim, of the widest dtype among the tensors, or its parts, on the device of the first, without history; summed
        up in float64.

    Raises
    ------
    RuntimeError
        If the norm is infinite or NaN and `error_if_nonfinite` is set.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.utils.get_total_norm([fg.tensor([3.0]), fg.tensor([0.0, 4.0])])
    tensor(5.)
    """
    tensors, order = _listed("get_total_norm", tensors, "tensors"), float(norm_type)
    if not tensors:
        return full((), 0.0)
    tensors = [t.abs() if t.is_complex() else t for t in tensors]
    dtype, begin = tensors[0].dtype, math.inf if order == -math.inf else 0.0
    totals: dict[Any, Any] = {}  # of each device
    for t in tensors:
        dtype = promote_types(dtype, t.dtype)
        if t.device not in totals:
            totals[t.device] = full((), begin, dtype=float64, device=t.device)
    norm_part([x for t in tensors for x in (t, totals[t.device])], order)
    total, *others = totals.values()
    for other in others:
        there = other.to(total.device)
        total = total + there if math.isfinite(order) else (maximum if order > 0 else minimum)(total, there)
    if order == 2.0:
        total = total.sqrt()
    elif math.isfinite(order) and order not in (0.0, 1.0):
        total = total ** (1.0 / order)
    total = total.to(dtype)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None
) -> None:
    """Scale gradients in place so that a norm, known already, is at most `max_norm`.

    The factor is ``min(1, max_norm / (total_norm + 1e-6))``.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    max_norm : float
    total_norm : Tensor
        0-dim, as from `get_total_norm`.
    foreach : bool, optional
        Changes nothing.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.ones(2, requires_grad=True)
    >>> (w * 4).sum().backward()
    >>> fg.nn.utils.clip_grads_with_norm_(w, max_norm=1.0, total_norm=fg.tensor(2.0))
    >>> w.grad
    tensor([2.0000, 2.0000])
    """
    grads = _gradients(_listed("clip_grads_with_norm_", parameters))
    need_tensor("clip_grads_with_norm_", total_norm, "total_norm")
    if grads:
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        if factor.dtype.itemsize == 2:  # kernels multiply halves in float32
            factor = factor.to(float32)
        factors = {factor.device: factor}
        for g in grads:
            if g.device not in factors:
                factors[g.device] = factor.to(g.device)
        scale([x for g in grads for x in (_in_parts(g), factors[g.device])])


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scale gradients in place so that the norm of all of them together is at most `max_norm`.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient do not count.
    max_norm : float
    norm_type : float
        The order, see `get_total_norm`.
    error_if_nonfinite : bool
    foreach : bool, optional
        Changes nothing.

    Returns
    -------
    Tensor
        The norm as it was, 0-dim.

    Raises
    ------
    RuntimeError
        If the norm is infinite or NaN and `error_if_nonfinite` is set; the gradients stay as they are.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> fg.nn.utils.clip_grad_norm_([w], max_norm=1.0)
    tensor(10.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    listed = _listed("clip_grad_norm_", parameters)
    if not listed and isinstance(parameters, types.GeneratorType):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Deprecated name of `clip_grad_norm_`."""
    warnings.warn(
        "`fastgrad.nn.utils.clip_grad_norm` is now deprecated in favor of `fastgrad.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Bring the elements of gradients into the range from ``-clip_value`` to ``clip_value``, in place; NaN stays.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    clip_value : float
    foreach : bool, optional
        Changes nothing.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.tensor([3.0, -0.1], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> fg.nn.utils.clip_grad_value_(w, 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.2000])
    """
    clip(_gradients(_listed("clip_grad_value_", parameters)), float(clip_value))
