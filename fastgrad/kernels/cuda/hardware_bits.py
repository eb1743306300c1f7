"""The words of kernels for the CUDA device that take numbers as the bits that they are."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic


def _bits(source: Any, target: Any) -> Any:
    @intrinsic
    def cast(context, bits):  # type: ignore[no-untyped-def]
        def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.bitcast(args[0], inner.get_value_type(target))

        return target(source), emit

    return cast


float_of = _bits(types.int64, types.float64)
float_of_32 = _bits(types.int32, types.float32)
bits_of_32 = _bits(types.float32, types.int32)


@intrinsic
def sealed(context, x, nothing):  # type: ignore[no-untyped-def]
    kind = types.unliteral(x)

    def emit(inner, builder, signature, args):  # type: ignore[no-untyped-def]
        if kind not in (types.float32, types.float64):
            return args[0]
        word = ir.IntType(kind.bitwidth)
        zero = args[1] if kind.bitwidth == 64 else builder.trunc(args[1], word)
        changed = builder.xor(builder.bitcast(args[0], word), zero)
        return builder.bitcast(changed, inner.get_value_type(kind))

    return kind(kind, types.int64), emit
