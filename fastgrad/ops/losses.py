"""Losses with kernels of their own, and the optimizer steps."""

from __future__ import annotations

from fastgrad.native.layout import FN_NLL, FN_NLL_BACKWARD, FN_SGD, FUNCTION, ONE_DIFFERENTIABLE
from fastgrad.ops.call import invoke
from fastgrad.ops.registry import Kernel, Op

nll_loss = Op(
    "nll_loss", FUNCTION, ("x", "target", "weight"), ("reduction", "ignore_index"),
    kernel=Kernel("nll_loss", "losses:nll"), forward=FN_NLL, n_out=2, flags=ONE_DIFFERENTIABLE,
)  # fmt: skip
nll_loss_backward = Op(
    "nll_loss_backward", FUNCTION, ("v", "target", "total", "weight"), ("reduction", "ignore_index", "*plan"),
    kernel=Kernel("nll_loss_backward", "losses:nll_backward"), forward=FN_NLL_BACKWARD,
)  # fmt: skip


@nll_loss.vjp("x")
def _(g, target, weight, y1, reduction, ignore_index, sizes):
    return invoke(nll_loss_backward, (g, target, y1, weight), reduction, ignore_index, sizes)


@nll_loss_backward.vjp("v")
def _(g, target, weight, reduction, ignore_index):
    # The loss is linear in its input: its derivative applied to a direction is the loss of that direction.
    loss = invoke(nll_loss, (g, target, weight), reduction, ignore_index)
    return loss[0] if isinstance(loss, tuple) else loss


sgd_step = Op(
    "sgd_step", FUNCTION, ("*tensors",), ("lr", "momentum", "dampening", "weight_decay", "flags"),
    kernel=Kernel("sgd_step", "optim:sgd"), forward=FN_SGD,
)  # fmt: skip
