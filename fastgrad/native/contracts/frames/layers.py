"""Layers whose places follow from values of operands: sampling at a grid, images of other sizes, bags, alignments.

Their frames are those of `native.shapes.framed`. Where a launch may be divided by `first` and `count`, each part has
all of the memory, and computes what belongs to `count` steps from the `first` on.
"""

from __future__ import annotations

from functools import partial

from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.frame import reads, updates, writes
from fastgrad.native.contracts.frames.framed import FRAMED, INPUT
from fastgrad.native.contracts.split import Split

_in = partial(reads, part=INPUT)
_BY_STEPS = Split("count", {"first": 1})

# --- sampling at a grid -------------------------------------------------------------------------------------------

MOST_TAPS = 16
"""Elements of an image that a place of a grid reads."""
GRID_BLOCK = 64
"""Places of a grid that a kernel works on at a time."""
LINEAR, NEAREST, CUBIC = range(3)  # modes
ZEROS, BORDER, REFLECTION = range(3)  # kinds of padding

# Images (n, c, d, h, w) with d = 1 where the rank is 2; a grid of `places` for each; whether -1 and 1 are the centres
# of the corners. With a direction, in which the grid moves, derivatives along it are what is computed.
_VOLUMES, _GRIDS, _SAMPLES = ("n", "c", "d", "h", "w"), ("n", "places", "rank"), ("n", "c", "places")
_GRID = {"grid": _in(*_GRIDS), "direction": _in(*_GRIDS)}
_GRID_INTEGERS = "n c d h w places rank mode padding corners first count"
_BY_PLACES = Split("count", {"first": 1}, grain=GRID_BLOCK)
GRID_SAMPLE = FRAMED.named(
    "grid_sample", outputs={"out": writes(*_SAMPLES)}, inputs={"x": _in(*_VOLUMES), **_GRID}, integers=_GRID_INTEGERS,
    splits=(_BY_PLACES,),
)  # fmt: skip
GRID_PLACES = FRAMED.named(
    "grid_places", outputs={"out": writes(*_GRIDS)}, inputs={"grad": _in(*_SAMPLES), "x": _in(*_VOLUMES), **_GRID},
    integers=_GRID_INTEGERS, splits=(_BY_PLACES,),
)  # fmt: skip
_BY_IMAGES = {"out": _VOLUMES[1:], "grad": _SAMPLES[1:], "grid": _GRIDS[1:], "direction": _GRIDS[1:]}
GRID_IMAGES = FRAMED.named(
    "grid_images", outputs={"out": updates(*_VOLUMES)}, inputs={"grad": _in(*_SAMPLES), **_GRID},
    integers=_GRID_INTEGERS, splits=(Split("n", _BY_IMAGES),),
)  # fmt: skip

# --- other sizes along a dimension ---------------------------------------------------------------------------------

# In each of `blocks`, so many `columns` side by side: each of the `places` of the result is the sum of elements that
# its `taps` sources name, times their weights; a source of -1 is no element. What stands behind that is the way back.
_BEFORE, _AFTER = ("blocks", "length", "columns"), ("blocks", "places", "columns")
RESAMPLE = FRAMED.named(
    "resample", outputs={"out": writes(*_AFTER)},
    inputs={
        "x": _in(*_BEFORE),
        "sources": _in("taps", "places", element=INT64), "weights": _in("taps", "places"),
        "back_sources": _in("back_taps", "length", element=INT64), "back_weights": _in("back_taps", "length"),
    },
    integers="blocks length columns places taps back_taps",
    splits=(Split("blocks", {"out": _AFTER[1:], "x": _BEFORE[1:]}),),
)  # fmt: skip

# --- bags of rows -------------------------------------------------------------------------------------------

# A bag holds the rows that the indices from its first bound to its second name, each times its factor and, if it is
# `scaled` as gradients are, its scale. With `mean` it is divided by how many of them are not the padding index.
_INDICES = {"indices": _in("indices.numel", element=INT64), "bounds": _in("bags", 2, element=INT64)}
_FACTORS, _SCALES = {"factors": _in("indices.numel")}, {"scales": _in("indices.numel")}
_TABLE, _BAGS = ("rows", "width"), ("bags", "width")
BAG = FRAMED.named(
    "bag", outputs={"out": writes(*_BAGS)}, inputs={"table": _in(*_TABLE), **_FACTORS, **_INDICES, **_SCALES},
    integers="rows width bags padding mean scaled first count", splits=(_BY_STEPS,),
)  # fmt: skip
# Here `first` and `count` are columns.
BAG_TABLE = FRAMED.named(
    "bag_table", outputs={"out": updates(*_TABLE)}, inputs={"grad": _in(*_BAGS), **_FACTORS, **_INDICES, **_SCALES},
    integers="rows width bags padding mean first count", splits=(Split("count", {"first": 1}, grain=64),),
)  # fmt: skip
BAG_FACTORS = FRAMED.named(
    "bag_factors", outputs={"out": updates("indices.numel")},
    inputs={"grad": _in(*_BAGS), "table": _in(*_TABLE), **_INDICES, **_SCALES}, integers="rows width bags padding",
)  # fmt: skip
BAG_MAXIMA = FRAMED.named(
    "bag_maxima", outputs={"out": writes(*_BAGS, element=INT64)}, inputs={"table": _in(*_TABLE), **_INDICES},
    integers="rows width bags padding first count", splits=(_BY_STEPS,),
)  # fmt: skip

# --- alignments -------------------------------------------------------------------------------------------

# Of each sequence its length, the length of its target and where that begins among the targets. A sequence has as many
# states as its target with blanks around each label; `alpha` has room for `states`, those of the longest.
_PROBABILITIES, _ALPHA = ("times", "n", "classes"), ("n", "times", "states")
_SEQUENCES = {
    "log_probs": _in(*_PROBABILITIES), "targets": _in("targets.numel", element=INT64),
    "layout": _in("n", 3, element=INT64),
}  # fmt: skip
_ALIGNMENT = "n times classes states blank first count zero_infinity"
CTC = FRAMED.named(
    "ctc", outputs={"loss": writes("n"), "alpha": writes(*_ALPHA)}, inputs=_SEQUENCES, integers=_ALIGNMENT,
    splits=(_BY_STEPS,),
)  # fmt: skip
CTC_BACKWARD = FRAMED.named(
    "ctc_backward", outputs={"out": updates(*_PROBABILITIES), "beta": updates("n", 2, "states")},
    inputs={"grad": _in("n"), **_SEQUENCES, "loss": _in("n"), "alpha": _in(*_ALPHA)},
    integers=_ALIGNMENT, splits=(_BY_STEPS,),
)  # fmt: skip

LAYERS = (
    GRID_SAMPLE, GRID_PLACES, GRID_IMAGES, RESAMPLE, BAG, BAG_TABLE, BAG_FACTORS, BAG_MAXIMA, CTC, CTC_BACKWARD,
)  # fmt: skip
