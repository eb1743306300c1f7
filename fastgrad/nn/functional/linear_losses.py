"""The cross entropy of logits that are a linear map of samples, whole or in chunks that never exist together."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.engine import grad
from fastgrad.autograd.function import Function, once_differentiable
from fastgrad.autograd.modes import enable_grad
from fastgrad.functions.arguments import need_optional, need_tensor, need_type
from fastgrad.functions.likeness import zeros_like
from fastgrad.functions.shape import cat
from fastgrad.nn.functional.linear import linear
from fastgrad.nn.functional.losses import cross_entropy

_POLICIES = ("auto", "accurate", "balanced", "compact")
_SHRUNK_BY = 2  # what "auto" divides chunks by


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `nn.functional.linear_cross_entropy` divides the samples of a batch into chunks.

    Attributes
    ----------
    allow_retain_graph : bool
        PyTorch's; here a second pass is always possible.
    batch_chunk_size : int, optional
        Samples of a chunk.
    chunking_method : str, optional
        Instead: "aspect_ratio", chunks whose logits take about as much memory as the input, or "aspect_ratio:N", an
        N-th part of that; "auto" is the latter with 2, where no `batch_chunk_size` is given.
    acc_policy : str
        PyTorch's "auto", "accurate", "balanced" or "compact"; here gradients of all chunks are added up alike.
    acc_dtype : dtype, optional
        In which dtype chunks are computed; by default in that of the input.

    Raises
    ------
    ValueError
        If a value is none of these.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(
                f"invalid acc_policy: {self.acc_policy!r}; expected one of {', '.join(_POLICIES)}"
            )
        if self.chunking_method is not None and self.chunking_method != "auto":
            name, colon, parts = str(self.chunking_method).partition(":")
            if name != "aspect_ratio" or (colon and not (parts.isdecimal() and int(parts) > 0)):
                raise ValueError(
                    f"invalid chunking_method: {self.chunking_method!r}; expected 'auto', 'aspect_ratio' or "
                    "'aspect_ratio:N'"
                )
        size = self.batch_chunk_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        allowed = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
        if self.acc_dtype is not None and self.acc_dtype not in allowed:
            raise ValueError(f"acc_dtype must be None or a floating-point dtype, got {self.acc_dtype!r}")

    def chunk_size(self, samples: int, features: int, classes: int) -> int:
        """How many samples a chunk has.

        Raises
        ------
        ValueError
            If both are given, and they do not agree.
        """
        method, given = self.chunking_method, self.batch_chunk_size
        if method is None or (method == "auto" and given is not None):
            return max(1, min(samples, given or samples))
        parts = _SHRUNK_BY if method == "auto" else int(method.partition(":")[2] or 1)
        whole = math.ceil(samples / max(1, math.ceil(classes / max(1, features))))
        size = max(1, (1 << max(0, whole - 1).bit_length()) // parts)
        if given is not None and min(given, samples) != min(size, samples):
            raise ValueError(
                f"batch_chunk_size (={given}) and chunking_method ('{method}') give different chunk sizes "
                f"({given} vs {size}); pass only one."
            )
        return min(size, max(1, samples))


class _Chunked(Function):
    """The losses of samples, whose logits are computed again, a chunk at a time, when a gradient is asked for."""

    @staticmethod
    def forward(
        ctx: Any, x: Any, weight: Any, bias: Any, target: Any, classes: Any, ignored: int, size: int
    ) -> Any:
        ctx.save_for_backward(x, weight, bias, target, classes)
        ctx.ignored, ctx.size = ignored, size
        parts = zip(x.split(size), target.split(size), strict=True)
        return cat([_losses(rows, weight, bias, found, classes, ignored) for rows, found in parts])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, bias, target, classes = ctx.saved_tensors
        wanted = [k for k, asked in enumerate(ctx.needs_input_grad[:3]) if asked]
        sums: list[Any] = [None, *(None if t is None else zeros_like(t) for t in (weight, bias))]
        rows: list[Any] = []
        for part, found, slope in zip(
            x.split(ctx.size), target.split(ctx.size), g.split(ctx.size), strict=True
        ):
            leaves: list[Any] = [None if t is None else t.detach() for t in (part, weight, bias)]
            for k in wanted:
                leaves[k].requires_grad_()
            with enable_grad():
                losses = _losses(leaves[0], leaves[1], leaves[2], found, classes, ctx.ignored)
            for k, gradient in zip(wanted, grad(losses, [leaves[k] for k in wanted], slope), strict=True):
                if k == 0:
                    rows.append(gradient)
                else:
                    sums[k] += gradient
        sums[0] = cat(rows) if rows else None
        return *(sums[k] if k in wanted else None for k in range(3)), None, None, None, None


def _losses(x: Any, weight: Any, bias: Any, target: Any, classes: Any, ignored: int) -> Any:
    logits = linear(x, weight, bias)
    return cross_entropy(logits, target, classes, ignore_index=ignored, reduction="none")


def _in_chunks(
    x: Any, weight: Any, bias: Any, target: Any, classes: Any, reduction: str, ignored: int, options: Any
) -> Any:
    """The loss of a batch of samples by chunks."""
    size = options.chunk_size(x.shape[0], x.shape[1], weight.shape[0])
    wide = options.acc_dtype or x.dtype
    operands = [t if t is None else t.to(wide) for t in (x, weight, bias)]
    factors = None if classes is None else classes.to(wide)
    losses = _Chunked.apply(*operands, target, factors, ignored, size)
    if reduction != "none":
        kept = target != ignored
        losses, parts = losses.sum(), kept.sum() if factors is None else factors[target * kept][kept].sum()
        losses = losses / parts if reduction == "mean" else losses
    return losses.to(x.dtype)


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Any:
    """The cross entropy of ``linear(input, linear_weight, linear_bias)``.

    Parameters
    ----------
    input : Tensor
        Of shape (features,) or (N, features).
    linear_weight : Tensor
        Of shape (C, features) or (C, d1, ..., features); more than two dimensions are for batches alone.
    target : Tensor
        Classes, of shape (), (N,) or (N, d1, ...), or probabilities of the shape of the logits.
    linear_bias : Tensor, optional
        Of shape (C,) or (C, d1, ...).
    weight : Tensor, optional
        A factor for each class.
    reduction : "none", "mean" or "sum"
    ignore_index : int, optional
        Targets of this value, by default -100, count for nothing; not with probabilities.
    label_smoothing : float in [0, 1]
        The part of each target that is spread over all classes.
    options : LinearCrossEntropyOptions, optional
        Computes the logits in chunks, forward and again backward, so that they never exist together. For classes,
        without smoothing and further dimensions; elsewhere it is left out, with a warning. First derivatives only.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If sizes do not fit, or `ignore_index` is given beside probabilities.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x, weight, target = fg.ones(4, 3), fg.zeros(5, 3), fg.tensor([0, 1, 2, 4])
    >>> fg.nn.functional.linear_cross_entropy(x, weight, target)
    tensor(1.6094)
    """
    logits = _logits_shape(input, linear_weight, target, linear_bias)
    if options is not None:
        need_type("linear_cross_entropy", options, LinearCrossEntropyOptions, "options")
    likely = target.shape == logits
    if likely and ignore_index is not None:
        raise RuntimeError(
            "linear_cross_entropy(): ignore_index cannot be specified when target contains probabilities"
        )
    ignored = -100 if ignore_index is None else ignore_index
    plain = len(linear_weight.shape) == 2 and target.dtype is dtypes.int64 and label_smoothing == 0.0
    if options is not None and not (plain and reduction in ("none", "mean", "sum")):
        warnings.warn(
            "linear_cross_entropy(): `options` is left out: chunks are for classes of int64, without label_smoothing "
            "and with weights of two dimensions",
            stacklevel=2,
        )
    elif options is not None and tuple(target.shape) == logits[:-1]:  # others are refused below
        need_optional("linear_cross_entropy", weight, "weight", 5)
        rows, found = (input, target) if input.dim() == 2 else (input.unsqueeze(0), target.unsqueeze(0))
        loss = _in_chunks(rows, linear_weight, linear_bias, found, weight, reduction, ignored, options)
        return loss if input.dim() == 2 or reduction != "none" else loss.squeeze(0)
    flat = linear_weight.reshape(-1, linear_weight.shape[-1])
    found = linear(input, flat, None if linear_bias is None else linear_bias.reshape(-1)).reshape(logits)
    return cross_entropy(
        found, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _logits_shape(x: Any, weight: Any, target: Any, bias: Any) -> tuple[int, ...]:
    """The sizes of the logits; raises where operands do not fit."""
    name = "linear_cross_entropy"
    need_tensor(name, x)
    need_tensor(name, weight, "linear_weight", 2)
    need_tensor(name, target, "target", 3)
    if x.dim() not in (1, 2):
        raise RuntimeError(f"{name}(): expected input with dimensionality 1 or 2, got {x.dim()}")
    if weight.dim() < 2:
        raise RuntimeError(
            f"{name}(): expected linear_weight with dimensionality at least 2, got {weight.dim()}"
        )
    if x.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"{name}(): expected equal input and linear_weight last dimensions (in_features), got {x.shape[-1]} and "
            f"{weight.shape[-1]}, respectively"
        )
    outer = tuple(weight.shape[:-1])
    if bias is not None and tuple(need_tensor(name, bias, "linear_bias").shape) != outer:
        raise RuntimeError(f"{name}(): expected linear_bias shape {outer}, got {tuple(bias.shape)}")
    if len(outer) > 1 and x.dim() == 1:
        raise RuntimeError(
            f"{name}(): linear_weight of shape {tuple(weight.shape)} requires batched input, (N, {x.shape[-1]}), got "
            f"unbatched input with shape {tuple(x.shape)}"
        )
    return (*x.shape[:-1], *outer)
