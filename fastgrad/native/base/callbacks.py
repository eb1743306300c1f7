"""Calling Python from compiled code."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import address_of, native, stack_small, words
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import py_vectorcall


@native
def call_python(function, n, a, b, c, d=0):
    """Call a function with up to four arguments; the result, or zero with an exception set. Any code may run."""
    arguments = words(stack_small())
    arguments[0] = a
    arguments[1] = b
    arguments[2] = c
    arguments[3] = d
    answer = py_vectorcall(function, address_of(arguments), n, 0)
    enter()
    return answer
