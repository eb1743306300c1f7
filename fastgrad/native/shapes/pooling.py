"""Pooling and padding: what is done to the last dimensions of a tensor, plane by plane."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    stack_small,
    tensor,
    total,
    words,
    words_of,
)
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.formats import PRESERVE_FORMAT
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.native.contracts.frames.windows import CIRCULAR, CONSTANT, POOLING
from fastgrad.native.contracts.ops import VIEW_ALIAS, VIEW_SLICE
from fastgrad.native.contracts.status import MISFIT, PLACE_RANGE
from fastgrad.native.launch.checked import launch_checked
from fastgrad.native.launch.elementwise import copy_as
from fastgrad.native.launch.launch import launch_frame, op_record
from fastgrad.native.launch.promotion import computed_dtype
from fastgrad.native.memory.launches import launch, need_dtype
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import in_order
from fastgrad.native.tensors.layouts import is_channels_last, new_image
from fastgrad.native.tensors.tensors import finished
from fastgrad.native.tensors.views import make_view

BEFORE_SETTINGS = POOLING.place("settings")  # words
LARGEST = 1 << 31  # of a plane: kernels count its elements in 32 bits


@native
def pooled(h, ndim, sizes, dtype, last):
    """A new tensor of the given sizes, which may differ from those of `h` in the last two dimensions.

    Only images in a batch have channels that may lie `last`.
    """
    t = tensor(h)
    if t.ndim != ndim or ndim < 2:
        return fail(MISFIT)
    if t.shape[ndim - 1] * t.shape[ndim - 2] >= LARGEST:
        return fail(MISFIT)
    for k in range(ndim):
        if sizes[k] < 0 or (k < ndim - 2 and sizes[k] != t.shape[k]):
            return fail(MISFIT)
    if last != 0 and ndim != 4:
        return fail(MISFIT)
    return new_image(dtype, t.device, ndim, sizes, last)


@native
def planes_frame(f, out, x, last):
    """Addresses of result and operand, the number of planes, their sizes in the operand and in the result.

    With channels `last` there is a plane for each image, and each of its places has as many elements as channels.
    """
    o = tensor(out)
    t = tensor(x)
    f.out = o.data
    f.x = t.data
    f.planes = 1
    f.channels = 1
    for k in range(o.ndim - 2):
        if k == 1 and last != 0:
            f.channels = o.shape[k]
        else:
            f.planes *= o.shape[k]
    for k in range(2):
        f.extent[k] = t.shape[t.ndim - 2 + k]
        f.out_extent[k] = o.shape[o.ndim - 2 + k]


@native
def windows_fit(settings, dilated, x, out):
    """Whether windows reach no further than a step beyond a plane with its padding, as rounding up makes them.

    `settings`: sizes, strides, padding and, of windows that are `dilated`, dilation (down, across).
    """
    of = integers.windows(settings)
    for k in range(2):
        window = of.window[k]
        stride = of.stride[k]
        padding = of.padding[k]
        dilation = of.dilation[k] if dilated else 1
        if min(window, stride, dilation) < 1 or padding < 0:
            return False
        if max(window, stride, max(dilation, padding)) >= LARGEST:
            return False
        size = max(x.shape[x.ndim - 2 + k], out.shape[out.ndim - 2 + k])
        if (window - 1) * dilation >= size + 2 * padding + stride:
            return False
    return True


@native
def run_pool(op, h, out, indices, n_settings, attrs):
    """Launch a kernel over planes, with `n_settings` integers behind its sizes; returns a status.

    Of no elements, windows are for the dtypes for which they are of some; the adaptive ones are for all, as in PyTorch.
    """
    if tensor(out).numel == 0:
        return need_dtype(op_record(op).kernel, tensor(h).device, tensor(h).dtype) if n_settings > 0 else 0
    last = integers.images(advance(attrs, n_settings)).channels_last
    if n_settings > 0 and not windows_fit(attrs, indices != 0, tensor(h), tensor(out)):
        return fail(MISFIT)
    x = in_order(h, last)
    if failed(x):
        return x
    f = frames.pooling(stack_small())
    planes_frame(f, out, x, last)
    f.indices = tensor(indices).data if indices != 0 else 0
    for k in range(n_settings):
        f.settings[k] = attrs[k]
    o = tensor(out)
    work = max(o.numel, tensor(x).numel)
    n_words = BEFORE_SETTINGS + n_settings
    status = launch(op_record(op).kernel, o.device, o.dtype, FLAT, address_of(f), n_words, work)
    drop(x)
    return status


@native
def count_settings(op):
    """How many settings a kernel over windows has: integers of the op before the one that says how channels lie."""
    return op_record(op).n_ints - 1


@native
def pool(op, h, attrs):
    """A kernel from planes to planes; `attrs`: settings, whether channels lie last, rank and sizes of the result."""
    n_settings = count_settings(op)
    images = integers.images(advance(attrs, n_settings))
    target = integers.listed(images.rest)
    out = pooled(h, target.count, target.rest, tensor(h).dtype, images.channels_last)
    return out if failed(out) else finished(out, run_pool(op, h, out, 0, n_settings, attrs))


@native
def max_pool(op, h, attrs, outs):
    """The maxima of windows, and where in its plane each of them is; `attrs` as those of `pool`."""
    n_settings = count_settings(op)
    images = integers.images(advance(attrs, n_settings))
    target = integers.listed(images.rest)
    out = pooled(h, target.count, target.rest, tensor(h).dtype, images.channels_last)
    if failed(out):
        return out
    indices = pooled(h, target.count, target.rest, INT64, images.channels_last)
    if indices <= 0:
        drop(out)
        return indices
    status = run_pool(op, h, out, indices, n_settings, attrs)
    if failed(status):
        drop(out)
        drop(indices)
        return status
    outs[0] = out
    outs[1] = indices
    return 2


@native
def pool_at(op, h, indices, last, ndim, sizes):
    """A kernel from planes to planes that reads, for each place of the smaller ones, where it lies in the larger.

    The sizes of the result are given, and what goes there is added up; or they are those of the indices, where `ndim`
    is 0.
    """
    places = tensor(indices)
    dtype = tensor(h).dtype if ndim == 0 else computed_dtype(tensor(h).dtype)
    if places.dtype != INT64:
        return fail(MISFIT)
    smaller = h
    if ndim == 0:
        ndim = places.ndim
        sizes = places.shape
        smaller = 0
    out = pooled(h, ndim, sizes, dtype, last)
    if failed(out):
        return out
    smaller = smaller if smaller != 0 else out
    if tensor(smaller).ndim != places.ndim:
        drop(out)
        return fail(MISFIT)
    for k in range(places.ndim):
        if tensor(smaller).shape[k] != places.shape[k]:
            drop(out)
            return fail(MISFIT)
    if tensor(out).numel == 0:
        return out
    x = in_order(h, last)
    if failed(x):
        return finished(out, x)
    dense = in_order(indices, last)
    status = dense
    if dense > 0:
        f = frames.places(stack_small())
        planes_frame(f, out, x, last)
        f.indices = tensor(dense).data
        work = max(tensor(out).numel, tensor(x).numel)
        status = launch_checked(
            op_record(op).kernel,
            places.device,
            tensor(h).dtype,
            address_of(f),
            words_of(f),
            work,
            PLACE_RANGE,
        )
        drop(dense)
    drop(x)
    return finished(out, status)


# --- padding -------------------------------------------------------------------------------------------


@native
def pad(op, h, mode, value, last, padded, target, back):
    """Each dimension put into a longer (or shorter) one, or with `back` what came out of that summed up again.

    `padded`: rank, how far each dimension begins before that of the operand, rank and sizes after padding. `target`:
    rank and sizes of the result. Of constants, which an operand may be padded with as well as its gradient, each speaks
    for its own order; of what repeats, channels lie `last` in both.
    """
    t = tensor(h)
    rank = t.ndim
    if padded[0] != rank or target[0] != rank or mode < CONSTANT or mode > CIRCULAR:
        return fail(MISFIT)
    crops = mode == CONSTANT
    for k in range(rank):
        if back != 0 and padded[2 + rank + k] != t.shape[k]:
            return fail(MISFIT)
        begin = -padded[1 + k] if back == 0 else padded[1 + k]
        if begin < 0 or abs(begin) >= LARGEST or total(begin, target[1 + k]) > t.shape[k]:
            crops = False
    if crops:
        return cropped(h, back, padded, target)
    if mode == CONSTANT:
        last = 1 if is_channels_last(h) and rank > 3 else 0
    current = in_order(h, last)
    for k in range(rank):
        begin = padded[1 + k]
        size = target[1 + k]
        if not failed(current) and (begin != 0 or tensor(current).shape[k] != size):
            following = pad_dim(op, current, k, mode, value, last, begin, size, back)
            drop(current)
            current = following
    if current == h:  # nothing was there to do
        current = copy_as(h, t.dtype, t.device, PRESERVE_FORMAT)
        drop(h)
    return current


@native
def cropped(h, back, padded, target):
    """A copy of a part of a tensor, in the order of the latter."""
    rank = tensor(h).ndim
    place = words(stack_small())
    part = make_view(VIEW_ALIAS, h, 0, place)
    for k in range(rank):
        if failed(part):
            return part
        begin = -padded[1 + k] if back == 0 else padded[1 + k]
        place[0] = k
        place[1] = begin
        place[2] = begin + target[1 + k]
        place[3] = 1
        smaller = make_view(VIEW_SLICE, part, 4, place)
        drop(part)
        part = smaller
    if failed(part):
        return part
    out = copy_as(part, tensor(part).dtype, tensor(part).device, PRESERVE_FORMAT)
    drop(part)
    return out


@native
def pad_dim(op, h, dim, mode, value, last, before, size, back):
    """`pad` for one dimension of a tensor that lies row by row or with channels `last`."""
    t = tensor(h)
    sizes = words(stack_small())
    rows = 1
    after = 1
    for k in range(t.ndim):
        sizes[k] = t.shape[k]
        if k == dim:
            continue
        outside = k < dim
        if last != 0 and (k == 1 or dim == 1):
            outside = dim == 1
        if outside:
            rows *= t.shape[k]
        else:
            after *= t.shape[k]
    sizes[dim] = size
    short = size if back != 0 else t.shape[dim]
    if size < 0 or abs(before) >= LARGEST or (short == 0 and mode != CONSTANT):
        return fail(MISFIT)
    out = new_image(t.dtype, t.device, t.ndim, sizes, last)
    if failed(out) or tensor(out).numel == 0:
        return out
    f = frames.padding(stack_small())
    f.out = tensor(out).data
    f.x = t.data
    f.rows = rows
    f.length = t.shape[dim]
    f.out_length = size
    f.after = after
    f.begin = before
    f.mode = mode
    f.value = value
    work = max(t.numel, tensor(out).numel)
    return finished(out, launch_frame(op_record(op).kernel, t.device, t.dtype, f, work))
