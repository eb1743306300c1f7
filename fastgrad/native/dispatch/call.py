"""One way to call any op: `call` runs it by its kind, gives views their base and records the graph."""

from __future__ import annotations

from fastgrad.native.base import integers
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, native_once, runtime, stack_small, words
from fastgrad.native.base.modes import enter
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.ops import (
    BY_COLUMNS,
    ELEMENTWISE,
    REDUCTION,
    ROWWISE,
    SHAPE_SPLIT,
    SHAPE_UNBIND,
    VIEW,
    VIEW_SELECT,
    VIEW_SLICE,
)
from fastgrad.native.contracts.status import DEVICE_MISMATCH
from fastgrad.native.graph.recording import record
from fastgrad.native.launch.elementwise import elementwise
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes import reduction, rowwise, run_forward
from fastgrad.native.shapes.matrices import factors_by_columns
from fastgrad.native.tensors.tensors import mark_view, on_one_device
from fastgrad.native.tensors.views import make_view, select_at, slice_at


@native
def run_splits(kind, h, attrs, n, outs):
    """The outputs of unbind or split: as many views as the caller counted."""
    of = integers.along(attrs)
    place = words(stack_small())
    at = 0
    for k in range(n):
        if kind == SHAPE_UNBIND:
            outs[k] = make_view(VIEW_SELECT, h, 2, select_at(place, of.dim, k))
        else:
            outs[k] = make_view(VIEW_SLICE, h, 4, slice_at(place, of.dim, at, of.rest[k]))
            at += of.rest[k]
        if outs[k] <= 0:
            status = outs[k]
            for j in range(k):
                drop(outs[j])
            return status
        mark_view(outs[k], h, True)
    return n


@native_once
def call(op, n, ins, n_attrs, attrs, outs, n_outs):
    """Run an op and record it; handles of the results go to `outs`.

    `n_outs` is the number of outputs where only the caller knows it (split, unbind), else ignored. Returns the
    number of outputs or a negative status; after a failure nothing is left behind.
    """
    info = op_record(op)
    kind = info.kind
    count = 1
    if kind != ELEMENTWISE and not on_one_device(n, ins):
        return DEVICE_MISMATCH
    if kind == ELEMENTWISE:
        outs[0] = elementwise(op, n, ins)
        count = 1 if outs[0] > 0 else outs[0]
    elif kind == VIEW:
        outs[0] = make_view(info.forward, ins[0], n_attrs, attrs)
        count = 1 if outs[0] > 0 else outs[0]
        if outs[0] > 0:
            mark_view(outs[0], ins[0], False)
    elif kind == REDUCTION:
        outs[0] = reduction(op, ins[0], n_attrs, attrs)
        count = 1 if outs[0] > 0 else outs[0]
    elif kind == ROWWISE:
        outs[0] = rowwise(op, n, ins, attrs)
        count = 1 if outs[0] > 0 else outs[0]
    elif info.forward == SHAPE_UNBIND or info.forward == SHAPE_SPLIT:
        count = run_splits(info.forward, ins[0], attrs, n_outs, outs)
    else:
        count = run_forward(op, info.forward, n, ins, n_attrs, attrs, outs)
    if count <= 0:
        return count
    if runtime().mode & GRAD_ENABLED:
        if info.flags & BY_COLUMNS:
            op += factors_by_columns(n, ins)
        status = record(op, n, ins, count, outs, n_attrs, attrs)
        if failed(status):
            for k in range(count):
                drop(outs[k])
            return status
    return count


@native
def call_entry(op, n, ins, n_attrs, attrs, outs, n_outs):
    """`call` for Python."""
    enter()
    return call(op, n, ins, n_attrs, attrs, outs, n_outs)
