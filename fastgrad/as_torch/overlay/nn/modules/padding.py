"""Base classes of layers by the names that libraries derive from and ask for."""

from __future__ import annotations

from fastgrad.nn.modules import padding

__all__: list[str] = []

_CircularPadNd = padding._CircularPad
_ReflectionPadNd = padding._ReflectionPad
_ReplicationPadNd = padding._ReplicationPad
