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

    return _each_matrix(_product(dtype), dtype), KERNEL


def _each_matrix(product: Any, dtype: int) -> Callable[..., None]:
    """A kernel that calls ``product(f, c, a, b)`` for the matrices of a batch; `f` is the frame."""
    from numba import njit

    from fastgrad.kernels.dtypes import ELEMENTS, INLINE
    from fastgrad.native.intrinsics import advance, words

    pointer = ELEMENTS[dtype].pointer
    product = njit(**INLINE)(product)

    def run(frame):  # type: ignore[no-untyped-def]
        f = words(frame)
        c, a, b = pointer(f[0]), pointer(f[1]), pointer(f[2])
        for k in range(f[10]):
            product(f, advance(c, k * f[11]), advance(a, k * f[12]), advance(b, k * f[13]))

    return run


def _product(dtype: int) -> Callable[..., None]:
    """``product(f, c, a, b)``: of small matrices in register tiles, else what `matrix_product` gives."""
    from fastgrad.kernels.micro import MAX_WORK, lanes, small_product

    whole = matrix_product(dtype)

    def large(f, c, a, b):  # type: ignore[no-untyped-def]
        whole(f[7], f[9], f[3], f[4], f[5], a, f[6], b, f[8], 0, c, f[4])

    small = small_product(dtype) if dtype in (FLOAT32, FLOAT64) and find_blas() else None
    if small is None:
        return large
    width = lanes(dtype)

    def product(f, c, a, b):  # type: ignore[no-untyped-def]
        m, n, k = f[3], f[4], f[5]
        if f[9] or n % width != 0 or m * n * k > MAX_WORK:
            whole(f[7], f[9], m, n, k, a, f[6], b, f[8], 0, c, n)
        else:
            small(c, n, a, 1 if f[7] else f[6], f[6] if f[7] else 1, b, f[8], m, n, k)

    return product


ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112


def matrix_product(dtype: int) -> Any:
    """A product of two matrices for kernels to call: that of BLAS where there is one, else plain loops.

    ``product(a_by_columns, b_by_columns, m, n, k, a, lda, b, ldb, accumulate, c, ldc)`` writes to the row-major `c`,
    or adds to it; a matrix stored by columns is one whose rows are `lda` apart when it is transposed.
    """
    from numba import njit

    from fastgrad.kernels.dtypes import KERNEL

    if dtype == BOOL:
        raise NotImplementedError("convert the operands with .to(fastgrad.float32) first")
    found = find_blas()
    if found and dtype in (FLOAT32, FLOAT64):
        return njit(**KERNEL)(_blas(found[0] if dtype == FLOAT32 else found[1], dtype))
    return njit(**KERNEL)(_own(dtype))


def _blas(symbol: str, dtype: int) -> Callable[..., None]:
    from numba import types

    from fastgrad.kernels.dtypes import ELEMENTS
    from fastgrad.native.intrinsics import address_of

    scalar = ELEMENTS[dtype].scalar
    i = types.int64
    gemm = types.ExternalFunction(symbol, types.void(i, i, i, i, i, i, scalar, i, i, i, i, scalar, i, i))
    one, zero = ELEMENTS[dtype].constant(1), ELEMENTS[dtype].constant(0)

    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        # BLAS with k = 0 writes zeros, as beta says.
        gemm(
            ROW_MAJOR, TRANSPOSE if ta else NO_TRANSPOSE, TRANSPOSE if tb else NO_TRANSPOSE, m, n, k, one,
            address_of(a), lda, address_of(b), ldb, one if accumulate else zero, address_of(c), ldc,
        )  # fmt: skip

    return product


def _own(dtype: int) -> Callable[..., None]:
    """Plain loops, for integers and for machines without OpenBLAS: rows of b are added, so that LLVM vectorises."""
    from fastgrad.kernels.dtypes import ELEMENTS

    zero = ELEMENTS[dtype].constant(0)

    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        row_a, col_a = (1, lda) if ta else (lda, 1)
        row_b, col_b = (1, ldb) if tb else (ldb, 1)
        for i in range(m):
            if not accumulate:
                for j in range(n):
                    c[i * ldc + j] = zero
            for p in range(k):
                x = a[i * row_a + p * col_a]
                for j in range(n):
                    c[i * ldc + j] += x * b[p * row_b + j * col_b]

    return product
