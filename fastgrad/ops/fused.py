"""Rows of the kernel table for launches that are several of others: their code stands on the tape, not in the table."""

from __future__ import annotations

from fastgrad.native.contracts.frames import FLAT, fused
from fastgrad.ops.kernel_table import Kernel

HINT = "what is launched for several at once has code of its own"
FUSED = Kernel("fused", "fused:build", frame=fused.FUSED, dtypes=(), hint=HINT)
FUSED_ROWS = Kernel("fused_rows", "fused:build", frame=fused.FUSED_ROWS, dtypes=(), hint=HINT)

# No kernel of theirs is ever looked for, which is when others are described.
for _kernel in (FUSED, FUSED_ROWS):
    _kernel.describe(FLAT)
