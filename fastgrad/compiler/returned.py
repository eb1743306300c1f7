"""Values that a function reads and does nothing with but return them: a replay gives them back anew.

Note [Values given back]: what Python makes of a number is not on the tape, so a replay may only go on behind a value
that it has not compared if Python would have done the same with any number. That is read off the code of the compiled
function, from the instruction that read the value up to those that return. The number may be stored in local
variables, moved on the stack, put into tuples, lists and dicts with known keys that are made there, dropped, and
returned. Whatever else takes it, a jump by it, an operation, a call, makes it a value that is compared. All ways that
the code can go are followed, and all have to return it at the same places; so have loops and exceptions no place there.

Only values that the function reads by itself are given back, by ``x.item()``, or by ``float(x)``, ``int(x)`` and
``bool(x)`` where these convert nothing. What it calls in between cannot see its variables, unless there is code that
looks at frames. How many things an instruction takes says a table, how many more or less there are then says Python
itself (`dis.stack_effect`): what is not in the table, as in a later version of Python, proves nothing.
"""

from __future__ import annotations

import bisect
import builtins
import dis
import functools
import inspect
import re
import struct
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fastgrad.compiler.guards import Walk, same
from fastgrad.compiler.structure import GivenBack
from fastgrad.native.contracts.element_types import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8
from fastgrad.native.host.tape import ReadValue
from fastgrad.nn.modules.pytree import children, rebuilt
from fastgrad.tensor.values import Values

_WAYS_TO_VARIABLES = (
    "locals", "vars", "dir", "eval", "exec", "_getframe", "_current_frames", "currentframe", "f_locals", "f_back",
    "settrace", "setprofile", "breakpoint", "set_trace",
)  # fmt: skip
"""Names by which code gets at the variables of the functions that call it."""
_INTEGERS = (INT64, INT32, UINT8)
_CONVERSIONS = {"float": (FLOAT32, FLOAT64), "int": _INTEGERS, "bool": (BOOL,)}
"""By a function of Python, the dtypes of which it gives a number as it is."""
_READ_BY_ITEM = (FLOAT32, FLOAT64, *_INTEGERS, BOOL)
_CALLERS = {
    Values.item.__code__: ("item", ()),
    Values._scalar.__code__: ("", (Values.__float__.__code__, Values.__int__.__code__)),
    Values.__bool__.__code__: ("bool", ()),
}
_NAMES = {Values.__float__.__code__: "float", Values.__int__.__code__: "int"}
_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
MOST_STATES = 5_000
"""So many states of the stack and the variables are followed."""

Path = tuple[Any, ...]
Paths = frozenset[Path]
NOWHERE: Paths = frozenset()
_ITSELF: Paths = frozenset([()])
_UNKNOWN = object()


class _Read(NamedTuple):
    """How a value was read: by which method or function, at which instruction."""

    how: str
    offset: int


class _UnprovenError(Exception):
    """Something else than to return it may be done with a value."""


def _own_code(function: Any) -> types.CodeType | None:
    """The code whose result is that of a function as it is."""
    while isinstance(function, (types.MethodType, functools.partial)):
        function = function.__func__ if isinstance(function, types.MethodType) else function.func
    return function.__code__ if isinstance(function, types.FunctionType) else None


class Reads:
    """The values that a call of a function reads by itself.

    Parameters
    ----------
    function : callable
    caller : CodeType
        The code that calls it.
    """

    def __init__(self, function: Callable[..., Any], caller: types.CodeType) -> None:
        code = _own_code(function)
        self._code = code if code is not None and not code.co_flags & _SUSPENDED else None
        self._caller = caller
        self._found: dict[int, _Read] = {}

    def note(self, number: int, frame: Any) -> None:
        """Note a value that was read; `frame`: that of the function of the library that reads it."""
        how, between = _CALLERS.get(frame.f_code, ("", None))
        if between is None or self._code is None:
            return
        frame = frame.f_back
        if between:
            if frame.f_code not in between:
                return
            how, frame = _NAMES[frame.f_code], frame.f_back
        if frame is None or frame.f_code is not self._code or frame.f_back is None:
            return
        if frame.f_back.f_code is not self._caller:
            return
        if how != "item" and frame.f_globals.get(how, getattr(builtins, how)) is not getattr(builtins, how):
            return
        self._found[number] = _Read(how, frame.f_lasti)

    def given_back(self, values: Iterator[ReadValue], walk: Walk, result: Any) -> dict[int, Paths]:
        """Which values are only returned, by their numbers: where they stand in the result.

        `walk`: what the function reaches; `result`: what it returned.
        """
        found: dict[int, Paths] = {}
        if not self._found or walk.names(_WAYS_TO_VARIABLES):
            return found
        assert self._code is not None
        ways = _Ways(self._code)
        for value in values:
            read = self._found.get(value.number)
            if read is None or value.dtype not in _CONVERSIONS.get(read.how, _READ_BY_ITEM):
                continue
            try:
                paths = ways.outcome(read)
            except _UnprovenError:
                continue
            if all(_stands_there(value, result, path) for path in paths):
                found[value.number] = paths
        places = [path for paths in found.values() for path in paths]
        return found if len(set(places)) == len(places) else {}


def _stands_there(value: ReadValue, result: Any, path: Path) -> bool:
    """Whether a value that was read stands at a place in a result."""
    for key in path:
        if type(result) not in (tuple, list, dict):
            return False
        try:
            result = result[key]
        except (KeyError, IndexError):
            return False
    return same(result, number_of(value))


def number_of(value: ReadValue) -> Any:
    """The number that Python read."""
    data = value.bits.to_bytes(8, "little", signed=True)[: value.nbytes]
    return struct.unpack(_FORMATS[value.dtype], data)[0]


_FORMATS = {FLOAT32: "<f", FLOAT64: "<d", INT64: "<q", INT32: "<i", UINT8: "<B", BOOL: "<?"}


def with_marks(result: Any, found: dict[int, Paths]) -> Any:
    """A result with `GivenBack` where the values stand that a call gives back."""
    numbers = {path: number for number, paths in found.items() for path in paths}

    def marked(value: Any, path: Path) -> Any:
        if path in numbers:
            return GivenBack(numbers[path], value)
        if not any(place[: len(path)] == path for place in numbers):
            return value
        keys = value if isinstance(value, dict) else range(len(value))
        return rebuilt(
            value, [marked(item, (*path, key)) for key, item in zip(keys, children(value), strict=True)]
        )

    return marked(result, ()) if numbers else result


# --- code ------------------------------------------------------------------------------------------------------


class _Value(NamedTuple):
    """What stands on the stack: at which places in it the number is, and which constant it is."""

    paths: Paths = NOWHERE
    constant: Any = _UNKNOWN


_OTHER = _Value()


class _State(NamedTuple):
    """What is known at an instruction: the stack, below which others stand, and the variables that hold the number."""

    at: int
    stack: tuple[_Value, ...]
    variables: frozenset[tuple[str, Paths]]


class _Ways:
    """The ways that code can go."""

    def __init__(self, code: types.CodeType) -> None:
        found = dis.Bytecode(code)
        self._code = list(found)
        self._offsets = [instruction.offset for instruction in self._code]
        self._at = {instruction.offset: k for k, instruction in enumerate(self._code)}
        self._guarded = [(entry.start, entry.end) for entry in found.exception_entries]  # type: ignore[attr-defined]

    def outcome(self, read: _Read) -> Paths:
        """Where a value stands in what is returned.

        Raises
        ------
        _UnprovenError
        """
        first = self._behind(read)
        todo = [_State(first, (_Value(_ITSELF),), frozenset())]
        seen = set()
        outcomes: set[Paths] = set()
        while todo:
            state = todo.pop()
            if _key(state) in seen:
                continue
            seen.add(_key(state))
            if len(seen) > MOST_STATES:
                raise _UnprovenError
            instruction = self._code[state.at]
            if any(start <= instruction.offset < end for start, end in self._guarded):
                raise _UnprovenError  # an exception would lead elsewhere
            step = _Step(state)
            if (returned := step.run(instruction)) is not None:
                outcomes.add(returned)
            elif not step.jumps_only:
                todo.append(step.next(state.at + 1))
            if step.target is not None:
                todo.append(step.next(self._at[step.target]))
        if len(outcomes) != 1:
            raise _UnprovenError
        return outcomes.pop()

    def _behind(self, read: _Read) -> int:
        """The instruction behind the call that read a value, which is nothing but that call."""
        at = bisect.bisect_right(self._offsets, read.offset) - 1  # it may be that of a cache behind it
        if self._code[at].opname == "PRECALL":
            at += 1
        call = self._code[at]
        if call.opname != "CALL" or call.arg != (0 if read.how == "item" else 1):
            raise _UnprovenError
        before = at - 1
        while self._code[before].opname in ("PRECALL", "CACHE"):
            before -= 1
        if read.how == "item":
            if self._code[before].opname not in ("LOAD_METHOD", "LOAD_ATTR") or not _pushes_method(
                self._code[before], "item"
            ):
                raise _UnprovenError
        else:
            self._check_function(before, read.how)
        return at + 1

    def _check_function(self, at: int, name: str) -> None:
        """Make sure that what is called with an argument, whose last instruction is given, is a global."""
        needed = 3
        while needed > 0:
            instruction = self._code[at]
            if instruction.is_jump_target or instruction.opcode in _JUMPS:
                raise _UnprovenError
            needed -= _effect(self._code, at)
            at -= 1
        function = self._code[at + 1]
        if needed != 0 or function.opname != "LOAD_GLOBAL" or function.argval != name:
            raise _UnprovenError
        if _effect(self._code, at + 1) != 2:
            raise _UnprovenError


_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


def _key(state: _State) -> Any:
    return state.at, tuple((v.paths, type(v.constant), id(v.constant)) for v in state.stack), state.variables


def _effect(code: list[dis.Instruction], at: int) -> int:
    """By how much an instruction that does not jump lets the stack grow."""
    instruction = code[at]
    if instruction.opname == "PRECALL":  # what it is said to take is taken by the call behind it
        return 0
    if instruction.opname == "CALL":
        return -1 - (instruction.arg or 0)
    argument = instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(instruction.opcode, argument, jump=False)


def _pushes_method(instruction: dis.Instruction, name: str) -> bool:
    """Whether an instruction looks up a method that is called next."""
    if instruction.opname == "LOAD_METHOD":
        return bool(instruction.argval == name)
    return bool(instruction.argval == name and dis.stack_effect(instruction.opcode, instruction.arg) == 1)


_NOTHING = {"NOP", "RESUME", "CACHE", "PRECALL", "EXTENDED_ARG", "KW_NAMES", "NOT_TAKEN"}
_PUSHES = {
    "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "PUSH_NULL", "LOAD_BUILD_CLASS",
}  # fmt: skip
_TAKES = {
    "LOAD_METHOD": 1, "LOAD_ATTR": 1, "BINARY_OP": 2, "BINARY_SUBSCR": 2, "BINARY_SLICE": 3, "COMPARE_OP": 2,
    "IS_OP": 2, "CONTAINS_OP": 2, "UNARY_NOT": 1, "UNARY_NEGATIVE": 1, "UNARY_INVERT": 1, "UNARY_POSITIVE": 1,
    "TO_BOOL": 1,
    "STORE_ATTR": 2, "STORE_SUBSCR": 3, "STORE_GLOBAL": 1, "STORE_DEREF": 1, "GET_ITER": 1, "FORMAT_SIMPLE": 1,
    "POP_JUMP_IF_TRUE": 1, "POP_JUMP_IF_FALSE": 1, "POP_JUMP_IF_NONE": 1, "POP_JUMP_IF_NOT_NONE": 1,
    "POP_JUMP_FORWARD_IF_TRUE": 1, "POP_JUMP_FORWARD_IF_FALSE": 1, "POP_JUMP_FORWARD_IF_NONE": 1,
    "POP_JUMP_FORWARD_IF_NOT_NONE": 1, "POP_JUMP_BACKWARD_IF_TRUE": 1, "POP_JUMP_BACKWARD_IF_FALSE": 1,
    "POP_JUMP_BACKWARD_IF_NONE": 1, "POP_JUMP_BACKWARD_IF_NOT_NONE": 1,
}  # fmt: skip
"""How many things an instruction takes from the stack; what it puts there instead says `dis.stack_effect`."""
_TAKES_AND = {
    "CALL": 2, "CALL_KW": 3, "BUILD_STRING": 0, "BUILD_SLICE": 0, "BUILD_SET": 0,
}  # fmt: skip
"""The same of an instruction that takes as many more as its argument says."""
_ALWAYS = {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"}
_ON_VARIABLES = re.compile("(?:LOAD|STORE|DELETE)_FAST(?:_BORROW|_CHECK|_AND_CLEAR)?")
_LOADS = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW")


class _Step:
    """One instruction, from one state to the next ones."""

    def __init__(self, state: _State) -> None:
        self._stack = list(state.stack)
        self._variables = dict(state.variables)
        self.target: int | None = None
        self.jumps_only = False

    def next(self, at: int) -> _State:
        """The state behind it."""
        while self._stack and self._stack[0] == _OTHER:  # what stands below is not known either
            del self._stack[0]
        return _State(at, tuple(self._stack), frozenset(self._variables.items()))

    def _pop(self) -> _Value:
        return self._stack.pop() if self._stack else _OTHER

    def _take(self, n: int) -> list[_Value]:
        """Take some things; the last one stood on top."""
        return [self._pop() for _ in range(n)][::-1]

    def _take_others(self, n: int) -> None:
        """Take some things, none of which may hold the number."""
        if any(value.paths for value in self._take(n)):
            raise _UnprovenError

    def run(self, instruction: dis.Instruction) -> Paths | None:
        """Run it: where the number stands in what is returned, if it returns.

        Raises
        ------
        _UnprovenError
        """
        name, argument = instruction.opname, instruction.arg or 0
        if name in _NOTHING:
            return None
        if name == "RETURN_VALUE":
            return self._pop().paths
        if name == "RETURN_CONST":
            return NOWHERE
        if name in _ALWAYS:
            self.target, self.jumps_only = instruction.argval, True
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            self._stack.append(_Value(NOWHERE, instruction.argval))
        elif name == "POP_TOP":
            self._pop()
        elif name in ("COPY", "SWAP"):
            self._shuffle(name, argument)
        elif name in ("BUILD_TUPLE", "BUILD_LIST", "BUILD_MAP", "BUILD_CONST_KEY_MAP"):
            self._build(name, argument)
        elif "FAST" in name:
            self._variables_of(name, instruction.argval)
        else:
            self._others(instruction, name, argument)
        return None

    def _shuffle(self, name: str, depth: int) -> None:
        while len(self._stack) < depth:
            self._stack.insert(0, _OTHER)
        if name == "COPY":
            self._stack.append(self._stack[-depth])
        else:
            self._stack[-1], self._stack[-depth] = self._stack[-depth], self._stack[-1]

    def _build(self, name: str, n: int) -> None:
        keys: list[Any] = list(range(n))
        if name == "BUILD_CONST_KEY_MAP":
            keys, items = list(self._pop().constant), self._take(n)
        elif name == "BUILD_MAP":
            pairs = self._take(2 * n)
            keys, items = [key.constant for key in pairs[::2]], pairs[1::2]
            if any(key.paths for key in pairs[::2]):
                raise _UnprovenError
        else:
            items = self._take(n)
        paths = frozenset((key, *path) for key, item in zip(keys, items, strict=True) for path in item.paths)
        known = all(isinstance(key, (str, int)) for key in keys) and len(set(keys)) == len(keys)
        if paths and not known:
            raise _UnprovenError
        self._stack.append(_Value(paths))

    def _variables_of(self, name: str, argument: Any) -> None:
        """An instruction on variables, or one that does what two do one after the other."""
        parts = _ON_VARIABLES.findall(name)
        variables = argument if isinstance(argument, tuple) else (argument,)
        if "_".join(parts) != name or len(parts) != len(variables):
            raise _UnprovenError
        for part, variable in zip(parts, variables, strict=True):
            self._variable(part, variable)

    def _variable(self, name: str, variable: Any) -> None:
        if name in _LOADS:
            self._stack.append(_Value(self._variables.get(variable, NOWHERE)))
            return
        if name not in ("STORE_FAST", "DELETE_FAST"):
            raise _UnprovenError
        self._variables.pop(variable, None)
        if name == "STORE_FAST" and (paths := self._pop().paths):
            self._variables[variable] = paths

    def _others(self, instruction: dis.Instruction, name: str, argument: int) -> None:
        """An instruction that takes things, none of which may hold the number, and gives others."""
        if name == "FORMAT_VALUE":
            n = 2 if argument & 4 else 1
        elif name in _TAKES_AND:
            n = argument + _TAKES_AND[name]
        elif name in _TAKES or name in _PUSHES:
            n = _TAKES.get(name, 0)
        else:
            raise _UnprovenError
        effect = _effect([instruction], 0)
        if n + effect < 0:
            raise _UnprovenError
        self._take_others(n)
        self._stack += [_OTHER] * (n + effect)
        if instruction.opcode in _JUMPS:
            self.target = instruction.argval
