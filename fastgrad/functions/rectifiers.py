"""Activations that tensors have as methods, too."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.arguments import as_float, need_tensor
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.functions.shape import reshape
from fastgrad.native.build.loader import TensorBase
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke, invoke_with


def need_floating(name: str, input: Any) -> None:
    """Raise unless it is a tensor of a floating-point dtype."""
    if not isinstance(input, TensorBase):
        need_tensor(name, input)
    if not input.is_floating_point():
        raise NotImplementedError(
            f"{name}(): not implemented for '{input.dtype.type_name}'; convert it to a floating-point dtype first"
        )


@public()
@planned
@lower_precision
def prelu(input: Any, weight: Any) -> Any:
    """X where it is positive, elsewhere ``weight * x``.

    Parameters
    ----------
    input : Tensor
    weight : Tensor
        One element, or as many as `input` has channels (its dimension 1).

    Raises
    ------
    RuntimeError
        If the number of weights or the dtypes do not fit.
    """
    need_tensor("prelu", input)
    need_tensor("prelu", weight, "weight", 2)
    if input.dtype is not weight.dtype:
        raise RuntimeError(f"prelu(): Type promoting not supported. Got {input.dtype} and {weight.dtype}")
    count = weight.numel()
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or count not in (1, channels):
        raise RuntimeError(
            f"prelu(): Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} of "
            f"shape {list(weight.shape)} and channel size = {channels}."
        )
    if input.ndim != weight.ndim:
        weight = reshape(weight, [count if k == 1 else 1 for k in range(input.ndim)])
    return invoke(BY_NAME["prelu"], (input, weight))


@public()
@planned
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """X where its absolute value is above `lambd`, elsewhere zero."""
    need_floating("hardshrink", input)
    return invoke_with(BY_NAME["hardshrink"], input, as_float("hardshrink", "lambd", lambd))
