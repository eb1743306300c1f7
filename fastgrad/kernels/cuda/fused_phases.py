"""What the threads of a row do in each phase of a fused kernel of GPUs.

Note [Kept values]: a thread has a share of a row. What an earlier phase has read or computed for it stays in registers,
if rows are no longer than the shares of all threads; of longer rows it is read and computed again, so there is no
memory of a launch's own. What is cheap and follows from one value is computed again in any case, which takes fewer
registers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fastgrad.kernels.programs import APPLY, ELEMENT, LOAD, Instruction, Program
from fastgrad.kernels.schedules import CHEAP, Phases
from fastgrad.native.contracts.element_types import ITEMSIZES


class Pass(NamedTuple):
    """What is done with each element of a row in a phase.

    Attributes
    ----------
    reads : list of int
        Values that are read, which no earlier phase has read.
    kept : list of int
        Values of earlier phases that it needs.
    code : list of Instruction
        The formulas that are computed.
    outer : list of int
        Values for a row, or for all, that these take.
    reductions, stores : list of Instruction
    """

    reads: list[int]
    kept: list[int]
    code: list[Instruction]
    outer: list[int]
    reductions: list[Instruction]
    stores: list[Instruction]

    @property
    def given(self) -> list[int]:
        """The values of elements that its formulas begin with."""
        return [*self.reads, *self.kept]


class Passes(Phases):
    """A pass for each phase; see Note [Kept values].

    Attributes
    ----------
    passes : list of Pass
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._known: dict[int, None] = {}  # what earlier passes have
        self.passes = [self._pass(phase) for phase in range(self.last + 1)]

    def store_phase(self, i: Instruction) -> int:
        """As of all phases, but that memory which is read as well is written in the last one."""
        is_read = any(place.result == i.about[0] for place in self.program.ins)
        return self.last if is_read else super().store_phase(i)

    def _pass(self, phase: int) -> Pass:
        reductions = [i for i in self.reductions if self.phase[i.value] == phase]
        stores = self.stored_in(phase)
        needs = _Needs(self, self._known)
        for i in (*reductions, *stores):
            needs.need(i.args[0])
        found = Pass(needs.reads, needs.kept, needs.code, needs.outer, reductions, stores)
        self._known |= dict.fromkeys((*needs.reads, *(i.value for i in needs.code)))
        return found

    def again(self, one: Pass) -> Pass:
        """What finds the values that a pass needs of earlier ones in another way: by reading."""
        needs = _Needs(self, {})
        for value in one.kept:
            needs.need(value)
        return Pass(needs.reads, [], needs.code, needs.outer, [], [])

    def made_for(self, one: Pass) -> list[int]:
        """What a pass computes that is not only an intermediate result: it is added up, stored, or needed later."""
        later = {value for other in self.passes for value in other.kept}
        wanted = later | {i.args[0] for i in (*one.reductions, *one.stores)}
        return [i.value for i in one.code if i.value in wanted]

    def words(self) -> int:
        """How many registers an element takes at most, before or behind what a phase computes."""
        most = 1
        for phase, one in enumerate(self.passes):
            later = {value for other in self.passes[phase + 1 :] for value in other.kept}
            before = {v for other in self.passes[:phase] for v in (*other.reads, *self.made_for(other))}
            held = later & before
            for values in ({*held, *one.given}, {*held, *(later & {*one.given}), *self.made_for(one)}):
                most = max(most, sum(max(ITEMSIZES[self.dtype[v]] // 4, 1) for v in values))
        return most


class _Needs:
    """Finds what has to be read, kept and computed for some values; `known` are those of earlier passes."""

    def __init__(self, phases: Phases, known: Iterable[int]) -> None:
        self.phases, self.known = phases, frozenset(known)
        self.reads: list[int] = []
        self.kept: list[int] = []
        self.outer: list[int] = []
        self.code: list[Instruction] = []
        self.done: set[int] = set()

    def need(self, value: int) -> None:
        """Have a value for each element."""
        if value in self.done:
            return
        self.done.add(value)
        i = self.phases.made[value]
        if self.phases.level[value] != ELEMENT:
            self.outer.append(value)
        elif value in self.known and self._again(i) > CHEAP:
            self.kept.append(value)
        elif i.kind == LOAD:
            self.reads.append(value)
        else:
            for a in i.args:
                self.need(a)
            self.code.append(i)

    def _again(self, i: Instruction) -> int:
        """How many instructions it takes to compute a known value again, if that is cheap and takes one other value."""
        values = {a for a in i.args if self.phases.level[a] == ELEMENT}
        if i.kind != APPLY or len(values) != 1:
            return CHEAP + 1
        further = self._again(self.phases.made[values.pop()])
        return int(i.about[4]) + (further if further <= CHEAP else 0)
