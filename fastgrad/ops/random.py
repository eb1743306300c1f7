"""New tensors: of one number, of a sequence, and of random numbers, with the kernels that fill them."""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import FLOATS, INT32, INT64, NUMBERS
from fastgrad.native.contracts.frames import filling
from fastgrad.native.contracts.frames.framed import SHUFFLE
from fastgrad.native.contracts.ops import (
    NOT_DIFFERENTIABLE,
    SHAPE_FILLED,
    SHAPE_FRAMED,
    SHAPE_RANDOM,
    SHAPE_SEQUENCE,
    STRUCTURED,
)
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op

RANDOM_KERNELS = {
    filling.UNIFORM: Kernel("uniform", "random:uniform", frame=filling.RANDOM, dtypes=FLOATS),
    filling.NORMAL: Kernel("normal", "random:normal", frame=filling.RANDOM, dtypes=FLOATS),
    filling.INTEGERS: Kernel("integers", "random:integers", frame=filling.RANDOM),
    filling.PERMUTATION: Kernel(
        "permutation", "random:permutation", frame=filling.PERMUTATIONS, dtypes=(INT64,)
    ),
}
"""Those that draw from a generator, by what they draw."""

SEQUENCE = Kernel("sequence", "random:sequence", frame=filling.SEQUENCE, dtypes=NUMBERS)
TRIANGLE_PLACES = Kernel(
    "triangle_places", "memory:triangle_places", frame=filling.TRIANGLE_PLACES, dtypes=(INT32, INT64)
)

for _name, _shape in (("filled", SHAPE_FILLED), ("sequence", SHAPE_SEQUENCE), ("random", SHAPE_RANDOM)):
    Op(_name, STRUCTURED, (), (*integers.CREATED.names, "*target"), forward=_shape, flags=NOT_DIFFERENTIABLE)

# What draws a permutation on the host at once, for devices that draw the words before.
shuffle = Op(
    "shuffle", STRUCTURED, ("words",), (*SHUFFLE.names_of("integers"), "*outputs"),
    kernel=Kernel("shuffle", "random:shuffle", frame=SHUFFLE, dtypes=(INT64,)), forward=SHAPE_FRAMED, n_out=2,
    flags=NOT_DIFFERENTIABLE,
)  # fmt: skip
