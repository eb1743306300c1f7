"""One way to call any op: `call` runs it by its kind, gives views their base and records the graph."""

from __future__ import annotations

from fastgrad.native.base import integers
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    native_once,
    runtime,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.base.modes import is_watched
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.flags import CONJUGATED, GPU_AUTOCAST, GRAD_ENABLED, WRAPPED_NUMBER
from fastgrad.native.contracts.formats import PRESERVE_FORMAT
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.native.contracts.ops import (
    BY_COLUMNS,
    ELEMENTWISE,
    FLOAT32_IN_AUTOCAST,
    HALVES_ON_GPUS,
    IN_FLOAT32,
    KEEPS_FLOAT32,
    REDUCTION,
    ROWWISE,
    SHAPE_SPLIT,
    SHAPE_UNBIND,
    TAKES_CONJUGATES,
    TAKES_FLOAT32,
    VIEW,
    VIEW_SELECT,
    VIEW_SLICE,
)
from fastgrad.native.contracts.status import DEVICE_MISMATCH
from fastgrad.native.graph.recording import record
from fastgrad.native.launch.elementwise import any_conjugated, copy_as, copy_into, drop_copies, elementwise
from fastgrad.native.launch.launch import op_record
from fastgrad.native.launch.promotion import is_floating, is_half
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.profiles import begin_call, end_call
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
def computed(op, n, ins, n_attrs, attrs, outs, n_outs):
    """Run an op that is neither elementwise nor a view, in the dtype of its operands; as `call`, without recording."""
    info = op_record(op)
    kind = info.kind
    if kind == REDUCTION:
        outs[0] = reduction(op, ins[0], n_attrs, attrs)
        count = 1 if outs[0] > 0 else outs[0]
    elif kind == ROWWISE:
        outs[0] = rowwise(op, n, ins, attrs)
        count = 1 if outs[0] > 0 else outs[0]
    elif info.forward == SHAPE_UNBIND or info.forward == SHAPE_SPLIT:
        count = run_splits(info.forward, ins[0], attrs, n_outs, outs)
    else:
        count = run_forward(op, info.forward, n, ins, n_attrs, attrs, outs)
    return count


@native
def half_among(info, n, ins):
    """The half dtype of the operands of an op that converts them, numbers aside; -1 if there is none, or not all may be
    converted.

    Then the op says what is wrong with its operands, as it does where there are no halves.
    """
    found = -1
    for k in range(n):
        if ins[k] == 0 or not is_floating(tensor(ins[k]).dtype) or tensor(ins[k]).flags & WRAPPED_NUMBER:
            continue
        dtype = tensor(ins[k]).dtype
        if found < 0:
            found = dtype
        fits = dtype == found or (dtype == FLOAT32 and info.flags & TAKES_FLOAT32)
        if not is_half(found) or not fits:
            return -1
    return found


@native
def stays(info, n, ins, half):
    """Whether the kernel of an op takes these operands as they lie: halves on a GPU, but for float32 statistics."""
    if not info.flags & HALVES_ON_GPUS:
        return False
    for k in range(n):
        if ins[k] == 0 or not is_floating(tensor(ins[k]).dtype):
            continue
        expected = FLOAT32 if info.statistics >> k & 1 else half
        if tensor(ins[k]).dtype != expected or tensor(ins[k]).device < FIRST_GPU:
            return False
    return True


@native
def rounded(info, count, outs, dtype):
    """The results of an op over halves, rounded where they still are float32: their number, or a failure."""
    for k in range(count):
        if tensor(outs[k]).dtype != FLOAT32 or (k > 0 and info.flags & KEEPS_FLOAT32):
            continue
        narrow = copy_as(outs[k], dtype, tensor(outs[k]).device, PRESERVE_FORMAT)
        if failed(narrow):
            for j in range(count):
                drop(outs[j])
            return narrow
        drop(outs[k])
        outs[k] = narrow
    return count


@native_once
def in_copies(op, n, ins, n_attrs, attrs, outs, n_outs, half):
    """As `computed`, over copies of operands that kernels cannot read as they lie.

    Those of the dtype `half` are copied to float32, and results are rounded at the end (Note [Halves]); -1 stands for
    none. Those that hold conjugates are copied as what they are (Note [Conjugates] in `launch.elementwise`).
    """
    info = op_record(op)
    size = n * 8
    place = allocate(size)
    if failed(place):
        return place
    wide = words(place)
    count = 0
    for k in range(n):
        wide[k] = ins[k]
        if ins[k] == 0 or failed(count):
            continue
        t = tensor(ins[k])
        if t.dtype == half or t.flags & CONJUGATED:
            wide[k] = copy_as(ins[k], FLOAT32 if t.dtype == half else t.dtype, t.device, PRESERVE_FORMAT)
            if failed(wide[k]):
                count = wide[k]
                wide[k] = ins[k]
    if not failed(count):
        count = computed(op, n, wide, n_attrs, attrs, outs, n_outs)
    for k in range(n):
        if wide[k] != ins[k]:
            if not failed(count) and info.written >> k & 1:
                status = copy_into(ins[k], wide[k])
                count = status if failed(status) else count
            drop(wide[k])
    deallocate(place, size)
    return rounded(info, count, outs, half) if half >= 0 else count


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
    else:
        half = half_among(info, n, ins) if info.flags & IN_FLOAT32 else -1
        turned = any_conjugated(n, ins) and not info.flags & TAKES_CONJUGATES
        if half < 0 and not turned:
            count = computed(op, n, ins, n_attrs, attrs, outs, n_outs)
        elif not turned and stays(info, n, ins, half):
            count = rounded(info, computed(op, n, ins, n_attrs, attrs, outs, n_outs), outs, half)
        else:
            count = in_copies(op, n, ins, n_attrs, attrs, outs, n_outs, half)
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
def is_half_on_gpu(h):
    """Whether an operand is a half, and on a GPU."""
    return h != 0 and is_half(tensor(h).dtype) and tensor(h).device >= FIRST_GPU


@native_once
def in_autocast(op, n, ins, n_attrs, attrs, outs, n_outs):
    """As `call`, over halves on GPUs as float32. That they are converted is recorded."""
    given = words(stack_small())
    target = words(stack_small())
    target[0] = FLOAT32
    wide = words(stack_small())
    count = 0
    for k in range(n):
        wide[k] = ins[k]
        if is_half_on_gpu(ins[k]) and not failed(count):
            given[0] = ins[k]
            count = call(runtime().cast_op, 1, given, 1, target, outs, 1)
            wide[k] = outs[0] if not failed(count) else ins[k]
    if not failed(count):
        count = call(op, n, wide, n_attrs, attrs, outs, n_outs)
    drop_copies(n, ins, wide)
    return count


@native
def call_entry(op, n, ins, n_attrs, attrs, outs, n_outs):
    """`call` for Python.

    A plan is run in the mode in which its function is called; where that is autocast, and the function has turned it
    off before it calls an op that would ask for it, there is no plan.
    """
    if is_watched():
        return watched_call(op, n, ins, n_attrs, attrs, outs, n_outs)
    return call_here(op, n, ins, n_attrs, attrs, outs, n_outs)


@native_once
def watched_call(op, n, ins, n_attrs, attrs, outs, n_outs):
    """The same while there is a profile."""
    token = begin_call(op, n, ins)
    count = call_here(op, n, ins, n_attrs, attrs, outs, n_outs)
    end_call(token, outs[0] if count > 0 else count)
    return count


@native_inline
def call_here(op, n, ins, n_attrs, attrs, outs, n_outs):
    """The same, in the modes of the calling thread."""
    if op_record(op).flags & FLOAT32_IN_AUTOCAST:
        rt = runtime()
        if rt.mode & GPU_AUTOCAST:
            return in_autocast(op, n, ins, n_attrs, attrs, outs, n_outs)
        if rt.recorder != 0 and rt.recorder_mode & GPU_AUTOCAST:
            for k in range(n):
                if is_half_on_gpu(ins[k]):
                    rt.recorder = 0
    return call(op, n, ins, n_attrs, attrs, outs, n_outs)
