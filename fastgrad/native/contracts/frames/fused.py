"""Launches that are several of others: see `fastgrad.compiler.fusion`. What they do says their code."""

from __future__ import annotations

from fastgrad.native.contracts.frame import Frame, number, reads, scratch, size, stride, writes
from fastgrad.native.contracts.split import Split

MAX_OUTS, MAX_INS, MAX_STEPS, MAX_NUMBERS, MAX_OUTER = 14, 22, 11, 8, 2
"""Results, operands, strides that do not follow from sizes, numbers, and sizes of the dimensions that rows run over."""

PIECE = 4096
"""Elements that stand for a row where there are none."""
PITCH = 8
"""A row that is kept has room for a multiple of so many elements of eight bytes, larger than its length."""
ROWS_TOGETHER, LENGTH_TOGETHER = 4, 512
"""How many rows a CPU takes at a time through each phase of a program, and how long they may be."""

# Rows from `first` on, of `n` elements each; where there are no rows, `n` elements in pieces. Rows may run over several
# dimensions, whose sizes are `outer` from the innermost one on, and go to parts by a multiple of `grain`. An address of
# zero stands for nothing. What is written and read in its place is named twice.
FUSED_ROWS = Frame(
    "fused",
    rows=size(), first=number(), grain=size(), n=size(), outer=size(count=MAX_OUTER), room=scratch(),
    outs=writes(count=MAX_OUTS), ins=reads(count=MAX_INS), steps=stride(count=MAX_STEPS),
    numbers=number(count=MAX_NUMBERS), splits=(Split("rows", {"first": 1}, grain="grain"),),
)  # fmt: skip

FUSED = FUSED_ROWS.variant(room=number(count=3))
"""The same without room for what a row needs later. Of a GPU's the first of these words is the number of sums of each
column, times that of columns."""
