"""Convolutions.

A convolution ties an image x, weights w and an image v together, linear in x and in w. Three ops compute v, x or w of
the two others: the convolution, the transposed convolution, and the correlation of two images. Each is what the
derivatives of the two others are made of, so that there are derivatives of every order.

Every op takes groups, then strides, padding and dilation (down and across; 1, 0 and 1 down for images of one row), then
rank and sizes of its result: with a stride, the sizes of v leave those of x open.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import NUMBERS
from fastgrad.native.contracts.frames.convolution import CONVOLUTION, CONVOLUTION_INPUT, CONVOLUTION_WEIGHT
from fastgrad.native.contracts.ops import (
    SHAPE_CONV,
    SHAPE_CONV_INPUT,
    SHAPE_CONV_WEIGHT,
    SHAPE_GIVEN,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.reduce import expand_reduced, sum_
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import with_settings

GEOMETRY = ("groups", "stride_h", "stride_w", "padding_h", "padding_w", "dilation_h", "dilation_w")
CALLED = "input weight bias"  # by PyTorch


def _kernel(computes, frame):
    requires = "gemm:find_blas"
    return Kernel(
        f"convolution_{computes}", "conv:build", frame=frame, dtypes=NUMBERS, requires=requires, computes=computes
    )  # fmt: skip


_KERNELS = {
    "v": _kernel("v", CONVOLUTION), "x": _kernel("x", CONVOLUTION_INPUT), "w": _kernel("w", CONVOLUTION_WEIGHT),
}  # fmt: skip


def _declare(rank):
    def declared(name, inputs, computes, forward, saved_as=""):
        return Op(
            name, STRUCTURED, inputs, (*GEOMETRY, "*target"), kernel=_KERNELS[computes], forward=forward,
            node="ConvolutionBackward0", saved_as=saved_as,
        )  # fmt: skip

    convolution = declared(f"conv{rank}d", ("x", "w", "bias?"), "v", SHAPE_CONV, CALLED)
    transposed = declared(f"conv_transpose{rank}d", ("v", "w", "bias?"), "x", SHAPE_CONV_INPUT, CALLED)
    correlation = declared(f"conv{rank}d_weight_backward", ("x", "v"), "w", SHAPE_CONV_WEIGHT)
    settings = with_settings(GEOMETRY)

    @convolution.vjp("x")
    @settings
    def _(g, w, settings, sizes):
        return invoke(transposed, (g, w), settings, sizes)

    @convolution.vjp("w")
    @settings
    def _(g, x, settings, sizes):
        return invoke(correlation, (x, g), settings, sizes)

    @transposed.vjp("v")
    @settings
    def _(g, w, settings, sizes):
        return invoke(convolution, (g, w), settings, sizes)

    @transposed.vjp("w")
    @settings
    def _(g, v, settings, sizes):
        return invoke(correlation, (g, v), settings, sizes)

    @correlation.vjp("x")
    @settings
    def _(g, v, settings, sizes):
        return invoke(transposed, (v, g), settings, sizes)

    @correlation.vjp("v")
    @settings
    def _(g, x, settings, sizes):
        return invoke(convolution, (x, g), settings, sizes)

    def over_images(g):
        return invoke(sum_, (g,), 0, 0, *range(2, rank + 2))

    convolution.vjp("bias")(over_images)
    transposed.vjp("bias")(over_images)
    for op in convolution, transposed:  # as in PyTorch, whichever of them requires grad
        for name in op.inputs:
            op.also_saves(name, *op.inputs[:2])
    _recorded(rank, convolution, transposed, correlation)


def _recorded(rank, convolution, transposed, correlation):
    """Recorded, the gradients of all inputs are one op, as in PyTorch: g is the gradient of one of these gradients."""
    settings = with_settings(GEOMETRY)
    dims = (0, *range(2, rank + 2))

    def of_bias(g, sizes):
        return invoke(expand_reduced, (g,), sizes, dims)

    def derivative(op, image):
        both = Op(
            f"{op.name}_backward", STRUCTURED, ("v", image, "w", "*results"), op.attrs, forward=SHAPE_GIVEN, n_out=3,
            edges=3, node="ConvolutionBackwardBackward0", saved_as="grad_output input weight results",
        )  # fmt: skip
        op.recorded_by(both, *op.inputs[:2], results=range(3))
        return both

    both = derivative(convolution, "x")

    @settings
    def by_v_of_x(g, w, settings, sizes):
        return invoke(convolution, (g, w), settings, sizes)

    @settings
    def by_v_of_w(g, x, settings, sizes):
        return invoke(convolution, (x, g), settings, sizes)

    @settings
    def by_x_of_w(g, v, settings, sizes):
        return invoke(transposed, (v, g), settings, sizes)

    @settings
    def by_w_of_x(g, v, settings, sizes):
        return invoke(correlation, (g, v), settings, sizes)

    both.vjp_sum("v", by_v_of_x, by_v_of_w, of_bias)
    both.vjp_sum("x", None, by_x_of_w, None)
    both.vjp_sum("w", by_w_of_x, None, None)

    # Of the transposed one `v` is the image, and the op's `v` is the image x.
    both = derivative(transposed, "image")

    @settings
    def by_x_of_image(g, w, settings, sizes):
        return invoke(transposed, (g, w), settings, sizes)

    @settings
    def by_x_of_weight(g, image, settings, sizes):
        return invoke(transposed, (image, g), settings, sizes)

    @settings
    def by_image_of_weight(g, v, settings, sizes):
        return invoke(convolution, (v, g), settings, sizes)

    @settings
    def by_weight_of_image(g, v, settings, sizes):
        return invoke(correlation, (v, g), settings, sizes)

    both.vjp_sum("v", by_x_of_image, by_x_of_weight, of_bias)
    both.vjp_sum("image", None, by_image_of_weight, None)
    both.vjp_sum("w", by_weight_of_image, None, None)


_declare(1)
_declare(2)
