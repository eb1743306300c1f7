"""Profiles: what happens, when and for how long, written to an array of events.

Note [Profiles]: nothing looks whether there is a profile where it costs anything. Entries compare the calling
thread with `runtime.entered`, which is zero while there is one, so they find the thread to be another one and look
closer (`modes.is_watched`). A launch looks at `runtime.watched` alone, whether a tape records or a profile is on.
Hooks look whether they are measured, calls of modules whether any module's calls have hooks, allocations whether
memory is limited: a profile lets each of them say so.

What begins gets an event and a token of it, what ends says so by the token. A profile may begin or end in between:
the token of another profile than the one that is on, or zero, says nothing. An event whose end nobody noted has
zero there. Python objects that events name are held by a list until Python has read them. Where there is no memory
for events they are counted as lost, and nothing fails.
"""

from __future__ import annotations

from fastgrad.native.base.clock import nanoseconds
from fastgrad.native.base.intrinsics import (
    address_of,
    c_free,
    caster,
    malloc,
    memcpy,
    native,
    native_inline,
    native_once,
    node,
    nth,
    runtime,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.base.pyapi import (
    function_type,
    method_type,
    py_bool,
    py_bytes_new,
    py_decref,
    py_del_item,
    py_dict_contains,
    py_err_clear,
    py_err_fetch,
    py_err_restore,
    py_frame,
    py_frame_back,
    py_frame_code,
    py_frame_line,
    py_function_code,
    py_incref,
    py_list_append,
    py_list_size,
    py_method_function,
    py_set_item,
    py_thread_ident,
    py_tuple_new,
    py_tuple_set,
)
from fastgrad.native.contracts.profiles import (
    EVENT,
    HOOK_EVENT,
    MOST_FRAMES,
    OP_EVENT,
    PROFILE_MEMORY,
    PROFILE_MODULES,
    PROFILE_SHAPES,
    PROFILE_STACK,
    WATCHED_BY_PROFILE,
)

event = caster(EVENT)
EVENT_BYTES = EVENT.words * 8
FIRST_ROOM = 4096
_TYPE = 1  # the word of an object that is its type
_INDEX_BITS = 40  # of a token: the place of the event counted from one; above them the number of the profile
_INDEX = (1 << _INDEX_BITS) - 1


# --- beginning and ending --------------------------------------------------------------------------------------


@native
def watch_modules(on):
    """Let calls of modules look for a profile, or no longer. Zero, or -1 with an exception set."""
    rt = runtime()
    store = rt.call_hooks
    name = rt.profile_name
    present = py_dict_contains(store, name)
    if present < 0:
        return -1
    if on == 0:
        return py_del_item(store, name) if present == 1 else 0
    yes = py_bool(1)
    status = py_set_item(store, name, yes)
    py_decref(yes)
    return status


@native_once
def begin_profile(owner, asked, objects):
    """Write events from now on. `owner`: whose profile it is; `objects`: the list that holds what events name.

    Zero, or -1 with an exception set.
    """
    rt = runtime()
    if asked & PROFILE_MODULES and watch_modules(1) < 0:
        return -1
    py_incref(objects)
    rt.profile_objects = objects
    rt.profile_asked = asked
    rt.profile_owner = owner
    rt.profiles += 1
    rt.profile = rt.profiles
    rt.entered = 0
    rt.watched |= WATCHED_BY_PROFILE
    rt.measuring = 1
    if asked & PROFILE_MEMORY:
        rt.counting = 1
        rt.allocations = 0
    return 0


@native_once
def end_profile():
    """Write no events any more. Those that were written stay until they are read or dropped."""
    rt = runtime()
    if rt.profile == 0:
        return
    rt.profile = 0
    rt.entered = rt.thread
    rt.watched &= ~WATCHED_BY_PROFILE
    rt.measuring = rt.noting
    rt.counting = 1 if rt.limit_bytes > 0 else 0
    if rt.profile_asked & PROFILE_MODULES:
        error = words(stack_small())  # one may be on its way
        at = address_of(error)
        py_err_fetch(at, at + 8, at + 16)
        if watch_modules(0) < 0:
            py_err_clear()
        py_err_restore(error[0], error[1], error[2])


@native_once
def drop_events():
    """Forget the events of the last profile. Any code may run."""
    rt = runtime()
    if rt.events != 0:
        c_free(rt.events)
    if rt.details != 0:
        c_free(rt.details)
    rt.events = 0
    rt.details = 0
    rt.n_events = 0
    rt.cap_events = 0
    rt.n_details = 0
    rt.cap_details = 0
    rt.n_lost = 0
    rt.profile_owner = 0
    objects = rt.profile_objects
    rt.profile_objects = 0
    if objects != 0:
        py_decref(objects)


@native_once
def stop_profile(owner):
    """End the profile of an object, and drop its events. Any code may run."""
    if owner != 0 and runtime().profile_owner == owner:
        end_profile()
        drop_events()


@native_once
def take_events():
    """The events of the profile that ended and what they refer to, as two objects of bytes; zero with an exception
    set.
    """
    rt = runtime()
    pair = py_tuple_new(2)
    whole = pair != 0
    for k in range(2):
        if whole:
            address = rt.events if k == 0 else rt.details
            text = py_bytes_new(address, rt.n_events * EVENT_BYTES if k == 0 else rt.n_details * 8)
            whole = text != 0
            if whole:
                py_tuple_set(pair, k, text)
    if not whole:
        if pair != 0:
            py_decref(pair)
        return 0
    drop_events()
    return pair


# --- events ----------------------------------------------------------------------------------------------------


@native_once
def larger(address, used, cap, nbytes):
    """A copy of an array with twice as much room, zero without memory; the old one is freed then."""
    fresh = malloc(cap * nbytes)
    if fresh != 0 and address != 0:
        memcpy(fresh, address, used * nbytes)
        c_free(address)
    return fresh


@native
def note_object(o):
    """Hold an object for the events: its place in the list, or -1."""
    objects = runtime().profile_objects
    if py_list_append(objects, o) != 0:
        py_err_clear()
        return -1
    return py_list_size(objects) - 1


@native
def note_detail(value):
    """Add a word to what events refer to, if there is room."""
    rt = runtime()
    if rt.n_details == rt.cap_details:
        cap = max(2 * rt.cap_details, FIRST_ROOM)
        fresh = larger(rt.details, rt.n_details, cap, 8)
        if fresh == 0:
            return
        rt.details = fresh
        rt.cap_details = cap
    words(rt.details)[rt.n_details] = value
    rt.n_details += 1


@native_once
def begin_event(kind, what, o):
    """Something of a kind begins. `what` tells which; so does an object, if not zero. Its token, or zero."""
    rt = runtime()
    if rt.profile == 0:
        return 0
    if rt.n_events == rt.cap_events:
        cap = max(2 * rt.cap_events, FIRST_ROOM)
        fresh = larger(rt.events, rt.n_events, cap, EVENT_BYTES)
        if fresh == 0:
            rt.n_lost += 1
            return 0
        rt.events = fresh
        rt.cap_events = cap
    e = nth(event(rt.events), rt.n_events)
    rt.n_events += 1
    e.kind = kind
    e.thread = py_thread_ident()
    e.what = what
    e.object = note_object(o) if o != 0 else -1
    e.number = 0
    e.parts = 0
    e.live = rt.live_bytes
    e.live_end = 0
    e.allocations = rt.allocations
    e.allocations_end = 0
    e.detail = rt.n_details
    e.n_shapes = 0
    e.n_detail = 0
    e.end = 0
    e.start = nanoseconds()
    return rt.profile << _INDEX_BITS | rt.n_events


@native_inline
def is_under_way(token):
    """Whether a token is that of an event of the profile that is on."""
    rt = runtime()
    index = token & _INDEX
    return token > 0 and token >> _INDEX_BITS == rt.profile and 0 < index <= rt.n_events


@native_inline
def event_of(token):
    """The event of a token that is under way."""
    return nth(event(runtime().events), (token & _INDEX) - 1)


@native_once
def end_event(token):
    """What got a token has ended."""
    end_event_at(token, nanoseconds())


@native
def end_event_at(token, when):
    """What got a token has ended at some time."""
    if is_under_way(token):
        e = event_of(token)
        if e.end == 0:
            e.end = when
            e.live_end = runtime().live_bytes
            e.allocations_end = runtime().allocations


@native_once
def note_stack(token):
    """Note the Python functions that are being called, innermost first, if that was asked for."""
    if not is_under_way(token) or not runtime().profile_asked & PROFILE_STACK:
        return
    e = event_of(token)
    frame = py_frame()
    if frame != 0:
        py_incref(frame)
    k = 0
    while frame != 0 and k < MOST_FRAMES:
        code = py_frame_code(frame)
        note_detail(note_object(code))
        note_detail(py_frame_line(frame))
        py_decref(code)
        further = py_frame_back(frame)
        py_decref(frame)
        frame = further
        k += 1
    if frame != 0:
        py_decref(frame)
    e.n_detail = runtime().n_details - e.detail


@native
def note_kernel(token, work, parts):
    """Note the work of a kernel, and in how many parts it ran."""
    if is_under_way(token):
        event_of(token).number = work
        event_of(token).parts = parts


@native
def note_number(token, number):
    """Note the number of an event."""
    if is_under_way(token):
        event_of(token).number = number


@native_once
def begin_hook(kind, hook):
    """A hook of a kind is called, which the profile names by its code or, if it is no function, by its class."""
    if runtime().profile == 0:
        return 0
    function = hook
    if words(hook)[_TYPE] == method_type():
        function = py_method_function(hook)
    is_function = words(function)[_TYPE] == function_type()
    token = begin_event(HOOK_EVENT, kind, py_function_code(function) if is_function else words(hook)[_TYPE])
    note_stack(token)
    return token


# --- calls of ops ----------------------------------------------------------------------------------------------


@native_once
def begin_call(op, n, ins):
    """An op is called with operands. Its token, or zero."""
    token = begin_event(OP_EVENT, op, 0)
    if token == 0:
        return 0
    rt = runtime()
    e = event_of(token)
    e.number = rt.seq
    if rt.profile_asked & PROFILE_SHAPES:
        for k in range(n):
            if ins[k] <= 0:
                note_detail(-1)
                continue
            t = tensor(ins[k])
            note_detail(t.dtype)
            note_detail(t.ndim)
            for j in range(t.ndim):
                note_detail(t.shape[j])
        e.n_shapes = rt.n_details - e.detail
        e.n_detail = e.n_shapes
    note_stack(token)
    return token


@native_once
def end_call(token, out):
    """The call of an op has ended, with a result or a failure. `number` is that of the node that it made, plus one."""
    if is_under_way(token):
        e = event_of(token)
        first = e.number
        e.number = 0
        if out > 0 and tensor(out).node != 0 and node(tensor(out).node).seq > first:
            e.number = node(tensor(out).node).seq + 1
    end_event(token)
