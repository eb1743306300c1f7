"""Kernels of elementwise ops, generated around a formula.

The source of a kernel is text in which names stand for the dtype's pointers and for the formula; see `_FLAT` and
`_STRIDED`. The flat form is one loop over contiguous memory whose pointers do not overlap, so that LLVM vectorises it;
the in-place form is the same loop with the output as first input. The strided form walks collapsed dimensions and
has inner loops for the stride patterns that matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element, specialise
from fastgrad.native.base import frames
from fastgrad.native.base.intrinsics import advance, nth, stack_small, words
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The Python function of a kernel and the Numba options to compile it with."""
    options = kernel.options
    frame, names = kernel.frame(layout_class), list(kernel.inputs)
    result, *elements = (ELEMENTS[frame.element(name, dtype)] for name in ("out", *names))
    formula = specialise(kernel.formula, elements[0])
    if options.get("times_g"):
        arguments = ", ".join(names[1:])
        formula = _times(formula, arguments, names)
    text = _flat(names, layout_class == INPLACE) if layout_class in (FLAT, INPLACE) else _strided(names)
    return _define(text, names, elements, result, formula), KERNEL


def _times(formula: Any, arguments: str, names: list[str]) -> Any:
    scope: dict[str, Any] = {"formula": formula}
    exec(f"def times({', '.join(names)}):\n    return g * formula({arguments})\n", scope)
    return njit(**INLINE)(scope["times"])


def _define(text: str, names: list[str], elements: list[Element], result: Element, formula: Any) -> Any:
    scope: dict[str, Any] = {
        "flat": frames.flat, "strided": frames.strided, "nth": nth,
        "words": words, "advance": advance, "stack_small": stack_small, "formula": formula,
        "pointer_out": result.pointer, "store": result.store,
    }  # fmt: skip
    for name, element in zip(names, elements, strict=True):
        scope[f"pointer_{name}"] = element.pointer
        scope[f"load_{name}"] = element.load
    exec(text, scope)
    for name, value in list(scope.items()):
        if name.startswith("loop"):
            scope[name] = njit(**(LOOP if name == "loop" else KERNEL))(value)
    return scope["kernel"]


def _values(names: list[str], index: Callable[[str], str]) -> str:
    return ", ".join(f"load_{n}({n}, {index(n)})" for n in names)


def _flat(names: list[str], inplace: bool) -> str:
    """One loop over contiguous memory; in place, the first input is read where the output is written."""
    pointers = names[1:] if inplace else names
    values = _values(names, lambda _: "i")
    if inplace:
        values = values.replace(f"load_{names[0]}({names[0]}, i)", f"load_{names[0]}(out, i)")
    frame = ", ".join(f"pointer_{n}(f.inputs[{names.index(n)}])" for n in pointers)
    return f"""
def loop(out{"".join(", " + n for n in pointers)}, n):
    for i in range(n):
        store(out, i, formula({values}))

def kernel(frame):
    f = flat(frame)
    loop(pointer_out(f.out){", " + frame if frame else ""}, f.n)
"""


def _strided(names: list[str]) -> str:
    """Collapsed dimensions: an odometer over the outer ones, around an inner loop chosen by its strides."""
    operands = ["out", *names]
    signature = "out" + "".join(", " + n for n in names)
    patterns = [{n: "i" for n in names}]
    if len(names) == 1:
        patterns.append({names[0]: "0"})
    elif len(names) == 2:
        patterns += [{names[0]: "i", names[1]: "0"}, {names[0]: "0", names[1]: "i"}]
    elif len(names) == 3:  # one or two numbers beside a tensor
        patterns += [dict(zip(names, kinds, strict=True)) for kinds in ("ii0", "i00", "i0i")]
    elif len(names) == 4:
        patterns += [dict(zip(names, kinds, strict=True)) for kinds in ("iii0", "ii00")]
    lines = []
    for k, pattern in enumerate(patterns):
        lines.append(f"def loop{k}({signature}, n):")
        zero = [n for n in names if pattern[n] == "0"]
        for n in zero:
            lines.append(f"    v_{n} = load_{n}({n}, 0)")
        values = ", ".join(f"v_{n}" if n in zero else f"load_{n}({n}, i)" for n in names)
        lines += ["    for i in range(n):", f"        store(out, i, formula({values}))"]
    strides = ", ".join(f"s_{n}" for n in operands)
    values = _values(names, lambda n: f"i * s_{n}")
    lines += [
        f"def loop_any({signature}, n, {strides}):",
        "    for i in range(n):",
        f"        store(out, i * s_out, formula({values}))",
        "def kernel(frame):",
        "    f = strided(frame)",
        "    at = words(stack_small())",
        "    total = 1",
        "    for d in range(1, f.rank):",
        "        at[d] = 0",
        "        total *= f.sizes[d]",
        "    n = f.sizes[0]",
    ]
    for k, n in enumerate(operands):
        lines += [
            f"    f_{n} = nth(f.out, {k})",
            f"    o_{n} = 0",
            f"    s_{n} = f_{n}.strides[0]",
            f"    p_{n} = pointer_{n}(f_{n}.data)",
        ]
    lines.append("    for row in range(total):")
    for n in operands:
        lines.append(f"        {n} = advance(p_{n}, o_{n})")
    arguments = ", ".join(operands)
    keyword = "if"
    for k, pattern in enumerate(patterns):
        test = " and ".join(f"s_{n} == {1 if pattern[n] == 'i' else 0}" for n in names)
        lines += [f"        {keyword} s_out == 1 and {test}:", f"            loop{k}({arguments}, n)"]
        keyword = "elif"
    lines += ["        else:", f"            loop_any({arguments}, n, {strides})"]
    lines += [
        "        d = 1",
        "        while d < f.rank:",
        "            at[d] += 1",
        *[f"            o_{n} += f_{n}.strides[d]" for n in operands],
        "            if at[d] < f.sizes[d]:",
        "                break",
        *[f"            o_{n} -= f_{n}.strides[d] * f.sizes[d]" for n in operands],
        "            at[d] = 0",
        "            d += 1",
    ]
    return "\n".join(lines) + "\n"
