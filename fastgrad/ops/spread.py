"""Variance, standard deviation, Euclidean length: sums of squares over dimensions."""

from __future__ import annotations

from fastgrad.native.contracts.ops import FN_LENGTH, FN_NUMBER, FN_STD, FN_VAR, FUNCTION, NOT_DIFFERENTIABLE
from fastgrad.ops.call import invoke
from fastgrad.ops.elementwise import square
from fastgrad.ops.losses import mse_loss
from fastgrad.ops.reduce import expand_reduced, mean
from fastgrad.ops.registry import Op
from fastgrad.ops.vocabulary import m

# A float that stands among the integers of a call, as a tensor.
number = Op("number", FUNCTION, ("x",), ("bits",), forward=FN_NUMBER, flags=NOT_DIFFERENTIABLE)


def _op(name, kernel, forward, node=None, called=""):
    return Op(
        name,
        FUNCTION,
        ("x",),
        ("divisor", "keepdim", "*dims"),
        kernel=kernel,
        forward=forward,
        node=node,
        called=called,
    )


var = _op("var", mse_loss.kernel, FN_VAR)
std = _op("std", mse_loss.kernel, FN_STD)
euclidean_norm = _op("euclidean_norm", square.kernel, FN_LENGTH, "LinalgVectorNormBackward0", called="norm")


def _deviation(x, divisor, dims):
    return (x - invoke(mean, (x,), 1, dims)) / invoke(number, (x,), divisor)


@var.vjp("x")
def _(g, x, divisor, dims, sizes):
    return invoke(expand_reduced, (g,), sizes, dims) * (2.0 * _deviation(x, divisor, dims))


# As in PyTorch, where the value is zero, so is the gradient.


def _shared(g, y):
    return m.where(m.eq(y, 0.0), 0.0, g / y)


@std.vjp("x")
def _(g, x, y, divisor, dims, sizes):
    return invoke(expand_reduced, (_shared(g, y),), sizes, dims) * _deviation(x, divisor, dims)


@euclidean_norm.vjp("x")
def _(g, x, y, dims, sizes):
    return x * invoke(expand_reduced, (_shared(g, y),), sizes, dims)
