"""What a function calls while it is recorded: see Note [Plans] in `plans`."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native_inline, native_once, runtime
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import none, py_decref, py_err_clear, py_list_append
from fastgrad.native.contracts.flags import GRAD_ENABLED, INFERENCE_MODE
from fastgrad.native.objects.failures import tuple_of_arguments

MODES = GRAD_ENABLED | INFERENCE_MODE
"""The modes that what an op does depends on: those of a call belong to its key."""


@native_inline
def is_recording():
    """Whether some thread records a function."""
    return runtime().recorder != 0


@native_once
def unplanned():
    """Nothing that this thread is recording becomes a plan. What hooks of a recorded call do is none of it."""
    if is_recording():
        enter()
        if runtime().recorder_thread == runtime().thread and runtime().recorder_paused == 0:
            runtime().recorder = 0


@native_once
def note_warning(frame, text):
    """A function that is recorded warns the code in a frame. A plan can only warn the code that called the function."""
    rt = runtime()
    if is_recording() and frame != rt.recorder_frame:
        unplanned()
    elif is_recording():
        enter()
        calls = rt.recorder
        if rt.recorder_thread == rt.thread and rt.recorder_paused == 0:
            if py_list_append(calls, text) != 0 or py_list_append(calls, none()) != 0:
                py_err_clear()
                rt.recorder = 0


@native_once
def note_call(calls, arguments, count, answer):
    """Add the arguments of a call and its answer to a list. Zero, or -1 without memory."""
    call = tuple_of_arguments(arguments, count)
    status = -1 if call == 0 else py_list_append(calls, call)
    if status == 0:
        status = py_list_append(calls, answer)
    if call != 0:
        py_decref(call)
    if status != 0:
        py_err_clear()
    return status
