"""Reductions over any dimensions, and how their gradients find the way back."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, fail_dim, failed
from fastgrad.native.base.intrinsics import (
    advance,
    float_of,
    native,
    native_inline,
    native_once,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.element_types import BOOL
from fastgrad.native.contracts.limits import FIRST_GPU, FRAME_DIMS
from fastgrad.native.contracts.ops import (
    ACCUMULATES_INT,
    FLOAT_ONLY,
    NOT_EMPTY,
    OUT_BOOL,
    SHAPE_LENGTH,
    SHAPE_STD,
)
from fastgrad.native.contracts.status import (
    DTYPE_REFUSED,
    DUPLICATE_DIM,
    EMPTY_DIM,
    EMPTY_TENSOR,
    MEAN_DTYPE,
    MISFIT,
)
from fastgrad.native.launch.elementwise import elementwise, number_tensor
from fastgrad.native.launch.launch import launch_frame, op_record
from fastgrad.native.launch.promotion import computed_dtype, is_floating, number_dtype, summed_dtype
from fastgrad.native.memory.references import drop
from fastgrad.native.shapes.copies import contiguous, merging, reshape_or_copy
from fastgrad.native.tensors.tensors import finished, new_tensor, new_view, wrap_dim
from fastgrad.native.tensors.views import view_expand

# A reduction of so much to so few results runs over blocks: neither depends on the number of threads. Sums of columns
# are fast only along pieces of rows, so blocks of rows are what threads share, if each has enough rows.
SMALLEST, FEW = 1 << 17, 16
FEW_COLUMNS, LEAST_ROWS = 1 << 12, 64
BLOCK_WORK, MOST_BLOCKS = 1 << 15, 64
# On a GPU a block is a row of a second, small launch; what it takes to fill the GPU are thousands of them.
GPU_SMALLEST, GPU_BLOCK_WORK, GPU_MOST_BLOCKS = 1 << 14, 1 << 11, 1 << 13


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
            return fail_dim(dims[k], t.ndim)
        if mask & (1 << dim):
            return fail(DUPLICATE_DIM, dim)
        mask |= 1 << dim
    return mask if t.ndim > 0 else 0


@native
def listed_mask(ndim, n, dims):
    """A bit for each listed dimension; all if none is listed; negative where one is wrong."""
    mask = (1 << ndim) - 1 if n == 0 else 0
    for k in range(n):
        dim = wrap_dim(dims[k], ndim)
        if dim < 0:
            return fail_dim(dims[k], ndim)
        mask |= 1 << dim
    return mask


@native
def by_strides(t, order):
    """Write all dimensions of a tensor to `order` by their strides, the smallest and of equal ones the last first."""
    for k in range(t.ndim):
        d = t.ndim - 1 - k
        place = k
        while place > 0 and t.strides[order[place - 1]] > t.strides[d]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = d


@native_inline
def reduction_frame(f, t, mask):
    """Write the dimensions of a reduction to its frame, neighbours merged, and how many elements are reduced to each.

    Returns how many results there are, -1 where the frame has no room for all dimensions.
    """
    reduced = 1
    results = 1
    order = words(
        stack_small()
    )  # in which dimensions are summed up: as they lie in memory, the innermost first
    by_strides(t, order)
    for part in range(2):
        dims = f.gone if part == 1 else f.kept
        rank = 0
        for k in range(t.ndim):
            d = order[k] if part == 1 else t.ndim - 1 - k
            size = t.shape[d]
            inside = (mask >> d) & 1
            if inside == part and part == 1:
                reduced *= size
            elif inside == part:
                results *= size
            if inside != part or size == 1:
                continue
            stride = t.strides[d]
            if rank > 0 and stride == dims.strides[rank - 1] * dims.sizes[rank - 1]:
                dims.sizes[rank - 1] *= size
            elif rank == FRAME_DIMS:
                return -1
            else:
                dims.sizes[rank] = size
                dims.strides[rank] = stride
                rank += 1
        if rank == 0:
            dims.sizes[0] = 1
            dims.strides[0] = 0
            rank = 1
        dims.rank = rank
    f.count = reduced
    return results


@native_once
def split_dims(h, mask):
    """A tensor whose dimensions of `mask` are the last ones, in memory as well; the caller gets a reference."""
    t = tensor(h)
    sizes = words(stack_small())
    strides = words(stack_small())
    rank = 0
    for part in range(2):
        for d in range(t.ndim):
            if (mask >> d) & 1 == part:
                sizes[rank] = t.shape[d]
                strides[rank] = t.strides[d]
                rank += 1
    view = new_view(h, rank, sizes, strides, t.data)
    if failed(view):
        return view
    out = merging(view)
    drop(view)
    return out


@native_once
def reduce_merged(kernel, dtype, h, mask, out):
    """As `run_reduction`, where a frame has no room for the dimensions: see Note [Pieces of a launch]."""
    dense = split_dims(h, mask)
    if failed(dense):
        return dense
    t = tensor(dense)
    n = t.ndim
    gone = 0
    for d in range(n):
        gone += (mask >> d) & 1
    f = frames.reduction(stack_frame())
    status = launch_reduction(kernel, dtype, f, t, reduction_frame(f, t, (1 << n) - (1 << n - gone)), out)
    drop(dense)
    return status


@native
def run_reduction(kernel, dtype, h, mask, out):
    """Launch a reduction of `h` over the dimensions of `mask` into contiguous `out`."""
    t = tensor(h)
    f = frames.reduction(stack_frame())
    results = reduction_frame(f, t, mask)
    if results < 0:
        return reduce_merged(kernel, dtype, h, mask, out)
    return launch_reduction(kernel, dtype, f, t, results, out)


@native_inline
def launch_reduction(kernel, dtype, f, t, results, out):
    """Launch a reduction of a tensor whose dimensions stand in the frame."""
    f.out = tensor(out).data
    f.x = t.data if t.numel != 0 else 0  # a view of nothing may begin beyond its memory
    f.results = tensor(out).numel
    if results != f.results:
        return fail(MISFIT)
    if results == 0:
        return 0
    blocks = 1
    if f.kept.rank < FRAME_DIMS:
        columns = f.kept.rank == 1 and f.kept.strides[0] == 1 and f.gone.strides[0] != 1
        few = FEW_COLUMNS if columns else FEW
        blocks = count_blocks(f.gone.sizes[f.gone.rank - 1], f.count, f.results, few, t.device)
    if blocks > 1:
        return reduce_blocks(kernel, dtype, f, blocks, out)
    return launch_frame(kernel, t.device, dtype, f, t.numel + 1)


@native
def count_blocks(size, reduced, results, few, device):
    """Into how many equal blocks a dimension falls, if at most `few` results come from so much each; or 1."""
    work = reduced * results
    on_gpu = device >= FIRST_GPU
    if work < (GPU_SMALLEST if on_gpu else SMALLEST) or results > few:
        return 1
    most = max(GPU_MOST_BLOCKS // results, 1) if on_gpu else MOST_BLOCKS
    blocks = min(size, work // (GPU_BLOCK_WORK if on_gpu else BLOCK_WORK), most)
    if results > FEW:
        blocks = min(blocks, reduced // LEAST_ROWS)
    while blocks > 1 and size % blocks != 0:
        blocks -= 1
    return blocks


@native_once
def reduce_blocks(kernel, dtype, f, blocks, out):
    """Reduce blocks first, which several threads can do, and then what came out of them; a status.

    Blocks are equal, so that the mean of their means is the mean.
    """
    to = tensor(out)
    results = f.results
    size = words(stack_small())
    size[0] = blocks * results
    partial = new_tensor(to.dtype, to.device, 1, size)
    if failed(partial):
        return partial
    last = f.gone.rank - 1
    length = f.gone.sizes[last] // blocks
    k = f.kept.rank if f.kept.sizes[f.kept.rank - 1] > 1 else f.kept.rank - 1
    f.kept.sizes[k] = blocks
    f.kept.strides[k] = f.gone.strides[last] * length
    f.kept.rank = k + 1
    f.gone.sizes[last] = length
    f.count //= blocks
    f.results = blocks * results
    f.out = tensor(partial).data
    status = launch_frame(kernel, to.device, dtype, f, f.count * f.results + 1)
    if not failed(status):
        f.x = tensor(partial).data
        f.out = to.data
        f.count = blocks
        f.results = results
        f.kept.rank = 1
        f.kept.sizes[0] = results
        f.kept.strides[0] = 1
        f.gone.rank = 1
        f.gone.sizes[0] = blocks
        f.gone.strides[0] = results
        status = launch_frame(kernel, to.device, to.dtype, f, blocks * results + 1)
    drop(partial)
    return status


@native
def reduce_into(kernel, dtype, h, mask, result, ndim, sizes):
    """A reduction of `h` over the dimensions of `mask` to a new tensor of dtype `result`."""
    out = new_tensor(result, tensor(h).device, ndim, sizes)
    if failed(out):
        return out
    return finished(out, run_reduction(kernel, dtype, h, mask, out))


@native
def reduction(op, h, n_attrs, attrs):
    """A reduction."""
    info = op_record(op)
    t = tensor(h)
    of = integers.reduced(attrs)
    mask = dims_mask(h, n_attrs - 1, of.rest)
    if mask < 0:
        return mask
    if info.flags & FLOAT_ONLY and not is_floating(t.dtype):
        return fail(MEAN_DTYPE, t.dtype)
    sizes = words(stack_small())
    rank = kept_sizes(t, mask, of.keepdim, sizes)
    reduced = 1
    for d in range(t.ndim):
        if mask & (1 << d):
            reduced *= t.shape[d]
    if info.flags & NOT_EMPTY and reduced == 0:
        return fail(EMPTY_TENSOR if n_attrs < 2 else EMPTY_DIM)
    dtype = t.dtype
    if info.flags & OUT_BOOL:
        dtype = BOOL
    elif info.flags & ACCUMULATES_INT:
        dtype = summed_dtype(dtype)
    elif info.flags & FLOAT_ONLY:
        dtype = computed_dtype(dtype)
    return reduce_into(info.kernel, t.dtype, h, mask, dtype, rank, sizes)


@native
def sum_to(h, ndim, sizes):
    """Sum a gradient down to the sizes from which it was broadcast."""
    t = tensor(h)
    mask = 0
    for d in range(t.ndim):
        position = d - (t.ndim - ndim)
        if position < 0 or (sizes[position] == 1 and t.shape[d] != 1):
            mask |= 1 << d
    return reduce_into(
        op_record(runtime().sum_op).kernel, t.dtype, h, mask, computed_dtype(t.dtype), ndim, sizes
    )


@native
def reduce_like(h, n_attrs, attrs):
    """The gradient of `expand_reduced`: the dimensions are reduced again.

    `attrs`: whether it was a mean; rank and sizes of the result; rank and sizes of `h`; the dimensions.
    """
    t = tensor(h)
    of = integers.reduced_again(attrs)
    target = integers.listed(of.rest)
    rank = target.count
    source = integers.listed(advance(target.rest, rank))
    ndim = source.count
    mask = listed_mask(ndim, n_attrs - 3 - rank - ndim, advance(source.rest, ndim))
    if failed(mask):
        return mask
    op = runtime().mean_op if of.mean else runtime().sum_op
    return reduce_into(op_record(op).kernel, t.dtype, h, mask, computed_dtype(t.dtype), rank, target.rest)


@native
def restore_reduced(h, n_attrs, attrs):
    """What was reduced, with the reduced dimensions as ones of size 1, whether it kept them or not.

    `attrs`: rank and sizes of the input, then the dimensions as the reduction got them.
    """
    of = integers.listed(attrs)
    ndim = of.count
    sizes = of.rest
    mask = listed_mask(ndim, n_attrs - 1 - ndim, advance(sizes, ndim))
    if failed(mask):
        return mask
    kept = words(stack_small())
    for k in range(ndim):
        kept[k] = 1 if mask & (1 << k) else sizes[k]
    return reshape_or_copy(h, ndim, kept)


@native
def expand_reduced(h, n_attrs, attrs, mean):
    """The gradient of a sum or mean: the reduced dimensions come back, expanded to the sizes of the input.

    As in PyTorch, that of a sum is a view of one element for many, and that of a mean has memory for each.

    `attrs`: those of `restore_reduced`.
    """
    of = integers.listed(attrs)
    ndim = of.count
    sizes = of.rest
    if mean == 0:
        kept = restore_reduced(h, n_attrs, attrs)
    else:
        mask = listed_mask(ndim, n_attrs - 1 - ndim, advance(sizes, ndim))
        if failed(mask):
            return mask
        count = 1
        for k in range(ndim):
            if mask & (1 << k):
                count *= sizes[k]
        share = divided(h, float(count))
        if failed(share):
            return share
        kept = restore_reduced(share, n_attrs, attrs)
        drop(share)
    if failed(kept):
        return kept
    out = view_expand(kept, ndim, sizes)
    drop(kept)
    if mean == 0 or failed(out):
        return out
    dense = contiguous(out)
    drop(out)
    return dense


@native
def divided(h, count):
    """A tensor divided by a number."""
    number = number_tensor(1, count, 0, number_dtype(tensor(h).dtype), tensor(h).device)
    if failed(number):
        return number
    ins = words(stack_small())
    ins[0] = h
    ins[1] = number
    out = elementwise(runtime().div_op, 2, ins)
    drop(number)
    return out


@native
def reduced_loss(op, n, ins, n_attrs, attrs):
    """The sum or mean over dimensions of what the elementwise kernel of an op gives."""
    of = integers.loss(attrs)
    each = elementwise(op, n, ins)
    if failed(each):
        return each
    t = tensor(each)
    if not is_floating(t.dtype):
        drop(each)
        return fail(DTYPE_REFUSED, t.dtype)
    mask = dims_mask(each, n_attrs - 1, of.rest)
    out = mask if mask < 0 else summed(each, mask, 0, runtime().mean_op if of.mean else runtime().sum_op)
    drop(each)
    return out


@native
def kept_sizes(t, mask, keepdim, sizes):
    """Write the sizes that a reduction leaves to `sizes`; returns their number."""
    rank = 0
    for d in range(t.ndim):
        if mask & (1 << d):
            if keepdim == 0:
                continue
            sizes[rank] = 1
        else:
            sizes[rank] = t.shape[d]
        rank += 1
    return rank


@native
def summed(h, mask, keepdim, which):
    """The sum (or mean or length, by the op `which`) of `h` over the dimensions of `mask`."""
    sizes = words(stack_small())
    t = tensor(h)
    rank = kept_sizes(t, mask, keepdim, sizes)
    return reduce_into(op_record(which).kernel, t.dtype, h, mask, t.dtype, rank, sizes)


@native
def replaced(h, op):
    """An elementwise op of one operand on `h`, whose reference it takes over."""
    if failed(h):
        return h
    ins = words(stack_small())
    ins[0] = h
    out = elementwise(op, 1, ins)
    drop(h)
    return out


@native
def spread(op, kind, n_attrs, attrs, x, outs):
    """Variance, standard deviation or Euclidean length over dimensions; if the op has two outputs, then the mean.

    The kernel of the op gives the squares of differences from the mean; that of a length reduces to lengths. Returns
    the number of outputs or a negative status.
    """
    rt = runtime()
    t = tensor(x)
    if not is_floating(t.dtype):
        return fail(DTYPE_REFUSED, t.dtype)
    of = integers.spread(attrs)
    mask = dims_mask(x, n_attrs - 2, of.rest)
    if mask < 0:
        return mask
    if kind == SHAPE_LENGTH:
        outs[0] = summed(x, mask, of.keepdim, op)
        return 1 if not failed(outs[0]) else outs[0]
    mean = summed(x, mask, 1, rt.mean_op)
    if failed(mean):
        return mean
    ins = words(stack_small())
    ins[0] = x
    ins[1] = mean
    outs[0] = spread_of(elementwise(op, 2, ins), kind, mask, of.keepdim, of.divisor)
    n_out = op_record(op).n_out
    if not failed(outs[0]) and n_out == 2:
        sizes = words(stack_small())
        outs[1] = reshape_or_copy(mean, kept_sizes(t, mask, of.keepdim, sizes), sizes)
        if failed(outs[1]):
            drop(outs[0])
            outs[0] = outs[1]
    drop(mean)
    return outs[0] if failed(outs[0]) else n_out


@native
def spread_of(squares, kind, mask, keepdim, divisor):
    """What `spread` makes of the squares, whose reference it takes over; the divisor is the bits of a float."""
    rt = runtime()
    if failed(squares):
        return squares
    total = summed(squares, mask, keepdim, rt.sum_op)
    drop(squares)
    if total <= 0:
        return total
    out = divided(total, float_of(divisor))
    drop(total)
    return replaced(out, rt.sqrt_op) if kind == SHAPE_STD else out
