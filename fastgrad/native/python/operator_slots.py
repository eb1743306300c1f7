"""The operators of Python as slots of the tensor type: `a * b` reaches the compiled dispatch without a Python frame.

Two tensors, a tensor and an int or float: compiled. Everything else, and whatever failed, goes to `_operator` in
`tensor/operators.py`, which repeats the call the long way: that call raises the exception, if there is one. `k` is the
number of an operator in `contracts.ops.OPERATORS`. All answer with a new reference, or zero with an exception set.
"""

from __future__ import annotations

from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import native, native_once, runtime
from fastgrad.native.base.modes import get_mode
from fastgrad.native.base.pyapi import (
    float_type,
    int_type,
    none,
    py_decref,
    py_err_clear,
    py_err_occurred,
    py_float_value,
    py_integer,
    py_integer_value,
)
from fastgrad.native.contracts.flags import GPU_AUTOCAST
from fastgrad.native.contracts.ops import OPERATORS
from fastgrad.native.dispatch.operators import binary_operator, scalar_operator, unary_operator
from fastgrad.native.objects.handles import operand_handle, type_of, wrap
from fastgrad.native.python.recorder import is_recording

FIRST_COMPARISON = OPERATORS.index("lt")


@native_once
def operator_in_python(a, b, k):
    """Let Python do it, unless an exception is set: by a hook, while the compiled form ran.

    So it does while a function is recorded: what Python calls is.
    """
    if py_err_occurred() != 0:
        return 0
    number = py_integer(k)
    if number == 0:
        return 0
    answer = call_python(runtime().operator_fallback, 3, a, b, number)
    py_decref(number)
    return answer


@native_once
def operator_with_number(a, b, k):
    """An operator over a tensor and a number, or whatever else."""
    left = operand_handle(a)
    handle = left if left != 0 else operand_handle(b)
    other = b if left != 0 else a
    # What a number is divided by is inverted, which in autocast is a function that chooses its dtype.
    if handle == 0 or (left == 0 and get_mode() & GPU_AUTOCAST):
        return operator_in_python(a, b, k)
    is_real = type_of(other) == float_type()
    if not is_real and type_of(other) != int_type():
        return operator_in_python(a, b, k)
    real = 0.0
    integer = 0
    if is_real:
        real = py_float_value(other)
    else:
        integer = py_integer_value(other)
        if integer == -1 and py_err_occurred() != 0:  # beyond 64 bits
            py_err_clear()
            return operator_in_python(a, b, k)
    op = runtime().operators[k]
    out = scalar_operator(op, handle, 1 if is_real else 0, real, integer, 0 if left != 0 else 1)
    return wrap(out) if not failed(out) else operator_in_python(a, b, k)


@native_once
def operator(a, b, k):
    """An operator over two objects."""
    left = operand_handle(a)
    right = operand_handle(b)
    if is_recording():
        return operator_in_python(a, b, k)
    if left == 0 or right == 0:
        return operator_with_number(a, b, k)
    out = binary_operator(runtime().operators[k], left, right)
    return wrap(out) if not failed(out) else operator_in_python(a, b, k)


@native_once
def operator_of_one(a, k):
    """An operator over one object."""
    handle = operand_handle(a) if not is_recording() else 0
    out = unary_operator(runtime().operators[k], handle) if handle != 0 else -1
    return wrap(out) if not failed(out) else operator_in_python(a, none(), k)


@native
def comparison(a, b, which):
    """The slot of all comparisons; `which` is one of Py_LT to Py_GE."""
    return operator(a, b, FIRST_COMPARISON + which)


@native
def hash_of(o):
    """Tensors are told apart by identity."""
    return o >> 4
