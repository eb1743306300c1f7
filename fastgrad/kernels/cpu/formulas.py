"""Formulas as functions of LLVM that give, wherever they are inlined, the bits that they give in a kernel of their own.

A kernel lets LLVM contract ``a * b + c`` of its formula to one rounding. Where several formulas stand in one loop, that
must happen within each of them and nowhere else, whatever stands around it: so a formula is optimised by itself, what
LLVM would contract there becomes an explicit `fma`, and nothing else may be contracted any more.

Note [Alike divisors]: on some processors a vector of floats takes 16 cycles to divide. Where a divisor is the same all
along a loop, LLVM takes its reciprocal in double out of that; three conversions and a multiplication are left. They
give the bits of the division: the product is within 2 ** -52 of the quotient, relative to it, and a quotient of
numbers of 24 bits that lies between two such numbers is at least 2 ** -49 from the middle. Only what is rounded to
fewer bits, because it is smaller than 2 ** -126, can be a middle, and then be rounded to the other side.

Note [Contraction]: LLVM contracts a sum of which an operand is a product that nothing else uses; where both are, the
first one. In a difference with two such products it takes the first one, too.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fastgrad.kernels.cpu.elementwise import formula_of
from fastgrad.kernels.dtypes import INLINE, Element
from fastgrad.native.base.pipeline import collect, link
from fastgrad.native.base.raw_library import RawLibrary
from fastgrad.native.build import processors
from fastgrad.native.build.machine_code import EXPORTED, Settings, optimise, target_machine

_TYPES: dict[Any, ir.Type] = {
    types.boolean: ir.IntType(1), types.uint8: ir.IntType(8), types.int32: ir.IntType(32),
    types.int64: ir.IntType(64), types.float32: ir.FloatType(), types.float64: ir.DoubleType(),
}  # fmt: skip


class Sealed(NamedTuple):
    """A formula for one dtype.

    Parameters
    ----------
    text : str
        A module of LLVM IR that defines it.
    call : intrinsic
        What calls it in compiled code: it takes and gives what registers hold of the elements.
    """

    text: str
    call: Any


# What a store makes of a result, and a load of that: so it is rounded as if it had been written.
_THROUGH_MEMORY = """
def through_memory(place, {arguments}):
    p = pointer(place)
    store(p, 0, formula({arguments}))
    return load(p, 0)
"""

_made: dict[tuple[Any, ...], Sealed] = {}


def sealed(kernel: Any, dtype: int, form: int, alike: tuple[int, ...] = ()) -> Sealed:
    """The formula of a row of the kernel table, for a dtype and a layout class.

    `alike`: the arguments that are the same all along the loop in which it stands; see Note [Alike divisors].
    """
    if not processors.divides_slowly():
        alike = ()
    key = (kernel.name, kernel.formula, dtype, form, alike)
    if key not in _made:
        name = "_".join(["formula", kernel.name, *map(str, (dtype, form, *alike))])
        _made[key] = _sealed(name, *formula_of(kernel, dtype, form), alike)
    return _made[key]


def _sealed(
    name: str, formula: Any, elements: list[Element], result: Element, alike: tuple[int, ...]
) -> Sealed:
    kinds = [element.scalar for element in elements]
    exported = EXPORTED + name
    arguments = ", ".join(f"a{k}" for k in range(len(kinds)))
    scope = {"formula": formula, "pointer": result.pointer, "store": result.store, "load": result.load}
    exec(_THROUGH_MEMORY.format(arguments=arguments), scope)
    dispatcher = njit(**INLINE)(scope["through_memory"])
    dispatcher.compile(result.scalar(types.int64, *kinds))
    compiled = dispatcher.overloads[dispatcher.signatures[0]]
    module = link(collect([compiled.library]))
    module.link_in(
        llvm.parse_assembly(_wrapper(compiled.fndesc.llvm_func_name, exported, kinds, result.scalar))
    )
    processor = processors.host()
    optimise(module, target_machine(*processor), Settings(*processor, False, frozenset()))
    text = contracted(str(module), exported) if processors.fuses() else str(module)
    text = _private(_with_quotients(text, alike), exported, name)
    return Sealed(text, _call_of(name, text, kinds, result.scalar))


def _wrapper(symbol: str, name: str, kinds: list[Any], result: Any) -> str:
    """A function of the plain types around one as Numba calls it: a bool is a byte there, the result is written."""
    word = ir.IntType(64)
    module = ir.Module()
    of_numba = [ir.IntType(8) if kind == types.boolean else _TYPES[kind] for kind in kinds]
    written = ir.IntType(8) if result == types.boolean else _TYPES[result]
    pointer = ir.PointerType()
    inner = ir.Function(
        module, ir.FunctionType(ir.IntType(32), [pointer, pointer, word, *of_numba]), name=symbol
    )
    outer = ir.Function(module, ir.FunctionType(_TYPES[result], [_TYPES[k] for k in kinds]), name=name)
    builder = ir.IRBuilder(outer.append_basic_block())
    place, failure, memory = builder.alloca(written), builder.alloca(word), builder.alloca(word)
    values = [
        builder.zext(value, kind) if value.type != kind else value
        for value, kind in zip(outer.args, of_numba, strict=True)
    ]
    builder.call(inner, [place, failure, builder.ptrtoint(memory, word), *values])
    value = builder.load(place, typ=written)
    builder.ret(builder.trunc(value, _TYPES[result]) if written != _TYPES[result] else value)
    return str(module)


def _call_of(name: str, text: str, kinds: list[Any], result: Any) -> Any:
    def typed(context: Any, *args: Any) -> Any:
        def emit(inner: Any, builder: Any, _signature: Any, given: Any) -> Any:
            kind = ir.FunctionType(_TYPES[result], [_TYPES[k] for k in kinds])
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name=name)
            library = RawLibrary(inner.codegen(), name)
            library.add_ir_module(text)
            inner.active_code_library.add_linking_library(library)
            return builder.call(function, given)

        return result(*kinds), emit

    arguments = ", ".join(f"a{k}" for k in range(len(kinds)))
    scope = {"typed": typed}  # an intrinsic has as many arguments as the formula
    exec(f"def call(context, {arguments}):\n    return typed(context, {arguments})\n", scope)
    return intrinsic(scope["call"])


_QUOTIENT = """
define linkonce_odr float @fastgrad_quotient(float %a, float %b) alwaysinline {
  %wide = fpext float %b to double
  %reciprocal = fdiv double 1.0, %wide
  %dividend = fpext float %a to double
  %product = fmul double %dividend, %reciprocal
  %quotient = fptrunc double %product to float
  ret float %quotient
}
"""


def _with_quotients(text: str, alike: tuple[int, ...]) -> str:
    """A module in which floats are divided by arguments that are the same for many as Note [Alike divisors] says."""
    divisors = "|".join(rf"%\.{k + 1}" for k in alike)  # as llvmlite names arguments
    changed = re.sub(
        rf"= fdiv float ([^,\n]+), ({divisors})$",
        r"= call float @fastgrad_quotient(float \1, float \2)",
        text,
        flags=re.M,
    )
    return changed + _QUOTIENT if alike and changed != text else text


def _private(text: str, exported: str, name: str) -> str:
    """The module with its function under a name that leaves no unit, inlined wherever it is called."""
    lines = []
    for line in text.splitlines():
        if line.startswith("define") and f"@{exported}(" in line:
            line = re.sub(r"\)[^)]*\{$", ") alwaysinline {", line)
        if line.startswith("define internal") and "@vecmath_" in line:  # others name these, so all are one
            line = line.replace("define internal", "define linkonce_odr")
        lines.append(line)
    return "\n".join(lines).replace(f"@{exported}", f"@{name}") + "\n"


# --- contraction -----------------------------------------------------------------------------------------------

_NAME = r'%[\w.]+|%"[^"]+"'
_PRODUCT = re.compile(rf"\s*({_NAME}) = fmul contract (float|double) ([^,]+), (\S+)$")
_SUM = re.compile(rf"(\s*)({_NAME}) = (fadd|fsub) contract (float|double) ([^,]+), (\S+)$")


def contracted(text: str, symbol: str) -> str:
    """A module in which the function of a symbol asks for what LLVM would contract: see Note [Contraction]."""
    begin = text.index("\ndefine", max(0, _place_of(text, symbol) - 1)) + 1
    end = text.index("\n}", begin)
    lines, used = _contracted_lines(text[begin:end].splitlines())
    declared = [
        f"declare {kind} @llvm.fma.f{bits}({kind}, {kind}, {kind})\n"
        for kind, bits in (("float", 32), ("double", 64))
        if kind in used and f"@llvm.fma.f{bits}(" not in text
    ]
    return text[:begin] + "\n".join(lines) + text[end:] + "".join(declared)


def _place_of(text: str, symbol: str) -> int:
    found = re.search(rf"^define [^\n]*@{re.escape(symbol)}\(", text, re.M)
    if found is None:
        raise RuntimeError(f"the formula {symbol} was lost")
    return found.start()


def _contracted_lines(lines: list[str]) -> tuple[list[str], set[str]]:
    uses: dict[str, int] = {}
    for line in lines:
        for name in re.findall(_NAME, line.partition(" = ")[2] or line):
            uses[name] = uses.get(name, 0) + 1
    products: dict[str, tuple[int, str, str]] = {}
    made: list[str | None] = []
    used: set[str] = set()
    for line in lines:
        if re.match(r"[\w.\"]+:", line):
            products.clear()  # LLVM looks within a block
        product, total = _PRODUCT.match(line), _SUM.match(line)
        if product and uses.get(product[1]) == 1:
            products[product[1]] = (len(made), product[3], product[4])
        if total:
            fused = _fused(total, products, made)
            used.update([total[4]] if fused != [line] else [])
            made += fused
        else:
            made.append(line)
    return [line.replace(" contract ", " ") for line in made if line is not None], used


def _fused(
    total: re.Match[str], products: dict[str, tuple[int, str, str]], made: list[str | None]
) -> list[Any]:
    """The lines of a sum or difference; a product that becomes a part of it is taken out."""
    indent, name, operation, kind, a, b = total.groups()
    first = a in products
    if not first and b not in products:
        return [total[0]]
    place, x, y = products.pop(a if first else b)
    made[place] = None
    rest = b if first else a
    before = []
    if operation == "fsub":
        negative = f"{name}.n" if '"' not in name else f'{name[:-1]}.n"'
        before = [f"{indent}{negative} = fneg {kind} {rest if first else x}"]
        rest, x = (negative, x) if first else (rest, negative)
    if name[1:].isdigit():  # numbers of values follow each other, and leave no gap
        before = [line.replace(f"{name}.n", f"%n{name[1:]}") for line in before]
        rest, x = rest.replace(f"{name}.n", f"%n{name[1:]}"), x.replace(f"{name}.n", f"%n{name[1:]}")
    bits = 32 if kind == "float" else 64
    call = f"call {kind} @llvm.fma.f{bits}({kind} {x}, {kind} {y}, {kind} {rest})"
    return [*before, f"{indent}{name} = {call}"]
