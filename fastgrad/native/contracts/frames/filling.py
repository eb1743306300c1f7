"""Filling memory: bytes, constants, random numbers, sequences."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import UINT8
from fastgrad.native.contracts.frame import Frame, number, reads, size, writes
from fastgrad.native.contracts.split import Split

ZERO = Frame(
    "zero",
    out=writes("nbytes", element=UINT8),
    nbytes=size(),
    splits=(Split("nbytes", {"out": ()}, grain=64),),
)

# Bytes as they stand, between the host's memory and the device's; which is which says the kernel.
TRANSFER = Frame(
    "transfer",
    out=writes("nbytes", element=UINT8),
    x=reads("nbytes", element=UINT8),
    nbytes=size(),
    splits=(Split("nbytes", {"out": (), "x": ()}, grain=64),),
)

# The value is the bits of a float64, or an integer.
CONSTANT = Frame("constant", n=size(), out=writes("n"), value=number(), splits=(Split("n", {"out": ()}),))

# Random numbers: `a` and `b` are the bounds of the distribution, or its mean and deviation: bits of float64, or
# integers. How many elements come from a block of the stream depends on kernel and dtype, so that the offset of a part
# does, too.
RANDOM = Frame("random", n=size(), out=writes("n"), seed=number(), offset=number(), a=number(), b=number())

# ``start + i step``: bits of float64, or integers. An element is rounded once, from its own number.
SEQUENCE = Frame("sequence", n=size(), out=writes("n"), start=number(), step=number())
