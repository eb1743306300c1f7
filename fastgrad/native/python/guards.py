"""Comparing what Python objects hold with what they held: see Note [Guards] in `fastgrad.compiler.guards`."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native, stack_small, words
from fastgrad.native.base.pyapi import (
    ellipsis,
    py_dict_get,
    py_dict_next,
    py_dict_size,
    py_err_clear,
    py_err_occurred,
    py_integer_value,
    py_tuple_item,
    py_tuple_size,
)
from fastgrad.native.objects.held import is_dict

HEAD, PAIR, ITEM = 2, 2, 3  # objects of a dict, of each of its items, and of an item alone


@native
def first_difference(dicts, items):
    """Where the first object stands that is not as it was, in one tuple behind the other; -1 if there is none.

    `dicts`: each a dict, the number of its items, and then its keys and values in order, an Ellipsis for any value; the
    place is that of the number where that is another one. `items`: of each a dict, a key and what stands there.
    Compared is identity.
    """
    n = py_tuple_size(dicts)
    at = 0
    while at + HEAD <= n:
        count = py_integer_value(py_tuple_item(dicts, at + 1))
        if count < 0 or at + HEAD + PAIR * count > n:
            if py_err_occurred() != 0:
                py_err_clear()
            return at + 1
        place = other_item(dicts, at, count)
        if place >= 0:
            return place
        at += HEAD + PAIR * count
    for k in range(py_tuple_size(items) // ITEM):
        d = py_tuple_item(items, ITEM * k)
        found = py_dict_get(d, py_tuple_item(items, ITEM * k + 1)) if is_dict(d) else 0
        if found == 0 or found != py_tuple_item(items, ITEM * k + 2):
            return n + ITEM * k + 2
    return -1


@native
def other_item(dicts, at, count):
    """The place of the first item of a dict that is another one, or of their number; -1 if all are the same."""
    d = py_tuple_item(dicts, at)
    if not is_dict(d) or py_dict_size(d) != count:
        return at + 1
    room = stack_small()
    words(room)[0] = 0
    for k in range(count):
        if py_dict_next(d, room, room + 8, room + 16) == 0:
            return at + 1
        place = at + HEAD + PAIR * k
        if words(room)[1] != py_tuple_item(dicts, place):
            return at + 1
        expected = py_tuple_item(dicts, place + 1)
        if words(room)[2] != expected and expected != ellipsis():
            return place + 1
    return -1
