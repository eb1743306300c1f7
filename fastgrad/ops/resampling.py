"""Images of other sizes: what interpolation computes along one dimension.

It is linear, and given by tables: the sources of each place, with their weights. Along come the tables of the
transposed map, so that the derivative is a call of the same op the other way round.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import WIDE
from fastgrad.native.contracts.frames.layers import RESAMPLE
from fastgrad.native.contracts.ops import FLOAT_ONLY, SHAPE_FRAMED, STRUCTURED
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op

resample = Op(
    "resample", STRUCTURED, ("x", "sources", "weights", "back_sources", "back_weights"),
    (*RESAMPLE.names_of("integers"), "*outputs"), forward=SHAPE_FRAMED, flags=FLOAT_ONLY, edges=1, called="interpolate",
    kernel=Kernel("resample", "resampling:along", frame=RESAMPLE, dtypes=WIDE),
)  # fmt: skip


@resample.vjp("x")
def _(
    g, sources, weights, back_sources, back_weights, blocks, length, columns, places, taps, back_taps, sizes
):
    operands = (g, back_sources, back_weights, sources, weights)
    return invoke(resample, operands, blocks, places, columns, length, back_taps, taps, sizes)


_MODES = (
    ("linear", 1, False), ("bilinear", 2, False), ("bicubic", 2, False), ("trilinear", 3, False), ("bilinear", 2, True),
    ("bicubic", 2, True),
)  # fmt: skip
BY_MODE = {
    (mode, antialias): resample.variant(
        f"{mode}{'_aa' if antialias else ''}",
        f"Upsample{mode.capitalize()}{rank}D{'Aa' if antialias else ''}Backward0",
    )
    for mode, rank, antialias in _MODES
}
"""By mode, and whether it is against aliasing: the op of the last dimension, whose node is the one that PyTorch has."""
