"""Base classes of layers by the names that libraries derive from and ask for."""

from __future__ import annotations

from fastgrad.nn.modules import dropout

__all__: list[str] = []

_DropoutNd = dropout._Dropout
