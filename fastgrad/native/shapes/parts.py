"""Tensors put together from parts: joining, and the gradients of views and of splitting."""

from __future__ import annotations

from fastgrad.native.base import integers
from fastgrad.native.base.failures import fail, fail_dim, failed
from fastgrad.native.base.intrinsics import (
    advance,
    native,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    total,
    words,
)
from fastgrad.native.contracts.ops import VIEW_AS_STRIDED, VIEW_SELECT, VIEW_SLICE
from fastgrad.native.contracts.status import (
    BEYOND_STORAGE,
    CAT_DIMS,
    CAT_SIZES,
    INTERNAL,
    MISFIT,
    NO_DIMS,
    OVERLAP,
    STACK_SIZES,
)
from fastgrad.native.launch.elementwise import copy_into, elementwise_slow
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.copies import fill_zero, zeros
from fastgrad.native.shapes.reductions import sum_to
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.layouts import all_channels_last, arranged, new_image
from fastgrad.native.tensors.tensors import (
    finished,
    is_contiguous,
    new_tensor,
    new_view,
    same_shape,
    wrap_dim,
)
from fastgrad.native.tensors.views import extent, make_view, select_at, slice_at


@native
def may_overlap(ndim, sizes, strides):
    """Whether elements may share memory: a stride does not reach beyond all that smaller strides reach."""
    for k in range(ndim):
        reach = 0
        for j in range(ndim):
            if strides[j] < strides[k] or (strides[j] == strides[k] and j < k):
                reach += (sizes[j] - 1) * strides[j]
        if sizes[k] > 1 and strides[k] <= reach:
            return True
    return False


@native
def walked(n, sizes, strides):
    """The dimension to walk through so that fewer elements share memory: the shortest after which none do, if any."""
    best = -1
    shortest = -1
    for k in range(n):
        size = sizes[k]
        if size <= 1:
            continue
        if shortest < 0 or size < sizes[shortest]:
            shortest = k
        sizes[k] = 1
        if not may_overlap(n, sizes, strides) and (best < 0 or size < sizes[best]):
            best = k
        sizes[k] = size
    return best if best >= 0 else shortest


@native
def add_apart(part, source):
    """Add a tensor to a view of its sizes some of whose elements share memory; a status.

    Some dimensions are walked through, so that what is added at a time shares none.
    """
    t = tensor(part)
    s = tensor(source)
    n = t.ndim
    sizes = words(stack_small())
    at = words(stack_small())
    ins = words(stack_small())
    for k in range(n):
        sizes[k] = t.shape[k]
        at[k] = 0
    steps = min(t.numel, 1)
    while may_overlap(n, sizes, t.strides):
        k = walked(n, sizes, t.strides)
        steps *= sizes[k]
        sizes[k] = 1
    status = 0
    for _ in range(steps):
        target = t.data
        found = s.data
        for k in range(n):
            target += at[k] * t.strides[k] * itemsize(t.dtype)
            found += at[k] * s.strides[k] * itemsize(s.dtype)
        ins[0] = new_view(part, n, sizes, t.strides, target)
        ins[1] = new_view(source, n, sizes, s.strides, found) if not failed(ins[0]) else ins[0]
        status = elementwise_slow(runtime().add_op, 2, ins, ins[0]) if not failed(ins[1]) else ins[1]
        for k in range(2):
            if not failed(ins[k]):
                drop(ins[k])
        if failed(status):
            return status
        drop(status)
        for k in range(n):
            if sizes[k] != t.shape[k]:
                at[k] += 1
                if at[k] < t.shape[k]:
                    break
                at[k] = 0
    return 0


@native
def write_view(out, kind, n_attrs, attrs, source):
    """Copy `source`, which has the view's sizes, or zeros if that is 0, into a view of `out`; returns a status.

    What comes to elements that share memory is added up: `out` holds zeros then.
    """
    part = make_view(kind, out, n_attrs, attrs)
    if failed(part):
        return part
    if source == 0:
        status = fill_zero(part)
    elif not same_shape(part, source):
        status = fail(MISFIT)
    elif may_overlap(tensor(part).ndim, tensor(part).shape, tensor(part).strides):
        status = add_apart(part, source)
    else:
        status = copy_into(part, source)
    drop(part)
    return status


@native
def write_select(out, dim, k, source):
    """Write the k-th slice of a dimension, without that dimension; returns a status."""
    return write_view(out, VIEW_SELECT, 2, select_at(words(stack_small()), dim, k), source)


@native
def write_slice(out, dim, start, length, source):
    """Write `length` slices of a dimension; returns a status."""
    return write_view(out, VIEW_SLICE, 4, slice_at(words(stack_small()), dim, start, length), source)


# --- joining --------------------------------------------------------------------------------------------


@native
def join(n, ins, dim, stacked, device_dtype_of):
    """Concatenate along `dim`, or stack along a new one; an input may be absent (0): zeros in a stack."""
    t0 = tensor(device_dtype_of)
    ndim = t0.ndim + stacked
    d = wrap_dim(dim, ndim)
    if ndim == 0:
        return fail(NO_DIMS)
    if d < 0:
        return fail_dim(dim, ndim)
    sizes = words(stack_small())
    for k in range(ndim):
        source = k if k < d or stacked == 0 else k - 1
        sizes[k] = t0.shape[source] if stacked == 0 or k != d else n
    if stacked == 0:
        sizes[d] = 0
    for k in range(n):
        if ins[k] == 0:
            continue
        t = tensor(ins[k])
        if t.ndim != t0.ndim:
            return fail(CAT_DIMS, k, t.ndim, t0.ndim)
        for j in range(t.ndim):
            if t.shape[j] != t0.shape[j] and (stacked == 1 or j != d):
                if stacked == 1:
                    return fail(STACK_SIZES, k, ins[k])
                return fail(CAT_SIZES, k, t.shape[j], t0.shape[j], d)
        if stacked == 0:
            sizes[d] += t.shape[d]
    last = 1 if all_channels_last(n, ins, stacked, d) else 0
    out = new_image(t0.dtype, t0.device, ndim, sizes, last)
    if failed(out):
        return out
    status = 0
    at = 0
    for k in range(n):
        if failed(status):
            break
        if stacked == 1:
            status = write_select(out, d, k, ins[k])
        else:
            length = tensor(ins[k]).shape[d]
            status = write_slice(out, d, at, length, ins[k])
            at += length
    return finished(out, status)


@native
def scatter_views(n, ins, kind, attrs, ndim, sizes):
    """The gradient of a multi-view op: each gradient into its place, zeros where one is absent.

    `kind` 0 is unbind, 1 is split: then lengths stand behind the dimension.
    """
    of = integers.along(attrs)
    first = 0
    for k in range(n):
        if ins[k] != 0 and first == 0:
            first = ins[k]
    if first == 0:
        return fail(INTERNAL, kind, n)
    t = tensor(first)
    last = 1 if all_channels_last(n, ins, 1 - kind, of.dim) else 0
    out = arranged(zeros(t.dtype, t.device, ndim, sizes), last)
    if failed(out):
        return out
    status = 0
    at = 0
    for k in range(n):
        if ins[k] != 0 and not failed(status):
            if kind == 0:
                status = write_select(out, of.dim, k, ins[k])
            else:
                status = write_slice(out, of.dim, at, of.rest[k], ins[k])
        if kind == 1:
            at += of.rest[k]
    return finished(out, status)


# --- gradients of views ---------------------------------------------------------------------------------


@native
def view_backward(g, kind, n_attrs, attrs, ndim, sizes):
    """The gradient of a view of kind `kind`: zeros of the input's sizes with `g` in the place of the view."""
    t = tensor(g)
    out = zeros(t.dtype, t.device, ndim, sizes)
    if failed(out):
        return out
    return finished(out, write_view(out, kind, n_attrs, attrs, g))


# A part (`plan`) says how a view lies in its base: rank, sizes, strides and offset of the view, then rank and strides
# of the base. The gradient of the base is laid out like the base itself: another layout may have no strides for the
# view.


@native
def offset_of(plan):
    """The offset in a plan: elements from the first one of the base to the first one of the view."""
    return plan[1 + 2 * plan[0]]


@native
def base_rank(plan):
    """The rank of the base in a plan."""
    return plan[2 + 2 * plan[0]]


@native
def base_strides(plan):
    """The strides of the base in a plan."""
    return advance(plan, 3 + 2 * plan[0])


@native
def empty_strided(dtype, device, ndim, sizes, strides):
    """A tensor with the given strides whose elements are not set, at the start of memory of its own."""
    if is_contiguous(ndim, sizes, strides):
        return new_tensor(dtype, device, ndim, sizes)
    if may_overlap(ndim, sizes, strides):
        return fail(OVERLAP)
    length = words(stack_small())
    length[0] = extent(ndim, sizes, strides)
    memory = new_tensor(dtype, device, 1, length)
    if memory <= 0:
        return memory
    out = new_view(memory, ndim, sizes, strides, tensor(memory).data)
    drop(memory)
    return out


@native
def laid_out(g, strides):
    """A copy of `g` with the given strides."""
    t = tensor(g)
    out = empty_strided(t.dtype, t.device, t.ndim, t.shape, strides)
    if failed(out):
        return out
    return finished(out, copy_into(out, g))


@native
def has_strides(t, strides):
    """Whether a tensor is laid out by the given strides; those of dimensions of size 1 do not matter."""
    for k in range(t.ndim):
        if t.shape[k] != 1 and t.strides[k] != strides[k]:
            return False
    return True


@native
def zero_strided(g, plan):
    """A copy of `g`, laid out like the base, with zeros in the part that a plan names."""
    if base_rank(plan) != tensor(g).ndim:
        return fail(MISFIT)
    out = laid_out(g, base_strides(plan))
    if failed(out):
        return out
    return finished(out, write_view(out, VIEW_AS_STRIDED, 2 + 2 * plan[0], plan, 0))


@native
def take_strided(g, plan):
    """The part of `g` that a plan names; of a copy if `g` is not laid out like the base."""
    t = tensor(g)
    if base_rank(plan) != t.ndim:
        return fail(MISFIT)
    strides = base_strides(plan)
    if has_strides(t, strides) and not may_overlap(t.ndim, t.shape, strides):
        source = g
        retain(g)
    else:
        source = laid_out(g, strides)
    if failed(source):
        return source
    t = tensor(source)
    n = plan[0]
    offset = offset_of(plan)
    length = extent(n, advance(plan, 1), advance(plan, 1 + n))
    if offset < 0 or total(offset, length) > extent(
        t.ndim, t.shape, t.strides
    ):  # the base was given other memory
        drop(source)
        return fail(BEYOND_STORAGE, t.numel * itemsize(t.dtype))
    data = t.data + offset * itemsize(t.dtype)
    out = new_view(source, n, advance(plan, 1), advance(plan, 1 + n), data)
    drop(source)
    return out


@native
def place_strided(g, plan):
    """Zeros, laid out like the base, with `g` in the part that a plan names; elements that share memory are summed.

    Behind the plan stand the rank and the sizes of the base.
    """
    n = plan[0]
    strides = base_strides(plan)
    target = advance(strides, base_rank(plan))
    if target[0] != base_rank(plan):
        return fail(MISFIT)
    t = tensor(g)
    out = empty_strided(t.dtype, t.device, target[0], advance(target, 1), strides)
    if failed(out):
        return out
    status = fill_zero(out)
    if failed(status):
        return finished(out, status)
    part = words(stack_frame())
    kept = advance(part, 1)
    for k in range(2 + 2 * n):
        part[k] = plan[k]
    shared = False
    for k in range(n):
        if plan[1 + n + k] == 0 and kept[k] > 1:
            kept[k] = 1
            shared = True
    if not shared:
        return finished(out, write_view(out, VIEW_AS_STRIDED, 2 + 2 * n, part, g))
    source = sum_to(g, n, kept)
    if failed(source):
        return finished(out, source)
    status = write_view(out, VIEW_AS_STRIDED, 2 + 2 * n, part, source)
    drop(source)
    return finished(out, status)
