"""Sampling images and volumes at the places of a grid.

What is sampled is linear in the image x, and the weights depend on the grid. The samples, and the ways back to the
image and to the grid, are ops that are each other's derivatives: by the grid, in a direction, their weights become the
derivatives of these along it. So there are derivatives of the second order. Those of the third are not there.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import WIDE
from fastgrad.native.contracts.frames.layers import GRID_IMAGES, GRID_PLACES, GRID_SAMPLE
from fastgrad.native.contracts.ops import FLOAT_ONLY, SHAPE_FRAMED, STRUCTURED
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import gathering, taking

SETTINGS = GRID_SAMPLE.names_of("integers")
_LIKE_GRID = -3  # of the third operand

_SAMPLE = Kernel("grid_sample", "grid:sample", frame=GRID_SAMPLE, dtypes=WIDE)
_TO_IMAGES = Kernel("grid_images", "grid:to_images", frame=GRID_IMAGES, dtypes=WIDE)
_TO_GRID = Kernel("grid_places", "grid:to_grid", frame=GRID_PLACES, dtypes=WIDE)
_NONE = Kernel(
    "grid_third_derivative",
    "grid:sample",
    frame=GRID_SAMPLE,
    dtypes=(),
    hint="it has no derivatives of the third order",
)


def _declare(rank):
    name, node = f"grid_sampler_{rank}d", f"GridSampler{rank}D"

    def declared(suffix, inputs, kernel, node=f"{node}BackwardBackward0", saved_as=""):
        return Op(
            f"{name}{suffix}", STRUCTURED, inputs, (*SETTINGS, "*outputs"), kernel=kernel, forward=SHAPE_FRAMED,
            flags=FLOAT_ONLY, node=node, saved_as=saved_as, called="grid_sample",
        )  # fmt: skip

    sample = declared("", ("x", "grid"), _SAMPLE, f"{node}Backward0", "input grid")
    images = declared("_input_backward", ("v", "grid"), _TO_IMAGES)
    grids = declared("_grid_backward", ("v", "x", "grid"), _TO_GRID)
    sample_along = declared("_along_backward", ("x", "grid", "direction"), _SAMPLE)
    images_along = declared("_input_along_backward", ("v", "grid", "direction"), _TO_IMAGES)
    grids_along = declared("_grid_along_backward", ("v", "x", "grid", "direction"), _TO_GRID)
    none = declared("_third_backward", ("x", "grid"), _NONE)

    sample.vjp("x")(_call(images, "g", "grid"))
    sample.vjp("grid")(_to_grid(grids, "g", "x", "grid"))
    for of in sample.inputs:
        sample.also_saves(of, *sample.inputs)
    images.vjp("v")(_call(sample, "g", "grid"))
    images.vjp("grid")(_to_grid(grids, "v", "g", "grid"))
    grids.vjp("v")(_call(sample_along, "x", "grid", "g"))
    grids.vjp("x")(_call(images_along, "v", "grid", "g"))
    grids.vjp("grid")(_to_grid(grids_along, "v", "x", "grid", "g"))

    sample_along.vjp("x")(_call(images_along, "g", "grid", "direction"))
    sample_along.vjp("grid")(_to_grid(grids_along, "g", "x", "grid", "direction"))
    sample_along.vjp("direction")(_to_grid(grids, "g", "x", "grid"))
    images_along.vjp("v")(_call(sample_along, "g", "grid", "direction"))
    images_along.vjp("grid")(_to_grid(grids_along, "v", "g", "grid", "direction"))
    images_along.vjp("direction")(_to_grid(grids, "v", "g", "grid"))
    grids_along.vjp("direction")(_to_grid(grids_along, "v", "x", "grid", "g"))
    for of in "v", "x", "grid":
        grids_along.vjp(of)(_refused(none))


def _call(op, *operands):
    """The rule that is a call of an op with some of the rule's own parameters."""

    @gathering("settings", SETTINGS)
    def rule(settings, sizes, **given):
        return invoke(op, tuple(given[name] for name in operands), settings, sizes)

    return taking((*operands, *SETTINGS, "sizes"), rule)


def _to_grid(op, *operands):
    """The same of an op whose result is like its third operand, the grid."""

    @gathering("settings", SETTINGS)
    def rule(settings, **given):
        return invoke(op, tuple(given[name] for name in operands), settings, _LIKE_GRID)

    return taking((*operands, *SETTINGS), rule)


def _refused(op):
    """The rule that calls an op for which there is no kernel."""

    @gathering("settings", SETTINGS)
    def rule(x, grid, settings):
        count, channels, places = settings[0], settings[1], settings[5]
        return invoke(op, (x, grid), settings, 3, count, channels, places)

    return rule


_declare(2)
_declare(3)
