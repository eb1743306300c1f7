"""Functions that are called before they are there, so that what calls them is compiled once for all that may come.

Numba types and lowers a function for each function that it calls. Loops of elementwise kernels differ in nothing but
the formula: with a hole in its place they are lowered once, and filled for each kernel when LLVM links it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from fastgrad.native.base.pipeline import Lowered, collect


class Filled(NamedTuple):
    """A hole, and what fills it: both as Numba compiled them, for the same types."""

    hole: Any
    function: Any


def compiled(function: Any, arguments: Sequence[Any]) -> Any:
    """What Numba makes of a function that it compiles, for arguments of these types; all others have to be given."""
    function.compile(tuple(arguments))
    return function.overloads[tuple(arguments)]


def hole(arguments: Sequence[Any], result: Any, decorate: Callable[[Any], Any]) -> Any:
    """A function of these types to call; see `filling`. Numba compiles what `decorate` makes."""

    def nothing(context: Any) -> Any:
        def emit(inner: Any, _builder: Any, _signature: Any, _given: Any) -> Any:
            return ir.Constant(inner.get_value_type(result), ir.Undefined)

        return result(), emit

    names = ", ".join(f"a{k}" for k in range(len(arguments)))
    scope: dict[str, Any] = {"nothing": intrinsic(nothing)}
    exec(f"def hole({names}):\n    return nothing()\n", scope)
    function = decorate(scope["hole"])
    compiled(function, arguments).library.modules.clear()  # its name stays, and has no code
    return function


def filling(filled: Sequence[Filled]) -> list[Lowered]:
    """What defines the functions of holes, and all that this calls."""
    functions = collect([f.function.library for f in filled])
    return [*functions, *(Lowered("", [_named(f)]) for f in filled)]


def _named(filled: Filled) -> Any:
    """A module with the function of a hole, which calls what fills it."""
    module, convention = ir.Module(), cpu_target.target_context.call_conv
    names = [made.fndesc.llvm_func_name for made in filled]
    [hole, function] = [
        ir.Function(module, convention.get_function_type(made.fndesc.restype, made.fndesc.argtypes), name)
        for made, name in zip(filled, names, strict=True)
    ]
    hole.attributes.add("alwaysinline")
    builder = ir.IRBuilder(hole.append_basic_block())
    builder.ret(builder.call(function, hole.args))
    return llvm.parse_assembly(str(module))
