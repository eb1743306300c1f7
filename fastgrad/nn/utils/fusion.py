"""A layer together with the batch normalisation behind it, as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from fastgrad.functions.arguments import need_optional, need_tensor, need_type
from fastgrad.functions.likeness import ones_like, zeros_like
from fastgrad.nn.modules.batchnorm import NormOfChannels
from fastgrad.nn.modules.conv import _ConvNd
from fastgrad.nn.modules.linear import Linear
from fastgrad.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

_ConvT = TypeVar("_ConvT", bound=_ConvNd)
_LinearT = TypeVar("_LinearT", bound=Linear)


def _need_evaluation(name: str, layer: Any, kind: type, bn: Any) -> None:
    need_type(name, layer, kind, "linear" if kind is Linear else "conv")
    need_type(name, bn, NormOfChannels, "bn", 2)
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: _ConvT, bn: Any, transpose: bool = False) -> _ConvT:
    """A convolution that does what one does with the batch normalisation behind it.

    Parameters
    ----------
    conv : Module
        A convolution, in evaluation mode.
    bn : Module
        Batch normalisation with running statistics, in evaluation mode.
    transpose : bool
        Whether `conv` is a transposed one.

    Returns
    -------
    Module
        Another one, of the class of `conv`.

    Raises
    ------
    AssertionError
        If one is in training mode, or there are no running statistics.

    Examples
    --------
    >>> import fastgrad as fg
    >>> conv, bn = fg.nn.Conv1d(2, 3, 1).eval(), fg.nn.BatchNorm1d(3).eval()
    >>> fg.nn.utils.fuse_conv_bn_eval(conv, bn)
    Conv1d(2, 3, kernel_size=(1,), stride=(1,))
    """
    _need_evaluation("fuse_conv_bn_eval", conv, _ConvNd, bn)
    out = copy.deepcopy(conv)
    out.weight, out.bias = fuse_conv_bn_weights(
        out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return out


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that also normalises: ``w s`` and ``(b - mean) s + bn_b``, ``s = bn_w / std``.

    Parameters
    ----------
    conv_w : Tensor
    conv_b : Tensor, optional
    bn_rm, bn_rv : Tensor
        The running mean and variance.
    bn_eps : float
    bn_w, bn_b : Tensor, optional
        Weight and bias of the normalisation.
    transpose : bool
        Whether the outputs are the second dimension of `conv_w`.

    Returns
    -------
    (Parameter, Parameter)
    """
    where = [1] * need_tensor("fuse_conv_bn_weights", conv_w, "conv_w").dim()
    where[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, where)


def fuse_linear_bn_eval(linear: _LinearT, bn: Any) -> _LinearT:
    """A linear layer that does what one does with the batch normalisation behind it.

    Parameters
    ----------
    linear : Linear
        In evaluation mode.
    bn : Module
        Batch normalisation with running statistics, in evaluation mode; of as many features, or one.

    Returns
    -------
    Linear
        Another one.

    Raises
    ------
    AssertionError
        If one is in training mode, there are no running statistics, or features do not fit.
    """
    _need_evaluation("fuse_linear_bn_eval", linear, Linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    out = copy.deepcopy(linear)
    out.weight, out.bias = fuse_linear_bn_weights(
        out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return out


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer that also normalises; see `fuse_conv_bn_weights`."""
    need_tensor("fuse_linear_bn_weights", linear_w, "linear_w")
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fused(
    weight: Any, bias: Any, mean: Any, variance: Any, eps: float, bn_w: Any, bn_b: Any, where: list[int]
) -> tuple[Parameter, Parameter]:
    """The parameters of the layer; `where` is the shape of what multiplies the weight."""
    for given, name, position in ((mean, "bn_rm", 3), (variance, "bn_rv", 4)):
        need_tensor("fuse_bn_weights", given, name, position)
    for given, name, position in ((bias, "bias", 2), (bn_w, "bn_w", 6), (bn_b, "bn_b", 7)):
        need_optional("fuse_bn_weights", given, name, position)
    dtype = weight.dtype if bias is None else bias.dtype
    bias = zeros_like(mean) if bias is None else bias
    bn_w = ones_like(mean) if bn_w is None else bn_w
    bn_b = zeros_like(mean) if bn_b is None else bn_b
    factor = bn_w * (variance + eps).rsqrt()
    new_weight = (weight * factor.reshape(where)).to(weight.dtype)
    new_bias = ((bias - mean) * factor + bn_b).to(dtype)
    return (
        Parameter(new_weight.detach(), weight.requires_grad),
        Parameter(new_bias.detach(), bias.requires_grad),
    )
