"""Variance, standard deviation, Euclidean length: sums of squares over dimensions."""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import WIDE
from fastgrad.native.contracts.ops import (
    IN_FLOAT32,
    NOT_DIFFERENTIABLE,
    SHAPE_LENGTH,
    SHAPE_NUMBER,
    SHAPE_STD,
    SHAPE_VAR,
    STRUCTURED,
)
from fastgrad.ops.call import float_of_bits, invoke, is_traced
from fastgrad.ops.losses import mse_loss
from fastgrad.ops.reduce import expand_mean, mean, reduction_kernel, restored
from fastgrad.ops.registry import Op
from fastgrad.ops.vocabulary import m

# A float that stands among the integers of a call, as a tensor.
number = Op(
    "number", STRUCTURED, ("x",), integers.ONE_NUMBER.names, forward=SHAPE_NUMBER, flags=NOT_DIFFERENTIABLE
)


def _op(name, kernel, forward, node=None, called="", n_out=1):
    return Op(
        name, STRUCTURED, ("x",), (*integers.SPREAD.names, "*dims"), kernel=kernel, forward=forward, node=node,
        called=called, n_out=n_out, flags=IN_FLOAT32,
    )  # fmt: skip


var = _op("var", mse_loss.kernel, SHAPE_VAR)
std = _op("std", mse_loss.kernel, SHAPE_STD)
var_mean = _op("var_mean", mse_loss.kernel, SHAPE_VAR, n_out=2)
std_mean = _op("std_mean", mse_loss.kernel, SHAPE_STD, n_out=2)
euclidean_norm = _op(
    "euclidean_norm",
    reduction_kernel("length", WIDE),
    SHAPE_LENGTH,
    "LinalgVectorNormBackward0",
    called="norm",
)


# As in PyTorch, where the deviation or the length is zero, so is the gradient.


def _var_back(g, x, divisor, keepdim, dims, sizes):
    factor = m.div(2.0, _number(x, divisor))
    g = restored(g, sizes, keepdim, dims, number=False)
    deviation = x - invoke(mean, (x,), 1, dims)  # before what stands on its left, as in PyTorch
    return factor * g * deviation


def _number(x, bits):
    """A float among the integers of a call: as a tensor only while the rule is being traced."""
    return invoke(number, (x,), bits) if is_traced(x) else float_of_bits(bits)


def _std_back(g, x, y, divisor, keepdim, dims, sizes):
    g = m.masked_fill(g / (y * 2.0), 0.0, m.eq(y, 0.0))
    return _var_back(g, x, divisor, keepdim, dims, sizes)


def _mean_back(g, dims, sizes):
    return invoke(expand_mean, (g,), sizes, dims)


for _alone, _with_mean, _back in ((var, var_mean, _var_back), (std, std_mean, _std_back)):
    _alone.vjp("x")(_back)
    _with_mean.vjp_sum("x", _back, _mean_back)


@euclidean_norm.vjp("x")
def _(g, x, y, keepdim, dims, sizes):
    g = restored(g, sizes, keepdim, dims, number=False)
    length = restored(y, sizes, keepdim, dims, number=False)
    direction = m.masked_fill(x / length, 0.0, m.eq(length, 0.0))
    return g * direction
