"""Kernels of elementwise ops, generated around a formula.

The source of a kernel is text in which names stand for the dtype's pointers and for the formula; see `_FLAT` and
`_STRIDED`. The flat form is one loop over contiguous memory whose pointers do not overlap, so that LLVM vectorises it;
the in-place form is the same loop with the output as first input. The strided form walks collapsed dimensions and
has inner loops for the stride patterns that matter.

Note [Chosen loops]: two options of a kernel make further loops, which give the same bits in less time. `numbers` are
values of the last operand for which, where it is one number, there is a loop with that value in its code; `m.pow`
means any power in the loop for other numbers, which give no small ones (Note [Small powers] in `powers`). `usual` is a
condition on an element and a shorter formula, which is enough where it holds: neighbours are looked at in pieces, and
the shorter formula computes a piece all of whose elements are usual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from numba import njit

from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP, Element, specialise
from fastgrad.kernels.powers import any_pow_32, any_pow_64
from fastgrad.kernels.scalar_ir import namespace
from fastgrad.native.base import frames
from fastgrad.native.base.holes import Filled, compiled, hole
from fastgrad.native.base.intrinsics import advance, nth, stack_small, words
from fastgrad.native.contracts.element_types import COMPLEX, FLOAT64, FLOATS
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE


def build(
    kernel: Any, dtype: int, layout_class: int, moved: Mapping[str, int] = MappingProxyType({})
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The function of a kernel, the Numba options to compile it with, and what fills its holes.

    `moved` are operands, and the result, by names, whose elements are taken for those of another dtype.
    """
    # The same for all kernels, which share what is made of a text.
    names = [f"x{k}" for k in range(len(kernel.inputs))]
    formula, elements, result = formula_of(kernel, dtype, layout_class, moved)
    more = _further(kernel, dtype, elements)
    if layout_class in (FLAT, INPLACE):
        text = _flat(names, layout_class == INPLACE, "usually" in more)
    else:
        numbers = [name for name in more if name.startswith("number")]
        of_gradient = kernel.inputs[:1] == ("g",)
        text = _strided(names, bool(elements) and elements[0] == result, numbers, of_gradient)
    function, filled = _define(text, names, elements, result, {"formula": formula, **more})
    return function, KERNEL, {"filled": filled}


def _further(kernel: Any, dtype: int, elements: list[Element]) -> dict[str, Any]:
    """What the text of loops calls besides the formula, by Note [Chosen loops]: of floats alone."""
    found: dict[str, Any] = {}
    if dtype not in FLOATS:
        return found
    for k, number in enumerate(kernel.options.get("numbers", ())):
        found[f"number{k}"] = elements[-1].constant(number)
    if found:
        e = elements[0]
        words = {**vars(e.math), "pow": any_pow_64 if dtype == FLOAT64 else any_pow_32}
        found["of_others"] = specialise(kernel.formula, e._replace(math=namespace("others", **words)))
    if "usual" in kernel.options:
        condition, formula = (specialise(function, elements[0]) for function in kernel.options["usual"])
        found |= {"is_usual": condition, "usually": formula}
    return found


def formula_of(
    kernel: Any, dtype: int, layout_class: int, moved: Mapping[str, int] = MappingProxyType({})
) -> tuple[Any, list[Element], Element]:
    """The formula of a kernel as compiled code calls it, the elements of its operands and that of its result."""
    frame, names = kernel.frame(layout_class), list(kernel.inputs)
    result, *elements = (ELEMENTS[moved.get(name, frame.element(name, dtype))] for name in ("out", *names))
    chosen = kernel.formula
    if dtype in COMPLEX:
        chosen = kernel.options.get("over_complex") or chosen
    # Of the formula's operands all but a condition are alike; those of one that joins parts are real.
    formula = specialise(chosen, ELEMENTS[dtype] if dtype in COMPLEX else elements[0])
    if kernel.options.get("times_g"):
        formula = _times(formula, ", ".join(names[1:]), names)
    if "times_g" in kernel.options and dtype in COMPLEX:
        formula = _conjugated(formula, ELEMENTS[dtype].math.conj, names)
    return formula, elements, result


def _times(formula: Any, arguments: str, names: list[str]) -> Any:
    scope: dict[str, Any] = {"formula": formula}
    exec(f"def times({', '.join(names)}):\n    return g * formula({arguments})\n", scope)
    return njit(**INLINE)(scope["times"])


def _conjugated(formula: Any, conj: Any, names: list[str]) -> Any:
    """A derivative over complex numbers: see Note [Complex gradients] in `ops.complex_numbers`."""
    scope: dict[str, Any] = {"formula": formula, "conj": conj}
    arguments = ", ".join(["conj(g)", *names[1:]])
    exec(f"def conjugated({', '.join(names)}):\n    return conj(formula({arguments}))\n", scope)
    return njit(**INLINE)(scope["conjugated"])


_defined: dict[tuple[Any, ...], tuple[Any, dict[str, Any]]] = {}


def _define(
    text: str, names: list[str], elements: list[Element], result: Element, called: dict[str, Any]
) -> tuple[Any, list[Filled]]:
    """The function of a text, and what it calls there: the formula, functions like it, and numbers.

    The text is compiled once for all functions of the same types, which fill its holes: see `native.base.holes`.
    """
    numbers = {name: value for name, value in called.items() if not hasattr(value, "py_func")}
    arguments = [element.scalar for element in elements]
    functions = {
        name: compiled(_of(f, names), arguments) for name, f in called.items() if name not in numbers
    }
    kinds = {name: function.signature.return_type for name, function in functions.items()}
    key = (text, *map(id, (result, *elements)), *numbers.items(), *kinds.items())
    if key not in _defined:
        holes = {name: hole(arguments, kind, njit(**INLINE)) for name, kind in kinds.items()}
        _defined[key] = _with_holes(text, names, elements, result, {**numbers, **holes}), holes
    function, holes = _defined[key]
    signature = tuple(arguments)
    return function, [Filled(holes[name].overloads[signature], made) for name, made in functions.items()]


def _of(function: Any, names: list[str]) -> Any:
    """A function of these arguments alone: what others it has keep their defaults."""
    if not (function.py_func.__defaults__ or function.py_func.__kwdefaults__):
        return function
    scope: dict[str, Any] = {"function": function}
    exec(f"def of({', '.join(names)}):\n    return function({', '.join(names)})\n", scope)
    return njit(**INLINE)(scope["of"])


def _with_holes(
    text: str, names: list[str], elements: list[Element], result: Element, called: dict[str, Any]
) -> Any:
    scope: dict[str, Any] = {
        "flat": frames.flat, "strided": frames.strided, "nth": nth,
        "words": words, "advance": advance, "stack_small": stack_small,
        "pointer_out": result.pointer, "store": result.store, **called,
    }  # fmt: skip
    for name, element in zip(names, elements, strict=True):
        scope[f"pointer_{name}"] = element.pointer
        scope[f"load_{name}"] = element.load
    exec(text, scope)
    for name, value in list(scope.items()):
        if name.startswith("loop"):
            scope[name] = njit(**(LOOP if name == "loop" else KERNEL))(value)
    return njit(**KERNEL)(scope["kernel"])


def _values(names: list[str], index: Callable[[str], str]) -> str:
    return ", ".join(f"load_{n}({n}, {index(n)})" for n in names)


_LOOP = """
    for i in range(n):
        store(out, i, formula({values}))
"""
_LOOP_BY_PIECES = """
    for start in range(0, n, {piece}):
        end = min(n, start + {piece})
        unusual = 0
        for i in range(start, end):
            unusual |= 0 if is_usual({values}) else 1
        if unusual:
            for i in range(start, end):
                store(out, i, formula({values}))
        else:
            for i in range(start, end):
                store(out, i, usually({values}))
"""
PIECE = 64  # elements of which one that is not usual slows the others


def _flat(names: list[str], inplace: bool, by_pieces: bool) -> str:
    """One loop over contiguous memory; in place, the first input is read where the output is written."""
    pointers = names[1:] if inplace else names
    values = _values(names, lambda _: "i")
    if inplace:
        values = values.replace(f"load_{names[0]}({names[0]}, i)", f"load_{names[0]}(out, i)")
    frame = ", ".join(f"pointer_{n}(f.inputs[{names.index(n)}])" for n in pointers)
    loop = (_LOOP_BY_PIECES if by_pieces else _LOOP).format(values=values, piece=PIECE)
    return f"""
def loop(out{"".join(", " + n for n in pointers)}, n):{loop}
def kernel(frame):
    f = flat(frame)
    loop(pointer_out(f.out){", " + frame if frame else ""}, f.n)
"""


def _over(names: list[str], values: dict[str, str], numbers: list[str]) -> list[str]:
    """The loop over the elements of operands, which are written as `values` says.

    With `numbers`, there is one for each of these values of the last operand besides.
    """
    last, lines = names[-1], []
    for number in numbers:
        lines += [f"    if {values[last]} == {number}:"]
        lines += ["    " + line for line in _over(names, {**values, last: number}, [])]
        lines += ["        return"]
    arguments, formula = ", ".join(values[n] for n in names), "of_others" if numbers else "formula"
    return [*lines, "    for i in range(n):", f"        store(out, i, {formula}({arguments}))"]


def _onto_first(k: int, names: list[str], pattern: dict[str, str], numbers: list[str]) -> list[str]:
    """The inner loop of a pattern where the result takes the place of the first operand.

    LLVM makes vectors of a loop only where pointers do not overlap, and these would.
    """
    first, second = names
    lines = [f"def loop_onto{k}(out, {second}, n):"]
    if pattern[second] == "0":
        lines.append(f"    v_{second} = load_{second}({second}, 0)")
    value = f"v_{second}" if pattern[second] == "0" else f"load_{second}({second}, i)"
    values = {first: f"load_{first}(out, i)", second: value}
    return [*lines, *_over(names, values, numbers if pattern[second] == "0" else [])]


def _patterns(names: list[str], of_gradient: bool) -> list[dict[str, str]]:
    """Strides of operands in the innermost dimension that matter: ``i`` for neighbours, 0 for one element.

    `of_gradient` says that the first operand is one, which may be that of a sum.
    """
    patterns = [dict.fromkeys(names, "i")]
    if len(names) == 1:
        patterns.append({names[0]: "0"})
    elif len(names) == 2:
        patterns += [{names[0]: "i", names[1]: "0"}, {names[0]: "0", names[1]: "i"}]
    elif len(names) == 3:  # one or two numbers beside a tensor; the gradient of a sum is one as well
        of_sum = ("0i0", "0ii") if of_gradient else ()
        patterns += [dict(zip(names, kinds, strict=True)) for kinds in ("ii0", "i00", "i0i", *of_sum)]
    elif len(names) == 4:
        patterns += [dict(zip(names, kinds, strict=True)) for kinds in ("iii0", "ii00")]
    return patterns


def _inner_loop(k: int, names: list[str], pattern: dict[str, str], numbers: list[str]) -> list[str]:
    """The inner loop of a pattern."""
    zero = [n for n in names if pattern[n] == "0"]
    values = {n: f"v_{n}" if n in zero else f"load_{n}({n}, i)" for n in names}
    return [
        f"def loop{k}({', '.join(['out', *names])}, n):",
        *(f"    v_{n} = load_{n}({n}, 0)" for n in zero),
        *_over(names, values, numbers if names and names[-1] in zero and len(zero) < len(names) else []),
    ]


def _strided(names: list[str], onto_first: bool, numbers: list[str], of_gradient: bool) -> str:
    """Collapsed dimensions: an odometer over the outer ones, around an inner loop chosen by its strides.

    `onto_first` says that the result may take the place of the first operand; for `numbers` see `_over`, for
    `of_gradient` see `_patterns`.
    """
    operands, patterns = ["out", *names], _patterns(names, of_gradient)
    onto = patterns[:2] if onto_first and len(names) == 2 else []
    strides = ", ".join(f"s_{n}" for n in operands)
    lines = [line for k, pattern in enumerate(patterns) for line in _inner_loop(k, names, pattern, numbers)]
    lines += [line for k, pattern in enumerate(onto) for line in _onto_first(k, names, pattern, numbers)]
    lines += [
        f"def loop_any({', '.join(operands)}, n, {strides}):",
        "    for i in range(n):",
        f"        store(out, i * s_out, formula({_values(names, lambda n: f'i * s_{n}')}))",
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
    if onto:
        first = f"f_{names[0]}"
        lines += [
            f"    onto = f_out.data == {first}.data",
            "    for d in range(f.rank):",
            f"        onto = onto and f_out.strides[d] == {first}.strides[d]",
        ]
    lines.append("    for row in range(total):")
    lines += [f"        {n} = advance(p_{n}, o_{n})" for n in operands]
    lines += _choice(operands, patterns, len(onto), strides)
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


def _choice(operands: list[str], patterns: list[dict[str, str]], n_onto: int, strides: str) -> list[str]:
    """The call of the inner loop whose pattern is that of the strides."""
    arguments, lines, keyword = ", ".join(operands), [], "if"
    for k, pattern in enumerate(patterns):
        test = " and ".join(f"s_{n} == {1 if kind == 'i' else 0}" for n, kind in pattern.items())
        lines.append(f"        {keyword} s_out == 1 and {test}:")
        if k < n_onto:
            lines += ["            if onto:", f"                loop_onto{k}(out, {operands[2]}, n)"]
            lines += ["            else:", f"                loop{k}({arguments}, n)"]
        else:
            lines.append(f"            loop{k}({arguments}, n)")
        keyword = "elif"
    return [*lines, "        else:", f"            loop_any({arguments}, n, {strides})"]
