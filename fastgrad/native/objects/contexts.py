"""Contexts: changes of a thread's modes and settings for the length of a block.

Note [Blocks that signals cannot split]: Python handles signals between instructions of its own. Were `__enter__` and
`__exit__` functions of Python, an exception that a signal's handler raises could come between the change and the moment
from which on Python would take it back. So both are compiled, each one call for Python. What Python has to say before
the change (`_entering`: checks, the value of a setting), it says before anything happens.

Where Python handles a signal behind the call that made a context whose change took effect at once, or, as some versions
do, between `__enter__` and the block, nobody will leave the context. It is then destroyed while the exception is on its
way, and takes the change back as it goes.
"""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python, call_tuple
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import context_object, native, runtime, words
from fastgrad.native.base.modes import enter, forget_ended_threads, put_back, set_setting
from fastgrad.native.base.pyapi import (
    call_visit,
    list_type,
    none,
    py_alloc,
    py_clear_weakrefs,
    py_decref,
    py_dict_size,
    py_err_no_memory,
    py_err_occurred,
    py_get_attribute,
    py_incref,
    py_integer_value,
    py_list_item,
    py_list_new,
    py_list_set,
    py_list_size,
    py_untrack,
    raises,
    runtime_error,
    system_error,
    type_error,
)
from fastgrad.native.contracts.flags import CAPTURE_SETTING, N_SETTINGS, PROFILE_SETTING, SWITCHES
from fastgrad.native.contracts.status import OK, RAISED
from fastgrad.native.memory.profiles import begin_profile, drop_events, end_profile, stop_profile, take_events
from fastgrad.native.memory.replays import drop_graphs
from fastgrad.native.memory.tapes import begin_tape, end_tape, release_tape
from fastgrad.native.objects.collector import free_object

# --- settings --------------------------------------------------------------------------------------------------


@native
def following(cell):
    """The next cell of a chain, or zero."""
    rest = py_list_item(cell, 1)
    return rest if rest != none() else 0


@native
def push_setting(k, value):
    """Let a value be the innermost of a setting. OK or RAISED."""
    cell = py_list_new(2)
    if cell == 0:
        return RAISED
    enter()
    rest = runtime().settings[k]
    if rest == 0:
        rest = none()
        py_incref(rest)
    py_incref(value)
    py_list_set(cell, 0, value)
    py_list_set(cell, 1, rest)
    set_setting(k, cell)
    return OK


@native
def remove_setting(k, value):
    """Take the innermost cell with a value out of a setting, if it is still there. Any code may run."""
    upper = 0
    cell = runtime().settings[k]
    while cell != 0 and py_list_item(cell, 0) != value:
        upper = cell
        cell = following(cell)
    if cell == 0:
        return
    rest = py_list_item(cell, 1)
    py_incref(rest)
    if upper != 0:
        py_list_set(upper, 1, rest)
    else:
        if rest == none():
            py_decref(rest)
            rest = 0
        py_decref(set_setting(k, rest))


# --- entering and leaving --------------------------------------------------------------------------------------


@native
def switch_modes(x):
    """Switch the modes that a context switches."""
    rt = runtime()
    rt.mode = rt.mode & ~(x.off & SWITCHES) | x.on & SWITCHES


one_tape = raises(system_error, "a tape records once, and one tape at a time")


one_profile = raises(runtime_error, "a profile is under way already: profiles cannot be nested")
no_profile = raises(type_error, "a profile begins with a list, whose first item says what is asked for")


@native
def begin_record(o, value):
    """Let a context write a profile, if `value` is a list and not None. OK or RAISED."""
    if value == none():
        return OK
    if value == 0 or words(value)[1] != list_type() or py_list_size(value) == 0:
        no_profile()
        return RAISED
    asked = py_integer_value(py_list_item(value, 0))
    if asked == -1 and py_err_occurred() != 0:
        return RAISED
    if runtime().profile == 0:
        drop_events()
    if runtime().profile != 0:
        one_profile()
        return RAISED
    return OK if begin_profile(o, asked, value) == 0 else RAISED


@native
def profile_again(o, value):
    """Let a context that was entered write a profile. OK or RAISED."""
    enter()
    x = context_object(o)
    if x.setting != 1 + PROFILE_SETTING or x.depth == 0:
        no_profile()
        return RAISED
    return begin_record(o, value)


@native
def profiled(o):
    """End the profile of a context: its events, None if it wrote none, zero with an exception set."""
    enter()
    if runtime().profile_owner != o:
        py_incref(none())
        return none()
    end_profile()
    return take_events()


@native
def change(o):
    """Make the change of a context. OK or RAISED."""
    x = context_object(o)
    if x.setting == 1 + CAPTURE_SETTING:
        if x.tape != 0 or runtime().tape != 0:
            one_tape()
            return RAISED
        what = py_integer_value(x.value) if x.value != 0 and x.value != none() else 0
        if what == -1 and py_err_occurred() != 0:
            return RAISED
        handle = begin_tape(what)
        if failed(handle):
            py_err_no_memory()
            return RAISED
        x.tape = handle
    elif x.setting == 1 + PROFILE_SETTING:
        if failed(begin_record(o, x.value)):
            return RAISED
    elif 0 < x.setting <= N_SETTINGS and failed(push_setting(x.setting - 1, x.value)):
        return RAISED
    if x.depth == 0 and x.applied == 0:
        x.before = runtime().mode
        x.thread = runtime().thread
    switch_modes(x)
    return OK


@native
def take_back(o):
    """Undo the change of a context, or one of several that it made. Any code may run."""
    x = context_object(o)
    if x.depth == 0:
        x.applied = 0
        both = (x.on | x.off) & SWITCHES
        put_back(runtime().mode & ~both | x.before & both)
    else:
        switch_modes(x)
    if x.tape != 0:
        end_tape(x.tape)
    elif x.setting == 1 + PROFILE_SETTING:
        if runtime().profile_owner == o:
            end_profile()
    else:
        take_value(x)


@native
def take_value(x):
    """Take the value of a context out of its setting, if it is there. Any code may run."""
    value = x.value
    if 0 < x.setting <= N_SETTINGS and value != 0:
        py_incref(value)
        remove_setting(x.setting - 1, value)
        py_decref(value)


@native
def enter_context(o):
    """Let Python say what it has to say, then make the change. OK or RAISED."""
    x = context_object(o)
    forget_ended_threads()
    if x.setting != 0:
        ask = py_get_attribute(o, runtime().entering_name)
        if ask == 0:
            return RAISED
        value = call_python(ask, 0)
        py_decref(ask)
        if value == 0:
            return RAISED
        before = value
        if x.depth == 0:
            before = x.value
            x.value = value
        if before != 0:
            py_decref(before)
    enter()
    if failed(change(o)):
        return RAISED
    x.depth += 1
    return OK


@native
def leave_context(o):
    """Undo what `enter_context` did. Once more than it was entered takes nothing back but what is there."""
    x = context_object(o)
    enter()
    if x.depth > 0:
        x.depth -= 1
        take_back(o)
    else:
        take_value(x)


@native
def context_enter(o):
    """`__enter__` of a context; zero with an exception set."""
    if failed(enter_context(o)):
        return 0
    answer = o if context_object(o).gives_self != 0 else none()
    py_incref(answer)
    return answer


@native
def context_exit(o):
    """`__exit__` of a context; zero with an exception set. What a profile does with its events, it says in Python."""
    leave_context(o)
    if context_object(o).setting == 1 + PROFILE_SETTING:
        left = py_get_attribute(o, runtime().left_name)
        answer = call_python(left, 0) if left != 0 else 0
        if left != 0:
            py_decref(left)
        return answer
    py_incref(none())
    return none()


@native
def apply_context(kind, on, off):
    """A new context of type `kind` whose change is made at once; zero with an exception set."""
    o = py_alloc(kind, 0)
    if o == 0:
        return 0
    x = context_object(o)
    x.on = on
    x.off = off
    enter()
    if failed(change(o)):
        py_decref(o)
        return 0
    x.applied = 1
    return o


@native
def context_call(o, args, kwargs):
    """A context as a decorator: what it changed when it was made is taken back, then Python decorates."""
    enter()
    if context_object(o).applied != 0:
        take_back(o)
    decorate = py_get_attribute(o, runtime().decorate_name)
    if decorate == 0:
        return 0
    answer = call_tuple(decorate, args, kwargs)
    py_decref(decorate)
    return answer


@native
def call_inside(o, function, args, kwargs):
    """Call a function with a tuple and a dict of arguments inside of a context: what it returns, or zero."""
    if failed(enter_context(o)):
        return 0
    answer = call_tuple(function, args, kwargs if py_dict_size(kwargs) > 0 else 0)
    leave_context(o)
    return answer


# --- how contexts go -------------------------------------------------------------------------------------------


@native
def traverse_context(o, visit, argument):
    """`tp_traverse` of a context."""
    x = context_object(o)
    if x.value != 0:
        answer = call_visit(visit, x.value, argument)
        if answer != 0:
            return answer
    return call_visit(visit, x.type, argument)


@native
def clear_context(o):
    """`tp_clear` of a context."""
    x = context_object(o)
    value = x.value
    x.value = 0
    if value != 0:
        py_decref(value)
    return 0


@native
def dealloc_context(o):
    """`tp_dealloc` of a context: see Note [Blocks that signals cannot split]."""
    x = context_object(o)
    py_untrack(o)
    if x.setting == 1 + PROFILE_SETTING:
        stop_profile(o)
    if x.depth != 0 or x.applied != 0:
        enter()
        lost = py_err_occurred() != 0 and x.thread == runtime().thread
        if lost or x.tape != 0:
            x.depth = 0
            take_back(o)
    if x.weaklist != 0:
        py_clear_weakrefs(o)
    clear_context(o)
    if x.tape != 0:
        drop_graphs(x.tape)
        release_tape(x.tape)
    free_object(o)
