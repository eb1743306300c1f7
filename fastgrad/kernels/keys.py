"""What formulas and options are made of, as text that is equal for equal values, in every process.

Numba takes what a function reads (globals, cells, defaults) into the code as constants. So the key of a kernel holds
the values, not the names, of all that its formula reads. A value that has no such text, say an array or an object that
can change, would make one key stand for several codes: it is refused when the kernel is declared.
"""

from __future__ import annotations

import contextlib
import dis
import struct
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, NoneType
from typing import Any, NamedTuple

import numpy as np

VOCABULARY = ("m", "c")
"""Globals that a formula finds in the loop that it is compiled into: see `ops.vocabulary`."""

_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]


class _Within(NamedTuple):
    """The functions that a value is read by, from the outermost on, and what stands for values without a text."""

    functions: tuple[FunctionType, ...]
    stand_in: Callable[[Any], Any] | None


def by_value(value: Any, stand_in: Callable[[Any], Any] | None = None) -> str:
    """A text that determines a value: a number, a string, a tuple of such, or a function with all that it reads.

    Parameters
    ----------
    value : object
    stand_in : callable, optional
        Gives for what has no text something that has, or None.

    Raises
    ------
    TypeError
        For anything else; its text goes on where one says what the value is for.
    """
    return _text(value, _Within((), stand_in))


def need_values(function: FunctionType) -> None:
    """Raise `by_value`'s error, if a function has one, at a fraction of the cost."""
    for name, value in {**globals_read(function), **cells_of(function), **_defaults_of(function)}.items():
        _value_of(name, value, _Within((function,), None))


def globals_read(function: FunctionType, without: tuple[str, ...] = VOCABULARY) -> dict[str, Any]:
    """The globals that a function reads, but for names that mean something else, or have no value yet."""
    code, known = function.__code__, function.__globals__
    candidates = {name for name in _names(code) if name in known and name not in without}
    if candidates:  # names of attributes stand in the same list
        candidates.intersection_update(_loaded(code))
    return {name: known[name] for name in sorted(candidates)}


def cells_of(function: FunctionType) -> dict[str, Any]:
    """The values that a function has from the functions around it, but for those that have none yet."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _defaults_of(function: FunctionType) -> dict[str, Any]:
    return {"its defaults": function.__defaults__, **(function.__kwdefaults__ or {})}


def _names(code: CodeType) -> Iterator[str]:
    """Names of globals and of attributes, also those of functions that the code defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names(constant)


def _loaded(code: CodeType) -> Iterator[str]:
    """Names of globals, by the instructions."""
    instructions, extended = code.co_code, 0
    for at in range(0, len(instructions), 2):
        operation, argument = instructions[at], instructions[at + 1] | extended
        extended = argument << 8 if operation == dis.EXTENDED_ARG else 0
        if operation == _LOAD_GLOBAL:
            yield code.co_names[argument >> 1]  # the lowest bit is a flag
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _loaded(constant)


def _text(value: Any, within: _Within) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is float:
        return f"float {struct.pack('<d', value).hex()}"
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return f"{value.dtype.str} {value.tobytes().hex()}"
    if kind is tuple:
        return f"({''.join(f'{_text(v, within)},' for v in value)})"
    if kind is frozenset:  # of a test like `x in {1, 2}`
        return f"{{{','.join(sorted(_text(v, within) for v in value))}}}"
    if kind is CodeType:
        return _code(value, within)
    if kind is FunctionType:
        return _function(value, within)
    other = within.stand_in(value) if within.stand_in is not None else None
    if other is not None:
        return _text(other, within)
    raise TypeError(f"a {kind.__module__}.{kind.__qualname__}")


_PLAIN = frozenset((NoneType, bool, int, str, bytes))


def _code(code: CodeType, within: _Within) -> str:
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = (named, code.co_names, code.co_freevars, code.co_cellvars)
    return f"code {code.co_code.hex()} {arguments} {names} {_text(code.co_consts, within)}"


def _function(function: FunctionType, within: _Within) -> str:
    if function in within.functions:
        raise TypeError("which calls itself")
    within = _Within((*within.functions, function), within.stand_in)
    code = function.__code__
    if function.__doc__ and code.co_consts[:1] == (function.__doc__,):
        code = code.replace(co_consts=(None, *code.co_consts[1:]))
    parts = [_code(code, within)]
    vocabulary = VOCABULARY if within.stand_in is None else ()  # only formulas have it
    read = globals_read(function, vocabulary)
    for sort, values in enumerate((read, cells_of(function), _defaults_of(function))):
        parts += [f"{sort} {name} {_value_of(name, value, within)}" for name, value in values.items()]
    return f"[{'; '.join(parts)}]"


def _value_of(name: str, value: Any, within: _Within) -> str:
    try:
        return _text(value, within)
    except TypeError as error:
        raise TypeError(f"which reads `{name}`, {error}") from None
