"""Views: new sizes, strides and address over the same storage. Each returns a handle or a negative status."""

from __future__ import annotations

from fastgrad.native.base import integers
from fastgrad.native.base.failures import fail, fail_dim, fail_sizes, failed
from fastgrad.native.base.intrinsics import (
    native,
    native_once,
    product,
    stack_small,
    storage,
    tensor,
    total,
    words,
)
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.ops import (
    VIEW_ALIAS,
    VIEW_AS_COMPLEX,
    VIEW_AS_DTYPE,
    VIEW_AS_REAL,
    VIEW_AS_STRIDED,
    VIEW_CONJUGATE,
    VIEW_DIAGONAL,
    VIEW_EXPAND,
    VIEW_EXPAND_TO,
    VIEW_NARROW,
    VIEW_PERMUTE,
    VIEW_RESHAPE,
    VIEW_SELECT,
    VIEW_SLICE,
    VIEW_SQUEEZE,
    VIEW_TRANSPOSE,
    VIEW_UNFOLD,
    VIEW_UNSQUEEZE,
)
from fastgrad.native.contracts.status import (
    AMBIGUOUS_SIZE,
    BEYOND_STORAGE,
    DUPLICATE_DIM,
    EXPAND_DIMS,
    EXPAND_LEADING,
    EXPAND_SIZE,
    INDEX_RANGE,
    INTERNAL,
    NARROW_LENGTH,
    NARROW_SCALAR,
    NEGATIVE_SIZE,
    NEGATIVE_STRIDED,
    NO_DIMS,
    PERMUTE_DIMS,
    RESHAPE_SIZES,
    SEVERAL_UNKNOWN,
    SLICE_STEP,
    START_RANGE,
    TOO_MANY_DIMS,
    VIEW_STRIDES,
)
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.reinterpretations import (
    view_as_complex,
    view_as_dtype,
    view_as_real,
    view_conjugate,
)
from fastgrad.native.tensors.tensors import alias, new_view, own_memory, resized, wrap_dim


@native
def infer_sizes(h, n, sizes, out):
    """Sizes with at most one -1 made whole; writes to `out` and returns their number."""
    t = tensor(h)
    if n > MAX_DIMS:
        return fail(TOO_MANY_DIMS, n)
    known = 1
    unknown = -1
    for k in range(n):
        out[k] = sizes[k]
        if sizes[k] == -1:
            if unknown >= 0:
                return fail_sizes(SEVERAL_UNKNOWN, n, sizes)
            unknown = k
        elif sizes[k] < 0:
            return fail_sizes(NEGATIVE_SIZE, n, sizes, sizes[k], k)
        else:
            known = product(known, sizes[k])
    if known < 0:
        return fail_sizes(RESHAPE_SIZES, n, sizes, t.numel)
    if unknown >= 0:
        if known == 0:
            return fail_sizes(AMBIGUOUS_SIZE, n, sizes)
        if t.numel % known != 0:
            return fail_sizes(RESHAPE_SIZES, n, sizes, t.numel)
        out[unknown] = t.numel // known
    elif known != t.numel:
        return fail_sizes(RESHAPE_SIZES, n, sizes, t.numel)
    return n


@native
def reshape_strides(t, n, sizes, strides):
    """Strides of a view of tensor `t` with other sizes, if the memory order allows one."""
    if t.numel == 0 or t.flags & CONTIGUOUS:
        step = 1
        for k in range(n - 1, -1, -1):
            strides[k] = step
            step *= max(sizes[k], 1)
        return True
    # Walk both shapes from the back; a chunk is a run of old dimensions that lie without gaps.
    new = n - 1
    chunk_stride = t.strides[t.ndim - 1]
    chunk = 1
    view_numel = 1
    for old in range(t.ndim - 1, -1, -1):
        chunk *= t.shape[old]
        ends = old == 0
        if not ends:
            ends = t.shape[old - 1] != 1 and t.strides[old - 1] != chunk * chunk_stride
        if ends:
            while new >= 0 and (view_numel < chunk or sizes[new] == 1):
                strides[new] = view_numel * chunk_stride
                view_numel *= sizes[new]
                new -= 1
            if view_numel != chunk:
                return False
            if old > 0:
                chunk_stride = t.strides[old - 1]
                chunk = 1
                view_numel = 1
    return new == -1


@native
def is_viewable(h, n, attrs):
    """Whether a tensor has a view with other sizes, for all that its strides say."""
    sizes = words(stack_small())
    count = infer_sizes(h, n, attrs, sizes)
    return count < 0 or tensor(h).ndim == 0 or reshape_strides(tensor(h), count, sizes, words(stack_small()))


@native
def view_reshape(h, n, attrs):
    """Other sizes over the same elements, one of which may be -1: `attrs` are `n` sizes.

    A failure where strides forbid it.
    """
    t = tensor(h)
    sizes = words(stack_small())
    strides = words(stack_small())
    count = infer_sizes(h, n, attrs, sizes)
    if count < 0:
        return count
    if t.ndim == 0:
        for k in range(count):
            strides[k] = 1
    elif not reshape_strides(t, count, sizes, strides):
        return fail(VIEW_STRIDES)
    return new_view(h, count, sizes, strides, t.data)


@native
def view_expand(h, n, attrs):
    """Sizes of one, and missing ones in front, repeated: `attrs` are `n` sizes, -1 keeps one."""
    t = tensor(h)
    if n > MAX_DIMS:
        return fail(TOO_MANY_DIMS, n)
    if n < t.ndim:
        return fail(EXPAND_DIMS, n, t.ndim)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(n):
        position = k - (n - t.ndim)
        size = attrs[k]
        sizes[k] = size
        strides[k] = 0
        if position < 0:
            if size < 0:
                return fail(EXPAND_LEADING, k)
            continue
        if size == -1 or size == t.shape[position]:
            sizes[k] = t.shape[position]
            strides[k] = t.strides[position]
        elif t.shape[position] != 1 or size < 0:
            return fail(EXPAND_SIZE, size, k)
    return new_view(h, n, sizes, strides, t.data)


@native
def view_permute(h, n, attrs):
    """The dimensions in another order.

    `attrs` are 1 for the inverse of the order that follows, then the `n - 1` dimensions.
    """
    t = tensor(h)
    if n - 1 != t.ndim:
        return fail(PERMUTE_DIMS, t.ndim, n - 1)
    sizes = words(stack_small())
    strides = words(stack_small())
    order = integers.permuted(attrs)
    seen = 0
    for k in range(t.ndim):
        dim = wrap_dim(order.rest[k], t.ndim)
        if dim < 0:
            return fail_dim(order.rest[k], t.ndim)
        if seen & (1 << dim):
            return fail(DUPLICATE_DIM, dim)
        seen |= 1 << dim
        target = dim if order.inverse else k
        source = k if order.inverse else dim
        sizes[target] = t.shape[source]
        strides[target] = t.strides[source]
    return new_view(h, t.ndim, sizes, strides, t.data)


@native
def view_transpose(h, attrs):
    """Two dimensions in place of each other."""
    t = tensor(h)
    of = integers.transposed(attrs)
    a = wrap_dim(of.dim0, t.ndim)
    b = wrap_dim(of.dim1, t.ndim)
    if a < 0 or b < 0:
        return fail_dim(of.dim0 if a < 0 else of.dim1, t.ndim)
    if t.ndim == 0:
        return alias(h)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(t.ndim):
        source = b if k == a else (a if k == b else k)
        sizes[k] = t.shape[source]
        strides[k] = t.strides[source]
    return new_view(h, t.ndim, sizes, strides, t.data)


@native
def view_slice(h, attrs):
    """Every step-th index of a dimension, with start, end and step as in Python."""
    t = tensor(h)
    of = integers.sliced(attrs)
    dim = wrap_dim(of.dim, t.ndim)
    if t.ndim == 0:
        return fail(NO_DIMS)
    if dim < 0:
        return fail_dim(of.dim, t.ndim)
    step = of.step
    if step <= 0:
        return fail(SLICE_STEP, step)
    size = t.shape[dim]
    start = of.start
    end = of.end
    if start < 0:
        start += size
    if end < 0:
        end += size
    start = min(max(start, 0), size)
    end = min(max(end, start), size)
    out = new_view(h, t.ndim, t.shape, t.strides, t.data + start * t.strides[dim] * itemsize(t.dtype))
    if failed(out):
        return out
    length = (end - start - 1) // step + 1 if end > start else 0
    stride = product(t.strides[dim], step)  # too large only where at most one element is left
    return resized(out, dim, length, stride if stride >= 0 else t.strides[dim])


@native
def slice_at(place, dim, start, length):
    """Write the integers of a slice of neighbouring indices to `place`, and give that back."""
    of = integers.sliced(place)
    of.dim = dim
    of.start = start
    of.end = start + length
    of.step = 1
    return place


@native
def select_at(place, dim, index):
    """Write the integers of a selection to `place`, and give that back."""
    of = integers.selected(place)
    of.dim = dim
    of.index = index
    return place


@native
def view_select(h, attrs):
    """One index of a dimension, which goes."""
    t = tensor(h)
    of = integers.selected(attrs)
    dim = wrap_dim(of.dim, t.ndim)
    if t.ndim == 0:
        return fail(NO_DIMS)
    if dim < 0:
        return fail_dim(of.dim, t.ndim)
    index = of.index
    if index < -t.shape[dim] or index >= t.shape[dim]:
        return fail(INDEX_RANGE, index, t.shape[dim], dim)
    if index < 0:
        index += t.shape[dim]
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(t.ndim - 1):
        source = k if k < dim else k + 1
        sizes[k] = t.shape[source]
        strides[k] = t.strides[source]
    return new_view(h, t.ndim - 1, sizes, strides, t.data + index * t.strides[dim] * itemsize(t.dtype))


@native
def view_squeeze(h, attrs):
    """Without a dimension of size one, or with MAX_DIMS in its place without all of them."""
    t = tensor(h)
    of = integers.along(attrs)
    only = -1
    if of.dim != MAX_DIMS:
        only = wrap_dim(of.dim, t.ndim)
        if only < 0:
            return fail_dim(of.dim, t.ndim)
    sizes = words(stack_small())
    strides = words(stack_small())
    rank = 0
    for k in range(t.ndim):
        if t.shape[k] == 1 and (only < 0 or only == k):
            continue
        sizes[rank] = t.shape[k]
        strides[rank] = t.strides[k]
        rank += 1
    return new_view(h, rank, sizes, strides, t.data)


@native
def view_unsqueeze(h, attrs):
    """With one more dimension of size one."""
    t = tensor(h)
    of = integers.along(attrs)
    if t.ndim == MAX_DIMS:
        return fail(TOO_MANY_DIMS, t.ndim + 1)
    dim = wrap_dim(of.dim, t.ndim + 1)
    if dim < 0:
        return fail_dim(of.dim, t.ndim + 1)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(t.ndim + 1):
        if k < dim:
            sizes[k] = t.shape[k]
            strides[k] = t.strides[k]
        elif k > dim:
            sizes[k] = t.shape[k - 1]
            strides[k] = t.strides[k - 1]
        else:
            sizes[k] = 1
            strides[k] = t.shape[dim] * t.strides[dim] if dim < t.ndim else 1
    return new_view(h, t.ndim + 1, sizes, strides, t.data)


@native
def view_diagonal(h, attrs):
    """The diagonal of two dimensions as the last one."""
    t = tensor(h)
    of = integers.diagonal(attrs)
    a = wrap_dim(of.dim1, t.ndim)
    b = wrap_dim(of.dim2, t.ndim)
    if a < 0 or b < 0 or t.ndim < 2:
        return fail_dim(of.dim1 if a < 0 else of.dim2, t.ndim)
    if a == b:
        return fail(DUPLICATE_DIM, a)
    offset = of.offset
    if offset >= 0:
        length = min(t.shape[a], t.shape[b] - offset)
        data = t.data + offset * t.strides[b] * itemsize(t.dtype)
    else:
        length = min(t.shape[a] + offset, t.shape[b])
        data = t.data - offset * t.strides[a] * itemsize(t.dtype)
    if length <= 0:
        length = 0
        data = t.data
    sizes = words(stack_small())
    strides = words(stack_small())
    rank = 0
    for k in range(t.ndim):
        if k != a and k != b:
            sizes[rank] = t.shape[k]
            strides[rank] = t.strides[k]
            rank += 1
    sizes[rank] = length
    strides[rank] = t.strides[a] + t.strides[b]
    return new_view(h, rank + 1, sizes, strides, data)


@native
def view_unfold(h, attrs):
    """Windows of a dimension, whose elements are one dimension more."""
    t = tensor(h)
    of = integers.unfolded(attrs)
    dim = wrap_dim(of.dim, t.ndim)
    length = t.shape[dim] if t.ndim > 0 else 1
    if dim < 0:
        return fail_dim(of.dim, t.ndim)
    if t.ndim == MAX_DIMS:
        return fail(TOO_MANY_DIMS, t.ndim + 1)
    if of.size < 0 or of.size > length or of.step <= 0:
        return fail(INTERNAL, of.size, of.step)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(t.ndim):
        sizes[k] = t.shape[k]
        strides[k] = t.strides[k]
    sizes[t.ndim] = of.size
    strides[t.ndim] = t.strides[dim] if t.ndim > 0 else 1
    if t.ndim > 0:
        sizes[dim] = (length - of.size) // of.step + 1
        stride = product(t.strides[dim], of.step)  # too large only where there is one window
        strides[dim] = stride if stride >= 0 else t.strides[dim]
    return new_view(h, t.ndim + 1, sizes, strides, t.data)


@native
def view_narrow(h, attrs):
    """A range of a dimension."""
    t = tensor(h)
    of = integers.narrowed(attrs)
    dim = wrap_dim(of.dim, t.ndim)
    if t.ndim == 0:
        return fail(NARROW_SCALAR)
    if dim < 0:
        return fail_dim(of.dim, t.ndim)
    start = of.start
    size = t.shape[dim]
    if start < -size or start > size:
        return fail(START_RANGE, start, size, dim)
    if start < 0:
        start += size
    length = of.length
    if length < 0 or length > size - start:
        return fail(NARROW_LENGTH, start, length, size)
    return view_slice(h, slice_at(words(stack_small()), dim, start, length))


@native
def extent(ndim, sizes, strides):
    """How many elements lie between the first one of a layout and the end of its last one; -1: too many."""
    reach = 1
    for k in range(ndim):
        if sizes[k] == 0:
            return 0
        reach = total(reach, product(sizes[k] - 1, strides[k]))
    return reach


@native
def view_as_strided(h, attrs):
    """A region (see `contracts.integers`) of the storage of `h`, its offset being from the first element of `h`."""
    t = tensor(h)
    of = integers.listed(attrs)
    n = of.count
    if n > MAX_DIMS:
        return fail(TOO_MANY_DIMS, n)
    sizes = words(stack_small())
    strides = words(stack_small())
    s = storage(t.storage)
    size = itemsize(t.dtype)
    lead = t.data - s.data
    offset = of.rest[2 * n]
    first = lead // size + offset if offset < 0 else total(lead // size, offset)
    if first < 0:
        return fail(NEGATIVE_STRIDED)
    for k in range(n):
        sizes[k] = of.rest[k]
        strides[k] = of.rest[n + k]
        if sizes[k] < 0 or strides[k] < 0:
            return fail(NEGATIVE_STRIDED)
    length = extent(n, sizes, strides)
    nbytes = product(total(first, length), size)
    if length != 0 and (nbytes < 0 or nbytes > s.nbytes - lead % size):
        return fail(BEYOND_STORAGE, s.nbytes)
    return new_view(h, n, sizes, strides, t.data + offset * size)


@native_once
def make_view(kind, h, n, attrs):
    """The view of `kind` of tensor `h`; `attrs` as `contracts.integers` declares them."""
    status = own_memory(h)
    if failed(status):
        return status
    if kind == VIEW_RESHAPE:
        return view_reshape(h, n, attrs)
    if kind == VIEW_EXPAND:
        return view_expand(h, n, attrs)
    if kind == VIEW_PERMUTE:
        return view_permute(h, n, attrs)
    if kind == VIEW_TRANSPOSE:
        return view_transpose(h, attrs)
    if kind == VIEW_SLICE:
        return view_slice(h, attrs)
    if kind == VIEW_SELECT:
        return view_select(h, attrs)
    if kind == VIEW_SQUEEZE:
        return view_squeeze(h, attrs)
    if kind == VIEW_UNSQUEEZE:
        return view_unsqueeze(h, attrs)
    if kind == VIEW_DIAGONAL:
        return view_diagonal(h, attrs)
    if kind == VIEW_AS_STRIDED:
        return view_as_strided(h, attrs)
    if kind == VIEW_NARROW:
        return view_narrow(h, attrs)
    if kind == VIEW_UNFOLD:
        return view_unfold(h, attrs)
    if kind == VIEW_AS_DTYPE:
        return view_as_dtype(h, attrs)
    if kind == VIEW_EXPAND_TO:
        target = integers.listed(attrs)
        return view_expand(h, target.count, target.rest)
    if kind == VIEW_ALIAS:
        return alias(h)
    if kind == VIEW_AS_REAL:
        return view_as_real(h)
    if kind == VIEW_AS_COMPLEX:
        return view_as_complex(h)
    if kind == VIEW_CONJUGATE:
        return view_conjugate(h)
    return fail(INTERNAL, kind, n)
