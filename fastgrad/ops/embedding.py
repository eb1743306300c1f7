"""Looking up rows of a table."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import FLOATS, HALVES, WIDE
from fastgrad.native.contracts.frames.framed import EMBEDDING, EMBEDDING_BACKWARD, ROWS_OF
from fastgrad.native.contracts.ops import FLOAT_ONLY, SHAPE_FRAMED, STRUCTURED
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
    forward=SHAPE_FRAMED, flags=FLOAT_ONLY,
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
