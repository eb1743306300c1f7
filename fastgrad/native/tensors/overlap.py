"""Tensors that share memory: what may be written while what is read.

As in PyTorch only that is refused which is easily told: elements that share one place by a stride of 0, and two
tensors without gaps whose ranges of memory meet without being the same.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native, native_once, tensor
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.layouts import same_strides, without_gaps

DISJOINT, PARTLY, FULLY = range(3)
"""How two tensors share memory; `DISJOINT` also where that is not easily told."""


@native
def overlaps_itself(h):
    """Whether several elements of a tensor share one place in memory, as after expand."""
    t = tensor(h)
    if t.flags & CONTIGUOUS or t.numel == 0:
        return False
    for k in range(t.ndim):
        if t.strides[k] == 0 and t.shape[k] > 1:
            return True
    return False


@native_once
def overlap(a, b):
    """How two tensors share memory."""
    ta = tensor(a)
    tb = tensor(b)
    if a == b:
        return FULLY
    if ta.storage != tb.storage or ta.numel == 0 or tb.numel == 0:
        return DISJOINT
    if not without_gaps(ta) or not without_gaps(tb):
        return DISJOINT
    end_a = ta.data + ta.numel * itemsize(ta.dtype)
    end_b = tb.data + tb.numel * itemsize(tb.dtype)
    if ta.data == tb.data and end_a == end_b:
        return FULLY if same_strides(ta, tb) else PARTLY
    return PARTLY if ta.data < end_b and tb.data < end_a else DISJOINT
