"""LAPACK, and triangular systems of BLAS, as NumPy's OpenBLAS brings them: functions for kernels over matrices.

Note [Matrices by columns]: LAPACK's matrices lie by columns, ours by rows, so that what it gets is the transposed
matrix. Most kernels need not move anything for that: a symmetric matrix is itself, a QR decomposition is an LQ
decomposition of the transposed matrix with the same reflectors in the same places, U and V change places, and the
factors of the transposed matrix solve systems with the matrix itself. Only where factors are the result (`lu_factor`,
`ldl_factor`) or there is no such form (`lstsq`) are matrices transposed, in blocks. Of complex numbers the transposed
matrix is not the adjoint one: a Hermitian matrix becomes its conjugate, with conjugate eigenvectors, and the factors of
reflectors are conjugate (`conjugation`).

Note [Arguments of LAPACK]: all of them are addresses. Kernels keep integers and letters in words of their stack, by
the names below, and pass ``at + 8 * place``. Lengths of letters stand behind the arguments, as Fortran's compilers
want them.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from llvmlite import binding as llvm
from numba import njit, types

from fastgrad.kernels.cpu.gemm import find_blas, with_one_thread
from fastgrad.kernels.cpu.micro import lanes
from fastgrad.kernels.cpu.triangles import LARGE_SYSTEM, triangular_solver
from fastgrad.kernels.dtypes import ELEMENTS, INLINE, KERNEL, LOOP
from fastgrad.native.base.intrinsics import (
    address_of,
    advance,
    c_free,
    malloc,
    stack_small,
    stack_words,
    words,
)
from fastgrad.native.contracts.element_types import (
    COMPLEX,
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    ITEMSIZES,
    real_of,
)

ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, CONJUGATE_TRANSPOSE = 101, 111, 112, 113
UPPER, LOWER, NOT_UNIT, UNIT, LEFT = 121, 122, 131, 132, 141

# Places of arguments among the words of a kernel; the last one has two, which a complex number takes.
M, N, K, LDA, LDB, LDC, LWORK, LIWORK, INFO, JOB, UPLO, SIDE, TRANS, RANK, RCOND, LRWORK, QUERY = range(17)
arguments = stack_words(20)
WORD = 8  # bytes
ALONE = 63
"""Elements of a matrix up to which BLAS uses one thread by itself: from 8 rows and columns on it may divide what LAPACK
asks it for, and wait for threads that have no core."""
BLOCK = 16  # rows and columns of a block that is transposed at a time


def need_lapack() -> tuple[str, ...]:
    """What the code of these kernels needs from outside: symbols that are visible to it then.

    Raises
    ------
    NotImplementedError
        Where NumPy has no OpenBLAS.
    """
    found = find_blas()
    if not found:
        raise NotImplementedError(
            "decompositions and solvers need the OpenBLAS inside NumPy's wheel, which this NumPy does not have; "
            "install NumPy from PyPI"
        )
    return found


def _prefix() -> str:
    return "scipy_" if need_lapack()[0].startswith("scipy_") else ""


_LETTERS = {FLOAT32: "s", FLOAT64: "d", COMPLEX64: "c", COMPLEX128: "z"}
_OF_PAIRS = {"syevd": "heevd", "orglq": "unglq", "ormlq": "unmlq"}


def routine(name: str, dtype: int, n_arguments: int) -> Any:
    """A routine of LAPACK, by its name without the letter of the dtype; lengths of letters count as arguments.

    Where those over complex numbers are called otherwise, the name is that over real ones.
    """
    named = _OF_PAIRS.get(name, name) if dtype in COMPLEX else name
    symbol = f"{_prefix()}{_LETTERS[dtype]}{named}_64_"
    if not llvm.address_of_symbol(symbol):
        raise NotImplementedError(f"NumPy's OpenBLAS has no {symbol}; install NumPy from PyPI")
    return types.ExternalFunction(symbol, types.void(*[types.int64] * n_arguments))


class Blas(NamedTuple):
    """What kernels share: one thread for BLAS, products, triangular systems, transposing."""

    begin: Any
    end: Any
    triangular: Any
    product: Any
    transpose: Any
    transpose_here: Any


@functools.cache
def blas(dtype: int) -> Blas:
    """The functions for a dtype.

    ``triangular(uplo, trans, unit, n, k, a, lda, b)`` solves in place for the k columns of b; ``product(ta, tb, m, n,
    k, a, lda, b, ldb, c, ldc)`` multiplies; ``transpose(to, x, rows, columns)`` and ``transpose_here(x, n)`` transpose.
    All of them take matrices by rows, and addresses.
    """
    triangular, product = (_blas_of_pairs if dtype in COMPLEX else _blas_of_floats)(dtype)
    pause, resume = with_one_thread(need_lapack())

    @njit(**KERNEL)
    def begin(numel):  # type: ignore[no-untyped-def]
        if numel > ALONE:
            pause()

    @njit(**KERNEL)
    def end(numel):  # type: ignore[no-untyped-def]
        if numel > ALONE:
            resume()

    return Blas(begin, end, _tiled_or(triangular, dtype), product, *_transposing(dtype))


def _blas_of_floats(dtype: int) -> tuple[Any, Any]:
    """`triangular` and `product` of BLAS."""
    letter, i, scalar = _LETTERS[dtype], types.int64, ELEMENTS[dtype].scalar
    trsm = types.ExternalFunction(
        f"{_prefix()}cblas_{letter}trsm64_", types.void(i, i, i, i, i, i, i, scalar, i, i, i, i)
    )
    gemm = types.ExternalFunction(
        f"{_prefix()}cblas_{letter}gemm64_",
        types.void(i, i, i, i, i, i, scalar, i, i, i, i, scalar, i, i),
    )
    one, zero = ELEMENTS[dtype].constant(1), ELEMENTS[dtype].constant(0)

    @njit(**INLINE)
    def triangular(uplo, trans, unit, n, k, a, lda, b):  # type: ignore[no-untyped-def]
        if n > 0 and k > 0:
            trsm(ROW_MAJOR, LEFT, uplo, trans, unit, n, k, one, a, lda, b, k)

    @njit(**INLINE)
    def product(ta, tb, m, n, k, a, lda, b, ldb, c, ldc):  # type: ignore[no-untyped-def]
        gemm(ROW_MAJOR, ta, tb, m, n, k, one, a, lda, b, ldb, zero, c, ldc)

    return triangular, product


def _blas_of_pairs(dtype: int) -> tuple[Any, Any]:
    """The same of complex numbers, whose factors BLAS takes by their addresses."""
    letter, i = _LETTERS[dtype], types.int64
    pointer, constant = ELEMENTS[dtype].pointer, ELEMENTS[dtype].constant
    trsm, gemm = (
        types.ExternalFunction(f"{_prefix()}cblas_{letter}{name}64_", types.void(*[i] * n))
        for name, n in (("trsm", 12), ("gemm", 14))
    )

    @njit(**KERNEL)
    def triangular(uplo, trans, unit, n, k, a, lda, b):  # type: ignore[no-untyped-def]
        alpha = pointer(address_of(words(stack_small())))
        alpha[0] = constant(1)
        if n > 0 and k > 0:
            trsm(ROW_MAJOR, LEFT, uplo, trans, unit, n, k, address_of(alpha), a, lda, b, k)

    @njit(**KERNEL)
    def product(ta, tb, m, n, k, a, lda, b, ldb, c, ldc):  # type: ignore[no-untyped-def]
        alpha, beta = pointer(address_of(words(stack_small()))), pointer(address_of(words(stack_small())))
        alpha[0], beta[0] = constant(1), constant(0)
        gemm(
            ROW_MAJOR, ta, tb, m, n, k, address_of(alpha), a, lda, b, ldb, address_of(beta), c, ldc,
        )  # fmt: skip

    return triangular, product


def adjoint_of(dtype: int) -> int:
    """What BLAS is told so that a matrix is taken transposed, and conjugate."""
    return CONJUGATE_TRANSPOSE if dtype in COMPLEX else TRANSPOSE


def conjugation(dtype: int) -> Any:
    """``conjugate_here(address, n)`` makes elements their conjugates, which real ones are."""
    if dtype not in COMPLEX:

        @njit(**INLINE)
        def nothing(address, n):  # type: ignore[no-untyped-def]
            pass

        return nothing
    pointer, conj = ELEMENTS[dtype].pointer, ELEMENTS[dtype].math.conj

    @njit(**KERNEL)
    def conjugate_here(address, n):  # type: ignore[no-untyped-def]
        p = pointer(address)
        for i in range(n):
            p[i] = conj(p[i])

    return conjugate_here


def _tiled_or(triangular: Any, dtype: int) -> Any:
    """Triangular systems by register tiles where there are such of the dtype, and they are faster than BLAS."""
    if not lanes(dtype):
        return triangular
    solve, pointer = triangular_solver(dtype), ELEMENTS[dtype].pointer

    @njit(**INLINE)
    def either(uplo, trans, unit, n, k, a, lda, b):  # type: ignore[no-untyped-def]
        if n * n * k > LARGE_SYSTEM:
            triangular(uplo, trans, unit, n, k, a, lda, b)
        else:
            solve(uplo == LOWER, trans == TRANSPOSE, unit == UNIT, n, k, pointer(a), lda, pointer(b))

    return either


def _transposing(dtype: int) -> tuple[Any, Any]:
    pointer = ELEMENTS[dtype].pointer

    @njit(**LOOP)
    def block(to, x, rows, columns, height, width):  # type: ignore[no-untyped-def]
        for j in range(width):
            for i in range(height):
                to[j * rows + i] = x[i * columns + j]

    @njit(**KERNEL)
    def transpose(to, x, rows, columns):  # type: ignore[no-untyped-def]
        target, source = pointer(to), pointer(x)
        for i in range(0, rows, BLOCK):
            for j in range(0, columns, BLOCK):
                block(
                    advance(target, j * rows + i), advance(source, i * columns + j), rows, columns,
                    min(BLOCK, rows - i), min(BLOCK, columns - j),
                )  # fmt: skip

    @njit(**KERNEL)
    def transpose_here(x, n):  # type: ignore[no-untyped-def]
        p = pointer(x)
        for first in range(0, n, BLOCK):
            for begin in range(first, n, BLOCK):
                for i in range(first, min(first + BLOCK, n)):
                    for j in range(max(i + 1, begin), min(begin + BLOCK, n)):
                        p[i * n + j], p[j * n + i] = p[j * n + i], p[i * n + j]

    return transpose, transpose_here


@njit(**KERNEL)
def room(nbytes):  # type: ignore[no-untyped-def]
    """The address of memory to work in, 0 if there is none."""
    return malloc(max(nbytes, 1))


@njit(**KERNEL)
def leave(address):  # type: ignore[no-untyped-def]
    """Give such memory back."""
    c_free(address)


@njit(**INLINE)
def by(at, place):  # type: ignore[no-untyped-def]
    """The address of an argument."""
    return at + WORD * place


def asked(dtype: int) -> Any:
    """The function that reads how much room a routine asks for, in elements."""
    pointer = ELEMENTS[real_of(dtype)].pointer

    @njit(**INLINE)
    def wanted(at):  # type: ignore[no-untyped-def]
        # In float32 a large number may have been rounded down.
        value = pointer(at)[0]
        return types.int64(value * 1.0001) + 8

    return wanted


def itemsize(dtype: int) -> int:
    """Bytes of an element."""
    return ITEMSIZES[dtype]
