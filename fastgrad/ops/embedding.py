"""Looking up rows of a table, one by one or in bags."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS, HALVES, WIDE
from fastgrad.native.contracts.frames.framed import EMBEDDING, EMBEDDING_BACKWARD, ROWS_OF
from fastgrad.native.contracts.frames.layers import BAG, BAG_FACTORS, BAG_MAXIMA, BAG_TABLE
from fastgrad.native.contracts.ops import FLOAT_ONLY, NOT_DIFFERENTIABLE, SHAPE_FRAMED, STRUCTURED, ZEROED
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op

LOOKUP = Kernel("embedding", "embedding:lookup", frame=EMBEDDING, dtypes=FLOATS)
_INTEGERS = (*EMBEDDING.names_of("integers"), "*outputs")

embedding = Op(
    "embedding", STRUCTURED, ("weight", "indices", "factors?"), _INTEGERS, kernel=LOOKUP, forward=SHAPE_FRAMED,
    flags=FLOAT_ONLY, edges=1,
)  # fmt: skip
embedding_backward = Op(
    "embedding_backward", STRUCTURED, ("v", "indices", "factors?"),
    (*EMBEDDING_BACKWARD.names_of("integers"), "*outputs"),
    kernel=Kernel(
        "embedding_backward", "embedding:collect", frame=EMBEDDING_BACKWARD, dtypes=WIDE, gpu_dtypes=HALVES
    ),
    forward=SHAPE_FRAMED, flags=FLOAT_ONLY | ZEROED,
    node="EmbeddingDenseBackwardBackward0", edges=1,
)  # fmt: skip
embedding_transposed = Op(
    "embedding_transposed", STRUCTURED, ("weight", "indices", "factors?"), _INTEGERS, kernel=LOOKUP,
    forward=SHAPE_FRAMED, flags=FLOAT_ONLY, node="EmbeddingBackward0", edges=1,
)  # fmt: skip


_EACH_INDEX = ROWS_OF - 1  # an output with a row for each of the second operand


def _collected(g, indices, factors, rows, width, padding):
    # The sizes are those of the call: the table may have been given other memory since.
    return invoke(embedding_backward, (g, indices, factors), rows, width, padding, 0, width, 2, rows, width)


embedding.vjp("weight")(_collected)
embedding_transposed.vjp("weight")(_collected)


@embedding_backward.vjp("v")
def _(g, indices, factors, rows, width, padding):
    return invoke(embedding_transposed, (g, indices, factors), rows, width, padding, 1, _EACH_INDEX, width)


# --- bags -----------------------------------------------------------------------------------------------------

# A sum over bags is linear in the table, in the factors and, seen from behind, in the gradient: three ops compute one
# of the three from the others.


def _bag_op(name, inputs, integers, kernel, node, flags=0):
    return Op(
        name, STRUCTURED, inputs, (*integers, "*outputs"), kernel=kernel, forward=SHAPE_FRAMED,
        flags=FLOAT_ONLY | flags, edges=2, node=node, called="embedding_bag",
    )  # fmt: skip


_BEHIND = ("indices", "bounds", "scales?")
_SECOND = "EmbeddingBagBackwardBackward0"
_BAG_KERNEL = Kernel("embedding_bag", "bags:lookup", frame=BAG, dtypes=WIDE)
embedding_bag = _bag_op(
    "embedding_bag", ("weight", "factors?", *_BEHIND), BAG.names_of("integers"),
    _BAG_KERNEL, "EmbeddingBagBackward0",
)  # fmt: skip
embedding_bag_transposed = _bag_op(
    "embedding_bag_transposed_backward", ("weight", "factors?", *_BEHIND), BAG.names_of("integers"), _BAG_KERNEL,
    _SECOND,
)  # fmt: skip
embedding_bag_backward = _bag_op(
    "embedding_bag_backward", ("v", "factors?", *_BEHIND), BAG_TABLE.names_of("integers"),
    Kernel("embedding_bag_backward", "bags:collect", frame=BAG_TABLE, dtypes=WIDE), _SECOND, ZEROED,
)  # fmt: skip
embedding_bag_factors = _bag_op(
    "embedding_bag_factors_backward", ("v", "weight", *_BEHIND), BAG_FACTORS.names_of("integers"),
    Kernel("embedding_bag_factors", "bags:to_factors", frame=BAG_FACTORS, dtypes=WIDE), _SECOND,
)  # fmt: skip
embedding_bag_maxima = Op(
    "embedding_bag_maxima", STRUCTURED, ("weight", "indices", "bounds"), (*BAG_MAXIMA.names_of("integers"), "*outputs"),
    kernel=Kernel("embedding_bag_maxima", "bags:maxima", frame=BAG_MAXIMA, dtypes=WIDE), forward=SHAPE_FRAMED,
    flags=FLOAT_ONLY | NOT_DIFFERENTIABLE, edges=1, called="embedding_bag",
)  # fmt: skip


def _by_table(g, factors, indices, bounds, scales, rows, width, bags, padding, mean):
    integers = (rows, width, bags, padding, mean, 0, width)
    return invoke(embedding_bag_backward, (g, factors, indices, bounds, scales), *integers, 2, rows, width)


def _by_factors(g, weight, indices, bounds, scales, rows, width, bags, padding, sizes):
    return invoke(
        embedding_bag_factors, (g, weight, indices, bounds, scales), rows, width, bags, padding, sizes
    )


embedding_bag.vjp("weight")(_by_table)
embedding_bag_transposed.vjp("weight")(_by_table)
embedding_bag_transposed.vjp("factors")(_by_factors)


@embedding_bag.vjp("factors")
def _(
    g, weight, indices, bounds, rows, width, bags, padding, sizes
):  # by frequency is divided for the table alone
    return invoke(
        embedding_bag_factors, (g, weight, indices, bounds, None), rows, width, bags, padding, sizes
    )


@embedding_bag_backward.vjp("v")
def _(g, factors, indices, bounds, scales, rows, width, bags, padding, mean):
    integers = (rows, width, bags, padding, mean, 1, 0, bags)
    return invoke(embedding_bag_transposed, (g, factors, indices, bounds, scales), *integers, 2, bags, width)


@embedding_bag_backward.vjp("factors")
def _(g, v, indices, bounds, scales, rows, width, bags, padding, sizes):
    return invoke(embedding_bag_factors, (v, g, indices, bounds, scales), rows, width, bags, padding, sizes)


@embedding_bag_factors.vjp("v")
def _(g, weight, indices, bounds, scales, rows, width, bags, padding):
    integers = (rows, width, bags, padding, 0, 1, 0, bags)
    return invoke(embedding_bag_transposed, (weight, g, indices, bounds, scales), *integers, 2, bags, width)


@embedding_bag_factors.vjp("weight")
def _(g, v, indices, bounds, scales, rows, width, bags, padding):
    integers = (rows, width, bags, padding, 0, 0, width)
    return invoke(embedding_bag_backward, (v, g, indices, bounds, scales), *integers, 2, rows, width)
