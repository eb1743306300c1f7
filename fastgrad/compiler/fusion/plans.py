"""From a group of launches to a program, and to the frame of the launch that runs it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.compiler.fusion.accesses import Mapping, Operand
from fastgrad.compiler.fusion.groups import Group
from fastgrad.compiler.fusion.launches import (
    COLUMNS,
    ELEMENTWISE,
    REDUCTION,
    Entry,
    cost_of,
    literal_of,
    over_rows,
)
from fastgrad.kernels.programs import (
    ADD_UP,
    APPLY,
    COLUMN,
    CONSTANT,
    DENSE,
    ELEMENT,
    LOAD,
    NUMBER,
    REDUCE,
    ROW,
    SCALAR,
    STORE,
    Instruction,
    Place,
    Program,
)
from fastgrad.kernels.schedules import Schedule
from fastgrad.native.contracts.element_types import FLOAT32, WIDE
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.fused import (
    FUSED_ROWS,
    MAX_INS,
    MAX_NUMBERS,
    MAX_OUTS,
    MAX_STEPS,
    PIECE,
)
from fastgrad.ops.elementwise import SMALL_POWERS

_EXPONENTS = {"pow": "b", "pow_da": "b"}
_SMALL = {struct.unpack("<q", struct.pack("<d", power))[0] for power in (*SMALL_POWERS, 1.5, 4.0)}
"""Operands of formulas, and bits of numbers there that become a part of the program, of these and those less one: see
Note [Small powers] in `kernels.powers`. Others would be a program each."""

IsWritten = Callable[[Operand], bool]


class Plan(NamedTuple):
    """A launch in place of several.

    Attributes
    ----------
    program : Program
    kernels : dict
        The rows of the kernel table whose formulas the program names.
    words : list of int
        Its frame; without an address of room.
    room : int
        Bytes that each thread of the CPU needs room for.
    work : int
    written, kept : list of Operand
        What the group writes to memory, and what it would have written without being one launch.
    """

    program: Program
    kernels: dict[str, Any]
    words: list[int]
    room: int
    work: int
    written: list[Operand]
    kept: list[Operand]


class TooLargeError(Exception):
    """A group does not fit into a frame."""


def plan(group: Group, members: list[Entry], entries: list[Entry], is_written: IsWritten) -> Plan:
    """The launch of some members of a group.

    `is_written` answers whether memory that the group writes has to be written; what the group itself reads of it from
    before is written anyway.
    """
    planner = _Planner(group, members, entries)
    planner.follow()
    return planner.plan(is_written)


class _Planner:
    """Follows the members of a group, value by value."""

    def __init__(self, group: Group, members: list[Entry], entries: list[Entry]) -> None:
        self.members, self.entries = members, entries
        self.numel, self.device = group.numel, group.device
        # Of a part of a group, whose reduction another part has, there may be what runs over rows.
        by_rows = any(e.length or e.numel != group.numel for e in members)
        self.length = group.length if by_rows else 0
        self.grain = next((e.grain for e in members if e.grain), 1)
        self.code: list[Instruction] = []
        self.values: dict[Operand, int] = {}
        self.loaded: dict[int, Operand] = {}  # values that are read from memory
        self.stored: dict[Operand, tuple[int, int]] = {}  # the last value of each result, and its level
        self.added: dict[Operand, tuple[str, int]] = {}  # sums of columns
        self.numbers: list[tuple[int, int]] = []
        self.kernels: dict[str, Any] = {}

    def _make(self, kind: str, about: tuple[str | int, ...], args: tuple[int, ...] = ()) -> int:
        self.code.append(Instruction(kind, len(self.code), about, args))
        return len(self.code) - 1

    # --- values ----------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Write an instruction for each member."""
        for entry in self.members:
            by_row = entry.what == ELEMENTWISE and entry.numel != self.numel
            args: tuple[int, ...] = tuple(
                self._value(entry, k, operand, by_row) for k, operand in enumerate(entry.ins)
            )
            if entry.what == COLUMNS:
                self.stored[entry.out] = (args[0], COLUMN)
                self.added[entry.out] = (entry.kernel.options["reduction"], entry.dtype)
                continue
            if entry.what == REDUCTION:
                name = entry.kernel.options["reduction"]
                value = self._make(REDUCE, (name, entry.dtype, entry.out.dtype), args)
            else:
                formula = entry.formula
                self.kernels[formula.name] = formula
                about = (formula.name, entry.dtype, FLAT, entry.out.dtype, cost_of(formula))
                if entry.scale:
                    args = (args[0], self._number(entry.scale), args[1])
                value = self._make(APPLY, about, args)
            by_row = by_row or entry.what == REDUCTION
            out = over_rows(entry.out, self.length) if by_row else entry.out
            self.values[out] = value
            self.stored[out] = (value, ROW if by_row else ELEMENT)

    def _value(self, entry: Entry, k: int, operand: Operand, by_row: bool) -> int:
        """The value of an operand."""
        if k in entry.literals:
            number = literal_of(self.entries[entry.literals[k]], operand)
            assert number is not None
            is_exponent = _EXPONENTS.get(entry.formula.name) in entry.formula.inputs[k : k + 1]
            is_small = not self.device and number[0] in WIDE and number[1] in _SMALL
            return self._make(CONSTANT, number) if is_exponent and is_small else self._number(number)
        if by_row:
            operand = over_rows(operand, self.length)
        found = self.values.get(operand)
        if found is None:
            found = self.values[operand] = self._make(LOAD, (operand.address,))
            self.loaded[found] = operand
        return found

    def _number(self, number: tuple[int, int]) -> int:
        """The value that a number is."""
        if number not in self.numbers:
            self.numbers.append(number)
        return self._make(NUMBER, (number[0], self.numbers.index(number)))

    # --- the program -----------------------------------------------------------------------------------------

    def plan(self, is_written: IsWritten) -> Plan:
        outs = [o for o in self.stored if is_written(o)]
        needed = self._needed([self.stored[o][0] for o in outs])
        again = True
        while again:  # what the group reads from before, and writes over, is written
            read = {self.loaded[v].address for v in needed if v in self.loaded}
            more = [o for o in self.stored if o.address in read and o not in outs]
            outs += more
            needed = self._needed([self.stored[o][0] for o in outs])
            again = bool(more)
        outs = [o for o in self.stored if o in outs]
        self._frame(outs, needed)
        room = Schedule(self.program).room(self.inner) if self.rows and not self.device else 0
        return Plan(
            self.program, self.kernels, self.words, room, self.numel * max(len(self.members) // 2, 1),
            outs, [o for o in self.stored if o not in outs],
        )  # fmt: skip

    def _needed(self, values: list[int]) -> set[int]:
        """These values, and all that they are computed from."""
        needed: set[int] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value not in needed:
                needed.add(value)
                waiting += self.code[value].args
        return needed

    def _frame(self, outs: list[Operand], needed: set[int]) -> None:
        """Lay out the frame, and write the program over it."""
        loads = [v for v in sorted(needed) if v in self.loaded]
        dims = self._dims([*(o for o in outs if o not in self.added), *(self.loaded[v] for v in loads)])
        self.rows = len(dims) > 1 or self.length > 0
        self.inner = dims[0]
        steps: list[int] = []
        places = [self._place(o, self.stored[o][1], dims, steps) for o in outs]
        by_address = {o.address: k for k, o in enumerate(outs)}
        ins = [
            self._place(self.loaded[v], None, dims, steps)._replace(
                result=by_address.get(self.loaded[v].address, -1)
            )
            for v in loads
        ]
        used = sorted({self.code[v].about for v in needed if self.code[v].kind == NUMBER})
        numbers = [self.numbers[int(k)] for _, k in used]
        if len(outs) > MAX_OUTS or len(ins) > MAX_INS or len(steps) > MAX_STEPS or len(numbers) > MAX_NUMBERS:
            raise TooLargeError
        self._program(
            outs, places, loads, ins, needed, {about: k for k, about in enumerate(used)}, len(dims) - 1
        )
        self.words = [0] * FUSED_ROWS.words
        count = -(-self.inner // PIECE) if not self.rows else self.numel // self.inner
        for field, found in (
            ("rows", [count]), ("grain", [self.grain]), ("n", [self.inner]), ("outer", dims[1:]),
            ("outs", [o.address for o in outs]), ("ins", [self.loaded[v].address for v in loads]), ("steps", steps),
            ("numbers", [self._word(*number) for number in numbers]),
            ("room", [self.numel // self.grain] if self.device and self.added else []),
        ):  # fmt: skip
            at = FUSED_ROWS.place(field)
            self.words[at : at + len(found)] = found

    def _word(self, dtype: int, bits: int) -> int:
        """The word of a frame that a number is: kernels of GPUs get those of float32 as such."""
        if self.device and dtype == FLOAT32:
            (bits,) = struct.unpack("<i", struct.pack("<f", *struct.unpack("<d", struct.pack("<q", bits))))
        return bits

    def _program(
        self, outs: list[Operand], places: list[Place], loads: list[int], ins: list[Place], needed: set[int],
        numbers: dict[tuple[str | int, ...], int], outer: int,
    ) -> None:  # fmt: skip
        code: list[Instruction] = []
        names: dict[int, int] = {}
        for v in sorted(needed):
            kind, _, about, args = self.code[v]
            if kind == LOAD:
                about = (loads.index(v),)
            elif kind == NUMBER:
                about = (about[0], numbers[about])
            names[v] = len(code)
            code.append(Instruction(kind, names[v], about, tuple(names[a] for a in args)))
        for k, o in enumerate(outs):
            kind, about = (ADD_UP, (k, *self.added[o])) if o in self.added else (STORE, (k,))
            code.append(Instruction(kind, -1, about, (names[self.stored[o][0]],)))
        self.program = Program(
            self.rows, max(outer, 1) if self.rows else 0, tuple(places), tuple(ins), tuple(code)
        )

    def _dims(self, operands: list[Operand]) -> list[int]:
        """The dimensions that the program runs over, from the innermost on: one for elements in a line."""
        borders = {self.length} if self.length and self.length != self.numel else set()
        for operand in operands:
            below = 1
            for size, _ in operand.mapping[:-1]:
                below *= size
                borders.add(below)
        chain = [1, *sorted(borders), self.numel]
        return [b // a for a, b in itertools.pairwise(chain)]

    def _place(self, operand: Operand, level: int | None, dims: list[int], steps: list[int]) -> Place:
        strides = _strides(operand.mapping, dims)
        if level is None:
            level = ELEMENT if strides[0] else ROW if any(strides) else SCALAR
        dense, following = [], dims[0] if level == ELEMENT else 1
        for size in dims[1:]:
            dense.append(following)
            following *= size
        if level in (SCALAR, COLUMN) or strides[1:] == dense:
            return Place(operand.dtype, level)
        for stride in strides[1:]:
            if stride and stride not in steps:
                steps.append(stride)
        return Place(operand.dtype, level, tuple(steps.index(s) if s else DENSE for s in strides[1:]))


def _strides(mapping: Mapping, dims: list[int]) -> list[int]:
    """The strides of a mapping over dimensions into which its sizes fall."""
    strides, pairs = [], list(mapping)
    size, stride = pairs.pop(0) if pairs else (1, 0)
    for dim in dims:
        strides.append(stride if size > 1 else 0)
        size //= dim
        stride *= dim
        if size <= 1 and pairs:
            size, stride = pairs.pop(0)
    return strides
