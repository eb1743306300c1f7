"""Pointers to halves: what compiled loops read through them is float32, and what they write is rounded once.

See Note [Halves] in `native.contracts.element_types`. A kernel indexes such a pointer as any other; the conversions are
a few instructions without branches, and LLVM makes vectors of them.

bfloat16 is the upper half of a float32, so that bits are moved and the half to round added. For float16 processors have
instructions; LLVM would call functions of a runtime library on x86 without F16C, which the process may lack, so there
the conversions are made of integer operations, too.

Note [Odd rounding]: a float64 cannot be rounded to float32 first, for two roundings may differ from one. Rounded to
*odd*, that is cut off with the last bit set if anything was lost, it can: a float32 has more than two bits beyond any
half, and the last one tells that the value was not on the way between two of them.
"""

from __future__ import annotations

import operator
import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from fastgrad.native.build import processors
from fastgrad.native.contracts.element_types import DTYPES, FLOAT16, HALVES

_16, _32 = ir.IntType(16), ir.IntType(32)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()
_SIGN, _ABSOLUTE, _INFINITY = 0x80000000, 0x7FFFFFFF, 0x7F800000


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


@lower_builtin(operator.getitem, HalfPointer, types.Integer)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer, index = args
    return widened(builder, sig.args[0].code, builder.load(builder.gep(pointer, [index], inbounds=True)))


@lower_builtin(operator.setitem, HalfPointer, types.Integer, types.Float)  # type: ignore[untyped-decorator]
def _write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer, index, value = args
    bits = rounded(builder, sig.args[0].code, value)
    builder.store(bits, builder.gep(pointer, [index], inbounds=True))
    return context.get_dummy_value()


# --- conversions -----------------------------------------------------------------------------------------------


def _converts_float16() -> bool:
    """Whether the processor that code is compiled for converts float16."""
    return processors.host().has("f16c") or platform.machine().lower() in ("aarch64", "arm64")


def widened(builder: Any, code: int, bits: Any) -> Any:
    """The float32 that the bits of a half stand for."""
    if code != FLOAT16:
        return builder.bitcast(builder.shl(builder.zext(bits, _32), _32(16)), _FLOAT)
    if _converts_float16():
        return builder.fpext(builder.bitcast(bits, ir.HalfType()), _FLOAT)
    wide = builder.zext(bits, _32)
    sign = builder.shl(builder.and_(wide, _32(0x8000)), _32(16))
    magnitude = builder.shl(builder.and_(wide, _32(0x7FFF)), _32(13))
    exponent = builder.and_(magnitude, _32(0x7C00 << 13))
    moved = builder.add(magnitude, _32((127 - 15) << 23))
    special = builder.add(moved, _32((128 - 16) << 23))
    # A denormal number has no implicit bit, and one less in its exponent: it gets the bit, which is then taken off.
    least = builder.bitcast(_32((127 - 14) << 23), _FLOAT)
    denormal = builder.bitcast(builder.add(moved, _32(1 << 23)), _FLOAT)
    denormal = builder.bitcast(builder.fsub(denormal, least), _32)
    found = builder.select(builder.icmp_unsigned("==", exponent, _32(0x7C00 << 13)), special, moved)
    found = builder.select(builder.icmp_unsigned("==", exponent, _32(0)), denormal, found)
    return builder.bitcast(builder.or_(found, sign), _FLOAT)


def rounded(builder: Any, code: int, value: Any) -> Any:
    """The bits of the half next to a float32 or float64, of two that are equally near the even one."""
    if value.type == _DOUBLE:
        value = _odd(builder, value)
    if code == FLOAT16 and _converts_float16():
        return builder.bitcast(builder.fptrunc(value, ir.HalfType()), _16)
    bits = builder.bitcast(value, _32)
    return _to_float16(builder, bits) if code == FLOAT16 else _to_bfloat16(builder, bits)


def _odd(builder: Any, value: Any) -> Any:
    """A float64 as float32, by Note [Odd rounding]."""
    near = builder.fptrunc(value, _FLOAT)
    back = builder.fpext(near, _DOUBLE)
    bits = builder.bitcast(near, _32)
    fabs = builder.module.declare_intrinsic("llvm.fabs", [_DOUBLE])
    larger = builder.fcmp_ordered(">", builder.call(fabs, [back]), builder.call(fabs, [value]))
    # Of the two neighbours the even one is near; the other one, towards the value, is odd.
    other = builder.select(larger, builder.sub(bits, _32(1)), builder.add(bits, _32(1)))
    even = builder.icmp_unsigned("==", builder.and_(bits, _32(1)), _32(0))
    inexact = builder.fcmp_ordered("!=", back, value)
    return builder.bitcast(builder.select(builder.and_(even, inexact), other, bits), _FLOAT)


def _to_bfloat16(builder: Any, bits: Any) -> Any:
    last = builder.and_(builder.lshr(bits, _32(16)), _32(1))
    near = builder.lshr(builder.add(bits, builder.add(last, _32(0x7FFF))), _32(16))
    nan = builder.icmp_unsigned(">", builder.and_(bits, _32(_ABSOLUTE)), _32(_INFINITY))
    quiet = builder.or_(builder.lshr(bits, _32(16)), _32(0x40))
    return builder.trunc(builder.select(nan, quiet, near), _16)


def _to_float16(builder: Any, bits: Any) -> Any:
    sign = builder.lshr(builder.and_(bits, _32(_SIGN)), _32(16))
    magnitude = builder.and_(bits, _32(_ABSOLUTE))
    last = builder.and_(builder.lshr(magnitude, _32(13)), _32(1))
    near = builder.add(magnitude, builder.add(last, _32((((15 - 127) << 23) + 0xFFF) & 0xFFFFFFFF)))
    near = builder.lshr(near, _32(13))
    # Added to a number whose last bit is worth a denormal float16's, the sum is rounded where that one would be.
    magic = _32(((127 - 15) + (23 - 10) + 1) << 23)
    total = builder.fadd(builder.bitcast(magnitude, _FLOAT), builder.bitcast(magic, _FLOAT))
    denormal = builder.sub(builder.bitcast(total, _32), magic)
    nan = builder.icmp_unsigned(">", magnitude, _32(_INFINITY))
    special = builder.select(nan, _32(0x7E00), _32(0x7C00))
    found = builder.select(builder.icmp_unsigned("<", magnitude, _32((127 - 14) << 23)), denormal, near)
    found = builder.select(builder.icmp_unsigned(">=", magnitude, _32((127 + 16) << 23)), special, found)
    return builder.trunc(builder.or_(found, sign), _16)
