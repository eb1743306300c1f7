"""Contiguous copies, zeros, reshaping: what the other shape rules start from."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, runtime, stack_small, tensor, words
from fastgrad.native.contracts.element_types import BOOL
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.formats import PRESERVE_FORMAT
from fastgrad.native.launch.elementwise import cast, copy_here, copy_into
from fastgrad.native.launch.launch import launch_frame
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.layouts import channels_last_strides, lay_out, lies_like, new_like
from fastgrad.native.tensors.tensors import alias, finished, new_tensor
from fastgrad.native.tensors.views import view_reshape


@native
def contiguous(h):
    """The tensor itself with one more reference, or a contiguous copy."""
    if tensor(h).flags & CONTIGUOUS:
        retain(h)
        return h
    return cast(h, tensor(h).dtype)


@native
def merging(h):
    """The same, with strides that merge also where there is no element to demand it."""
    t = tensor(h)
    return new_tensor(t.dtype, t.device, t.ndim, t.shape) if t.numel == 0 else contiguous(h)


@native
def in_strides(h, strides):
    """The tensor itself with one more reference, or a copy with these strides, which leave no gaps."""
    t = tensor(h)
    if lies_like(t, strides):
        retain(h)
        return h
    out = new_tensor(t.dtype, t.device, t.ndim, t.shape)
    if failed(out):
        return out
    return finished(out, copy_into(lay_out(out, strides), h))


@native
def in_order(h, last):
    """The tensor itself with one more reference, or a copy of it: row by row, or with its `last` channels innermost."""
    t = tensor(h)
    if last == 0 or t.ndim < 3:
        return contiguous(h)
    strides = words(stack_small())
    channels_last_strides(t.ndim, t.shape, strides)
    return in_strides(h, strides)


@native
def relaid(h, last):
    """A new result that lies row by row, brought into an order. Takes over `h`; a handle or a status."""
    if failed(h) or last == 0:
        return h
    t = tensor(h)
    strides = words(stack_small())
    if t.ndim > 2:
        channels_last_strides(t.ndim, t.shape, strides)
        if lies_like(t, strides):  # but for dimensions of size 1
            return lay_out(h, strides)
    out = in_order(h, last)
    drop(h)
    return out


@native
def flipped(h, dims):
    """A copy in the order of the tensor, its elements in reverse order along the dimensions of a mask."""
    t = tensor(h)
    out = new_like(h, t.dtype, t.device, PRESERVE_FORMAT)
    if failed(out) or t.numel == 0:
        return out
    backwards = alias(h)
    if failed(backwards):
        return finished(out, backwards)
    v = tensor(backwards)
    for d in range(v.ndim):
        if dims >> d & 1:
            v.data += (v.shape[d] - 1) * v.strides[d] * itemsize(v.dtype)
            v.strides[d] = -v.strides[d]
    v.flags &= ~CONTIGUOUS
    status = copy_here(out, backwards)
    drop(backwards)
    return finished(out, status)


@native
def zeros(dtype, device, ndim, shape):
    """A tensor of zeros."""
    out = new_tensor(dtype, device, ndim, shape)
    if failed(out):
        return out
    return finished(out, zero_fill(out))


@native
def zero_fill(out):
    """Set a contiguous tensor to zero through the launch point, so that a capture sees it."""
    t = tensor(out)
    if t.numel == 0:
        return 0
    f = frames.zero(stack_small())
    f.out = t.data
    f.nbytes = t.numel * itemsize(t.dtype)
    return launch_frame(runtime().zero_kernel, t.device, BOOL, f, t.numel)


@native
def fill_zero(h):
    """Set any strided tensor to zero."""
    t = tensor(h)
    if t.flags & CONTIGUOUS:
        return zero_fill(h)
    zero = zeros(t.dtype, t.device, 0, words(stack_small()))
    if failed(zero):
        return zero
    status = copy_into(h, zero)
    drop(zero)
    return status


@native
def reshape_or_copy(h, n, sizes):
    """A view with other sizes, or a contiguous copy of them where no view is possible."""
    out = view_reshape(h, n, sizes)
    if not failed(out) or tensor(h).flags & CONTIGUOUS:
        return out
    copy = cast(h, tensor(h).dtype)
    if failed(copy):
        return copy
    out = view_reshape(copy, n, sizes)
    drop(copy)
    return out
