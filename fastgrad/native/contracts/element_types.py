"""The element types of tensors: codes, in order of promotion, and sizes in bytes.

Note [Halves]: float16 and bfloat16 are dtypes of memory. What is computed on them is computed in float32, and rounded
once, to nearest even, when an element is stored. That happens at three places and nowhere else:

- `kernels.dtypes` describes their elements to compiled loops: a pointer to halves gives float32 and takes floats
  (`kernels.halves`), so that formulas and kernels that store each element once are the same for all floating dtypes.
  So do the elements of a GPU's kernels (`kernels.cuda.device.Element`), whose memory of a block holds float32.
- Kernels that keep sums in the memory of their results, or work on vectors by themselves, have none for halves. Ops
  that run them, and others whose steps must not be rounded one by one, are `IN_FLOAT32`: dispatch converts their
  operands and results (`dispatch.call.in_copies`). On GPUs many such kernels read halves, and write float32 where they
  keep sums in memory; dispatch rounds these (`dispatch.call.rounded`).
- Numbers beside halves, and 0-dim tensors, keep the value that they have in float32, as in PyTorch: an elementwise op
  over one that the half dtype cannot hold runs in float32 (`launch.elementwise.needs_float32`).
"""

from __future__ import annotations

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "uint16", "uint32", "uint64",
)  # fmt: skip
"""Codes of the element types, in order of promotion but for the last three; the tables have room for all of them."""

BOOL, UINT8, INT8, INT16, INT32, INT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 = range(12)
UINT16, UINT32, UINT64 = range(12, 15)
NO_DTYPE = 15
"""What integers come to that no dtype holds together: see `with_unsigned`."""
ITEMSIZES = (1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8)
HALVES = (FLOAT16, BFLOAT16)
"""Dtypes of memory alone: see Note [Halves]."""
WIDE = (FLOAT32, FLOAT64)
FLOATS = HALVES + WIDE
COMPLEX = (COMPLEX64, COMPLEX128)
DISCRETE = (BOOL, UINT8, INT8, INT16, INT32, INT64, UINT16, UINT32, UINT64)
REAL = DISCRETE + FLOATS
SUPPORTED_DTYPES = REAL + COMPLEX
NUMBERS = REAL[1:]
"""Dtypes that tensors may have: of floats that are computed in, of all floats, of pairs of these, of bits, all but
those pairs, all; of real numbers."""
INEXACT = FLOATS + COMPLEX
ANY_NUMBER = NUMBERS + COMPLEX
"""Floats and complex numbers; numbers of any kind."""
WITHOUT_HALVES = DISCRETE + WIDE
WIDE_NUMBERS = WITHOUT_HALVES[1:]
"""Those of kernels that have none for halves: all, and numbers."""
SELDOM = (INT8, INT16, UINT16, UINT32, UINT64)
"""Those that no kernel is compiled for ahead, and that GPUs have no kernels for."""


def real_of(code: int) -> int:
    """The dtype of the real part of elements: for all but complex dtypes their own."""
    return code - (COMPLEX64 - FLOAT32) if code in COMPLEX else code


def complex_of(code: int) -> int:
    """The complex dtype whose parts are of a dtype, as far as there is one: float64 has its own, others complex64."""
    return COMPLEX128 if code in (FLOAT64, COMPLEX128) else COMPLEX64


def moved_as(code: int) -> int:
    """The dtype as which elements are copied: halves and pairs of floats as integers, whatever their bits mean."""
    return INT16 if code in HALVES else INT64 if code == COMPLEX64 else code


def with_unsigned(low: int, high: int) -> int:
    """The smallest dtype that holds `low` and an unsigned one of more than 8 bits, `high`, whose code is greater.

    PyTorch refuses integers other than `high` itself; here each has its place, but for uint64 beside signed ones, which
    no dtype of integers holds together: `NO_DTYPE`.
    """
    if high == NO_DTYPE or (low >= FLOAT16 and low <= COMPLEX128):
        return low if high != NO_DTYPE else high
    if low <= UINT8 or low >= UINT16:
        return high
    if high == UINT64:
        return NO_DTYPE
    return max(low, INT32 if high == UINT16 else INT64)


def computed_in(code: int) -> int:
    """The dtype that elements are computed in, and that registers hold: for halves float32."""
    return FLOAT32 if code in HALVES else code
