"""Matrix products: the OpenBLAS inside NumPy's wheel, called by its symbol, or code of our own.

Small products with contiguous rows go to the register tiles of `micro`; machines without OpenBLAS, and integers, to
plain loops.

Frame: out, a, b, m, n, k, leading dimension of a, whether a is stored by columns, the same for b, batch size,
strides of out, a and b between matrices. Everything is row-major for BLAS; a matrix stored by columns is passed
as transposed.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from fastgrad.native.layout import BOOL, FLOAT32, FLOAT64

# Symbols of cblas gemm in the libraries that NumPy may bring, with 64-bit integers, float32 then float64.
_CANDIDATES = (("scipy_cblas_sgemm64_", "scipy_cblas_dgemm64_"), ("cblas_sgemm64_", "cblas_dgemm64_"))


def find_blas() -> tuple[str, str] | None:
    """Names of the gemm functions, made visible to compiled code; None if NumPy has no such library."""
    for symbols in _CANDIDATES:
        if all(llvm.address_of_symbol(s) for s in symbols):
            return symbols
    folder = os.path.dirname(np.__file__)
    patterns = (
        os.path.join(folder, "..", "numpy.libs", "*openblas64_*"), os.path.join(folder, ".dylibs", "*openblas64_*"),
    )  # fmt: skip
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            try:
                llvm.load_library_permanently(path)
            except RuntimeError:
                continue
            for symbols in _CANDIDATES:
                if all(llvm.address_of_symbol(s) for s in symbols):
                    return symbols
    return None


def describe_blas() -> str:
    """What matrix products run on, for the doctor."""
    found = find_blas()
    return (
        f"OpenBLAS of NumPy ({found[0]})" if found else f"own loops (NumPy on {sys.platform} has no OpenBLAS)"
    )


def build(kernel: Any, dtype: int, layout_class: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The product for one dtype."""
    from fastgrad.kernels.dtypes import KERNEL

    if dtype == BOOL:
        raise NotImplementedError("convert the operands with .to(fastgrad.float32) first")
    found = find_blas()
    if found and dtype in (FLOAT32, FLOAT64):
        return _blas(found[0] if dtype == FLOAT32 else found[1], dtype), KERNEL
    return _own(dtype), KERNEL


ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112


def _blas(symbol: str, dtype: int) -> Callable[..., None]:
    from numba import njit, types

    from fastgrad.kernels.dtypes import ELEMENTS, KERNEL
    from fastgrad.kernels.micro import MAX_WORK, lanes, small_product
    from fastgrad.native.intrinsics import advance, words

    scalar = ELEMENTS[dtype].scalar
    i = types.int64
    gemm = types.ExternalFunction(symbol, types.void(i, i, i, i, i, i, scalar, i, i, i, i, scalar, i, i))
    one, zero = ELEMENTS[dtype].constant(1), ELEMENTS[dtype].constant(0)
    size = 4 if dtype == FLOAT32 else 8
    product, pointer = small_product(dtype), ELEMENTS[dtype].pointer
    width = lanes(dtype)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        ta = TRANSPOSE if f[7] else NO_TRANSPOSE
        tb = TRANSPOSE if f[9] else NO_TRANSPOSE
        # BLAS with k = 0 writes zeros, as beta says.
        for batch in range(f[10]):
            gemm(
                ROW_MAJOR, ta, tb, f[3], f[4], f[5], one, f[1] + batch * f[12] * size, f[6],
                f[2] + batch * f[13] * size, f[8], zero, f[0] + batch * f[11] * size, f[4],
            )  # fmt: skip

    if product is None:
        return run
    blas = njit(**KERNEL)(run)

    def run_small(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        m, n, k = f[3], f[4], f[5]
        if f[9] or n % width != 0 or m * n * k > MAX_WORK:
            blas(frame)
            return
        row_a = 1 if f[7] else f[6]
        col_a = f[6] if f[7] else 1
        for batch in range(f[10]):
            c = advance(pointer(f[0]), batch * f[11])
            a = advance(pointer(f[1]), batch * f[12])
            b = advance(pointer(f[2]), batch * f[13])
            product(c, a, b, m, n, k, row_a, col_a, f[8])

    return run_small


def _own(dtype: int) -> Callable[..., None]:
    """Plain loops, for integers and for machines without OpenBLAS: rows of b are added, so that LLVM vectorises."""
    from fastgrad.kernels.dtypes import ELEMENTS
    from fastgrad.native.intrinsics import advance, words

    pointer, zero = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant(0)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        row_a = 1 if f[7] else f[6]
        col_a = f[6] if f[7] else 1
        row_b = 1 if f[9] else f[8]
        col_b = f[8] if f[9] else 1
        for batch in range(f[10]):
            out = advance(pointer(f[0]), batch * f[11])
            a = advance(pointer(f[1]), batch * f[12])
            b = advance(pointer(f[2]), batch * f[13])
            for i in range(f[3]):
                for j in range(f[4]):
                    out[i * f[4] + j] = zero
                for k in range(f[5]):
                    x = a[i * row_a + k * col_a]
                    for j in range(f[4]):
                        out[i * f[4] + j] += x * b[k * row_b + j * col_b]

    return run
