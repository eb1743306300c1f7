"""Gathering and scattering, indexing by tensors."""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import fail, fail_dim, failed
from fastgrad.native.base.intrinsics import (
    native,
    product,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
    words_of,
)
from fastgrad.native.contracts.element_types import INT64
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.ops import VIEW_SQUEEZE
from fastgrad.native.contracts.status import (
    ELEMENT_RANGE,
    INDEX_DIMS,
    INDEX_DTYPE,
    INDEX_RANGE,
    INDEX_SIZES,
    INDICES_RANGE,
    INTERNAL,
    MISFIT,
    SOURCE_DTYPE,
    TOO_MANY_DIMS,
)
from fastgrad.native.launch.checked import launch_checked
from fastgrad.native.launch.elementwise import cast
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.copies import contiguous, zeros
from fastgrad.native.tensors.tensors import bump_version, finished, new_tensor, wrap_dim
from fastgrad.native.tensors.views import make_view, view_reshape

# --- gather and scatter ---------------------------------------------------------------------------------


@native
def run_gather(kernel, out, x, index, dim):
    """Launch a gather into `out`, or a scatter of `out` into `x`; returns a status."""
    tx = tensor(x)
    ti = tensor(index)
    if ti.numel == 0:
        return 0
    f = frames.gather(stack_frame())
    f.out = tensor(out).data
    f.x = tx.data
    f.index = ti.data
    f.rank = ti.ndim
    for d in range(ti.ndim):
        f.sizes[d] = ti.shape[d]
        f.out_strides[d] = tensor(out).strides[d]
        f.x_strides[d] = tx.strides[d]
        f.index_strides[d] = ti.strides[d]
    f.length = tx.shape[dim] if tx.ndim > 0 else 1
    f.dim = dim
    return launch_checked(kernel, tx.device, tx.dtype, f, words_of(f), ti.numel, ELEMENT_RANGE, dim)


@native
def check_gather(x, dim, index, wide):
    """Whether index and x fit each other: same rank, index no larger than x but along dim."""
    tx = tensor(x)
    ti = tensor(index)
    if ti.dtype != INT64:
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
    out = new_tensor(tx.dtype, tx.device, ti.ndim, ti.shape)
    if failed(out):
        return out
    return finished(out, run_gather(op_record(op).kernel, out, x, index, wrap_dim(dim, tx.ndim)))


@native
def scatter_add(op, base, source, index, dim):
    """A copy of `base` with ``out[index[i][j]][j] += source[i][j]`` for dim 0, and so on."""
    status = check_gather(base, dim, index, 0)
    if not failed(status):
        status = check_gather(source, dim, index, 1)
    if not failed(status) and tensor(source).dtype != tensor(base).dtype:
        status = fail(SOURCE_DTYPE, tensor(source).dtype)
    if failed(status):
        return status
    tb = tensor(base)
    out = cast(base, tb.dtype)
    if failed(out):
        return out
    return finished(out, run_gather(op_record(op).kernel, source, out, index, wrap_dim(dim, tb.ndim)))


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
    attrs = words(stack_small())
    attrs[0] = d
    squeezed = make_view(VIEW_SQUEEZE, out, 1, attrs)
    drop(out)
    return squeezed


# --- index tensors --------------------------------------------------------------------------------------

# The tensors of an index come as one, stacked: its first dimension counts them. They index neighbouring
# dimensions.


@native
def run_index(kernel, out, x, indices, first, accumulate):
    """Launch indexing of contiguous `x` into `out`, or the writing of `out` into `x`; returns a status."""
    tx = tensor(x)
    ti = tensor(indices)
    n = ti.shape[0]
    f = frames.index(stack_frame())
    f.out = tensor(out).data
    f.x = tx.data
    f.indices = ti.data
    f.count = n
    f.n = ti.numel // n
    f.before = 1
    f.after = 1
    f.accumulate = accumulate
    for d in range(first):
        f.before *= tx.shape[d]
    for d in range(first + n, tx.ndim):
        f.after *= tx.shape[d]
    for k in range(n):
        f.lengths[k] = tx.shape[first + k]
    if tensor(out).numel != product(product(f.before, f.n), f.after):
        return fail(MISFIT)
    reason = INDEX_RANGE if n == 1 else INDICES_RANGE
    work = tensor(out).numel + 1
    last = first + n - 1
    return launch_checked(kernel, tx.device, tx.dtype, f, words_of(f), work, reason, first, last)


@native
def check_indices(x, indices, first):
    """Whether the stacked `indices` are contiguous int64 and fit the dimensions of x; a status."""
    t = tensor(indices)
    if t.dtype != INT64 or not t.flags & CONTIGUOUS or t.ndim == 0:
        return fail(INTERNAL, first, t.dtype)
    if first < 0 or t.shape[0] < 1 or first + t.shape[0] > tensor(x).ndim:
        return fail(INTERNAL, first, t.shape[0])
    return 0


@native
def index(op, n, ins, first):
    """``x[..., i, j, ...]`` with index tensors i, j over neighbouring dimensions from `first` on."""
    x = ins[0]
    status = check_indices(x, ins[1], first)
    if failed(status):
        return status
    tx = tensor(x)
    ti = tensor(ins[1])
    rank = tx.ndim - ti.shape[0] + ti.ndim - 1
    if rank > MAX_DIMS:
        return fail(TOO_MANY_DIMS, rank)
    sizes = words(stack_small())
    for d in range(first):
        sizes[d] = tx.shape[d]
    for d in range(1, ti.ndim):
        sizes[first + d - 1] = ti.shape[d]
    for d in range(first + ti.ndim - 1, rank):
        sizes[d] = tx.shape[d - rank + tx.ndim]
    cx = contiguous(x)
    if failed(cx):
        return cx
    out = new_tensor(tx.dtype, tx.device, rank, sizes)
    if not failed(out):
        out = finished(out, run_index(op_record(op).kernel, out, cx, ins[1], first, 0))
    drop(cx)
    return out


@native
def index_put(op, n, ins, first, accumulate):
    """Write `ins[1]` at the indices `ins[2]` of contiguous `ins[0]`, in place; adds if `accumulate`."""
    x = ins[0]
    status = check_indices(x, ins[2], first)
    if failed(status):
        return status
    tx = tensor(x)
    tv = tensor(ins[1])
    if not tx.flags & CONTIGUOUS or not tv.flags & CONTIGUOUS or tv.dtype != tx.dtype:
        return fail(INTERNAL, tv.numel, tx.numel)
    if tv.numel * tx.numel != 0 or tensor(ins[2]).numel != 0:
        status = run_index(op_record(op).kernel, ins[1], x, ins[2], first, accumulate)
    if failed(status):
        return status
    bump_version(x)
    retain(x)
    return x


@native
def index_backward(op, g, n, ins, first, ndim, sizes):
    """The gradient of indexing: zeros of the input's sizes, each element of `g` added at its index."""
    t = tensor(g)
    out = zeros(t.dtype, t.device, ndim, sizes)
    if failed(out):
        return out
    cg = contiguous(g)
    if cg <= 0:
        return finished(out, cg)
    operands = words(stack_small())
    operands[0] = out
    operands[1] = cg
    operands[2] = ins[0]
    put = index_put(op, 3, operands, first, 1)
    drop(cg)
    drop(out)  # index_put added a reference of its own
    return put
