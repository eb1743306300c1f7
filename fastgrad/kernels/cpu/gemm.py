"""Matrix products: the OpenBLAS inside NumPy's wheel, called by its symbol, or code of our own.

Products go to the register tiles of `micro`, large ones by panels (`panels`). OpenBLAS is called where a large product
has few rows, and for complex numbers; these, without it, and integers go to plain loops.

Everything is row-major for BLAS; a matrix stored by columns is passed as transposed.

Note [Threads of BLAS]: a large product is divided by the runtime, which decides by sizes alone, so that the result does
not depend on how many threads there are. BLAS would divide each part again, by its own number of threads. So while
products run it has one; the number before, which is that of NumPy's user, is put back behind the last of them.

Note [Bits of BLAS]: it computes the last rows and columns of a product in another way than the others, so that an
element may differ in the last bit with the sizes of what it is computed with. Our tiles do not. What is left to BLAS
is therefore not divided (large products of few rows), or it is called for blocks of one size, of which every part
of a launch has whole ones (complex numbers).
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from fastgrad.native.contracts.element_types import COMPLEX, FLOAT32
from fastgrad.native.contracts.frames.matrices import BY_COLUMNS, BY_ROWS, LARGE_PRODUCT, SHARED_ROWS

# Symbols in the libraries that NumPy may bring, with 64-bit integers: cblas gemm in float32 and in float64, what says
# how many threads there are, and what sets it; gemm of complex numbers.
_CANDIDATES = tuple(
    (
        f"{prefix}cblas_sgemm64_", f"{prefix}cblas_dgemm64_",
        f"{prefix}openblas_get_num_threads64_", f"{prefix}openblas_set_num_threads64_",
        f"{prefix}cblas_cgemm64_", f"{prefix}cblas_zgemm64_",
    )
    for prefix in ("scipy_", "")
)  # fmt: skip

# A lock, how many products run, and the number of threads before the first of them. It lives as long as the process:
# kernels know its address.
_TURN = (ctypes.c_int64 * 3)()
_TURN_SYMBOL = "fastgrad_blas_turn"
os.register_at_fork(
    after_in_child=lambda: ctypes.memset(_TURN, 0, ctypes.sizeof(_TURN))
)  # whose threads are gone
ALONE = 1 << 18
"""Multiply-adds up to which BLAS uses one thread by itself; one of complex numbers is four."""


def find_blas() -> tuple[str, ...] | None:
    """Names of the functions, made visible to compiled code; None if NumPy has no such library."""
    llvm.add_symbol(_TURN_SYMBOL, ctypes.addressof(_TURN))
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


def over_batch(product: Any, dtype: int) -> tuple[Callable[..., None], dict[str, Any]]:
    """The kernel that runs ``product(f, c, a, b, row)`` for each matrix of a batch; see `by_frame`."""
    from fastgrad.kernels.dtypes import ELEMENTS, KERNEL
    from fastgrad.native.base import frames
    from fastgrad.native.base.intrinsics import advance

    pointer = ELEMENTS[dtype].pointer

    def run(frame):  # type: ignore[no-untyped-def]
        f = frames.gemm(frame)
        c, a, b, row = pointer(f.out), pointer(f.a), pointer(f.b), pointer(f.added)
        for i in range(f.batch):
            product(f, advance(c, i * f.step_out), advance(a, i * f.step_a), advance(b, i * f.step_b), row)

    return run, KERNEL


def by_frame(product: Any) -> Any:
    """A product as `matrix_product` makes it, of the sizes that a frame says, plus the row that it may name."""
    from numba import njit

    from fastgrad.kernels.dtypes import INLINE

    with_row = _with_row()

    @njit(**INLINE)
    def of_frame(f, c, a, b, row):  # type: ignore[no-untyped-def]
        adds = with_row(f, c, row)
        product(f.a_by_columns, f.b_by_columns, f.m, f.n, f.k, a, f.row_a, b, f.row_b, adds, c, f.row_out)

    return of_frame


def by_blocks(product: Any) -> Any:
    """The same, block by block of what the launch is divided by: see Note [Bits of BLAS]."""
    from numba import njit

    from fastgrad.kernels.dtypes import INLINE
    from fastgrad.native.base.intrinsics import advance

    with_row = _with_row()

    @njit(**INLINE)
    def of_frame(f, c, a, b, row):  # type: ignore[no-untyped-def]
        adds = with_row(f, c, row)
        rows = f.grain if f.divided == BY_ROWS else f.m
        columns = f.grain if f.divided == BY_COLUMNS else f.n
        step_a, step_b = 1 if f.a_by_columns else f.row_a, f.row_b if f.b_by_columns else 1
        for i in range(0, f.m, rows):
            for j in range(0, f.n, columns):
                product(
                    f.a_by_columns, f.b_by_columns, min(rows, f.m - i), min(columns, f.n - j), f.k,
                    advance(a, i * step_a), f.row_a, advance(b, j * step_b), f.row_b,
                    adds, advance(c, i * f.row_out + j), f.row_out,
                )  # fmt: skip

    return of_frame


def _with_row() -> Any:
    """``with_row(f, c, row)`` writes `row`, unless it is null, to all rows of `c`; returns whether it did."""
    from numba import njit

    from fastgrad.kernels.dtypes import INLINE
    from fastgrad.native.base.intrinsics import address_of

    @njit(**INLINE)
    def with_row(f, c, row):  # type: ignore[no-untyped-def]
        if address_of(row) == 0:
            return 0
        for i in range(f.m):
            for j in range(f.n):
                c[i * f.row_out + j] = row[j]
        return 1

    return with_row


ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112

MAX_PLAIN = 1 << 9  # multiply-adds of complex numbers up to which plain loops are fast
MIN_TRANSPOSED = 1 << 14  # fewer multiply-adds do not pay for transposing a panel


def matrix_product(dtype: int) -> Any:
    """A product of two matrices for kernels to call: register tiles, BLAS for large ones, plain loops without either.

    ``product(a_by_columns, b_by_columns, m, n, k, a, lda, b, ldb, accumulate, c, ldc)`` writes to the row-major `c`,
    or adds to it; a matrix stored by columns is one whose rows are `lda` apart when it is transposed.
    """
    from numba import njit

    from fastgrad.kernels.cpu.micro import lanes
    from fastgrad.kernels.dtypes import KERNEL

    found = find_blas()
    if lanes(dtype):
        tiled = njit(**KERNEL)(_tiled(dtype))
        return njit(**KERNEL)(_tiled_or(tiled, njit(**KERNEL)(_blas(found, dtype)))) if found else tiled
    if found and dtype in COMPLEX:
        return njit(**KERNEL)(_plain_or(njit(**KERNEL)(_blas(found, dtype)), plain_product(dtype)))
    return plain_product(dtype)


def _tiled(dtype: int) -> Callable[..., None]:
    """Register tiles, which give the same of a whole product and of its parts."""
    from fastgrad.kernels.cpu.micro import bounded_product, transposed_product

    by_rows, by_columns = bounded_product(dtype), transposed_product(dtype)

    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        row_a, col_a = (1, lda) if ta else (lda, 1)
        if tb and n > 1:
            by_columns(c, ldc, a, row_a, col_a, b, ldb, m, n, k, accumulate)
        else:  # a single column has rows of one element
            by_rows(c, ldc, a, row_a, col_a, b, 1 if tb else ldb, m, n, k, accumulate)

    return product


def _tiled_or(tiled: Any, blas: Any) -> Callable[..., None]:
    """Register tiles where they are faster than BLAS. The choice depends on sizes and layout alone."""

    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        work, transposed = m * n * k, tb and n > 1
        few = m < SHARED_ROWS and transposed
        if (work > LARGE_PRODUCT and not few) or (transposed and work < MIN_TRANSPOSED):
            blas(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc)
        else:
            tiled(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc)

    return product


def _plain_or(blas: Any, plain: Any) -> Callable[..., None]:
    """Plain loops where calling BLAS would take longer than they do."""

    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        if m * n * k > MAX_PLAIN:
            blas(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc)
        else:
            plain(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc)

    return product


def with_one_thread(symbols: tuple[str, ...]) -> tuple[Any, Any]:
    """The functions to call before and after what BLAS has to do with one thread: see Note [Threads of BLAS]."""
    from numba import njit, types

    from fastgrad.kernels.dtypes import KERNEL
    from fastgrad.native.base.intrinsics import address_of_variable, words
    from fastgrad.native.base.threads import atomic_store, atomic_take, pause

    turn = address_of_variable(_TURN_SYMBOL)
    get_threads = types.ExternalFunction(symbols[2], types.int32())
    set_threads = types.ExternalFunction(symbols[3], types.void(types.int32))

    @njit(**KERNEL)
    def lock():  # type: ignore[no-untyped-def]
        while atomic_take(turn()) != 0:
            pause()

    @njit(**KERNEL)
    def begin():  # type: ignore[no-untyped-def]
        lock()
        state = words(turn())
        if state[1] == 0:
            state[2] = get_threads()
            if state[2] > 1:
                set_threads(1)
        state[1] += 1
        atomic_store(turn(), 0)

    @njit(**KERNEL)
    def end():  # type: ignore[no-untyped-def]
        lock()
        state = words(turn())
        state[1] -= 1
        if state[1] == 0 and state[2] > 1:
            set_threads(state[2])
        atomic_store(turn(), 0)

    return begin, end


def _blas(symbols: tuple[str, ...], dtype: int) -> Callable[..., None]:
    from numba import types

    from fastgrad.kernels.dtypes import ELEMENTS
    from fastgrad.native.base.intrinsics import address_of

    begin, end = with_one_thread(symbols)
    if dtype in COMPLEX:
        return _blas_of_pairs(symbols[4 + COMPLEX.index(dtype)], dtype, begin, end)
    symbol = symbols[0] if dtype == FLOAT32 else symbols[1]
    scalar = ELEMENTS[dtype].scalar
    i = types.int64
    gemm = types.ExternalFunction(symbol, types.void(i, i, i, i, i, i, scalar, i, i, i, i, scalar, i, i))
    one, zero = ELEMENTS[dtype].constant(1), ELEMENTS[dtype].constant(0)

    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        large = m * n * k > ALONE
        if large:
            begin()
        # BLAS with k = 0 writes zeros, as beta says.
        gemm(
            ROW_MAJOR, TRANSPOSE if ta else NO_TRANSPOSE, TRANSPOSE if tb else NO_TRANSPOSE, m, n, k, one,
            address_of(a), lda, address_of(b), ldb, one if accumulate else zero, address_of(c), ldc,
        )  # fmt: skip
        if large:
            end()

    return product


def _blas_of_pairs(symbol: str, dtype: int, begin: Any, end: Any) -> Callable[..., None]:
    """The same of complex numbers, whose factors BLAS takes by their addresses."""
    from numba import types

    from fastgrad.kernels.dtypes import ELEMENTS
    from fastgrad.native.base.intrinsics import address_of, stack_small, words

    i = types.int64
    gemm = types.ExternalFunction(symbol, types.void(i, i, i, i, i, i, i, i, i, i, i, i, i, i))
    pointer, constant = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant

    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        alpha, beta = pointer(address_of(words(stack_small()))), pointer(address_of(words(stack_small())))
        alpha[0], beta[0] = constant(1), constant(1 if accumulate else 0)
        large = 4 * m * n * k > ALONE
        if large:
            begin()
        gemm(
            ROW_MAJOR, TRANSPOSE if ta else NO_TRANSPOSE, TRANSPOSE if tb else NO_TRANSPOSE, m, n, k,
            address_of(alpha), address_of(a), lda, address_of(b), ldb, address_of(beta), address_of(c), ldc,
        )  # fmt: skip
        if large:
            end()

    return product


def plain_product(dtype: int) -> Any:
    """The same in plain loops, for integers and without OpenBLAS: rows of b are added, so that LLVM vectorises."""
    from numba import njit

    from fastgrad.kernels.dtypes import ELEMENTS, KERNEL

    constant = ELEMENTS[dtype].constant

    @njit(**KERNEL)
    def product(ta, tb, m, n, k, a, lda, b, ldb, accumulate, c, ldc):  # type: ignore[no-untyped-def]
        row_a, col_a = (1, lda) if ta else (lda, 1)
        row_b, col_b = (1, ldb) if tb else (ldb, 1)
        for i in range(m):
            if not accumulate:
                for j in range(n):
                    c[i * ldc + j] = constant(0)
            for p in range(k):
                x = a[i * row_a + p * col_a]
                for j in range(n):
                    c[i * ldc + j] += x * b[p * row_b + j * col_b]

    return product
