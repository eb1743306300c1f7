"""Calls of Python in replays that compiled code makes by itself, from a plan: see `quick` in `host.call_arguments`."""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_vector
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import address_of, advance, native, native_once, stack_words, words
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    int_type,
    none,
    py_decref,
    py_incref,
    py_integer_value,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
    tuple_type,
)
from fastgrad.native.contracts.records import (
    ALIAS_HOLE,
    INPUT_HOLE,
    LEAF_HOLE,
    MOST_ARGUMENTS,
    MOST_HOLES,
    OWN_HOLE,
)
from fastgrad.native.contracts.status import INTERNAL
from fastgrad.native.objects.handles import object_handle, type_of, wrap
from fastgrad.native.python.tape_places import (
    is_hooked,
    keep_apart,
    tape_alias,
    tape_input,
    tape_leaf,
    tape_tensor,
)

FUNCTION, ARGUMENTS, PLACES, KINDS, REST, ALWAYS = range(6)
room_of_call = stack_words(1 + MOST_ARGUMENTS + MOST_HOLES)


@native
def kind_of(kinds, k):
    """What is to stand in hole `k`."""
    return kinds >> (3 * k) & 7


@native
def object_there(o, where, kind):
    """The object for a hole; zero with an exception set, or a failure."""
    if kind == INPUT_HOLE:
        return tape_input(o, where)
    if kind == LEAF_HOLE:
        return tape_leaf(o, where)
    h = tape_alias(o, where) if kind == ALIAS_HOLE else tape_tensor(o, where)
    return h if failed(h) else wrap(h)


@native
def item_there(item, holes, n):
    """A new reference to what stands for an item of a plan: for a number what is in that hole; or a failure."""
    if type_of(item) == int_type():
        k = py_integer_value(item)
        if not 0 <= k < n:
            return fail(INTERNAL, k, n)
        item = holes[k]
    py_incref(item)
    return item


@native
def argument_there(item, holes, n):
    """The same for an argument, which may be a tuple of items; zero with an exception set."""
    if type_of(item) != tuple_type():
        return item_there(item, holes, n)
    size = py_tuple_size(item)
    made = py_tuple_new(size)
    for k in range(size):
        if made > 0:
            value = item_there(py_tuple_item(item, k), holes, n)
            if value <= 0:
                py_decref(made)
                made = value
            else:
                py_tuple_set(made, k, value)
    return made


@native
def left_hooks(holes, kinds, n):
    """Whether the call left hooks at what it got behind a boundary of the graph."""
    for k in range(n):
        if kind_of(kinds, k) == INPUT_HOLE:
            h = object_handle(holes[k])
            if h != 0 and is_hooked(h):
                return True
    return False


@native
def call_planned(plan, room, holes, kinds):
    """Make the call whose holes are filled: what counts is that it returns; one, or zero with an exception set."""
    template = py_tuple_item(plan, ARGUMENTS)
    n, n_holes = py_tuple_size(template), py_tuple_size(py_tuple_item(plan, PLACES))
    arguments = advance(room, 1)
    status = 1
    for k in range(n):
        if status > 0:
            status = argument_there(py_tuple_item(template, k), holes, n_holes)
            arguments[k] = status if status > 0 else 0
    if status > 0:
        room[0] = call_vector(py_tuple_item(plan, FUNCTION), address_of(arguments), n)
        status = room[0]
    always = py_tuple_item(plan, ALWAYS) != none()
    if status > 0 and (always or room[0] != none() or left_hooks(holes, kinds, n_holes)):
        answer = call_vector(py_tuple_item(plan, REST), address_of(room), n + 1)
        if answer != 0:
            py_decref(answer)
        status = answer
    for k in range(n + 1):
        if room[k] > 0:
            py_decref(room[k])
    return status


@native_once
def fits_call(plan):
    """Whether something is a plan."""
    if py_tuple_size(plan) != ALWAYS + 1 or type_of(py_tuple_item(plan, KINDS)) != int_type():
        return False
    for k in (ARGUMENTS, PLACES):
        if type_of(py_tuple_item(plan, k)) != tuple_type():
            return False
    if py_tuple_size(py_tuple_item(plan, PLACES)) > MOST_HOLES:
        return False
    return py_tuple_size(py_tuple_item(plan, ARGUMENTS)) <= MOST_ARGUMENTS


@native
def call_quickly(o, plan):
    """Make a call of Python in a replay as a plan says. None; zero with an exception set, or a failure.

    What somebody keeps of the memory that the call got as it lies, the rest of the replay has a copy of.
    """
    enter()
    if not fits_call(plan):
        return fail(INTERNAL, 0, 0)
    places, kinds = py_tuple_item(plan, PLACES), py_integer_value(py_tuple_item(plan, KINDS))
    n = py_tuple_size(places)
    room = words(room_of_call())
    holes = advance(room, 1 + MOST_ARGUMENTS)
    status = 1
    for k in range(n):
        if status > 0:
            status = object_there(o, py_tuple_item(places, k), kind_of(kinds, k))
            holes[k] = status if status > 0 else 0
    if status > 0:
        status = call_planned(plan, room, holes, kinds)
    for k in range(n):
        if holes[k] != 0:
            py_decref(holes[k])
    for k in range(n):
        kind = kind_of(kinds, k)
        if status > 0 and (kind == OWN_HOLE or kind == ALIAS_HOLE):
            kept = keep_apart(o, py_tuple_item(places, k))
            status = kept if failed(kept) else status
    if status <= 0:
        return status
    py_incref(none())
    return none()
