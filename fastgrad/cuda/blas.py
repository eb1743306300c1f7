"""cuBLAS: the library of matrix products that compiled code calls by address, and a handle of it for each GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from fastgrad.cuda import libraries
from fastgrad.native.contracts.cuda import WORKSPACE

PRODUCT = "cublasGemmStridedBatchedEx_64"
SET_WORKSPACE = "cublasSetWorkspace_v2"
SUMS_IN_FLOAT32 = 16
"""CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: parts of a sum are not rounded to halves before they are added."""

_P, _Z = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (_P,),
    "cublasSetStream_v2": (_P, _P),
    SET_WORKSPACE: (_P, _P, _Z),
    "cublasSetMathMode": (_P, ctypes.c_int),
}


def find() -> Callable[[str], int]:
    """The function that gives the address of a function of cuBLAS.

    Raises
    ------
    ImportError
        If there is no cuBLAS.
    """
    return libraries.load(
        "cublas",
        ("libcublas.so.13", "libcublas.so.12"),
        "matrix products on a GPU need cuBLAS, which was not found: pip install 'fastgrad[cuda13]' "
        "(or 'fastgrad[cuda12]', as the driver needs)",
    )


def handle(address: Callable[[str], int], stream: int, workspace: int) -> int:
    """A handle whose products go to a stream and may use `WORKSPACE` bytes at an address."""
    made = ctypes.c_void_p()
    _call(address, "cublasCreate_v2", ctypes.addressof(made))
    _call(address, "cublasSetStream_v2", made, stream)
    _call(address, SET_WORKSPACE, made, workspace, WORKSPACE)
    _call(address, "cublasSetMathMode", made, SUMS_IN_FLOAT32)
    return made.value or 0


def _call(address: Callable[[str], int], name: str, *args: Any) -> None:
    code = ctypes.CFUNCTYPE(ctypes.c_int, *_SIGNATURES[name])(address(name))(*args)
    if code:
        raise RuntimeError(f"CUDA error: {status(code)} in {name}")


def status(code: int) -> str:
    """The name of what cuBLAS answers."""
    return _STATUS.get(code, f"cuBLAS status {code}")


_STATUS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", 7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH", 11: "CUBLAS_STATUS_MAPPING_ERROR", 13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED",
}  # fmt: skip
