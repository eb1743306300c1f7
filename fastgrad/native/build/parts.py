"""Cutting a unit into parts, each a module that LLVM optimises and emits by itself, side by side with the others.

A part holds the functions of a room of the runtime. What it calls of another part stays there, unless it is so small
that a copy is better; see `SMALL`.

Note [Far calls]: Numba's functions give their result through their first argument, and say by what they return whether
there was an exception, whose address comes through the second. There never is one, but in another part LLVM cannot see
that. So what other parts call has a second form in its own, the *far* form, which returns nothing and does without the
second argument. Where it is called from, its place is taken by a function that is inlined, calls the far form and says
that all went well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import llvmlite.binding as llvm

from fastgrad.native.base.intrinsics import OUT_OF_LINE
from fastgrad.native.base.pipeline import Lowered, link
from fastgrad.native.build.machine_code import EXPORTED

SMALL = 96
"""Instructions, not optimised ones, up to which a function is copied into the parts that call it."""


class _Piece(NamedTuple):
    """A function of the unit, which part it belongs to, and the symbols of the functions that it declares to call.

    Numba's own functions belong to no part.
    """

    lowered: Lowered
    part: int | None
    function: llvm.ValueRef
    declared: tuple[str, ...]


def divided(
    functions: Sequence[Lowered], rooms: Sequence[tuple[str, ...]], text: str, roots: Sequence[str]
) -> list[llvm.ModuleRef]:
    """The modules of a unit's parts.

    Parameters
    ----------
    functions : sequence of Lowered
    rooms : sequence of tuple of str
        Python packages whose functions make a part; all others make the first.
    text : str
        LLVM IR that belongs to the first part.
    roots : sequence of str
        The symbols of functions that it declares.
    """
    pieces = _pieces(functions, rooms)
    held: list[dict[str, _Piece]] = []
    far: list[set[str]] = []
    for number in range(len(rooms) + 1):
        own = {symbol: piece for symbol, piece in pieces.items() if piece.part == number}
        called = _called_from(own, pieces, roots if number == 0 else ())
        held.append({**own, **called.copied})
        far.append(called.far)
    modules = []
    for number, there in enumerate(held):
        asked = {s for symbols in far for s in symbols if pieces[s].part == number}
        ends = [_far_form(s, pieces[s].function) for s in sorted(asked)]
        stands = [_stand_in(s, pieces[s].function) for s in sorted(far[number])]
        module = link({id(piece.lowered): piece.lowered for piece in there.values()}.values())
        module.link_in(llvm.parse_assembly("\n".join([*ends, *stands])))
        if number == 0:
            module.link_in(llvm.parse_assembly(text))
        for variable in module.global_variables:
            if variable.name.startswith(EXPORTED):  # the one that is meant is that of the first part
                variable.linkage = llvm.Linkage.available_externally if number else llvm.Linkage.external
        modules.append(module)
    return modules


def _pieces(functions: Sequence[Lowered], rooms: Sequence[tuple[str, ...]]) -> dict[str, _Piece]:
    """The functions of a unit by their symbols."""
    found = {}
    for lowered in functions:
        package = lowered.home.rpartition(".")[0]
        part = next((k for k, room in enumerate(rooms, 1) if package in room), 0) if lowered.home else None
        every = [function for module in lowered.modules for function in module.functions]
        declared = tuple(f.name for f in every if f.is_declaration)
        for function in every:
            if not function.is_declaration and function.name not in found:
                found[function.name] = _Piece(lowered, part, function, declared)
    return found


class _Called(NamedTuple):
    copied: dict[str, _Piece]
    far: set[str]


def _called_from(own: dict[str, _Piece], pieces: dict[str, _Piece], roots: Sequence[str]) -> _Called:
    """What a part calls that is not its own: functions that it gets copies of, and symbols of the others."""
    copied: dict[str, _Piece] = {}
    far = set()
    waiting = [*roots, *(symbol for piece in own.values() for symbol in piece.declared)]
    while waiting:
        symbol = waiting.pop()
        if symbol in own or symbol in copied or symbol in far or symbol not in pieces:
            continue
        piece = pieces[symbol]
        if piece.part is None or _is_small(piece.function):
            copied[symbol] = piece
            waiting += piece.declared
        else:
            far.add(symbol)
    return _Called(copied, far)


def _is_small(function: llvm.ValueRef) -> bool:
    """Whether LLVM is to see a function wherever it is called."""
    if any(name in function.name for name in OUT_OF_LINE):
        return False
    if b"alwaysinline" in function.attributes:
        return True
    count = 0
    for block in function.blocks:
        count += sum(1 for _ in block.instructions)
        if count > SMALL:
            return False
    return True


# --- calls from part to part: Note [Far calls] -----------------------------------------------------------------


def _arguments(function: llvm.ValueRef) -> Iterator[str]:
    """Those of a compiled function after the two that are Numba's, with their types."""
    for k, argument in enumerate(list(function.arguments)[2:]):
        yield f"{argument.type} %a{k}"


def _far_form(symbol: str, function: llvm.ValueRef) -> str:
    types = ", ".join(str(argument.type) for argument in function.arguments)
    given = ", ".join(["ptr %result", *_arguments(function)])
    passed = ", ".join(["ptr %result", "ptr %info", *_arguments(function)])
    return (
        f"declare i32 @{symbol}({types})\n"
        f"define void @{EXPORTED}far_{symbol}({given}) {{\n"
        f"  %info = alloca ptr\n  %code = call i32 @{symbol}({passed})\n  ret void\n}}"
    )


def _stand_in(symbol: str, function: llvm.ValueRef) -> str:
    types = ", ".join(["ptr", *(str(argument.type) for argument in list(function.arguments)[2:])])
    given = ", ".join(["ptr %result", "ptr %info", *_arguments(function)])
    passed = ", ".join(["ptr %result", *_arguments(function)])
    return (
        f"declare void @{EXPORTED}far_{symbol}({types})\n"
        f"define weak_odr i32 @{symbol}({given}) alwaysinline {{\n"
        f"  call void @{EXPORTED}far_{symbol}({passed})\n  ret i32 0\n}}"
    )
