"""Gathering and scattering, indexing by tensors."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, fail_dim, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    native,
    native_inline,
    native_once,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
    words_of,
)
from fastgrad.native.contracts.element_types import INT32, INT64
from fastgrad.native.contracts.integers import STACKED
from fastgrad.native.contracts.limits import FRAME_DIMS, MAX_DIMS
from fastgrad.native.contracts.ops import VIEW_SQUEEZE
from fastgrad.native.contracts.status import (
    ELEMENT_RANGE,
    INDEX_DIMS,
    INDEX_DTYPE,
    INDEX_SIZES,
    INTERNAL,
    MISFIT,
    NOT_FOUND,
    OK,
    SOURCE_DTYPE,
    TOO_MANY_DIMS,
)
from fastgrad.native.launch.checked import launch_checked
from fastgrad.native.launch.elementwise import broadcast, cast, copy_into
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.copies import contiguous, merging, zeros
from fastgrad.native.shapes.index_launches import run_index
from fastgrad.native.shapes.parts import join
from fastgrad.native.tensors.tensors import bump_version, finished, new_tensor, new_view, wrap_dim
from fastgrad.native.tensors.views import make_view, view_expand, view_reshape

# --- gather and scatter ---------------------------------------------------------------------------------


SHORT = 4  # too few elements for an innermost loop if there is a longer one


@native_inline
def gather_frame(f, out, x, index, dim):
    """Fill the frame of a gather into `out`, or of a scatter of `out` into `x`, neighbours merged.

    False where it has no room for all dimensions.
    """
    tx = tensor(x)
    ti = tensor(index)
    f.out = tensor(out).data
    f.x = tx.data
    f.index = ti.data
    f.length = tx.shape[dim] if tx.ndim > 0 else 1
    f.step = tx.strides[dim] if tx.ndim > 0 else 0
    f.along = -1
    f.rank = 0
    for d in range(ti.ndim):
        if ti.shape[d] != 1:
            if f.rank == FRAME_DIMS:
                return False
            add_dim(f, ti.shape[d], tensor(out).strides[d], 0 if d == dim else tx.strides[d], ti.strides[d])
            if d == dim:
                f.along = f.rank - 1
    if f.rank == 0:
        add_dim(f, 1, 0, 0, 0)
    last = f.rank - 1
    if f.sizes[last] < min(SHORT, f.sizes[0]):  # elements of x that differ are added to in any order
        swap_dims(f, 0, last)
    return True


@native_inline
def launch_gather(kernel, f, x, index, dim):
    """Launch a gather or a scatter over the elements of an index; returns a status."""
    tx = tensor(x)
    work = tensor(index).numel
    return launch_checked(kernel, tx.device, tx.dtype, address_of(f), words_of(f), work, ELEMENT_RANGE, dim)


@native
def part_for(h, index, dim):
    """A view of the part of a tensor that an index reaches: of the sizes of the index, but for one dimension."""
    t = tensor(h)
    sizes = words(stack_small())
    for d in range(t.ndim):
        sizes[d] = t.shape[d] if d == dim else tensor(index).shape[d]
    return new_view(h, t.ndim, sizes, t.strides, t.data)


@native_once
def gather_merged(kernel, out, x, index, dim):
    """As `run_gather`, where a frame has no room for the dimensions: see Note [Pieces of a launch]."""
    part = part_for(x, index, dim)
    side = part_for(out, index, NOT_FOUND)
    into = merging(part) if not failed(part) else part
    other = merging(side) if not failed(side) else side
    where = merging(index)
    status = min(into, other, where, OK)
    if not failed(status):
        f = frames.gather(stack_frame())
        gather_frame(f, other, into, where, dim)
        status = launch_gather(kernel, f, into, where, dim)
    if not failed(status) and into != part and kernel != op_record(runtime().gather_op).kernel:
        status = copy_into(part, into)
    for made in (part, side, into, other, where):
        if not failed(made):
            drop(made)
    return status


@native
def run_gather(kernel, out, x, index, dim):
    """Launch a gather into `out`, or a scatter of `out` into `x`; returns a status."""
    if tensor(index).numel == 0:
        return 0
    f = frames.gather(stack_frame())
    if not gather_frame(f, out, x, index, dim):
        return gather_merged(kernel, out, x, index, dim)
    return launch_gather(kernel, f, x, index, dim)


@native
def add_dim(f, size, out_stride, x_stride, index_stride):
    """Add a dimension to a frame, or merge it with the one before."""
    k = f.rank - 1
    if (
        k >= 0
        and f.out_strides[k] == out_stride * size
        and f.x_strides[k] == x_stride * size
        and f.index_strides[k] == index_stride * size
    ):
        f.sizes[k] *= size
    else:
        k = f.rank
        f.rank += 1
        f.sizes[k] = size
    f.out_strides[k] = out_stride
    f.x_strides[k] = x_stride
    f.index_strides[k] = index_stride


@native
def swap_dims(f, j, k):
    """Let two dimensions of a frame change places."""
    for words_of_dims in (f.sizes, f.out_strides, f.x_strides, f.index_strides):
        words_of_dims[j], words_of_dims[k] = words_of_dims[k], words_of_dims[j]
    if f.along == j:
        f.along = k
    elif f.along == k:
        f.along = j


@native
def as_int64(index):
    """An index tensor as int64; the caller gets a reference."""
    if tensor(index).dtype != INT64:
        return cast(index, INT64)
    retain(index)
    return index


@native
def check_gather(x, dim, index, wide):
    """Whether index and x fit each other: same rank, index no larger than x but along dim."""
    tx = tensor(x)
    ti = tensor(index)
    if ti.dtype != INT64 and ti.dtype != INT32:
        return fail(INDEX_DTYPE, ti.dtype)
    d = wrap_dim(dim, tx.ndim)
    if d < 0:
        return fail_dim(dim, tx.ndim)
    if tx.ndim != ti.ndim:
        return fail(INDEX_DIMS)
    for k in range(ti.ndim):
        if (k != d or wide == 1) and ti.shape[k] > tx.shape[k]:
            return fail(INDEX_SIZES)
    return 0


@native
def gather(op, x, index, dim):
    """``out[i][j] = x[index[i][j]][j]`` for dim 0, and so on."""
    status = check_gather(x, dim, index, 0)
    if failed(status):
        return status
    tx = tensor(x)
    ti = tensor(index)
    where = as_int64(index)
    if failed(where):
        return where
    out = new_tensor(tx.dtype, tx.device, ti.ndim, ti.shape)
    if not failed(out):
        out = finished(out, run_gather(op_record(op).kernel, out, x, where, wrap_dim(dim, tx.ndim)))
    drop(where)
    return out


@native
def scatter_add(op, base, source, index, dim, ndim, sizes):
    """A copy of `base` with ``out[index[i][j]][j] += source[i][j]`` for dim 0, and so on.

    Without a base, of zeros of the given sizes.
    """
    ts = tensor(source)
    out = cast(base, tensor(base).dtype) if base != 0 else zeros(ts.dtype, ts.device, ndim, sizes)
    if failed(out):
        return out
    status = check_gather(out, dim, index, 0)
    if not failed(status):
        status = check_gather(source, dim, index, 1)
    if not failed(status) and ts.dtype != tensor(out).dtype:
        status = fail(SOURCE_DTYPE, ts.dtype)
    if not failed(status):
        status = as_int64(index)
    if not failed(status):
        where = status
        status = run_gather(op_record(op).kernel, source, out, where, wrap_dim(dim, tensor(out).ndim))
        drop(where)
    return finished(out, status)


@native
def scatter_into(op, x, source, index, dim):
    """Change `x` where `index` points to: in place."""
    status = check_gather(x, dim, index, 0)
    if not failed(status):
        status = check_gather(source, dim, index, 1)
    if not failed(status) and tensor(source).dtype != tensor(x).dtype:
        status = fail(SOURCE_DTYPE, tensor(source).dtype)
    if not failed(status):
        status = as_int64(index)
    if failed(status):
        return status
    where = status
    status = run_gather(op_record(op).kernel, source, x, where, wrap_dim(dim, tensor(x).ndim))
    drop(where)
    if failed(status):
        return status
    bump_version(x)
    retain(x)
    return x


# --- one element of each row ----------------------------------------------------------------------------


@native
def row_shape(h, dim, ndim, sizes):
    """A view of `h` in which dimension `dim` of a tensor of the given sizes is kept with size 1."""
    kept = words(stack_small())
    for k in range(ndim):
        kept[k] = 1 if k == dim else sizes[k]
    return view_reshape(h, ndim, kept)


@native
def put_rows(out, g, index, dim):
    """Write each element of contiguous `g` at the place along `dim` that `index` names; returns a status."""
    t = tensor(out)
    if tensor(index).dtype != INT64:
        return fail(INDEX_DTYPE, tensor(index).dtype)
    kept = row_shape(g, dim, t.ndim, t.shape)
    if failed(kept):
        return kept
    where = row_shape(index, dim, t.ndim, t.shape)
    status = where
    if where > 0:
        status = run_gather(op_record(runtime().scatter_op).kernel, kept, out, where, dim)
        drop(where)
    drop(kept)
    return status


@native
def place_rows(g, index, dim, ndim, sizes):
    """Zeros of the given sizes with each element of `g` at the place along `dim` that `index` names."""
    if ndim == 0:
        return cast(g, tensor(g).dtype)  # a result is never the operand itself: it gets a history of its own
    source = contiguous(g)
    if failed(source):
        return source
    out = zeros(tensor(g).dtype, tensor(g).device, ndim, sizes)
    if not failed(out):
        out = finished(out, put_rows(out, source, index, wrap_dim(dim, ndim)))
    drop(source)
    return out


@native
def select_rows(x, index, dim, keepdim):
    """The element along `dim` that `index` names, for each row; the other way around of `place_rows`."""
    t = tensor(x)
    if t.ndim == 0:
        return cast(x, t.dtype)
    d = wrap_dim(dim, t.ndim)
    where = row_shape(index, d, t.ndim, t.shape)
    if where <= 0:
        return where
    out = gather(runtime().gather_op, x, where, d)
    drop(where)
    if failed(out) or keepdim != 0:
        return out
    place = words(stack_small())
    integers.along(place).dim = d
    squeezed = make_view(VIEW_SQUEEZE, out, 1, place)
    drop(out)
    return squeezed


# --- index tensors --------------------------------------------------------------------------------------

# The tensors of an index come as they are, so that a node saves them, or as one, stacked: then its first dimension
# counts them. They index neighbouring dimensions.


@native
def index_sizes(n, indices, form, sizes):
    """The sizes that index tensors have in common; returns their number or a failure. One number counts as a vector."""
    for k in range(n):
        if indices[k] == 0:
            return fail(INTERNAL, n, k)
        dtype = tensor(indices[k]).dtype
        if dtype != INT64 and dtype != INT32:
            return fail(INDEX_DTYPE, dtype)
    first = tensor(indices[0])
    if form & STACKED:
        if n != 1 or first.ndim == 0:
            return fail(INTERNAL, n, first.ndim)
        for d in range(1, first.ndim):
            sizes[d - 1] = first.shape[d]
        return first.ndim - 1
    rank = broadcast(n, indices, 0, sizes)
    if rank == 0:
        sizes[0] = 1
        return 1
    return rank


@native
def as_places(h):
    """An index tensor as contiguous int64; the caller gets a reference."""
    return contiguous(h) if tensor(h).dtype == INT64 else cast(h, INT64)


@native
def joined(n, indices, rank, sizes):
    """Index tensors of these sizes, one after the other; the caller gets a reference."""
    if n == 1:
        return as_places(indices[0])
    parts = words(stack_small())
    made = 0
    status = OK
    while made < n and not failed(status):
        wide = view_expand(indices[made], rank, sizes)
        status = wide
        if not failed(wide):
            status = as_places(wide)
            drop(wide)
        if not failed(status):
            parts[made] = status
            made += 1
    if not failed(status):
        status = join(n, parts, 0, 0, parts[0])
    for k in range(made):
        drop(parts[k])
    return status


@native
def put(kernel, x, values, n, indices, first, form, accumulate):
    """Write contiguous `values` at index tensors of contiguous `x`, or add them; a status."""
    sizes = words(stack_small())
    rank = index_sizes(n, indices, form, sizes)
    if failed(rank):
        return rank
    count = tensor(indices[0]).shape[0] if form & STACKED else n
    if first < 0 or count < 1 or first > tensor(x).ndim - count:
        return fail(MISFIT)
    places = joined(n, indices, rank, sizes)
    if failed(places):
        return places
    status = OK
    if tensor(values).numel * tensor(x).numel != 0 or tensor(places).numel != 0:
        status = run_index(kernel, values, x, places, count, first, accumulate, form)
    drop(places)
    return status


@native
def indexed_sizes(x, n, indices, first, form, sizes):
    """The sizes of ``x[..., i, j, ...]`` with index tensors over dimensions from `first` on; how many, or a failure."""
    tx = tensor(x)
    common = words(stack_small())
    between = index_sizes(n, indices, form, common)
    if failed(between):
        return between
    count = tensor(indices[0]).shape[0] if form & STACKED else n
    if first < 0 or count < 1 or first > tx.ndim - count:
        return fail(MISFIT)
    rank = tx.ndim - count + between
    if rank > MAX_DIMS:
        return fail(TOO_MANY_DIMS, rank)
    for d in range(first):
        sizes[d] = tx.shape[d]
    for d in range(between):
        sizes[first + d] = common[d]
    for d in range(first + between, rank):
        sizes[d] = tx.shape[d - rank + tx.ndim]
    return rank


@native
def index(op, n, ins, first, form):
    """``x[..., i, j, ...]`` with index tensors i, j over neighbouring dimensions from `first` on."""
    x = ins[0]
    tx = tensor(x)
    indices = advance(ins, 1)
    n = present(n - 1, indices)
    sizes = words(stack_small())
    rank = indexed_sizes(x, n, indices, first, form, sizes)
    if failed(rank):
        return rank
    count = tensor(indices[0]).shape[0] if form & STACKED else n
    places = joined(n, indices, rank - tx.ndim + count, advance(sizes, first))
    if failed(places):
        return places
    out = contiguous(x)
    if not failed(out):
        cx = out
        out = new_tensor(tx.dtype, tx.device, rank, sizes)
        if not failed(out):
            out = finished(out, run_index(op_record(op).kernel, out, cx, places, count, first, 0, form))
        drop(cx)
    drop(places)
    return out


@native
def present(n, operands):
    """How many operands there are without those that are missing at the end."""
    while n > 1 and operands[n - 1] == 0:
        n -= 1
    return n


@native
def values_for(x, values, n, indices, first, form):
    """Values as many as there are places, contiguous: those for stacked indices as they are, others broadcast."""
    if form & STACKED:
        return contiguous(values)
    sizes = words(stack_small())
    rank = indexed_sizes(x, n, indices, first, form, sizes)
    if failed(rank):
        return rank
    wide = view_expand(values, rank, sizes)
    if failed(wide):
        return wide
    out = contiguous(wide)
    drop(wide)
    return out


@native
def index_put(op, n, ins, first, form, accumulate):
    """Write `ins[1]` at index tensors of `ins[0]`, in place: the last write to a place stays. Adds if `accumulate`."""
    x = ins[0]
    if tensor(ins[1]).dtype != tensor(x).dtype:
        return fail(SOURCE_DTYPE, tensor(ins[1]).dtype)
    indices = advance(ins, 2)
    count = present(n - 2, indices)
    values = values_for(x, ins[1], count, indices, first, form)
    if failed(values):
        return values
    work = contiguous(x)
    status = work
    if not failed(work):
        status = put(op_record(op).kernel, work, values, count, indices, first, form, accumulate)
        if not failed(status) and work != x:
            status = copy_into(x, work)
        drop(work)
    drop(values)
    if failed(status):
        return status
    bump_version(x)
    retain(x)
    return x


@native
def index_backward(op, n, ins, first, form, ndim, sizes):
    """The gradient of indexing: zeros of the input's sizes, each element of `ins[0]` added at its index."""
    t = tensor(ins[0])
    out = zeros(t.dtype, t.device, ndim, sizes)
    if failed(out):
        return out
    g = contiguous(ins[0])
    if failed(g):
        return finished(out, g)
    indices = advance(ins, 1)
    status = put(op_record(op).kernel, out, g, present(n - 1, indices), indices, first, form, 1)
    drop(g)
    return finished(out, status)


@native
def index_onto(op, n, ins, first, form, accumulate):
    """A copy of `ins[0]` with `ins[1]` written at index tensors, the last write to a place staying, or added."""
    x = ins[0]
    tx = tensor(x)
    if tensor(ins[1]).dtype != tx.dtype:
        return fail(SOURCE_DTYPE, tensor(ins[1]).dtype)
    out = new_tensor(tx.dtype, tx.device, tx.ndim, tx.shape)
    if failed(out):
        return out
    status = copy_into(out, x)
    if failed(status):
        return finished(out, status)
    values = contiguous(ins[1])
    if failed(values):
        return finished(out, values)
    indices = advance(ins, 2)
    status = put(op_record(op).kernel, out, values, present(n - 2, indices), indices, first, form, accumulate)
    drop(values)
    return finished(out, status)
