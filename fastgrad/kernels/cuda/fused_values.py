"""What fused kernels of the CUDA device compute, and where it lies, as text: see `fused`.

Note [Sealed values]: an element has the bits that single launches give it. Within a formula the compiler contracts a
product and a sum to one rounding, as it does in the formula's own kernel. So that it does not do so across two, what a
formula gives goes through an operation on its bits that changes nothing, of which no compiler knows that: they are
combined with a word of the frame which is zero. That costs one instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fastgrad.kernels.cuda.device import Target, block, float_of, float_of_32, quotient, sealed, thread
from fastgrad.kernels.cuda.elementwise import formula_for
from fastgrad.kernels.programs import (
    ADD_UP,
    APPLY,
    COLUMN,
    ELEMENT,
    LOAD,
    NUMBER,
    REDUCE,
    SCALAR,
    Instruction,
    Place,
    Program,
    offset_of,
)
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64


def scope_of(kernel: Any, target: Target) -> dict[str, Any]:
    """What the names in the text of a fused kernel stand for, whatever it runs over."""
    program: Program = kernel.program
    scope: dict[str, Any] = {
        "np": np, "block": block, "thread": thread, "float_of": float_of, "float_of_32": float_of_32,
        "quotient": quotient, "sealed": sealed,
    }  # fmt: skip
    for code in {place.dtype for place in (*program.outs, *program.ins)}:
        scope |= {f"load_{code}": target.elements[code].load, f"store_{code}": target.elements[code].store}
    for i in program.code:
        if i.kind == APPLY:
            name, dtype, form, result = i.about[:4]
            row = kernel.kernels[str(name)]
            scope[f"formula{i.value}"] = formula_for(row, int(dtype), int(form), target)
            scope[f"constant{i.value}"] = target.elements[int(result)].constant
    return scope


def function_of(head: str, lines: Iterable[str], scope: dict[str, Any]) -> Any:
    """The function with a head and a body, whose names stand for what is in a scope; it goes there, too."""
    exec("\n".join([f"def {head}:", *(f"    {line}" for line in lines)]) + "\n", scope)
    return scope[head.partition("(")[0]]


# --- values ----------------------------------------------------------------------------------------------------


def computing(program: Program, code: Iterable[Instruction], indent: str, nothing: str) -> Iterator[str]:
    """The lines that compute the formulas among instructions; `nothing` is a word which is zero."""
    taken = {a for i in program.code if i.kind in (APPLY, REDUCE, ADD_UP) for a in i.args}
    for i in code:
        if i.kind == APPLY:
            value = f"constant{i.value}(formula{i.value}({', '.join(f'v{a}' for a in i.args)}))"
            value = f"sealed({value}, {nothing})" if i.value in taken else value
            yield f"{indent}v{i.value} = {value}"


def for_all(program: Program, indent: str) -> Iterator[str]:
    """The lines that find what is read, and is one for all elements."""
    for i in program.code:
        if i.kind == NUMBER:
            yield f"{indent}v{i.value} = {_number(i)}"
        elif i.kind == LOAD and program.ins[int(i.about[0])].level == SCALAR:
            yield f"{indent}v{i.value} = load_{program.ins[int(i.about[0])].dtype}({address_of(program, i)}, 0)"


def _number(i: Instruction) -> str:
    """What a number of the frame is: one of float32 stands there as its own bits."""
    dtype, k = i.about
    if dtype == FLOAT32:
        return f"float_of_32(np.int32(f.numbers[{k}]))"
    return f"float_of(f.numbers[{k}])" if dtype == FLOAT64 else f"f.numbers[{k}]"


# --- places ----------------------------------------------------------------------------------------------------


def address_of(program: Program, i: Instruction) -> str:
    """Where a load reads from."""
    result = program.ins[int(i.about[0])].result
    return f"f.outs[{result}]" if result >= 0 else f"f.ins[{i.about[0]}]"


def operands_of(program: Program) -> Iterator[tuple[str, str, Place]]:
    """The name, the address and the place of each operand: ``o0``, ... of results, ``i0``, ... of what is read."""
    for k, place in enumerate(program.outs):
        yield f"o{k}", f"f.outs[{k}]", place
    for k, place in enumerate(program.ins):
        yield f"i{k}", f"f.outs[{place.result}]" if place.result >= 0 else f"f.ins[{k}]", place


def row_dimensions(program: Program, indent: str) -> Iterator[str]:
    """The lines that find the numbers ``r0``, ... of the row ``r`` in the dimensions that rows run over."""
    rest = "r"
    for d in range(program.outer - 1):
        yield f"{indent}q{d} = np.int64(quotient(np.uint32({rest}), np.uint32(f.outer[{d}])))"
        yield f"{indent}r{d} = {rest} - q{d} * f.outer[{d}]"
        rest = f"q{d}"
    yield f"{indent}r{program.outer - 1} = {rest}"


def row_begins(program: Program) -> dict[str, str]:
    """Where a row of each operand begins, in elements, as text over these numbers."""
    return {name: offset_of(place) for name, _, place in operands_of(program) if place.level != COLUMN}


def unaligned(program: Program, target: Target, width: str) -> list[str]:
    """Terms that are zero together if each row of elements can be read in pieces of such a width."""
    terms = []
    for _, address, place in operands_of(program):
        if place.level == ELEMENT:
            terms.append(f"({address} & ({width} * {target.elements[place.dtype].size} - 1))")
            steps = () if isinstance(place.steps, int) else place.steps
            terms += [f"(f.steps[{s}] & ({width} - 1))" for s in steps if s >= 0]
    return list(dict.fromkeys(terms))
