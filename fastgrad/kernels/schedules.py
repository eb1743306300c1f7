"""What of a program (`programs`) is computed when: before all rows, before a row, and in which loop over it.

Note [Phases]: what a row is reduced to is known when its loop is over, so what needs it is computed in another loop
over the row, in the next phase. A value of one phase that a later one needs is read again, where it lies in memory;
computed again, where that is cheap; and else kept in the launch's room, a row of it for each such value. So a row
should fit into the cache, and does not have to.
"""

from __future__ import annotations

from typing import NamedTuple

from fastgrad.kernels.programs import (
    ADD_UP,
    APPLY,
    CONSTANT,
    ELEMENT,
    LOAD,
    REDUCE,
    ROW,
    SCALAR,
    STORE,
    Instruction,
    Program,
)
from fastgrad.native.contracts.frames.fused import LENGTH_TOGETHER, PITCH, ROWS_TOGETHER

CHEAP = 6
"""Instructions up to which a value is computed again rather than kept."""

COMPUTE, READ_RESULT, READ_ROOM, KEEP, ADD, ADD_COLUMN, WRITE = (
    "compute",
    "read result",
    "read room",
    "keep",
    "add",
    "add to columns",
    "write",
)
"""What a step of a loop does: compute a value; read one from the result of a number, or from the room; write one there;
add one to a reduction, or to the sums of columns that go to the result of a number; write one to a result."""


class Step(NamedTuple):
    """A step of a loop over a row: what is done, with which value, and the number of a result, if there is one."""

    what: str
    value: int
    result: int = -1


class Loop(NamedTuple):
    """The loop of a phase: its steps, what is reduced in it, and which values of rows or for all it reads."""

    phase: int
    steps: tuple[Step, ...]
    reductions: tuple[Instruction, ...]
    outer: tuple[int, ...]


class Phases:
    """When each value of a program can be known.

    Attributes
    ----------
    level, phase, dtype : dict
        Of each value. The phase of what a row has alone is the one behind which it is known, -1 if before all.
    last : int
        The last phase.
    reductions, stores, columns : list of Instruction
        What rows are reduced by, what is stored, and what is added up by columns.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.made = {i.value: i for i in program.code if i.value >= 0}
        self.columns = [i for i in program.code if i.kind == ADD_UP]
        self.stores = [i for i in program.code if i.kind == STORE]
        self.reductions = [i for i in program.code if i.kind == REDUCE]
        self.level: dict[int, int] = {}
        self.phase: dict[int, int] = {}
        self.dtype: dict[int, int] = {}
        for i in self.made.values():
            self._place(i)
        self.last = max(
            [self.phase[i.value] for i in self.reductions]
            + [self._known_in(i) for i in (*self.stores, *self.columns)],
            default=0,
        )

    def _place(self, i: Instruction) -> None:
        if i.kind == LOAD:
            place = self.program.ins[int(i.about[0])]
            self.level[i.value], self.dtype[i.value] = place.level, place.dtype
        elif i.kind == APPLY:
            self.level[i.value] = max((self.level[a] for a in i.args), default=SCALAR)
            self.dtype[i.value] = int(i.about[3])
        elif i.kind == REDUCE:
            self.level[i.value], self.dtype[i.value] = ROW, int(i.about[2])
        else:
            self.level[i.value], self.dtype[i.value] = SCALAR, int(i.about[0])
        in_loop = i.kind == REDUCE or self.level[i.value] == ELEMENT
        phases = [self.phase[a] + (self.level[a] == ROW and in_loop) for a in i.args]
        self.phase[i.value] = max([0 if in_loop else -1, *phases])

    def store_phase(self, i: Instruction) -> int:
        """In which loop something is stored; for rows, behind which."""
        return self._known_in(i)

    def _known_in(self, i: Instruction) -> int:
        (value,) = i.args
        if self.program.outs[int(i.about[0])].level == ROW:
            return self.phase[value]
        return max(self.phase[value] + (self.level[value] == ROW), 0)

    def stored_in(self, phase: int) -> list[Instruction]:
        """What the loop of a phase stores."""
        outs = self.program.outs
        return [
            i for i in self.stores if outs[int(i.about[0])].level == ELEMENT and self.store_phase(i) == phase
        ]

    def known_behind(self, phase: int) -> list[Instruction]:
        """What is computed, or read, for a row alone behind the loop of a phase; before all, of -1."""
        return [
            i
            for i in self.made.values()
            if i.kind != REDUCE and self.level[i.value] == ROW and self.phase[i.value] == phase
        ]


class Schedule(Phases):
    """The order of a program, with a loop for each phase.

    Attributes
    ----------
    loops : list of Loop
    rooms : dict
        The values that are kept, and which row of the room each has. Each of `columns` has two rows behind those.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.rooms: dict[int, int] = {}
        # The last phase first: what it needs of earlier ones is kept there.
        self.loops = [_Filling(self, phase).loop() for phase in range(self.last, -1, -1)][::-1]

    @property
    def rows_together(self) -> int:
        """How many short rows are taken through each phase at a time."""
        return ROWS_TOGETHER if self.last > 0 and not self.columns else 1

    def room(self, length: int) -> int:
        """How many bytes of room there have to be for rows of a length."""
        together = self.rows_together if length <= LENGTH_TOGETHER else 1
        rows = len(self.rooms) * together + 2 * len(self.columns)
        return rows * ((length + PITCH) // PITCH * PITCH * 8)

    def kept(self, phase: int) -> list[int]:
        """What is known of a row behind the loop of a phase, or before, that a later phase needs."""
        needed = {value for later in range(phase + 1, self.last + 1) for value in self.read_in(later)}
        return [value for value in self.made if value in needed and max(self.phase[value], 0) == phase]

    def read_in(self, phase: int) -> set[int]:
        """What has been known of a row before that is needed in a phase."""
        args = [a for i in self.known_behind(phase) for a in i.args]
        found = {*self.loops[phase].outer, *args}
        return {value for value in found if self.level[value] == ROW and max(self.phase[value], 0) < phase}

    def result_with(self, value: int) -> int:
        """The number of a result with these elements, or -1."""
        for i in self.stores:
            place = self.program.outs[int(i.about[0])]
            if i.args == (value,) and place.level == ELEMENT and place.dtype == self.dtype[value]:
                return int(i.about[0])
        return -1


class _Filling:
    """Finds the steps of the loop of a phase."""

    def __init__(self, schedule: Schedule, phase: int) -> None:
        self.schedule, self.phase = schedule, phase
        self.steps: list[Step] = []
        self.outer: list[int] = []
        self.done: set[int] = set()

    def loop(self) -> Loop:
        s = self.schedule
        reductions = [i for i in s.reductions if s.phase[i.value] == self.phase]
        stores = s.stored_in(self.phase)
        kept = [value for value in s.rooms if s.phase[value] == self.phase]
        for i in s.program.code:
            if i in reductions:
                self.need(i.args[0])
                self.steps.append(Step(ADD, i.value))
            elif i in stores:
                self.need(i.args[0])
            elif i.kind == ADD_UP and s.store_phase(i) == self.phase:
                self.need(i.args[0])
                self.steps.append(Step(ADD_COLUMN, i.args[0], int(i.about[0])))
        for value in kept:
            self.need(value)
            self.steps.append(Step(KEEP, value))
        self.steps += [Step(WRITE, i.args[0], int(i.about[0])) for i in stores]
        return Loop(self.phase, tuple(self.steps), tuple(reductions), tuple(self.outer))

    def need(self, value: int) -> None:
        """Have a value in the loop."""
        s = self.schedule
        if value in self.done:
            return
        self.done.add(value)
        i = s.made[value]
        if i.kind == CONSTANT:
            return
        if s.level[value] != ELEMENT:
            self.outer.append(value)
        elif s.phase[value] == self.phase or self.again(i) <= CHEAP:
            for a in i.args:
                self.need(a)
            self.steps.append(Step(COMPUTE, value))
        elif (result := s.result_with(value)) >= 0:
            self.steps.append(Step(READ_RESULT, value, result))
        else:
            s.rooms.setdefault(value, len(s.rooms))
            self.steps.append(Step(READ_ROOM, value))

    def again(self, i: Instruction) -> int:
        """What it costs to compute a value of an earlier phase again."""
        s = self.schedule
        if i.kind == LOAD:
            result = s.program.ins[int(i.about[0])].result
            stores = [j for j in s.stores if int(j.about[0]) == result]
            return CHEAP + 1 if any(s.store_phase(j) < self.phase for j in stores) else 1
        cost = int(i.about[4])
        if cost <= CHEAP:
            args = (s.made[a] for a in i.args if s.level[a] == ELEMENT and a not in self.done)
            cost += sum(self.again(a) for a in args)
        return cost
