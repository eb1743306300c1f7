"""Ops that are one kernel over contiguous operands, with integers of the call (see `native.shapes.framed`).

Each address has its extent declared, and the runtime compares it with what lies there before a launch, because what a
derivative gets may come from a saved-tensor hook. A kernel reports an index that is out of range.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from fastgrad.native.contracts.element_types import BOOL, INT64
from fastgrad.native.contracts.frame import (
    AS_COMPLEX,
    COMPUTED,
    REAL_PART,
    Frame,
    number,
    reads,
    status,
    updates,
    writes,
)
from fastgrad.native.contracts.limits import ATTR_WORDS
from fastgrad.native.contracts.record import Part
from fastgrad.native.contracts.split import Split

MAX_FRAMED_INPUTS = 6
ROWS_OF = -1 - MAX_FRAMED_INPUTS
AS_BEFORE = ROWS_OF - MAX_FRAMED_INPUTS
BATCH_OF = AS_BEFORE - 1
"""In place of the rank of an output: see `native.shapes.framed`."""

INPUT_BITS, INTEGER_BITS = 3, 5
MAX_FRAMED_OUTPUTS = 5


def batch_of(position: int, *integers: int) -> int:
    """What stands in place of an output's rank: the sizes of an input but for the last two, then up to two integers of
    the call by their numbers.
    """
    word = position
    for k, which in enumerate(integers):
        word |= (which + 1) << INPUT_BITS + k * INTEGER_BITS
    return BATCH_OF - word


INPUT = Part("input", data=1, numel=1)  # the address is 0 where there is none

# The integers are those that the op declares by name.
FRAMED = Frame(
    "framed",
    outputs=writes(count=MAX_FRAMED_OUTPUTS), inputs=reads(count=MAX_FRAMED_INPUTS, part=INPUT), status=status(),
    integers=number(count=ATTR_WORDS),
)  # fmt: skip

_in = partial(reads, part=INPUT)
_statistics, _keeps = partial(_in, element=COMPUTED), partial(writes, element=COMPUTED)

# --- dropout ---------------------------------------------------------------------------------------------------

DROPOUT_BLOCK = 4
# Seed and offset of the stream, one of whose blocks makes four elements of the mask; the probability that an element
# stays in units of 2**-32; bits of what it is multiplied by.
DROPOUT = FRAMED.named(
    "dropout", outputs={"out": writes("x.numel"), "mask": writes("x.numel", element=BOOL)},
    inputs={"x": _in("x.numel")}, integers="seed offset threshold scale",
    splits=(Split("x.numel", {"out": (), "mask": (), "x": (), "offset": DROPOUT_BLOCK}, grain=DROPOUT_BLOCK),),
)  # fmt: skip
DROPOUT_AGAIN = FRAMED.named(
    "dropout_again", outputs={"out": writes("x.numel")},
    inputs={"x": _in("x.numel"), "mask": _in("x.numel", element=BOOL)}, integers="scale",
    splits=(Split("x.numel", {"out": (), "x": (), "mask": ()}),),
)  # fmt: skip

# --- embeddings ------------------------------------------------------------------------------------------------

# Rows of the table, elements of a row, padding index or -1, whether this is the transpose of the gradient: then rows
# at the padding index are zero, and the factors, one for each index, count. Looking up for its own sake heeds neither.
_INTEGERS = "rows width padding transposed"
_INDICES = {"indices": _in("indices.numel", element=INT64), "factors": _in("indices.numel")}
EMBEDDING = FRAMED.named(
    "embedding", outputs={"out": writes("indices.numel", "width")},
    inputs={"table": _in("rows", "width"), **_INDICES}, integers=_INTEGERS,
    splits=(Split("indices.numel", {"out": ("width",), "indices": (), "factors": ()}),),
)  # fmt: skip
# What is added up may belong to one row from anywhere, so a part has all rows, and `columns` of them from `first` on.
_LINE = 64
"""Columns go to parts by so many, so that a part reads and writes whole lines of the cache."""
EMBEDDING_BACKWARD = FRAMED.named(
    "embedding_backward", outputs={"out": updates("rows", "width", element=COMPUTED)},
    inputs={"grad": _in("indices.numel", "width"), **_INDICES}, integers="rows width padding first columns",
    splits=(Split("columns", {"first": 1}, grain=_LINE),),
)  # fmt: skip

# --- distances -------------------------------------------------------------------------------------------------

# From n rows to k others, all m long, `batch` times; the order is the bits of a float. A part has all operands, and
# `count` of the former rows from `first` on. Derivatives by the latter have `others` of them, which is k times `batch`.
_DISTANCES = "batch n k m order first count"
_SIDES = {"x1": _in("batch", "n", "m"), "x2": _in("batch", "k", "m")}
_BY_ROWS = (Split("count", {"first": 1}, grain=8),)
CDIST = FRAMED.named(
    "cdist", outputs={"out": writes("batch", "n", "k")}, inputs=_SIDES, integers=f"{_DISTANCES} others",
    splits=_BY_ROWS,
)  # fmt: skip
CDIST_BACKWARD = FRAMED.named(
    "cdist_backward", outputs={"out": writes("batch", "n", "m")},
    inputs={"g": _in("batch", "n", "k"), **_SIDES, "y": _in("batch", "n", "k")}, integers=_DISTANCES, splits=_BY_ROWS,
)  # fmt: skip

# --- Fourier transforms ----------------------------------------------------------------------------------------

FFT_BYTES = 1 << 14
"""Of the longest row that a GPU transforms in one pass, where each element is a complex number."""

# Rows of complex numbers; the scale is the bits of a float. On GPUs longer rows take two passes, the first of which
# transforms `first` elements each: a factor of the length, which it is itself where there is one pass.
FFT = FRAMED.named(
    "fft", outputs={"out": writes("rows", "length")}, inputs={"x": _in("rows", "length")},
    integers="rows length first passes scale", splits=(Split("rows", {"out": ("length",), "x": ("length",)}),),
)  # fmt: skip
# Rows of real numbers, and of their transforms.
FFT_OF_REALS = FRAMED.named(
    "fft_of_reals", outputs={"out": writes("rows", "length", element=AS_COMPLEX)}, inputs={"x": _in("rows", "length")},
    integers="rows length first passes scale", splits=(Split("rows", {"out": ("length",), "x": ("length",)}),),
)  # fmt: skip
# Rows of real numbers, and of the first half of their transforms.
FFT_TO_HALF = FRAMED.named(
    "fft_to_half", outputs={"out": writes("rows", "half", element=AS_COMPLEX)}, inputs={"x": _in("rows", "length")},
    integers="rows length half scale", splits=(Split("rows", {"out": ("half",), "x": ("length",)}),),
)  # fmt: skip
FFT_FROM_HALF = FRAMED.named(
    "fft_from_half", outputs={"out": writes("rows", "length", element=REAL_PART)}, inputs={"x": _in("rows", "half")},
    integers="rows length half scale", splits=(Split("rows", {"out": ("length",), "x": ("half",)}),),
)  # fmt: skip

# --- sampling --------------------------------------------------------------------------------------------------

# Each element has its parameters, and a key that starts the stream of random numbers that it is made of.
SAMPLE = FRAMED.named(
    "sample", outputs={"out": writes("x.numel")},
    inputs={"x": _in("x.numel"), "keys": _in("x.numel", element=INT64), "p": _in("x.numel")},
    integers="", splits=(Split("x.numel", {"out": (), "x": (), "keys": (), "p": ()}),),
)  # fmt: skip

SHUFFLE_PASSES = 3
# Rows of so many elements: the numbers of each in random order, by a word for each element. A device of many blocks
# takes some launches, and needs room for two words of each element.
SHUFFLE = FRAMED.named(
    "shuffle", outputs={"out": writes("words.numel"), "room": writes("places")},
    inputs={"words": _in("words.numel")}, integers="length places launches",
)  # fmt: skip

# --- searching -------------------------------------------------------------------------------------------------

# Each row of boundaries is in order, or its sorter says in which places they would be; `per_row` values are sought in
# each.
SEARCH = FRAMED.named(
    "search", outputs={"out": writes("values.numel", element=INT64)},
    inputs={
        "values": _in("values.numel"), "boundaries": _in("rows", "length"),
        "sorter": _in("rows", "length", element=INT64),
    },
    integers="rows length per_row right",
    splits=(Split("values.numel", {"out": (), "values": ()}, where={"rows": 1}),),
)  # fmt: skip

# --- along rows ------------------------------------------------------------------------------------------------

# The rows of a dimension have `length` elements, `columns` apart from each other: so many rows lie side by side, in
# each of `blocks`.
_ALONG = ("blocks", "length", "columns")


def _row_by_row(*names: str) -> tuple[Split, ...]:
    return (Split("blocks", dict.fromkeys(names, _ALONG[1:])),)


RUNNING = FRAMED.named(
    "running", outputs={"out": writes(*_ALONG)}, inputs={"x": _in(*_ALONG)},
    integers="dim blocks length columns", splits=_row_by_row("out", "x"),
)  # fmt: skip
RUNNING_EXTREME = FRAMED.named(
    "running_extreme", outputs={"values": writes(*_ALONG), "places": writes(*_ALONG, element=INT64)},
    inputs={"x": _in(*_ALONG)}, integers="dim blocks length columns",
    splits=_row_by_row("values", "places", "x"),
)  # fmt: skip
RUNNING_SHARES = FRAMED.named(
    "running_shares", outputs={"out": writes(*_ALONG)},
    inputs={"v": _in(*_ALONG), "x": _in(*_ALONG), "y": _in(*_ALONG)}, integers="dim blocks length columns",
    splits=_row_by_row("out", "v", "x", "y"),
)  # fmt: skip

# --- normalisation ---------------------------------------------------------------------------------------------

# The operand is seen as four extents (n, g, c, s): see `kernels.cpu.normalization`. Each row or each channel has its
# mean and the reciprocal of its deviation, of the dtype that is computed in. Where channels lie last, the frame says in
# multiples of how many they go to parts.
_EXTENTS, _ROWS = ("n", "groups", "c", "s"), ("n", "groups")
_IMAGE = _EXTENTS[1:]
_NORM = "eps n groups c s channels_last"
_WEIGHT = {"weight": _in("groups", "c")}
_WEIGHTS = _WEIGHT | {"bias": _in("groups", "c")}
_OF_IMAGES, _OF_ROWS = (
    dict.fromkeys(("out", "grad", "x"), _IMAGE),
    dict.fromkeys(("mean", "rstd"), ("groups",)),
)


def _by_row(*names: str) -> tuple[Split, ...]:
    """The way to divide a launch over the images, if these move along."""
    return (Split("n", {name: (_OF_IMAGES | _OF_ROWS)[name] for name in names}),)


# Channels that lie side by side go to parts by so many, so that a part reads long runs of each row.
_SIDE_BY_SIDE = 512


def _by_channel(
    images: tuple[str, ...], channels: tuple[str, ...], where: Mapping[str, int] = MappingProxyType({})
) -> tuple[Split, ...]:
    """The way to divide a launch over the channels: images are as far apart as they were, ``x.numel // n``."""
    moves: dict[str, tuple[str, ...]] = {**dict.fromkeys(images, ("s",)), **dict.fromkeys(channels, ())}
    return (
        Split("c", moves, grain="channels_last", where={**where, "s": 1}, unless={"channels_last": 0}),
        Split("c", moves, grain=_SIDE_BY_SIDE, where={**where, "s": 1, "channels_last": 0}),
        Split("c", moves, where={**where, "channels_last": 0}, unless={"s": 1}),
    )


NORM = FRAMED.named(
    "norm", outputs={"out": writes(*_EXTENTS), "mean": _keeps(*_ROWS), "rstd": _keeps(*_ROWS)},
    inputs={"x": _in(*_EXTENTS), **_WEIGHTS}, integers=_NORM, splits=_by_row("out", "x", "mean", "rstd"),
)  # fmt: skip
# Without centring the means are empty.
NORM_UNCENTRED = NORM.variant(
    outputs={"out": writes(*_EXTENTS), "mean": _keeps(0), "rstd": _keeps(*_ROWS)},
    splits=_by_row("out", "x", "rstd"),
)
# Statistics that move with those of each batch are inputs that are written.
_moves = partial(updates, part=INPUT)
NORM_CHANNELS = FRAMED.named(
    "norm_channels", outputs={"out": writes(*_EXTENTS), "mean": _keeps("c"), "rstd": _keeps("c")},
    inputs={"x": _in(*_EXTENTS), **_WEIGHTS, "means": _moves("c"), "variances": _moves("c")},
    integers=f"{_NORM} momentum",
    splits=_by_channel(("out", "x"), ("mean", "rstd", "weight", "bias", "means", "variances")),
)  # fmt: skip
NORM_FIXED = NORM_CHANNELS.variant(
    outputs={"out": writes(*_EXTENTS), "mean": _keeps(0), "rstd": _keeps(0)},
    inputs={"x": _in(*_EXTENTS), **_WEIGHTS, "means": _in("c"), "variances": _in("c")},
    splits=_by_channel(("out", "x"), ("weight", "bias", "means", "variances")),
)
_BACK = {"grad": _in(*_EXTENTS), "x": _in(*_EXTENTS)}
_STATISTICS = {"mean": _statistics(*_ROWS), "rstd": _statistics(*_ROWS)}
_UNCENTRED = _STATISTICS | {"mean": _statistics(0)}
_OF_CHANNELS = {"mean": _statistics("c"), "rstd": _statistics("c")}
NORM_BACKWARD = FRAMED.named(
    "norm_backward", outputs={"out": writes(*_EXTENTS)}, inputs=_BACK | _WEIGHT | _STATISTICS, integers=_NORM,
    splits=_by_row("out", "grad", "x", "mean", "rstd"),
)  # fmt: skip
NORM_UNCENTRED_BACKWARD = NORM_BACKWARD.variant(
    inputs=_BACK | _WEIGHT | _UNCENTRED, splits=_by_row("out", "grad", "x", "rstd")
)
NORM_CHANNELS_BACKWARD = NORM_BACKWARD.variant(
    inputs=_BACK | _WEIGHT | _OF_CHANNELS,
    splits=_by_channel(("out", "grad", "x"), ("weight", "mean", "rstd")),
)


def _by_weight(*statistics: str) -> tuple[Split, ...]:
    """The ways to divide the sums for weights of rows: over the groups, or over the channels of the only one."""
    by_group = {"out": ("c",), "grad": ("c", "s"), "x": ("c", "s"), **dict.fromkeys(statistics, ())}
    side_by_side = by_group | {"grad": ("c",), "x": ("c",)}
    return (
        *_by_channel(("grad", "x"), ("out",), {"groups": 1}),
        Split("groups", by_group, where={"channels_last": 0}, unless={"groups": 1}),
        Split("groups", side_by_side, unless={"groups": 1, "channels_last": 0}),
    )


NORM_WEIGHT = FRAMED.named(
    "norm_weight", outputs={"out": writes("groups", "c")}, inputs=_BACK | _STATISTICS, integers=_NORM,
    splits=_by_weight("mean", "rstd"),
)  # fmt: skip
NORM_UNCENTRED_WEIGHT = NORM_WEIGHT.variant(inputs=_BACK | _UNCENTRED, splits=_by_weight("rstd"))
# By statistics that are given, a gradient is multiplied by what its channel was.
NORM_FIXED_BACKWARD = FRAMED.named(
    "norm_fixed_backward", outputs={"out": writes(*_EXTENTS)},
    inputs={"grad": _in(*_EXTENTS), "weight": _in("groups", "c"), "variances": _in("c")}, integers=_NORM,
    splits=_by_channel(("out", "grad"), ("weight", "variances")),
)  # fmt: skip
NORM_CHANNELS_WEIGHT = NORM_WEIGHT.variant(
    inputs=_BACK | _OF_CHANNELS, splits=_by_channel(("grad", "x"), ("out", "mean", "rstd"))
)
