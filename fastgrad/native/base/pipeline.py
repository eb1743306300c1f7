"""Numba as a front end: from Python to LLVM modules that are neither optimised nor made executable one by one.

Numba links, optimises and emits machine code for each function it compiles. The runtime is a few hundred small
functions that are linked once and optimised together, so `RawLibrary` leaves those steps out and `link`
collects the modules. These are the only uses of Numba's internals in the project.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder


class _Unbound:
    """A code generator whose functions are not bound to environments: nothing compiled here is called by Numba."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, env_name: str, env: Any) -> None:
        pass


class RawLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM modules of one function, as Numba lowered it."""

    @property
    def codegen(self) -> Any:
        return _Unbound(self._codegen)

    def add_llvm_module(self, ll_module: llvm.ModuleRef) -> None:
        self._final_module.link_in(ll_module)

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


_IDLE = frozenset({
    untyped.WithLifting, untyped.InlineClosureLikes, untyped.MakeFunctionToJitFunction, untyped.InlineInlinables,
    untyped.FindLiterallyCalls, untyped.LiteralUnroll, untyped.LiteralPropagationSubPipelinePass,
    typed.InlineOverloads, typed.NopythonRewrites,
})  # fmt: skip
"""Numba's passes over what does not occur here: with blocks that are lifted, closures, loops over tuples, array
expressions. They come to a tenth of the time and change nothing of the code."""


class RuntimeCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's nopython pipeline into a `RawLibrary`."""

    noalias = False

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = RawLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.noalias = self.noalias
        manager = DefaultPassBuilder.define_nopython_pipeline(state)
        manager.passes = [(step, about) for step, about in manager.passes if step not in _IDLE]
        return [manager]


class NoaliasCompiler(RuntimeCompiler):
    """The same with a promise of the caller's: no two pointer arguments reach the same memory."""

    noalias = True


def link(libraries: list[Any]) -> llvm.ModuleRef:
    """One module with the functions of `libraries` and of all that they call."""
    module: llvm.ModuleRef | None = None
    seen: set[int] = set()
    pending = list(libraries)
    while pending:
        library = pending.pop()
        if id(library) in seen:
            continue
        seen.add(id(library))
        pending.extend(library._linking_libraries)
        part = library._final_module.clone()
        for function in part.functions:
            if not function.is_declaration:
                function.linkage = (
                    llvm.Linkage.weak_odr
                )  # linkonce would be left behind where nothing links to it yet
        if module is None:
            module = part
        else:
            module.link_in(part)
    assert module is not None
    return module
