"""Numbers that calls of bound tapes bring: see Note [Numbers that are brought] in `memory.bindings`."""

from __future__ import annotations

from numba import types

from fastgrad.native.base.intrinsics import f32s, f64s, native, native_once, stack_small, tensor, words
from fastgrad.native.base.pyapi import (
    float_type,
    int_type,
    py_dict_get,
    py_err_clear,
    py_err_occurred,
    py_float_value,
    py_is_subtype,
    py_tuple_item,
    py_tuple_size,
    tuple_type,
)
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.records import ANY_SIGN
from fastgrad.native.memory.bindings import bring
from fastgrad.native.objects.handles import object_handle, type_of
from fastgrad.native.objects.held import is_dict


@native_once
def take_number(t, b, own, key):
    """Bring a number, the item of a dict, to the tape: False if it is none, or has another sign than it must have."""
    value = py_dict_get(own, key) if is_dict(own) else 0
    if value != 0 and b.item >= 0:
        in_tuple = type_of(value) == tuple_type() and py_tuple_size(value) == b.length
        value = py_tuple_item(value, b.item) if in_tuple else 0
    place = stack_small()
    if value == 0 or not write_number(value, place):
        return False
    x = f64s(place)[0]
    sign = types.int64(x > 0.0) - types.int64(x < 0.0)
    if b.sign != ANY_SIGN and (x != x or sign != b.sign):
        return False
    bring(t, b, words(place)[0])
    return True


@native
def write_number(o, place):
    """Write a float, an int, or the element of a tensor of the host's as a float64. False for anything else."""
    kind = type_of(o)
    if kind == int_type() or kind == float_type() or py_is_subtype(kind, float_type()) != 0:
        f64s(place)[0] = py_float_value(o)
        if py_err_occurred() != 0:  # an int that is too large
            py_err_clear()
            return False
        return True
    h = object_handle(o)
    if h == 0 or tensor(h).device != HOST or tensor(h).numel != 1:
        return False
    if tensor(h).dtype == FLOAT64:
        f64s(place)[0] = f64s(tensor(h).data)[0]
    elif tensor(h).dtype == FLOAT32:
        f64s(place)[0] = types.float64(f32s(tensor(h).data)[0])
    else:
        return False
    return True
