"""Kernels of elementwise ops, copies and casts on the CUDA device, generated around a formula.

The text of a kernel is made as that of the CPU's, see `kernels.cpu.elementwise`. A thread computes elements that lie
side by side and reads and writes 16 bytes at a time, where all addresses allow it; a block that would go beyond the end
computes one element after the other. Where strides matter, a thread finds the place of an element by the divisors that
the launcher puts behind the frame: a multiplication and a shift for each dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from fastgrad.kernels.cuda.builder import Body
from fastgrad.kernels.cuda.device import Element, Target, block, high_product, thread
from fastgrad.kernels.keys import VOCABULARY
from fastgrad.kernels.specialise import specialised
from fastgrad.native.contracts.cuda import DIVIDED, DIVISOR_SHIFT, PLAIN
from fastgrad.native.contracts.element_types import COMPLEX, FLOAT64
from fastgrad.native.contracts.frames.elementwise import INPLACE, STRIDED
from fastgrad.native.contracts.limits import FRAME_DIMS

THREADS = 256
BYTES = 16  # of one access
ACCESSES, EACH = 2, 8  # of a thread to each operand; elements from which on one is enough
STEPS = 4  # elements of a thread where strides matter


def build(
    kernel: Any,
    dtype: int,
    layout_class: int,
    target: Target,
    threads: int = THREADS,
    moved: Mapping[str, int] = MappingProxyType({}),
) -> Body:
    """The kernel of a formula for one dtype and layout class; of `moved`, see that of the CPU."""
    frame, names = kernel.frame(layout_class), list(kernel.inputs)
    codes = (moved.get(name, frame.element(name, dtype)) for name in ("out", *names))
    result, *elements = (target.elements[code] for code in codes)
    scope: dict[str, Any] = {
        "np": np, "block": block, "thread": thread, "store": result.store, "total_of": total_of,
        "steps_between": steps_between,
    }  # fmt: skip
    scope |= {f"load_{name}": element.load for name, element in zip(names, elements, strict=True)}
    scope["formula"] = _formula_over(kernel, dtype, target, names, elements)
    resident = 512 if dtype in (FLOAT64, *COMPLEX) else 768  # its numbers have two registers each
    lanes = BYTES // max(element.size for element in (result, *elements))
    scope |= {f"some_{n}": e.load_some(lanes) for n, e in zip(names, elements, strict=True)}
    scope["store_some"] = result.store_some(lanes)
    if layout_class == STRIDED:
        scope["places"], per_block = places_for(target, len(names) + 1), threads * max(STEPS, lanes)
        sizes = {n: e.size for n, e in zip(("out", *names), (result, *elements), strict=True)}
        exec(_strided(names, sizes, lanes, threads, per_block), scope)
        return Body(scope["run"], (), per_block, threads, DIVIDED, len(names), resident)
    accesses = max(1, min(ACCESSES, EACH // lanes))
    per_block = threads * lanes * accesses
    exec(_flat(names, elements, result, layout_class == INPLACE, lanes, threads, accesses), scope)
    return Body(scope["run"], ("n",), per_block, threads, PLAIN, len(names), resident)


def formula_for(kernel: Any, dtype: int, layout_class: int, target: Target) -> Any:
    """The function of elements that a kernel computes."""
    frame, names = kernel.frame(layout_class), list(kernel.inputs)
    elements = [target.elements[frame.element(name, dtype)] for name in names]
    return _formula_over(kernel, dtype, target, names, elements)


def _formula_over(kernel: Any, dtype: int, target: Target, names: list[str], elements: list[Element]) -> Any:
    """The same for operands with these names and elements."""
    # Of the operands all but a condition are alike; those of a formula that joins parts are real.
    of = target.elements[dtype] if dtype in COMPLEX else elements[0]
    chosen = (dtype in COMPLEX and kernel.options.get("over_complex")) or kernel.formula
    formula = specialised(chosen, dict(zip(VOCABULARY, (of.math, of.constant), strict=True)), target.decorate)
    conj = of.math.conj if dtype in COMPLEX and "times_g" in kernel.options else None
    return _valued(names, formula, target, bool(kernel.options.get("times_g")), conj)


def _valued(names: list[str], formula: Any, target: Target, times_g: bool, conj: Any) -> Any:
    """The function that a kernel computes of elements; a derivative may be multiplied by the first of them.

    `conj` is given for derivatives over complex numbers: see Note [Complex gradients] in `ops.complex_numbers`.
    """
    scope: dict[str, Any] = {"formula": formula, "conj": conj}
    g = "conj(g)" if conj else "g"
    taken = [g if name == "g" else name for name in names]
    value = f"{g} * formula({', '.join(names[1:])})" if times_g else f"formula({', '.join(taken)})"
    exec(f"def valued({', '.join(names)}):\n    return {f'conj({value})' if conj else value}\n", scope)
    return target.decorate(scope["valued"])


def _flat(
    names: list[str],
    elements: list[Element],
    result: Element,
    inplace: bool,
    lanes: int,
    threads: int,
    accesses: int,
) -> str:
    """A block of elements side by side; in place, the first input is read where the output is written.

    The values of an operand have a prefix before its name, which may be that of anything else in the text.
    """
    address = {n: "f.out" if inplace and n == names[0] else f"f.{n}" for n in names}
    size = {n: e.size for n, e in zip(names, elements, strict=True)}
    unaligned = " | ".join(
        dict.fromkeys(
            [f"(f.out & {lanes * result.size - 1})"]
            + [f"({address[n]} & {lanes * size[n] - 1})" for n in names]
        )
    )
    per_block = threads * lanes * accesses
    lines = [
        "def run(f):",
        f"    first = np.int64(block()) * {per_block}",
        f"    if first + {per_block} <= f.n and ({unaligned}) == 0:",
    ]
    for k in range(accesses):
        lines.append(f"        at{k} = first + (thread() + {k * threads}) * {lanes}")
        lines += [f"        v{k}_{n} = some_{n}({address[n]} + at{k} * {size[n]})" for n in names]
    for k in range(accesses):
        values = "".join(
            f"formula({', '.join(f'v{k}_{n}[{lane}]' for n in names)}), " for lane in range(lanes)
        )
        lines.append(f"        store_some(f.out + at{k} * {result.size}, ({values}))")
    values = ", ".join(f"load_{n}({address[n]}, i)" for n in names)
    lines += [
        "    else:",
        "        i = first + thread()",
        f"        end = min(first + {per_block}, f.n)",
        "        while i < end:",
        f"            store(f.out, i, formula({values}))",
        f"            i += {threads}",
    ]
    return "\n".join(lines) + "\n"


def quotient_of(n, divisor):
    """``n // d`` for the divisor that stands for d; see `contracts.cuda.DIVISORS`."""
    magic = np.uint32(divisor & 0xFFFFFFFF)
    shift = np.uint32(divisor >> DIVISOR_SHIFT)
    return np.uint32(np.uint32(high_product(n, magic) + n) >> shift)


def _strided(names: list[str], sizes: dict[str, int], lanes: int, threads: int, per_block: int) -> str:
    """Elements whose places are found by their numbers.

    Where neighbours in the innermost dimension are neighbours in memory, or one element for all, and lie in whole
    vectors, there is one place for several of them.
    """
    operands = ["out", *names]
    offsets, strides = ", ".join(f"o_{n}" for n in operands), ", ".join(f"f.{n}.strides" for n in operands)
    values = ", ".join(f"load_{n}(f.{n}.data, o_{n})" for n in names)
    tests = [f"f.sizes[0] % {lanes} == 0", "f.out.strides[0] == 1"]
    for n in operands:
        mask = lanes - 1
        rest = (
            f"((f.{n}.data & {lanes * sizes[n] - 1}) | (steps_between(f.rank, f.{n}.strides) & {mask})) == 0"
        )
        tests.append(rest if n == "out" else f"(f.{n}.strides[0] == 0 or (f.{n}.strides[0] == 1 and {rest}))")
    lines = [
        "def run(f):",
        f"    first = np.int64(block()) * {per_block}",
        f"    end = min(first + {per_block}, total_of(f.rank, f.sizes))",
        f"    if {' and '.join(tests)}:",
        f"        i = first + thread() * {lanes}",
        "        while i < end:",
        f"            {offsets}, = places(np.uint32(i), f.rank, f.sizes, f.divisors, {strides})",
    ]
    for n in names:
        lines += [
            f"            if f.{n}.strides[0] == 1:",
            f"                v_{n} = some_{n}(f.{n}.data + o_{n} * {sizes[n]})",
            "            else:",
            f"                one = load_{n}(f.{n}.data, o_{n})",
            f"                v_{n} = ({'one, ' * lanes})",
        ]
    results = "".join(f"formula({', '.join(f'v_{n}[{lane}]' for n in names)}), " for lane in range(lanes))
    lines += [
        f"            store_some(f.out.data + o_out * {sizes['out']}, ({results}))",
        f"            i += {threads * lanes}",
        "    else:",
        "        i = first + thread()",
        "        while i < end:",
        f"            {offsets}, = places(np.uint32(i), f.rank, f.sizes, f.divisors, {strides})",
        f"            store(f.out.data, o_out, formula({values}))",
        f"            i += {threads}",
    ]
    return "\n".join(lines) + "\n"


def steps_between(rank, strides):
    """The bits of all strides but the innermost one."""
    bits = strides[1] if rank > 1 else np.int64(0)
    bits |= strides[2] if rank > 2 else np.int64(0)
    bits |= strides[3] if rank > 3 else np.int64(0)
    bits |= strides[4] if rank > 4 else np.int64(0)
    bits |= strides[5] if rank > 5 else np.int64(0)
    bits |= strides[6] if rank > 6 else np.int64(0)
    bits |= strides[7] if rank > 7 else np.int64(0)
    return bits


def places_for(target: Target, operands: int) -> Any:
    """`_places` for a target, made once."""
    key = ("places", operands)
    if key not in target.kept:
        target.kept[key] = target.made(_places(operands))
    return target.kept[key]


def total_of(rank, sizes):
    """The number of elements of so many dimensions."""
    total = sizes[0]
    total *= sizes[1] if rank > 1 else 1
    total *= sizes[2] if rank > 2 else 1
    total *= sizes[3] if rank > 3 else 1
    total *= sizes[4] if rank > 4 else 1
    total *= sizes[5] if rank > 5 else 1
    total *= sizes[6] if rank > 6 else 1
    total *= sizes[7] if rank > 7 else 1
    return total


@functools.cache
def _places(operands: int) -> Any:
    """A function that gives the offsets, in so many operands, of the element with a number.

    It goes from the innermost dimension outwards, as far as there are any: ``places(number, rank, sizes, divisors,
    strides of the first operand, ...)``.
    """
    each = range(operands)
    lines = [f"def places(left, rank, sizes, divisors, {', '.join(f's{k}' for k in each)}):"]
    for d in range(FRAME_DIMS):
        indent = "    " * (d + 1)
        before = [f"o{k} + " if d else "" for k in each]
        if d < FRAME_DIMS - 1:
            lines.append(f"{indent}if rank == {d + 1}:")
        places = "".join(f"{before[k]}np.int64(left) * s{k}[{d}], " for k in each)
        lines.append(f"{indent}{'    ' if d < FRAME_DIMS - 1 else ''}return {places}")
        if d < FRAME_DIMS - 1:
            lines += [
                f"{indent}else:",
                f"{indent}    whole = quotient_of(left, divisors[{d}])",
                f"{indent}    rest = np.int64(np.uint32(left - whole * np.uint32(sizes[{d}])))",
                f"{indent}    left = whole",
                *(f"{indent}    o{k} = {before[k]}rest * s{k}[{d}]" for k in each),
            ]
    scope: dict[str, Any] = {"np": np, "quotient_of": quotient_of}
    exec("\n".join(lines) + "\n", scope)
    return scope["places"]
