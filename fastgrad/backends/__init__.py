"""What computes, and how: values that programs read and set, under PyTorch's names."""

from __future__ import annotations

from fastgrad.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
