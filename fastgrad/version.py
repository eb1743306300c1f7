"""The version of fastgrad and of what it is made for, under PyTorch's names."""

from __future__ import annotations

from fastgrad._version import __version__
from fastgrad.cuda.driver import VERSION, version_name

__all__ = ["__version__", "cuda", "debug", "hip"]

cuda: str | None = version_name(VERSION)
"""The interface of NVIDIA's driver that is used; whether there is a driver, `fastgrad.cuda.is_available` says."""
hip: str | None = None
debug = False
