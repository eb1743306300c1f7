"""Calling Python from compiled code: whatever is called in it is called here, or by CPython's own functions.

Any code may run meanwhile, other threads as well. So the modes are made those of the caller again.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import address_of, native, stack_small, words
from fastgrad.native.base.modes import enter
from fastgrad.native.base.pyapi import py_call_tuple, py_vectorcall


@native
def call_vector(function, arguments, n, keywords=0):
    """Call a function with `n` arguments that stand at an address, and those with the names in a tuple; likewise."""
    answer = py_vectorcall(function, arguments, n, keywords)
    enter()
    return answer


@native
def call_tuple(function, arguments, keywords=0):
    """Call a function with a tuple of arguments and a dict of others, or zero; likewise."""
    answer = py_call_tuple(function, arguments, keywords)
    enter()
    return answer


@native
def call_python(function, n, a=0, b=0, c=0, d=0):
    """Call a function with up to four arguments; the result, or zero with an exception set."""
    arguments = words(stack_small())
    arguments[0] = a
    arguments[1] = b
    arguments[2] = c
    arguments[3] = d
    return call_vector(function, address_of(arguments), n)
