"""Losses over classes."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import dtypes
from fastgrad.errors import renamed
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.autocasting import full_precision
from fastgrad.functions.plans import planned
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import FLOATS, UINT8
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.activations import log_softmax
from fastgrad.nn.functional.reduction import REDUCTIONS, chosen_reduction
from fastgrad.ops.call import apply

_NDIM, _DTYPE = TENSOR.fields["ndim"][0], TENSOR.fields["dtype"][0]
_field = rt.field
_NLL, _NLL_IMAGES = BY_NAME["nll_loss"].id, BY_NAME["nll_loss.images"].id
_LOG_SOFTMAX = BY_NAME["log_softmax"].id


@planned
@full_precision
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The negative log likelihood.

    Parameters
    ----------
    input : Tensor
        Log-probabilities of shape (C,), (N, C) or (N, C, d1, ...).
    target : Tensor
        Classes in 0..C-1, int64, of the shape of `input` without C.
    weight : Tensor, optional
        A factor for each class, shape (C,).
    ignore_index : int
        Targets of this value count for nothing.
    reduction : "none", "mean" or "sum"
        The mean is weighted.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        If batch sizes differ or `reduction` is unknown.
    IndexError
        If a target is no class.
    RuntimeError
        If dtypes or the shape of `weight` do not fit.
    """
    kind = REDUCTIONS[chosen_reduction("nll_loss", reduction, size_average, reduce)]
    need_tensor("nll_loss", input)
    if weight is not None:
        need_tensor("nll_loss", weight, "weight", 3)
    if _field(need_tensor("nll_loss", target, "target", 2), _DTYPE) == UINT8:
        target = target.to(dtypes.int64)
    if weight is None and _field(input, _NDIM) == 2 and _field(target, _NDIM) == 1:
        return apply(_NLL, 2, 0, input, target, kind, ignore_index)[0]
    return _nll_any(input, target, weight, kind, ignore_index)


def _nll_any(x: Any, target: Any, weight: Any, kind: int, ignore_index: int) -> Any:
    if x.ndim == 0:
        raise ValueError(
            "nll_loss(): expected an input of shape (C), (N, C) or (N, C, d1, ...), but got a 0-dim tensor"
        )
    classes = x.shape[0] if x.ndim == 1 else x.shape[1]
    if weight is not None and (weight.ndim != 1 or weight.shape[0] != classes):
        raise RuntimeError(
            f"nll_loss(): weight tensor should be defined either for all {classes} classes or no classes but "
            "got weight tensor of "
            f"shape: {list(weight.shape)}"
        )
    if weight is not None and weight.dtype is not x.dtype:
        raise RuntimeError(
            f"nll_loss(): expected weight of dtype {x.dtype.type_name} but found {weight.dtype.type_name}"
        )
    if weight is not None and weight.requires_grad:
        raise RuntimeError(
            "nll_loss(): the derivative for 'weight' is not implemented; pass weight.detach() if it is a constant"
        )
    if x.ndim == 1:
        if target.ndim != 0:
            raise RuntimeError(
                f"nll_loss(): for a 1D input the target must be 0D, but it has shape {list(target.shape)}"
            )
        shape: tuple[int, ...] = ()
    else:
        shape = tuple(target.shape)
        if x.shape[0] != (shape[0] if shape else 0):
            raise ValueError(
                f"nll_loss(): expected input batch_size ({x.shape[0]}) to match target batch_size "
                f"({shape[0] if shape else 0})"
            )
        if shape != (x.shape[0], *x.shape[2:]):
            raise RuntimeError(
                f"nll_loss(): expected target size {[x.shape[0], *x.shape[2:]]}, got {list(shape)}"
            )
    op = _NLL
    if x.ndim > 2:
        op = _NLL_IMAGES
        if x.ndim != 4:  # as in PyTorch, it is seen as images of one line
            places = math.prod(shape[1:])
            x, target = x.reshape(shape[0], classes, 1, places), target.reshape(shape[0], 1, places)
    operands = (x, target) if weight is None else (x, target, weight)
    out = apply(op, len(operands), 0, *operands, kind, ignore_index)[0]
    return out.reshape(shape) if kind == 0 and tuple(out.shape) != shape else out


@planned
@full_precision
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The cross entropy between logits and classes, or between logits and class probabilities.

    Parameters
    ----------
    input : Tensor
        Logits of shape (C,), (N, C) or (N, C, d1, ...).
    target : Tensor
        Classes (int64, the shape of `input` without C) or probabilities (the shape of `input`).
    weight : Tensor, optional
        A factor for each class.
    ignore_index : int
        Targets of this value count for nothing; not with probabilities.
    reduction : "none", "mean" or "sum"
    label_smoothing : float in [0, 1]
        The part of each target that is spread over all classes.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> logits = fg.zeros(2, 4)
    >>> fg.nn.functional.cross_entropy(logits, fg.tensor([0, 3]))
    tensor(1.3863)
    """
    need_tensor("cross_entropy", input)
    need_tensor("cross_entropy", target, "target", 2)
    if weight is not None:
        need_tensor("cross_entropy", weight, "weight", 3)
    ndim = _field(input, _NDIM)
    if ndim == 0:
        raise RuntimeError(
            "cross_entropy(): expected an input of at least one dimension, but got a 0-dim tensor"
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"cross_entropy(): label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        )
    dim = 0 if ndim == 1 else 1
    if _field(target, _DTYPE) in FLOATS and rt.sizes(target) == rt.sizes(input):
        kind = chosen_reduction("cross_entropy", reduction, size_average, reduce)
        return _soft_cross_entropy(input, target, weight, kind, label_smoothing, dim)
    try:
        if label_smoothing == 0.0:
            logs = apply(_LOG_SOFTMAX, 1, 0, input, dim, 0)
            return nll_loss(logs, target, weight, size_average, ignore_index, reduce, reduction)
        kind = chosen_reduction("cross_entropy", reduction, size_average, reduce)
        return _smoothed(input, target, weight, ignore_index, kind, label_smoothing, dim)
    except (RuntimeError, ValueError, IndexError) as error:
        raise renamed(error, "cross_entropy") from error.__cause__


def _smoothed(
    x: Any, target: Any, weight: Any, ignore_index: int, kind: str, smoothing: float, dim: int
) -> Any:
    logs = log_softmax(x, dim)
    classes = x.shape[dim]
    hard = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=kind)
    shape = [1] * x.ndim
    shape[dim] = classes
    spread = -(logs if weight is None else logs * weight.reshape(shape)).sum(dim)
    ignored = target == ignore_index
    spread = spread.masked_fill(ignored, 0.0)
    if kind == "mean":
        if weight is None:
            spread = spread.sum() / (~ignored).sum()
        else:
            spread = spread.sum() / weight[target.masked_fill(ignored, 0)].masked_fill(ignored, 0.0).sum()
    elif kind == "sum":
        spread = spread.sum()
    return hard * (1.0 - smoothing) + spread * (smoothing / classes)


def _soft_cross_entropy(x: Any, target: Any, weight: Any, kind: str, smoothing: float, dim: int) -> Any:
    classes = x.shape[dim]
    logs = log_softmax(x, dim)
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / classes
    each = logs * target
    if weight is not None:
        shape = [1] * x.ndim
        shape[dim] = classes
        each = each * weight.reshape(shape)
    each = -each.sum(dim)
    if kind == "none":
        return each
    return each.sum() / max(x.numel() // max(classes, 1), 1) if kind == "mean" else each.sum()
