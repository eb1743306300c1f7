"""How MPI combines halves, of which not every implementation knows: as functions of the operations that it calls.

MPI calls them wherever it makes progress, in the thread of Note [Progress] as well; so they must not be Python's.
Each computes in float32 and rounds to nearest, ties to even, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import float32, int64, types

from fastgrad.native.base.intrinsics import f32s, i32s, native, pointer_to, stack_words

u16s = pointer_to(types.uint16)
one_word = stack_words(1)

SIGN, INFINITY = 0x80000000, 0x7F800000
HALF_LARGEST = 0x477FF000  # bits of 65520, from which on numbers round to infinity
HALF_NORMAL = 0x38800000  # bits of the smallest normal half
REBIAS = 0x38000000  # the difference of the exponents' biases


@native
def number_of(bits):
    """The float32 of these bits."""
    place = one_word()
    i32s(place)[0] = bits
    return f32s(place)[0]


@native
def bits_of(number):
    """The bits of a float32, as a positive number."""
    place = one_word()
    f32s(place)[0] = number
    return int64(i32s(place)[0]) & 0xFFFFFFFF


@native
def widen_float16(bits):
    """The float32 that is a float16."""
    rest = bits & 0x7FFF
    if rest >= 0x7C00:
        wide = INFINITY | (rest & 0x3FF) << 13
    else:
        wide = bits_of(number_of(rest << 13) * float32(2.0**112))
    return number_of(wide | (bits & 0x8000) << 16)


@native
def narrow_float16(number):
    """The bits of a float32 rounded to float16."""
    bits = bits_of(number)
    rest = bits & 0x7FFFFFFF
    if rest > INFINITY:
        short = 0x7E00 | (rest >> 13 & 0x3FF)
    elif rest >= HALF_LARGEST:
        short = 0x7C00
    elif rest < HALF_NORMAL:  # the sum has the last place of the smallest halves
        short = bits_of(number_of(rest) + float32(0.5)) - bits_of(float32(0.5))
    else:
        short = (rest - REBIAS + 0xFFF + (rest >> 13 & 1)) >> 13
    return short | bits >> 16 & 0x8000


@native
def widen_bfloat16(bits):
    """The float32 that is a bfloat16."""
    return number_of(bits << 16)


@native
def narrow_bfloat16(number):
    """The bits of a float32 rounded to bfloat16; a NaN stays one."""
    if number != number:
        return 0x7FC0
    bits = bits_of(number)
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


@native
def add(a, b):
    """The sum."""
    return a + b


@native
def multiply(a, b):
    """The product."""
    return a * b


@native
def smaller(a, b):
    """The smaller of two numbers, a NaN if one is."""
    return a if a < b or a != a else b


@native
def larger(a, b):
    """The larger of two numbers, a NaN if one is."""
    return a if a > b or a != a else b


def _combining(widen: Callable[..., Any], combine: Callable[..., Any], narrow: Callable[..., Any]) -> Any:
    """A function of an operation: of where what comes lies, what it is combined with, and where their number stands."""

    def run(given, kept, count, kind):
        a, b = u16s(given), u16s(kept)
        for k in range(i32s(count)[0]):
            b[k] = narrow(combine(widen(int64(a[k])), widen(int64(b[k]))))

    return native(run)


float16_sum, float16_prod, float16_min, float16_max = (
    _combining(widen_float16, f, narrow_float16) for f in (add, multiply, smaller, larger)
)
bfloat16_sum, bfloat16_prod, bfloat16_min, bfloat16_max = (
    _combining(widen_bfloat16, f, narrow_bfloat16) for f in (add, multiply, smaller, larger)
)
