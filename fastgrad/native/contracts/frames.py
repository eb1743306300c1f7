"""The frames of kernels: what the words are that a kernel gets."""

from __future__ import annotations

from fastgrad.native.contracts.limits import MAX_DIMS, MAX_INPUTS
from fastgrad.native.contracts.record import Record

# Layout classes of a kernel.
FLAT, STRIDED, INPLACE = 0, 1, 2

# Words of an elementwise kernel's frame. FLAT and INPLACE: n, then one address per operand, output first.
# STRIDED: number of dimensions, sizes from the innermost, then per operand an address and its strides.
OPERAND_WORDS = 1 + MAX_DIMS
STRIDED_WORDS = 1 + MAX_DIMS + (MAX_INPUTS + 1) * OPERAND_WORDS
FRAME_WORDS = 64

# Words of the frame of an op that is one kernel over contiguous operands (`native.shapes.framed`): the
# addresses of outputs and of inputs (0 where there is none), the inputs' numbers of elements, the address of a
# status, integers.
MAX_FRAME_INPUTS = 6
FRAME_OUTPUTS = 0
FRAME_INPUTS = 2
FRAME_NUMELS = FRAME_INPUTS + MAX_FRAME_INPUTS
FRAME_STATUS = FRAME_NUMELS + MAX_FRAME_INPUTS
FRAME_INTS = FRAME_STATUS + 1

# The frame of the kernels of attention. An operand's words are its address and the distances, in elements, between
# batches, heads and rows; the address of an absent mask is zero. Queries share keys and values in groups of heads.
ATTENTION = Record(
    "attention", lse=1, scratch=1, batch=1, heads=1, group=1, queries=1, keys=1, width=1, causal=1, scale=1,
    q=4, k=4, v=4, mask=4, out=4, grad_out=4, grad_q=4, grad_k=4, grad_v=4,
)  # fmt: skip
ATTENTION_QUERIES, ATTENTION_KEYS = 64, 128
"""Scores that these kernels compute at a time."""

FRAMES = (ATTENTION,)
