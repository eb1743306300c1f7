"""How products of matrices run on GPUs. What is not said to do something is kept and without effect."""

from __future__ import annotations

from typing import Any

from fastgrad.backends.settings import Value
from fastgrad.cuda import precision

__all__ = ["is_built", "matmul"]


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

_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was called with."""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Keep a choice that has no effect: there is one kind of attention."""
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was called with."""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Keep a choice that has no effect: there is one kind of attention."""
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was called with."""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Keep a choice that has no effect: there is one kind of attention."""
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was called with."""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Keep a choice that has no effect: there is one kind of attention."""
    _attention["cudnn"] = bool(enabled)
