"""Ops whose shape rule is written by hand: reductions, rows, products, gathering and scattering, casts.

Each function takes handles and integers and returns the handle of its result, or a negative status, and records
nothing. Kernels get frames as the comment beside each launch says.
"""

from __future__ import annotations

from fastgrad.native.elementwise import (
    cast,
    copy_into,
    elementwise,
    is_floating,
    launch,
    number_tensor,
    op_record,
)
from fastgrad.native.intrinsics import address_of, native, runtime, stack_frame, stack_small, tensor, words
from fastgrad.native.layout import (
    ACCUMULATES_INT,
    BAD_ARGUMENT,
    BAD_DIM,
    BAD_DTYPE,
    BAD_INDEX,
    BAD_MATMUL,
    BAD_SIZE,
    BAD_TARGET,
    BAD_VIEW,
    BOOL,
    CONTIGUOUS,
    DUPLICATE_DIM,
    EMPTY_REDUCTION,
    FLAT,
    FLOAT_ONLY,
    INT64,
    MAX_DIMS,
    NOT_EMPTY,
    OUT_BOOL,
    OUT_INT64,
    REDUCES,
    TOO_MANY_DIMS,
    VIEW_AS_STRIDED,
    VIEW_SELECT,
    VIEW_SLICE,
    VIEW_SQUEEZE,
    WITH_INDICES,
)
from fastgrad.native.memory import drop, retain
from fastgrad.native.tensors import bump_version, itemsize, new_tensor, wrap_dim
from fastgrad.native.views import fail, make_view, view_expand, view_reshape


@native
def contiguous(h):
    """The tensor itself with one more reference, or a contiguous copy."""
    if tensor(h).flags & CONTIGUOUS:
        retain(h)
        return h
    return cast(h, tensor(h).dtype)


@native
def as_dtype(h, dtype):
    """The tensor itself with one more reference, or a copy in `dtype`."""
    if tensor(h).dtype == dtype:
        retain(h)
        return h
    return cast(h, dtype)


@native
def zeros(dtype, device, ndim, shape):
    """A tensor of zeros."""
    out = new_tensor(dtype, device, ndim, shape)
    if out > 0:
        status = zero_fill(out)
        if status != 0:
            drop(out)
            return -status
    return out


@native
def zero_fill(out):
    """Set a contiguous tensor to zero through the launch point, so that a capture sees it."""
    t = tensor(out)
    if t.numel == 0:
        return 0
    frame = stack_small()
    f = words(frame)
    f[0] = t.data
    f[1] = t.numel * itemsize(t.dtype)
    return launch(runtime().zero_kernel, t.device, BOOL, FLAT, frame, 2, t.numel)


# --- reductions ------------------------------------------------------------------------------------------------


@native
def dims_mask(h, n, dims):
    """A bit for each named dimension; all dimensions if none is named; negative where one is wrong."""
    t = tensor(h)
    if n == 0:
        return (1 << t.ndim) - 1
    mask = 0
    for k in range(n):
        dim = wrap_dim(dims[k], t.ndim)
        if dim < 0:
            return fail(BAD_DIM, dims[k], t.ndim)
        if mask & (1 << dim):
            return fail(DUPLICATE_DIM, dim, 2)
        mask |= 1 << dim
    return mask if t.ndim > 0 else 0


@native
def run_reduction(kernel, dtype, h, mask, out):
    """Launch a reduction of `h` over the dimensions of `mask` into contiguous `out`."""
    t = tensor(h)
    frame = stack_frame()
    f = words(frame)
    # address of out, of in; numbers of elements reduced and kept; kept rank, sizes, strides; reduced rank, sizes,
    # strides: innermost first, neighbours merged.
    f[0] = tensor(out).data
    f[1] = t.data
    f[3] = tensor(out).numel
    reduced = 1
    for part in range(2):
        base = 4 + part * (1 + 2 * MAX_DIMS)
        rank = 0
        for d in range(t.ndim - 1, -1, -1):
            size = t.shape[d]
            inside = (mask >> d) & 1
            if inside == part and part == 1:
                reduced *= size
            if inside != part or size == 1:
                continue
            stride = t.strides[d]
            if rank > 0 and stride == f[base + MAX_DIMS + rank] * f[base + rank]:
                f[base + rank] *= size
            else:
                f[base + 1 + rank] = size
                f[base + 1 + MAX_DIMS + rank] = stride
                rank += 1
        if rank == 0:
            f[base + 1] = 1
            f[base + 1 + MAX_DIMS] = 0
            rank = 1
        f[base] = rank
    f[2] = reduced
    if tensor(out).numel == 0:
        return 0
    return launch(kernel, t.device, dtype, FLAT, frame, 4 + 2 * (1 + 2 * MAX_DIMS), t.numel + 1)


@native
def reduction(op, h, n_attrs, attrs):
    """A reduction; `attrs` are keepdim and the dimensions."""
    info = op_record(op)
    t = tensor(h)
    mask = dims_mask(h, n_attrs - 1, words(address_of(attrs) + 8))
    if mask < 0:
        return mask
    if info.flags & FLOAT_ONLY and not is_floating(t.dtype):
        return fail(BAD_DTYPE, t.dtype, 0)
    sizes = words(stack_small())
    rank = 0
    reduced = 1
    for d in range(t.ndim):
        if mask & (1 << d):
            reduced *= t.shape[d]
            if attrs[0] == 0:
                continue
            sizes[rank] = 1
        else:
            sizes[rank] = t.shape[d]
        rank += 1
    if info.flags & NOT_EMPTY and reduced == 0:
        return fail(EMPTY_REDUCTION, mask, 0)
    dtype = t.dtype
    if info.flags & OUT_BOOL:
        dtype = BOOL
    elif info.flags & ACCUMULATES_INT and not is_floating(dtype):
        dtype = INT64
    out = new_tensor(dtype, t.device, rank, sizes)
    if out <= 0:
        return out
    status = run_reduction(info.kernel, t.dtype, h, mask, out)
    if status != 0:
        drop(out)
        return -status
    return out


@native
def sum_to(h, ndim, sizes):
    """Sum a gradient down to the sizes from which it was broadcast."""
    t = tensor(h)
    mask = 0
    for d in range(t.ndim):
        position = d - (t.ndim - ndim)
        if position < 0 or (sizes[position] == 1 and t.shape[d] != 1):
            mask |= 1 << d
    out = new_tensor(t.dtype, t.device, ndim, sizes)
    if out <= 0:
        return out
    status = run_reduction(op_record(runtime().sum_op).kernel, t.dtype, h, mask, out)
    if status != 0:
        drop(out)
        return -status
    return out


@native
def listed_mask(ndim, n, dims):
    """A bit for each listed dimension; all if none is listed."""
    mask = (1 << ndim) - 1 if n == 0 else 0
    for k in range(n):
        mask |= 1 << wrap_dim(dims[k], ndim)
    return mask


@native
def expand_reduced(h, n_attrs, attrs, mean):
    """The gradient of a sum or mean: the reduced dimensions come back, expanded to the sizes of the input.

    `attrs`: rank and sizes of the input, then the dimensions as the reduction got them.
    """
    ndim = attrs[0]
    sizes = words(address_of(attrs) + 8)
    mask = listed_mask(ndim, n_attrs - 1 - ndim, words(address_of(attrs) + (1 + ndim) * 8))
    unsqueezed = words(stack_small())
    count = 1
    for k in range(ndim):
        unsqueezed[k] = sizes[k]
        if mask & (1 << k):
            unsqueezed[k] = 1
            count *= sizes[k]
    scaled = h
    if mean != 0:
        ins = words(stack_small())
        number = number_tensor(1, float(count), 0, tensor(h).dtype, tensor(h).device)
        if number <= 0:
            return number
        ins[0] = h
        ins[1] = number
        scaled = elementwise(runtime().div_op, 2, ins)
        drop(number)
        if scaled <= 0:
            return scaled
    kept = view_reshape(scaled, ndim, unsqueezed)
    if kept == -BAD_VIEW:
        copy = cast(scaled, tensor(scaled).dtype)
        if copy > 0:
            kept = view_reshape(copy, ndim, unsqueezed)
            drop(copy)
    if mean != 0:
        drop(scaled)
    if kept <= 0:
        return kept
    out = view_expand(kept, ndim, sizes)
    drop(kept)
    return out


@native
def reduce_like(h, n_attrs, attrs):
    """The gradient of `expand_reduced`: the dimensions are reduced again.

    `attrs`: whether it was a mean; rank and sizes of the result; rank and sizes of `h`; the dimensions.
    """
    t = tensor(h)
    rank = attrs[1]
    rest = words(address_of(attrs) + (2 + rank) * 8)
    ndim = rest[0]
    mask = listed_mask(ndim, n_attrs - 3 - rank - ndim, words(address_of(rest) + (1 + ndim) * 8))
    out = new_tensor(t.dtype, t.device, rank, words(address_of(attrs) + 16))
    if out <= 0:
        return out
    op = runtime().mean_op if attrs[0] else runtime().sum_op
    status = run_reduction(op_record(op).kernel, t.dtype, h, mask, out)
    if status != 0:
        drop(out)
        return -status
    return out


@native
def triangle(op, h, offset):
    """The lower or upper triangle of the last two dimensions, zeros elsewhere."""
    t = tensor(h)
    if t.ndim < 2:
        return fail(BAD_DIM, -2, t.ndim)
    x = contiguous(h)
    if x <= 0:
        return x
    out = new_tensor(t.dtype, t.device, t.ndim, t.shape)
    if out > 0 and t.numel > 0:
        frame = stack_small()
        f = words(frame)
        f[0] = tensor(out).data
        f[1] = tensor(x).data
        f[2] = t.numel // (t.shape[t.ndim - 1] * t.shape[t.ndim - 2])
        f[3] = t.shape[t.ndim - 2]
        f[4] = t.shape[t.ndim - 1]
        f[5] = offset
        status = launch(op_record(op).kernel, t.device, t.dtype, FLAT, frame, 6, t.numel)
        if status != 0:
            drop(out)
            out = -status
    drop(x)
    return out


# --- rows ------------------------------------------------------------------------------------------------------


@native
def rowwise(op, n, ins, attrs, outs):
    """An op over one dimension; `attrs` are dim and keepdim. Returns the number of outputs or a status."""
    info = op_record(op)
    t = tensor(ins[0])
    dim = wrap_dim(attrs[0], t.ndim)
    if dim < 0:
        return fail(BAD_DIM, attrs[0], t.ndim)
    if info.flags & FLOAT_ONLY and not is_floating(t.dtype):
        return fail(BAD_DTYPE, t.dtype, 0)
    sizes = words(stack_small())
    outer = 1
    inner = 1
    rank = 0
    length = 1
    for d in range(t.ndim):
        if d < dim:
            outer *= t.shape[d]
        elif d > dim:
            inner *= t.shape[d]
        else:
            length = t.shape[d]
            if info.flags & REDUCES:
                if attrs[1] == 0:
                    continue
                sizes[rank] = 1
                rank += 1
                continue
        sizes[rank] = t.shape[d]
        rank += 1
    if info.flags & NOT_EMPTY and length == 0:
        return fail(EMPTY_REDUCTION, 1 << dim, 0)
    dtype = t.dtype
    if info.flags & OUT_INT64:
        dtype = INT64
    elif info.flags & ACCUMULATES_INT and not is_floating(dtype):
        dtype = INT64
    made = words(stack_small())
    status = 0
    count = 0
    for k in range(n):
        c = contiguous(ins[k])
        if c <= 0:
            status = -c
            break
        made[k] = c
        count += 1
        if k > 0 and (tensor(c).dtype != t.dtype or tensor(c).numel != t.numel):
            status = BAD_ARGUMENT
            break
    out = 0
    indices = 0
    if status == 0:
        out = new_tensor(dtype, t.device, rank, sizes)
        if out <= 0:
            status = -out
    if status == 0 and info.flags & WITH_INDICES:
        indices = new_tensor(INT64, t.device, rank, sizes)
        if indices <= 0:
            drop(out)
            status = -indices
    if status == 0:
        # out, indices, inputs, outer, length, inner
        frame = stack_small()
        f = words(frame)
        f[0] = tensor(out).data
        f[1] = tensor(indices).data if indices != 0 else 0
        f[2] = tensor(made[0]).data
        f[3] = tensor(made[1]).data if n > 1 else 0
        f[4] = outer
        f[5] = length
        f[6] = inner
        if tensor(out).numel > 0:
            status = launch(info.kernel, t.device, t.dtype, FLAT, frame, 7, t.numel + 1)
        if status != 0:
            drop(out)
            if indices != 0:
                drop(indices)
    for k in range(count):
        drop(made[k])
    if status != 0:
        return -status
    outs[0] = out
    outs[1] = indices
    return 2 if indices != 0 else 1


# --- matrix products -------------------------------------------------------------------------------------------


@native
def gemm_operand(h):
    """A matrix whose rows or columns are contiguous: the tensor itself (one more reference) or a copy."""
    t = tensor(h)
    r = t.ndim - 2
    rows = t.strides[r]
    cols = t.strides[r + 1]
    if (cols == 1 and rows >= max(1, t.shape[r + 1])) or (rows == 1 and cols >= max(1, t.shape[r])):
        retain(h)
        return h
    if (t.shape[r + 1] == 1 and rows == 1) or (t.shape[r] == 1 and cols == 1):
        retain(h)
        return h
    return cast(h, t.dtype)


@native
def operand_layout(h, f, at):
    """Write leading dimension and whether the matrix is stored by columns."""
    t = tensor(h)
    r = t.ndim - 2
    rows = t.strides[r]
    cols = t.strides[r + 1]
    if cols == 1 and rows >= max(1, t.shape[r + 1]):
        f[at] = rows
        f[at + 1] = 0
    elif rows == 1 and cols >= max(1, t.shape[r]):
        f[at] = cols
        f[at + 1] = 1
    elif t.shape[r + 1] == 1 and rows == 1:
        f[at] = 1
        f[at + 1] = 0
    else:
        f[at] = max(1, t.shape[r + 1])
        f[at + 1] = 0


@native
def matmul(a, b):
    """Product of two matrices, or of two equally long batches of matrices."""
    ta = tensor(a)
    tb = tensor(b)
    if ta.ndim != tb.ndim or (ta.ndim != 2 and ta.ndim != 3):
        return fail(BAD_MATMUL, 0, 0)
    if ta.dtype != tb.dtype:
        return fail(BAD_MATMUL, 1, 0)
    r = ta.ndim - 2
    if ta.shape[r + 1] != tb.shape[r]:
        return fail(BAD_MATMUL, 2, 0)
    if r == 1 and ta.shape[0] != tb.shape[0]:
        return fail(BAD_MATMUL, 3, 0)
    sizes = words(stack_small())
    sizes[0] = ta.shape[0]
    sizes[r] = ta.shape[r]
    sizes[r + 1] = tb.shape[r + 1]
    out = new_tensor(ta.dtype, ta.device, ta.ndim, sizes)
    if out <= 0:
        return out
    if tensor(out).numel == 0:
        return out
    ca = gemm_operand(a)
    if ca <= 0:
        drop(out)
        return ca
    cb = gemm_operand(b)
    if cb <= 0:
        drop(out)
        drop(ca)
        return cb
    # out, a, b, m, n, k, lda, a by columns, ldb, b by columns, batch, strides of out, a, b
    frame = stack_small()
    f = words(frame)
    f[0] = tensor(out).data
    f[1] = tensor(ca).data
    f[2] = tensor(cb).data
    f[3] = ta.shape[r]
    f[4] = tb.shape[r + 1]
    f[5] = ta.shape[r + 1]
    operand_layout(ca, f, 6)
    operand_layout(cb, f, 8)
    f[10] = ta.shape[0] if r == 1 else 1
    f[11] = f[3] * f[4]
    f[12] = tensor(ca).strides[0] if r == 1 else 0
    f[13] = tensor(cb).strides[0] if r == 1 else 0
    work = f[10] * f[3] * f[4] * max(f[5], 1) // 16
    status = launch(runtime().gemm_kernel, ta.device, ta.dtype, FLAT, frame, 14, work)
    drop(ca)
    drop(cb)
    if status != 0:
        drop(out)
        return -status
    return out


# --- joining and splitting -------------------------------------------------------------------------------------


@native
def join(n, ins, dim, stacked, device_dtype_of):
    """Concatenate along `dim`, or stack along a new one; an input may be absent (0): zeros in a stack."""
    first = device_dtype_of
    t0 = tensor(first)
    ndim = t0.ndim + stacked
    d = wrap_dim(dim, ndim)
    if d < 0 or (ndim == 0):
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
    attrs = words(stack_small())
    at = 0
    status = 0
    for k in range(n):
        attrs[0] = d
        if stacked == 1:
            attrs[1] = k
            part = make_view(VIEW_SELECT, out, 2, attrs)
        else:
            length = tensor(ins[k]).shape[d]
            attrs[1] = at
            attrs[2] = at + length
            attrs[3] = 1
            part = make_view(VIEW_SLICE, out, 4, attrs)
            at += length
        if part <= 0:
            status = -part
        elif ins[k] == 0:
            status = fill_zero(part)
        else:
            status = copy_into(part, ins[k])
        if part > 0:
            drop(part)
        if status != 0:
            drop(out)
            return -status
    return out


@native
def fill_zero(h):
    """Set any strided tensor to zero."""
    t = tensor(h)
    if t.flags & CONTIGUOUS:
        return zero_fill(h)
    sizes = words(stack_small())
    zero = zeros(t.dtype, t.device, 0, sizes)
    if zero <= 0:
        return -zero
    status = copy_into(h, zero)
    drop(zero)
    return status


@native
def view_backward(g, kind, n_attrs, attrs, ndim, sizes):
    """The gradient of a view of kind `kind`: zeros of the input's sizes with `g` in the place of the view."""
    t = tensor(g)
    out = zeros(t.dtype, t.device, ndim, sizes)
    if out <= 0:
        return out
    part = make_view(kind, out, n_attrs, attrs)
    status = -part if part <= 0 else copy_into(part, g)
    if part > 0:
        drop(part)
    if status != 0:
        drop(out)
        return -status
    return out


@native
def zero_strided(g, n_attrs, attrs):
    """A contiguous copy of `g` with zeros in the part that an as_strided plan names."""
    out = cast(g, tensor(g).dtype)
    if out <= 0:
        return out
    part = make_view(VIEW_AS_STRIDED, out, n_attrs, attrs)
    status = -part if part <= 0 else fill_zero(part)
    if part > 0:
        drop(part)
    if status != 0:
        drop(out)
        return -status
    return out


@native
def take_strided(g, n_attrs, attrs):
    """The part of `g` that an as_strided plan names, of a contiguous copy if `g` is not contiguous."""
    source = contiguous(g)
    if source <= 0:
        return source
    out = make_view(VIEW_AS_STRIDED, source, n_attrs, attrs)
    drop(source)
    return out


@native
def place_strided(g, attrs):
    """Zeros with `g` in the part that an as_strided plan names; elements that share memory are summed.

    `attrs`: the plan (rank, sizes, strides, offset), then rank and sizes of the result.
    """
    n = attrs[0]
    kept = words(stack_small())
    mask = 0
    for k in range(n):
        kept[k] = attrs[1 + k]
        if attrs[1 + n + k] == 0 and attrs[1 + k] > 1:
            mask |= 1 << k
            kept[k] = 1
    source = g
    if mask != 0:
        source = sum_to(g, n, kept)
        if source <= 0:
            return source
    else:
        retain(g)
    plan = words(stack_small())
    plan[0] = n
    for k in range(n):
        plan[1 + k] = kept[k]
        plan[1 + n + k] = attrs[1 + n + k]
    plan[1 + 2 * n] = attrs[1 + 2 * n]
    at = address_of(attrs) + (2 + 2 * n) * 8
    out = view_backward(source, VIEW_AS_STRIDED, 2 + 2 * n, plan, words(at)[0], words(at + 8))
    drop(source)
    return out


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
    place = words(stack_small())
    at = 0
    status = 0
    for k in range(n):
        place[0] = attrs[0]
        if kind == 0:
            place[1] = k
        else:
            place[1] = at
            at += attrs[1 + k]
            place[2] = at
            place[3] = 1
        if ins[k] == 0 or status != 0:
            continue
        part = make_view(VIEW_SELECT if kind == 0 else VIEW_SLICE, out, 4, place)
        status = -part if part <= 0 else copy_into(part, ins[k])
        if part > 0:
            drop(part)
    if status != 0:
        drop(out)
        return -status
    return out


# --- gather, scatter, indices ----------------------------------------------------------------------------------


@native
def launch_checked(kernel, device, dtype, frame, n_words, work):
    """Launch a kernel whose last word is the address of a status; tells of a bad index."""
    rt = runtime()
    slot = address_of(rt.error) + 32
    rt.error[4] = 0
    words(frame)[n_words - 1] = slot
    status = launch(kernel, device, dtype, FLAT, frame, n_words, work)
    if status == 0 and rt.error[4] != 0:
        return -fail(BAD_INDEX, rt.error[5], rt.error[6])
    return status


@native
def gather_frame(f, out, x, index, dim):
    """out, x, index; rank of index, its sizes, strides in out (or source), x and index; length of dim; dim."""
    ti = tensor(index)
    f[0] = tensor(out).data
    f[1] = tensor(x).data
    f[2] = ti.data
    f[3] = ti.ndim
    for d in range(ti.ndim):
        f[4 + d] = ti.shape[d]
        f[4 + MAX_DIMS + d] = tensor(out).strides[d]
        f[4 + 2 * MAX_DIMS + d] = tensor(x).strides[d]
        f[4 + 3 * MAX_DIMS + d] = ti.strides[d]
    f[4 + 4 * MAX_DIMS] = tensor(x).shape[dim] if tensor(x).ndim > 0 else 1
    f[5 + 4 * MAX_DIMS] = dim


GATHER_WORDS = 7 + 4 * MAX_DIMS


@native
def check_gather(x, dim, index, wide):
    """Whether index and x fit each other: same rank, index no larger than x but along dim."""
    tx = tensor(x)
    ti = tensor(index)
    if ti.dtype != INT64:
        return -fail(BAD_DTYPE, ti.dtype, 1)
    d = wrap_dim(dim, tx.ndim)
    if d < 0:
        return -fail(BAD_DIM, dim, tx.ndim)
    if tx.ndim != ti.ndim:
        return -fail(BAD_SIZE, -10, ti.ndim)
    for k in range(ti.ndim):
        if (k != d or wide == 1) and ti.shape[k] > tx.shape[k]:
            runtime().error[2] = k
            return -fail(BAD_SIZE, -11, ti.shape[k])
    return 0


@native
def gather(op, x, index, dim):
    """``out[i][j] = x[index[i][j]][j]`` for dim 0, and so on."""
    status = check_gather(x, dim, index, 0)
    if status != 0:
        return -status
    tx = tensor(x)
    ti = tensor(index)
    out = new_tensor(tx.dtype, tx.device, ti.ndim, ti.shape)
    if out <= 0 or ti.numel == 0:
        return out
    frame = stack_frame()
    gather_frame(words(frame), out, x, index, wrap_dim(dim, tx.ndim))
    status = launch_checked(op_record(op).kernel, tx.device, tx.dtype, frame, GATHER_WORDS, ti.numel)
    if status != 0:
        drop(out)
        return -status
    return out


@native
def scatter_add(op, base, source, index, dim):
    """A copy of `base` with ``out[index[i][j]][j] += source[i][j]`` for dim 0, and so on."""
    status = check_gather(base, dim, index, 0)
    if status == 0:
        status = check_gather(source, dim, index, 1)
    if status == 0 and tensor(source).dtype != tensor(base).dtype:
        status = -fail(BAD_DTYPE, tensor(source).dtype, 2)
    if status != 0:
        return -status
    tb = tensor(base)
    out = cast(base, tb.dtype)
    if out <= 0 or tensor(index).numel == 0:
        return out
    frame = stack_frame()
    gather_frame(words(frame), source, out, index, wrap_dim(dim, tb.ndim))
    status = launch_checked(
        op_record(op).kernel, tb.device, tb.dtype, frame, GATHER_WORDS, tensor(index).numel
    )
    if status != 0:
        drop(out)
        return -status
    return out


@native
def row_shape(h, dim, ndim, sizes):
    """A view of `h` in which dimension `dim` of a tensor of the given sizes is kept with size 1."""
    kept = words(stack_small())
    for k in range(ndim):
        kept[k] = 1 if k == dim else sizes[k]
    return view_reshape(h, ndim, kept)


@native
def place_rows(g, index, dim, ndim, sizes):
    """Zeros of the given sizes with each element of `g` at the place along `dim` that `index` names."""
    if ndim == 0:
        return cast(g, tensor(g).dtype)  # a result is never the operand itself: it gets a history of its own
    d = wrap_dim(dim, ndim)
    source = contiguous(g)
    if source <= 0:
        return source
    kept = row_shape(source, d, ndim, sizes)
    where = row_shape(index, d, ndim, sizes)
    t = tensor(g)
    out = zeros(t.dtype, t.device, ndim, sizes)
    if kept > 0 and where > 0 and out > 0 and tensor(where).numel > 0:
        frame = stack_frame()
        gather_frame(words(frame), kept, out, where, d)
        kernel = op_record(runtime().scatter_op).kernel
        status = launch_checked(kernel, t.device, t.dtype, frame, GATHER_WORDS, tensor(where).numel)
        if status != 0:
            drop(out)
            out = -status
    drop(source)
    if kept > 0:
        drop(kept)
    if where > 0:
        drop(where)
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
    if out <= 0 or keepdim != 0:
        return out
    attrs = words(stack_small())
    attrs[0] = d
    squeezed = make_view(VIEW_SQUEEZE, out, 1, attrs)
    drop(out)
    return squeezed


@native
def index_frame(f, out, x, n, ins, first):
    """The frame of indexing by tensors over the dimensions first .. first + n - 1 of x; see the kernel.

    out (or values), x, rank of the index's shape b, its sizes; n; per index its address; lengths and strides of the
    indexed dimensions; elements before and after them. The indices are contiguous, of one shape; x is contiguous.
    """
    tx = tensor(x)
    ti = tensor(ins[0])
    f[0] = tensor(out).data
    f[1] = tx.data
    f[2] = ti.numel
    f[3] = n
    before = 1
    after = 1
    for d in range(first):
        before *= tx.shape[d]
    for d in range(first + n, tx.ndim):
        after *= tx.shape[d]
    f[4] = before
    f[5] = after
    for k in range(n):
        f[6 + k] = tensor(ins[k]).data
        f[6 + MAX_DIMS + k] = tx.shape[first + k]
    f[6 + 2 * MAX_DIMS] = tx.numel // max(before, 1)


INDEX_FRAME_WORDS = 8 + 2 * MAX_DIMS


@native
def check_indices(x, n, ins, first):
    """Whether `ins` are contiguous int64 tensors of one shape that fit the dimensions of x."""
    if first < 0 or first + n > tensor(x).ndim or n < 1:
        return -fail(BAD_ARGUMENT, first, n)
    t0 = tensor(ins[0])
    for k in range(n):
        t = tensor(ins[k])
        if t.dtype != INT64 or not t.flags & CONTIGUOUS or t.numel != t0.numel:
            return -fail(BAD_ARGUMENT, k, t.dtype)
    return 0


@native
def index(op, n, ins, first):
    """``x[..., i, j, ...]`` with index tensors i, j over neighbouring dimensions from `first` on."""
    x = ins[0]
    status = check_indices(x, n - 1, words(address_of(ins) + 8), first)
    if status != 0:
        return -status
    tx = tensor(x)
    ti = tensor(ins[1])
    rank = tx.ndim - (n - 1) + ti.ndim
    if rank > MAX_DIMS:
        return fail(TOO_MANY_DIMS, rank, 0)
    sizes = words(stack_small())
    at = 0
    for d in range(first):
        sizes[at] = tx.shape[d]
        at += 1
    for d in range(ti.ndim):
        sizes[at] = ti.shape[d]
        at += 1
    for d in range(first + n - 1, tx.ndim):
        sizes[at] = tx.shape[d]
        at += 1
    cx = contiguous(x)
    if cx <= 0:
        return cx
    out = new_tensor(tx.dtype, tx.device, rank, sizes)
    if out > 0:
        frame = stack_frame()
        index_frame(words(frame), out, cx, n - 1, words(address_of(ins) + 8), first)
        kernel = op_record(op).kernel
        status = launch_checked(kernel, tx.device, tx.dtype, frame, INDEX_FRAME_WORDS, tensor(out).numel + 1)
        if status != 0:
            drop(out)
            out = -status
    drop(cx)
    return out


@native
def index_put(op, n, ins, first, accumulate):
    """Write `ins[1]` at the indices `ins[2:]` of contiguous `ins[0]`, in place; adds if `accumulate`."""
    x = ins[0]
    status = check_indices(x, n - 2, words(address_of(ins) + 16), first)
    if status != 0:
        return -status
    tx = tensor(x)
    if not tx.flags & CONTIGUOUS or not tensor(ins[1]).flags & CONTIGUOUS or tensor(ins[1]).dtype != tx.dtype:
        return fail(BAD_ARGUMENT, 0, 0)
    if tensor(ins[1]).numel * tx.numel != 0 or tensor(ins[2]).numel != 0:
        frame = stack_frame()
        index_frame(words(frame), ins[1], x, n - 2, words(address_of(ins) + 16), first)
        words(frame)[6 + 2 * MAX_DIMS] = accumulate
        kernel = op_record(op).kernel
        status = launch_checked(
            kernel, tx.device, tx.dtype, frame, INDEX_FRAME_WORDS, tensor(ins[1]).numel + 1
        )
    if status != 0:
        return -status
    bump_version(x)
    retain(x)
    return x


@native
def index_backward(op, g, n, ins, first, ndim, sizes):
    """The gradient of indexing: zeros of the input's sizes to which each element of `g` is added at its index."""
    t = tensor(g)
    out = zeros(t.dtype, t.device, ndim, sizes)
    if out <= 0:
        return out
    cg = contiguous(g)
    if cg <= 0:
        drop(out)
        return cg
    operands = words(stack_small())
    operands[0] = out
    operands[1] = cg
    for k in range(n):
        operands[2 + k] = ins[k]
    put = index_put(op, n + 2, operands, first, 1)
    drop(cg)
    drop(out)  # index_put added a reference of its own
    return put


# --- negative log likelihood -----------------------------------------------------------------------------------


@native
def nll_forward(op, n, ins, attrs, outs):
    """`ins`: log-probabilities (N, C), targets (N,), weights (C,) or absent; `attrs`: reduction, ignore_index.

    Outputs: the loss and the total weight, both kept for the gradient.
    """
    x = tensor(ins[0])
    y = tensor(ins[1])
    if x.ndim != 2 or y.ndim != 1 or x.shape[0] != y.shape[0]:
        return fail(BAD_TARGET, y.shape[0] if y.ndim > 0 else 0, x.shape[0])
    if y.dtype != INT64:
        return fail(BAD_DTYPE, y.dtype, 3)
    sizes = words(stack_small())
    sizes[0] = x.shape[0]
    loss = new_tensor(x.dtype, x.device, 1 if attrs[0] == 0 else 0, sizes)
    if loss <= 0:
        return loss
    total = new_tensor(x.dtype, x.device, 0, sizes)
    if total <= 0:
        drop(loss)
        return total
    frame = stack_small()
    f = words(frame)
    f[0] = tensor(loss).data
    f[1] = tensor(total).data
    status = nll_operands(f, op, n, ins, attrs, 0)
    if status != 0:
        drop(loss)
        drop(total)
        return -status
    outs[0] = loss
    outs[1] = total
    return 2


@native
def nll_operands(f, op, n, ins, attrs, back):
    """Fill in x, targets, weights, sizes, strides, reduction, ignore_index, then launch; returns a status."""
    x = tensor(ins[0])
    cy = contiguous(ins[1])
    if cy <= 0:
        return -cy
    cw = 0
    if n > 2 and ins[2] != 0:
        cw = contiguous(ins[2])
        if cw <= 0:
            drop(cy)
            return -cw
    f[2] = x.data
    f[3] = tensor(cy).data
    f[4] = tensor(cw).data if cw != 0 else 0
    f[5] = x.shape[0]
    f[6] = x.shape[1]
    f[7] = x.strides[0]
    f[8] = x.strides[1]
    f[9] = attrs[0]
    f[10] = attrs[1]
    status = launch_checked(
        op_record(op).kernel, x.device, x.dtype, address_of(f), 12, x.shape[0] * (1 + back * x.shape[1])
    )
    drop(cy)
    if cw != 0:
        drop(cw)
    return status


@native
def nll_backward(op, n, ins, attrs):
    """`ins`: gradient of the loss, targets, total weight, weights or absent; `attrs`: reduction, ignore_index, sizes."""
    t = tensor(ins[0])
    out = zeros(t.dtype, t.device, attrs[2], words(address_of(attrs) + 24))
    if out <= 0:
        return out
    cg = contiguous(ins[0])
    if cg <= 0:
        drop(out)
        return cg
    operands = words(stack_small())
    operands[0] = out  # the kernel writes where the loss read x
    operands[1] = ins[1]
    operands[2] = ins[3] if n > 3 else 0
    frame = stack_small()
    f = words(frame)
    f[0] = tensor(cg).data
    f[1] = tensor(ins[2]).data
    status = nll_operands(f, op, 3, operands, attrs, 1)
    drop(cg)
    if status != 0:
        drop(out)
        return -status
    return out


@native
def reshape_or_copy(h, n, sizes):
    """A view with other sizes, or a contiguous copy of them where no view is possible."""
    out = view_reshape(h, n, sizes)
    if out > 0 or tensor(h).flags & CONTIGUOUS:
        return out
    copy = cast(h, tensor(h).dtype)
    if copy <= 0:
        return copy
    out = view_reshape(copy, n, sizes)
    drop(copy)
    return out


# --- optimizer steps -------------------------------------------------------------------------------------------


@native
def sgd(op, n, ins, attrs):
    """One step over all parameters: `ins` are (parameter, gradient, momentum buffer or absent) in turn.

    `attrs`: bit patterns of lr, momentum, dampening, weight decay; flags (1 Nesterov, 2 maximize, 4 first step).
    """
    frame = stack_small()
    f = words(frame)
    for k in range(0, n, 3):
        p = tensor(ins[k])
        g = contiguous(ins[k + 1])
        if g <= 0:
            return g
        if not p.flags & CONTIGUOUS or tensor(g).dtype != p.dtype or tensor(g).numel != p.numel:
            drop(g)
            return fail(BAD_ARGUMENT, k, 0)
        # n, parameter, gradient, momentum buffer, the five settings
        f[0] = p.numel
        f[1] = p.data
        f[2] = tensor(g).data
        f[3] = tensor(ins[k + 2]).data if ins[k + 2] != 0 else 0
        for j in range(5):
            f[4 + j] = attrs[j]
        status = launch(op_record(op).kernel, p.device, p.dtype, FLAT, frame, 9, p.numel)
        drop(g)
        if status != 0:
            return -status
        bump_version(ins[k])
    retain(ins[0])
    return ins[0]
