"""Losses with kernels of their own."""

from __future__ import annotations

from fastgrad.native.layout import (
    FIRST,
    FN_MSE,
    FN_NLL,
    FN_NLL_BACKWARD,
    FUNCTION,
    ONE_DIFFERENTIABLE,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.reduce import expand_mean, expand_reduced
from fastgrad.ops.registry import Kernel, Op, elementwise
from fastgrad.ops.shape import zeros_of
from fastgrad.ops.vocabulary import c

nll_loss = Op(
    "nll_loss", FUNCTION, ("x", "target", "weight"), ("reduction", "ignore_index"), edges=1,
    kernel=Kernel("nll_loss", "losses:nll"), forward=FN_NLL, n_out=2, flags=ONE_DIFFERENTIABLE,
)  # fmt: skip
nll_loss_backward = Op(
    "nll_loss_backward", FUNCTION, ("v", "x", "target", "weight", "total"),
    ("reduction", "ignore_index", "*plan"), edges=2,
    kernel=Kernel("nll_loss_backward", "losses:nll_backward"), forward=FN_NLL_BACKWARD,
)  # fmt: skip


@nll_loss.vjp("x")
def _(g, x, target, weight, y1, reduction, ignore_index, sizes):
    return invoke(nll_loss_backward, (g, x, target, weight, y1), reduction, ignore_index, sizes)


@nll_loss_backward.vjp("v")
def _(g, target, weight, reduction, ignore_index):
    # The loss is linear in its input: its derivative applied to a direction is the loss of that direction.
    loss = invoke(nll_loss, (g, target, weight), reduction, ignore_index)
    return loss[0] if isinstance(loss, tuple) else loss


@nll_loss_backward.vjp("x")
def _(g, sizes):
    return invoke(zeros_of, (g,), sizes)


# --- squared differences ---------------------------------------------------------------------------------------


@elementwise("mse_loss")
def mse_loss(a, b):
    return (a - b) * (a - b)


@elementwise("mse_loss_backward", rule=FIRST)
def mse_loss_backward(v, a, b):
    return c(2) * (a - b) * v


@mse_loss.vjp("a")
def _(g, a, b):
    return invoke(mse_loss_backward, (g, a, b))


@mse_loss.vjp("b")
def _(g, a, b):
    return invoke(mse_loss_backward, (g, b, a))


@mse_loss_backward.vjp("v")
def _(g, a, b):
    return invoke(mse_loss_backward, (g, a, b))


@mse_loss_backward.elementwise_vjp("a")
def _(g, v):
    return c(2) * g * v


@mse_loss_backward.elementwise_vjp("b")
def _(g, v):
    return c(-2) * g * v


def _reduced(name, expanded):
    op = Op(name, FUNCTION, ("a", "b"), ("mean",), kernel=mse_loss.kernel, forward=FN_MSE, node=mse_loss.node)

    @op.vjp("a")
    def _(g, a, b, sizes):
        return invoke(mse_loss_backward, (invoke(expanded, (g,), sizes), a, b))

    @op.vjp("b")
    def _(g, a, b, sizes):
        return invoke(mse_loss_backward, (invoke(expanded, (g,), sizes), b, a))


_reduced("mse_loss.mean", expand_mean)
_reduced("mse_loss.sum", expand_reduced)
