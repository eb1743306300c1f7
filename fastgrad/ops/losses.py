"""Losses with kernels of their own."""

from __future__ import annotations

import inspect

from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.frames.losses import NLL, NLL_BACKWARD
from fastgrad.native.contracts.ops import (
    FIRST,
    ONE_DIFFERENTIABLE,
    SHAPE_NLL,
    SHAPE_NLL_BACKWARD,
    SHAPE_REDUCED,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.reduce import expand_mean, expand_reduced
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.shape import zeros_of
from fastgrad.ops.vocabulary import c, m

PAIR = "self target"  # PyTorch's names of what losses of two tensors take

nll_loss = Op(
    "nll_loss", STRUCTURED, ("x", "target", "weight?"), ("reduction", "ignore_index"), edges=1,
    kernel=Kernel("nll_loss", "losses:nll", frame=NLL, dtypes=FLOATS), forward=SHAPE_NLL, n_out=2,
    flags=ONE_DIFFERENTIABLE,
    saved_as="self target weight -> output total_weight",
)  # fmt: skip
nll_loss_backward = Op(
    "nll_loss_backward", STRUCTURED, ("v", "x", "target", "weight?", "total"),
    ("reduction", "ignore_index", "*plan"), edges=2,
    kernel=Kernel("nll_loss_backward", "losses:nll_backward", frame=NLL_BACKWARD, dtypes=FLOATS),
    forward=SHAPE_NLL_BACKWARD,
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


@elementwise("mse_loss", dtypes=FLOATS, saved_as=PAIR)
def mse_loss(a, b):
    return (a - b) * (a - b)


@elementwise("mse_loss_backward", rule=FIRST, node="MseLossBackwardBackward0", saved_as=f"grad_output {PAIR}")
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


# --- other losses of two tensors -------------------------------------------------------------------------------


@elementwise("smooth_l1_loss", dtypes=FLOATS, edges=2, saved_as=f"{PAIR} beta")
def smooth_l1_loss(a, b, beta):
    d = m.abs(a - b)
    return m.where(d < beta, c(0.5) * d * d / beta, d - c(0.5) * beta)


@smooth_l1_loss.elementwise_vjp("a", node="SmoothL1LossBackwardBackward0")
def smooth_l1_loss_backward(g, a, b, beta):
    d = a - b
    return g * m.where(m.abs(d) < beta, d / beta, m.sign(d))


@smooth_l1_loss.vjp("b")
def _(g, a, b, beta):
    return invoke(smooth_l1_loss_backward, (g, b, a, beta))


@smooth_l1_loss_backward.elementwise_vjp("a")
def _(g, v, a, b, beta):
    return m.where(m.abs(a - b) < beta, g * v / beta, c(0))


@smooth_l1_loss_backward.elementwise_vjp("b")
def _(g, v, a, b, beta):
    return m.where(m.abs(a - b) < beta, -g * v / beta, c(0))


@elementwise("huber_loss", dtypes=FLOATS, edges=2, saved_as=f"{PAIR} delta")
def huber_loss(a, b, delta):
    d = m.abs(a - b)
    return m.where(d <= delta, c(0.5) * d * d, delta * (d - c(0.5) * delta))


@huber_loss.elementwise_vjp("a", node="HuberLossBackwardBackward0")
def huber_loss_backward(g, a, b, delta):
    d = a - b
    return g * m.where(m.abs(d) <= delta, d, delta * m.sign(d))


@huber_loss.vjp("b")
def _(g, a, b, delta):
    return invoke(huber_loss_backward, (g, b, a, delta))


@huber_loss_backward.elementwise_vjp("a")
def _(g, v, a, b, delta):
    return m.where(m.abs(a - b) <= delta, g * v, c(0))


@huber_loss_backward.elementwise_vjp("b")
def _(g, v, a, b, delta):
    return m.where(m.abs(a - b) <= delta, -g * v, c(0))


# As in PyTorch, logarithms are no less than -100, and the denominator of the gradient no less than 1e-12.


@elementwise("binary_cross_entropy", dtypes=FLOATS, saved_as=PAIR)
def binary_cross_entropy(a, b):
    return (b - c(1)) * m.maximum(m.log1p(-a), c(-100)) - b * m.maximum(m.log(a), c(-100))


@binary_cross_entropy.elementwise_vjp("a", node="BinaryCrossEntropyBackwardBackward0")
def binary_cross_entropy_backward(g, a, b):
    return g * (a - b) / m.maximum((c(1) - a) * a, c(1e-12))


@binary_cross_entropy_backward.elementwise_vjp("a")
def _(g, v, a, b):
    spread = m.maximum((c(1) - a) * a, c(1e-12))
    return g * v * (a * a - c(2) * a * b + b) / (spread * spread)


@binary_cross_entropy_backward.elementwise_vjp("b")
def _(g, v, a):
    return -g * v / m.maximum((c(1) - a) * a, c(1e-12))


@binary_cross_entropy.elementwise_vjp("b")
def _(g, a):
    return g * (m.log1p(-a) - m.log(a))


binary_cross_entropy.also_saves("b", "b")


@elementwise("binary_cross_entropy_with_logits", dtypes=FLOATS, saved_as=PAIR)
def binary_cross_entropy_with_logits(a, b):
    return m.softplus(-a) + (c(1) - b) * a


@binary_cross_entropy_with_logits.elementwise_vjp("a")
def _(g, a, b):
    return (m.sigmoid(a) - b) * g


@binary_cross_entropy_with_logits.elementwise_vjp("b")
def _(g, a):
    return g * -a


binary_cross_entropy_with_logits.also_saves("b", "b")


# --- the mean and the sum of a loss as one op --------------------------------------------------------------------


def _reduced(each, kind, expanded):
    op = Op(
        f"{each.name}.{kind}", STRUCTURED, each.inputs, ("mean",), kernel=each.kernel, forward=SHAPE_REDUCED,
        node=each.node, edges=each.edges, saved_as=each.saved_as,
    )  # fmt: skip
    for k, inner in each.rules.items():
        op.vjp(each.inputs[k])(_expanded_first(inner, expanded))
        op.also_saves(each.inputs[k], *each.saved_for(k))


def _expanded_first(rule, expanded):
    """A rule of the loss, given the gradient of its mean or sum."""

    def reduced_rule(g, sizes, **saved):
        return rule(g=invoke(expanded, (g,), sizes), **saved)

    parameters = [*inspect.signature(rule).parameters, "sizes"]
    reduced_rule.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in parameters]
    )
    return reduced_rule


for _loss in (
    mse_loss, smooth_l1_loss, huber_loss, binary_cross_entropy, binary_cross_entropy_with_logits,
):  # fmt: skip
    _reduced(_loss, "mean", expand_mean)
    _reduced(_loss, "sum", expand_reduced)
