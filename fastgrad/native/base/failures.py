"""Failing: a reason and the facts for its message; see Note [Results] in `contracts.status`."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native, native_inline, native_once, runtime, tensor
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.status import (
    DIM_RANGE,
    NOTED_INTS,
    NOTED_OPERANDS,
    OPERAND_WORDS,
    SIZES_WORDS,
)


@native_inline
def failed(result):
    """Whether what a native function answered is a failure."""
    return result < 0


@native_once
def fail(reason, a=0, b=0, c=0, d=0):
    """Leave up to four facts for the message; returns the reason."""
    runtime().error_reason = reason
    e = runtime().error
    e[0] = a
    e[1] = b
    e[2] = c
    e[3] = d
    return reason


@native
def note_sizes(reason, word, ndim, shape):
    """Leave the sizes of a tensor as a fact that begins at `word`."""
    runtime().error_reason = reason
    e = runtime().error
    e[word] = ndim
    for k in range(min(ndim, SIZES_WORDS - 1)):
        e[word + 1 + k] = shape[k]


@native
def fail_sizes(reason, n, sizes, a=0, b=0):
    """Leave the sizes that were asked for, then up to two facts more; returns the reason."""
    note_sizes(reason, 0, n, sizes)
    runtime().error[SIZES_WORDS] = a
    runtime().error[SIZES_WORDS + 1] = b
    return reason


@native_once
def note_call(n, ins, n_ints, ints):
    """Leave what a call of a pass was given, handles of operands and integers, for the message of its failure."""
    noted = runtime().failed_call
    noted[0] = min(n, NOTED_OPERANDS)
    noted[1] = min(n_ints, NOTED_INTS)
    for k in range(noted[0]):
        at = 2 + k * OPERAND_WORDS
        noted[at] = -1
        noted[at + 1] = 0
        if ins[k] != 0:
            t = tensor(ins[k])
            noted[at] = t.dtype
            noted[at + 1] = t.ndim
            for d in range(min(t.ndim, MAX_DIMS)):
                noted[at + 2 + d] = t.shape[d]
    for k in range(noted[1]):
        noted[2 + NOTED_OPERANDS * OPERAND_WORDS + k] = ints[k]


@native_inline
def noted(answer, n, ins, n_ints, ints):
    """What a call of a pass answered; if it failed, what the call was given is noted."""
    if failed(answer):
        note_call(n, ins, n_ints, ints)
    return answer


@native_once
def fail_dim(dim, ndim):
    """The failure of a dimension that a tensor of `ndim` dimensions does not have."""
    bound = max(ndim, 1)
    return fail(DIM_RANGE, dim, -bound, bound - 1)
