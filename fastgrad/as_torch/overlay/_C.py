# ruff: noqa: N999 - the name is PyTorch's
"""Of the compiled part of PyTorch, what libraries call while they are imported."""

from __future__ import annotations

from typing import Any

import fastgrad as fg
from fastgrad.native.build.loader import TensorBase as TensorBase

Generator, Size, device, dtype, layout, memory_format = (
    fg.Generator, fg.Size, fg.device, fg.dtype, fg.layout, fg.memory_format,
)  # fmt: skip
default_generator = fg.default_generator
has_cuda, has_lapack, has_mkldnn, has_mps, has_openmp, has_spectral = False, True, False, False, False, True


def _log_api_usage_once(event: str, /) -> None:
    """Nothing: no use is counted."""


def _get_tracing_state() -> Any:
    """None: nothing is ever traced."""
    return


def _is_tracing() -> bool:
    """False: nothing is ever traced."""
    return False


def _jit_set_profiling_executor(value: bool, /) -> bool:
    """False: there is no executor."""
    return False


def _jit_set_profiling_mode(value: bool, /) -> bool:
    """False: there is no executor."""
    return False
