"""Kernels of several launches at once on the CUDA device, generated from programs (`kernels.programs`).

Where nothing is reduced, a thread computes elements as the kernels of single launches do (`elementwise`): some that lie
side by side, 16 bytes at a time, where there is one line of elements and all addresses allow it, and else one after the
other. Where there are rows, a thread divides the number of its element by their length, in 32 bits. Of rows that are
reduced see `fused_rows`, of columns `fused_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastgrad.kernels.cuda import fused_columns, fused_rows
from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Target
from fastgrad.kernels.cuda.elementwise import BYTES, THREADS
from fastgrad.kernels.cuda.fused_values import (
    address_of,
    computing,
    for_all,
    operands_of,
    row_begins,
    row_dimensions,
    scope_of,
    unaligned,
)
from fastgrad.kernels.programs import (
    ADD_UP,
    ELEMENT,
    LOAD,
    NUMBER,
    REDUCE,
    ROW,
    SCALAR,
    STORE,
    Instruction,
    Program,
)
from fastgrad.native.contracts.element_types import FLOAT64

STEPS = 4  # elements of a thread where there are rows


def build(kernel: Any, dtype: int, layout_class: int, target: Target, threads: int = THREADS) -> Body:
    """The kernel of a program."""
    program: Program = kernel.program
    if any(i.kind == ADD_UP for i in program.code):
        return fused_columns.build(kernel, target, threads)
    if any(i.kind == REDUCE for i in program.code) or any(place.level == ROW for place in program.outs):
        return fused_rows.build(kernel, target, threads)
    dtypes = [place.dtype for place in (*program.outs, *program.ins)]
    lanes = max(1, BYTES // max(target.elements[code].size for code in dtypes))
    scope = scope_of(kernel, target)
    for code in dtypes:
        element = target.elements[code]
        scope |= {f"some_{code}": element.load_some(lanes), f"store_some_{code}": element.store_some(lanes)}
    exec("\n".join(_computed(program)) + "\n", scope)
    per_block = threads * (STEPS if program.rows else lanes)
    lines = _rows(program, threads, per_block) if program.rows else _line(program, target, threads, lanes)
    exec("\n".join(lines) + "\n", scope)
    resident = 512 if FLOAT64 in dtypes else 768
    items = ("rows", "n") if program.rows else ("n",)
    return Body(scope["run"], items, per_block, threads, resident=resident)


# --- what is computed ------------------------------------------------------------------------------------------


def _computed(program: Program) -> list[str]:
    """The function of what a program reads that gives what it writes."""
    given = [f"v{i.value}" for i in program.code if i.kind in (LOAD, NUMBER)]
    return [
        f"def computed({', '.join(['nothing', *given])}):",
        *computing(program, program.code, "    ", "nothing"),
        f"    return ({', '.join(f'v{i.args[0]}' for i in _stores(program))}, )",
    ]


def _stores(program: Program) -> list[Instruction]:
    return [i for i in program.code if i.kind == STORE]


def _loads(program: Program) -> list[Instruction]:
    """What is read for each element."""
    loads = (i for i in program.code if i.kind == LOAD)
    return [i for i in loads if program.ins[int(i.about[0])].level != SCALAR]


def _call(program: Program, lane: int | None = None) -> str:
    """A call for one element, or for one of several that were read together."""
    moved = {i.value for i in _loads(program)}
    names = [f"v{i.value}" for i in program.code if i.kind in (LOAD, NUMBER)]
    if lane is not None:
        names = [f"x{name[1:]}[{lane}]" if int(name[1:]) in moved else name for name in names]
    return f"computed({', '.join(['f.first', *names])})"


# --- where it lies ---------------------------------------------------------------------------------------------


def _line(program: Program, target: Target, threads: int, lanes: int) -> list[str]:
    """A kernel over elements in one line."""
    per_block, size = threads * lanes, {k: e.size for k, e in target.elements.items()}
    lines = [
        "def run(f):",
        f"    first = np.int64(block()) * {per_block}",
        *for_all(program, "    "),
        f"    if first + {per_block} <= f.n and ({' | '.join(unaligned(program, target, str(lanes)))}) == 0:",
        f"        at = first + thread() * {lanes}",
    ]
    for i in _loads(program):
        code = program.ins[int(i.about[0])].dtype
        lines.append(f"        x{i.value} = some_{code}({address_of(program, i)} + at * {size[code]})")
    lines += [f"        y{lane} = {_call(program, lane)}" for lane in range(lanes)]
    for k, i in enumerate(_stores(program)):
        out, code = i.about[0], program.outs[int(i.about[0])].dtype
        values = "".join(f"y{lane}[{k}], " for lane in range(lanes))
        lines.append(f"        store_some_{code}(f.outs[{out}] + at * {size[code]}, ({values}))")
    lines += ["    else:", "        i = first + thread()", f"        end = min(first + {per_block}, f.n)"]
    lines += ["        while i < end:", *_element(program, "            ", {}), f"            i += {threads}"]
    return lines


def _element(program: Program, indent: str, at: Mapping[str, str]) -> Iterator[str]:
    """The lines that compute the element with the number ``i``; `at` is where operands lie if that is no place."""
    for i in _loads(program):
        code, address = program.ins[int(i.about[0])].dtype, address_of(program, i)
        yield f"{indent}v{i.value} = load_{code}({address}, {at.get(f'i{i.about[0]}', 'i')})"
    yield f"{indent}y = {_call(program)}"
    for k, i in enumerate(_stores(program)):
        code = program.outs[int(i.about[0])].dtype
        yield f"{indent}store_{code}(f.outs[{i.about[0]}], {at.get(f'o{i.about[0]}', 'i')}, y[{k}])"


def _rows(program: Program, threads: int, per_block: int) -> list[str]:
    """A kernel over elements in rows."""
    lines = [
        "def run(f):",
        f"    first, n = np.int64(block()) * {per_block}, f.n",
        *for_all(program, "    "),
        "    i = first + thread()",
        f"    end = min(first + {per_block}, f.rows * n)",
        "    while i < end:",
        "        r = np.int64(quotient(np.uint32(i), np.uint32(n)))",
        "        c = i - r * n",
        *row_dimensions(program, "        "),
    ]
    at = row_begins(program)
    for name, _, place in operands_of(program):
        at[name] += " + c" if place.level == ELEMENT else ""
    return [*lines, *_element(program, "        ", at), f"        i += {threads}"]
