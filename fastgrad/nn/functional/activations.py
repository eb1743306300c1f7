"""Activation functions."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import dtypes
from fastgrad.functions import elementwise, reduce
from fastgrad.functions.arguments import as_float, as_index, need_tensor
from fastgrad.functions.likeness import empty_like, ones_like, zeros_like
from fastgrad.functions.plans import planned, warn
from fastgrad.functions.public import public
from fastgrad.functions.rectifiers import need_floating
from fastgrad.functions.reduce import argmax
from fastgrad.functions.scattering import scatter_add
from fastgrad.functions.shape import split
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
    need_floating("gelu", input)
    return apply(_GELU if approximate == "none" else _GELU_TANH, 1, 0, input)


@planned
def silu(input: Any, inplace: bool = False) -> Any:
    """``x sigmoid(x)``, element by element; also called swish."""
    if need_tensor("silu", input).is_complex():
        return input.mul_(sigmoid(input)) if inplace else input * sigmoid(input)
    need_floating("silu", input)
    return _activation("silu", "silu", input, inplace)


@planned
def mish(input: Any, inplace: bool = False) -> Any:
    """``x tanh(softplus(x))``, element by element (Misra 2019)."""
    need_floating("mish", input)
    return _activation("mish", "mish", input, inplace)


@planned
def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    """``log(1 + exp(beta x)) / beta``, and x itself where ``beta x`` is above the threshold."""
    need_floating("softplus", input)
    beta, threshold = as_float("softplus", "beta", beta), as_float("softplus", "threshold", threshold)
    return _activation("softplus", "softplus", input, False, beta, threshold)


@planned
def logsigmoid(input: Any) -> Any:
    """The logarithm of `sigmoid`, without cancellation."""
    need_floating("logsigmoid", input)
    buffer = invoke(BY_NAME["log_sigmoid_buffer"], (input,))
    return _activation("logsigmoid", "log_sigmoid", input, False, buffer)


@planned
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """X where it is positive, elsewhere ``negative_slope * x``."""
    need_floating("leaky_relu", input)
    slope = as_float("leaky_relu", "negative_slope", negative_slope)
    return _activation("leaky_relu", "leaky_relu", input, inplace, slope)


@planned
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """X where it is positive, elsewhere ``alpha (exp(x) - 1)``."""
    need_floating("elu", input)
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
    if not need_tensor("hardtanh", input).is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return _activation("hardtanh", "hardtanh", input, inplace, min_val, max_val)


@planned
def relu6(input: Any, inplace: bool = False) -> Any:
    """``min(max(x, 0), 6)``, element by element."""
    return _activation("relu6", "hardtanh", input, inplace, 0, 6)


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
        warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
            "argument.",
            stacklevel=level,
        )
    return dim


@planned
def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """``min(max(x + 3, 0), 6) / 6``, element by element."""
    need_floating("hardsigmoid", input)
    return _activation("hardsigmoid", "hardsigmoid", input, inplace)


@planned
def hardswish(input: Any, inplace: bool = False) -> Any:
    """``x min(max(x + 3, 0), 6) / 6``, element by element (Howard et al. 2019)."""
    need_floating("hardswish", input)
    return _activation("hardswish", "hardswish", input, inplace)


@planned
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """X moved towards zero by `lambd`, and zero where it is nearer.

    Raises
    ------
    RuntimeError
        If `lambd` is negative.
    """
    need_floating("softshrink", input)
    lambd = as_float("softshrink", "lambd", lambd)
    if not lambd >= 0:
        raise RuntimeError(f"softshrink(): lambda must be greater or equal to 0, but found to be {lambd}")
    return _activation("softshrink", "softshrink", input, False, lambd)


@public(method=False)
@planned
def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """X where it is above `threshold`, elsewhere `value`.

    Parameters
    ----------
    input : Tensor
        Of numbers.
    threshold, value : number
        For a tensor of integers rounded towards zero.
    inplace : bool
        Change `input` itself.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.threshold(fg.tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    need_tensor("threshold", input)
    bound, other = as_float("threshold", "threshold", threshold), as_float("threshold", "value", value)
    if input.dtype is dtypes.bool_:
        raise NotImplementedError(
            "threshold(): not implemented for 'Bool'; convert the mask to a number first"
        )
    if not input.dtype.is_floating_point:
        return _activation("threshold", "threshold", input, inplace, int(threshold), int(value))
    return _activation("threshold", "threshold", input, inplace, bound, other)


@public(method=False)
@planned
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """X where it is positive, elsewhere ``alpha (exp(x / alpha) - 1)`` (Barron 2017).

    Raises
    ------
    RuntimeError
        If `alpha` is 0.
    """
    need_floating("celu", input)
    alpha = as_float("celu", "alpha", alpha)
    if alpha == 0:
        raise RuntimeError("celu(): alpha must not be 0")
    return _activation("celu", "celu", input, inplace, alpha)


@public(method=False)
@planned
def selu(input: Any, inplace: bool = False) -> Any:
    """`elu` with the two numbers that keep mean and variance (Klambauer et al. 2017)."""
    need_floating("selu", input)
    return _activation("selu", "selu", input, inplace)


@planned
def softsign(input: Any) -> Any:
    """``x / (1 + |x|)``, element by element; integers give floats."""
    x = need_tensor("softsign", input)
    return x / (elementwise.absolute(x) + 1)


@planned
def tanhshrink(input: Any) -> Any:
    """``x - tanh(x)``, element by element; integers give floats."""
    x = need_tensor("tanhshrink", input)
    return x - elementwise.tanh(x)


@planned
def glu(input: Any, dim: int = -1) -> Any:
    """The first half of a tensor times the sigmoid of the second one (Dauphin et al. 2017).

    Parameters
    ----------
    input : Tensor
    dim : int
        The dimension to halve.

    Raises
    ------
    RuntimeError
        If its size is odd or there is no dimension.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.glu(fg.tensor([2.0, 3.0, 0.0, 0.0]))
    tensor([1.0000, 1.5000])
    """
    x = need_tensor("glu", input)
    if x.ndim == 0:
        raise RuntimeError("glu(): glu does not support scalars because halving size must be even")
    dim = as_index("glu", "dim", dim)
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(
            f"glu(): Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but got {dim})"
        )
    size = x.shape[dim]
    if size % 2:
        raise RuntimeError(f"glu(): Halving dimension must be even, but dimension {dim} is size {size}")
    need_floating("glu", x)
    return invoke(BY_NAME["glu"], split(x, size // 2, dim) if size else (x, x))


@public(method=False)
def rrelu(
    input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Any:
    """X where it is positive, elsewhere x times a random number, drawn for each element (Xu et al. 2015).

    Parameters
    ----------
    input : Tensor
    lower, upper : float
        Between which the factors are drawn, uniformly.
    training : bool
        Otherwise the factor is the mean of the two.
    inplace : bool
        Change `input` itself.

    Raises
    ------
    RuntimeError
        If the bounds cross or are not finite.
    """
    need_floating("rrelu", input)
    low, high = as_float("rrelu", "lower", lower), as_float("rrelu", "upper", upper)
    for name, bound in (("lower", low), ("upper", high)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu(): {name} bound must be finite, got {bound}")
    if low > high:
        raise RuntimeError("rrelu(): Lower bound should be less than or equal to the upper bound")
    if not training:
        return _activation("rrelu", "leaky_relu", input, inplace, (low + high) / 2)
    x = input.detach()
    noise = empty_like(x).uniform_(low, high).masked_fill_(~(x <= 0), 1.0)
    return input.mul_(noise) if inplace else input * noise


@planned
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """`softmax` of ``-input`` along a dimension."""
    dim = _implicit(dim, input, "softmin", _stacklevel)
    return reduce._softmax("softmax", -need_tensor("softmin", input), dim, dtype)


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """Samples of a smooth stand-in for the distribution over classes (Jang et al. 2017, Maddison et al. 2017).

    Parameters
    ----------
    logits : Tensor
        Logarithms of probabilities, not normalised.
    tau : float
        The smaller, the nearer are samples to ones and zeros.
    hard : bool
        Give ones and zeros, with the gradients of the smooth samples.
    eps : float
        Without effect; there for programs of old.
    dim : int
        That of the classes.

    Returns
    -------
    Tensor
        Sums up to one along `dim`.
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    x = need_tensor("gumbel_softmax", logits)
    gumbels = -(zeros_like(x).exponential_().log())
    soft = softmax((x + gumbels) / tau, dim)
    if not hard:
        return soft
    index = argmax(soft.detach(), dim, keepdim=True)
    ones = scatter_add(zeros_like(x), dim, index, ones_like(index, dtype=x.dtype))
    return ones - soft.detach() + soft


def relu_(input: Any) -> Any:
    """`relu`, in place."""
    return relu(input, inplace=True)


@public(method=False)
def celu_(input: Any, alpha: float = 1.0) -> Any:
    """`celu`, in place."""
    return celu(input, alpha, True)


@public(method=False)
def selu_(input: Any) -> Any:
    """`selu`, in place."""
    return selu(input, True)


def elu_(input: Any, alpha: float = 1.0) -> Any:
    """`elu`, in place."""
    return elu(input, alpha, True)


def leaky_relu_(input: Any, negative_slope: float = 0.01) -> Any:
    """`leaky_relu`, in place."""
    return leaky_relu(input, negative_slope, True)


def hardtanh_(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """`hardtanh`, in place."""
    return hardtanh(input, min_val, max_val, True)


@public(method=False)
def threshold_(input: Any, threshold: float, value: float) -> Any:
    """`threshold`, in place."""
    return _threshold(input, threshold, value, True)


@public(method=False)
def rrelu_(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """`rrelu`, in place."""
    return rrelu(input, lower, upper, training, True)


_threshold = threshold
