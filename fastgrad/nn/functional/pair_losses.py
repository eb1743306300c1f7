"""Losses of two tensors, element by element."""

from __future__ import annotations

from typing import Any

from fastgrad.errors import renamed
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_float, need_optional, need_tensor, records
from fastgrad.functions.autocasting import full_precision, unsafe_on_gpus
from fastgrad.functions.plans import planned, warn
from fastgrad.functions.sampling import probabilities
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import FLOATS, INEXACT
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.activations import logsigmoid
from fastgrad.nn.functional.reduction import chosen_reduction
from fastgrad.ops.call import apply, invoke

_DTYPE = TENSOR.fields["dtype"][0]
_field, _sizes = rt.field, rt.sizes
_UNSAFE = (
    "fastgrad.nn.functional.binary_cross_entropy and fastgrad.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using fastgrad.nn.functional.binary_cross_entropy_with_logits\n"
    "or fastgrad.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


def _need_pair(name: str, input: Any, target: Any, dtypes: tuple[int, ...] = FLOATS) -> None:
    """Two tensors, one of them of one of the dtypes; a warning if sizes differ."""
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    if _sizes(target) != _sizes(input):
        warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=4,  # behind the loss and its decorator
        )
    if _field(input, _DTYPE) not in dtypes and _field(target, _DTYPE) not in dtypes:
        raise NotImplementedError(
            f"{name}(): not implemented for '{input.dtype.type_name}'; convert the operands to a floating-point dtype"
        )


def same_sizes(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Two tensors broadcast to the sizes that they have in common."""
    if _sizes(a) == _sizes(b):
        return a, b
    try:
        shape = (a.detach() == b.detach()).shape
    except RuntimeError as error:
        raise renamed(error, name) from error.__cause__
    left, right = (x if tuple(x.shape) == tuple(shape) else x.expand(shape) for x in (a, b))
    return left, right


def _loss(name: str, input: Any, target: Any, kind: str, *numbers: float) -> Any:
    """A loss by its op: each, or the mean or sum in one."""
    if _sizes(input) != _sizes(target):
        input, target = same_sizes(name, input, target)
    if kind == "none":
        return invoke(BY_NAME[name], (input, target, *numbers))
    op, divided = BY_NAME[f"{name}.{kind}"], int(kind == "mean")
    if not numbers:
        return apply(op.id, 2, 0, input, target, divided)
    return invoke(op, (input, target, *numbers), divided)


def reduced(each: Any, kind: str) -> Any:
    """The losses of elements, their mean or their sum."""
    return each if kind == "none" else each.mean() if kind == "mean" else each.sum()


def _need_weight(name: str, weight: Any, input: Any, position: int) -> Any:
    """The factors of a loss, if there are any, which have the sizes of the input."""
    if need_optional(name, weight, "weight", position) is not None and _sizes(weight) != _sizes(input):
        raise ValueError("Weights and input must have the same size.")
    return weight


def _weighted(each: Any, weight: Any, kind: str) -> Any:
    """Losses times weights; the mean is divided by the sum of the weights."""
    each = each * weight
    return each.sum() / weight.sum() if kind == "mean" else reduced(each, kind)


@planned
@full_precision
def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """The squared difference, each, summed or averaged.

    Parameters
    ----------
    input, target : Tensor
        Of shapes that broadcast; different sizes give a warning.
    reduction : "none", "mean" or "sum"
    weight : Tensor, optional
        A factor for each element.
    """
    _need_pair("mse_loss", input, target)
    kind = chosen_reduction("mse_loss", reduction, size_average, reduce)
    if weight is not None:
        _need_weight("mse_loss", weight, input, 6)
        return _weighted(_loss("mse_loss", input, target, "none"), weight, kind)
    return _loss("mse_loss", input, target, kind)


@planned
@full_precision
def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """The absolute difference, each, summed or averaged; also of complex numbers. See `mse_loss`."""
    need_tensor("l1_loss", input)
    _need_pair("l1_loss", input, target, INEXACT)
    kind = chosen_reduction("l1_loss", reduction, size_average, reduce)
    input, target = same_sizes("l1_loss", input, target)
    each = elementwise.absolute(input - target)
    if _need_weight("l1_loss", weight, input, 6) is None:
        return reduced(each, kind)
    return _weighted(each, weight, kind)


@planned
@full_precision
def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """``d**2 / (2 beta)`` where the difference d is smaller than `beta`, elsewhere ``|d| - beta / 2``.

    Raises
    ------
    RuntimeError
        If `beta` is negative.
    """
    _need_pair("smooth_l1_loss", input, target)
    kind = chosen_reduction("smooth_l1_loss", reduction, size_average, reduce)
    beta = as_float("smooth_l1_loss", "beta", beta)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss(): does not support negative values for beta, but got {beta}")
    if beta == 0:
        input, target = same_sizes("smooth_l1_loss", input, target)
        return reduced(elementwise.absolute(input - target), kind)
    return _loss("smooth_l1_loss", input, target, kind, beta)


@planned
@full_precision
def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """``d**2 / 2`` where the difference d is at most `delta`, elsewhere ``delta (|d| - delta / 2)`` (Huber 1964).

    Raises
    ------
    RuntimeError
        If `delta` is not positive.
    """
    _need_pair("huber_loss", input, target)
    kind = chosen_reduction("huber_loss", reduction)
    delta = as_float("huber_loss", "delta", delta)
    if delta <= 0:
        raise RuntimeError(f"huber_loss(): does not support non-positive values for delta, but got {delta}")
    if _need_weight("huber_loss", weight, input, 5) is None:
        return _loss("huber_loss", input, target, kind, delta)
    return reduced(_loss("huber_loss", input, target, "none", delta) * weight, kind)


@planned
@full_precision
def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """``target (log(target) - input)``, each, summed, averaged, or summed and divided by the batch size.

    Parameters
    ----------
    input : Tensor
        Logarithms of probabilities.
    target : Tensor
        Probabilities, or their logarithms if `log_target` is set.
    reduction : "none", "mean", "sum" or "batchmean"
    log_target : bool

    Raises
    ------
    ValueError
        If `reduction` is something else.
    """
    need_tensor("kl_div", input)
    need_tensor("kl_div", target, "target", 2)
    by_batch = reduction == "batchmean" and size_average is None and reduce is None
    if reduction == "mean" and size_average is None and reduce is None:
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.",
            stacklevel=3,  # behind the decorator
        )
    kind = chosen_reduction("kl_div", "sum" if by_batch else reduction, size_average, reduce)
    name = "kl_div.log_target" if log_target else "kl_div"
    if not records(input, target) and input.dtype is target.dtype and input.dtype.is_floating_point:
        out = _loss(name, input, target, kind)
    else:  # the formula on tensors, in steps
        out = reduced(BY_NAME[name].kernel.formula(input, target), kind)
    return out / input.shape[0] if by_batch and input.ndim else out


@planned
@unsafe_on_gpus(_UNSAFE)
@full_precision
def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """``-(t log(x) + (1 - t) log(1 - x))`` of probabilities; logarithms are no less than -100.

    Parameters
    ----------
    input : Tensor
        Probabilities, from 0 to 1.
    target : Tensor
        Probabilities, of the same size and dtype.
    weight : Tensor, optional
        A factor that broadcasts.
    reduction : "none", "mean" or "sum"

    Raises
    ------
    ValueError
        If sizes differ or `reduction` is unknown.
    RuntimeError
        If dtypes differ or an element is no probability.
    """
    need_tensor("binary_cross_entropy", input)
    need_tensor("binary_cross_entropy", target, "target", 2)
    need_optional("binary_cross_entropy", weight, "weight", 3)
    kind = chosen_reduction("binary_cross_entropy", reduction, size_average, reduce)
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(
            f"binary_cross_entropy(): Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if input.dtype is not target.dtype or not input.dtype.is_floating_point:
        raise RuntimeError(
            f"binary_cross_entropy(): Found dtype {target.dtype.type_name} but expected {input.dtype.type_name}, of "
            "floating point"
        )
    for called, operand in (("input", input), ("target", target)):
        probabilities(operand, f"binary_cross_entropy(): all elements of {called} should be between 0 and 1")
    if weight is None:
        return _loss("binary_cross_entropy", input, target, kind)
    return reduced(_loss("binary_cross_entropy", input, target, "none") * weight, kind)


@planned
@full_precision
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """`binary_cross_entropy` of ``sigmoid(input)``, without overflow.

    Parameters
    ----------
    input : Tensor
        Logits.
    target : Tensor
        Of the same size.
    weight, pos_weight : Tensor, optional
        A factor of the whole, and one of the part with target 1; both broadcast.
    reduction : "none", "mean" or "sum"

    Raises
    ------
    ValueError
        If sizes differ or `reduction` is unknown.
    """
    name = "binary_cross_entropy_with_logits"
    need_tensor(name, input)
    need_tensor(name, target, "target", 2)
    need_optional(name, weight, "weight", 3)
    need_optional(name, pos_weight, "pos_weight", 7)
    kind = chosen_reduction(name, reduction, size_average, reduce)
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(
            f"{name}(): Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    if weight is None and pos_weight is None:
        return _loss(name, input, target, kind)
    if pos_weight is None:
        each = _loss(name, input, target, "none")
    else:
        each = (1 - target) * input - ((pos_weight - 1) * target + 1) * logsigmoid(input)
    return reduced(each if weight is None else each * weight, kind)
