"""What code names: attributes, globals, variables of functions around it, texts; and which code is entered."""

from __future__ import annotations

import collections
import dis
import sys
import types
from collections.abc import Iterable, Iterator, Set
from typing import Any

_GLOBAL_OPERATIONS = (
    "LOAD_GLOBAL",
    "LOAD_NAME",
    "LOAD_FROM_DICT_OR_GLOBALS",
    "STORE_GLOBAL",
    "DELETE_GLOBAL",
)


def codes(code: types.CodeType, but: Set[types.CodeType] = frozenset()) -> Iterator[types.CodeType]:
    """Code, and that of the functions that are made in it, but for some."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant not in but:
            yield from codes(constant, but)


def names_in(code: types.CodeType, but: Set[types.CodeType] = frozenset()) -> Iterator[str]:
    """The names of attributes and globals in code."""
    for part in codes(code, but):
        yield from part.co_names


def global_names(code: types.CodeType, but: Set[types.CodeType]) -> Iterator[tuple[str, bool]]:
    """The globals that code reads or writes, and whether it writes; attributes may bear the same names."""
    for part in codes(code, but):
        for instruction in dis.get_instructions(part):
            if instruction.opname in _GLOBAL_OPERATIONS:
                yield instruction.argval, instruction.opname == "STORE_GLOBAL"


def texts_in(code: types.CodeType, but: Set[types.CodeType] = frozenset()) -> Iterator[str]:
    """Texts, by which `getattr` may ask for attributes."""
    for part in codes(code, but):
        yield from (constant for constant in part.co_consts if isinstance(constant, str))


def used_cells(code: types.CodeType, but: Set[types.CodeType]) -> Set[str]:
    """The variables of functions around it that code uses other than to hand them on to some code."""
    if not but:
        return set(code.co_freevars)
    return {
        instruction.argval
        for part in codes(code, but)
        for instruction in dis.get_instructions(part)
        if "DEREF" in instruction.opname
    }


def key_of(function: Any) -> int:
    """What tells a function from others: its code, as each call may make another one; else the object itself."""
    return id(getattr(function, "__code__", function))


def _code_of(function: Any) -> Any:
    """The code that a call of a function enters, None if there is none."""
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)


class Entered:
    """A block in which is counted how often functions are entered on this thread.

    Parameters
    ----------
    functions : iterable of callable
        Without any, nothing is counted; nor where somebody profiles.
    """

    def __init__(self, functions: Iterable[Any]) -> None:
        self._keys = {code: key_of(f) for f in functions if (code := _code_of(f)) is not None}
        self._counts: collections.Counter[Any] = collections.Counter()
        self._counts_here = False

    def __enter__(self) -> None:
        self._counts_here = bool(self._keys) and sys.getprofile() is None
        if self._counts_here:
            sys.setprofile(self._note)

    def __exit__(self, *error: object) -> None:
        if self._counts_here and sys.getprofile() == self._note:
            sys.setprofile(None)

    def _note(self, frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in self._keys:
            self._counts[frame.f_code] += 1

    def more_than(self, calls: Iterable[Any]) -> set[int]:
        """The keys of functions that were entered more often than they stand among these calls."""
        expected = collections.Counter(map(_code_of, calls))
        return {key for code, key in self._keys.items() if self._counts[code] > expected[code]}
