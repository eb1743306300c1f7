"""Gathering and scattering by index tensors."""

from __future__ import annotations

from fastgrad.native.contracts.frames import indexing
from fastgrad.native.contracts.ops import (
    SHAPE_GATHER,
    SHAPE_INDEX,
    SHAPE_INDEX_BACKWARD,
    SHAPE_INDEX_PUT,
    SHAPE_SCATTER_ADD,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.shape import zeros_of

SCATTER = Kernel("scatter_add", "index:scatter_add", frame=indexing.SCATTER)
INDEX_PUT = Kernel("index_put", "index:index_put", frame=indexing.INDEX_PUT)

gather = Op(
    "gather",
    STRUCTURED,
    ("x", "index"),
    ("dim",),
    kernel=Kernel("gather", "index:gather", frame=indexing.GATHER),
    forward=SHAPE_GATHER,
    edges=1,
)
scatter_add = Op(
    "scatter_add",
    STRUCTURED,
    ("x", "source", "index"),
    ("dim",),
    kernel=SCATTER,
    forward=SHAPE_SCATTER_ADD,
    edges=2,
    saved_as="self src index",
)


@gather.vjp("x")
def _(g, index, dim, sizes):
    return invoke(scatter_add, (invoke(zeros_of, (g,), sizes), g, index), dim)


gather.also_saves("x", "x")
scatter_add.identity("x")


@scatter_add.vjp("source")
def _(g, index, dim):
    return invoke(gather, (g, index), dim)


# x[..., i, j, ...] with index tensors over neighbouring dimensions from `first` on; `indices` is their stack.
index = Op(
    "index",
    STRUCTURED,
    ("x", "indices"),
    ("first",),
    kernel=Kernel("index", "index:index", frame=indexing.INDEX),
    forward=SHAPE_INDEX,
    edges=1,
)
index_backward = Op(
    "index_backward", STRUCTURED, ("x", "indices"), ("first", "*target"), kernel=INDEX_PUT,
    forward=SHAPE_INDEX_BACKWARD, node="IndexPutBackward0", edges=1,
)  # fmt: skip
index_put = Op(
    "index_put", STRUCTURED, ("x", "v", "indices"), ("first", "accumulate"), kernel=INDEX_PUT,
    forward=SHAPE_INDEX_PUT, edges=2, saved_as="self values indices",
)  # fmt: skip


@index.vjp("x")
def _(g, indices, first, sizes):
    return invoke(index_backward, (g, indices), first, sizes)


index.variant("select", "IndexSelectBackward0")


@index_backward.vjp("x")
def _(g, indices, first):
    return invoke(index, (g, indices), first)
