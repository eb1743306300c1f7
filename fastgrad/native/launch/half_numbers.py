"""Numbers beside halves: whether a half dtype holds their values, or the op runs in float32 (Note [Halves])."""

from __future__ import annotations

from numba import types

from fastgrad.native.base.intrinsics import (
    address_of,
    f32s,
    f64s,
    native,
    native_once,
    stack_small,
    tensor,
    words,
)
from fastgrad.native.contracts.element_types import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64
from fastgrad.native.contracts.flags import WRAPPED_NUMBER
from fastgrad.native.contracts.limits import HOST

EXACT_IN_HALVES = 256  # integers up to here are numbers of either half dtype
# Bits of a float64's mantissa; its biased exponents of infinities and NaN, and of the halves' normal numbers.
MANTISSA_64, SPECIAL_64 = 52, 0x7FF
LEAST_16, MOST_16, LEAST_B16, MOST_B16 = 1023 - 14, 1023 + 15, 1023 - 126, 1023 + 127


@native
def fits_half(dtype, value):
    """Whether a half dtype holds a float64 as it is: zeros, infinities, NaN, normal numbers of few digits."""
    place = words(stack_small())
    f64s(address_of(place))[0] = value
    bits = place[0]
    exponent = bits >> MANTISSA_64 & SPECIAL_64
    digits = 10 if dtype == FLOAT16 else 7
    if bits & ((1 << (MANTISSA_64 - digits)) - 1) != 0:
        return False
    if dtype == FLOAT16:
        normal = LEAST_16 <= exponent and exponent <= MOST_16
    else:
        normal = LEAST_B16 <= exponent and exponent <= MOST_B16
    return normal or exponent == SPECIAL_64 or value == 0.0


@native
def holds_exactly(dtype, t):
    """Whether a half dtype holds the value of a number, given as a 0-dim tensor of the host's, as it is."""
    if t.dtype == FLOAT64:
        return fits_half(dtype, f64s(t.data)[0])
    if t.dtype == FLOAT32:
        return fits_half(dtype, types.float64(f32s(t.data)[0]))
    if t.dtype == INT64:
        return -EXACT_IN_HALVES <= words(t.data)[0] and words(t.data)[0] <= EXACT_IN_HALVES
    return t.dtype == BOOL


@native_once
def needs_float32(dtype, n, ins):
    """Whether an op in a half dtype has to run in float32, as PyTorch's does: over a number that this one rounds.

    So do tensors without dimensions, whatever they hold: only numbers are the same when a capture is replayed.
    """
    for k in range(n):
        t = tensor(ins[k])
        if t.ndim == 0 and t.dtype != dtype and t.dtype != BOOL:
            if not t.flags & WRAPPED_NUMBER or t.device != HOST or not holds_exactly(dtype, t):
                return True
    return False
