"""Failures become exceptions: Python is told the reason, its facts and what the call was given.

Between a failure and its exception any code may run, which may fail as well. So the facts are read at once, as objects
of their own, and only if they are those of the reason.
"""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.intrinsics import (
    native,
    native_once,
    runtime,
    stack_scratch,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.base.pyapi import (
    py_decref,
    py_err_occurred,
    py_incref,
    py_integer,
    py_tuple_new,
    py_tuple_set,
    raises,
    system_error,
)
from fastgrad.native.contracts.records import MAGIC, TENSOR_KIND
from fastgrad.native.contracts.status import ERROR_WORDS, FACT_TENSORS, FACT_WORDS, NOTED_WORDS
from fastgrad.native.memory.references import drop, retain
from fastgrad.native.objects.handles import wrap_optional

_room_of_facts = stack_scratch(ERROR_WORDS)
has_not_raised = raises(system_error, "what should tell of an error returned instead")


@native_once
def facts_of(reason):
    """The facts of a failure as a tuple: tensors, None for those that are gone, and numbers; zero if that raised."""
    rt = runtime()
    n = FACT_WORDS[-1 - reason]
    tensors = FACT_TENSORS[-1 - reason]
    facts = words(_room_of_facts())
    for k in range(n):
        facts[k] = rt.error[k] if rt.error_reason == reason else 0
        if tensors >> k & 1 and facts[k] != 0:
            if tensor(facts[k]).magic == MAGIC + TENSOR_KIND:
                retain(facts[k])
            else:
                facts[k] = 0
    values = py_tuple_new(n)
    for k in range(n):
        item = 0
        if tensors >> k & 1 and values != 0:
            item = wrap_optional(facts[k])
        elif tensors >> k & 1:
            if facts[k] != 0:
                drop(facts[k])
        elif values != 0:
            item = py_integer(facts[k])
        if item != 0:
            py_tuple_set(values, k, item)
        elif values != 0:
            py_decref(values)
            values = 0
    return values


@native_once
def noted_call():
    """What was noted of a failed call as a tuple of ints, which is nobody's afterwards; zero with an exception set."""
    noted = runtime().failed_call
    values = py_tuple_new(NOTED_WORDS)
    for k in range(NOTED_WORDS):
        item = py_integer(noted[k]) if values != 0 else 0
        if item != 0:
            py_tuple_set(values, k, item)
        elif values != 0:
            py_decref(values)
            values = 0
    noted[0] = 0
    noted[1] = 0
    return values


@native
def tuple_of_arguments(arguments, n):
    """The arguments of a call as a tuple; zero with an exception set."""
    values = py_tuple_new(n)
    if values != 0:
        for k in range(n):
            o = words(arguments)[k]
            py_incref(o)
            py_tuple_set(values, k, o)
    return values


@native
def tell(function, entry, status, arguments, n):
    """Let a function of Python raise what a status of an entry called with these arguments stands for; zero."""
    if py_err_occurred() != 0:
        return 0
    frame = words(stack_small())
    frame[0] = py_integer(entry)
    frame[1] = py_integer(status)
    frame[2] = facts_of(status)
    frame[3] = tuple_of_arguments(arguments, n)
    if frame[0] != 0 and frame[1] != 0 and frame[2] != 0 and frame[3] != 0:
        answer = call_python(function, 4, frame[0], frame[1], frame[2], frame[3])
        if answer != 0:
            py_decref(answer)
            has_not_raised()
    for k in range(4):
        if frame[k] != 0:
            py_decref(frame[k])
    return 0


@native_once
def call_refused(status, arguments, n):
    """Let Python raise what a status of a call of an op with these arguments stands for; zero."""
    return tell(runtime().op_failed, 0, status, arguments, n)


@native_once
def entry_refused(entry, status, arguments, n):
    """Let Python raise what a status of an entry called with these arguments stands for; zero."""
    return tell(runtime().entry_failed, entry, status, arguments, n)
