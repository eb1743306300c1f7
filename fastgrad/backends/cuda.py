"""How products of matrices run on GPUs. What is not said to do something is kept and without effect."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from fastgrad import module_names
from fastgrad.backends.choices import (
    PlanCaches,
    SDPAParams,
    preferred_blas_library,
    preferred_linalg_library,
    switch,
)
from fastgrad.backends.settings import Value
from fastgrad.cuda import precision

__all__ = [
    "SDPAParams",
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


def is_built() -> bool:
    """True: fastgrad has code for GPUs, whether there is one or not.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.backends.cuda.is_built()
    True
    """
    return True


class _Products:
    """How float32 matrices are multiplied."""

    __slots__ = ()

    allow_fp16_reduced_precision_reduction = Value(True, "set_allow_fp16_reduced_precision_reduction")
    allow_bf16_reduced_precision_reduction = Value(True, "set_allow_bf16_reduced_precision_reduction")
    allow_fp16_accumulation = Value(False, "set_allow_fp16_accumulation")

    @property
    def allow_tf32(self) -> bool:
        """Whether tensor cores may round factors to TF32; see `fastgrad.set_float32_matmul_precision`."""
        return precision.get_float32_matmul_precision() != precision.EXACT

    @allow_tf32.setter
    def allow_tf32(self, value: Any) -> None:
        if type(value) is not bool:
            raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(value).__name__}")
        precision.set_float32_matmul_precision("high" if value else precision.EXACT)

    @property
    def fp32_precision(self) -> str:
        """The same as "tf32" or "ieee"."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: Any) -> None:
        if value not in ("ieee", "tf32", "none"):
            raise RuntimeError(f"Invalid fp32 precision: {value!r}; expected 'ieee', 'tf32' or 'none'")
        self.allow_tf32 = value == "tf32"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"Unknown attribute {name}")
        object.__setattr__(self, name, value)


matmul = _Products()

flash_sdp_enabled, enable_flash_sdp = switch("set_sdp_use_flash")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = switch("set_sdp_use_mem_efficient")
math_sdp_enabled, enable_math_sdp = switch("set_sdp_use_math")
cudnn_sdp_enabled, enable_cudnn_sdp = switch("set_sdp_use_cudnn")
fp16_bf16_reduction_math_sdp_allowed, allow_fp16_bf16_reduction_math_sdp = switch(
    "set_allow_fp16_bf16_reduction_math_sdp", False
)
_SWITCHES = (
    (flash_sdp_enabled, enable_flash_sdp),
    (math_sdp_enabled, enable_math_sdp),
    (mem_efficient_sdp_enabled, enable_mem_efficient_sdp),
    (cudnn_sdp_enabled, enable_cudnn_sdp),
)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[Any]:
    """Keep choices of attention for a while, without effect; the older form of `nn.attention.sdpa_kernel`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> with fg.backends.cuda.sdp_kernel(enable_math=False):  # doctest: +SKIP
    ...     fg.backends.cuda.math_sdp_enabled()
    False
    """
    warnings.warn(
        f"`{module_names.shown}.backends.cuda.sdp_kernel()` is deprecated; "
        f"`{module_names.shown}.nn.attention.sdpa_kernel()` is its newer form",
        FutureWarning,
        stacklevel=3,
    )
    before = [enabled() for enabled, _ in _SWITCHES]
    asked = (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)
    try:
        for (_, enable), value in zip(_SWITCHES, asked, strict=True):
            enable(value)
        yield {}
    finally:
        for (_, enable), value in zip(_SWITCHES, before, strict=True):
            enable(value)


def is_flash_attention_available() -> bool:
    """False: attention is fastgrad's own, which never holds the whole matrix of scores either.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.backends.cuda.is_flash_attention_available()
    False
    """
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: attention is fastgrad's own, whatever the call is."""
    return False


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: attention is fastgrad's own, whatever the call is."""
    return False


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: cuDNN is not used."""
    return False


cufft_plan_cache = PlanCaches()
"""How many plans of cuFFT's are kept; none are, because transforms are fastgrad's own kernels."""
