"""Matrix products by cuBLAS, from the frame of the runtime's own product.

cuBLAS reads matrices by columns, the runtime writes by rows: a product of rows is the product of the transposed
operands in the other order. Numbers, also halves, are multiplied and added as float32 (float64 for float64), by tensor
cores in TF32 only where that was allowed; so are the parts of complex ones.
"""

from __future__ import annotations

from numba import types

from fastgrad.native.base import frames
from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import f32s, f64s, float_of, native_once, stack_small
from fastgrad.native.contracts.cuda import BLAS_FAILED, NO_HANDLE
from fastgrad.native.contracts.element_types import BFLOAT16, COMPLEX64, COMPLEX128, FLOAT16, FLOAT64

# cublasGemmStridedBatchedEx_64: handle, transa, transb, m, n, k, alpha, A, type, lda, stride, B, type, ldb, stride,
# beta, C, type, ldc, stride, batch, compute type, algorithm.
gemm_batched = function_at("qiiqqqqqiqqqiqqqqiqqqii")

_AS_IT_LIES, _TRANSPOSED = 0, 1
_R32, _R64, _R16, _C32, _C64, _B16 = (
    0,
    1,
    2,
    4,
    5,
    14,
)  # CUDA_R_32F, _64F, _16F, CUDA_C_32F, _64F, CUDA_R_16BF
_IN_32, _IN_64, _IN_TF32 = 68, 70, 77  # CUBLAS_COMPUTE_32F, _64F, _32F_FAST_TF32
_DEFAULT = -1  # CUBLAS_GEMM_DEFAULT


@native_once
def multiply(g, handle, frame, dtype):
    """``out = alpha a b + beta out`` for matrices of a frame `gemm`, by a handle of cuBLAS; zero, or its answer."""
    f = frames.gemm(frame)
    if f.m <= 0 or f.n <= 0 or f.batch <= 0:
        return 0
    if handle == 0:
        return NO_HANDLE
    factors = stack_small()
    kind, compute = _R32, _IN_TF32 if g.allow_tf32 != 0 else _IN_32
    # Either factor has room for a complex number, and is a real one.
    if dtype == FLOAT64 or dtype == COMPLEX128:
        kind, compute = _R64 if dtype == FLOAT64 else _C64, _IN_64
        f64s(factors)[0], f64s(factors)[1] = float_of(f.alpha), 0.0
        f64s(factors)[2], f64s(factors)[3] = float_of(f.beta), 0.0
    else:
        f32s(factors)[0], f32s(factors)[1] = types.float32(float_of(f.alpha)), types.float32(0)
        f32s(factors)[4], f32s(factors)[5] = types.float32(float_of(f.beta)), types.float32(0)
    if dtype == COMPLEX64:
        kind = _C32
    if dtype == FLOAT16 or dtype == BFLOAT16:
        kind, compute = _R16 if dtype == FLOAT16 else _B16, _IN_32
    answer = gemm_batched(
        g.batched_gemm, handle,
        _TRANSPOSED if f.b_by_columns != 0 else _AS_IT_LIES, _TRANSPOSED if f.a_by_columns != 0 else _AS_IT_LIES,
        f.n, f.m, f.k, factors,
        f.b, kind, max(f.row_b, 1), f.step_b,
        f.a, kind, max(f.row_a, 1), f.step_a, factors + 16,
        f.out, kind, max(f.row_out, 1), f.step_out, f.batch, compute, _DEFAULT,
    )  # fmt: skip
    return BLAS_FAILED + answer if answer != 0 else 0
