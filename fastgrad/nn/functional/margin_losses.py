"""Losses with a margin, and likelihoods of counts and of normal distributions: steps of other ops, as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_float, as_index, need_optional, need_tensor
from fastgrad.functions.autocasting import full_precision
from fastgrad.functions.creation import arange
from fastgrad.functions.elementwise import clamp, minimum
from fastgrad.functions.index import gather, index_select, where
from fastgrad.functions.likeness import ones_like, zeros_like
from fastgrad.functions.plans import planned
from fastgrad.functions.scattering import scatter_add
from fastgrad.functions.special import square
from fastgrad.nn.functional.activations import logsigmoid, relu
from fastgrad.nn.functional.distance import pairwise_distance
from fastgrad.nn.functional.pair_losses import reduced, same_sizes
from fastgrad.nn.functional.reduction import chosen_reduction

_EPSILON = 1e-12  # added to squared lengths


@planned
@full_precision
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """``max(0, -target (input1 - input2) + margin)``: the first of two is to rank higher where `target` is 1.

    Parameters
    ----------
    input1, input2, target : Tensor
        Of as many dimensions, which broadcast; targets are 1 or -1.
    margin : float
    reduction : "none", "mean" or "sum"

    Raises
    ------
    RuntimeError
        If the numbers of dimensions differ.
    """
    name = "margin_ranking_loss"
    for k, (called, x) in enumerate((("input1", input1), ("input2", input2), ("target", target))):
        need_tensor(name, x, called, k + 1)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"{name}(): All input tensors should have same dimension but got sizes: input1: {list(input1.shape)}, "
            f"input2: {list(input2.shape)}, target: {list(target.shape)}"
        )
    return reduced(clamp(-target * (input1 - input2) + as_float(name, "margin", margin), 0), kind)


@planned
@full_precision
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The input where `target` is 1, ``max(0, margin - input)`` where it is -1.

    Parameters
    ----------
    input : Tensor
        Distances.
    target : Tensor
        1 or -1.
    margin : float
    reduction : "none", "mean" or "sum"
    """
    name = "hinge_embedding_loss"
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    zeros = zeros_like(input.detach())
    beyond = where(target != 1, clamp(as_float(name, "margin", margin) - input, 0), zeros)
    return reduced(beyond + where(target != -1, input, zeros), kind)


@planned
@full_precision
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """``1 - cos`` of the angle of two vectors where `target` is 1, ``max(0, cos - margin)`` where it is -1.

    Parameters
    ----------
    input1, input2 : Tensor
        Of shape (N, D) or (D,).
    target : Tensor
        1 or -1, of shape (N,) or ().
    margin : float
    reduction : "none", "mean" or "sum"

    Raises
    ------
    RuntimeError
        If the shapes do not fit.
    """
    name = "cosine_embedding_loss"
    for k, (called, x) in enumerate((("input1", input1), ("input2", input2), ("target", target))):
        need_tensor(name, x, called, k + 1)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    if target.ndim not in (0, 1):
        raise RuntimeError(f"{name}(): 0D or 1D target tensor expected, multi-target not supported")
    rank = target.ndim + 1
    if input1.ndim != rank or input2.ndim != rank:
        raise RuntimeError(
            f"{name}(): {target.ndim}D target tensor expects {rank}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    products = (input1 * input2).sum(-1)
    squares = [(x * x).sum(-1) + _EPSILON for x in (input1, input2)]
    cosine = products / (squares[0] * squares[1]).sqrt()
    zeros = zeros_like(cosine.detach())
    alike = where(target == 1, 1 - cosine, zeros)
    apart = where(target == -1, clamp(cosine - as_float(name, "margin", margin), 0), zeros)
    return reduced(alike + apart, kind)


@planned
@full_precision
def soft_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """``log(1 + exp(-target input))``, with targets 1 or -1.

    Raises
    ------
    RuntimeError
        If shapes do not broadcast.
    """
    name = "soft_margin_loss"
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    input, target = same_sizes(name, input, target)
    return reduced((-input * target).exp().log1p(), kind)


@planned
@full_precision
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The mean over classes j but y of ``weight[y] max(0, margin - input[y] + input[j])**p``, with y the target.

    Parameters
    ----------
    input : Tensor
        Scores of shape (N, C) or (C,).
    target : Tensor
        Classes, of shape (N,) or ().
    p : 1 or 2
    margin : float
    weight : Tensor, optional
        A factor for each class.
    reduction : "none", "mean" or "sum"

    Raises
    ------
    ValueError
        If `p` is another number.
    RuntimeError
        If shapes do not fit or a target is no class.
    """
    name = "multi_margin_loss"
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    need_optional(name, weight, "weight", 5)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    if as_index(name, "p", p) not in (1, 2):
        raise ValueError(f"{name}(): only p == 1 and p == 2 supported, but got {p}")
    scores = input.reshape(1, -1) if input.ndim < 2 else input
    if input.ndim > 2 or not scores.shape[1] or target.ndim > 1 or target.numel() != len(scores):
        raise RuntimeError(
            f"{name}(): expected scores of shape (N, C) or (C), C not 0, and a class for each, but got "
            f"{list(input.shape)} and {list(target.shape)}"
        )
    classes = scores.shape[1]
    if weight is not None and (weight.ndim > 1 or weight.numel() != classes):
        raise RuntimeError(
            f"{name}(): inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    places = target.reshape(-1, 1)
    over = relu(scores - gather(scores, 1, places) + as_float(name, "margin", margin))
    over = over if p == 1 else over * over
    if weight is not None:
        over = over * index_select(weight.reshape(-1), 0, target.reshape(-1)).reshape(-1, 1)
    own = arange(classes, device=input.device) == places
    each = over.masked_fill(own, 0.0).sum(1) / classes
    return reduced(each.reshape(target.shape), kind) if kind == "none" else reduced(each, kind)


@planned
@full_precision
def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The sum of ``max(0, 1 - (input[y] - input[j]))`` over targets y and classes j that are none, over C.

    Parameters
    ----------
    input : Tensor
        Scores of shape (N, C) or (C,).
    target : Tensor
        Of the same shape: classes, up to the first -1.
    reduction : "none", "mean" or "sum"

    Raises
    ------
    RuntimeError
        If the shapes differ or a target is no class.
    """
    name = "multilabel_margin_loss"
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    if input.ndim > 2 or tuple(input.shape) != tuple(target.shape) or (input.ndim and not input.shape[-1]):
        raise RuntimeError(
            f"{name}(): Expected non-empty vector or matrix with optional 0-dim batch size and targets of the same "
            f"shape, but got: {list(input.shape)} and {list(target.shape)}"
        )
    scores, classes = (
        x.reshape(-1, x.shape[-1]) if x.ndim == 2 else x.reshape(1, -1) for x in (input, target)
    )
    counts = (classes < 0).to(dtypes.int64).cumsum(1) == 0
    places = classes.masked_fill(~counts, 0)
    marks = scatter_add(zeros_like(classes), 1, places, counts.to(classes.dtype)) > 0
    over = relu(1 - (gather(scores, 1, places).unsqueeze(2) - scores.unsqueeze(1)))
    used = counts.unsqueeze(2) & ~marks.unsqueeze(1)
    each = over.masked_fill(~used, 0.0).sum((1, 2)) / scores.shape[1]
    return reduced(each.reshape(input.shape[:-1]), kind) if kind == "none" else reduced(each, kind)


@planned
@full_precision
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The cross entropy of two classes for each of several labels, averaged over the labels.

    Parameters
    ----------
    input, target : Tensor
        Logits and zeros or ones, of shape (N, C).
    weight : Tensor, optional
        A factor for each label.
    reduction : "none", "mean" or "sum"
    """
    name = "multilabel_soft_margin_loss"
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    each = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if need_optional(name, weight, "weight", 3) is not None:
        each = each * weight
    return reduced(each.sum(-1) / input.shape[-1] if input.ndim else each, kind)


@planned
@full_precision
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The negative log likelihood of counts of a Poisson distribution, up to a constant.

    Parameters
    ----------
    input : Tensor
        The logarithm of the expected count, or the count itself if `log_input` is not set.
    target : Tensor
        Counts.
    full : bool
        Add Stirling's approximation of the constant.
    eps : float
        Added to counts before their logarithm is taken.
    reduction : "none", "mean" or "sum"
    """
    name = "poisson_nll_loss"
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    if log_input:
        each = input.exp() - target * input
    else:
        each = input - target * (input + as_float(name, "eps", eps)).log()
    if full:
        constant = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        each = each + constant.masked_fill(target <= 1, 0)
    return reduced(each, kind)


@full_precision
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """``(log(var) + (input - target)**2 / var) / 2``, the negative log likelihood of normal distributions.

    Parameters
    ----------
    input, target : Tensor
    var : Tensor or float
        Variances: one for each element, or one along the last dimension, or one.
    full : bool
        Add the constant ``log(2 pi) / 2``.
    eps : float
        The least variance; gradients pass it.
    reduction : "none", "mean" or "sum"

    Raises
    ------
    ValueError
        If a variance is negative or its shape does not fit.
    """
    name = "gaussian_nll_loss"
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    kind = chosen_reduction(name, reduction)
    if isinstance(var, float):
        var = ones_like(input.detach()) * var
    else:
        var = _spread(name, input, need_tensor(name, var, "var", 3))
    if bool((var.detach() < 0).any()):
        raise ValueError(f"{name}(): var has negative entry/entries")
    passed = var + (clamp(var.detach(), eps) - var.detach())
    each = 0.5 * (passed.log() + square(input - target) / passed)
    return reduced(each + 0.5 * math.log(2 * math.pi) if full else each, kind)


def _spread(name: str, input: Any, var: Any) -> Any:
    """Variances in a shape that broadcasts with the input."""
    sizes, own = tuple(input.shape), tuple(var.shape)
    if own == sizes:
        return var
    if sizes[:-1] == own:
        return var.unsqueeze(-1)
    fits = len(own) == len(sizes) and all(a in (b, 1) for a, b in zip(own, sizes, strict=True))
    if not fits:
        raise ValueError(f"{name}(): var is of incorrect size: {list(own)} beside an input of {list(sizes)}")
    return var


@planned
@full_precision
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """``max(0, |anchor - positive| - |anchor - negative| + margin)`` of vectors along the last dimension.

    Parameters
    ----------
    anchor, positive, negative : Tensor
        Of shape (N, D) or (D,).
    margin : float
    p : float
        The order of the norm.
    eps : float
        Added to each difference.
    swap : bool
        Take the distance of `positive` and `negative` where it is smaller than that of `anchor` and `negative`.
    reduction : "none", "mean" or "sum"

    Raises
    ------
    RuntimeError
        If the numbers of dimensions differ.
    ValueError
        If `margin` is not positive.
    """
    name = "triplet_margin_loss"
    kind = chosen_reduction(name, reduction, size_average, reduce)
    if as_float(name, "margin", margin) <= 0:
        raise ValueError(f"{name}(): margin must be greater than 0, got {margin}")
    return _triplet(name, anchor, positive, negative, margin, swap, kind, _norms(p, eps))


def _norms(p: float, eps: float) -> Callable[[Any, Any], Any]:
    return lambda a, b: pairwise_distance(a, b, p, eps)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with a distance of one's own.

    Parameters
    ----------
    anchor, positive, negative : Tensor
    distance_function : callable, optional
        Of two tensors; `pairwise_distance` if not given.
    margin : float
    swap : bool
    reduction : "none", "mean" or "sum"
    """
    name = "triplet_margin_with_distance_loss"
    kind = chosen_reduction(name, reduction)
    if as_float(name, "margin", margin) <= 0:
        raise ValueError(f"{name}(): margin must be greater than 0, got {margin}")
    return _triplet(
        name, anchor, positive, negative, margin, swap, kind, distance_function or pairwise_distance
    )


def _triplet(
    name: str,
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float,
    swap: bool,
    kind: str,
    distance: Callable[[Any, Any], Any],
) -> Any:
    for k, (called, x) in enumerate((("anchor", anchor), ("positive", positive), ("negative", negative))):
        need_tensor(name, x, called, k + 1)
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"{name}(): The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp(margin + near - far, 0), kind)
