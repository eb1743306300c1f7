"""Activation functions: elementwise ops. Numbers that shape one stand behind its input and have no edge."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS, NUMBERS
from fastgrad.native.contracts.ops import (
    GRADIENT_LAST,
    NOT_DIFFERENTIABLE,
    PROMOTE_FLOAT,
    SHAPE_GIVEN,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.elementwise import flat
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.shape import zeros_of
from fastgrad.ops.vocabulary import c, m

SQRT_2_OVER_PI = 0.7978845608028654
CUBIC = 0.044715  # of the approximation of gelu by tanh
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@elementwise("gelu", rule=PROMOTE_FLOAT)
def gelu(x):
    return x * m.normal_cdf(x)


@gelu.partial("x", node="GeluBackwardBackward0")
def gelu_backward(x):
    return m.normal_cdf(x) + x * m.normal_density(x)


@gelu_backward.elementwise_vjp("x")
def _(g, v, x):
    return g * v * ((c(2) - x * x) * m.normal_density(x))


@elementwise("gelu_tanh", rule=PROMOTE_FLOAT, node="GeluBackward0", called="gelu")
def gelu_tanh(x):
    t = m.tanh(c(SQRT_2_OVER_PI) * (x + c(CUBIC) * x * x * x))
    return c(0.5) * x * (c(1) + t)


@gelu_tanh.partial("x", node="GeluBackwardBackward0")
def gelu_tanh_backward(x):
    t = m.tanh(c(SQRT_2_OVER_PI) * (x + c(CUBIC) * x * x * x))
    slope = c(SQRT_2_OVER_PI) * (c(1) + c(3 * CUBIC) * x * x)
    return c(0.5) * (c(1) + t) + c(0.5) * x * (c(1) - t * t) * slope


@gelu_tanh_backward.elementwise_vjp("x")
def _(g, v, x):
    t = m.tanh(c(SQRT_2_OVER_PI) * (x + c(CUBIC) * x * x * x))
    slope = c(SQRT_2_OVER_PI) * (c(1) + c(3 * CUBIC) * x * x)
    change = c(6 * CUBIC * SQRT_2_OVER_PI) * x
    return g * v * ((c(1) - t * t) * (slope + c(0.5) * x * (change - c(2) * t * slope * slope)))


@elementwise("silu", rule=PROMOTE_FLOAT)
def silu(x):
    return x * m.sigmoid(x)


@silu.elementwise_vjp("x")
def _(g, x):
    s = m.sigmoid(x)
    slope = c(1) + x * (c(1) - s)
    return g * s * slope


@elementwise("softplus", rule=PROMOTE_FLOAT, edges=1)
def softplus(x, beta, threshold):
    return m.where(x * beta > threshold, x, m.softplus(x * beta) / beta)


@softplus.elementwise_vjp("x", node="SoftplusBackwardBackward0")
def softplus_backward(g, x, beta, threshold):
    return m.where(x * beta > threshold, g, g * m.sigmoid(x * beta))


@softplus_backward.elementwise_vjp("x")
def _(g, v, x, beta, threshold):
    s = m.sigmoid(x * beta)
    return m.where(x * beta > threshold, c(0), g * v * beta * s * (c(1) - s))


# As in PyTorch there is a buffer of exponentials, which the node saves behind what it was given: to PyTorch it is an
# output.
@elementwise("log_sigmoid_buffer", rule=PROMOTE_FLOAT, flags=NOT_DIFFERENTIABLE)
def log_sigmoid_buffer(x):
    return m.exp_of_negative(-m.abs(x))


@elementwise("log_sigmoid", rule=PROMOTE_FLOAT, edges=1, called="logsigmoid", saved_as="self >buffer")
def log_sigmoid(x, buffer):
    return m.minimum(x, c(0)) - m.log1p(buffer)


@log_sigmoid.partial("x", node="LogSigmoidBackwardBackward0")
def log_sigmoid_backward(x, buffer):
    return m.where(x < c(0), c(1), buffer) / (c(1) + buffer)


@log_sigmoid_backward.elementwise_vjp("x")
def _(g, v, x):
    s = m.sigmoid(-x)
    return g * v * s * (s - c(1))


@elementwise("mish", rule=PROMOTE_FLOAT)
def mish(x):
    return x * m.tanh(m.softplus(x))


@mish.partial("x")
def _(x):
    s = m.sigmoid(x)
    t = m.tanh(m.log1p(m.exp(x)))
    rest = c(1) - t * t
    return t + x * s * rest


@elementwise("leaky_relu", dtypes=FLOATS, edges=1)
def leaky_relu(x, slope):
    return m.where(x > c(0), x, x * slope)


@leaky_relu.elementwise_vjp("x", node="LeakyReluBackwardBackward0", flags=GRADIENT_LAST)
def leaky_relu_backward(g, x, slope):
    return m.where(x > c(0), g, g * slope)


flat(leaky_relu_backward, "x")


@elementwise("prelu", dtypes=FLOATS, node="PreluKernelBackward0")
def prelu(x, weight):
    return m.where(x > c(0), x, weight * x)


@prelu.elementwise_vjp("x", node="PreluKernelBackwardBackward0", flags=GRADIENT_LAST)
def prelu_backward(g, x, weight):
    return m.where(x > c(0), g, weight * g)


@prelu.elementwise_vjp("weight", node="PreluKernelBackwardBackward0")
def prelu_weight_backward(g, x):
    return m.where(x > c(0), c(0), x * g)


prelu.also_saves("weight", "weight")
flat(prelu_backward, "x")


@prelu_backward.elementwise_vjp("weight")
def _(g, v, x):
    return m.where(x > c(0), c(0), g * v)


@prelu_weight_backward.elementwise_vjp("x")
def _(g, v, x):
    return m.where(x > c(0), c(0), g * v)


# Recorded, both gradients are one op, as in PyTorch.
prelu_gradients = Op(
    "prelu_backward", STRUCTURED, ("v", "x", "weight", "*results"), forward=SHAPE_GIVEN, n_out=2, edges=3,
    node="PreluKernelBackwardBackward0", saved_as="grad_output self weight results",
)  # fmt: skip
prelu.recorded_by(prelu_gradients, "x", "weight", results=range(2))
prelu_gradients.vjp_sum(
    "v",
    lambda g, x, weight: invoke(prelu_backward, (g, x, weight)),
    lambda g, x: invoke(prelu_weight_backward, (g, x)),
)
prelu_gradients.vjp_sum("x", prelu_backward.rules[1], prelu_weight_backward.rules[1])
prelu_gradients.vjp_sum(
    "weight", prelu_backward.rules[2], lambda g, sizes: invoke(zeros_of, (g,), sizes)
)  # fmt: skip


@elementwise("elu", rule=PROMOTE_FLOAT, edges=1)
def elu(x, alpha):
    return m.where(x > c(0), x, alpha * m.expm1(x))


@elu.elementwise_vjp("x", node="EluBackwardBackward0")
def elu_backward(g, x, alpha):
    return m.where(x <= c(0), g * alpha * m.exp(x), g)


@elu_backward.elementwise_vjp("x")
def _(g, v, x, alpha):
    return m.where(x <= c(0), g * v * alpha * m.exp(x), c(0))


@elementwise("hardtanh", edges=1)
def hardtanh(x, low, high):
    return m.minimum(m.maximum(x, low), high)


@hardtanh.elementwise_vjp("x", node="HardtanhBackwardBackward0")
def hardtanh_backward(g, x, low, high):
    return m.where((x <= low) | (x >= high), c(0), g)


flat(hardtanh_backward, "x")


# --- from pieces of lines ---------------------------------------------------------------------------------------


@elementwise("hardsigmoid", rule=PROMOTE_FLOAT)
def hardsigmoid(x):
    return m.minimum(m.maximum(x + c(3), c(0)), c(6)) / c(6)


@hardsigmoid.elementwise_vjp("x", node="HardsigmoidBackwardBackward0", flags=GRADIENT_LAST)
def hardsigmoid_backward(g, x):
    return m.where((x > c(-3)) & (x < c(3)), g / c(6), c(0))


flat(hardsigmoid_backward, "x")


@elementwise("hardswish", rule=PROMOTE_FLOAT)
def hardswish(x):
    return x * m.minimum(m.maximum(x + c(3), c(0)), c(6)) / c(6)


@hardswish.elementwise_vjp("x", node="HardswishBackwardBackward0")
def hardswish_backward(g, x):
    return m.where(x <= c(-3), c(0), m.where(x < c(3), g * (x / c(3) + c(0.5)), g))


@hardswish_backward.elementwise_vjp("x")
def _(g, v, x):
    return m.where((x > c(-3)) & (x < c(3)), g * v / c(3), c(0))


@elementwise("hardshrink", rule=PROMOTE_FLOAT, edges=1)
def hardshrink(x, lambd):
    return m.where((x >= -lambd) & (x <= lambd), c(0), x)


@hardshrink.elementwise_vjp("x", node="HardshrinkBackwardBackward0", flags=GRADIENT_LAST)
def hardshrink_backward(g, x, lambd):
    return m.where((x >= -lambd) & (x <= lambd), c(0), g)


flat(hardshrink_backward, "x")


@elementwise("softshrink", rule=PROMOTE_FLOAT, edges=1)
def softshrink(x, lambd):
    return m.where(x > lambd, x - lambd, m.where(x < -lambd, x + lambd, x * c(0)))


@softshrink.elementwise_vjp("x", node="SoftshrinkBackwardBackward0", flags=GRADIENT_LAST)
def softshrink_backward(g, x, lambd):
    return m.where((x >= -lambd) & (x <= lambd), c(0), g)


flat(softshrink_backward, "x")


@elementwise("threshold", dtypes=NUMBERS, edges=1)
def threshold(x, bound, value):
    return m.where(x <= bound, value, x)


@threshold.elementwise_vjp("x", node="ThresholdBackwardBackward0", flags=GRADIENT_LAST)
def threshold_above_backward(g, x, bound):
    return m.where(x <= bound, c(0), g)


flat(threshold_above_backward, "x")


# --- exponentials below zero ------------------------------------------------------------------------------------


@elementwise("celu", rule=PROMOTE_FLOAT, edges=1)
def celu(x, alpha):
    return m.where(x > c(0), x, alpha * m.expm1(x / alpha))


@celu.elementwise_vjp("x", node="EluBackwardBackward0")
def celu_backward(g, x, alpha):
    return m.where(x <= c(0), g * m.exp(x / alpha), g)


@celu_backward.elementwise_vjp("x")
def _(g, v, x, alpha):
    return m.where(x <= c(0), g * v * m.exp(x / alpha) / alpha, c(0))


@elementwise("selu", rule=PROMOTE_FLOAT, node="EluBackward0")
def selu(x):
    return m.where(x > c(0), x * c(SELU_SCALE), m.expm1(x) * c(SELU_SCALE * SELU_ALPHA))


@selu.elementwise_vjp("x", node="EluBackwardBackward0")
def selu_backward(g, x):
    return m.where(x <= c(0), g * c(SELU_SCALE * SELU_ALPHA) * m.exp(x), g * c(SELU_SCALE))


@selu_backward.elementwise_vjp("x")
def _(g, v, x):
    return m.where(x <= c(0), g * v * c(SELU_SCALE * SELU_ALPHA) * m.exp(x), c(0))


# --- gates ------------------------------------------------------------------------------------------------------


@elementwise("glu", rule=PROMOTE_FLOAT)
def glu(a, b):
    return a * m.sigmoid(b)


@glu.elementwise_vjp("a")
def _(g, b):
    return g * m.sigmoid(b)


@glu.elementwise_vjp("b")
def _(g, a, b):
    s = m.sigmoid(b)
    return (c(1) - s) * s * g * a
