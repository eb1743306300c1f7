"""Gathering and scattering by index tensors."""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.frames import indexing
from fastgrad.native.contracts.limits import SAVED_INPUTS
from fastgrad.native.contracts.ops import (
    IN_FLOAT32,
    NOT_DIFFERENTIABLE,
    SHAPE_GATHER,
    SHAPE_INDEX,
    SHAPE_INDEX_BACKWARD,
    SHAPE_INDEX_PUT,
    SHAPE_NONZERO,
    SHAPE_SCATTER_ADD,
    STRUCTURED,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import gathering

SCATTER = Kernel("scatter_add", "index:scatter_add", frame=indexing.SCATTER)
INDEX = Kernel("index", "index:index", frame=indexing.INDEX)
INDEX_PUT = Kernel("index_put", "index:index_put", frame=indexing.INDEX_PUT)

gather = Op(
    "gather",
    STRUCTURED,
    ("x", "index"),
    integers.ALONG.names,
    kernel=Kernel("gather", "index:gather", frame=indexing.GATHER),
    forward=SHAPE_GATHER,
    edges=1,
)
# To a copy of x; without x to zeros of the given sizes.
scatter_add = Op(
    "scatter_add",
    STRUCTURED,
    ("x?", "source", "index"),
    (*integers.ALONG.names, "*target"),
    kernel=SCATTER,
    forward=SHAPE_SCATTER_ADD,
    flags=IN_FLOAT32,
    edges=2,
    saved_as="self src index",
)


@gather.vjp("x")
def _(g, index, dim, sizes):
    return invoke(scatter_add, (None, g, index), dim, sizes)


gather.also_saves("x", "x")
scatter_add.identity("x")


@scatter_add.vjp("source")
def _(g, index, dim):
    return invoke(gather, (g, index), dim)


# x[..., i, j, ...] with index tensors over neighbouring dimensions from `first` on. They come as they are, for that is
# what a node saves, or stacked to one, if there are more than it has places for.
MOST_INDICES = SAVED_INPUTS - 1


def _indexing(name, transposed, nodes, called):
    """Reading at index tensors and, its transpose, adding to zeros at them; `called` is what PyTorch calls those."""
    names = (called, *(f"{called}{k}" for k in range(1, MOST_INDICES)))
    optional = (called, *(f"{name}?" for name in names[1:]))
    read = Op(
        name, STRUCTURED, ("x", *optional), integers.INDEXED.names, forward=SHAPE_INDEX, node=nodes[0], edges=1,
        kernel=INDEX,
    )  # fmt: skip
    add = Op(
        transposed, STRUCTURED, ("x", *optional), (*integers.INDEXED.names, "*target"), forward=SHAPE_INDEX_BACKWARD,
        node=nodes[1], edges=1, flags=IN_FLOAT32, kernel=INDEX_PUT, saved_as=" ".join(("source", *names)),
    )  # fmt: skip

    @read.vjp("x")
    @gathering("indices", names)
    def _(g, indices, first, form, sizes):
        return invoke(add, (g, *indices), first, form, sizes)

    @add.vjp("x")
    @gathering("indices", names)
    def _(g, indices, first, form):
        return invoke(read, (g, *indices), first, form)

    return add


_indexing("index", "index_backward", ("IndexBackward0", "IndexPutBackward0"), "indices")
_indexing("index.select", "index.add", ("IndexSelectBackward0", "IndexAddBackward0"), "index").also_saves(
    "x", "x"
)
index_put = Op(
    "index_put", STRUCTURED, ("x", "v", "indices"), integers.INDEX_SET.names, kernel=INDEX_PUT,
    forward=SHAPE_INDEX_PUT, edges=2, saved_as="self values indices",
)  # fmt: skip
nonzero = Op(
    "nonzero", STRUCTURED, ("x",), integers.PLACES.names, forward=SHAPE_NONZERO, flags=NOT_DIFFERENTIABLE,
    kernel=Kernel("nonzero", "index:nonzero", frame=indexing.NONZERO),
)  # fmt: skip
