"""Which numbers a thread has, and where in memory the elements with these numbers are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fastgrad.kernels.cuda.device import block, quotient, thread
from fastgrad.native.contracts.limits import FRAME_DIMS


def part_of(n, per_block):
    """The first one of n numbers that is this thread's, and where those of its block end."""
    first = np.int64(block()) * per_block
    return first + thread(), min(first + per_block, n)


def split(a, b):
    """``a // b`` and the rest, of numbers from 0 on below 2**31."""
    q = quotient(np.uint32(a), np.uint32(b))
    return np.int64(q), np.int64(np.uint32(np.uint32(a) - q * np.uint32(b)))


def _offset() -> Any:
    """``offset(number, rank, sizes, strides)``: where the element with a number lies, innermost dimension first."""
    lines = ["def offset(left, rank, sizes, strides):"]
    for d in range(FRAME_DIMS - 1):
        indent, before = "    " * (d + 1), "at + " if d else ""
        lines += [
            f"{indent}if rank == {d + 1}:",
            f"{indent}    return {before}np.int64(left) * strides[{d}]",
            f"{indent}else:",
            f"{indent}    whole = quotient(left, np.uint32(sizes[{d}]))",
            f"{indent}    rest = np.int64(np.uint32(left - whole * np.uint32(sizes[{d}])))",
            f"{indent}    at = {before}rest * strides[{d}]",
            f"{indent}    left = whole",
        ]
    lines.append(f"{'    ' * FRAME_DIMS}return at + np.int64(left) * strides[{FRAME_DIMS - 1}]")
    scope: dict[str, Any] = {"np": np, "quotient": quotient}
    exec("\n".join(lines) + "\n", scope)
    return scope["offset"]


offset = _offset()


def offsets_beside(dims: Iterable[int], operands: int) -> Any:
    """``offsets(number, rank, sizes, without, strides of the first operand, ...)``: where, in so many operands, the
    element with a number is, among those of the dimensions `dims`, the first of which goes round first; one of them is
    left out.
    """
    each = range(operands)
    lines = [f"def offsets(left, rank, sizes, without, {', '.join(f's{k}' for k in each)}):"]
    lines += [f"    o{k} = np.int64(0)" for k in each]
    for d in dims:
        lines += [
            f"    if rank > {d} and without != {d}:",
            f"        whole = quotient(left, np.uint32(sizes[{d}]))",
            f"        rest = np.int64(np.uint32(left - whole * np.uint32(sizes[{d}])))",
            *(f"        o{k} += rest * s{k}[{d}]" for k in each),
            "        left = whole",
        ]
    lines.append(f"    return {', '.join(f'o{k}' for k in each)}")
    scope: dict[str, Any] = {"np": np, "quotient": quotient}
    exec("\n".join(lines) + "\n", scope)
    return scope["offsets"]


def _number_of() -> Any:
    """``number_of(numbers, d)``: that of a dimension which is not known before; zero of none."""
    lines = ["def number_of(numbers, d):", "    found = np.int64(0)"]
    lines += [f"    found = numbers[{k}] if d == {k} else found" for k in range(FRAME_DIMS)]
    lines.append("    return found")
    scope: dict[str, Any] = {"np": np}
    exec("\n".join(lines) + "\n", scope)
    return scope["number_of"]


number_of = _number_of()


def product_of(numbers, count):
    """The product of the first ones of some numbers, of which there is one for each dimension."""
    total = np.int64(1)
    for d in range(FRAME_DIMS):
        total *= number_of(numbers, d) if d < count else np.int64(1)
    return total
