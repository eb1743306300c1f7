"""Base classes of layers by the names that libraries derive from and ask for."""

from __future__ import annotations

from fastgrad.nn.modules import pooling

__all__: list[str] = []

_MaxPoolNd = pooling.WindowMaxima
