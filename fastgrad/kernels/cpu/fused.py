"""Kernels of several launches at once, generated from programs (`kernels.programs`).

The source of such a kernel is text, as that of an elementwise one (`elementwise`); what is called in it are the formulas
of the kernel table, each optimised by itself (`formulas`), so that it gives what a launch of its own would.

Note [Phases]: what a row is reduced to is known when its loop is over, so what needs it is computed in another loop over
the row, in the next phase. A value of one phase that a later one needs is read again, where it lies in memory; computed
again, where that is cheap; and else kept in the launch's room, a row of it for each such value. So a row should fit into
the cache, and does not have to.

Note [Sums of rows]: a row is summed in blocks of at most 512 elements, each in vector lanes of the dtype, and the blocks
in float64, as by the kernels of `reduce`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.formulas import Sealed, sealed
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP, SUM
from fastgrad.kernels.programs import (
    APPLY,
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
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, float_of
from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.frames.fused import PIECE

BLOCK = 512
CHEAP = 6
"""Instructions up to which a value is computed again rather than kept."""


def build(program: Program, kernels: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The Python function of a fused kernel and the Numba options to compile it with.

    `kernels`: the rows of the kernel table whose formulas the program names.
    """
    writer = _Writer(program, kernels)
    text = writer.text()
    scope = writer.scope
    exec(text, scope)
    for name, value in list(scope.items()):
        if name.startswith("loop"):
            scope[name] = njit(**(SUM if name in writer.summing else LOOP))(value)
    return scope["kernel"], KERNEL


class _Writer:
    """Writes the text of one kernel, and collects the names that it reads."""

    def __init__(self, program: Program, kernels: Mapping[str, Any]) -> None:
        self.program = program
        self.scope: dict[str, Any] = {
            "fused": frames.fused, "advance": advance, "float_of": float_of, "PIECE": PIECE, "BLOCK": BLOCK,
            "f64": np.float64,
        }  # fmt: skip
        self.summing: set[str] = set()
        self.formulas: dict[int, Sealed] = {}
        self.made = {i.value: i for i in program.code if i.kind != STORE}
        self.level: dict[int, int] = {}
        self.phase: dict[int, int] = {}  # of an element; of a row the phase behind which it is known
        self.dtype: dict[int, int] = {}
        for instruction in program.code:
            self._place(instruction, kernels)
        self.stores = [i for i in program.code if i.kind == STORE]
        reductions = [i for i in program.code if i.kind == REDUCE]
        self.phases = 1 + max([self.phase[i.value] for i in reductions] + [self._store_phase(i) for i in self.stores])
        self.rooms: dict[int, int] = {}  # values that are kept, and which row of the room each has

    # --- what is known when ----------------------------------------------------------------------------------

    def _place(self, i: Instruction, kernels: Mapping[str, Any]) -> None:
        """Find the level, the phase and the dtype of a value, and the names that it needs."""
        if i.kind == STORE:
            self._names(self.program.outs[int(i.about[0])].dtype)
            return
        if i.kind == LOAD:
            place = self.program.ins[int(i.about[0])]
            self.level[i.value], self.dtype[i.value] = place.level, place.dtype
        elif i.kind == NUMBER:
            self.level[i.value], self.dtype[i.value] = SCALAR, int(i.about[0])
        elif i.kind == APPLY:
            name, dtype, form = i.about
            kernel = kernels[str(name)]
            self.formulas[i.value] = sealed(kernel, int(dtype), int(form))
            self.scope[f"formula{i.value}"] = self.formulas[i.value].call
            self.level[i.value] = max((self.level[a] for a in i.args), default=SCALAR)
            self.dtype[i.value] = kernel.frame(form).element("out", dtype)
        else:
            self.level[i.value], self.dtype[i.value] = ROW, int(i.about[1])
        self._names(self.dtype[i.value])
        phases = [self.phase[a] + (self.level[a] == ROW and self._is_element(i)) for a in i.args]
        first = 0 if self._is_element(i) else -1
        self.phase[i.value] = max([first, *phases])

    def _is_element(self, i: Instruction) -> bool:
        """Whether an instruction stands in a loop over a row."""
        return i.kind == REDUCE or self.level[i.value] == ELEMENT

    def _names(self, dtype: int) -> None:
        element = ELEMENTS[dtype]
        for name in ("pointer", "load", "store", "constant"):
            self.scope[f"{name}_{dtype}"] = getattr(element, name)
        self.scope[f"maximum_{dtype}"] = getattr(element.math, "maximum", None)
        self.scope[f"minimum_{dtype}"] = getattr(element.math, "minimum", None)

    def _store_phase(self, i: Instruction) -> int:
        """In which loop something is stored; for rows, behind which."""
        (value,) = i.args
        if self.program.outs[int(i.about[0])].level == ELEMENT:
            return max(self.phase[value] + (self.level[value] == ROW), 0)
        return self.phase[value]

    # --- text ------------------------------------------------------------------------------------------------

    def text(self) -> str:
        # The last phase first: what it needs of earlier ones is kept there.
        loops = [_Loop(self, phase) for phase in reversed(range(self.phases))][::-1]
        body = [line for loop in loops for line in loop.lines]
        head = ["def kernel(frame):", "    f = fused(frame)"]
        for k in range(len(self.program.outs)):
            head.append(f"    base_o{k} = pointer_{self.program.outs[k].dtype}(f.outs[{k}])")
        for k in range(len(self.program.ins)):
            head.append(f"    base_i{k} = pointer_{self.program.ins[k].dtype}(f.ins[{k}])")
        head += [f"    {line}" for line in self._values(SCALAR, None)]
        if not self.program.rows:
            head += [
                "    start = f.first * PIECE",
                "    end = min(f.n, start + f.rows * PIECE)",
                f"    {loops[0].call('start', 'end')}",
            ]
            return "\n".join([*body, *head]) + "\n"
        if self.rooms:
            head.append("    pitch = ((f.n + 7) // 8 * 8 + 8) * 8")
        for value, k in self.rooms.items():
            head.append(f"    room{value} = pointer_{self.dtype[value]}(f.room.data + {k} * pitch)")
        head += ["    n = f.n", "    for r in range(f.first, f.first + f.rows):"]
        head += [f"        {line}" for line in [*self._row_places(), *self._values(ROW, -1)]]
        for loop in loops:
            head += [f"        {line}" for line in loop.around()]
            head += [f"        {line}" for line in self._values(ROW, loop.phase)]
        return "\n".join([*body, *head]) + "\n"

    def _values(self, level: int, phase: int | None) -> list[str]:
        """The lines that compute, and store, what is known for all, or for a row behind a phase."""
        lines = []
        for i in self.program.code:
            if i.kind == STORE:
                place = self.program.outs[int(i.about[0])]
                if place.level == level == ROW and self._store_phase(i) == phase:
                    lines.append(f"store_{place.dtype}(o{i.about[0]}, 0, v{i.args[0]})")
            elif self.level[i.value] == level and (phase is None or self.phase[i.value] == phase):
                if i.kind != REDUCE:
                    lines.append(f"v{i.value} = {self.expression(i, 'base_' if level == SCALAR else '', '0')}")
        return lines

    def expression(self, i: Instruction, prefix: str, index: str) -> str:
        """What a value is computed by."""
        if i.kind == LOAD:
            place = self.program.ins[int(i.about[0])]
            name = f"o{place.result}" if place.result >= 0 else f"i{i.about[0]}"
            return f"load_{place.dtype}({prefix}{name}, {index})"
        if i.kind == NUMBER:
            dtype, k = i.about
            value = f"float_of(f.numbers[{k}])" if dtype in FLOATS else f"f.numbers[{k}]"
            return f"constant_{dtype}({value})"
        return f"formula{i.value}({', '.join(f'v{a}' for a in i.args)})"

    def _row_places(self) -> list[str]:
        """Where the row of each operand begins."""
        lines, indices = [], False
        for sort, places in (("o", self.program.outs), ("i", self.program.ins)):
            for k, place in enumerate(places):
                if place.level == SCALAR:
                    continue
                if place.steps == DENSE:
                    offset = "r * n" if place.level == ELEMENT else "r"
                else:
                    terms = [f"r{d} * f.steps[{s}]" for d, s in enumerate(place.steps) if s >= 0]
                    offset, indices = " + ".join(terms) or "0", indices or bool(terms)
                lines.append(f"{sort}{k} = advance(base_{sort}{k}, {offset})")
        if not indices:
            return lines
        before, rest = [], "r"
        for d in range(self.program.outer - 1):
            before += [f"r{d} = {rest} % f.outer[{d}]", f"q{d} = {rest} // f.outer[{d}]"]
            rest = f"q{d}"
        return [*before, f"r{self.program.outer - 1} = {rest}", *lines]


class _Loop:
    """The loop over a row in one phase: its function, and what stands around its call."""

    def __init__(self, writer: _Writer, phase: int) -> None:
        self.writer, self.phase = writer, phase
        self.pointers: dict[str, str] = {}  # names in the loop, and outside
        self.scalars: list[str] = []
        self.body: list[str] = []
        self.done: set[int] = set()
        self.reductions = [
            i for i in writer.program.code if i.kind == REDUCE and writer.phase[i.value] == phase
        ]
        self._fill()
        self.name = f"loop{phase}"
        self.lines = self._function()

    def _fill(self) -> None:
        w = self.writer
        for i in w.program.code:
            if i in self.reductions:
                self.need(i.args[0])
                self._reduce(i)
            elif i.kind == STORE and w.program.outs[int(i.about[0])].level == ELEMENT:
                if w._store_phase(i) == self.phase:
                    self.need(i.args[0])
        for value, _ in list(w.rooms.items()):
            if w.phase[value] == self.phase:
                self.need(value)
                self._pointer(f"room{value}")
                self.body.append(f"store_{w.dtype[value]}(room{value}, i, v{value})")
        for i in w.stores:
            k = int(i.about[0])
            if w.program.outs[k].level == ELEMENT and w._store_phase(i) == self.phase:
                self._pointer(f"o{k}")
                self.body.append(f"store_{w.program.outs[k].dtype}(o{k}, i, v{i.args[0]})")

    def _pointer(self, name: str) -> None:
        """Hand a pointer to the loop."""
        along = self.writer.program.rows
        self.pointers[name] = name if along else f"base_{name}"

    def need(self, value: int) -> None:
        """Have a value in the loop."""
        w = self.writer
        if value in self.done:
            return
        self.done.add(value)
        i = w.made[value]
        if not w._is_element(i) or w.level[value] != ELEMENT:
            self.scalars.append(f"v{value}")
        elif w.phase[value] == self.phase or self._again(i) <= CHEAP:
            for a in i.args:
                self.need(a)
            self.body.append(f"v{value} = {w.expression(i, '', 'i')}")
            if i.kind == LOAD:
                place = w.program.ins[int(i.about[0])]
                self._pointer(f"o{place.result}" if place.result >= 0 else f"i{i.about[0]}")
        else:
            self._read_again(value)

    def _read_again(self, value: int) -> None:
        """Read what an earlier phase computed: from where it was stored, or else from the room."""
        w = self.writer
        dtype = w.dtype[value]
        for i in w.stores:
            place = w.program.outs[int(i.about[0])]
            if i.args == (value,) and place.level == ELEMENT and place.dtype == dtype:
                name = f"o{i.about[0]}"
                self._pointer(name)
                self.body.append(f"v{value} = load_{dtype}({name}, i)")
                return
        w.rooms.setdefault(value, len(w.rooms))
        self._pointer(f"room{value}")
        self.body.append(f"v{value} = load_{dtype}(room{value}, i)")

    def _again(self, i: Instruction) -> int:
        """What it costs to compute a value of an earlier phase again."""
        w = self.writer
        if i.kind == LOAD:
            result = w.program.ins[int(i.about[0])].result
            written = any(int(s.about[0]) == result and w._store_phase(s) < self.phase for s in w.stores)
            return CHEAP + 1 if written else 1
        cost = w.formulas[i.value].cost
        if cost <= CHEAP:
            cost += sum(
                self._again(w.made[a]) for a in i.args if w.level[a] == ELEMENT and a not in self.done
            )
        return cost

    # --- reductions ------------------------------------------------------------------------------------------

    def _reduce(self, i: Instruction) -> None:
        name, dtype = i.about
        if name in ("sum", "mean"):
            self.writer.summing.add(f"loop{self.phase}")
            self.body.append(f"t{i.value} += v{i.args[0]}")
        else:
            combine = "maximum" if name == "amax" else "minimum"
            self.body.append(f"t{i.value} = {combine}_{dtype}(t{i.value}, v{i.args[0]})")

    def _start(self, i: Instruction) -> str:
        name, dtype = i.about
        start = {"amax": "-np_inf", "amin": "np_inf"}.get(str(name), "0")
        self.writer.scope["np_inf"] = np.inf
        return f"constant_{dtype}({start})"

    def _function(self) -> list[str]:
        totals = [f"t{i.value}" for i in self.reductions]
        lines = [f"def {self.name}({', '.join([*self.pointers, *self.scalars, 'start', 'end'])}):"]
        lines += [f"    t{i.value} = {self._start(i)}" for i in self.reductions]
        lines.append("    for i in range(start, end):")
        lines += [f"        {line}" for line in self.body]
        if totals:
            lines.append(f"    return {', '.join(totals)}")
        return lines

    def call(self, start: str, end: str) -> str:
        return f"{self.name}({', '.join([*self.pointers.values(), *self.scalars, start, end])})"

    def around(self) -> list[str]:
        """The loop over the blocks of a row, and what comes of its reductions."""
        if not self.reductions:
            return [self.call("0", "n")] if self.body else []
        lines = []
        for i in self.reductions:
            sums = i.about[0] in ("sum", "mean")
            lines.append(f"s{i.value} = {'f64(0)' if sums else self._start(i)}")
        parts = [f"p{i.value}" for i in self.reductions]
        lines += ["at = 0", "while at < n:", "    until = min(at + BLOCK, n)"]
        lines.append(f"    {', '.join(parts)} = {self.call('at', 'until')}")
        for i in self.reductions:
            name, dtype = i.about
            if name in ("sum", "mean"):
                lines.append(f"    s{i.value} += p{i.value}")
            else:
                combine = "maximum" if name == "amax" else "minimum"
                lines.append(f"    s{i.value} = {combine}_{dtype}(s{i.value}, p{i.value})")
        lines.append("    at = until")
        for i in self.reductions:
            name, dtype = i.about
            total = f"s{i.value} / f64(n)" if name == "mean" else f"s{i.value}"
            lines.append(f"v{i.value} = constant_{dtype}({total})")
        return lines
