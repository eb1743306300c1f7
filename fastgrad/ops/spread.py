"""Variance, standard deviation, Euclidean length: sums of squares over dimensions."""

from __future__ import annotations

import math

from fastgrad.native.contracts.ops import FN_LENGTH, FN_NUMBER, FN_STD, FN_VAR, FUNCTION, NOT_DIFFERENTIABLE
from fastgrad.ops.call import float_of_bits, invoke
from fastgrad.ops.elementwise import masked, square
from fastgrad.ops.losses import mse_loss
from fastgrad.ops.reduce import expand_mean, expand_reduced, mean, restored
from fastgrad.ops.registry import Op
from fastgrad.ops.vocabulary import m

# A float that stands among the integers of a call, as a tensor.
number = Op("number", FUNCTION, ("x",), ("bits",), forward=FN_NUMBER, flags=NOT_DIFFERENTIABLE)


def _op(name, kernel, forward, node=None, called="", n_out=1):
    return Op(
        name, FUNCTION, ("x",), ("divisor", "keepdim", "*dims"), kernel=kernel, forward=forward, node=node,
        called=called, n_out=n_out,
    )  # fmt: skip


var = _op("var", mse_loss.kernel, FN_VAR)
std = _op("std", mse_loss.kernel, FN_STD)
var_mean = _op("var_mean", mse_loss.kernel, FN_VAR, n_out=2)
std_mean = _op("std_mean", mse_loss.kernel, FN_STD, n_out=2)
euclidean_norm = _op("euclidean_norm", square.kernel, FN_LENGTH, "LinalgVectorNormBackward0", called="norm")


def _deviation(x, divisor, dims):
    return (x - invoke(mean, (x,), 1, dims)) / invoke(number, (x,), divisor)


def _var_back(g, x, divisor, dims, sizes):
    return invoke(expand_reduced, (g,), sizes, dims) * (2.0 * _deviation(x, divisor, dims))


# As in PyTorch, where the value is zero, so is the gradient.


def _shared(g, y):
    return m.where(m.eq(y, 0.0), 0.0, g / y)


def _recorded_var_back(g, x, divisor, keepdim, dims, sizes):
    degrees = float_of_bits(divisor)
    factor = 2.0 / degrees if degrees else math.inf
    return factor * _partly(g, sizes, keepdim, dims) * (x - invoke(mean, (x,), 1, dims))


def _partly(x, sizes, keepdim, dims):
    """`restored`, unless it is one number anyway."""
    return x if len(dims) in (0, sizes[0]) else restored(x, sizes, keepdim, *dims)


def _std_back(g, x, y, divisor, dims, sizes):
    return invoke(expand_reduced, (_shared(g, y),), sizes, dims) * _deviation(x, divisor, dims)


def _recorded_std_back(g, x, y, divisor, keepdim, dims, sizes):
    g = masked(g / (y * 2.0), 0.0, m.eq(y, 0.0))
    return _recorded_var_back(g, x, divisor, keepdim, dims, sizes)


def _mean_back(g, dims, sizes):
    return invoke(expand_mean, (g,), sizes, dims)


for _alone, _with_mean, _back, _recorded in (
    (var, var_mean, _var_back, _recorded_var_back),
    (std, std_mean, _std_back, _recorded_std_back),
):
    _alone.vjp("x")(_back)
    _alone.recorded("x")(_recorded)
    _with_mean.vjp_sum("x", _back, _mean_back, recorded=(_recorded, _mean_back))


@euclidean_norm.vjp("x")
def _(g, x, y, dims, sizes):
    return x * invoke(expand_reduced, (_shared(g, y),), sizes, dims)


@euclidean_norm.recorded("x")
def _(g, x, y, keepdim, dims, sizes):
    length = _partly(y, sizes, keepdim, dims)
    return _partly(g, sizes, keepdim, dims) * masked(x / length, 0.0, m.eq(length, 0.0))
