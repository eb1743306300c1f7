"""Convolutions of volumes, each as one of images.

Note [Depth as channels]: a window of a volume sees `kd` slices of it. With these as further channels, and one image for
each place of the windows in depth, the convolution is that of images (n * od, c * kd, h, w) with weights
(o, c / groups * kd, kh, kw), which are the same words of memory. Gradients of such images are added back to the slices
that these were made of. Windows of a single row and column see each slice as one line: they need no images.
"""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    native,
    native_once,
    product,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.status import MISFIT
from fastgrad.native.launch.elementwise import copy_here, run_elementwise
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.convolution import bias_fits, convolution, fits, run_convolution, write_geometry
from fastgrad.native.shapes.copies import fill_zero, in_order, relaid, zero_fill
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.tensors import finished, new_tensor, new_view

VOLUMES = 5
"""Dimensions of volumes in a batch."""


@native
def convolution_of(op, computes, n, ins, attrs):
    """y, x or w (`computes` 0, 1, 2) of a convolution of images, signals or volumes: see `convolution`."""
    if tensor(ins[0]).ndim == VOLUMES:
        return volume_convolution(op, computes, n, ins, attrs)
    return convolution(op, computes, n, ins, attrs)


@native_once
def volume_convolution(op, computes, n, ins, attrs):
    """The same of volumes."""
    a = tensor(ins[0])
    b = tensor(ins[1])
    of = integers.geometry(attrs)
    images = integers.images(of.rest)
    target = integers.listed(images.rest)
    if target.count != VOLUMES or b.ndim != VOLUMES or a.dtype != b.dtype:
        return fail(MISFIT)
    x = words(stack_small())
    w = words(stack_small())
    y = words(stack_small())
    for k in range(VOLUMES):
        x[k] = target.rest[k] if computes == 1 else a.shape[k]
        w[k] = target.rest[k] if computes == 2 else b.shape[k]
        y[k] = target.rest[k] if computes == 0 else (a.shape[k] if computes == 1 else b.shape[k])
    if x[0] != y[0] or not fits(x[2], y[2], w[2], of.stride[0], of.padding[0], of.dilation[0]):
        return fail(MISFIT)
    bias = ins[2] if n > 2 else 0
    if bias != 0 and not bias_fits(bias, target.rest[1], a.dtype):
        return fail(MISFIT)
    if sees_lines(w, of):
        return relaid(of_lines(op, computes, ins, bias, x, w, y, attrs), images.channels_last)
    return of_images(op, computes, ins, bias, x, w, y, attrs, images.channels_last)


# --- windows of one row and column ------------------------------------------------------------------------------------


@native
def sees_lines(w, of):
    """Whether a window sees one row and column of each slice, and the next window the next ones."""
    single = True
    for k in range(1, 3):
        single = single and w[2 + k] == 1 and of.stride[k] == 1 and of.padding[k] == 0
    return single


@native
def as_lines(sizes):
    """The sizes of volumes as those of images with a row for each slice, in place."""
    sizes[3] = product(sizes[3], sizes[4])
    return sizes


@native
def of_lines(op, computes, ins, bias, x, w, y, attrs):
    """The convolution along the depth."""
    settings = words(stack_small())
    of = integers.geometry(attrs)
    along = integers.geometry(settings)
    along.groups = of.groups
    for k in range(3):  # the depth is what goes down
        along.stride[k] = of.stride[0] if k == 1 else 1
        along.padding[k] = of.padding[0] if k == 1 else 0
        along.dilation[k] = of.dilation[0] if k == 1 else 1
    out = new_tensor(tensor(ins[0]).dtype, tensor(ins[0]).device, VOLUMES, target_of(computes, x, w, y))
    if failed(out):
        return out
    f = frames.convolution(stack_frame())
    status = write_geometry(f, 4, as_lines(x), as_lines(w), as_lines(y), settings)
    if failed(status):
        return finished(out, fail(status))
    if tensor(out).numel == 0:
        return out
    return finished(out, run_convolution(op, computes, f, ins[0], ins[1], bias, out))


@native
def target_of(computes, x, w, y):
    """The sizes of what is computed."""
    if computes == 0:
        return y
    return x if computes == 1 else w


# --- slices as channels -----------------------------------------------------------------------------------------------


@native
def of_images(op, computes, ins, bias, x, w, y, attrs, last):
    """The convolution of images that have slices as channels: see Note [Depth as channels]."""
    dtype = tensor(ins[0]).dtype
    device = tensor(ins[0]).device
    a = words(stack_small())
    b = words(stack_small())
    c = words(stack_small())
    for k in range(2):
        a[2 + k] = x[3 + k]
        b[2 + k] = w[3 + k]
        c[2 + k] = y[3 + k]
    a[0] = c[0] = product(y[0], y[2])
    a[1] = product(x[1], w[2])
    b[0] = w[0]
    b[1] = product(w[1], w[2])
    c[1] = y[1]
    f = frames.convolution(stack_frame())
    status = write_geometry(f, 4, a, b, c, attrs)
    if failed(status):
        return fail(status)
    seen = new_tensor(dtype, device, 4, a)
    if failed(seen):
        return seen
    planes = new_tensor(dtype, device, 4, c)
    if failed(planes):
        drop(seen)
        return planes
    if computes == 0:
        out = result_of_images(op, f, ins, bias, seen, planes, x, w, y, attrs, last)
    elif computes == 1:
        out = relaid(operand_of_images(op, f, ins, bias, seen, planes, x, w, y, attrs), last)
    else:
        out = relaid(weight_of_images(op, f, ins, seen, planes, x, w, y, attrs), last)
    drop(planes)
    drop(seen)
    return out


@native
def result_of_images(op, f, ins, bias, seen, planes, x, w, y, attrs, last):
    """Volumes of results."""
    if tensor(planes).numel == 0:
        return relaid(new_tensor(tensor(planes).dtype, tensor(planes).device, VOLUMES, y), last)
    status = exchange(seen, ins[0], x, w, y, attrs, False)
    if not failed(status):
        status = run_convolution(op, 0, f, seen, ins[1], bias, planes)
    if failed(status):
        return status
    turned = as_volumes(planes, y)
    if failed(turned):
        return turned
    out = in_order(turned, last)
    drop(turned)
    return out


@native
def operand_of_images(op, f, ins, bias, seen, planes, x, w, y, attrs):
    """Volumes that the convolution is of."""
    out = new_tensor(tensor(seen).dtype, tensor(seen).device, VOLUMES, x)
    if failed(out) or tensor(out).numel == 0:
        return out
    status = begin(out, bias)
    if not failed(status) and tensor(planes).numel != 0:
        status = to_planes(planes, ins[0], y)
        if not failed(status):
            status = run_convolution(op, 1, f, planes, ins[1], 0, seen)
        if not failed(status):
            status = exchange(seen, out, x, w, y, attrs, True)
    return finished(out, status)


@native
def weight_of_images(op, f, ins, seen, planes, x, w, y, attrs):
    """Weights."""
    out = new_tensor(tensor(seen).dtype, tensor(seen).device, VOLUMES, w)
    if failed(out) or tensor(out).numel == 0:
        return out
    if tensor(planes).numel == 0 or tensor(seen).numel == 0:
        return finished(out, zero_fill(out))
    status = exchange(seen, ins[0], x, w, y, attrs, False)
    if not failed(status):
        status = to_planes(planes, ins[1], y)
    if not failed(status):
        status = run_convolution(op, 2, f, seen, planes, 0, out)
    return finished(out, status)


@native
def begin(out, bias):
    """Fill volumes with the bias of their channels, or zeros; a status."""
    if bias == 0:
        return zero_fill(out)
    b = tensor(bias)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(VOLUMES):
        sizes[k] = 1
        strides[k] = 1
    sizes[1] = b.shape[0]
    strides[1] = b.strides[0]
    view = new_view(bias, VOLUMES, sizes, strides, b.data)
    if failed(view):
        return view
    status = copy_here(out, view)
    drop(view)
    return status


@native
def as_volumes(planes, y):
    """A view of results that lie plane by plane, which has their depth behind the channels."""
    strides = words(stack_small())
    strides[4] = 1
    strides[3] = y[4]
    strides[1] = y[3] * y[4]
    strides[2] = y[1] * strides[1]
    strides[0] = y[2] * strides[2]
    return new_view(planes, VOLUMES, y, strides, tensor(planes).data)


@native
def to_planes(planes, volumes, y):
    """Copy results plane by plane; a status."""
    turned = as_volumes(planes, y)
    if failed(turned):
        return turned
    status = copy_here(turned, volumes)
    drop(turned)
    return status


@native
def exchange(seen, volumes, x, w, y, attrs, back):
    """Copy slices of volumes to the images that see them, zeros for padding; or add the images `back`. A status."""
    of = integers.geometry(attrs)
    step = of.stride[0]
    places = y[2]
    status = 0
    for tap in range(w[2]):
        shift = tap * of.dilation[0] - of.padding[0]  # of the slice that the first window sees
        low = min((step - 1 - shift) // step if shift < 0 else 0, places)
        high = max(min((x[2] - 1 - shift) // step + 1 if shift < x[2] else 0, places), low)
        if not back:
            if not failed(status) and low > 0:
                status = clear(seen, x, w, y, tap, 0, low)
            if not failed(status) and high < places:
                status = clear(seen, x, w, y, tap, high, places)
        if not failed(status) and low < high:
            status = move(seen, volumes, x, w, y, tap, low, high, low * step + shift, step, back)
    return status


@native
def channel_of(seen, x, w, y, tap, low, high):
    """The images from `low` to `high` of each volume, of whose channels those that see one slice each: a view."""
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(VOLUMES):
        sizes[k] = x[k]
    sizes[2] = high - low
    plane = x[3] * x[4]
    strides[4] = 1
    strides[3] = x[4]
    strides[1] = w[2] * plane
    strides[2] = x[1] * strides[1]
    strides[0] = y[2] * strides[2]
    t = tensor(seen)
    return new_view(
        seen, VOLUMES, sizes, strides, t.data + (low * strides[2] + tap * plane) * itemsize(t.dtype)
    )


@native
def clear(seen, x, w, y, tap, low, high):
    """Write zeros to what images see of padding; a status."""
    there = channel_of(seen, x, w, y, tap, low, high)
    if failed(there):
        return there
    status = fill_zero(there)
    drop(there)
    return status


@native
def move(seen, volumes, x, w, y, tap, low, high, first, step, back):
    """Copy slices from the `first` on to images, or add the images to them; a status."""
    there = channel_of(seen, x, w, y, tap, low, high)
    if failed(there):
        return there
    t = tensor(volumes)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(VOLUMES):
        sizes[k] = t.shape[k]
        strides[k] = t.strides[k]
    sizes[2] = high - low
    strides[2] = t.strides[2] * step
    slices = new_view(volumes, VOLUMES, sizes, strides, t.data + first * t.strides[2] * itemsize(t.dtype))
    status = slices
    if not failed(slices):
        if back:
            ins = words(stack_small())
            ins[0] = slices
            ins[1] = there
            status = run_elementwise(op_record(runtime().add_op).kernel, t.dtype, 2, ins, slices)
        else:
            status = copy_here(there, slices)
        drop(slices)
    drop(there)
    return status
