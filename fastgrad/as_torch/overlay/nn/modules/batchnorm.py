"""Base classes of layers by the names that libraries derive from and ask for."""

from __future__ import annotations

from fastgrad.nn.modules import batchnorm

__all__: list[str] = []

_NormBase = batchnorm.NormOfChannels
