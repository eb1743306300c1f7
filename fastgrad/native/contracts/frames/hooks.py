"""The frame of hooks that are compiled code."""

from __future__ import annotations

from fastgrad.native.contracts.element_types import UINT8
from fastgrad.native.contracts.frame import Frame, number, size, status, updates
from fastgrad.native.contracts.limits import MAX_DIMS

HOOK = Frame(
    "hook", code=number(), x=updates("nbytes", element=UINT8), out=updates("nbytes", element=UINT8),
    state=updates("state_nbytes", element=UINT8), nbytes=size(), state_nbytes=size(),
    n=size(), n_state=size(), sizes=size(count=MAX_DIMS), status=status(),
)  # fmt: skip
"""`code`: the address of what was compiled for the function, which gets the same frame. `x`: the gradient, of a leaf
its elements; `out`: what is written in its place, of a leaf the gradient, or zero. `n`: elements of a flat array;
`sizes`: those of one that is not flat."""
