"""Gathering and scattering by index tensors."""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import SUPPORTED_DTYPES
from fastgrad.native.contracts.frames import indexing
from fastgrad.native.contracts.limits import SAVED_INPUTS
from fastgrad.native.contracts.ops import (
    IN_FLOAT32,
    NOT_DIFFERENTIABLE,
    SHAPE_GATHER,
    SHAPE_INDEX,
    SHAPE_INDEX_BACKWARD,
    SHAPE_INDEX_ONTO,
    SHAPE_INDEX_PUT,
    SHAPE_NONZERO,
    SHAPE_SCATTER_ADD,
    STRUCTURED,
)
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op
from fastgrad.ops.rules import gathering
from fastgrad.ops.vocabulary import m

SCATTER = Kernel("scatter_add", "index:scatter_add", frame=indexing.SCATTER, dtypes=SUPPORTED_DTYPES)
INDEX = Kernel("index", "index:index", frame=indexing.INDEX, dtypes=SUPPORTED_DTYPES)
INDEX_PUT = Kernel("index_put", "index:index_put", frame=indexing.INDEX_PUT, dtypes=SUPPORTED_DTYPES)

gather = Op(
    "gather",
    STRUCTURED,
    ("x", "index"),
    integers.ALONG.names,
    kernel=Kernel("gather", "index:gather", frame=indexing.GATHER, dtypes=SUPPORTED_DTYPES),
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
_MORE = tuple(f"indices{k}" for k in range(1, MOST_INDICES))
Op(
    "index_put_", STRUCTURED, ("x", "v", "indices", *(f"{name}?" for name in _MORE)), integers.INDEX_ONTO.names,
    kernel=INDEX_PUT, forward=SHAPE_INDEX_PUT, edges=2, saved_as=" ".join(("self values indices", *_MORE)),
)  # fmt: skip
# A copy of x with a source written at indices, of which the last stays where several are one place, or added to it.
# Indices of one dimension, or stacked ones of several.
index_add = Op(
    "index_add", STRUCTURED, ("x", "source", "index"), integers.INDEX_ONTO.names, kernel=INDEX_PUT,
    forward=SHAPE_INDEX_ONTO, flags=IN_FLOAT32, edges=2, saved_as="self source index",
)  # fmt: skip
index_copy = Op(
    "index_copy", STRUCTURED, ("x", "source", "index"), integers.INDEX_ONTO.names, kernel=INDEX_PUT,
    forward=SHAPE_INDEX_ONTO, edges=2, saved_as="self source index",
)  # fmt: skip
index_fill = Op(
    "index_fill", STRUCTURED, ("x", "source", "index"), integers.INDEX_ONTO.names, kernel=INDEX_PUT,
    forward=SHAPE_INDEX_ONTO, edges=2, saved_as="self value index",
)  # fmt: skip
index_put = Op(
    "index_put", STRUCTURED, ("x", "v", "indices"), integers.INDEX_ONTO.names, kernel=INDEX_PUT,
    forward=SHAPE_INDEX_ONTO, edges=2, saved_as="self values indices",
)  # fmt: skip
index_put_accumulate = Op(
    "index_put.accumulate", STRUCTURED, ("x", "v", "indices"), integers.INDEX_ONTO.names, kernel=INDEX_PUT,
    forward=SHAPE_INDEX_ONTO, flags=IN_FLOAT32, node="IndexPutBackward0", edges=2, saved_as="self values indices",
)  # fmt: skip


def zeros_like(x):
    """Zeros of the sizes and the dtype of a tensor, in a rule."""
    never = m.logical_and(m.eq(x, x), m.ne(x, x))
    return m.where(never, x, 0.0)


def _at(g, index, first, form):
    return invoke(BY_NAME["index"], (g, index), first, form)


def _elsewhere(g, index, first, form):
    """The gradient, zero at the indices."""
    return invoke(index_copy, (g, zeros_like(_at(g, index, first, form)), index), first, form, 0)


def _rules(op, source, index, rule):
    """Declare a rule for operands under the names that the op has for them."""
    declare = op.vjp(source)
    if index == "index":
        declare(lambda g, index, first, form: rule(g, index, first, form))
    else:
        declare(lambda g, indices, first, form: rule(g, indices, first, form))


for _op in (index_add, index_put_accumulate):
    _op.identity("x")
for _op in (index_copy, index_fill, index_put):
    _rules(_op, "x", _op.inputs[2], _elsewhere)
for _op in (index_add, index_copy, index_fill, index_put, index_put_accumulate):
    _rules(_op, _op.inputs[1], _op.inputs[2], _at)
nonzero = Op(
    "nonzero", STRUCTURED, ("x",), integers.PLACES.names, forward=SHAPE_NONZERO, flags=NOT_DIFFERENTIABLE,
    kernel=Kernel("nonzero", "index:nonzero", frame=indexing.NONZERO, dtypes=SUPPORTED_DTYPES),
)  # fmt: skip
