"""What code names: attributes, globals, variables of functions around it, texts."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator, Set

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
