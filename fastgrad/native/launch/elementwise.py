"""Elementwise ops: broadcasting, allocation, layout class, launch; casts and numbers.

`elementwise` runs any kernel of this family: the forward of an op, the fused derivative of one, a cast. It
records nothing; `graph.record` does that for the ops that Python and rules call.
"""

from __future__ import annotations

from fastgrad.native.base import frames
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    f64s,
    native,
    native_inline,
    native_once,
    runtime,
    stack_frame,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.element_types import BOOL, COMPLEX128, FLOAT32, FLOAT64, INT64, NO_DTYPE
from fastgrad.native.contracts.flags import CONJUGATED, CONTIGUOUS, WRAPPED_NUMBER
from fastgrad.native.contracts.formats import GIVEN_STRIDES, PRESERVE_FORMAT
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE, STRIDED
from fastgrad.native.contracts.limits import HOST, MAX_DIMS
from fastgrad.native.contracts.ops import GRADIENT_LAST, IN_ROWS, MASK_LAST, NO_BOOL, OUT_BOOL, PROMOTE_FLOAT
from fastgrad.native.contracts.status import (
    CONDITION_DTYPE,
    DEVICE_MISMATCH,
    DTYPE_REFUSED,
    INTERNAL,
    NO_BROADCAST,
    NO_COMMON_DTYPE,
    OUTPUT_SIZES,
    RESULT_CAST,
    TOO_MANY_DIMS,
)
from fastgrad.native.launch.half_numbers import needs_float32
from fastgrad.native.launch.launch import op_record
from fastgrad.native.launch.promotion import can_cast, compute_dtype, is_floating, is_half, out_dtype_of
from fastgrad.native.launch.strided import across_operands, in_pieces, one_line, strided_frame
from fastgrad.native.memory.launches import launch, need_dtype
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.tensors.elements import (
    FLAT_INPUTS,
    OPERAND_WORDS,
    STRIDED_INPUTS,
    bring,
    holds,
    turning_kernel,
    write_bytes,
    write_complex,
    write_constant,
)
from fastgrad.native.tensors.layouts import lay_out, new_like, new_result, without_gaps
from fastgrad.native.tensors.tensors import bump_version, finished, new_tensor

# --- layouts ---------------------------------------------------------------------------------------------------


@native
def broadcast(n, ins, ndim, shape):
    """Broadcast the inputs; writes the sizes to `shape` and returns their number or a negative status."""
    for k in range(n):
        ndim = max(ndim, tensor(ins[k]).ndim)
    for d in range(ndim):
        size = 1
        for k in range(n):
            t = tensor(ins[k])
            position = d - (ndim - t.ndim)
            if position >= 0 and t.shape[position] != 1:
                if size != 1 and size != t.shape[position]:
                    return fail(NO_BROADCAST, size, t.shape[position], d)
                size = t.shape[position]
        shape[d] = size
    return ndim


@native
def check_sizes(out, ndim, sizes):
    """Whether `out` has these sizes: a status."""
    to = tensor(out)
    if to.ndim != ndim:
        return OUTPUT_SIZES
    for d in range(ndim):
        if to.shape[d] != sizes[d]:
            return OUTPUT_SIZES
    return 0


@native
def check_fits(out, source):
    """Whether a tensor can be broadcast to the sizes of `out`: a status."""
    ins = words(stack_small())
    ins[0] = out
    ins[1] = source
    sizes = words(stack_small())
    ndim = broadcast(2, ins, 0, sizes)
    return ndim if failed(ndim) else check_sizes(out, ndim, sizes)


@native_once
def with_copies(kernel, dtype, n, ins, out, across):
    """As `run_elementwise`, with copies of the operands of a mask: in memory as the result does."""
    to = tensor(out)
    frame = stack_frame()
    s = frames.strided(frame)
    laid = words(stack_small())
    status = 0
    for k in range(n):
        laid[k] = ins[k]
        if failed(status) or not across >> k & 1:
            continue
        t = tensor(ins[k])
        copy = new_tensor(t.dtype, t.device, to.ndim, to.shape)
        if failed(copy):
            status = copy
            continue
        laid[k] = lay_out(copy, to.strides)
        strided_frame(s, 1, advance(ins, k), copy)
        length = STRIDED_INPUTS + OPERAND_WORDS
        status = launch(runtime().copy_kernel + t.dtype, to.device, t.dtype, STRIDED, frame, length, to.numel)
    if not failed(status):
        strided_frame(s, n, laid, out)
        length = STRIDED_INPUTS + n * OPERAND_WORDS
        status = launch(kernel, to.device, dtype, STRIDED, frame, length, to.numel)
    drop_copies(n, ins, laid)
    return status


@native
def run_elementwise(kernel, dtype, n, ins, out):
    """Launch `kernel` over inputs of one dtype into `out`, which has the broadcast shape."""
    if tensor(out).flags & CONJUGATED or any_conjugated(n, ins):
        return run_on_copies(kernel, dtype, n, ins, out)
    return run_as_it_lies(kernel, dtype, n, ins, out)


@native
def run_as_it_lies(kernel, dtype, n, ins, out):
    """The same over what lies in memory, whether tensors hold conjugates of that or not."""
    to = tensor(out)
    if to.numel == 0:
        return need_dtype(kernel, to.device, dtype)
    flat = to.flags & CONTIGUOUS != 0
    inplace = -1
    for k in range(n):
        t = tensor(ins[k])
        if not t.flags & CONTIGUOUS or t.numel != to.numel:
            flat = False
        if t.data == to.data:
            inplace = k if inplace < 0 and k == 0 else 99
    frame = stack_frame()
    if not flat or inplace == 99:
        s = frames.strided(frame)
        if not strided_frame(s, n, ins, out):
            return in_pieces(kernel, dtype, n, ins, out)
        if inplace == 99 or not one_line(s, n):
            across = across_operands(s, n, ins, out)
            if across != 0:
                return with_copies(kernel, dtype, n, ins, out, across)
            return launch(
                kernel, to.device, dtype, STRIDED, frame, STRIDED_INPUTS + n * OPERAND_WORDS, to.numel
            )
    f = frames.flat(frame)
    f.n = to.numel
    f.out = to.data
    for k in range(n):
        f.inputs[k] = tensor(ins[k]).data
    kind = FLAT if inplace < 0 else INPLACE
    return launch(kernel, to.device, dtype, kind, frame, FLAT_INPUTS + n, to.numel)


# --- conjugates ------------------------------------------------------------------------------------------------

# Note [Conjugates]: a view may hold the conjugates of the complex numbers that lie in its memory, or the negatives of
# the real ones (`CONJUGATED`; such a one is the imaginary part of conjugates). No kernel knows of that but the two that
# copy elements as conjugates and as negatives. Tensors of conjugates never count as `CONTIGUOUS`, so that the fast
# paths, which ask for that, leave them to the general ones; these work on copies of what they read, and copy to what
# they write: elementwise launches and copies here, all other ops in `dispatch.call.in_copies`. Entries that hand memory
# on (`array_over`, DLPack, transport) refuse such tensors or resolve them. Histories know nothing of it: nodes save the
# views as they are, and derivatives are launches like others.


@native_inline
def any_conjugated(n, ins):
    """Whether there are tensors of conjugates among some; an absent one is zero."""
    found = 0
    for k in range(n):
        if ins[k] != 0:
            found |= tensor(ins[k]).flags
    return found & CONJUGATED != 0


@native_once
def turn_into(out, source):
    """Copy the elements in the memory of `source` to that of `out`, as conjugates or negatives. A status."""
    ins = words(stack_small())
    ins[0] = source
    dtype = tensor(source).dtype
    return run_as_it_lies(turning_kernel(dtype), dtype, 1, ins, out)


@native
def resolved(h):
    """A copy of a tensor of conjugates that lies as it does and holds them as they are, without history."""
    t = tensor(h)
    out = new_like(h, t.dtype, t.device, PRESERVE_FORMAT)
    return finished(out, turn_into(out, h)) if not failed(out) else out


@native_once
def resolve_all(n, ins, read):
    """Write some tensors to `read`, with copies in place of those of conjugates. A status.

    `drop_copies` gives the copies back, after a failure too.
    """
    status = 0
    for k in range(n):
        read[k] = ins[k]
        if ins[k] != 0 and tensor(ins[k]).flags & CONJUGATED and not failed(status):
            copy = resolved(ins[k])
            read[k] = ins[k] if failed(copy) else copy
            status = min(copy, 0)
    return status


@native
def drop_copies(n, ins, read):
    """Give back what was read in place of some tensors."""
    for k in range(n):
        if read[k] != ins[k]:
            drop(read[k])


@native_once
def run_on_copies(kernel, dtype, n, ins, out):
    """As `run_elementwise`, over copies of tensors of conjugates: see Note [Conjugates]."""
    to = tensor(out)
    target = new_like(out, to.dtype, to.device, PRESERVE_FORMAT) if to.flags & CONJUGATED else out
    if failed(target):
        return target
    read = words(stack_small())
    status = resolve_all(n, ins, read)
    if not failed(status):
        status = run_as_it_lies(kernel, dtype, n, read, target)
    drop_copies(n, ins, read)
    if target != out:
        if not failed(status):
            status = turn_into(out, target)
        drop(target)
    return status


# --- casts -----------------------------------------------------------------------------------------------------


@native
def copy_here(out, source):
    """Copy `source` into `out`, which is on the same device, broadcasting and casting; no history. Returns a status."""
    ins = words(stack_small())
    ins[0] = source
    t = tensor(source)
    to = tensor(out)
    if (t.flags ^ to.flags) & CONJUGATED and t.dtype == to.dtype and t.data != to.data:
        return turn_into(out, source)
    return run_elementwise(runtime().copy_kernel + t.dtype, to.dtype, 1, ins, out)


@native
def cast(handle, dtype):
    """A contiguous copy of a tensor in another dtype (or the same), without history."""
    t = tensor(handle)
    out = new_tensor(dtype, t.device, t.ndim, t.shape)
    if failed(out):
        return out
    return finished(out, copy_here(out, handle))


@native_once
def copy_across(out, source):
    """The same between devices: contiguous elements of the result's dtype are what goes across. Returns a status."""
    to = tensor(out)
    dense = cast(source, to.dtype)
    if failed(dense):
        return dense
    d = tensor(dense)
    direct = to.flags & CONTIGUOUS != 0 and to.numel == d.numel
    arrived = out
    if direct:
        retain(out)
    else:
        arrived = new_tensor(to.dtype, to.device, d.ndim, d.shape)
    status = arrived
    if not failed(arrived):
        status = bring(tensor(arrived).data, to.device, dense)
        if not failed(status) and not direct:
            status = copy_here(out, arrived)
        drop(arrived)
    drop(dense)
    return status


@native
def copy_into(out, source):
    """Copy `source` into `out`, broadcasting and casting, from whatever device; no history. Returns a status."""
    return copy_here(out, source) if tensor(source).device == tensor(out).device else copy_across(out, source)


@native
def copy_as(handle, dtype, device, memory_format):
    """A copy of a tensor in a dtype, on a device and in a memory format, without history."""
    out = new_like(handle, dtype, device, memory_format)
    if failed(out):
        return out
    return finished(out, copy_into(out, handle))


@native_once
def copy_laid_out(handle, dtype, n, layout):
    """A copy of a tensor in a dtype, without history. `layout`: nothing, a memory format, or strides of its own.

    Strides have to leave no gaps.
    """
    t = tensor(handle)
    memory_format = PRESERVE_FORMAT if n == 0 else layout[0]
    if memory_format != GIVEN_STRIDES:
        return copy_as(handle, dtype, t.device, memory_format)
    out = new_tensor(dtype, t.device, t.ndim, t.shape)
    if failed(out):
        return out
    if n == 1 + t.ndim:
        lay_out(out, advance(layout, 1))
    if n != 1 + t.ndim or not without_gaps(tensor(out)):
        drop(out)
        return fail(INTERNAL, n, t.ndim)
    return finished(out, copy_into(out, handle))


COMPLEX_NUMBER = 3
"""The kind of a complex number: `real` is its real part, and `integer` the bits of its imaginary part."""


@native_inline
def dtype_of_number(kind):
    """The dtype of a Python number: `kind` is 0 for int, 1 for float, 2 for bool, 3 for complex."""
    if kind == COMPLEX_NUMBER:
        return COMPLEX128
    return FLOAT64 if kind == 1 else (BOOL if kind == 2 else INT64)


@native_inline
def write_number(place, kind, real, integer):
    """Write a Python number as an element of its own dtype."""
    if kind == 1 or kind == COMPLEX_NUMBER:
        f64s(address_of(place))[0] = real
        place[1] = integer
    else:
        place[0] = integer


@native
def lasting_number(kind, real, integer):
    """A 0-dim tensor of the host's with a Python number, made before there are kernels that could write it."""
    place = words(stack_small())
    handle = new_tensor(dtype_of_number(kind), HOST, 0, place)
    if failed(handle):
        return handle
    write_number(place, kind, real, integer)
    tensor(handle).flags |= WRAPPED_NUMBER
    return finished(handle, write_bytes(handle, address_of(place)))


@native
def number_tensor(kind, real, integer, dtype, device):
    """A 0-dim tensor with a Python number; `kind` as in `dtype_of_number`, which a negative dtype stands for."""
    shape = words(stack_small())
    source = dtype_of_number(kind)
    if dtype < 0:
        dtype = source
    direct = holds(dtype, kind, integer) if kind != COMPLEX_NUMBER else dtype == COMPLEX128
    handle = new_tensor(dtype if direct else source, device, 0, shape)
    if not failed(handle) and kind == COMPLEX_NUMBER and device != HOST:
        handle = finished(handle, write_complex(handle, real, integer))
    elif not failed(handle) and kind == COMPLEX_NUMBER:
        write_number(shape, kind, real, integer)
        handle = finished(handle, write_bytes(handle, address_of(shape)))
    elif not failed(handle):
        handle = finished(handle, write_constant(handle, kind, real, integer))
    if not failed(handle) and not direct:
        converted = cast(handle, dtype)
        drop(handle)
        handle = converted
    if not failed(handle):
        tensor(handle).flags |= WRAPPED_NUMBER
    return handle


@native
def device_of_all(n, ins):
    """The device of operands, among which there may be numbers of the host's: of tensors without dimensions."""
    device = -1
    for k in range(n):
        t = tensor(ins[k])
        if t.device != HOST or t.ndim != 0:
            if device >= 0 and t.device != device:
                return DEVICE_MISMATCH
            device = t.device
    return max(device, HOST)


@native_once
def run_and_round(kernel, dtype, n, ins, out):
    """As `run_elementwise`, in another dtype than the result has, which is rounded at the end."""
    result = new_like(out, dtype, tensor(out).device, PRESERVE_FORMAT)
    if failed(result):
        return result
    status = run_elementwise(kernel, dtype, n, ins, result)
    if not failed(status):
        status = copy_here(out, result)
    drop(result)
    return status


@native_once
def elementwise_slow(op, n, ins, out):
    """The general case: mixed dtypes, broadcasting, an output that is given. Returns a handle or a status."""
    info = op_record(op)
    dtype = compute_dtype(info.dtype_rule, info.flags, n, ins)
    scratch = words(stack_small())
    cast_ins = words(stack_small())
    n_values = n - 1 if info.flags & MASK_LAST else n
    if info.flags & NO_BOOL:
        for k in range(n):
            if tensor(ins[k]).dtype == BOOL:
                return fail(DTYPE_REFUSED, BOOL)
    if n_values < n and tensor(ins[n_values]).dtype != BOOL:
        return fail(CONDITION_DTYPE, tensor(ins[n_values]).dtype)
    ndim = broadcast(n, ins, 0, scratch)
    if ndim < 0:
        return ndim
    if ndim > MAX_DIMS:
        return fail(TOO_MANY_DIMS, ndim)
    device = device_of_all(n, ins)
    if failed(device):
        return device
    if dtype == NO_DTYPE:
        return fail(NO_COMMON_DTYPE)
    out_dtype = out_dtype_of(info.flags, dtype)
    rounds = False
    if is_half(dtype) and not info.flags & OUT_BOOL and needs_float32(dtype, n_values, ins):
        dtype = FLOAT32
        rounds = out_dtype != dtype
    target = out
    if out != 0:
        to = tensor(out)
        if to.device != device:
            return DEVICE_MISMATCH
        if not can_cast(out_dtype, to.dtype):
            return fail(RESULT_CAST, out_dtype, to.dtype)
        status = check_sizes(out, ndim, scratch)
        if failed(status):
            return status
        if to.dtype != out_dtype:
            target = new_like(out, out_dtype, device, PRESERVE_FORMAT)
        else:
            retain(out)
    elif info.flags & IN_ROWS:
        target = new_tensor(out_dtype, device, ndim, scratch)
    elif info.flags & GRADIENT_LAST:
        for k in range(n):
            cast_ins[k] = ins[(k + 1) % n]
        target = new_result(out_dtype, device, n, cast_ins, ndim, scratch)
    else:
        target = new_result(out_dtype, device, n, ins, ndim, scratch)
    if failed(target):
        return target
    status = made = 0
    for k in range(n):
        cast_ins[k] = ins[k]
        t = tensor(ins[k])
        wanted = dtype if k < n_values else t.dtype
        if (t.dtype != wanted or t.device != device) and not failed(status):
            converted = copy_as(ins[k], wanted, device, PRESERVE_FORMAT)
            if failed(converted):
                status = converted
            else:
                cast_ins[k] = converted
                made |= 1 << k
    if not failed(status) and rounds:
        status = run_and_round(info.kernel, dtype, n, cast_ins, target)
    elif not failed(status):
        status = run_elementwise(info.kernel, dtype, n, cast_ins, target)
    for k in range(n):
        if made & (1 << k):
            drop(cast_ins[k])
    if not failed(status) and out != 0 and target != out:
        status = copy_into(out, target)
        drop(target)
        target = out
        retain(out)
    if failed(status):
        drop(target)
        return status
    if out != 0:
        bump_version(out)
    return target


@native
def elementwise(op, n, ins):
    """Run an elementwise op without recording it; returns the handle of the result or a negative status."""
    info = op_record(op)
    t0 = tensor(ins[0])
    dtype = t0.dtype
    easy = t0.flags & CONTIGUOUS != 0 and info.flags & MASK_LAST == 0
    easy = easy and (info.dtype_rule != PROMOTE_FLOAT or is_floating(dtype))
    frame = stack_small()
    f = frames.flat(frame)
    inputs = f.inputs
    inputs[0] = t0.data
    for k in range(1, n):
        t = tensor(ins[k])
        inputs[k] = t.data
        easy = (
            easy
            and t.dtype == dtype
            and t.ndim == t0.ndim
            and t.flags & CONTIGUOUS != 0
            and t.device == t0.device
        )
        if easy:
            for d in range(t0.ndim):
                if t.shape[d] != t0.shape[d]:
                    easy = False
    if not easy:
        return elementwise_slow(op, n, ins, 0)
    out = new_tensor(out_dtype_of(info.flags, dtype), t0.device, t0.ndim, t0.shape)
    if failed(out):
        return out
    to = tensor(out)
    if to.numel == 0:
        return finished(out, need_dtype(info.kernel, t0.device, dtype))
    f.n = to.numel
    f.out = to.data
    return finished(out, launch(info.kernel, t0.device, dtype, FLAT, frame, FLAT_INPUTS + n, to.numel))


@native
def fill_scalar(handle, kind, real, integer):
    """Fill a tensor with a number, in place, without history. OK or a failure."""
    t = tensor(handle)
    if t.flags & CONTIGUOUS and kind != COMPLEX_NUMBER and holds(t.dtype, kind, integer):
        return write_constant(handle, kind, real, integer)
    number = number_tensor(kind, real, integer, t.dtype, t.device)
    if failed(number):
        return number
    status = copy_into(handle, number)
    drop(number)
    return status
