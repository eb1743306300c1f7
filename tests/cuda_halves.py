"""Elements of each dtype in arrays of NumPy, which has no bfloat16: halves stand there as their bits."""

from __future__ import annotations

import numpy as np

from fastgrad.native.contracts.element_types import DTYPES, FLOAT16, HALVES


def kind_of(dtype: int) -> np.dtype:
    """What elements are to NumPy: of halves their bits."""
    return np.dtype(np.uint16 if dtype in HALVES else DTYPES[dtype])


def stored(values: np.ndarray, dtype: int) -> np.ndarray:
    """Numbers as elements of a dtype; what lies between two of bfloat16 is cut off."""
    if dtype == FLOAT16:
        return values.astype(np.float16).view(np.uint16)
    if dtype in HALVES:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(DTYPES[dtype])


def rounded(values: np.ndarray, dtype: int) -> np.ndarray:
    """Numbers of float32 as the halves next to them; of two that are equally near as the even one."""
    if dtype == FLOAT16:
        return values.astype(np.float16).view(np.uint16)
    words = values.astype(np.float32).view(np.uint32)
    near = words + 0x7FFF + (words >> 16 & 1)
    return (np.where(np.isnan(values), words | 0x400000, near) >> 16).astype(np.uint16)


def read(array: np.ndarray, dtype: int) -> np.ndarray:
    """Elements as numbers: halves as float32."""
    if dtype == FLOAT16:
        return array.view(np.float16).astype(np.float32)
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype in HALVES else array


def unit_of_half(values: np.ndarray, dtype: int) -> np.ndarray:
    """How far apart halves are around numbers above zero."""
    digits, least = (11, -13) if dtype == FLOAT16 else (8, -125)
    return np.ldexp(1.0, np.maximum(np.frexp(values)[1], least) - digits)
