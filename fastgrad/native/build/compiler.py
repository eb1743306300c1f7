"""From Python functions to object code: Numba compiles, LLVM links and optimises, nothing is run.

A unit is a set of functions in one object file, or, where it is large, in several. Two sorts of functions leave a unit:
kernels, ``void(int64 frame)``, and entries, which CPython calls. Their wrappers are LLVM IR, so that the optimiser sees
through them; see Note [Entries] in `contracts.entries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types

from fastgrad.native.base.holes import Filled, filling
from fastgrad.native.base.intrinsics import NATIVE, OUT_OF_LINE
from fastgrad.native.base.pipeline import Lowered, collect, link
from fastgrad.native.build import processors
from fastgrad.native.build.collector import collector_off
from fastgrad.native.build.incremental import machine_codes
from fastgrad.native.build.interrupts import Uninterrupted
from fastgrad.native.build.machine_code import (
    EXPORTED,
    IN_PARTS,
    Settings,
    emit,
    optimise,
    target_machine,
)
from fastgrad.native.build.parts import divided
from fastgrad.native.contracts.entries import Export

NUMBA_TYPES = {"i": types.int64, "d": types.float64, "v": types.void}

KERNEL = """
declare i32 @{symbol}(ptr, ptr, i64)
define void @fastgrad_{name}(i64 %frame) {{
  %result = alloca ptr
  %info = alloca ptr
  %code = call i32 @{symbol}(ptr %result, ptr %info, i64 %frame)
  ret void
}}"""
"""A kernel around a compiled function, which raises nothing."""


class UndefinedError(RuntimeError):
    """A unit refers to a function that it is not to refer to, which is the argument."""


@Uninterrupted()
@collector_off()
def compile_unit(
    name: str,
    exports: list[Export],
    *,
    options: dict[str, Any] | None = None,
    wrapper: str = KERNEL,
    refused: tuple[str, ...] = (),
    filled: Sequence[Filled] = (),
) -> bytes:
    """Compile `exports`, which are kernels, to one relocatable object file.

    Parameters
    ----------
    name : str
        Name of the LLVM module.
    exports : list of Export
        What the unit provides, each under the symbol ``fastgrad_<name>``.
    options : dict, optional
        Numba options in place of those of the runtime (kernels allow contraction).
    wrapper : str
        What of each export leaves the unit, as LLVM IR.
    refused : tuple of str
        How names begin that the unit must not refer to.
    filled : sequence of Filled
        The holes in what is compiled: see `native.base.holes`.
    """
    machine = target_machine(*processors.host())
    module = optimised(name, exports, processors.host(), options=options, wrapper=wrapper, filled=filled)
    made = emit(module, machine)
    _check_symbols(made.undefined, name, refused)
    return made.code


def optimised(
    name: str,
    exports: list[Export],
    processor: processors.Processor,
    *,
    options: dict[str, Any] | None = None,
    wrapper: str = KERNEL,
    filled: Sequence[Filled] = (),
) -> llvm.ModuleRef:
    """The module of a unit for a processor, of which only the machine code is still to be made: see `compile_unit`."""
    symbols, functions = _lowered(exports, options or NATIVE)
    module = link([*functions, *filling(filled)])
    module.link_in(llvm.parse_assembly(_kernels(exports, symbols, wrapper)))
    module.name = name
    optimise(module, target_machine(*processor), _settings(processor, kernels=True))
    return module


@collector_off()
def compile_parts(
    name: str, exports: list[Export], rooms: Sequence[tuple[str, ...]], wrappers: Callable[[list[str]], str]
) -> list[bytes]:
    """Compile a unit to several object files that refer to each other: see `parts`.

    Parameters
    ----------
    name : str
        What messages call it.
    exports : list of Export
        What the unit provides.
    rooms : sequence of tuple of str
        Packages whose functions make a part; all others make the first.
    wrappers : callable
        What else belongs to the unit, as LLVM IR, from the names of the compiled functions. It refers to those only.
    """
    symbols, functions = _lowered(exports, NATIVE)
    settings = _settings(processors.host(), kernels=False)
    modules = divided(functions, rooms if IN_PARTS else (), wrappers(symbols), symbols)
    made = machine_codes([module.as_bitcode() for module in modules], settings)
    _check_symbols({s for part in made for s in part.undefined if not s.startswith(EXPORTED)}, name)
    return [part.code for part in made]


def _lowered(exports: list[Export], options: dict[str, Any]) -> tuple[list[str], list[Lowered]]:
    """The symbols of exports, and these and all functions that they call, as Numba lowers them."""
    compiled = [_compile(export, options) for export in exports]
    return [symbol for symbol, _ in compiled], collect([library for _, library in compiled])


def _settings(processor: processors.Processor, *, kernels: bool) -> Settings:
    return Settings(*processor, kernels, frozenset(OUT_OF_LINE))


def _kernels(exports: list[Export], symbols: list[str], wrapper: str) -> str:
    return "\n".join(wrapper.format(name=e.name, symbol=s) for e, s in zip(exports, symbols, strict=True))


def _compile(export: Export, options: dict[str, Any]) -> tuple[str, Any]:
    signature: Any = tuple(NUMBA_TYPES[letter] for letter in export.letters)
    if export.returns != "x":
        signature = NUMBA_TYPES[export.returns](*signature)
    dispatcher = export.function if hasattr(export.function, "py_func") else njit(**options)(export.function)
    dispatcher.compile(signature)
    result = dispatcher.overloads[dispatcher.signatures[0]]
    return result.fndesc.llvm_func_name, result.library


def _check_symbols(undefined: Iterable[str], name: str, refused: tuple[str, ...] = ()) -> None:
    """Every function that the unit uses but does not hold must exist in the process: a call would crash."""
    for symbol in undefined:
        if symbol.startswith(refused):
            raise UndefinedError(symbol)
        if llvm.address_of_symbol(symbol) is None:
            raise RuntimeError(f"unit {name} refers to {symbol}, which is not to be found")
