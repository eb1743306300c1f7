"""NVIDIA GPUs, under the names that PyTorch has for them."""

from __future__ import annotations

from fastgrad.cuda.gpus import OutOfMemoryError

__all__ = ["OutOfMemoryError"]
