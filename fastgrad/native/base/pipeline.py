"""Numba as a front end: from Python to LLVM modules that are neither optimised nor made executable one by one.

Numba links, optimises and emits machine code for each function it compiles. The runtime is a few hundred small
functions that are linked once and optimised together, so `RawLibrary` leaves those steps out and `link`
collects the modules. These are the only uses of Numba's internals in the project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from numba.core import typed_passes as typed
from numba.core import types
from numba.core import untyped_passes as untyped
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass

from fastgrad.native.base.lowered import number_of
from fastgrad.native.base.raw_library import RawLibrary
from fastgrad.native.base.single_assignment import quick

IDLE = frozenset({
    untyped.WithLifting, untyped.InlineClosureLikes, untyped.MakeFunctionToJitFunction, untyped.InlineInlinables,
    untyped.FindLiterallyCalls, untyped.LiteralUnroll, untyped.LiteralPropagationSubPipelinePass,
    typed.InlineOverloads, typed.NopythonRewrites,
})  # fmt: skip
"""Numba's passes over what does not occur here: with blocks that are lifted, closures, loops over tuples, array
expressions. They come to a tenth of the time and change nothing of the code."""

_LEFT_TO_LLVM = frozenset({
    untyped.RewriteSemanticConstants, untyped.RewriteDynamicRaises, untyped.GenericRewrites, untyped.DeadBranchPrune,
})  # fmt: skip
"""What the runtime does without, too: constants, dead branches, tuples. Formulas of kernels may need them."""

QUICK = {untyped.ReconstructSSA: quick(untyped.ReconstructSSA, register_pass)}
"""Passes in place of Numba's, which do the same in less time."""

AT_ONCE = 24  # modules


class Remembering:
    """A typing context that resolves each builtin function over each types once; `resolved` is what it remembers.

    Numba tries one template after the other for every ``+``. Nearly all of these questions were asked before: to
    remember the answers takes a seventh off the time.
    """

    def __init__(self, context: Any, resolved: dict[Any, Any]) -> None:
        self._context = context
        self._resolved = resolved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        kind = func if isinstance(func, types.Type) else self._context._lookup_global(func)
        if kws or not isinstance(kind, types.Function):
            return self._context.resolve_function_type(func, args, kws)
        if not any(template.prefer_literal for template in kind.templates):
            args = tuple(map(types.unliteral, args))
        return self._once((kind, args), lambda: self._context.resolve_function_type(func, args, kws))

    def resolve_getattr(self, kind: Any, name: str) -> Any:
        if isinstance(kind, types.Module):
            return self._context.resolve_getattr(kind, name)
        return self._once((kind, name), lambda: self._context.resolve_getattr(kind, name))

    def _once(self, key: Any, resolve: Callable[[], Any]) -> Any:
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = resolve()
        return found


_resolved: dict[Any, Any] = {}


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's nopython pipeline into a `RawLibrary`."""

    left_out: frozenset[Any] = IDLE
    replaced: Mapping[Any, Any] = QUICK
    noalias = False
    checked = False  # after each pass, which means to analyse the whole function again

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = RawLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.home = state.func_id.modname
        state.flags.noalias = self.noalias
        state.typingctx = Remembering(state.typingctx, _resolved)
        manager = DefaultPassBuilder.define_nopython_pipeline(state)
        manager.passes = [
            (self.replaced.get(step, step), about)
            for step, about in manager.passes
            if step not in self.left_out
        ]
        manager._ENFORCING = self.checked
        return [manager]


class RuntimeCompiler(KernelCompiler):
    """The same for the functions of the runtime, which are many, small and plain.

    Their symbols are the same in every process, so that what was lowered in one fits what another one lowers.
    """

    left_out = IDLE | _LEFT_TO_LLVM

    def compile_extra(self, function: Any) -> Any:
        state = self.state
        state.func_id = FunctionIdentity.from_function(function)
        number = number_of(function)
        if number is not None:
            state.func_id.unique_id = number
            state.func_id.unique_name = f"{state.func_id.func_qualname}${number}"
        untyped.ExtractByteCode().run_pass(state)
        state.lifted, state.lifted_from = (), None
        return self._compile_bytecode()


class HookCompiler(KernelCompiler):
    """The same for functions that users write, with all that Numba does."""

    left_out = frozenset()
    replaced: Mapping[Any, Any] = {}
    checked = True


class NoaliasCompiler(KernelCompiler):
    """The same with a promise of the caller's: no two pointer arguments reach the same memory."""

    noalias = True


class Lowered(NamedTuple):
    """A function as Numba lowered it.

    Parameters
    ----------
    home : str
        The module that it was written in; empty for Numba's own functions.
    modules : list of ModuleRef
        The function, and what belongs to it alone.
    """

    home: str
    modules: list[llvm.ModuleRef]


def collect(libraries: list[Any]) -> list[Lowered]:
    """The functions of `libraries`, and all that they call."""
    found: list[Lowered] = []
    seen: set[int] = set()
    pending = list(libraries)
    while pending:
        library = pending.pop()
        if id(library) in seen:
            continue
        seen.add(id(library))
        pending.extend(library._linking_libraries)
        if isinstance(library, RawLibrary):
            found.append(Lowered(library.home, library.modules))
        else:  # Numba's own functions come as libraries of its own
            found.append(Lowered("", [library._final_module]))
    return found


def link(functions: Iterable[Lowered]) -> llvm.ModuleRef:
    """One module with copies of functions."""
    modules: list[llvm.ModuleRef] = []
    for lowered in functions:
        for part in [found.clone() for found in lowered.modules]:
            for function in part.functions:
                if not function.is_declaration:
                    function.linkage = (
                        llvm.Linkage.weak_odr
                    )  # linkonce would be left behind where nothing links to it yet
            modules.append(part)
    module = _merged(modules)
    module.verify()
    return module


def _merged(modules: list[llvm.ModuleRef]) -> llvm.ModuleRef:
    """One module of many, which are used up.

    LLVM walks over all that there is whenever something is added, so few are put together at a time.
    """
    while len(modules) > 1:
        groups = [modules[k : k + AT_ONCE] for k in range(0, len(modules), AT_ONCE)]
        for first, *others in groups:
            for other in others:
                first.link_in(other)
        modules = [group[0] for group in groups]
    return modules[0]
