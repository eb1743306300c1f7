"""Strides of new tensors: in which order of dimensions their elements lie in memory.

Note [Layouts]: what an elementwise op computes lies in memory as its operands do, so that programs over permuted or
channels-last tensors run over memory from one end to the other. If all operands have the same sizes and lie one and
the same way without gaps, so does the result. Else the dimensions are ordered by their strides: of two dimensions, the
first operand in which both have a stride (a size that is broadcast has none) and the strides differ decides. Of equal
strides that of the larger size goes outwards. What no operand decides stays in row-major order. These are the rules of
PyTorch's `TensorIterator`, so strides come out the same.

Note [Channels last]: images, with or without depth, and signals lie row by row or with their channels last, dimension 1
the innermost in memory. The strides of an operand speak for one of the two (`speaks_for_channels_last`), and a layer
keeps what its input speaks for; a convolution also heeds its weight. The call of a layer asks for it
(`rt.channels_last`) and brings it to the op as one of its integers, so that a gradient lies as what it is the gradient
of does, in whatever order other gradients come in. Convolutions, pooling and normalisation do so, as in PyTorch.
What is joined keeps the order that all parts speak for.
"""

from __future__ import annotations

from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import native, native_once, stack_small, tensor, words
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.formats import (
    CONTIGUOUS_FORMAT,
    FORMAT_DIMS,
    PRESERVE_FORMAT,
)
from fastgrad.native.contracts.status import INTERNAL
from fastgrad.native.tensors.tensors import is_contiguous, new_tensor


@native
def without_gaps(t):
    """Whether a tensor's elements lie one beside the other, in whatever order of dimensions."""
    if t.flags & CONTIGUOUS:
        return True
    length = 1
    seen = 0
    for _ in range(t.ndim):
        for k in range(t.ndim):
            if not seen >> k & 1 and t.shape[k] > 1 and t.strides[k] == length:
                seen |= 1 << k
                length *= t.shape[k]
    return length == t.numel


@native
def same_strides(a, b):
    """Whether two tensors have the same number of dimensions and the same strides."""
    if a.ndim != b.ndim:
        return False
    for k in range(a.ndim):
        if a.strides[k] != b.strides[k]:
            return False
    return True


@native
def lies_like(t, strides):
    """Whether a tensor has these strides; sizes of 1 put no demand on theirs."""
    for k in range(t.ndim):
        if t.shape[k] != 1 and t.strides[k] != strides[k]:
            return False
    return True


@native
def lay_out(handle, strides):
    """Give a new tensor, which has no gaps, other strides that leave none; returns its handle."""
    t = tensor(handle)
    for k in range(t.ndim):
        t.strides[k] = strides[k]
    if not is_contiguous(t.ndim, t.shape, t.strides):
        t.flags &= ~CONTIGUOUS
    return handle


@native
def has_format(ndim, memory_format):
    """Whether a tensor of so many dimensions can be in a memory format."""
    if memory_format < 0 or memory_format >= len(FORMAT_DIMS):
        return False
    return FORMAT_DIMS[memory_format] == 0 or FORMAT_DIMS[memory_format] == ndim


@native
def channels_last_strides(ndim, shape, strides):
    """Write the strides of a tensor of these sizes whose second dimension is the innermost in memory."""
    strides[1] = 1
    stride = shape[1]
    for k in range(ndim - 1, -1, -1):
        if k != 1:
            strides[k] = stride
            stride *= shape[k]


@native
def speaks_for_channels_last(ndim, sizes, strides):
    """Whether strides grow from the channels on; what fits both orders counts as contiguous.

    See Note [Channels last].
    """
    if ndim < 3:
        return False
    least = 0
    for i in range(ndim):
        d = 1 if i == 0 else (ndim - i if i < ndim - 1 else 0)
        if sizes[d] == 0 or strides[d] < least or strides[1] == 0 or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(sizes[d], 1)
    return True


@native
def is_channels_last(h):
    """Whether the strides of a tensor speak for channels last."""
    t = tensor(h)
    return speaks_for_channels_last(t.ndim, t.shape, t.strides)


@native
def all_channels_last(n, ins, stacked, dim):
    """Whether all operands speak for channels last, `stacked` ones with a new dimension; absent ones (0) do not."""
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(n):
        if ins[k] == 0:
            return False
        t = tensor(ins[k])
        ndim = t.ndim + stacked
        if ndim < 4 or ndim > 5:
            return False
        for d in range(ndim):
            source = d if d < dim or stacked == 0 else d - 1
            if stacked != 0 and d == dim:  # as `unsqueeze` makes it
                sizes[d] = 1
                strides[d] = t.shape[source + 1] * t.strides[source + 1] if d < t.ndim else 1
            else:
                sizes[d] = t.shape[source]
                strides[d] = t.strides[source]
        if not speaks_for_channels_last(ndim, sizes, strides):
            return False
    return n > 0


@native
def in_format(t, memory_format):
    """Whether a tensor lies in a memory format without gaps; in whatever order, if that is `PRESERVE_FORMAT`."""
    if memory_format == PRESERVE_FORMAT:
        return without_gaps(t)
    if memory_format == CONTIGUOUS_FORMAT or not has_format(t.ndim, memory_format):
        return memory_format == CONTIGUOUS_FORMAT and is_contiguous(t.ndim, t.shape, t.strides)
    strides = words(stack_small())
    channels_last_strides(t.ndim, t.shape, strides)
    return lies_like(t, strides)


@native
def stride_of(h, dim, ndim, shape):
    """The stride of an operand along a dimension of the result; 0 where it is broadcast."""
    t = tensor(h)
    position = dim - (ndim - t.ndim)
    if position < 0 or (t.shape[position] == 1 and shape[dim] != 1):
        return 0
    return t.strides[position]


@native
def compare_dims(n, ins, ndim, shape, inner, outer):
    """Whether `inner` belongs inside of `outer` (-1), outside (1), or no operand says so (0): see Note [Layouts]."""
    for k in range(n):
        a = stride_of(ins[k], inner, ndim, shape)
        b = stride_of(ins[k], outer, ndim, shape)
        if a == 0 or b == 0:
            continue
        if a != b:
            return -1 if a < b else 1
        if shape[inner] > shape[outer]:
            return 1
    return 0


@native
def one_layout(n, ins, ndim):
    """Whether all operands have the same sizes and strides and no gaps."""
    first = tensor(ins[0])
    if first.ndim != ndim or not without_gaps(first):
        return False
    for k in range(1, n):
        t = tensor(ins[k])
        if t.ndim != ndim:
            return False
        for d in range(ndim):
            if t.shape[d] != first.shape[d] or t.strides[d] != first.strides[d]:
                return False
    return True


@native
def channels_last(n, ins, ndim, shape, strides):
    """Whether all operands have these sizes and their channels last; the strides are then in `strides`."""
    channels_last_strides(ndim, shape, strides)
    for k in range(n):
        t = tensor(ins[k])
        if t.ndim != ndim:
            return False
        for d in range(ndim):
            if t.shape[d] != shape[d]:
                return False
        if not lies_like(t, strides):
            return False
    return True


@native_once
def follow(n, ins, ndim, shape, strides):
    """Write the strides of a result of these sizes: see Note [Layouts]. Not all operands are contiguous."""
    if ndim == 4 and channels_last(n, ins, ndim, shape, strides):
        return
    if one_layout(n, ins, ndim):
        for d in range(ndim):
            strides[d] = tensor(ins[0]).strides[d]
        return
    order = words(stack_small())  # of dimensions, innermost first
    for k in range(ndim):
        order[k] = ndim - 1 - k
    for k in range(1, ndim):
        place = k
        for before in range(k - 1, -1, -1):
            answer = compare_dims(n, ins, ndim, shape, order[before], order[place])
            if answer < 0:
                break
            if answer > 0:
                inner = order[place]
                order[place] = order[before]
                order[before] = inner
                place = before
    stride = 1
    for k in range(ndim):
        strides[order[k]] = stride
        stride *= max(shape[order[k]], 1)


@native
def new_result(dtype, device, n, ins, ndim, shape):
    """A tensor whose elements are not set, for the result of an elementwise op on these operands; or a failure."""
    out = new_tensor(dtype, device, ndim, shape)
    plain = True
    for k in range(n):
        if not tensor(ins[k]).flags & CONTIGUOUS:
            plain = False
    if failed(out) or plain:
        return out
    strides = words(stack_small())
    follow(n, ins, ndim, tensor(out).shape, strides)
    return lay_out(out, strides)


@native
def arranged(handle, last):
    """Give a new tensor its channels `last`, if it has three dimensions; its handle, or the failure that it is."""
    if failed(handle) or last == 0 or tensor(handle).ndim < 3:
        return handle
    strides = words(stack_small())
    channels_last_strides(tensor(handle).ndim, tensor(handle).shape, strides)
    return lay_out(handle, strides)


@native
def new_image(dtype, device, ndim, sizes, last):
    """A tensor whose elements are not set, row by row or with its channels `last`; or a failure."""
    return arranged(new_tensor(dtype, device, ndim, sizes), last)


@native
def new_like(h, dtype, device, memory_format):
    """A tensor of the sizes of another, whose elements are not set, in a memory format; or a failure."""
    t = tensor(h)
    if not has_format(t.ndim, memory_format):
        return fail(INTERNAL, memory_format, t.ndim)
    out = new_tensor(dtype, device, t.ndim, t.shape)
    if failed(out) or memory_format == CONTIGUOUS_FORMAT:
        return out
    if memory_format == PRESERVE_FORMAT and without_gaps(t):
        return lay_out(out, t.strides)
    strides = words(stack_small())
    if memory_format == PRESERVE_FORMAT:
        ins = words(stack_small())
        ins[0] = h
        follow(1, ins, t.ndim, t.shape, strides)
    else:
        channels_last_strides(t.ndim, t.shape, strides)
    return lay_out(out, strides)


@native
def obeys(g, leaf):
    """Whether a gradient lies in memory as the leaf does, if that has no gaps, or else row by row."""
    a = tensor(g)
    b = tensor(leaf)
    return lies_like(a, b.strides) if without_gaps(b) else a.flags & CONTIGUOUS != 0
