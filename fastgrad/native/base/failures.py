"""Failing: a reason and the facts for its message; see Note [Results] in `contracts.status`."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native, native_inline, native_once, runtime
from fastgrad.native.contracts.status import DIM_RANGE, SIZES_WORDS


@native_inline
def failed(result):
    """Whether what a native function answered is a failure."""
    return result < 0


@native_once
def fail(reason, a=0, b=0, c=0, d=0):
    """Leave up to four facts for the message; returns the reason."""
    e = runtime().error
    e[0] = a
    e[1] = b
    e[2] = c
    e[3] = d
    return reason


@native
def note_sizes(word, ndim, shape):
    """Leave the sizes of a tensor as a fact that begins at `word`."""
    e = runtime().error
    e[word] = ndim
    for k in range(min(ndim, SIZES_WORDS - 1)):
        e[word + 1 + k] = shape[k]


@native_once
def fail_dim(dim, ndim):
    """The failure of a dimension that a tensor of `ndim` dimensions does not have."""
    bound = max(ndim, 1)
    return fail(DIM_RANGE, dim, -bound, bound - 1)
