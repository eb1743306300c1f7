"""Filling memory: bytes, constants, random numbers, sequences."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT32, UINT8
from fastgrad.native.contracts.frame import Frame, number, reads, size, writes
from fastgrad.native.contracts.split import Split

ZERO = Frame(
    "zero",
    out=writes("nbytes", element=UINT8),
    nbytes=size(),
    splits=(Split("nbytes", {"out": ()}, grain=64),),
)

# Bytes as they stand, between the host's memory and the device's, or two devices'; which is which says the kernel.
# `queued`: the host's memory stays where it is, and nobody waits. `other`: the state of the device that they go to.
TRANSFER = Frame(
    "transfer",
    out=writes("nbytes", element=UINT8),
    x=reads("nbytes", element=UINT8),
    nbytes=size(),
    queued=number(),
    other=number(),
    splits=(Split("nbytes", {"out": (), "x": ()}, grain=64),),
)

# The value is the bits of a float64, or an integer.
CONSTANT = Frame("constant", n=size(), out=writes("n"), value=number(), splits=(Split("n", {"out": ()}),))

# Random numbers: `a` and `b` are the bounds of the distribution, or its mean and deviation: bits of float64, or
# integers. A block of the stream gives `per_block` elements.
RANDOM = Frame(
    "random", n=size(), out=writes("n"), seed=number(), offset=number(), a=number(), b=number(), per_block=size(),
    splits=(Split("n", {"out": (), "offset": "per_block"}, grain="per_block"),),
)  # fmt: skip
UNIFORM, NORMAL, INTEGERS, PERMUTATION = range(4)
PER_BLOCK = ((2, 4), (2, 4), (2, 2), (2, 2))
"""Of each kind of random numbers: elements from a block, and how many if a word of 32 bits is enough for one."""
# Each element depends on those before it, in permutations of the first `a` integers one behind the other.
PERMUTATIONS = RANDOM.variant(splits=())
IN_WORDS = (FLOAT16, BFLOAT16, FLOAT32)
"""Dtypes whose random floats take a word."""

# ``start + i step``: bits of float64, or integers. An element is rounded once, from its own number. If `turn` is not
# `n`, the step of floats is what leads to `end` with the last element, and from `turn` on they are counted back from
# there.
SEQUENCE = Frame(
    "sequence", n=size(), out=writes("n"), start=number(), step=number(), turn=size(), end=number()
)
BY_STEP, BETWEEN, TRIANGLE = range(3)
"""What the two numbers of a sequence are: its start and its step, its start and its end, or which triangle it tells."""


def staircase(steps: int, columns: int) -> int:
    """The elements of so many rows of 1, 2, 3 and so on up to all columns, and then all of them."""
    rising = max(min(steps, columns), 0)
    return rising * (rising + 1) // 2 + max(steps - columns, 0) * columns


# The places in a triangle of a matrix, row by row: the rows, then the columns of all. The triangle is the lower one up
# to a diagonal, or the upper one from it on.
TRIANGLE_PLACES = Frame(
    "triangle_places", n=size(), out=writes("n"), columns=number(), diagonal=number(), upper=number()
)
