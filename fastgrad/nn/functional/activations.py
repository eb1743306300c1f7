"""Activation functions."""

from __future__ import annotations

import warnings
from typing import Any

from fastgrad.functions import elementwise, reduce
from fastgrad.functions.arguments import as_float, need_tensor
from fastgrad.functions.autocasting import lower_precision
from fastgrad.functions.plans import planned
from fastgrad.functions.shape import reshape
from fastgrad.native.build.loader import TensorBase
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply, invoke, invoke_with

_RELU, _GELU, _GELU_TANH = (BY_NAME[name].id for name in ("relu", "gelu", "gelu_tanh"))


def relu(input: Any, inplace: bool = False) -> Any:
    """``max(input, 0)``, element by element."""
    if inplace:
        return need_tensor("relu", input).relu_()
    return apply(_RELU, 1, 0, input)


def tanh(input: Any) -> Any:
    """The hyperbolic tangent, element by element."""
    return elementwise.tanh(input)


def sigmoid(input: Any) -> Any:
    """``1 / (1 + exp(-input))``, element by element."""
    return elementwise.sigmoid(input)


def _activation(name: str, op: str, input: Any, inplace: bool, *numbers: Any) -> Any:
    if not isinstance(input, TensorBase):
        need_tensor(name, input)
    if inplace:
        return elementwise.write(f"{name}_", BY_NAME[op], input, *numbers)
    return invoke_with(BY_NAME[op], input, *numbers)


@planned
def gelu(input: Any, approximate: str = "none") -> Any:
    """``x Phi(x)`` with the normal distribution function Phi (Hendrycks, Gimpel 2016).

    Parameters
    ----------
    input : Tensor
    approximate : "none" or "tanh"
        With "tanh" ``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))``.

    Raises
    ------
    RuntimeError
        If `approximate` is something else.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.gelu(fg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(
            f"gelu(): approximate argument must be either none or tanh, but got {approximate!r}"
        )
    need_tensor("gelu", input)
    _need_floating("gelu", input)
    return apply(_GELU if approximate == "none" else _GELU_TANH, 1, 0, input)


def _need_floating(name: str, input: Any) -> None:
    if not isinstance(input, TensorBase):
        need_tensor(name, input)
    if not input.is_floating_point():
        raise NotImplementedError(
            f"{name}(): not implemented for '{input.dtype.type_name}'; convert it to a floating-point dtype first"
        )


@planned
def silu(input: Any, inplace: bool = False) -> Any:
    """``x sigmoid(x)``, element by element; also called swish."""
    _need_floating("silu", input)
    return _activation("silu", "silu", input, inplace)


@planned
def mish(input: Any, inplace: bool = False) -> Any:
    """``x tanh(softplus(x))``, element by element (Misra 2019)."""
    _need_floating("mish", input)
    return _activation("mish", "mish", input, inplace)


@planned
def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    """``log(1 + exp(beta x)) / beta``, and x itself where ``beta x`` is above the threshold."""
    _need_floating("softplus", input)
    beta, threshold = as_float("softplus", "beta", beta), as_float("softplus", "threshold", threshold)
    return _activation("softplus", "softplus", input, False, beta, threshold)


@planned
def logsigmoid(input: Any) -> Any:
    """The logarithm of `sigmoid`, without cancellation."""
    _need_floating("logsigmoid", input)
    buffer = invoke(BY_NAME["log_sigmoid_buffer"], (input,))
    return _activation("logsigmoid", "log_sigmoid", input, False, buffer)


@planned
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """X where it is positive, elsewhere ``negative_slope * x``."""
    _need_floating("leaky_relu", input)
    slope = as_float("leaky_relu", "negative_slope", negative_slope)
    return _activation("leaky_relu", "leaky_relu", input, inplace, slope)


@planned
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """X where it is positive, elsewhere ``alpha (exp(x) - 1)``."""
    _need_floating("elu", input)
    return _activation("elu", "elu", input, inplace, as_float("elu", "alpha", alpha))


@planned
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """X bounded by `min_val` and `max_val`; at a bound and beyond the gradient is zero.

    Raises
    ------
    ValueError
        If the bounds cross.
    """
    if min_val > max_val:
        raise ValueError(
            f"hardtanh(): min_val cannot be greater than max_val, but got {min_val} and {max_val}"
        )
    return _activation("hardtanh", "hardtanh", input, inplace, min_val, max_val)


@planned
def relu6(input: Any, inplace: bool = False) -> Any:
    """``min(max(x, 0), 6)``, element by element."""
    return _activation("relu6", "hardtanh", input, inplace, 0, 6)


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


@planned
def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``exp(x) / sum(exp(x))`` along a dimension."""
    return reduce._softmax("softmax", input, _implicit(dim, input, "softmax", _stacklevel), dtype)


@planned
def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return reduce._softmax("log_softmax", input, _implicit(dim, input, "log_softmax", _stacklevel), dtype)


def _implicit(dim: int | None, input: Any, name: str, level: int) -> int:
    """The dimension, or the one of old, with a warning, where none is given."""
    if dim is None:
        ndim = need_tensor(name, input).dim()
        dim = 0 if ndim in (0, 1, 3) else 1
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
            "argument.",
            stacklevel=level,
        )
    return dim
