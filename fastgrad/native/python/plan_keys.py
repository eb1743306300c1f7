"""Keys of calls: all that a function with plans may depend on, see Note [Plans] in `plans`."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    address_of,
    native,
    native_inline,
    native_once,
    runtime,
    tensor,
    words,
)
from fastgrad.native.base.pyapi import (
    bool_type,
    ellipsis,
    float_type,
    int_type,
    list_type,
    none,
    py_err_clear,
    py_err_occurred,
    py_integer_value,
    py_list_item,
    py_list_size,
    py_tuple_item,
    py_tuple_size,
    slice_type,
    text_type,
    tuple_type,
)
from fastgrad.native.contracts.flags import (
    AUTOCAST,
    CONJUGATED,
    CONTIGUOUS,
    INFERENCE,
    IS_VIEW,
    REQUIRES_GRAD,
    WRAPPED_NUMBER,
)
from fastgrad.native.contracts.python_types import KEY_NAMES, KEY_TENSORS, KEY_WORDS, N_CONSTANT_TYPES
from fastgrad.native.objects.handles import object_handle, type_of
from fastgrad.native.python.indexing import SLICE_BOUNDS
from fastgrad.native.python.recorder import MODES

# How a word of a key begins what it says of an argument.
_A_TENSOR, _INT, _FLOAT, _CONSTANT, _NAME, _SEQUENCE, _A_SLICE = range(1, 8)
_FLAGS = REQUIRES_GRAD | WRAPPED_NUMBER | IS_VIEW | INFERENCE | CONTIGUOUS | CONJUGATED
_MODES = MODES | AUTOCAST  # on which what a function calls depends
_FLOAT_VALUE = 2  # the word of a float of Python that is its value
_HASH_FACTOR = 0x2545_F491_4F6C_DD1D


@native_inline
def put(c, word):
    """Add a word to a key. One that is too long is only counted."""
    if c.n_words < KEY_WORDS:
        c.key[c.n_words] = word
    c.n_words += 1


@native
def put_name(c, o):
    """Add what is told apart by identity."""
    put(c, o)
    if c.n_names < KEY_NAMES:
        c.names[c.n_names] = o
    c.n_names += 1


@native_inline
def is_plain(kind):
    """Whether a class of tensors is one of the library's own, whose methods are known."""
    return kind == runtime().tensor_type or kind == runtime().parameter_type


@native_inline
def is_constant(kind):
    """Whether instances of a class never change, and equal ones are the same."""
    k = 0
    while k < N_CONSTANT_TYPES and runtime().constant_types[k] != kind:
        k += 1
    return k < N_CONSTANT_TYPES


@native
def put_tensor(c, o, handle):
    """Add what a function may ask of a tensor, and which of those before it it is. False if there is no room.

    No key holds a tensor of a class that is not the library's own: its methods may be anything.
    """
    if c.n_tensors == KEY_TENSORS or not is_plain(type_of(o)):
        return False
    t = tensor(handle)
    ndim = t.ndim
    same = 0
    while same < c.n_tensors and c.handles[same] != handle:
        same += 1
    about = (t.flags & _FLAGS) << 1 | (t.node != 0)
    place = c.n_words
    put(c, _A_TENSOR | t.dtype << 8 | t.device << 16 | ndim << 24 | about << 32 | same << 56)
    put(c, type_of(o))
    for k in range(ndim):
        put(c, t.shape[k])
        put(c, t.strides[k])
    c.handles[c.n_tensors] = handle
    c.tensors[c.n_tensors] = o
    c.places[c.n_tensors] = place
    c.n_tensors += 1
    return True


@native
def put_integer(c, o):
    """Add an int. False if it has more than 64 bits."""
    value = py_integer_value(o)
    if value == -1 and py_err_occurred() != 0:
        py_err_clear()
        return False
    put(c, _INT)
    put(c, value)
    return True


@native_once
def put_slice(c, o):
    """Add a slice. False if a bound is something else than an int or None."""
    put(c, _A_SLICE)
    for k in range(SLICE_BOUNDS, SLICE_BOUNDS + 3):
        bound = words(o)[k]
        if bound == none():
            put(c, _CONSTANT)
        elif type_of(bound) != int_type() or not put_integer(c, bound):
            return False
    return True


@native
def put_item(c, o):
    """Add an argument that is no sequence. False if a key cannot hold it."""
    handle = object_handle(o)
    if handle != 0:
        return put_tensor(c, o, handle)
    kind = type_of(o)
    if o == none() or o == ellipsis() or kind == bool_type():
        put(c, _CONSTANT)
        put(c, o)
    elif kind == int_type():
        return put_integer(c, o)
    elif kind == slice_type():
        return put_slice(c, o)
    elif kind == float_type():
        put(c, _FLOAT)
        put(c, words(o)[_FLOAT_VALUE])
    elif kind == text_type() or is_constant(kind):
        put(c, _NAME)
        put_name(c, o)
    else:
        return False
    return True


@native_inline
def is_sequence(kind):
    """Whether a class is that of lists, tuples or sizes."""
    return kind == list_type() or kind == tuple_type() or kind == runtime().size_type


@native_inline
def put_head(c, o, kind):
    """Add what a sequence is before its items; how many there are."""
    n = py_list_size(o) if kind == list_type() else py_tuple_size(o)
    put(c, _SEQUENCE | n << 8)
    put(c, kind)
    return n


@native_inline
def item_of(o, kind, k):
    """An item of a sequence, borrowed."""
    return py_list_item(o, k) if kind == list_type() else py_tuple_item(o, k)


@native_once
def put_inner(c, o):
    """Add a sequence in a sequence. False if a key cannot hold its items, further sequences among them."""
    kind = type_of(o)
    n = put_head(c, o, kind)
    for k in range(n):
        if not put_item(c, item_of(o, kind, k)):
            return False
    return True


@native
def put_argument(c, o):
    """Add an argument. False if a key cannot hold it."""
    if o == none() or type_of(o) == runtime().tensor_type:
        return put_item(c, o)
    kind = type_of(o)
    if not is_sequence(kind):
        return put_item(c, o)
    n = put_head(c, o, kind)
    for k in range(n):
        item = item_of(o, kind, k)
        if not (put_inner(c, item) if is_sequence(type_of(item)) else put_item(c, item)):
            return False
    return True


@native
def make_key(c, args, n, keywords):
    """Write the key of a call. False if there can be none."""
    c.n_words = 0
    c.n_tensors = 0
    c.n_names = 0
    named = py_tuple_size(keywords) if keywords != 0 else 0
    rt = runtime()
    put(c, rt.mode & _MODES | rt.default_dtype << 12 | n << 16 | named << 32 | rt.registrations << 48)
    for k in range(named):
        put_name(c, py_tuple_item(keywords, k))
    for k in range(n + named):
        if not put_argument(c, words(args)[k]):
            return False
    if c.n_words > KEY_WORDS or c.n_names > KEY_NAMES:
        return False
    mixed = 0
    for k in range(c.n_words):
        mixed = (mixed ^ c.key[k]) * _HASH_FACTOR
        mixed ^= mixed >> 29
    c.hash = mixed
    return True


@native_once
def lies_as_before(c):
    """Whether the tensors of a call lie in memory as its key says; what changed in place may have another history."""
    for k in range(c.n_tensors):
        handle = object_handle(c.tensors[k])
        if handle == 0:
            return False
        t = tensor(handle)
        said = address_of(c.key) + 8 * c.places[k]
        if (words(said)[0] >> 8 ^ (t.dtype | t.device << 8 | t.ndim << 16)) & 0xFF_FF_FF:
            return False
        sizes = words(said + 16)
        for j in range(t.ndim):
            if sizes[2 * j] != t.shape[j] or sizes[2 * j + 1] != t.strides[j]:
                return False
    return True
