"""Python data (numbers, nested sequences, arrays) and tensors as arrays of supported dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from fastgrad import dtypes
from fastgrad.functions.arguments import is_tensor
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64, HALVES, complex_of
from fastgrad.native.contracts.flags import CONJUGATED
from fastgrad.native.contracts.limits import HOST
from fastgrad.native.contracts.records import TENSOR

_NUMBERS = {float, int, bool, complex}  # of Python, that have no dtype of their own
_DTYPE, _DEVICE, _FLAGS = (TENSOR.fields[name][0] for name in ("dtype", "device", "flags"))
_DEEPEST = 64  # levels of sequences: one that holds itself has no end


def elements_of(tensor: Any) -> np.ndarray:
    """What a tensor holds, as an array: over its memory, or over a copy if it lives on another device than the CPU, or
    holds conjugates of what lies there.

    Elements of bfloat16, which NumPy does not know, come as int16: their bits. All that the host reads of tensors it
    reads here, or by `values_of`.
    """
    if rt.field(tensor, _DEVICE) != HOST or rt.field(tensor, _FLAGS) & CONJUGATED:
        tensor = _copied(tensor, rt.field(tensor, _DTYPE))
    return rt.array_over(tensor)  # type: ignore[no-any-return]


def values_of(tensor: Any) -> np.ndarray:
    """The same to compute with, or to show: halves come as float32."""
    wide = rt.field(tensor, _DTYPE) in HALVES
    return elements_of(_copied(tensor, FLOAT32) if wide else tensor)


def _copied(tensor: Any, code: int) -> Any:
    """A copy of a tensor in a dtype, in the memory of the host."""
    arrived = rt.new(code, HOST, rt.sizes(tensor))
    rt.copy(arrived, rt.detach(tensor))
    return arrived


def write_values(tensor: Any, values: np.ndarray) -> None:
    """Fill a new tensor with an array of numbers, each rounded once."""
    code = rt.field(tensor, _DTYPE)
    if code in HALVES:
        exact = rt.new(FLOAT64, HOST, values.shape)
        write_values(exact, values)
        rt.copy(tensor, exact)
    else:
        rt.write(tensor, np.asarray(values, dtypes.of_code(code).numpy, order="C"))


def array_of(data: Any, wanted: dtypes.dtype | None = None) -> tuple[np.ndarray, dtypes.dtype]:
    """Python data as a contiguous array, and the dtype that is wanted of it, by default the one that its elements have.

    The array is of this dtype, but for halves, which come as float64: they are rounded when they are written.

    Python's floats count as the default dtype, ints as int64; arrays, their elements and tensors have a dtype. Dtypes
    that stand side by side are promoted.
    """
    if isinstance(data, np.ndarray):
        found, array = dtypes.of_numpy(data.dtype), data
    else:
        kinds: set[Any] = set()
        plain, _ = _read(data, kinds, 0)
        found = _promoted(kinds)
        if found.is_complex and wanted is not None and not wanted.is_complex:
            raise TypeError(f"tensor(): complex numbers have no place in a tensor of dtype {wanted}")
        exact = (wanted is not None and wanted.is_floating_point) or found.is_floating_point
        pairs = found.is_complex or (wanted is not None and wanted.is_complex)
        unsigned = wanted is dtypes.uint64 and found is dtypes.int64
        read = np.complex128 if pairs else np.float64 if exact else np.uint64 if unsigned else found.numpy
        try:
            array = np.asarray(plain, read)
        except OverflowError:
            if unsigned:  # as PyTorch says it: a negative int, or one of more than 64 bits
                raise
            raise ValueError(
                "tensor(): Overflow when unpacking long long: an int is too large for int64"
            ) from None
        if wanted is not None and wanted.code in dtypes.LIMITS and not unsigned and array.size:
            least, most = dtypes.LIMITS[wanted.code]
            if not (array.min() >= least and array.max() <= most):
                raise RuntimeError(
                    f"tensor(): value cannot be converted to type {wanted.name} without overflow"
                )
    target = wanted or found
    return np.asarray(array, np.float64 if target.code in HALVES else target.numpy, order="C"), target


def _promoted(kinds: set[Any]) -> dtypes.dtype:
    """The dtype of data with elements of these dtypes and types of Python."""
    default = dtypes.get_default_dtype()
    numbers = {float: default, complex: dtypes.ALL[complex_of(default.code)]}
    kinds = {numbers[kind] if kind in numbers else dtypes.as_dtype(kind) for kind in kinds}
    return reduce(dtypes.promote_types, kinds) if kinds else dtypes.get_default_dtype()


def _read(data: Any, kinds: set[Any], level: int) -> tuple[Any, tuple[int, ...]]:
    """Data as NumPy takes it, and its sizes; collects the dtypes of its elements, for numbers of Python their types."""
    if isinstance(data, (list, tuple)):
        types = set(map(type, data))
        if types <= _NUMBERS:
            kinds |= types
            return data, (len(data),)
        if level == _DEEPEST:
            raise ValueError(
                f"tensor(): too many dimensions: sequences within each other, more than {_DEEPEST}"
            )
        parts = [_read(part, kinds, level + 1) for part in data]
        sizes = parts[0][1]
        for _, others in parts:
            if others != sizes:
                raise _mismatch(sizes, others, level + 1)
        return [part for part, _ in parts], (len(data), *sizes)
    if isinstance(data, (bool, int, float, complex)) and not isinstance(data, np.generic):
        kinds.add(next(kind for kind in (bool, int, float, complex) if isinstance(data, kind)))
        return data, ()
    if is_tensor(data):
        kinds.add(data.dtype)
        return values_of(data), tuple(data.shape)
    if _is_sequence(data):
        return _read(list(data), kinds, level)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"tensor(): invalid data type '{type(data).__name__}'")
    array = np.asarray(data)
    if array.dtype.kind in "OUSV":
        raise RuntimeError(f"tensor(): Could not infer dtype of {type(data).__name__}")
    kinds.add(dtypes.of_numpy(array.dtype))
    return array, array.shape


def _is_sequence(data: Any) -> bool:
    """Whether data is a sequence of values, such as a range, and nothing that NumPy takes for an array."""
    return (
        hasattr(data, "__getitem__")
        and hasattr(data, "__len__")
        and not hasattr(data, "__array__")
        and not hasattr(data, "__array_interface__")
        and not isinstance(data, (str, bytes, Mapping))
    )


def _mismatch(sizes: tuple[int, ...], others: tuple[int, ...], dim: int) -> Exception:
    """What to raise for parts of different sizes in one sequence."""
    if len(sizes) != len(others):
        return TypeError(
            f"tensor(): parts of {len(sizes)} and of {len(others)} dimensions stand side by side at dim {dim}"
        )
    k = next(k for k, (a, b) in enumerate(zip(sizes, others, strict=True)) if a != b)
    return ValueError(f"tensor(): expected sequence of length {sizes[k]} at dim {dim + k} (got {others[k]})")
