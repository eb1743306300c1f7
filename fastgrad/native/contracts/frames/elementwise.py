"""Elementwise ops: formulas over operands of one shape, or broadcast to one."""

from __future__ import annotations

from fastgrad.native.contracts.frame import Frame, number, reads, size, updates, writes
from fastgrad.native.contracts.limits import FRAME_DIMS, MAX_INPUTS
from fastgrad.native.contracts.record import Part
from fastgrad.native.contracts.split import Last, Split

# Layout classes of a kernel: contiguous operands; any strides; contiguous, and the first operand is the result.
FLAT, STRIDED, INPLACE = 0, 1, 2

ACROSS = 16
"""Elements of a dimension from which on it pays to transpose what lies across the result."""

FLAT_FRAME = Frame(
    "flat",
    n=size(), out=writes("n"), inputs=reads("n", count=MAX_INPUTS),
    splits=(Split("n", {"out": (), "inputs": ()}),),
)  # fmt: skip
INPLACE_FRAME = FLAT_FRAME.variant(out=updates("n"))

# An operand and its strides, from the innermost dimension on.
OPERAND = Part("operand", data=1, strides=FRAME_DIMS)
_OUTERMOST = (Last(".strides", "rank"),)

# Dimensions are merged as far as all operands allow, and stand from the innermost one on. The first operand may lie
# across the result: `across` says in which dimension its neighbours are then, 1 for the outermost one, and else 0.
STRIDED_FRAME = Frame(
    "strided",
    rank=size(), across=number(), sizes=size(count=FRAME_DIMS),
    out=writes(part=OPERAND), inputs=reads(part=OPERAND, count=MAX_INPUTS),
    splits=(
        Split(
            Last("sizes", "rank"), {"out": _OUTERMOST, "inputs": _OUTERMOST}, grain=ACROSS, where={"across": 1}
        ),
        Split(Last("sizes", "rank"), {"out": _OUTERMOST, "inputs": _OUTERMOST}, unless={"across": 1}),
    ),
)  # fmt: skip

FORMULA_FRAMES = {FLAT: FLAT_FRAME, STRIDED: STRIDED_FRAME, INPLACE: INPLACE_FRAME}
"""What a formula's kernel gets, by its layout class."""
