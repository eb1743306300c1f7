"""The modes and settings of the calling thread: whether gradients are recorded, which hooks are in force.

The runtime holds those of the thread that runs. A thread for which all is as usual has no entry in the table. Wherever
another thread may have run in between (a large kernel, a callback into Python), `enter` makes them those of the caller
again. Settings are Python objects (see `contracts.flags`); each has a mode that says whether there are any.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    address_of,
    c_free,
    malloc,
    native,
    native_inline,
    native_once,
    runtime,
    stack_small,
    words,
)
from fastgrad.native.base.pyapi import (
    none,
    py_decref,
    py_incref,
    py_interpreter,
    py_thread_head,
    py_thread_id,
    py_thread_next,
    py_thread_state,
)
from fastgrad.native.contracts.flags import (
    GRAD_ENABLED,
    N_SETTINGS,
    NODE_SETTING,
    REFUSAL_SETTING,
    SAVED_SETTING,
    SETTING_BITS,
    SWITCHES,
)
from fastgrad.native.contracts.status import NOT_FOUND

ENTRY = 2 + N_SETTINGS  # words of an entry of the table: thread, modes, settings


@native
def is_running(thread):
    """Whether a thread of this number still exists."""
    state = py_thread_head(py_interpreter())
    while state != 0:
        if py_thread_id(state) == thread:
            return True
        state = py_thread_next(state)
    return False


@native
def make_room():
    """Room for one more entry. False without memory."""
    rt = runtime()
    if rt.n_modes < rt.cap_modes:
        return True
    cap = max(16, 2 * rt.cap_modes)
    fresh = malloc(cap * 8 * ENTRY)
    if fresh == 0:
        return False
    for k in range(ENTRY * rt.n_modes):
        words(fresh)[k] = words(rt.modes)[k]
    if rt.modes != 0:
        c_free(rt.modes)
    rt.modes = fresh
    rt.cap_modes = cap
    return True


@native_once
def forget_ended_threads():
    """Remove the entries of threads that ended if the table is full; what they leave behind goes. Any code may run."""
    rt = runtime()
    k = 0
    while rt.n_modes == rt.cap_modes and k < rt.n_modes:
        if is_running(words(rt.modes)[ENTRY * k]):
            k += 1
            continue
        left = words(malloc(8 * ENTRY))
        remove_entry(k, left)
        for j in range(2, ENTRY):
            if left[j] != 0:
                py_decref(left[j])
        c_free(address_of(left))
        k = 0


@native
def find_modes(thread):
    """The place of a thread in the table, or NOT_FOUND."""
    rt = runtime()
    for k in range(rt.n_modes):
        if words(rt.modes)[ENTRY * k] == thread:
            return k
    return NOT_FOUND


@native
def remove_entry(k, out):
    """Move an entry of the table to `out`; the last one takes its place."""
    rt = runtime()
    rt.n_modes -= 1
    table = words(rt.modes)
    for j in range(ENTRY):
        out[j] = table[ENTRY * k + j]
        table[ENTRY * k + j] = table[ENTRY * rt.n_modes + j]


@native_once
def switch_thread(thread):
    """Keep modes and settings of the thread that was here and load those of `thread`, if that is another one."""
    rt = runtime()
    if rt.profile == 0:  # else see Note [Profiles]
        rt.entered = thread
    if rt.thread == thread:
        return
    if rt.mode != GRAD_ENABLED and rt.thread != 0 and make_room():
        entry = words(rt.modes + rt.n_modes * 8 * ENTRY)
        entry[0] = rt.thread
        entry[1] = rt.mode
        for j in range(N_SETTINGS):
            entry[2 + j] = rt.settings[j]
        rt.n_modes += 1
    rt.thread = thread
    rt.recorder_disturbed = 1  # for a function that is being recorded: see Note [Plans]
    rt.mode = GRAD_ENABLED
    for j in range(N_SETTINGS):
        rt.settings[j] = 0
    found = find_modes(thread)
    if found >= 0:
        entry = words(stack_small())
        remove_entry(found, entry)
        rt.mode = entry[1]
        for j in range(N_SETTINGS):
            rt.settings[j] = entry[2 + j]


@native_inline
def enter():
    """Every entry starts here: make the modes those of the calling thread."""
    thread = py_thread_id(py_thread_state())
    if runtime().entered != thread:
        switch_thread(thread)


@native_inline
def is_watched():
    """As `enter`: whether there is a profile that wants to know of what begins; see Note [Profiles]."""
    thread = py_thread_id(py_thread_state())
    if runtime().entered == thread:
        return False
    switch_thread(thread)
    return runtime().profile != 0


@native
def get_mode():
    """The modes of the calling thread, bits of `contracts.flags`."""
    enter()
    return runtime().mode


@native_inline
def put_back(mode):
    """Make the modes what they were, but for those that say which settings there are."""
    rt = runtime()
    rt.mode = rt.mode & ~SWITCHES | mode & SWITCHES


@native
def set_setting(k, chain):
    """Let setting `k` be a chain, whose reference is taken over, or zero for none. Returns the old one."""
    rt = runtime()
    before = rt.settings[k]
    rt.settings[k] = chain
    rt.mode = rt.mode | SETTING_BITS[k] if chain != 0 else rt.mode & ~SETTING_BITS[k]
    return before


@native
def get_setting(k):
    """The chain of setting `k`, a new reference, or zero."""
    enter()
    chain = runtime().settings[k] if 0 <= k < N_SETTINGS else 0
    if chain != 0:
        py_incref(chain)
    return chain


@native
def take_setting(k, chain):
    """Let setting `k` of the calling thread be a chain, or empty for None. Any code may run."""
    if chain == none():
        chain = 0
    else:
        py_incref(chain)
    before = set_setting(k, chain)
    if before != 0:
        py_decref(before)
        enter()


@native
def take_over(mode, saved, refusal, watchers):
    """Let the calling thread have the modes and settings of another one: its modes, then its chains or None."""
    enter()
    put_back(mode)
    take_setting(SAVED_SETTING, saved)
    take_setting(REFUSAL_SETTING, refusal)
    take_setting(NODE_SETTING, watchers)
