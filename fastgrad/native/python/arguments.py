"""The arguments of entries: whether they are what the table says; see Note [Entries] in `contracts.entries`."""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.intrinsics import native, native_once, node, runtime, words
from fastgrad.native.base.pyapi import (
    list_type,
    none,
    py_decref,
    py_err_occurred,
    py_integer,
    py_integer_value,
    py_is_subtype,
    py_list_item,
    py_list_size,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
    type_type,
)
from fastgrad.native.contracts.entries import MOST_SIZES
from fastgrad.native.contracts.status import RAISED
from fastgrad.native.objects.handles import node_handle, type_of
from fastgrad.native.objects.held import is_dict, is_tuple


@native
def function_handle(o):
    """The handle of the node of a call of a custom function; zero for anything else."""
    n = node_handle(o)
    return n if n != 0 and node(n).op == runtime().function_op else 0


@native
def context_of(o):
    """A context, zero for anything else."""
    return o if py_is_subtype(type_of(o), runtime().context_base) != 0 else 0


@native
def hook_handle_of(o):
    """The handle of a hook, zero for anything else."""
    return o if py_is_subtype(type_of(o), runtime().handle_type) != 0 else 0


@native
def tuple_of(o):
    """A tuple, zero for anything else."""
    return o if is_tuple(o) else 0


@native
def dict_of(o):
    """A dict, zero for anything else."""
    return o if is_dict(o) else 0


@native
def class_below(o, base):
    """A class derived from `base`, zero for anything else."""
    if py_is_subtype(type_of(o), type_type()) == 0:
        return 0
    return o if py_is_subtype(o, base) != 0 else 0


@native
def node_class_of(o):
    """A class of nodes, zero for anything else."""
    return class_below(o, runtime().node_base)


@native
def context_class_of(o):
    """A class of contexts, zero for anything else."""
    return class_below(o, runtime().context_base)


@native
def module_class_of(o):
    """A class of modules, zero for anything else."""
    return class_below(o, runtime().module_base)


@native
def chain_of(o):
    """The chain of a setting, cells of a value and the next cell with None at the end; zero for anything else."""
    cell = o
    while cell != none():
        if type_of(cell) != list_type() or py_list_size(cell) != 2:
            return 0
        cell = py_list_item(cell, 1)
    return o


@native
def sizes_of(o, out):
    """Copy a tuple of ints; returns how many they are, or -1."""
    n = py_tuple_size(o) if is_tuple(o) else -1
    if n > MOST_SIZES:
        return -1
    for k in range(n):
        words(out)[k] = py_integer_value(py_tuple_item(o, k))
        if words(out)[k] == -1 and py_err_occurred() != 0:
            return RAISED
    return n


@native
def integers(values, n):
    """Numbers as a tuple of ints, zero with an exception set."""
    made = py_tuple_new(n)
    for k in range(n):
        if made != 0:
            number = py_integer(words(values)[k])
            if number != 0:
                py_tuple_set(made, k, number)
            else:
                py_decref(made)
                made = 0
    return made


@native_once
def argument_refused(entry, k, arguments, n):
    """Let Python raise what is wrong with argument `k` of an entry or, for -1, with the number of arguments; zero."""
    if py_err_occurred() != 0:
        return 0
    number = py_integer(entry)
    which = py_integer(k)
    value = words(arguments)[k] if k >= 0 else py_integer(n)
    if number != 0 and which != 0 and value != 0:
        answer = call_python(runtime().wrong_argument, 3, number, which, value)
        if answer != 0:
            py_decref(answer)
    for held in (number, which, value if k < 0 else 0):
        if held != 0:
            py_decref(held)
    return 0
