"""Convolutions.

A convolution ties an image x, weights w and an image v together, linear in x and in w. Three ops compute v, x or w of
the two others: the convolution, the transposed convolution, and the correlation of two images. Each is what the
derivatives of the two others are made of, so that there are derivatives of every order.

Every op takes groups, then strides, padding and dilation (deep, down and across; 1, 0 and 1 where an image has no such
dimension), then whether its result has its channels last (Note [Channels last] in `native/tensors/layouts.py`), rank
and sizes of its result: with a stride, the sizes of v leave those of x open.
"""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import HALVES, WIDE_NUMBERS
from fastgrad.native.contracts.frames.convolution import CONVOLUTION, CONVOLUTION_INPUT, CONVOLUTION_WEIGHT
from fastgrad.native.contracts.ops import (
    IN_FLOAT32,
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
from fastgrad.ops.rules import gathering, taking

SETTINGS = (*integers.GEOMETRY.names, *integers.IMAGES.names)
CALLED = "input weight bias"  # by PyTorch


def _kernel(computes, frame):
    requires = "gemm:find_blas"
    return Kernel(
        f"convolution_{computes}", "conv:build", frame=frame, dtypes=WIDE_NUMBERS, gpu_dtypes=HALVES, requires=requires,
        computes=computes,
    )  # fmt: skip


_KERNELS = {
    "v": _kernel("v", CONVOLUTION), "x": _kernel("x", CONVOLUTION_INPUT), "w": _kernel("w", CONVOLUTION_WEIGHT),
}  # fmt: skip


def _declare(rank, flags=0):
    def declared(name, inputs, computes, forward, saved_as=""):
        return Op(
            name, STRUCTURED, inputs, (*SETTINGS, "*target"), kernel=_KERNELS[computes], forward=forward,
            node="ConvolutionBackward0", saved_as=saved_as, flags=flags,
        )  # fmt: skip

    convolution = declared(f"conv{rank}d", ("x", "w", "bias?"), "v", SHAPE_CONV, CALLED)
    transposed = declared(f"conv_transpose{rank}d", ("v", "w", "bias?"), "x", SHAPE_CONV_INPUT, CALLED)
    correlation = declared(f"conv{rank}d_weight_backward", ("x", "v"), "w", SHAPE_CONV_WEIGHT)
    convolution.vjp("x")(_call(transposed, "g", "w"))
    convolution.vjp("w")(_call(correlation, "x", "g"))
    transposed.vjp("v")(_call(convolution, "g", "w"))
    transposed.vjp("w")(_call(correlation, "g", "v"))
    correlation.vjp("x")(_call(transposed, "v", "g"))
    correlation.vjp("v")(_call(convolution, "x", "g"))

    def over_images(g):
        return invoke(sum_, (g,), 0, 0, *range(2, rank + 2))

    convolution.vjp("bias")(over_images)
    transposed.vjp("bias")(over_images)
    for op in convolution, transposed:  # as in PyTorch, whichever of them requires grad
        for name in op.inputs:
            op.also_saves(name, *op.inputs[:2])
    _recorded(rank, convolution, transposed, correlation)


def _call(op, first, second):
    """The rule that is a call of an op with two of the rule's own parameters."""

    @gathering("settings", SETTINGS)
    def rule(settings, sizes, **operands):
        return invoke(op, (operands[first], operands[second]), settings, sizes)

    return taking((first, second, *SETTINGS, "sizes"), rule)


def _recorded(rank, convolution, transposed, correlation):
    """Recorded, the gradients of all inputs are one op, as in PyTorch: g is the gradient of one of these gradients.

    v is the gradient of the result, and `image` what the op was called with.
    """
    dims = (0, *range(2, rank + 2))

    def of_bias(g, sizes):
        return invoke(expand_reduced, (g,), sizes, dims)

    for op, other, image, x_and_v in (
        (convolution, transposed, "x", ("g", "v")), (transposed, convolution, "image", ("v", "g")),
    ):  # fmt: skip
        both = Op(
            f"{op.name}_backward", STRUCTURED, ("v", image, "w", "*results"), op.attrs, forward=SHAPE_GIVEN, n_out=3,
            edges=3, node="ConvolutionBackwardBackward0", saved_as="grad_output input weight results",
        )  # fmt: skip
        op.recorded_by(both, *op.inputs[:2], results=range(3))
        both.vjp_sum("v", _call(op, "g", "w"), _call(op, image, "g"), of_bias)
        both.vjp_sum(image, None, _call(other, "v", "g"), None)
        both.vjp_sum("w", _call(correlation, *x_and_v), None, None)


_declare(1)
_declare(2)
_declare(3, IN_FLOAT32)  # several launches add to one element, which would be rounded in between
