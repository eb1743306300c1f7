"""Functions that decide once for calls that look alike: see Note [Plans] in `native.python.plans`."""

from __future__ import annotations

import copyreg
import functools
import itertools
import struct
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fastgrad.dtypes import dtype
from fastgrad.functions.argument_names import BETWEEN, taking_names
from fastgrad.functions.memory_format import layout, memory_format
from fastgrad.native.build.loader import Planned, TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.python_types import (
    A_NAMED_RESULT,
    A_NUMBER,
    A_TENSOR_RESULT,
    A_TUPLE_RESULT,
    A_VALUE,
    N_CONSTANT_TYPES,
    NO_OPERAND,
    NO_RESULT,
    PLAN_STEPS,
    PLAN_WARNINGS,
)
from fastgrad.places import device

Function = TypeVar("Function", bound=Callable[..., Any])

HEAD = 3  # of the arguments of a recorded call: the op, the number of operands, the number of outputs
IN_PLACE = -1
MOST_WORDS, MOST_VALUES = 92, 60  # of a step, of all steps: what there is room for, less the outputs of one
_NUMBERS = {int: A_NUMBER, float: A_NUMBER + 1, bool: A_NUMBER + 2}
_NO_STEPS = (None, None, None)
_NO_PLAN = (None, None, None, None)
_CONSTANTS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by their identities

unplanned = rt.unplanned
"""Say that a call does something that a plan would not do again."""


def warn(text: str, stacklevel: int) -> None:
    """Warn as `warnings.warn` does; where that is the caller of a function that is planned, its plan does so again."""
    frame: Any = sys._getframe()
    for _ in range(stacklevel):
        frame = frame and frame.f_back
        while frame and frame.f_code in BETWEEN:
            frame, stacklevel = frame.f_back, stacklevel + 1
    rt.note_warning(frame, text)
    warnings.warn(text, stacklevel=stacklevel + 1)


def planned(function: Function) -> Function:
    """Let the runtime repeat what a function called, without Python, for calls that look alike.

    What the function does may depend on sizes, strides, dtypes and flags of tensors, on the values of its other
    arguments and on the mode of gradients; where it depends on anything else, it has to call `unplanned`. It warns by
    `warn`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.functional.linear.__name__
    'linear'
    """
    called = taking_names(function) or function
    return functools.update_wrapper(rt.planned(called), function)  # type: ignore[return-value]


copyreg.pickle(Planned, lambda function: function.__qualname__)  # type: ignore[arg-type, attr-defined, misc]


def constant(tensor: Any) -> Any:
    """A tensor that is kept and never changes: what is planned may give it to ops. It is no argument, and no result."""
    _CONSTANTS[id(tensor)] = tensor
    return tensor


def constants() -> list[Any]:
    """The tensors that are kept so."""
    return list(_CONSTANTS.values())


Made = tuple[bytes | None, Any, tuple[str, ...] | None, tuple[Any, ...] | None]


def _planned(tensors: Sequence[Any], calls: Sequence[Any], result: Any) -> Made:
    """The steps of a plan, what makes its result if that is a named tuple, the texts of its warnings, its constants.

    Nothing where the calls are no plan: a plan warns before it runs steps.
    """
    texts = tuple(itertools.takewhile(lambda call: type(call) is str, calls[::2]))
    rest = calls[2 * len(texts) :]
    if any(type(call) is str for call in rest[::2]):
        return _NO_PLAN
    steps, make, constants = _steps(tensors, rest, result)
    return steps, make, texts or None, constants or None


def _constants(tensors: Sequence[Any], pairs: Sequence[Any]) -> tuple[Any, ...]:
    """The constants among the operands of calls."""
    given = {id(t) for t in tensors}
    operands = (o for arguments, _ in pairs for o in arguments[HEAD : HEAD + arguments[1]])
    found = {
        id(o): o for o in operands if o is not None and id(o) not in given and _CONSTANTS.get(id(o)) is o
    }
    return tuple(found.values())


def _steps(
    tensors: Sequence[Any], calls: Sequence[Any], result: Any
) -> tuple[bytes | None, Any, tuple[Any, ...] | None]:
    """The steps of a plan, for a named tuple what makes it, and constants; nothing if the calls are no plan."""
    pairs = list(zip(calls[::2], calls[1::2], strict=True))
    constants = _constants(tensors, pairs)
    places: dict[int, int] = {}
    for k, t in enumerate((*tensors, *constants)):
        places.setdefault(id(t), k)
    n_values, words = len(tensors) + len(constants), []
    for k, (arguments, answer) in enumerate(pairs, 1):
        op, n, n_outs = arguments[:HEAD]
        operands, integers = arguments[HEAD : HEAD + n], arguments[HEAD + n :]
        made = answer if type(answer) is tuple else () if n_outs == IN_PLACE else (answer,)
        encoded = [_operand(o, places) for o in operands]
        too_long = len(arguments) + max(len(made), 4) > MOST_WORDS
        if None in encoded or too_long or (n_outs == IN_PLACE and k < len(pairs)):
            return _NO_STEPS
        words += [op, n, n_outs, len(integers), *(w for pair in encoded for w in pair or ()), *integers]
        for t in made:
            places[id(t)] = n_values
            n_values += 1
    if n_values > MOST_VALUES:
        return _NO_STEPS
    return *_with_result(len(pairs), words, result, places), constants


def _operand(o: Any, places: dict[int, int]) -> tuple[int, int] | None:
    """An operand of a step as two words; None for a tensor that comes from elsewhere."""
    if o is None:
        return NO_OPERAND, 0
    if isinstance(o, TensorBase):
        return (A_VALUE, places[id(o)]) if id(o) in places else None
    kind = _NUMBERS.get(type(o))
    if kind is None:
        return None
    return kind, struct.unpack("<q", struct.pack("<d", o))[0] if type(o) is float else int(o)


def _with_result(
    n_steps: int, steps: list[int], result: Any, places: dict[int, int]
) -> tuple[bytes | None, Any]:
    """The words of a plan: how many steps, what the result is, the steps."""
    if result is None:
        return struct.pack(f"<{3 + len(steps)}q", n_steps, 0, NO_RESULT, *steps), None
    make = getattr(type(result), "_make", None)
    is_tensor = isinstance(result, TensorBase)
    kind = A_TENSOR_RESULT if is_tensor else A_NAMED_RESULT if make else A_TUPLE_RESULT
    items = (result,) if is_tensor else result
    if not is_tensor and type(result) is not tuple and make is None:
        return None, None
    if not all(isinstance(t, TensorBase) and id(t) in places for t in items):
        return None, None
    words = [n_steps, len(items), kind, *(places[id(t)] for t in items), *steps]
    return struct.pack(f"<{len(words)}q", *words), make


def _make_plan(tensors: Any, calls: Any, result: Any, before: Any) -> Made:
    """What the runtime asks for after a recorded call; SystemError if `before` is the plan of another one."""
    made = _NO_PLAN if calls is None else _planned(tensors, calls, result)
    if before is not None:
        for place, found in ((PLAN_STEPS, made[0]), (PLAN_WARNINGS, made[2])):
            if before[place] != found:
                raise SystemError(f"a plan says {before[place]!r}, but the function calls {found!r}")
    return made


runtime_set_object("make_plan", _make_plan)
runtime_set_object("warnings", vars(warnings))
runtime_set_object("warn_name", "warn")
for _place, _kind in zip(range(N_CONSTANT_TYPES), (dtype, device, memory_format, layout), strict=True):
    runtime_set_object("constant_types", _kind, _place)
