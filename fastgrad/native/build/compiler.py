"""From Python functions to object code: Numba compiles, LLVM links and optimises, nothing is run.

A unit is a set of functions in one object file. Two sorts of functions leave a unit: kernels,
``void(int64 frame)``, and entries, which CPython calls. Their wrappers are LLVM IR, so that the optimiser sees through
them; see Note [Entries] in `contracts.entries`.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types

from fastgrad.native.base.intrinsics import NATIVE, OUT_OF_LINE
from fastgrad.native.base.pipeline import link
from fastgrad.native.build import processors
from fastgrad.native.contracts.entries import Export

NUMBA_TYPES = {"i": types.int64, "d": types.float64, "v": types.void}
MANY = 1 << 20
"""New objects that are collected at once: the collector would walk over them once for each generation."""


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Without the garbage collector: what a compiler makes lives as long as it works, and looking at it takes time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > MANY:
                gc.collect()
            gc.enable()


@_collector_off()
def compile_unit(
    name: str,
    exports: list[Export],
    *,
    wrappers: Callable[[list[str]], str] | None = None,
    options: dict[str, Any] | None = None,
) -> bytes:
    """Compile `exports` to one relocatable object file.

    Parameters
    ----------
    name : str
        Name of the LLVM module.
    exports : list of Export
        What the unit provides, each under the symbol ``fastgrad_<name>``.
    wrappers : callable, optional
        What else belongs to the unit, as LLVM IR, from the names of the compiled functions; without it the exports
        are kernels.
    options : dict, optional
        Numba options in place of those of the runtime (kernels allow contraction).
    """
    machine = target_machine(processors.host())
    module = optimised(name, exports, machine, wrappers=wrappers, options=options)
    code = bytes(machine.emit_object(module))
    _check_symbols(module, name)
    return code


def optimised(
    name: str,
    exports: list[Export],
    machine: llvm.TargetMachine,
    *,
    wrappers: Callable[[list[str]], str] | None = None,
    options: dict[str, Any] | None = None,
) -> llvm.ModuleRef:
    """The module of a unit for a machine, of which only the machine code is still to be made; see `compile_unit`."""
    symbols = []
    libraries = []
    for export in exports:
        symbol, library = _compile(export, options or NATIVE)
        symbols.append(symbol)
        libraries.append(library)
    module = link(libraries)
    text = _kernels(exports, symbols) if wrappers is None else wrappers(symbols)
    module.link_in(llvm.parse_assembly(text))
    module.name = name
    _optimise(module, machine, kernels=wrappers is None)
    return module


_KERNEL = """
declare i32 @{symbol}(ptr, ptr, i64)
define void @fastgrad_{name}(i64 %frame) {{
  %result = alloca ptr
  %info = alloca ptr
  %code = call i32 @{symbol}(ptr %result, ptr %info, i64 %frame)
  ret void
}}"""


def _kernels(exports: list[Export], symbols: list[str]) -> str:
    return "\n".join(_KERNEL.format(name=e.name, symbol=s) for e, s in zip(exports, symbols, strict=True))


def _compile(export: Export, options: dict[str, Any]) -> tuple[str, Any]:
    signature: Any = tuple(NUMBA_TYPES[letter] for letter in export.letters)
    if export.returns != "x":
        signature = NUMBA_TYPES[export.returns](*signature)
    dispatcher = export.function if hasattr(export.function, "py_func") else njit(**options)(export.function)
    dispatcher.compile(signature)
    result = dispatcher.overloads[dispatcher.signatures[0]]
    return result.fndesc.llvm_func_name, result.library


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, *, kernels: bool) -> None:
    # Everything but the wrappers becomes private to the unit, so that inlining and constant propagation see
    # that no function ever reports an exception.
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith("fastgrad_"):
            function.linkage = llvm.Linkage.internal
            if any(name in function.name for name in OUT_OF_LINE):
                function.add_function_attribute("noinline")
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = llvm.Linkage.internal
    options = llvm.create_pipeline_tuning_options(speed_level=3 if kernels else 2)
    # The runtime's loops run over a few dims, operands or hooks: longer code would only take time to compile.
    options.loop_vectorization = options.loop_unrolling = kernels
    options.slp_vectorization = True
    llvm.create_pass_builder(machine, options).getModulePassManager().run(
        module, llvm.create_pass_builder(machine, options)
    )


def _check_symbols(module: llvm.ModuleRef, name: str) -> None:
    """Every function that the unit uses but does not hold must exist in the process: a call would crash."""
    for symbol in (*module.functions, *module.global_variables):
        if symbol.is_declaration and not symbol.name.startswith("llvm."):
            if llvm.address_of_symbol(symbol.name) is None:
                raise RuntimeError(f"unit {name} refers to {symbol.name}, which is not to be found")


def target_machine(processor: processors.Processor) -> llvm.TargetMachine:
    """The machine that makes code for a processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=processor.name, features=processor.features, opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )
