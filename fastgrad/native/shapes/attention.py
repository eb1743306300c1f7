"""Scaled dot-product attention over batches of heads: forward, and the gradients of query, key and value at once."""

from __future__ import annotations

from fastgrad.native.base import frames, integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    nth,
    product,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.frames.attention import KEYS, QUERIES
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.status import MISFIT
from fastgrad.native.launch.elementwise import cast
from fastgrad.native.launch.launch import launch_frame, most_threads, op_record
from fastgrad.native.launch.promotion import computed_dtype
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.shapes.copies import contiguous
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.tensors import is_contiguous, new_tensor, same_shape

LAUNCHES = 2  # that the gradients are found by on a GPU
MOST_LANES = 16  # elements of the widest vector; rows are filled up to whole vectors


@native
def with_rows(h):
    """A tensor whose rows are contiguous: the tensor itself (one more reference) or a copy."""
    t = tensor(h)
    if t.strides[t.ndim - 1] == 1 or t.shape[t.ndim - 1] == 1:
        retain(h)
        return h
    return cast(h, t.dtype)


@native
def new_like(h):
    """A tensor of the sizes of `h` in which heads lie within positions if they do so in `h`.

    So what came from transposing heads and positions is transposed back without a copy.
    """
    t = tensor(h)
    sizes = words(stack_small())
    swaps = t.ndim == 4 and t.strides[1] < t.strides[2]
    for k in range(t.ndim):
        sizes[k] = t.shape[k]
    if swaps:
        sizes[1] = t.shape[2]
        sizes[2] = t.shape[1]
    out = new_tensor(t.dtype, t.device, t.ndim, sizes)
    if not failed(out) and swaps:
        o = tensor(out)
        stride = o.strides[1]
        o.strides[1] = o.strides[2]
        o.strides[2] = stride
        o.shape[1] = sizes[2]
        o.shape[2] = sizes[1]
        if not is_contiguous(4, o.shape, o.strides):
            o.flags &= ~CONTIGUOUS
    return out


@native_inline
def write_operand(target, h):
    """Write address and strides of an operand, of one head where it has no dimension of heads.

    An absent one has the address zero.
    """
    target.data = 0
    target.batch = 0
    target.head = 0
    target.row = 0
    if h != 0:
        t = tensor(h)
        target.data = t.data
        target.batch = t.strides[0]
        target.head = t.strides[1] if t.ndim == 4 else 0
        target.row = t.strides[t.ndim - 2]


@native
def same_kind(a, b):
    """Whether two tensors have the same sizes and dtype."""
    return same_shape(a, b) and tensor(a).dtype == tensor(b).dtype


@native
def check_operands(operands):
    """Whether query, key, value and mask fit, as the caller promises: hooks may give back others than were saved."""
    q = tensor(operands[0])
    k = tensor(operands[1])
    last = q.ndim - 1
    if (
        last < 2
        or last > 3
        or k.ndim != q.ndim
        or not same_kind(operands[1], operands[2])
        or q.dtype != k.dtype
    ):
        return MISFIT
    if q.numel == 0 or k.numel == 0 or q.shape[0] != k.shape[0] or q.shape[last] != k.shape[last]:
        return MISFIT
    if last == 3 and q.shape[1] % k.shape[1] != 0:
        return MISFIT
    if operands[3] != 0:
        m = tensor(operands[3])
        if m.ndim != q.ndim or m.dtype != q.dtype or m.shape[last] != k.shape[last - 1]:
            return MISFIT
        for d in range(last):
            if m.shape[d] != q.shape[d]:
                return MISFIT
    return 0


@native
def scratch_for(query, key, work, f):
    """Room for what the kernels keep of a head, for each thread, on a GPU a number of each query: a new tensor."""
    q = tensor(query)
    if q.device != HOST:
        f.scratch.nbytes = q.numel // q.shape[q.ndim - 1] * itemsize(computed_dtype(q.dtype))
        f.scratch.count = 1
        return new_tensor(computed_dtype(q.dtype), q.device, q.ndim - 1, q.shape)
    e = q.shape[q.ndim - 1]
    width = (e + MOST_LANES - 1) // MOST_LANES * MOST_LANES
    keys = (tensor(key).shape[q.ndim - 2] + KEYS - 1) // KEYS * KEYS
    # What belongs to a block of queries, and two copies of all keys or values: five where rows are filled up.
    size = words(stack_small())
    size[0] = QUERIES * (2 * KEYS + 3 * width + 4) + keys * width * (2 if width == e else 5)
    f.scratch.nbytes = size[0] * itemsize(q.dtype)
    f.scratch.count = most_threads(q.device, work)
    size[0] = product(size[0], f.scratch.count)
    return new_tensor(q.dtype, q.device, 1, size)


@native
def run_attention(op, n, operands, attrs, f):
    """Complete the frame, in which the results stand, with `n` operands in the order of the frame; launch. A status."""
    q = tensor(operands[0])
    k = tensor(operands[1])
    f.batch = q.shape[0]
    rows = q.ndim - 2
    f.heads = q.shape[1] if rows == 2 else 1
    f.group = q.shape[1] // k.shape[1] if rows == 2 else 1
    f.queries = q.shape[rows]
    f.keys = k.shape[rows]
    f.width = q.shape[rows + 1]
    of = integers.attention(attrs)
    f.causal = of.causal
    f.scale = of.scale
    f.launches = LAUNCHES
    work = q.numel * f.keys // 16
    scratch = scratch_for(operands[0], operands[1], work, f)
    if failed(scratch):
        return scratch
    f.scratch.data = tensor(scratch).data
    owned = words(stack_small())
    count = 0
    status = 0
    while count < n and not failed(status):
        owned[count] = with_rows(operands[count]) if operands[count] != 0 else 0
        if owned[count] < 0:
            status = owned[count]
            break
        write_operand(nth(f.q, count), owned[count])
        count += 1
    if not failed(status):
        status = launch_frame(op_record(op).kernel, q.device, q.dtype, f, work)
    for j in range(count):
        if owned[j] != 0:
            drop(owned[j])
    drop(scratch)
    return status


@native
def attention_forward(op, n, ins, attrs, outs):
    """The weighted values, and the logarithm of the sum of exponentials of each query's scores.

    `ins`: query (B, H, L, E), key and value (B, H / group, S, E), a mask (B, H, L, S) or nothing, or all of them
    without H; `attrs`: whether causal, the bits of the scale.
    """
    operands = words(stack_small())
    for k in range(4):
        operands[k] = ins[k] if k < n else 0
    if check_operands(operands) != 0:
        return fail(MISFIT)
    out = new_like(ins[0])
    if failed(out):
        return out
    q = tensor(ins[0])
    lse = new_tensor(computed_dtype(q.dtype), q.device, q.ndim - 1, q.shape)
    if lse <= 0:
        drop(out)
        return lse
    f = frames.attention(stack_frame())
    f.lse = tensor(lse).data
    write_operand(f.out, out)
    status = run_attention(op, 4, operands, attrs, f)
    if failed(status):
        drop(out)
        drop(lse)
        return status
    outs[0] = out
    outs[1] = lse
    return 2


@native
def attention_backward(op, ins, attrs, outs):
    """The gradients of query, key and value.

    `ins`: gradient of the result, query, key, value, mask or absent, result, logarithms of sums; `attrs` as before.
    """
    operands = words(stack_small())
    for k in range(5):
        operands[k] = ins[1 + k]
    operands[5] = ins[0]
    q = tensor(ins[1])
    fits = check_operands(operands) == 0 and same_kind(ins[0], ins[1]) and same_kind(ins[5], ins[1])
    lse = contiguous(ins[6])
    if lse <= 0:
        return lse
    last = q.shape[q.ndim - 1]
    if not fits or tensor(lse).dtype != computed_dtype(q.dtype) or tensor(lse).numel * last != q.numel:
        drop(lse)
        return fail(MISFIT)
    f = frames.attention(stack_frame())
    f.lse = tensor(lse).data
    status = 0
    count = 0
    while count < 3 and not failed(status):
        outs[count] = new_like(operands[count])
        if outs[count] <= 0:
            status = outs[count]
            break
        write_operand(nth(f.grad_q, count), outs[count])
        count += 1
    if not failed(status):
        status = run_attention(op, 6, operands, attrs, f)
    drop(lse)
    if failed(status):
        for k in range(count):
            drop(outs[k])
        return status
    return 3
