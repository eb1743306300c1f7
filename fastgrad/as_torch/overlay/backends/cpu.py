"""The CPU."""

from __future__ import annotations

from fastgrad.native.build import processors

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest vectors that code is compiled for, by PyTorch's names."""
    host = processors.host()
    return "AVX512" if host.has("avx512f") else "AVX2" if host.has("avx2") else "DEFAULT"
