"""Native hooks as objects: how Python calls one and makes one, and how it goes.

What a hook does to a tensor stands in `native_hooks`.
"""

from __future__ import annotations

from fastgrad.native.backward.native_hooks import applied_in_place, code_of, is_native, over_leaf, refuse, say
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, native_hook_object, runtime, stack_small, tensor, words
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import (
    call_visit,
    none,
    py_clear_weakrefs,
    py_decref,
    py_dict_size,
    py_err_occurred,
    py_incref,
    py_integer_value,
    py_is_subtype,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_tuple_size,
    py_untrack,
)
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.flags import REQUIRES_GRAD
from fastgrad.native.contracts.limits import MAX_DIMS, MAX_INPUTS, MAX_OPS
from fastgrad.native.contracts.python_types import LEAF_HAS_NO_GRAD, NEEDS_LEAF, TAKES_LEAF, WRONG_CALL
from fastgrad.native.contracts.status import BAD_CALL, OK, RAISED
from fastgrad.native.graph.graph import is_leaf
from fastgrad.native.launch.promotion import is_half
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.objects.collector import free_object
from fastgrad.native.objects.handles import is_tensor, object_handle, type_of, wrap
from fastgrad.native.objects.held import is_dict, is_tuple

N_SETTINGS = 6


# --- called by Python ------------------------------------------------------------------------------------------


@native
def over_object(o, target):
    """Run a hook over a tensor's object: what it returns in its place, a new reference, None for itself; zero if that
    raised.
    """
    h = object_handle(target)
    if h == 0:
        refuse(o, 0, WRONG_CALL)
        return 0
    retain(h)
    x = native_hook_object(o)
    made = h
    if x.function != 0 and x.op == 0 and x.access == TAKES_LEAF:
        status = OK
        if not is_leaf(h) or not tensor(h).flags & REQUIRES_GRAD:
            status = refuse(o, h, NEEDS_LEAF)
        elif tensor(h).grad == 0:
            status = refuse(o, h, LEAF_HAS_NO_GRAD)
        else:
            status = over_leaf(o, h)
        made = h if not failed(status) else status
    else:
        made = applied_in_place(o, h)
    same = made == h
    drop(h)
    if failed(made):
        say(o, made)
        return 0
    if same:
        py_incref(none())
        return none()
    return wrap(made)


@native
def over_objects(o, values):
    """Run a hook over the tensors in a tuple; as `over_object`, with a tuple in place of the old one."""
    n = py_tuple_size(values)
    fresh = py_tuple_new(n)
    if fresh == 0:
        return 0
    changed = False
    for k in range(n):
        item = py_tuple_item(values, k)
        py_incref(item)
        if is_tensor(item):
            made = over_object(o, item)
            if made == 0:
                py_decref(item)
                py_decref(fresh)
                return 0
            if made != none():
                py_decref(item)
                item = made
                changed = True
            else:
                py_decref(made)
        py_tuple_set(fresh, k, item)
    if changed:
        return fresh
    py_decref(fresh)
    py_incref(none())
    return none()


@native
def chosen(args):
    """Which argument a hook works on, borrowed: see Note [What a call brings]; zero if it is called in another way.

    Note [What a call brings]: a tensor hook and a pre-hook of a node get one argument, a post-hook of a node two, of
    which the first may be replaced. Hooks of modules get the module first. Compiled calls of modules leave the
    arguments out for a forward hook, so that what may be replaced is second, or first without a module. Called by
    Python with a module and two more, the last one is meant if it is an output: a tensor, or None where `forward`
    raised; else it is the second one.
    """
    n = py_tuple_size(args)
    if n == 1:
        return py_tuple_item(args, 0)
    if n != 2 and n != 3:
        return 0
    of_module = py_is_subtype(type_of(py_tuple_item(args, 0)), runtime().module_base) != 0
    if n == 2:
        return py_tuple_item(args, 1 if of_module else 0)
    last = py_tuple_item(args, 2)
    if not of_module or is_dict(last):
        return 0
    return last if is_tensor(last) or last == none() else py_tuple_item(args, 1)


@native
def call_native_hook(o, args, kwargs):
    """`tp_call` of a native hook: what it returns in place of what it was given, or None; zero if that raised."""
    enter()
    target = chosen(args)
    if kwargs != 0 and py_dict_size(kwargs) > 0:
        target = 0
    if target == none():
        py_incref(target)
        return target
    if target != 0 and is_tensor(target):
        return over_object(o, target)
    if target != 0 and is_tuple(target):
        return over_objects(o, target)
    refuse(o, 0, WRONG_CALL)
    return 0


# --- objects ---------------------------------------------------------------------------------------------------


@native
def set_up(o, function, state, settings):
    """Make a native hook of an object that is none yet: its function, its state or zero, its settings. A status."""
    if not is_native(o) or py_tuple_size(settings) != N_SETTINGS:
        return BAD_CALL
    x = native_hook_object(o)
    numbers = words(stack_small())
    for k in range(N_SETTINGS):
        numbers[k] = py_integer_value(py_tuple_item(settings, k))
    if py_err_occurred() != 0:
        return RAISED
    for k, bound in enumerate((TAKES_LEAF, MAX_DIMS, 1, MAX_OPS, MAX_INPUTS - 1, 1)):
        if numbers[k] < 0 or numbers[k] > bound:
            return BAD_CALL
    if x.function != 0:
        return BAD_CALL
    if state != 0:
        retain(state)
        shown = wrap(state)
        if shown == 0:
            return RAISED
        x.state = shown
        x.state_dtype = tensor(state).dtype
        x.state_numel = tensor(state).numel
    x.access = numbers[0]
    x.rank = numbers[1]
    x.constant = numbers[2]
    x.op = numbers[3]
    x.n_numbers = numbers[4]
    x.differentiable = numbers[5]
    py_incref(function)
    x.function = function
    dtype = runtime().default_dtype  # what cannot be compiled is said now
    code = code_of(o, FLOAT32 if is_half(dtype) else dtype) if x.op == 0 else OK
    return RAISED if failed(code) else OK


@native
def traverse_native_hook(o, visit, argument):
    """`tp_traverse`."""
    x = native_hook_object(o)
    for held in (x.function, x.state, x.dict):
        if held != 0:
            answer = call_visit(visit, held, argument)
            if answer != 0:
                return answer
    return call_visit(visit, x.type, argument)


@native
def clear_native_hook(o):
    """`tp_clear`."""
    x = native_hook_object(o)
    function, state, attributes = x.function, x.state, x.dict
    x.function = 0
    x.state = 0
    x.dict = 0
    for held in (function, state, attributes):
        if held != 0:
            py_decref(held)
    return 0


@native
def dealloc_native_hook(o):
    """`tp_dealloc`."""
    py_untrack(o)
    if native_hook_object(o).weaklist != 0:
        py_clear_weakrefs(o)
    clear_native_hook(o)
    free_object(o)
