"""Calling C functions by address: those of CUDA's driver, of cuBLAS and of MPI."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_LL64 = ir.IntType(64)
_KINDS = {"i": ir.IntType(32), "q": _LL64}


def function_at(arguments: str) -> Any:
    """A function of compiled code: ``call(address, ...)`` calls a C function there that gives an int.

    Parameters
    ----------
    arguments : str
        A letter for each argument: ``i`` an int or unsigned int, ``q`` one of 64 bits or a pointer. All come as int64.
    """
    kinds = [_KINDS[letter] for letter in arguments]
    signature = types.int64(types.int64, *[types.int64] * len(kinds))

    def emit(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        function = ir.FunctionType(ir.IntType(32), kinds)
        values = [
            builder.trunc(value, kind) if kind.width < 64 else value
            for value, kind in zip(args[1:], kinds, strict=True)
        ]
        answer = builder.call(builder.inttoptr(args[0], function.as_pointer()), values)
        return builder.sext(answer, _LL64)

    # Numba reads the parameters of an intrinsic from its function; what tells it from others is in its cell.
    names = ", ".join(f"a{k}" for k in range(len(kinds)))
    scope: dict[str, Any] = {"__name__": __name__, "typed": {arguments: (signature, emit)}}
    text = f"def call(context, address, {names}):\n        return typed[kinds]\n"
    exec(f"def of(kinds):\n    {text}    return call\n", scope)
    return intrinsic(scope["of"](arguments))
