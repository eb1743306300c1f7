"""Scaled dot-product attention over batches of heads. Queries share keys and values in groups of heads."""

from __future__ import annotations

from fastgrad.native.contracts.frame import COMPUTED, Frame, number, reads, scratch, size, updates, writes
from fastgrad.native.contracts.record import Part
from fastgrad.native.contracts.split import Split

QUERIES, KEYS = 64, 128
"""Scores that the kernels compute at a time."""

# An operand: its address, which is zero for an absent mask, and the distances between batches, heads and rows.
HEADS = Part("heads", data=1, batch=1, head=1, row=1)
_INS, _OUTS, _SUMS = reads(part=HEADS), writes(part=HEADS), updates(part=HEADS)
_BATCH = (".batch",)
_FORWARD = {"lse": ("heads", "queries"), **dict.fromkeys(("q", "k", "v", "mask", "out"), _BATCH)}

# Logarithms of sums are of the dtype that is computed in. `launches`: of how many, one behind the other, the kernel of
# a GPU consists, which keeps a number of each query in its scratch in between.
ATTENTION = Frame(
    "attention",
    lse=writes("batch", "heads", "queries", element=COMPUTED), scratch=scratch(),
    batch=size(), heads=size(), group=size(), queries=size(), keys=size(), width=size(),
    causal=number(), scale=number(), launches=number(),
    q=_INS, k=_INS, v=_INS, mask=_INS, out=_OUTS, grad_out=_INS, grad_q=_OUTS, grad_k=_OUTS, grad_v=_OUTS,
    splits=(Split("batch", _FORWARD),),
)  # fmt: skip

_GRADIENTS = dict.fromkeys(("grad_out", "grad_q", "grad_k", "grad_v"), _BATCH)
ATTENTION_BACKWARD = ATTENTION.variant(
    lse=reads("batch", "heads", "queries", element=COMPUTED), out=_INS, grad_q=_SUMS, grad_k=_SUMS, grad_v=_SUMS,
    splits=(Split("batch", {**_FORWARD, **_GRADIENTS}),),
)  # fmt: skip
