"""From an LLVM module to machine code: optimising it, and emitting an object file, in this process or in others.

This file imports nothing of the package: processes that make the code of one part of a unit run it by its path.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm

EXPORTED = "fastgrad_"
"""What symbols begin with that other units, or other parts of the same, refer to."""

INLINED_LATE = "inlined_late_"
"""What names begin with of functions that are inlined last: calls of them are made where loops become vectors."""

IN_PARTS = sys.platform == "linux"
"""Whether a unit may consist of several object files: those of other systems are not tried."""

RELOCATION = "static" if IN_PARTS else "pic"
"""Code that is loaded to be run can hold addresses. With tables of offsets to what it refers to it would be slower, and
LLVM's loader (RuntimeDyld) takes the table of the first ELF file for that of all."""


class Settings(NamedTuple):
    """How the code of a unit is made.

    Parameters
    ----------
    processor, features : str
        What it is for, as LLVM knows them.
    kernels : bool
        Whether loops are worth vectors; those of the runtime run over a few dims, operands or hooks: longer code would
        only take time to compile.
    out_of_line : frozenset of str
        Parts of the names of functions that are never inlined.
    """

    processor: str
    features: str
    kernels: bool
    out_of_line: frozenset[str]


class MachineCode(NamedTuple):
    """An object file, and the symbols that it refers to but does not hold."""

    code: bytes
    undefined: list[str]


def target_machine(processor: str, features: str) -> llvm.TargetMachine:
    """The machine that makes code for a processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=processor, features=features, opt=3, reloc=RELOCATION, codemodel="jitdefault", jit=True
    )


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, settings: Settings) -> None:
    """Optimise a module of which nothing is seen from outside but what is exported."""
    # Everything else becomes private to the module, so that inlining and constant propagation see that no function
    # ever reports an exception.
    for function in module.functions:
        symbol = function.name  # LLVM is asked for it each time
        if not function.is_declaration and not symbol.startswith(EXPORTED):
            function.linkage = llvm.Linkage.internal
            if any(name in symbol for name in settings.out_of_line):
                function.add_function_attribute("noinline")
    for variable in module.global_variables:
        if not variable.is_declaration and not variable.name.startswith(EXPORTED):
            variable.linkage = llvm.Linkage.internal
    options = llvm.create_pipeline_tuning_options(speed_level=3 if settings.kernels else 2)
    options.loop_vectorization = options.loop_unrolling = settings.kernels
    options.slp_vectorization = True
    llvm.create_pass_builder(machine, options).getModulePassManager().run(
        module, llvm.create_pass_builder(machine, options)
    )
    if any(function.name.startswith(INLINED_LATE) for function in module.functions):
        late = llvm.newpassmanagers.create_new_module_pass_manager()
        late.add_always_inliner_pass()
        late.run(module, llvm.create_pass_builder(machine, options))


def emit(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> MachineCode:
    """The object file of an optimised module."""
    code = bytes(machine.emit_object(module))
    symbols = (*module.functions, *module.global_variables)
    undefined = [s.name for s in symbols if s.is_declaration and not s.name.startswith("llvm.")]
    return MachineCode(code, undefined)


def of_bitcode(bitcode: bytes, settings: Settings) -> MachineCode:
    """The machine code of a module that is not optimised yet."""
    machine = target_machine(settings.processor, settings.features)
    module = llvm.parse_bitcode(bitcode)
    optimise(module, machine, settings)
    return emit(module, machine)


_WORK = """
import pickle, runpy, sys
sys.path[:], path, settings = pickle.load(sys.stdin.buffer)
run = runpy.run_path(path)
made = run["of_bitcode"](sys.stdin.buffer.read(), run["Settings"](*settings))
sys.stdout.buffer.write(pickle.dumps(tuple(made)))
"""


def of_each(modules: Sequence[bytes], settings: Settings) -> list[MachineCode]:
    """The machine code of several modules, given as bitcode: where there are cores for it, side by side.

    Raises
    ------
    RuntimeError
        If such a process fails; it says on stderr why.
    OSError
        If none can be started.
    """
    if len(modules) < 2 or _cores() < 2 or not sys.executable:
        return [of_bitcode(bitcode, settings) for bitcode in modules]
    head = pickle.dumps((sys.path, __file__, tuple(settings)))
    with contextlib.ExitStack() as ending:
        running = [ending.enter_context(_worker()) for _ in modules]
        for worker, bitcode in zip(running, modules, strict=True):
            with contextlib.suppress(BrokenPipeError):  # it has ended, which shows below
                worker.stdin.write(head + bitcode)
                worker.stdin.close()
        answers = [worker.stdout.read() for worker in running]
        if any(worker.wait() for worker in running):
            raise RuntimeError("a process that made machine code failed")
    return [MachineCode(*pickle.loads(answer)) for answer in answers]


def _cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def _worker() -> Iterator[Any]:
    """A process that makes machine code, which is ended if it is not done."""
    worker = subprocess.Popen(
        [sys.executable, "-I", "-c", _WORK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which then ends the other
    )
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
