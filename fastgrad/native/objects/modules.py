"""Modules: how their attributes are read, and how a call runs their hooks.

Note [Attributes of modules]: parameters, buffers and submodules stand in dicts of the module's own, where `__getattr__`
finds them. Python would look for the attribute, raise, and call that method. So classes of modules whose `__getattr__`
is that of `Module` have `module_attribute` in the place of Python's function for both (`read_fast`). That comes back by
itself if somebody gives such a class another `__getattr__`. Dicts of other classes, and what is not there, are left to
the method.

Note [Calls of modules]: a call without hooks looks one name up in the module's dict, and whether there are global
hooks, then calls `forward`. With hooks, `call_with_hooks` is the order in which everything runs. Which hooks run is
settled when the first of their kind does. The dicts that they stand in may be any, and may go while hooks run: so
references are held to what is used.
"""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python, call_tuple
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    address_of,
    native,
    native_inline,
    native_once,
    runtime,
    stack_small,
    words,
)
from fastgrad.native.base.intrinsics import module_call as call_record
from fastgrad.native.base.pyapi import (
    TP_GETATTRO,
    dict_type,
    none,
    py_bool,
    py_decref,
    py_dict_contains,
    py_dict_copy,
    py_dict_delete,
    py_dict_get,
    py_dict_new,
    py_dict_next,
    py_dict_set,
    py_dict_size,
    py_dict_update,
    py_err_fetch,
    py_err_normalize,
    py_err_occurred,
    py_err_restore,
    py_generic_attribute,
    py_generic_dict,
    py_get_attribute,
    py_get_slot,
    py_incref,
    py_keys,
    py_list_append,
    py_list_item,
    py_list_new,
    py_list_size,
    py_set_traceback,
    py_size,
    py_tuple_item,
    py_tuple_new,
    py_tuple_set,
    py_values,
)
from fastgrad.native.contracts.profiles import FORWARD_HOOK, FORWARD_PRE_HOOK, MODULE_EVENT
from fastgrad.native.contracts.python_types import MODULE_NAMES
from fastgrad.native.contracts.status import OK, RAISED
from fastgrad.native.memory.profiles import begin_event, begin_hook, end_event, note_stack
from fastgrad.native.memory.tapes import records_hooks
from fastgrad.native.objects.handles import type_of
from fastgrad.native.objects.held import exact_tuple, is_dict, is_tuple

(
    FORWARD, HAS_HOOKS, PRE_HOOKS, HOOKS, BACKWARD_PRE_HOOKS, BACKWARD_HOOKS,
    PRE_WITH_KWARGS, WITH_KWARGS, ALWAYS_CALLED,
    ALL_PRE_HOOKS, ALL_HOOKS, ALL_BACKWARD_PRE_HOOKS, ALL_BACKWARD_HOOKS, ALL_WITH_KWARGS, ALL_ALWAYS_CALLED,
    PARAMETERS, BUFFERS, MODULES,
) = range(len(MODULE_NAMES))  # fmt: skip
TYPE_WORDS = 48  # words of a type, at least


@native_inline
def name_of(k):
    """One of the names, borrowed."""
    return runtime().module_names[k]


@native_inline
def let_go(o):
    """Give up a reference, if there is one. Any code may run."""
    if o != 0:
        py_decref(o)


# --- attributes ------------------------------------------------------------------------------------------------


@native
def read_fast(kind):
    """Let `module_attribute` read attributes of the objects of a class; see Note [Attributes of modules].

    The word of a class with the function that does so is where both this class and their base have theirs.
    """
    base = runtime().module_base
    usual, present = py_get_slot(base, TP_GETATTRO), py_get_slot(kind, TP_GETATTRO)
    for k in range(TYPE_WORDS):
        if words(base)[k] == usual and words(kind)[k] == present and kind != base:
            words(kind)[k] = runtime().read_attribute
            return


@native
def in_plain_dict(own, k, name):
    """What a dict under one of the names has under another, borrowed; zero for nothing, -1 if it is no plain one."""
    store = py_dict_get(own, name_of(k))
    if store == 0:
        return 0
    kind = type_of(store)
    if kind != dict_type() and kind != runtime().hooks_type:
        return -1
    return py_dict_get(store, name)


@native
def module_attribute(o, name):
    """`tp_getattro` of a module; zero with an exception set."""
    found = py_generic_attribute(o, name, 0, 1)
    if found != 0 or py_err_occurred() != 0:
        return found
    own = py_generic_dict(o, 0)
    if own == 0:
        return 0
    for k in (PARAMETERS, BUFFERS, MODULES):
        found = in_plain_dict(own, k, name)
        if found != 0:
            break
    if found > 0:
        py_incref(found)
    py_decref(own)
    return found if found > 0 else call_python(runtime().missing_attribute, 2, o, name)


# --- calls -----------------------------------------------------------------------------------------------------


@native
def module_call(o, args, kwargs):
    """`tp_call` of a module: what `forward` returns, or what hooks make of it; zero with an exception set."""
    own = py_generic_dict(o, 0)
    if own == 0:
        return 0
    if py_dict_size(runtime().call_hooks) != 0:
        answer = call_noted(o, own, args, kwargs)
    elif py_dict_get(own, name_of(HAS_HOOKS)) != 0:
        answer = begin_call(o, own, args, kwargs)
    else:
        answer = call_forward(o, args, kwargs)
    py_decref(own)
    return answer


@native_once
def call_noted(o, own, args, kwargs):
    """Call a module where all modules have hooks, or a profile wants to know of calls."""
    token = begin_event(MODULE_EVENT, 0, o)
    note_stack(token)
    answer = begin_call(o, own, args, kwargs)
    end_event(token)
    return answer


@native
def call_forward(o, args, kwargs):
    """Call the `forward` of a module with a tuple of arguments, and with a dict or zero."""
    forward = py_get_attribute(o, name_of(FORWARD))
    if forward == 0:
        return 0
    answer = call_tuple(forward, args, kwargs)
    py_decref(forward)
    return answer


@native_once
def begin_call(o, own, args, kwargs):
    """Call a module that has hooks, or may have: the result, or zero with an exception set."""
    c = call_record(stack_small())
    c.module = o
    c.own = own
    c.everywhere = runtime().hooks_everywhere
    c.args = args
    py_incref(args)
    c.kwargs = 0
    c.result = 0
    c.crossing = 0
    c.input_node = 0
    c.with_kwargs = 0
    c.keys = 0
    c.key = 0
    status = OK
    if kwargs != 0 and py_dict_size(kwargs) > 0:  # hooks may change it
        c.kwargs = py_dict_copy(kwargs)
        status = OK if c.kwargs != 0 else RAISED
    if not failed(status):
        status = count_hooks(c)
    if not failed(status):
        status = call_with_hooks(c)
        if failed(status):
            give_always(c)
            let_go(c.result)
            c.result = 0
    for held in (c.args, c.kwargs, c.crossing, c.input_node, c.with_kwargs, c.keys, c.key):
        let_go(held)
    return c.result


@native
def count_hooks(c):
    """Count the hooks that a call begins with. OK, or RAISED if the module has no place for hooks."""
    n_post = count_own(c, HOOKS)
    n_pre = count_own(c, PRE_HOOKS) if n_post >= 0 else -1
    n_backward = count_own(c, BACKWARD_PRE_HOOKS) if n_pre >= 0 else -1
    more = count_own(c, BACKWARD_HOOKS) if n_backward >= 0 else -1
    if more < 0:
        return RAISED
    if n_pre + n_post + n_backward + more == 0 and failed(forget_hooks(c)):
        return RAISED
    c.n_pre = n_pre + count_everywhere(c, ALL_PRE_HOOKS)
    n_backward += more + count_everywhere(c, ALL_BACKWARD_PRE_HOOKS) + count_everywhere(c, ALL_BACKWARD_HOOKS)
    c.n_backward = n_backward
    return OK


@native
def call_with_hooks(c):
    """All that a call runs, in its order. OK or RAISED."""
    if c.n_backward > 0:
        c.crossing = call_python(runtime().new_crossing, 2, c.module, c.own)
        if c.crossing == 0:
            return RAISED
    if c.n_pre > 0 and failed(run_hooks(c, ALL_PRE_HOOKS, PRE_HOOKS)):
        return RAISED
    if c.crossing != 0:
        pair = call_python(runtime().enter_crossing, 2, c.crossing, c.args)
        if pair == 0:
            return RAISED
        c.input_node = held_item(pair, 0)
        exchange_args(c, held_item(pair, 1))
        py_decref(pair)
    args = exact_tuple(c.args)
    c.result = call_forward(c.module, args, c.kwargs) if args != 0 else 0
    let_go(args)
    if c.result == 0:
        return RAISED
    n_post = count_own(c, HOOKS)
    if n_post < 0:
        return RAISED
    if n_post + count_everywhere(c, ALL_HOOKS) > 0 and failed(run_hooks(c, ALL_HOOKS, HOOKS)):
        return RAISED
    if c.crossing != 0:
        outside = call_python(runtime().leave_crossing, 3, c.crossing, c.result, c.input_node)
        if outside == 0:
            return RAISED
        exchange_result(c, outside)
    return OK


@native
def held_item(values, k):
    """An item of a tuple, a new reference."""
    item = py_tuple_item(values, k)
    py_incref(item)
    return item


@native
def exchange_args(c, args):
    """Let a call have other positional arguments, whose reference it takes over."""
    before = c.args
    c.args = args
    py_decref(before)


@native
def exchange_result(c, result):
    """Let a call have another result, whose reference it takes over."""
    before = c.result
    c.result = result
    py_decref(before)


@native
def own_store(c, k):
    """What the module has under a name that every module has, borrowed; zero with an exception set if it has not."""
    store = py_dict_get(c.own, name_of(k))
    if store == 0:
        let_go(call_python(runtime().missing_store, 2, c.module, name_of(k)))
    return store


@native
def count_own(c, k):
    """How many hooks the module has under a name; -1 with an exception set."""
    store = own_store(c, k)
    if store == 0:
        return -1
    return py_dict_size(store) if is_dict(store) else py_size(store)


@native
def count_everywhere(c, k):
    """How many hooks all modules have under a name."""
    if py_dict_size(runtime().call_hooks) == 0:
        return 0
    store = py_dict_get(c.everywhere, name_of(k))
    return py_dict_size(store) if store != 0 and is_dict(store) else 0


@native_once
def forget_hooks(c):
    """A module has no hook: it says so from now on. OK or RAISED.

    A second look comes behind that: what another thread sets meanwhile stays.
    """
    name = name_of(HAS_HOOKS)
    present = py_dict_contains(c.own, name)
    if present < 0 or (present == 1 and py_dict_delete(c.own, name) != 0):
        return RAISED
    for k in (PRE_HOOKS, HOOKS, BACKWARD_PRE_HOOKS, BACKWARD_HOOKS):
        n = count_own(c, k)
        if n < 0:
            return RAISED
        if n > 0:
            yes = py_bool(1)
            status = py_dict_set(c.own, name, yes)
            py_decref(yes)
            if status != 0:
                return RAISED
    return OK


# --- hooks of a call -------------------------------------------------------------------------------------------


@native
def run_hooks(c, everywhere, mine):
    """Run the hooks of all modules under one name, then the module's own under another. OK or RAISED."""
    store = own_store(c, mine)
    if store == 0:
        return RAISED
    py_incref(store)
    status = run_stored(c, everywhere, mine, store) if not failed(note_flags(c, mine)) else RAISED
    py_decref(store)
    return status


@native
def run_stored(c, everywhere, mine, store):
    """The same for the module's own hooks in a dict."""
    let_go(c.keys)
    c.keys = 0
    n_everywhere = count_everywhere(c, everywhere)
    if n_everywhere == 0 and is_dict(store) and py_dict_size(store) == 1:
        found = words(stack_small())
        found[0] = 0
        at = address_of(found)
        if py_dict_next(store, at, at + 8, at + 16) != 0:
            return run_hook(c, mine, found[1], found[2])
    keys, hooks = py_list_new(0), py_list_new(0)
    status = OK if keys != 0 and hooks != 0 else RAISED
    if not failed(status) and n_everywhere > 0:
        status = append_hooks(keys, hooks, py_dict_get(c.everywhere, name_of(everywhere)))
    if not failed(status):
        status = append_hooks(keys, hooks, store)
    c.keys = keys
    k = 0
    while not failed(status) and k < min(py_list_size(keys), py_list_size(hooks)):
        status = run_hook(c, mine, py_list_item(keys, k), py_list_item(hooks, k))
        k += 1
    let_go(hooks)
    return status


@native_once
def append_hooks(keys, hooks, store):
    """Append the keys of a dict of hooks to one list, and the hooks to another. OK or RAISED."""
    py_incref(store)
    status = OK
    for half in range(2):
        found = py_keys(store) if half == 0 else py_values(store)
        if found == 0:
            status = RAISED
            break
        for k in range(py_list_size(found)):
            if py_list_append(keys if half == 0 else hooks, py_list_item(found, k)) != 0:
                status = RAISED
        py_decref(found)
    py_decref(store)
    return status


@native_once
def note_flags(c, mine):
    """Note which hooks want keyword arguments, by their ids: a dict, or zero for none of them. OK or RAISED."""
    let_go(c.with_kwargs)
    c.with_kwargs = 0
    flags = own_store(c, PRE_WITH_KWARGS if mine == PRE_HOOKS else WITH_KWARGS)
    if flags == 0:
        return RAISED
    n_everywhere = count_everywhere(c, ALL_WITH_KWARGS) if mine == HOOKS else 0
    if is_dict(flags) and py_dict_size(flags) == 0 and n_everywhere == 0:
        return OK
    c.with_kwargs = py_dict_new()
    if c.with_kwargs == 0:
        return RAISED
    py_incref(flags)
    added = py_dict_update(c.with_kwargs, flags)
    py_decref(flags)
    if added != 0:
        return RAISED
    if n_everywhere > 0:
        return (
            RAISED
            if py_dict_update(c.with_kwargs, py_dict_get(c.everywhere, name_of(ALL_WITH_KWARGS))) != 0
            else OK
        )
    return OK


@native
def run_hook(c, mine, key, hook):
    """Run one hook, and take what it returns. OK or RAISED."""
    py_incref(key)
    py_incref(hook)
    wants = 0
    if c.with_kwargs != 0:
        wants = py_dict_contains(c.with_kwargs, key)
        if wants == 1 and c.kwargs == 0:
            c.kwargs = py_dict_new()
            wants = 1 if c.kwargs != 0 else -1
    new = 0
    token = 0
    if runtime().measuring != 0:
        token = begin_hook(FORWARD_PRE_HOOK if mine == PRE_HOOKS else FORWARD_HOOK, hook)
    if wants >= 0 and mine == HOOKS:
        let_go(c.key)
        c.key = key
        py_incref(key)
    if wants >= 0 and runtime().tape != 0 and records_hooks() and type_of(hook) != runtime().native_hook_type:
        new = record_hook(c, mine, hook, wants)
    elif wants >= 0 and mine == PRE_HOOKS:
        new = call_python(hook, 2 + wants, c.module, c.args, c.kwargs)
    elif wants >= 0:
        if type_of(hook) == runtime().native_hook_type:  # it works on the result, whatever that is
            new = call_python(hook, 2, c.module, c.result)
        elif wants == 1:
            new = call_python(hook, 4, c.module, c.args, c.kwargs, c.result)
        else:
            new = call_python(hook, 3, c.module, c.args, c.result)
    if token != 0:
        end_event(token)
    py_decref(key)
    py_decref(hook)
    if new == 0:
        return RAISED
    if new == none():
        py_decref(new)
    elif mine == HOOKS:
        exchange_result(c, new)
    else:
        return take_arguments(c, new, wants)
    return OK


@native_once
def record_hook(c, mine, hook, wants):
    """Run one hook while a tape records that calls it again: what is to be taken for what it returned."""
    n = 2 + wants + (mine == HOOKS)
    values = py_tuple_new(n)
    if values == 0:
        return 0
    arguments = words(stack_small())
    arguments[0] = c.module
    arguments[1] = c.args
    if wants == 1:
        arguments[2] = c.kwargs
    if mine == HOOKS:
        arguments[n - 1] = c.result
    for k in range(n):
        py_incref(arguments[k])
        py_tuple_set(values, k, arguments[k])
    before, both = py_bool(mine == PRE_HOOKS), py_bool(wants)
    new = call_python(runtime().record_module_hook, 4, hook, values, before, both)
    for held in (values, before, both):
        py_decref(held)
    return new


@native_once
def take_arguments(c, new, wants):
    """Take what a pre-hook returned, whose reference it takes over. OK or RAISED."""
    if wants == 1:
        both = call_python(runtime().new_arguments, 1, new)
        py_decref(new)
        if both == 0:
            return RAISED
        args, kwargs = py_tuple_item(both, 0), py_tuple_item(both, 1)
        py_incref(args)
        py_incref(kwargs)
        exchange_args(c, args)
        before = c.kwargs
        c.kwargs = kwargs
        py_decref(before)
        py_decref(both)
        return OK
    if not is_tuple(new):
        single = py_tuple_new(1)
        if single == 0:
            py_decref(new)
            return RAISED
        py_tuple_set(single, 0, new)
        new = single
    exchange_args(c, new)
    return OK


# --- exceptions ------------------------------------------------------------------------------------------------


@native_once
def give_always(c):
    """An exception leaves a call: let Python run the hooks that are always called and did not begin."""
    flags = py_dict_get(c.own, name_of(ALWAYS_CALLED))
    mine = flags != 0 and (not is_dict(flags) or py_dict_size(flags) > 0)
    if not mine and count_everywhere(c, ALL_ALWAYS_CALLED) == 0:
        return
    error = words(stack_small())
    at = address_of(error)
    py_err_fetch(at, at + 8, at + 16)
    py_err_normalize(at, at + 8, at + 16)
    if error[2] != 0:
        py_set_traceback(error[1], error[2])
    state = py_tuple_new(5)
    answer = 0
    if state != 0:
        held = words(stack_small())
        for k, o in enumerate((c.args, c.kwargs, c.result, c.keys, c.key)):
            held[k] = o if o != 0 else none()
            py_incref(held[k])
            py_tuple_set(state, k, held[k])
        answer = call_python(runtime().always_called, 3, c.module, error[1], state)
        py_decref(state)
    if answer != 0:
        py_decref(answer)
        py_err_restore(error[0], error[1], error[2])
    else:
        for k in range(3):
            let_go(error[k])
