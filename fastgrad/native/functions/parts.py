"""Tensors put together from parts: joining, and the gradients of views and of splitting."""

from __future__ import annotations

from fastgrad.native.elementwise import cast, copy_into
from fastgrad.native.functions.copies import contiguous, fill_zero, zeros
from fastgrad.native.functions.reductions import sum_to
from fastgrad.native.intrinsics import advance, native, runtime, stack_small, storage, tensor, words
from fastgrad.native.layout import BAD_DIM, BAD_SIZE, VIEW_AS_STRIDED, VIEW_SELECT, VIEW_SLICE
from fastgrad.native.memory import drop, retain
from fastgrad.native.tensors import finished, itemsize, new_tensor, wrap_dim
from fastgrad.native.views import fail, make_view


@native
def write_view(out, kind, n_attrs, attrs, source):
    """Copy `source`, or zeros if that is 0, into a view of `out`; returns a status."""
    part = make_view(kind, out, n_attrs, attrs)
    if part <= 0:
        return -part
    status = copy_into(part, source) if source != 0 else fill_zero(part)
    drop(part)
    return status


@native
def write_select(out, dim, k, source):
    """Write the k-th slice of a dimension, without that dimension; returns a status."""
    place = words(stack_small())
    place[0] = dim
    place[1] = k
    return write_view(out, VIEW_SELECT, 2, place, source)


@native
def write_slice(out, dim, start, length, source):
    """Write `length` slices of a dimension; returns a status."""
    place = words(stack_small())
    place[0] = dim
    place[1] = start
    place[2] = start + length
    place[3] = 1
    return write_view(out, VIEW_SLICE, 4, place, source)


# --- joining --------------------------------------------------------------------------------------------


@native
def join(n, ins, dim, stacked, device_dtype_of):
    """Concatenate along `dim`, or stack along a new one; an input may be absent (0): zeros in a stack."""
    t0 = tensor(device_dtype_of)
    ndim = t0.ndim + stacked
    d = wrap_dim(dim, ndim)
    if d < 0 or ndim == 0:
        return fail(BAD_DIM, dim, ndim)
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
            runtime().error[2] = k
            return fail(BAD_SIZE, -8, t.ndim)
        for j in range(t.ndim):
            if t.shape[j] != t0.shape[j] and (stacked == 1 or j != d):
                runtime().error[2] = k
                runtime().error[3] = j
                return fail(BAD_SIZE, -9, t.shape[j])
        if stacked == 0:
            sizes[d] += t.shape[d]
    out = new_tensor(t0.dtype, t0.device, ndim, sizes)
    if out <= 0:
        return out
    status = 0
    at = 0
    for k in range(n):
        if status != 0:
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

    `kind` 0 is unbind (`attrs[0]` dim), 1 is split (`attrs[0]` dim, then the lengths).
    """
    first = 0
    for k in range(n):
        if ins[k] != 0 and first == 0:
            first = ins[k]
    t = tensor(first)
    out = zeros(t.dtype, t.device, ndim, sizes)
    if out <= 0:
        return out
    status = 0
    at = 0
    for k in range(n):
        if ins[k] != 0 and status == 0:
            if kind == 0:
                status = write_select(out, attrs[0], k, ins[k])
            else:
                status = write_slice(out, attrs[0], at, attrs[1 + k], ins[k])
        if kind == 1:
            at += attrs[1 + k]
    return finished(out, status)


# --- gradients of views ---------------------------------------------------------------------------------


@native
def view_backward(g, kind, n_attrs, attrs, ndim, sizes):
    """The gradient of a view of kind `kind`: zeros of the input's sizes with `g` in the place of the view."""
    t = tensor(g)
    out = zeros(t.dtype, t.device, ndim, sizes)
    if out <= 0:
        return out
    return finished(out, write_view(out, kind, n_attrs, attrs, g))


@native
def zero_strided(g, n_attrs, attrs):
    """A contiguous copy of `g` with zeros in the part that an as_strided plan names."""
    out = cast(g, tensor(g).dtype)
    if out <= 0:
        return out
    return finished(out, write_view(out, VIEW_AS_STRIDED, n_attrs, attrs, 0))


@native
def take_strided(g, n_attrs, attrs):
    """The part of `g` that an as_strided plan names, of a contiguous copy if `g` is not contiguous."""
    source = contiguous(g)
    if source <= 0:
        return source
    t = tensor(source)
    plan = words(stack_small())
    for k in range(n_attrs):
        plan[k] = attrs[k]
    # The plan counts from the first element of `g`, a view from the start of the memory.
    plan[n_attrs - 1] += (t.data - storage(t.storage).data) // itemsize(t.dtype)
    out = make_view(VIEW_AS_STRIDED, source, n_attrs, plan)
    drop(source)
    return out


@native
def place_strided(g, attrs):
    """Zeros with `g` in the part that an as_strided plan names; elements that share memory are summed.

    `attrs`: the plan (rank, sizes, strides, offset), then rank and sizes of the result.
    """
    n = attrs[0]
    plan = words(stack_small())
    kept = advance(plan, 1)
    for k in range(2 + 2 * n):
        plan[k] = attrs[k]
    shared = False
    for k in range(n):
        if attrs[1 + n + k] == 0 and kept[k] > 1:
            kept[k] = 1
            shared = True
    source = g
    if shared:
        source = sum_to(g, n, kept)
        if source <= 0:
            return source
    else:
        retain(g)
    target = advance(attrs, 2 + 2 * n)
    out = view_backward(source, VIEW_AS_STRIDED, 2 + 2 * n, plan, target[0], advance(target, 1))
    drop(source)
    return out
