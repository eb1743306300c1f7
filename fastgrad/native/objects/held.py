"""What objects hold for compiled code in places that Python can write to: its kind is looked at, never assumed."""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, native_inline, native_once, runtime, words
from fastgrad.native.base.pyapi import (
    dict_type,
    none,
    py_decref,
    py_incref,
    py_integer,
    py_is_subtype,
    py_tuple_size,
    py_tuple_slice,
    tuple_type,
)
from fastgrad.native.contracts.python_types import DICT, HELD, NODE_OBJECT
from fastgrad.native.contracts.status import OK, RAISED
from fastgrad.native.objects.handles import type_of

KINDS = tuple(held.kind for held in HELD)
PLACES = tuple(NODE_OBJECT.fields[held.field][0] if held.field else 0 for held in HELD)


@native_inline
def is_dict(o):
    """Whether an object is a dict, or of a class derived from dict."""
    kind = type_of(o)
    return kind == dict_type() or py_is_subtype(kind, dict_type()) != 0


@native_inline
def is_tuple(o):
    """Whether an object is a tuple, or of a class derived from tuple."""
    kind = type_of(o)
    return kind == tuple_type() or py_is_subtype(kind, tuple_type()) != 0


@native
def exact_tuple(o):
    """A new reference to a tuple, as it is or, of a derived class, as a plain one: that has no length but its own."""
    if type_of(o) != tuple_type():
        return py_tuple_slice(o, 0, py_tuple_size(o))
    py_incref(o)
    return o


@native_once
def refuse_kind(which, o):
    """Let Python raise the TypeError of an object that is not what is held under a name. RAISED."""
    number = py_integer(which)
    if number != 0:
        answer = call_python(runtime().wrong_kind, 2, number, o)
        if answer != 0:
            py_decref(answer)
        py_decref(number)
    return RAISED


@native
def need_kind(which, o):
    """Look at the kind of what is held under a name. OK or RAISED."""
    fits = is_dict(o) if KINDS[which] == DICT else is_tuple(o)
    return OK if fits else refuse_kind(which, o)


@native
def get_held(o, which):
    """What a node's object holds under a name, a new reference; None if nothing."""
    value = words(o)[PLACES[which]]
    if value == 0:
        value = none()
    py_incref(value)
    return value


@native
def set_held(o, value, which):
    """Let a node's object hold something of the right kind; nothing for None, or if it is deleted. OK or RAISED."""
    if value == none():
        value = 0
    if value != 0:
        if failed(need_kind(which, value)):
            return RAISED
        py_incref(value)
    before = words(o)[PLACES[which]]
    words(o)[PLACES[which]] = value
    if before != 0:
        py_decref(before)
    return OK
