"""Pieces of LLVM IR that make float32 of the bits of halves, and bits of floats, rounded once to nearest even.

See Note [Halves] in `native.contracts.element_types`. bfloat16 is the upper half of a float32, so that bits are moved
and the half to round added. What an instruction of the processor does is left to it; else there are a few operations on
integers without branches, of which LLVM makes vectors.

Note [Odd rounding]: a float64 cannot be rounded to float32 first, for two roundings may differ from one. Rounded to
*odd*, that is cut off with the last bit set if anything was lost, it can: a float32 has more than two bits beyond any
half, and the last one tells that the value was not on the way between two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fastgrad.native.contracts.element_types import FLOAT16

Instruction = Callable[[Any, Any], Any]
"""Emits what makes the bits of a half of a float32: ``emit(builder, value)``."""

_16, _32, _64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()
_SIGN, _ABSOLUTE, _INFINITY = 0x80000000, 0x7FFFFFFF, 0x7F800000


def truncated(builder: Any, value: Any) -> Any:
    """The bits of a float16, where the processor has an instruction for that."""
    return builder.bitcast(builder.fptrunc(value, ir.HalfType()), _16)


def widened(builder: Any, code: int, bits: Any, instruction: bool) -> Any:
    """The float32 that the bits of a half stand for; whether the processor has an instruction for float16."""
    if code != FLOAT16:
        return builder.bitcast(builder.shl(builder.zext(bits, _32), _32(16)), _FLOAT)
    if instruction:
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


def rounded(builder: Any, code: int, value: Any, instruction: Instruction | None) -> Any:
    """The bits of the half next to a float32 or float64, of two that are equally near the even one."""
    if value.type == _DOUBLE:
        value = _odd(builder, value)
    if instruction is not None:
        return instruction(builder, value)
    bits = builder.bitcast(value, _32)
    return _to_float16(builder, bits) if code == FLOAT16 else _to_bfloat16(builder, bits)


def _odd(builder: Any, value: Any) -> Any:
    """A float64 as float32, by Note [Odd rounding]."""
    near = builder.fptrunc(value, _FLOAT)
    back = builder.fpext(near, _DOUBLE)
    bits = builder.bitcast(near, _32)
    sizes = [builder.and_(builder.bitcast(x, _64), _64((1 << 63) - 1)) for x in (back, value)]
    larger = builder.icmp_signed(">", *sizes)
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
