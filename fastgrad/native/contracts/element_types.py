"""The element types of tensors: codes, in order of promotion, and sizes in bytes."""

from __future__ import annotations

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""Codes of the element types, in order of promotion; the tables have room for all of them."""

BOOL, UINT8, INT8, INT16, INT32, INT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 = range(12)
ITEMSIZES = (1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16)
SUPPORTED_DTYPES = (BOOL, UINT8, INT32, INT64, FLOAT32, FLOAT64)
FLOATS = (FLOAT32, FLOAT64)
NUMBERS = SUPPORTED_DTYPES[1:]
DISCRETE = SUPPORTED_DTYPES[:4]
"""Dtypes that tensors may have; those of numbers with fractions, of numbers, of bits."""
