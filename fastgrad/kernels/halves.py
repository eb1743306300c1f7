"""Pointers to halves: what compiled loops read through them is float32, and what they write is rounded once.

See Note [Halves] in `native.contracts.element_types`. A kernel indexes such a pointer as any other; the conversions are
those of `half_ir`. For float16 processors have instructions; LLVM would call functions of a runtime library on x86
without F16C, which the process may lack, so there integer operations do it, as they do for bfloat16.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from fastgrad.kernels.half_ir import rounded, truncated, widened
from fastgrad.native.build import processors
from fastgrad.native.contracts.element_types import DTYPES, FLOAT16, HALVES

_16 = ir.IntType(16)


class HalfPointer(types.Type):  # type: ignore[misc]
    """The type of pointers to elements of a half dtype."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(name=f"HalfPointer({DTYPES[code]})")


@register_model(HalfPointer)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _16.as_pointer())


_POINTERS = {code: HalfPointer(code) for code in HALVES}


def pointer_to_halves(code: int) -> Any:
    """A function of compiled code that makes an address a pointer to elements of a half dtype."""
    kind = _POINTERS[code]

    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def codegen(_inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], _16.as_pointer())

        return kind(types.int64), codegen

    return pointer


# --- indexing --------------------------------------------------------------------------------------------------


@infer_global(operator.getitem)
class _Read(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        pointer, index = args
        if isinstance(pointer, HalfPointer) and isinstance(index, types.Integer):
            return signature(types.float32, pointer, types.intp)
        return None


@infer_global(operator.setitem)
class _Write(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        pointer, index, value = args
        if isinstance(pointer, HalfPointer) and isinstance(index, types.Integer):
            # Integers go by way of float64, which holds what float32 would round.
            exact = value in (types.float32, types.float64)
            kind = types.float32 if isinstance(value, types.Boolean) else value if exact else types.float64
            return signature(types.none, pointer, types.intp, kind)
        return None


def _converts_float16() -> bool:
    """Whether the processor that code is compiled for converts float16."""
    return processors.host().has("f16c") or processors.is_arm()


@lower_builtin(operator.getitem, HalfPointer, types.Integer)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer, index = args
    bits = builder.load(builder.gep(pointer, [index], inbounds=True))
    return widened(builder, sig.args[0].code, bits, _converts_float16())


@lower_builtin(operator.setitem, HalfPointer, types.Integer, types.Float)  # type: ignore[untyped-decorator]
def _write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer, index, value = args
    code = sig.args[0].code
    bits = rounded(builder, code, value, truncated if code == FLOAT16 and _converts_float16() else None)
    builder.store(bits, builder.gep(pointer, [index], inbounds=True))
    return context.get_dummy_value()
