"""Dropout: which elements stay is drawn from the default generator, and is kept as a mask of a byte each."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import BOOL, FLOATS, WIDE
from fastgrad.native.contracts.frames.framed import DROPOUT, DROPOUT_AGAIN
from fastgrad.native.contracts.ops import (
    AS_OPERANDS,
    DRAWS,
    FLOAT_ONLY,
    ONE_DIFFERENTIABLE,
    SHAPE_FRAMED,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.vocabulary import c, m


def _applied(x, scale, condition):
    return x * m.where(condition, scale, c(0))


# What fused kernels (`compiler.fusion`) compute where a mask exists: what both of the kernels below do with it.
APPLIED = Kernel(
    "dropout_applied", "elementwise:build", _applied, dtypes=WIDE, inputs=("x", "scale", "condition"),
    elements={"condition": BOOL}, listed=False,
)  # fmt: skip

dropout = Op(
    "dropout", STRUCTURED, ("x",), (*DROPOUT.names_of("integers"), "*outputs"),
    kernel=Kernel("dropout", "dropout:forward", frame=DROPOUT, dtypes=FLOATS), forward=SHAPE_FRAMED, n_out=2,
    saved_as="input -> result0 result1",
    flags=FLOAT_ONLY | ONE_DIFFERENTIABLE | AS_OPERANDS | DRAWS, node="NativeDropoutBackward0",
)  # fmt: skip
dropout_backward = Op(
    "dropout_backward", STRUCTURED, ("v", "mask"), (*DROPOUT_AGAIN.names_of("integers"), "*outputs"),
    kernel=Kernel("dropout_backward", "dropout:again", frame=DROPOUT_AGAIN, dtypes=FLOATS), forward=SHAPE_FRAMED,
    flags=FLOAT_ONLY | AS_OPERANDS, edges=1, node="NativeDropoutBackwardBackward0",
)  # fmt: skip


@dropout.vjp("x")
def _(g, y1, scale):
    return invoke(dropout_backward, (g, y1), scale, -1)


@dropout_backward.vjp("v")
def _(g, mask, scale):
    return invoke(dropout_backward, (g, mask), scale, -1)
