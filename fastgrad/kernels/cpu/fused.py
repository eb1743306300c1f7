"""Kernels of several launches at once, generated from programs (`kernels.programs`) as `kernels.schedules` orders them.

The source of such a kernel is text, as that of an elementwise one (`elementwise`); what is called in it are formulas of
the kernel table, each optimised by itself (`formulas`), so that it gives what a launch of its own would.

Note [Sums of columns]: rows are added up eight at a time, element by element, and these sums onto sums in float64. They
are written when the last of the rows is done that go to parts together.

Note [Rows together]: what a row is reduced to is known when the last vectors of its loop are through, and the next loop
over it has to wait until then. So a few short rows go through a phase before any of them goes on to the next one: the
processor begins with the next row while one ends. What is known of each of them waits on the stack.

Note [Sums of rows]: a row is summed in blocks of at most 512 elements, each in vector lanes of the dtype, and the
blocks in float64, as by the kernels of `reduce`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from fastgrad.kernels.cpu.formulas import sealed
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP, SUM
from fastgrad.kernels.programs import (
    ADD_UP,
    APPLY,
    CONSTANT,
    ELEMENT,
    LOAD,
    NUMBER,
    REDUCE,
    ROW,
    SCALAR,
    STORE,
    Instruction,
    Program,
    offset_of,
)
from fastgrad.kernels.schedules import (
    ADD,
    ADD_COLUMN,
    COMPUTE,
    KEEP,
    READ_RESULT,
    READ_ROOM,
    WRITE,
    Loop,
    Schedule,
    Step,
)
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, float_of, stack_scratch
from fastgrad.native.contracts.element_types import FLOAT64, FLOATS
from fastgrad.native.contracts.frames.fused import LENGTH_TOGETHER, PIECE, PITCH, ROWS_TOGETHER

BLOCK = 512
ROWS_AT_ONCE = 8
KEPT_WORDS = 2 * ROWS_TOGETHER
"""Of what is kept of rows that go together: two for each, as a complex number has."""
SUMS = ("sum", "mean")
BETTER = {"amax": "maximum", "amin": "minimum"}
WORST = {"amax": -np.inf, "amin": np.inf}


def build(program: Program, kernels: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The Python function of a fused kernel and the Numba options to compile it with.

    `kernels`: the rows of the kernel table whose formulas the program names.
    """
    schedule = Schedule(program)
    scope = _scope(schedule, kernels)
    exec(source(schedule), scope)
    for loop in schedule.loops:
        name = f"loop{loop.phase}"
        adds = any(i.about[0] in SUMS for i in loop.reductions)
        if name in scope:
            scope[name] = njit(**(SUM if adds else LOOP))(scope[name])
    return scope["kernel"], KERNEL


def _scope(schedule: Schedule, kernels: Mapping[str, Any]) -> dict[str, Any]:
    """What the names in the source stand for."""
    scope: dict[str, Any] = {
        "fused": frames.fused, "advance": advance, "float_of": float_of, "PIECE": PIECE, "BLOCK": BLOCK,
        "PITCH": PITCH, "f64": np.float64, "LENGTH_TOGETHER": LENGTH_TOGETHER,
        "stack": stack_scratch(max(len(_kept(schedule)), 1) * KEPT_WORDS),
        "ROWS_AT_ONCE": ROWS_AT_ONCE, "clear": _clear, "gather": _gather,
        "pointer_9": ELEMENTS[FLOAT64].pointer,
    }  # fmt: skip
    for dtype in {*schedule.dtype.values(), *(place.dtype for place in schedule.program.outs)}:
        element = ELEMENTS[dtype]
        for name in ("pointer", "load", "store", "constant"):
            scope[f"{name}_{dtype}"] = getattr(element, name)
    for i in schedule.made.values():
        if i.kind == APPLY:
            name, dtype, form = i.about[:3]
            in_loop = schedule.level[i.value] == ELEMENT
            alike = tuple(k for k, a in enumerate(i.args) if in_loop and schedule.level[a] != ELEMENT)
            scope[f"formula{i.value}"] = sealed(kernels[str(name)], int(dtype), int(form), alike).call
        elif i.kind == REDUCE and i.about[0] in BETTER:
            dtype = int(i.about[1])
            scope[f"{i.about[0]}_{dtype}"] = getattr(ELEMENTS[dtype].math, BETTER[str(i.about[0])])
            scope[f"worst_{i.about[0]}"] = WORST[str(i.about[0])]
    for i in schedule.columns:
        scope[f"finish_{i.about[2]}"] = _finish(int(i.about[2]))
    return scope


# --- sums of columns -------------------------------------------------------------------------------------------


@njit(**LOOP)
def _clear(part, sums, n):  # type: ignore[no-untyped-def]
    for j in range(n):
        part[j] = 0
        sums[j] = 0.0


@njit(**LOOP)
def _gather(part, sums, n):  # type: ignore[no-untyped-def]
    for j in range(n):
        sums[j] += np.float64(part[j])
        part[j] = 0


def _finish(dtype: int) -> Any:
    store = ELEMENTS[dtype].store

    @njit(**LOOP)
    def finish(out, sums, n, count):  # type: ignore[no-untyped-def]
        for j in range(n):
            store(out, j, sums[j] / count)

    return finish


def _columns(schedule: Schedule) -> tuple[list[str], list[str]]:
    """What happens before a row and behind it, where columns are added up."""
    before, gathered, done = [], [], []
    for i in schedule.columns:
        k, name, dtype = i.about
        before.append(f"    clear(part{k}, sums{k}, n)")
        gathered.append(f"    gather(part{k}, sums{k}, n)")
        count = "f64(f.grain)" if name == "mean" else "f64(1)"
        done.append(f"    finish_{dtype}(o{k}, sums{k}, n, {count})")
    if not before:
        return [], []
    last = "(r + 1) % f.grain == 0"
    behind = [f"if (r + 1) % ROWS_AT_ONCE == 0 or {last}:", *gathered, f"if {last}:", *done]
    return ["if r % f.grain == 0:", *before], behind


def source(schedule: Schedule) -> str:
    """The text of a kernel: a function for each loop, and the one that calls them."""
    program = schedule.program
    lines = [line for loop in schedule.loops for line in _function(schedule, loop)]
    lines += ["def kernel(frame):", "    f = fused(frame)"]
    for sort, places, field in (("o", program.outs, "outs"), ("i", program.ins, "ins")):
        lines += [f"    base_{sort}{k} = pointer_{p.dtype}(f.{field}[{k}])" for k, p in enumerate(places)]
    lines += [f"    {line}" for line in _values(schedule, SCALAR, -1)]
    if not program.rows:
        call = _call(schedule, schedule.loops[0], "start", "end")
        lines += [
            "    start = f.first * PIECE",
            "    end = min(f.n, start + f.rows * PIECE)",
            f"    {call}",
        ]
        return "\n".join(lines) + "\n"
    lines += ["    n = f.n", "    row_bytes = (n + PITCH) // PITCH * PITCH * 8"]
    for k, value in enumerate(_kept(schedule)):
        lines.append(f"    kept{value} = pointer_{schedule.dtype[value]}(stack() + {k * KEPT_WORDS * 8})")
    for j, i in enumerate(schedule.columns):
        k, at = i.about[0], len(schedule.rooms) + 2 * j
        lines.append(f"    part{k} = pointer_{i.about[2]}(f.room.data + {at} * row_bytes)")
        lines.append(f"    sums{k} = pointer_9(f.room.data + {at + 1} * row_bytes)")
    lines += [
        f"    together = {schedule.rows_together} if n <= LENGTH_TOGETHER else 1",
        "    for start in range(f.first, f.first + f.rows, together):",
        "        end = min(start + together, f.first + f.rows)",
    ]
    for loop in schedule.loops:
        lines.append("        for r in range(start, end):")
        lines += [f"            {line}" for line in _phase(schedule, loop)]
    return "\n".join(lines) + "\n"


def _phase(schedule: Schedule, loop: Loop) -> list[str]:
    """What happens to a row in a phase."""
    lines = _row_places(schedule.program)
    for value, k in schedule.rooms.items():
        at = f"({len(schedule.rooms)} * (r - start) + {k}) * row_bytes"
        lines.append(f"room{value} = pointer_{schedule.dtype[value]}(f.room.data + {at})")
    before, behind = _columns(schedule)
    if loop.phase == 0:
        lines += [*before, *_values(schedule, ROW, -1)]
    for value in sorted(schedule.read_in(loop.phase)):
        lines.append(f"v{value} = load_{schedule.dtype[value]}(kept{value}, r - start)")
    lines += [*_around(schedule, loop), *_values(schedule, ROW, loop.phase)]
    for value in schedule.kept(loop.phase):
        lines.append(f"store_{schedule.dtype[value]}(kept{value}, r - start, v{value})")
    if loop.phase == schedule.last:
        lines += behind
    return lines or ["pass"]


def _kept(schedule: Schedule) -> list[int]:
    """What is known of a row in one phase and needed in another one."""
    return [value for loop in schedule.loops for value in schedule.kept(loop.phase)]


# --- values ----------------------------------------------------------------------------------------------------


def _values(schedule: Schedule, level: int, phase: int) -> list[str]:
    """The lines that compute, and store, what is known for all, or for a row behind a phase."""
    lines = []
    for i in schedule.program.code:
        if i.kind == STORE:
            place = schedule.program.outs[int(i.about[0])]
            if place.level == level == ROW and schedule.store_phase(i) == phase:
                lines.append(f"store_{place.dtype}(o{i.about[0]}, 0, v{i.args[0]})")
        elif i.kind not in (CONSTANT, REDUCE, ADD_UP) and schedule.level[i.value] == level:
            if level == SCALAR or schedule.phase[i.value] == phase:
                prefix = "base_" if level == SCALAR else ""
                lines.append(f"v{i.value} = {_expression(schedule.program, i, prefix, '0')}")
    return lines


def _expression(program: Program, i: Instruction, prefix: str, index: str) -> str:
    """What a value is computed by."""
    if i.kind == LOAD:
        return f"load_{program.ins[int(i.about[0])].dtype}({prefix}{_name_of(program, i)}, {index})"
    if i.kind == NUMBER:
        dtype, k = i.about
        value = f"float_of(f.numbers[{k}])" if dtype in FLOATS else f"f.numbers[{k}]"
        return f"constant_{dtype}({value})"
    made = (program.code[a] for a in i.args)
    return (
        f"formula{i.value}({', '.join(_constant(a) if a.kind == CONSTANT else f'v{a.value}' for a in made)})"
    )


def _constant(i: Instruction) -> str:
    """A number that is known when the kernel is compiled."""
    dtype, bits = i.about
    return f"constant_{dtype}({struct.unpack('<d', struct.pack('<q', bits))[0]!r})"


def _name_of(program: Program, i: Instruction) -> str:
    """The pointer that a load reads from."""
    result = program.ins[int(i.about[0])].result
    return f"o{result}" if result >= 0 else f"i{i.about[0]}"


def _row_places(program: Program) -> list[str]:
    """Where the row of each operand begins."""
    lines, indices = [], False
    for sort, places in (("o", program.outs), ("i", program.ins)):
        for k, place in enumerate(places):
            if place.level != SCALAR:
                offset = offset_of(place)
                indices = indices or " * f.steps" in offset
                lines.append(f"{sort}{k} = advance(base_{sort}{k}, {offset})")
    if not indices:
        return lines
    before, rest = [], "r"
    for d in range(program.outer - 1):
        before += [f"r{d} = {rest} % f.outer[{d}]", f"q{d} = {rest} // f.outer[{d}]"]
        rest = f"q{d}"
    return [*before, f"r{program.outer - 1} = {rest}", *lines]


# --- loops -----------------------------------------------------------------------------------------------------


def _function(schedule: Schedule, loop: Loop) -> list[str]:
    """The lines of the function of a loop."""
    if not loop.steps:
        return []
    names = [*_pointers(schedule, loop), *(f"v{value}" for value in loop.outer), "start", "end"]
    lines = [f"def loop{loop.phase}({', '.join(names)}):"]
    lines += [f"    t{i.value} = {_start(i)}" for i in loop.reductions]
    lines.append("    for i in range(start, end):")
    lines += [f"        {_line(schedule, step)}" for step in loop.steps]
    if loop.reductions:
        lines.append(f"    return {', '.join(f't{i.value}' for i in loop.reductions)}")
    return lines


def _line(schedule: Schedule, step: Step) -> str:
    value, dtype = step.value, schedule.dtype[step.value]
    i = schedule.made[value]
    if step.what == ADD:
        name, total, more = i.about[0], f"t{value}", f"v{i.args[0]}"
        if dtype not in FLOATS:
            more = f"constant_{dtype}({more})"
        return f"{total} += {more}" if name in SUMS else f"{total} = {name}_{dtype}({total}, {more})"
    if step.what == COMPUTE:
        return f"v{value} = {_expression(schedule.program, i, '', 'i')}"
    if step.what == ADD_COLUMN:
        return f"part{step.result}[i] += v{value}"
    if step.what == READ_RESULT:
        return f"v{value} = load_{dtype}(o{step.result}, i)"
    if step.what == READ_ROOM:
        return f"v{value} = load_{dtype}(room{value}, i)"
    if step.what == KEEP:
        return f"store_{dtype}(room{value}, i, v{value})"
    return f"store_{schedule.program.outs[step.result].dtype}(o{step.result}, i, v{value})"


def _pointers(schedule: Schedule, loop: Loop) -> list[str]:
    """The memory that a loop works on."""
    names: dict[str, None] = {}
    for step in loop.steps:
        i = schedule.made[step.value]
        if step.what == COMPUTE and i.kind == LOAD:
            names[_name_of(schedule.program, i)] = None
        elif step.what == ADD_COLUMN:
            names[f"part{step.result}"] = None
        elif step.what in (READ_RESULT, WRITE):
            names[f"o{step.result}"] = None
        elif step.what in (READ_ROOM, KEEP):
            names[f"room{step.value}"] = None
    return list(names)


def _call(schedule: Schedule, loop: Loop, start: str, end: str) -> str:
    prefix = "" if schedule.program.rows else "base_"
    given = [*(prefix + name for name in _pointers(schedule, loop)), *(f"v{value}" for value in loop.outer)]
    return f"loop{loop.phase}({', '.join([*given, start, end])})"


def _start(i: Instruction) -> str:
    name, _, dtype = i.about
    return f"constant_{dtype}({'0' if name in SUMS else f'worst_{name}'})"


def _around(schedule: Schedule, loop: Loop) -> list[str]:
    """The loop over the blocks of a row, and what comes of its reductions."""
    if not loop.reductions:
        return [_call(schedule, loop, "0", "n")] if loop.steps else []
    lines = [
        f"s{i.value} = {'f64(0)' if i.about[0] in SUMS and i.about[2] in FLOATS else _start(i)}"
        for i in loop.reductions
    ]
    parts = ", ".join(f"p{i.value}" for i in loop.reductions)
    block = "min(at + BLOCK, n)" if any(i.about[0] in SUMS for i in loop.reductions) else "n"
    lines += ["at = 0", "while at < n:", f"    until = {block}"]
    lines.append(f"    {parts} = {_call(schedule, loop, 'at', 'until')}")
    for i in loop.reductions:
        total, part = f"s{i.value}", f"p{i.value}"
        name, _, dtype = i.about
        added = f"{total} + {part}" if name in SUMS else f"{name}_{dtype}({total}, {part})"
        lines.append(f"    {total} = {added}")
    lines.append("    at = until")
    for i in loop.reductions:
        total = f"s{i.value} / f64(n)" if i.about[0] == "mean" else f"s{i.value}"
        lines.append(f"v{i.value} = constant_{i.about[2]}({total})")
    return lines
