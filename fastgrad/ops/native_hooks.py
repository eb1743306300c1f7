"""Hooks that are compiled code: the kernel that calls them, and ops of hooks over elements.

An op of such a hook is declared when the first hook with its formula is made, and stays: see `ops.formulas`.
"""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

from fastgrad.errors import HOOKS_BY_CODE
from fastgrad.kernels.compile import hook_code
from fastgrad.native.build.loader import rt, runtime_set_object
from fastgrad.native.contracts.element_types import UINT8
from fastgrad.native.contracts.frames.hooks import HOOK
from fastgrad.native.contracts.limits import MAX_INPUTS
from fastgrad.native.contracts.ops import FIRST
from fastgrad.native.contracts.records import TENSOR
from fastgrad.ops.formulas import declared
from fastgrad.ops.kernel_table import Kernel

CALL_HOOK = Kernel("hook", "hooks:build", frame=HOOK, dtypes=(UINT8,))
MAX_NUMBERS = MAX_INPUTS - 1
"""Elements of the state that a formula may have."""
PREFIX = "native_hook_"
"""How names of such ops begin."""
_DTYPE = TENSOR.fields["dtype"][0]


def _with_names(function: FunctionType, names: tuple[str, ...]) -> FunctionType:
    """A copy of a function whose parameters have other names, by which an op knows its operands."""
    code = function.__code__
    renamed = code.replace(co_varnames=(*names, *code.co_varnames[len(names) :]))
    return FunctionType(renamed, function.__globals__, function.__name__, None, function.__closure__)


def formula_op(formula: FunctionType, derivative: FunctionType | None, n_numbers: int) -> Any:
    """The op of a hook over elements, which is the same for the same formula of a gradient and some numbers.

    Raises
    ------
    TypeError
        If the key of the formula cannot hold what it reads.
    """
    names = ("x", *(f"number{k}" for k in range(n_numbers)))
    formula = _with_names(formula, names)
    derivative = derivative and _with_names(derivative, names)
    plain = re.sub(r"\W+", "_", formula.__name__)
    derivatives = {} if derivative is None else {names[0]: derivative}
    return declared(
        f"native hook '{formula.__name__}'", f"{PREFIX}{plain}", formula, derivatives,
        rule=FIRST, edges=1, called=plain, node="NativeHookBackward0",
    )  # fmt: skip


def code_of(hook: Any, dtype: int) -> int:
    """The address of a hook for a dtype; called by the runtime where it has none."""
    state = hook._state
    state_dtype = rt.field(state, _DTYPE) if state is not None else -1
    code = hook_code(hook._function, dtype, hook._access, hook._rank, state_dtype)
    HOOKS_BY_CODE[code] = hook._function.__name__
    return code


runtime_set_object("compile_hook", code_of)
