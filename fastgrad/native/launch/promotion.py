"""In which dtype an op computes: promotion as PyTorch has it."""

from __future__ import annotations

from fastgrad.native.base.intrinsics import native, native_inline, runtime, tensor
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT64,
    UINT8,
    UINT16,
    with_unsigned,
)
from fastgrad.native.contracts.flags import WRAPPED_NUMBER
from fastgrad.native.contracts.ops import FIRST, MASK_LAST, OUT_BOOL, OUT_COMPLEX, OUT_REAL, PROMOTE_FLOAT
from fastgrad.native.memory.parts import complex_dtype, real_dtype

wider_integer = native_inline(with_unsigned)

# --- promotion -------------------------------------------------------------------------------------------------


@native_inline
def promote_pair(a, b):
    """The smallest dtype that holds both, as PyTorch's promotion lattice has it."""
    if a == b:
        return a
    low = min(a, b)
    high = max(a, b)
    if high >= UINT16:
        return wider_integer(low, high)
    if low == UINT8 and high == INT8:
        return INT16
    if low == FLOAT16 and high == BFLOAT16:
        return FLOAT32
    if low == FLOAT64 and high == COMPLEX64:
        return COMPLEX128
    return high


@native_inline
def is_floating(dtype):
    """Whether a dtype, given by its code, is one of floats or of complex numbers, which are pairs of them."""
    return dtype >= FLOAT16 and dtype <= COMPLEX128


@native_inline
def is_complex(dtype):
    """Whether a dtype, given by its code, is one of complex numbers."""
    return dtype == COMPLEX64 or dtype == COMPLEX128


@native_inline
def is_half(dtype):
    """Whether a dtype, given by its code, is one of memory alone: see Note [Halves] in `contracts.element_types`."""
    return dtype == FLOAT16 or dtype == BFLOAT16


@native_inline
def computed_dtype(dtype):
    """The dtype that is computed in over a dtype; `element_types.computed_in` for compiled code."""
    return FLOAT32 if is_half(dtype) else dtype


@native_inline
def summed_dtype(dtype):
    """The dtype of sums and products of elements of a dtype."""
    return computed_dtype(dtype) if is_floating(dtype) else INT64


@native_inline
def number_dtype(dtype):
    """The dtype of a number beside tensors of a dtype, which it does not widen: that beside halves is not rounded."""
    return computed_dtype(dtype)


@native
def combine(higher, lower):
    """Promotion across categories: tensors with dimensions outrank 0-dim ones, which outrank numbers."""
    if higher < 0:
        return lower
    if lower < 0 or is_complex(higher):
        return higher
    if is_floating(higher):
        return complex_dtype(higher) if is_complex(lower) else higher
    if higher == BOOL or is_floating(lower):
        return promote_pair(higher, lower)
    return higher


@native_inline
def default_like(dtype):
    """The dtype of a floating or complex number, whose own is `dtype`, among numbers."""
    default = runtime().default_dtype
    return complex_dtype(default) if is_complex(dtype) else default


@native
def result_dtype(n, ins):
    """The dtype in which an op over `ins` computes."""
    dims = -1
    zeros = -1
    numbers = -1
    for k in range(n):
        t = tensor(ins[k])
        dtype = t.dtype
        if t.flags & WRAPPED_NUMBER:
            if is_floating(dtype):
                dtype = default_like(dtype)
            numbers = dtype if numbers < 0 else promote_pair(numbers, dtype)
        elif t.ndim > 0:
            dims = dtype if dims < 0 else promote_pair(dims, dtype)
        else:
            zeros = dtype if zeros < 0 else promote_pair(zeros, dtype)
    return combine(dims, combine(zeros, numbers))


@native
def dtype_with_number(handle, kind):
    """The dtype in which an op over a tensor and a Python number computes; `kind` as in `elementwise.number_tensor`."""
    t = tensor(handle)
    number = runtime().default_dtype if kind == 1 else (BOOL if kind == 2 else INT64)
    if not t.flags & WRAPPED_NUMBER:
        return combine(t.dtype, number)
    return promote_pair(default_like(t.dtype) if is_floating(t.dtype) else t.dtype, number)


@native
def can_cast(source, target):
    """Whether a result of dtype `source` may be written to a tensor of dtype `target` in place."""
    if is_floating(source) and not is_floating(target):
        return False
    if is_complex(source) and not is_complex(target):
        return False
    return not (source != BOOL and target == BOOL)


# --- the op family ---------------------------------------------------------------------------------------------


@native_inline
def out_dtype_of(flags, dtype):
    """The dtype of the result of an elementwise op that computes in a dtype."""
    if flags & (OUT_BOOL | OUT_REAL | OUT_COMPLEX):
        if flags & OUT_BOOL:
            return BOOL
        return real_dtype(dtype) if flags & OUT_REAL else complex_dtype(dtype)
    return dtype


@native
def compute_dtype(rule, flags, n, ins):
    """The dtype that the kernel works in, by the op's rule."""
    if rule == FIRST:
        return tensor(ins[0]).dtype
    dtype = result_dtype(n - 1 if flags & MASK_LAST else n, ins)
    if rule == PROMOTE_FLOAT and not is_floating(dtype):
        dtype = runtime().default_dtype
    return dtype
