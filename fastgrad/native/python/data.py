"""What programs bring in as Python data and take out again: elements, lists of numbers, arrays of NumPy.

Entries for what is usual. They answer NotImplemented for anything else, or where Python has something to say about it.

Note [Lists]: sizes are those of the first elements, all the way down. Two walks go through everything, the first one to
see that it has these sizes and what kinds of numbers there are, the second one to read. No code but ours runs on the
way, so what the second walk meets is what the first one saw.

Note [Arrays]: arrays are made by functions of NumPy's C interface, whose addresses `native.host.arrays` finds, and read
by the layout that it documents.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    I64,
    address_of,
    f32s,
    f64s,
    i32s,
    native,
    native_inline,
    native_once,
    pointer_to,
    runtime,
    stack_small,
    storage,
    tensor,
    u8s,
    words,
)
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    bool_type,
    float_type,
    int_type,
    list_type,
    not_implemented,
    py_bool,
    py_complex,
    py_decref,
    py_err_clear,
    py_err_occurred,
    py_float,
    py_float_value,
    py_incref,
    py_integer,
    py_integer_value,
    py_is_subtype,
    py_list_item,
    py_list_size,
    py_tuple_item,
    py_tuple_size,
    py_unsigned,
    tuple_type,
)
from fastgrad.native.contracts.element_types import (
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)
from fastgrad.native.contracts.flags import CONJUGATED
from fastgrad.native.contracts.limits import HOST, MAX_DIMS
from fastgrad.native.contracts.status import NO_ARRAY_OF_CONJUGATES, NOT_ONE_ELEMENT
from fastgrad.native.launch.elementwise import cast
from fastgrad.native.launch.promotion import is_half
from fastgrad.native.memory.references import drop
from fastgrad.native.memory.tapes import note_read, note_value, recording, records_values
from fastgrad.native.objects.handles import type_of, wrap
from fastgrad.native.python import entries
from fastgrad.native.python.recorder import unplanned
from fastgrad.native.tensors.elements import on_host
from fastgrad.native.tensors.tensors import alias, itemsize, new_tensor

i16s = pointer_to(types.int16)


@native_once
def left_to_python():
    """NotImplemented, a new reference."""
    py_incref(not_implemented())
    return not_implemented()


# --- elements --------------------------------------------------------------------------------------------------


@native_once
def element_object(dtype, address):
    """The Python number that lies at an address of the host's."""
    if dtype == FLOAT32:
        return py_float(types.float64(f32s(address)[0]))
    if dtype == FLOAT64:
        return py_float(f64s(address)[0])
    if dtype == INT64:
        return py_integer(words(address)[0])
    if dtype == INT32:
        return py_integer(types.int64(i32s(address)[0]))
    if dtype == BOOL:
        return py_bool(types.int64(u8s(address)[0] != 0))
    if dtype == UINT8:
        return py_integer(types.int64(u8s(address)[0]))
    if dtype == COMPLEX64:
        return py_complex(types.float64(f32s(address)[0]), types.float64(f32s(address)[1]))
    if dtype == COMPLEX128:
        return py_complex(f64s(address)[0], f64s(address)[1])
    if dtype == INT8:
        return py_integer(types.int64(types.int8(u8s(address)[0])))
    if dtype == INT16:
        return py_integer(types.int64(i16s(address)[0]))
    if dtype == UINT16:
        return py_integer(types.int64(types.uint16(i16s(address)[0])))
    if dtype == UINT32:
        return py_integer(types.int64(types.uint32(i32s(address)[0])))
    if dtype == UINT64:
        return py_unsigned(words(address)[0])
    return left_to_python()


@native
def item(h):
    """The only element of a tensor as a Python number, or a failure."""
    enter()
    unplanned()
    t = tensor(h)
    if t.numel != 1:
        return fail(NOT_ONE_ELEMENT, t.numel)
    if is_half(t.dtype) or t.flags & CONJUGATED:
        wide = cast(h, FLOAT32 if is_half(t.dtype) else t.dtype)
        if failed(wide):
            return wide
        answer = only_element(wide)
        drop(wide)
        return answer
    return only_element(h)


@native_once
def only_element(h):
    """The element of a tensor that has one, of a dtype that Python computes with; or a failure."""
    t = tensor(h)
    dtype = t.dtype
    if t.device == HOST:
        return read_element(dtype, t.data)
    staged = on_host(t.data, t.device, itemsize(dtype))
    if failed(staged):
        return staged
    answer = read_element(dtype, storage(staged).data)
    drop(staged)
    return answer


@native_once
def read_element(dtype, address):
    """The element at an address of the host's; zero with an exception set, or a failure. A tape notes it as read."""
    status = note_value(address, itemsize(dtype), dtype)
    if failed(status):
        return status
    if runtime().tape != 0 and records_values():
        answer = call_python(runtime().value_read, 0)
        if answer == 0:
            return 0
        py_decref(answer)
    return element_object(dtype, address)


# --- lists of numbers ------------------------------------------------------------------------------------------

FLOATS, INTEGERS, BOOLS = 4, 2, 1  # kinds of numbers, as bits


@native_inline
def is_list(o):
    """Whether an object is a list or tuple, and of no derived class."""
    kind = type_of(o)
    return kind == list_type() or kind == tuple_type()


@native_inline
def length_of(o):
    """How many elements such an object has."""
    return py_list_size(o) if type_of(o) == list_type() else py_tuple_size(o)


@native_inline
def element_of(o, k):
    """One of its elements, borrowed."""
    return py_list_item(o, k) if type_of(o) == list_type() else py_tuple_item(o, k)


@native
def sizes_of_first(data, sizes):
    """Write the sizes of lists within each other, by their first elements; their number, -1 if there are too many."""
    n = 0
    o = data
    while is_list(o):
        if n == MAX_DIMS:
            return -1
        sizes[n] = length_of(o)
        n += 1
        if sizes[n - 1] == 0:
            break
        o = element_of(o, 0)
    return n


@native_inline
def kind_of(o):
    """The kind of a number; zero for anything else, an object of a derived class as well."""
    kind = type_of(o)
    if kind == float_type():
        return FLOATS
    if kind == int_type():
        return INTEGERS
    return BOOLS if kind == bool_type() else 0


@native_once
def store(o, dtype, address):
    """Write a number to an address; an exception is set if it is too large."""
    if dtype == FLOAT32:
        f32s(address)[0] = types.float32(py_float_value(o))
    elif dtype == FLOAT64:
        f64s(address)[0] = py_float_value(o)
    elif dtype == INT64:
        words(address)[0] = py_integer_value(o)
    else:
        u8s(address)[0] = types.uint8(py_integer_value(o))


@native_once
def walk(data, n, sizes, dtype, address):
    """Go through lists of these sizes; see Note [Lists].

    At an address of zero nothing is written. Returns the kinds of the numbers, or -1 if anything is not as it should.
    """
    lists = words(stack_small())
    at = words(stack_small())
    kinds = 0
    level = 0
    lists[0] = data
    at[0] = 0
    while level >= 0:
        if at[level] == sizes[level]:
            level -= 1
            if level >= 0:
                at[level] += 1
            continue
        o = element_of(lists[level], at[level])
        if level < n - 1:
            if not is_list(o) or length_of(o) != sizes[level + 1]:
                return -1
            level += 1
            lists[level] = o
            at[level] = 0
            continue
        kind = kind_of(o)
        if kind == 0:
            return -1
        kinds |= kind
        if address != 0:
            store(o, dtype, address)
            address += itemsize(dtype)
        at[level] += 1
    return kinds


@native
def from_list(data, dtype):
    """A tensor of a list of numbers, or of lists within each other; of their dtype, or a floating one if that is given.

    A new reference, NotImplemented, or a failure.
    """
    enter()
    sizes = words(stack_small())
    n = sizes_of_first(data, sizes) if is_list(data) and not recording() else -1
    kinds = walk(data, n, sizes, 0, 0) if n > 0 else -1
    if kinds < 0:
        return left_to_python()
    found = runtime().default_dtype
    if kinds != 0 and not kinds & FLOATS:
        found = INT64 if kinds & INTEGERS else BOOL
    if dtype >= 0 and dtype != found and dtype != FLOAT32 and dtype != FLOAT64:
        return left_to_python()
    if is_half(found if dtype < 0 else dtype):
        return left_to_python()
    out = new_tensor(found if dtype < 0 else dtype, HOST, n, sizes)
    if failed(out):
        return out
    t = tensor(out)
    if t.numel > 0:
        walk(data, n, sizes, t.dtype, t.data)
    if py_err_occurred() != 0:
        py_err_clear()
        drop(out)
        return left_to_python()
    return wrap(out)


# --- arrays ----------------------------------------------------------------------------------------------------

# Fields of an array, in bytes, and of the object that describes its elements.
ARRAY_DATA, ARRAY_NDIM, ARRAY_SIZES, ARRAY_STEPS, ARRAY_DESCRIPTION, ARRAY_FLAGS = 16, 24, 32, 40, 56, 64
ORDER_OF_BYTES, TYPE_NUMBER = 26, 28
ALIGNED, WRITEABLE = 0x100, 0x400
NATIVE_ORDER, NO_ORDER = ord("="), ord("|")

TYPE_NUMBERS = (0, 2, 1, 3, 5, 7, 23, 3, 11, 12, 14, 15, 4, 6, 8)
"""NumPy's numbers of the element types, by dtype code; that of int16 for bfloat16, which it does not know."""
FARTHEST = 1 << 62  # bytes: a stride beyond that is one of a dimension of size 1, where it means nothing
LONG_LONG, UNSIGNED_LONG_LONG = 9, 10  # other names of int64 and uint64


@intrinsic
def call_new_array(context, function, kind, ndim, sizes, number, steps, data, flags):  # type: ignore[no-untyped-def]
    """Call NumPy's ``PyArray_New``: a new array over memory of somebody else's, zero with an exception set."""

    def codegen(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        word, short = ir.IntType(64), ir.IntType(32)
        shape = [word, short, word, short, word, word, short, short, word]
        address, kind_, ndim_, sizes_, number_, steps_, data_, flags_ = args
        zero = ir.Constant(short, 0)
        passed = [
            kind_, builder.trunc(ndim_, short), sizes_, builder.trunc(number_, short), steps_, data_, zero,
            builder.trunc(flags_, short), ir.Constant(word, 0),
        ]  # fmt: skip
        called = builder.inttoptr(address, ir.FunctionType(word, shape).as_pointer())
        return builder.call(called, passed)

    return I64(*[I64] * 8), codegen


@intrinsic
def call_set_base(context, function, array, owner):  # type: ignore[no-untyped-def]
    """Call NumPy's ``PyArray_SetBaseObject``, which takes over a reference to the owner; zero if all is well."""

    def codegen(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.IntType(32), [word, word])
        answer = builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return builder.sext(answer, word)

    return I64(I64, I64, I64), codegen


@native
def array_over(h):
    """An array over the memory of a tensor of the host's, which it keeps; a new reference, or a failure."""
    enter()
    unplanned()
    note_read()
    t = tensor(h)
    if t.flags & CONJUGATED:
        return fail(NO_ARRAY_OF_CONJUGATES)
    number = TYPE_NUMBERS[t.dtype]
    if t.device != HOST:
        return left_to_python()
    handle = alias(h)
    if failed(handle):
        return handle
    t = tensor(handle)
    ndim, data = t.ndim, t.data
    sizes, steps = words(stack_small()), words(stack_small())
    for k in range(ndim):
        sizes[k] = t.shape[k]
        steps[k] = min(t.strides[k], FARTHEST // itemsize(t.dtype)) * itemsize(t.dtype)
    owner = wrap(handle)
    if owner == 0:
        return 0
    rt = runtime()
    made = call_new_array(
        rt.numpy_new,
        rt.numpy_array,
        ndim,
        address_of(sizes),
        number,
        address_of(steps),
        data,
        ALIGNED | WRITEABLE,
    )
    enter()
    if made == 0:
        py_decref(owner)
        return 0
    if call_set_base(rt.numpy_set_base, made, owner) != 0:
        py_decref(made)
        return 0
    return made


@native_once
def dtype_of_array(o):
    """The dtype code of an array's elements, -1 for what tensors do not have."""
    description = words(o + ARRAY_DESCRIPTION)[0]
    order = u8s(description + ORDER_OF_BYTES)[0]
    if order != NATIVE_ORDER and order != NO_ORDER:
        return -1
    number = types.int64(i32s(description + TYPE_NUMBER)[0])
    for dtype in (
        BOOL, UINT8, INT8, INT16, INT32, INT64, FLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128, UINT16, UINT32,
        UINT64,
    ):  # fmt: skip
        if number == TYPE_NUMBERS[dtype]:
            return dtype
    if number == UNSIGNED_LONG_LONG:
        return UINT64
    return INT64 if number == LONG_LONG else -1


@native
def over_array(o):
    """A tensor over the memory of an array, which it keeps; a new reference, NotImplemented, or a failure."""
    enter()
    if py_is_subtype(type_of(o), runtime().numpy_array) == 0:
        return left_to_python()
    dtype = dtype_of_array(o)
    ndim = types.int64(i32s(o + ARRAY_NDIM)[0])
    flags = types.int64(i32s(o + ARRAY_FLAGS)[0])
    if dtype < 0 or ndim > MAX_DIMS or flags & (ALIGNED | WRITEABLE) != ALIGNED | WRITEABLE:
        return left_to_python()
    sizes, steps = words(words(o + ARRAY_SIZES)[0]), words(words(o + ARRAY_STEPS)[0])
    strides = words(stack_small())
    reach = 1
    for k in range(ndim):
        if steps[k] < 0 or steps[k] % itemsize(dtype) != 0:
            return left_to_python()
        strides[k] = steps[k] // itemsize(dtype)
        reach = reach + (sizes[k] - 1) * strides[k] if sizes[k] > 0 and reach > 0 else 0
    data = words(o + ARRAY_DATA)[0]
    made = entries.foreign(
        dtype, HOST, ndim, address_of(sizes), ndim, address_of(strides), data, reach * itemsize(dtype), o
    )
    return wrap(made) if not failed(made) else made
