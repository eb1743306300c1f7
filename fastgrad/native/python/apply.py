"""`rt.apply`: an op called from Python, compared with the op's entry in the table before anything runs."""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_vector
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    advance,
    native,
    native_inline,
    native_once,
    runtime,
    stack_scratch,
    tensor,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    bool_type,
    float_type,
    int_type,
    py_decref,
    py_err_clear,
    py_err_occurred,
    py_float_value,
    py_integer_value,
    py_is_subtype,
    py_tuple_new,
    py_tuple_set,
)
from fastgrad.native.contracts.formats import GIVEN_STRIDES
from fastgrad.native.contracts.integers import (
    DEVICE,
    DTYPE,
    EACH,
    END,
    LAYOUT,
    NUMBER,
    OFFSETS,
    REGION,
    STEP_BITS,
)
from fastgrad.native.contracts.limits import MAX_DIMS, MAX_OPS, N_DEVICES, N_DTYPES
from fastgrad.native.contracts.ops import (
    ANY_NUMBER,
    ELEMENTWISE,
    SHAPE_INDEX_PUT,
    SHAPE_REDUCED,
    SHAPE_SCATTER_INTO,
    SHAPE_SPLIT,
    SHAPE_UNBIND,
    STRUCTURED,
)
from fastgrad.native.contracts.status import BAD_CALL, BAD_HANDLE, OK, WIDE_INTEGER, WIDE_NUMBER
from fastgrad.native.dispatch.call import call_entry
from fastgrad.native.dispatch.inplace_call import inplace
from fastgrad.native.launch.elementwise import number_tensor
from fastgrad.native.launch.launch import op_record
from fastgrad.native.memory.buffers import allocate, deallocate
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.objects.failures import call_refused
from fastgrad.native.objects.handles import is_batched, optional_operand, type_of, wrap
from fastgrad.native.python.recorder import MODES, is_recording, note_call

HEAD = 3  # arguments before the operands: the op, the number of operands, the number of outputs
IN_PLACE = -1  # in place of the number of outputs
CALL_WORDS = 96  # handles and integers of a call that stand on the stack; those of longer calls do not
MAX_OUTPUTS = 4  # of ops whose number of outputs the call does not say

call_frame = stack_scratch(CALL_WORDS)


@native
def apply(arguments, count):
    """``apply(op, n, n_outs, *tensors, *integers)``: the object of the result, or zero with an exception set."""
    if is_recording():
        return apply_recorded(arguments, count)
    return apply_now(arguments, count)


@native_once
def apply_recorded(arguments, count):
    """The same while a function is recorded: see Note [Plans]. What hooks of the call call is none of it."""
    enter()
    rt = runtime()
    calls = rt.recorder
    if rt.recorder_thread != rt.thread or rt.recorder_paused != 0:
        return apply_now(arguments, count)
    if (rt.mode ^ rt.recorder_mode) & MODES:  # steps have no mode of their own
        rt.recorder = 0
        return apply_now(arguments, count)
    rt.recorder_paused = 1
    before = rt.launches
    answer = apply_now(arguments, count)
    if rt.recorder == calls:
        rt.recorder_paused = 0
        rt.recorded_launches += rt.launches - before
        if answer == 0 or failed(note_call(calls, arguments, count, answer)):
            rt.recorder = 0
    return answer


@native_inline
def apply_now(arguments, count):
    """The call itself.

    `n` is the number of tensors; `n_outs` is 0 for one result, -1 for a change in place, else the number of views that
    an op makes. Several results come as a tuple.
    """
    given = words(arguments)
    if count < HEAD:
        return call_refused(BAD_CALL, arguments, count)
    op = py_integer_value(given[0])
    if op < 0 and py_err_occurred() != 0:  # before the next is read, whose `__index__` would run with it
        return 0
    n = py_integer_value(given[1])
    if n < 0 and py_err_occurred() != 0:
        return 0
    n_outs = py_integer_value(given[2])
    if n_outs < 0 and py_err_occurred() != 0:
        return 0
    if not fits(op, n, n_outs, count - HEAD - n):
        return call_refused(BAD_CALL, arguments, count)
    needed = count - HEAD + max(n_outs, MAX_OUTPUTS)
    frame = call_frame()
    if needed > CALL_WORDS:
        frame = allocate(needed * 8)
        if failed(frame):
            return call_refused(frame, arguments, count)
    answer = apply_with(words(frame), op, n, n_outs, arguments, count)
    if needed > CALL_WORDS:
        deallocate(frame, needed * 8)
    return answer


@native_inline
def fits(op, n, n_outs, n_ints):
    """Whether there is such an op and it takes as many operands and integers and gives as many outputs."""
    if op < 0 or op >= MAX_OPS:
        return False
    info = op_record(op)
    if info.kind == 0 or n < info.least or n > info.most:
        return False
    if n_ints != info.n_ints and (n_ints < info.n_ints or info.more_ints == 0):
        return False
    if n_outs == 0:
        return True
    if n_outs == IN_PLACE:
        written = info.forward == SHAPE_INDEX_PUT or info.forward == SHAPE_SCATTER_INTO
        return info.kind == ELEMENTWISE or (info.kind == STRUCTURED and written)
    if info.kind != STRUCTURED:
        return False
    if info.forward == SHAPE_SPLIT:
        return n_outs == n_ints - 1
    return info.forward == SHAPE_UNBIND and 0 < n_outs < ANY_NUMBER


@native_inline
def takes_numbers(info):
    """Whether operands of an op may be numbers: of an elementwise one, alone or with what adds up its results."""
    return info.kind == ELEMENTWISE or (info.kind == STRUCTURED and info.forward == SHAPE_REDUCED)


@native_inline
def apply_with(ins, op, n, n_outs, arguments, count):
    """The call itself, with room for handles of operands, integers and handles of outputs.

    Integers are read before handles: `__index__` is Python and may change a tensor, and with it its handle.
    """
    info = op_record(op)
    given = advance(words(arguments), HEAD)
    attrs = advance(ins, n)
    n_ints = count - HEAD - n
    numbers = 0
    for k in range(n_ints):
        attrs[k] = py_integer_value(given[n + k])
        if attrs[k] == -1 and py_err_occurred() != 0:
            return integer_refused(given[n + k], arguments, count)
    for k in range(n):
        ins[k] = optional_operand(given[k])
        if ins[k] < 0 and takes_numbers(info):
            numbers |= 1 << k
        elif ins[k] < 0 or (ins[k] == 0 and not info.optional >> min(k, 63) & 1):
            return operands_refused(n, arguments, count)
    if info.integers != 0 and not integers_fit(info.integers, n, n_ints, attrs):
        return call_refused(BAD_CALL, arguments, count)
    if numbers != 0:
        return apply_with_numbers(ins, numbers, op, n, n_outs, arguments, count)
    return run_held(ins, op, n, n_outs, arguments, count)


@native_once
def apply_with_numbers(ins, numbers, op, n, n_outs, arguments, count):
    """The same of an op that takes numbers where objects, a bit of `numbers` for each, are no tensors: numbers, maybe.

    What is changed in place is a tensor. The modes are those of this thread from here on, as numbers are tensors, too.
    """
    enter()
    given = advance(words(arguments), HEAD)
    device = -1
    for k in range(n):
        if not numbers >> k & 1 and ins[k] != 0:
            device = tensor(ins[k]).device
    made = 0
    status = BAD_HANDLE if device < 0 or (n_outs == IN_PLACE and numbers & 1) else OK
    for k in range(n):
        if numbers >> k & 1 and not failed(status):
            ins[k] = number_operand(given[k], k, device)
            status = min(ins[k], OK)
            made |= 1 << k if not failed(status) else 0
    answer = 0
    if status == BAD_HANDLE:
        answer = operands_refused(n, arguments, count)
    elif failed(status):
        call_refused(status, arguments, count)
    else:
        answer = run_held(ins, op, n, n_outs, arguments, count)
    for k in range(n):
        if made >> k & 1:
            drop(ins[k])
    return answer


@native_once
def operands_refused(n, arguments, count):
    """What Python makes of operands that are no tensors: with batched ones among them it computes, else it raises."""
    given = advance(words(arguments), HEAD)
    for k in range(n):
        if is_batched(given[k]):
            return call_vector(runtime().apply_batched, arguments, count)
    return call_refused(BAD_HANDLE, arguments, count)


@native
def number_operand(o, k, device):
    """A Python number as a tensor of a device that takes part in promotion as a number does, or a failure."""
    kind = type_of(o)
    if kind == float_type():
        return number_tensor(1, py_float_value(o), 0, -1, device)
    if kind != int_type() and kind != bool_type():
        return BAD_HANDLE
    value = py_integer_value(o)
    if value == -1 and py_err_occurred() != 0:
        py_err_clear()
        return fail(WIDE_NUMBER, k)
    return number_tensor(0 if kind == int_type() else 2, 0.0, value, -1, device)


@native_inline
def run_held(ins, op, n, n_outs, arguments, count):
    """Run an op over operands that are held meanwhile; the object of the result, or zero with an exception set."""
    attrs = advance(ins, n)
    n_ints = count - HEAD - n
    outs = advance(attrs, n_ints)
    hold(n, ins)
    if n_outs == IN_PLACE:
        changed = inplace(op, n, ins, n_ints, attrs)
        let_go(n, ins)
        return wrap(changed) if changed > 0 else call_refused(changed, arguments, count)
    made = call_entry(op, n, ins, n_ints, attrs, outs, n_outs)
    let_go(n, ins)
    if made <= 0:
        return call_refused(made if made < 0 else BAD_CALL, arguments, count)
    return wrap(outs[0]) if made == 1 and n_outs == 0 else wrap_all(outs, made)


@native
def integers_fit(steps, n, n_ints, attrs):
    """Whether the integers of a call of `n` operands are what the op's word says: see Note [Integers of a call]."""
    at = 0
    while steps != END:
        step = steps & ((1 << STEP_BITS) - 1)
        steps >>= STEP_BITS
        if step == EACH:
            count = n
        elif step == LAYOUT and at == n_ints:
            count = 0
        elif at >= n_ints:
            return False
        elif step == NUMBER:
            at += 1
            continue
        elif step == DTYPE or step == DEVICE or step == LAYOUT:
            limit = N_DTYPES if step == DTYPE else N_DEVICES if step == DEVICE else GIVEN_STRIDES + 1
            if attrs[at] < 0 or attrs[at] >= limit:
                return False
            count = 1
        else:
            rank = attrs[at]
            if rank < 0 or rank > MAX_DIMS:
                return False
            at += 1
            count = 1 + 2 * rank if step == REGION else rank
        if at + count > n_ints:
            return False
        for k in range(at, at + count):
            if attrs[k] < 0 and step != OFFSETS and (step != REGION or k < at + count - 1):
                return False
        at += count
    return True


@native_once
def integer_refused(o, arguments, count):
    """An integer could not be read: an int that is too large is refused, else what is set stays. Zero."""
    if py_is_subtype(type_of(o), int_type()) == 0:
        return 0
    py_err_clear()
    return call_refused(WIDE_INTEGER, arguments, count)


@native_inline
def hold(n, ins):
    """Hold operands: what runs in a call, hooks and other threads, may give their objects other records."""
    for k in range(n):
        if ins[k] != 0:
            retain(ins[k])


@native_inline
def let_go(n, ins):
    """Take back what `hold` gave."""
    for k in range(n):
        if ins[k] != 0:
            drop(ins[k])


@native
def wrap_all(handles, n):
    """The objects of tensors as a tuple; takes over their references. Zero with an exception set."""
    values = py_tuple_new(n)
    for k in range(n):
        if values == 0:
            drop(handles[k])
            continue
        o = wrap(handles[k])
        if o == 0:
            py_decref(values)
            values = 0
        else:
            py_tuple_set(values, k, o)
    return values
