"""The modes of the calling thread: whether gradients are recorded, whether tensors are for inference only.

The runtime holds the modes of the thread that runs. A thread whose modes are the default has no entry in the table;
entries of threads that ended are removed when the table is full. Wherever another thread may have run in between
(a large kernel, a callback into Python), `enter` makes the modes those of the caller again.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import (
    malloc,
    native,
    native_inline,
    native_once,
    release,
    runtime,
    words,
)
from fastgrad.native.base.pyapi import (
    py_interpreter,
    py_thread_head,
    py_thread_id,
    py_thread_next,
    py_thread_state,
)
from fastgrad.native.contracts.flags import GRAD_ENABLED, SAVED_HOOKS


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
    """Room for one more entry: those of ended threads go, then the table grows. False without memory."""
    rt = runtime()
    if rt.n_modes < rt.cap_modes:
        return True
    kept = 0
    table = words(rt.modes)
    for k in range(rt.n_modes):
        if is_running(table[2 * k]):
            table[2 * kept] = table[2 * k]
            table[2 * kept + 1] = table[2 * k + 1]
            kept += 1
    rt.n_modes = kept
    if kept < rt.cap_modes:
        return True
    cap = max(16, 2 * rt.cap_modes)
    fresh = malloc(cap * 16)
    if fresh == 0:
        return False
    for k in range(2 * kept):
        words(fresh)[k] = table[k]
    if rt.modes != 0:
        release(rt.modes)
    rt.modes = fresh
    rt.cap_modes = cap
    return True


@native
def find_modes(thread):
    """The place of a thread in the table, or -1."""
    rt = runtime()
    for k in range(rt.n_modes):
        if words(rt.modes)[2 * k] == thread:
            return k
    return -1


@native_once
def switch_thread(thread):
    """Keep the modes of the thread that was here and load those of `thread`."""
    rt = runtime()
    found = find_modes(rt.thread)
    if rt.mode != GRAD_ENABLED and rt.thread != 0:
        if found < 0 and make_room():
            found = rt.n_modes
            rt.n_modes += 1
        if found >= 0:
            words(rt.modes)[2 * found] = rt.thread
            words(rt.modes)[2 * found + 1] = rt.mode
    elif found >= 0:
        rt.n_modes -= 1
        words(rt.modes)[2 * found] = words(rt.modes)[2 * rt.n_modes]
        words(rt.modes)[2 * found + 1] = words(rt.modes)[2 * rt.n_modes + 1]
    rt.thread = thread
    found = find_modes(thread)
    rt.mode = words(rt.modes)[2 * found + 1] if found >= 0 else GRAD_ENABLED


@native_inline
def enter():
    """Every entry starts here: make the modes those of the calling thread."""
    thread = py_thread_id(py_thread_state())
    if runtime().thread != thread:
        switch_thread(thread)


@native
def get_mode():
    enter()
    return runtime().mode


@native_inline
def keep_hooks(mode):
    """`mode` with saved-tensor hooks as they are now: whoever puts modes back leaves them alone."""
    return mode & ~SAVED_HOOKS | runtime().mode & SAVED_HOOKS


@native
def set_mode(mode):
    """Set the modes of this thread, but for saved-tensor hooks; returns the earlier ones."""
    enter()
    rt = runtime()
    before = rt.mode
    rt.mode = keep_hooks(mode)
    return before


@native
def set_saved_hooks(on):
    """Say whether saved-tensor hooks are in force in this thread."""
    enter()
    rt = runtime()
    rt.hook_changes += 1
    rt.mode = rt.mode | SAVED_HOOKS if on != 0 else rt.mode & ~SAVED_HOOKS
