"""Views that read the same memory as something else: as elements of another dtype, as parts, as conjugates.

Each returns a handle or a negative status.
"""

from __future__ import annotations

from fastgrad.native.base import integers
from fastgrad.native.base.failures import fail, failed
from fastgrad.native.base.intrinsics import (
    native,
    native_once,
    product,
    stack_small,
    storage,
    tensor,
    words,
)
from fastgrad.native.contracts.element_types import COMPLEX64, FLOAT32, FLOAT64
from fastgrad.native.contracts.flags import CONJUGATED
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.status import (
    CONJUGATES_AS_DTYPE,
    CONJUGATES_AS_REAL,
    DTYPE_REFUSED,
    INTERNAL,
    NEGATIVES_AS_COMPLEX,
    NO_PAIRS,
    TOO_MANY_DIMS,
    VIEW_STRIDES,
)
from fastgrad.native.tensors.elements import itemsize
from fastgrad.native.tensors.tensors import alias, mark_layout, new_view


@native
def view_as_dtype(h, attrs):
    """The same bytes as elements of another dtype; the last dimension is as much longer or shorter."""
    t = tensor(h)
    if t.flags & CONJUGATED:
        return fail(CONJUGATES_AS_DTYPE)
    of = integers.as_dtype(attrs)
    given = itemsize(t.dtype)
    wanted = itemsize(of.dtype)
    if wanted == 0:
        return fail(INTERNAL, of.dtype, 0)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(t.ndim):
        sizes[k] = t.shape[k]
        strides[k] = t.strides[k]
    if given != wanted:
        last = t.ndim - 1
        if last < 0 or (t.strides[last] != 1 and t.shape[last] != 1):
            return fail(VIEW_STRIDES)
        for k in range(last):
            if t.strides[k] * given % wanted != 0:
                return fail(VIEW_STRIDES)
            strides[k] = t.strides[k] * given // wanted
        if sizes[last] * given % wanted != 0 or t.data % wanted != 0:
            return fail(VIEW_STRIDES)
        sizes[last] = sizes[last] * given // wanted
        strides[last] = 1
    out = new_view(h, t.ndim, sizes, strides, t.data)
    if not failed(out):
        tensor(out).dtype = of.dtype
    return out


@native_once
def view_as_real(h):
    """Complex numbers as pairs of real ones, which are a last dimension."""
    t = tensor(h)
    if t.dtype < COMPLEX64:
        return fail(DTYPE_REFUSED, t.dtype)
    if t.flags & CONJUGATED:
        return fail(CONJUGATES_AS_REAL)
    if t.ndim == MAX_DIMS:
        return fail(TOO_MANY_DIMS, t.ndim + 1)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(t.ndim):
        sizes[k] = t.shape[k]
        strides[k] = product(t.strides[k], 2)
        if strides[k] < 0:  # of a dimension with at most one element
            strides[k] = t.strides[k]
    sizes[t.ndim] = 2
    strides[t.ndim] = 1
    return retyped(new_view(h, t.ndim + 1, sizes, strides, t.data), t.dtype - (COMPLEX64 - FLOAT32))


@native_once
def view_as_complex(h):
    """Pairs of real numbers, which are the last dimension, as complex ones."""
    t = tensor(h)
    if t.dtype != FLOAT32 and t.dtype != FLOAT64:
        return fail(DTYPE_REFUSED, t.dtype)
    if t.flags & CONJUGATED:
        return fail(NEGATIVES_AS_COMPLEX)
    last = t.ndim - 1
    if t.ndim == 0 or t.shape[last] != 2 or t.strides[last] != 1:
        return fail(NO_PAIRS)
    dtype = t.dtype + (COMPLEX64 - FLOAT32)
    sizes = words(stack_small())
    strides = words(stack_small())
    for k in range(last):
        sizes[k] = t.shape[k]
        strides[k] = t.strides[k] // 2
        if t.strides[k] % 2 != 0 and t.shape[k] > 1:
            return fail(NO_PAIRS)
    if t.numel > 0 and (t.data - storage(t.storage).data) % itemsize(dtype) != 0:
        return fail(NO_PAIRS)
    return retyped(new_view(h, last, sizes, strides, t.data), dtype)


@native_once
def view_conjugate(h):
    """The conjugates of complex numbers, the negatives of real ones: see Note [Conjugates] in `launch.elementwise`."""
    out = alias(h)
    if not failed(out):
        t = tensor(out)
        t.flags ^= CONJUGATED
        mark_layout(t)
    return out


@native
def retyped(handle, dtype):
    """A view that nobody has seen yet, of another dtype."""
    if not failed(handle):
        tensor(handle).dtype = dtype
    return handle
