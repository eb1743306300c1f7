"""Losses with kernels of their own."""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import FLOATS, HALVES, WIDE
from fastgrad.native.contracts.frames.layers import CTC, CTC_BACKWARD
from fastgrad.native.contracts.frames.losses import NLL, NLL_BACKWARD, PROBABILITIES
from fastgrad.native.contracts.ops import (
    FIRST,
    FLOAT_ONLY,
    GRADIENT_LAST,
    IN_FLOAT32,
    IN_ROWS,
    KEEPS_FLOAT32,
    NOT_DIFFERENTIABLE,
    ONE_DIFFERENTIABLE,
    SHAPE_FRAMED,
    SHAPE_GIVEN,
    SHAPE_NLL,
    SHAPE_NLL_BACKWARD,
    SHAPE_PROBABILITIES,
    SHAPE_REDUCED,
    STRUCTURED,
    TAKES_FLOAT32,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.reduce import expand_mean, expand_reduced, mean, sum_
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.rules import gathering, parameters, taking
from fastgrad.ops.shape import zeros_of
from fastgrad.ops.vocabulary import c, m

probabilities = Op(
    "probabilities", STRUCTURED, ("x",), forward=SHAPE_PROBABILITIES, flags=NOT_DIFFERENTIABLE,
    kernel=Kernel("probabilities", "losses:probabilities", frame=PROBABILITIES, dtypes=FLOATS),
)  # fmt: skip

PAIR = "self target"  # PyTorch's names of what losses of two tensors take

_NLL = Kernel("nll_loss", "losses:nll", frame=NLL, dtypes=WIDE, gpu_dtypes=HALVES)
_NLL_BACKWARD = Kernel(
    "nll_loss_backward", "losses:nll_backward", frame=NLL_BACKWARD, dtypes=WIDE, gpu_dtypes=HALVES
)


def _nll(suffix, node):
    """The loss and its derivative; to PyTorch those of images are ops of their own."""
    loss = Op(
        f"nll_loss{suffix}", STRUCTURED, ("x", "target", "weight?"), integers.CLASS_LOSS.names, edges=1,
        kernel=_NLL, forward=SHAPE_NLL, n_out=2, flags=ONE_DIFFERENTIABLE | KEEPS_FLOAT32,
        node=f"{node}Backward0",
        saved_as="self target weight -> output total_weight",
    )  # fmt: skip
    back = Op(
        f"nll_loss_backward{suffix}", STRUCTURED, ("v", "x", "target", "weight?", "total"),
        (*integers.CLASS_LOSS.names, "*target"), edges=2, kernel=_NLL_BACKWARD, forward=SHAPE_NLL_BACKWARD,
        node=f"{node}BackwardBackward0", flags=TAKES_FLOAT32, statistics=("total",),
    )  # fmt: skip

    @loss.vjp("x")
    def _(g, x, target, weight, y1, reduction, ignore_index, sizes):
        return invoke(back, (g, x, target, weight, y1), reduction, ignore_index, sizes)

    @back.vjp("v")
    def _(g, target, weight, reduction, ignore_index):
        # The loss is linear in its input: its derivative applied to a direction is the loss of that direction.
        found = invoke(loss, (g, target, weight), reduction, ignore_index)
        return found[0] if isinstance(found, tuple) else found

    @back.vjp("x")
    def _(g, sizes):
        return invoke(zeros_of, (g,), sizes)


_nll("", "NllLoss")
_nll(".images", "NllLoss2D")


# --- alignments ------------------------------------------------------------------------------------------------

_CTC_INTEGERS = CTC.names_of("integers")

ctc_loss = Op(
    "ctc_loss", STRUCTURED, ("x", "targets", "layout"), (*_CTC_INTEGERS, "*outputs"), edges=1,
    kernel=Kernel("ctc_loss", "ctc:forward", frame=CTC, dtypes=WIDE), forward=SHAPE_FRAMED, n_out=2,
    flags=FLOAT_ONLY | ONE_DIFFERENTIABLE, saved_as="log_probs targets input_lengths -> result0 result1",
)  # fmt: skip
ctc_loss_backward = Op(
    "ctc_loss_backward", STRUCTURED, ("v", "x", "targets", "layout", "loss", "alpha"), (*_CTC_INTEGERS, "*outputs"),
    edges=2, kernel=Kernel("ctc_loss_backward", "ctc:backward", frame=CTC_BACKWARD, dtypes=WIDE), forward=SHAPE_FRAMED,
    n_out=2, flags=FLOAT_ONLY | ONE_DIFFERENTIABLE, called="ctc_loss", node="CtcLossBackwardBackward0",
)  # fmt: skip
_no_second = Op(
    "ctc_loss_second_backward", STRUCTURED, ("x",), (*_CTC_INTEGERS, "*outputs"),
    kernel=Kernel(
        "ctc_second_derivative", "ctc:forward", frame=CTC, dtypes=(), hint="ctc_loss has no second derivatives"
    ),
    forward=SHAPE_FRAMED, called="ctc_loss",
)  # fmt: skip


@ctc_loss.vjp("x")
@gathering("settings", _CTC_INTEGERS)
def _(g, x, targets, layout, y, y1, settings, sizes):
    n, states = settings[0], settings[3]
    found = invoke(ctc_loss_backward, (g, x, targets, layout, y, y1), settings, sizes, 3, n, 2, states)
    return found[0] if isinstance(found, tuple) else found


for _name in "v", "x":

    @ctc_loss_backward.vjp(_name)
    @gathering("settings", _CTC_INTEGERS)
    def _(x, settings):
        return invoke(_no_second, (x,), settings, 1, settings[0])  # one loss for each sequence


# --- squared differences ---------------------------------------------------------------------------------------


@elementwise("mse_loss", dtypes=FLOATS, saved_as=PAIR)
def mse_loss(a, b):
    return (a - b) * (a - b)


@elementwise(
    "mse_loss_backward",
    rule=FIRST,
    node="MseLossBackwardBackward0",
    saved_as=f"grad_output {PAIR}",
    flags=IN_ROWS,
)
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
    return g * m.where(m.abs(d) >= beta, m.sign(d), d / beta)  # NaN stays


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
    return g * m.where(m.abs(d) > delta, delta * m.sign(d), d)  # NaN stays


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


@binary_cross_entropy_with_logits.elementwise_vjp("a", flags=GRADIENT_LAST)
def _(g, a, b):
    return (m.sigmoid(a) - b) * g


@binary_cross_entropy_with_logits.elementwise_vjp("b")
def _(g, a):
    return g * -a


binary_cross_entropy_with_logits.also_saves("b", "b")


# --- without gradients ---------------------------------------------------------------------------------------------
# What is a node for each step to PyTorch, and here where gradients are recorded, as one op for where none are.


@elementwise("kl_div", dtypes=FLOATS, flags=NOT_DIFFERENTIABLE)
def kl_div(a, b):
    product = b * a  # what stands on the right is computed first, as in PyTorch: it is differentiated last
    return m.xlogy(b, b) - product


@elementwise("kl_div.log_target", dtypes=FLOATS, flags=NOT_DIFFERENTIABLE)
def kl_div_log_target(a, b):
    difference = b - a
    return m.exp(b) * difference


@elementwise("cosine_similarity.each", dtypes=FLOATS, flags=NOT_DIFFERENTIABLE)
def cosine_similarity(a, length, b, other_length, low):
    return a / m.maximum(length, low) * (b / m.maximum(other_length, low))


# With the bound that is usual: as an operand it takes a tenth of a small call.
@elementwise("cosine_similarity.usual_each", dtypes=FLOATS, flags=NOT_DIFFERENTIABLE)
def usual_similarity(a, length, b, other_length):
    return a / m.maximum(length, c(1e-8)) * (b / m.maximum(other_length, c(1e-8)))


for _name, _each in ("cosine_similarity", cosine_similarity), ("cosine_similarity.usual", usual_similarity):
    Op(
        _name, STRUCTURED, _each.inputs, (*integers.LOSS.names, "*dims"), kernel=_each.kernel, forward=SHAPE_REDUCED,
        flags=IN_FLOAT32 | NOT_DIFFERENTIABLE,
    )  # fmt: skip


# --- the mean and the sum of a loss as one op --------------------------------------------------------------------


def _reduced(each, kind, expanded, flags=0):
    op = Op(
        f"{each.name}.{kind}", STRUCTURED, each.inputs, integers.LOSS.names, kernel=each.kernel, forward=SHAPE_REDUCED,
        node=each.node, edges=each.edges, saved_as=each.saved_as, flags=IN_FLOAT32 | flags,
    )  # fmt: skip
    for k, inner in each.rules.items():
        op.vjp(each.inputs[k])(_expanded_first(inner, expanded, "g"))
        op.also_saves(each.inputs[k], *each.saved_for(k))
    return op


def _expanded_first(rule, expanded, name):
    """A rule of the loss, given the gradient of its mean or sum, which it calls `name`."""
    names = parameters(rule)
    if name not in names:
        return rule

    def reduced_rule(sizes, **given):
        return rule(**{**given, name: invoke(expanded, (given[name],), sizes)})

    return taking((*names, "sizes"), reduced_rule)


def _recorded(op, kind, expanded, back, name, read):
    """Recorded, the gradient of one operand is the op `back`, as in PyTorch, of the gradient before it is expanded.

    `read` is what `back` takes behind the gradient. It is computed as it always is.
    """
    reduce = mean if kind == "mean" else sum_
    both = Op(
        f"{op.name.partition('.')[0]}_{name}_backward.{kind}", STRUCTURED, (*back.inputs, "*results"), op.attrs,
        forward=SHAPE_GIVEN, edges=3, node=back.node, saved_as=f"{back.saved_as} results",
    )  # fmt: skip
    op.recorded_by(both, *read, results=(op.inputs.index(name),))
    by_gradient, *by_operands = (back.rules[k] for k in range(3))
    both.vjp_sum(
        "v", taking(parameters(by_gradient), lambda **given: invoke(reduce, (by_gradient(**given),), 0))
    )
    for operand, rule in zip(back.inputs[1:3], by_operands, strict=True):
        both.vjp_sum(operand, _expanded_first(rule, expanded, "v"))


# What the gradients of a and of b are as ops of PyTorch's, where they are.
_BACK = {
    mse_loss: (mse_loss_backward, "ab"),
    smooth_l1_loss: (smooth_l1_loss_backward, "ab"),
    huber_loss: (huber_loss_backward, "ab"),
    binary_cross_entropy: (binary_cross_entropy_backward, "a"),
    binary_cross_entropy_with_logits: (None, ""),
}

for _loss, (_back, _names) in _BACK.items():
    for _kind, _expanded in ("mean", expand_mean), ("sum", expand_reduced):
        _op = _reduced(_loss, _kind, _expanded)
        for _name in _names:
            _read = (_name, "b" if _name == "a" else "a", *_loss.inputs[2:])
            _recorded(_op, _kind, _expanded, _back, _name, _read)

for _loss in kl_div, kl_div_log_target:
    for _kind, _expanded in ("mean", expand_mean), ("sum", expand_reduced):
        _reduced(_loss, _kind, _expanded, NOT_DIFFERENTIABLE)
