"""Pooling and padding: each op, and the one that carries gradients back. They are each other's derivatives."""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import HALVES, WIDE, WIDE_NUMBERS, WITHOUT_HALVES
from fastgrad.native.contracts.frames.windows import (
    FROM_PLACES,
    MAX_POOLING,
    MEAN_POOLING,
    PADDING,
    PLANES,
    TO_PLACES,
)
from fastgrad.native.contracts.ops import (
    ONE_DIFFERENTIABLE,
    SHAPE_ADAPTIVE_POOL,
    SHAPE_AVG_POOL,
    SHAPE_GIVEN,
    SHAPE_MAX_POOL,
    SHAPE_PAD,
    SHAPE_PAD_BACKWARD,
    SHAPE_POOL_GATHER,
    SHAPE_POOL_SCATTER,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import gathering
from fastgrad.ops.shape import zeros_of


def _kernel(name, frame, dtypes=WIDE_NUMBERS, **options):
    return Kernel(name, "pool:build", frame=frame, dtypes=dtypes, gpu_dtypes=HALVES, **options)


# --- maxima ----------------------------------------------------------------------------------------------------

max_pool2d = Op(
    "max_pool2d", STRUCTURED, ("x",), (*MAX_POOLING.names_of("settings"), *integers.IMAGES.names, "*target"),
    kernel=_kernel("max_pool2d", MAX_POOLING, pool="max"), forward=SHAPE_MAX_POOL, n_out=2, flags=ONE_DIFFERENTIABLE,
    node="MaxPool2DWithIndicesBackward0",
)  # fmt: skip
max_pool2d_backward = Op(
    "max_pool2d_backward", STRUCTURED, ("v", "indices"), (*integers.IMAGES.names, "*target"), edges=1,
    kernel=_kernel("max_pool2d_backward", TO_PLACES, pool="scatter"), forward=SHAPE_POOL_SCATTER,
    node="MaxPool2DWithIndicesBackwardBackward0",
)  # fmt: skip
pool_gather = Op(
    "pool_gather", STRUCTURED, ("x", "indices"), integers.IMAGES.names, edges=1,
    kernel=_kernel("pool_gather", FROM_PLACES, pool="gather"), forward=SHAPE_POOL_GATHER,
)  # fmt: skip


@max_pool2d.vjp("x")
def _(g, y1, channels_last, sizes):
    return invoke(max_pool2d_backward, (g, y1), channels_last, sizes)


max_pool2d.also_saves("x", "x")


def _recorded(op, back, by_gradient, read=()):
    """Recorded, the gradient is a function of the image as well, as in PyTorch: one without slope."""
    both = Op(
        f"{op.name}_recorded_backward", STRUCTURED, ("v", "x", *read, "*results"), op.attrs, forward=SHAPE_GIVEN,
        edges=2, node=back.node, saved_as=f"grad_output self {' '.join(read)} results",
    )  # fmt: skip
    op.recorded_by(both, "x", *("y1" for _ in read), results=(0,))
    both.vjp_sum("v", by_gradient)
    both.vjp_sum("x", lambda g, sizes: invoke(zeros_of, (g,), sizes))


def _gathered(g, indices, channels_last):
    return invoke(pool_gather, (g, indices), channels_last)


_recorded(max_pool2d, max_pool2d_backward, _gathered, ("indices",))
max_pool2d_backward.vjp("v")(_gathered)


@pool_gather.vjp("x")
def _(g, indices, channels_last, sizes):
    return invoke(max_pool2d_backward, (g, indices), channels_last, sizes)


# --- means -----------------------------------------------------------------------------------------------------


def _mean_pool(name, node, forward, frame, settings, pool):
    settings = (*settings, "channels_last")
    op = Op(
        name, STRUCTURED, ("x",), (*settings, "*target"), kernel=_kernel(name, frame, **pool), forward=forward,
        node=f"{node}Backward0",
    )  # fmt: skip
    back = Op(
        f"{name}_backward", STRUCTURED, ("v",), (*settings, "*target"),
        kernel=_kernel(f"{name}_backward", frame, **{**pool, "pool": f"{pool['pool']}_backward"}), forward=forward,
        node=f"{node}BackwardBackward0",
    )  # fmt: skip

    @op.vjp("x")
    @gathering("settings", settings)
    def _(g, settings, sizes):
        return invoke(back, (g,), settings, sizes)

    op.also_saves("x", "x")

    @gathering("settings", settings)
    def by_gradient(g, settings, sizes):
        return invoke(op, (g,), settings, sizes)

    back.vjp("v")(by_gradient)
    _recorded(op, back, by_gradient)


_mean_pool(
    "avg_pool2d",
    "AvgPool2D",
    SHAPE_AVG_POOL,
    MEAN_POOLING,
    MEAN_POOLING.names_of("settings"),
    {"pool": "mean"},
)
_mean_pool(
    "adaptive_avg_pool2d", "AdaptiveAvgPool2D", SHAPE_ADAPTIVE_POOL, PLANES, (), {"pool": "adaptive", "dtypes": WIDE}
)  # fmt: skip

# --- padding ---------------------------------------------------------------------------------------------------

PAD_MODES = ("constant", "reflect", "replicate", "circular")

pad = Op(
    "pad", STRUCTURED, ("x",), (*integers.PADDED.names, "*padded"),
    kernel=Kernel("pad", "pool:pad", frame=PADDING, dtypes=WITHOUT_HALVES, gpu_dtypes=HALVES), forward=SHAPE_PAD,
    node="ConstantPadNdBackward0",
)  # fmt: skip
pad_backward = Op(
    "pad_backward", STRUCTURED, ("v",), (*integers.CROPPED.names, "*cropped"),
    kernel=Kernel("pad_backward", "pool:pad_backward", frame=PADDING, dtypes=WITHOUT_HALVES),
    forward=SHAPE_PAD_BACKWARD,
)  # fmt: skip


@pad.vjp("x")
def _(g, mode, channels_last, padded, sizes):
    return invoke(pad_backward, (g,), mode, channels_last, padded, sizes)


@pad_backward.vjp("v")
def _(g, mode, channels_last, cropped):
    return invoke(pad, (g,), mode, 0, channels_last, cropped)


for _rank in (1, 2, 3):
    pad.variant(f"reflect{_rank}d", f"ReflectionPad{_rank}DBackward0").also_saves("x", "x")
    pad.variant(f"replicate{_rank}d", f"ReplicationPad{_rank}DBackward0").also_saves("x", "x")
pad.variant("circular", "CircularPadBackward0")
