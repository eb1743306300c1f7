"""Base classes of layers by the names that libraries derive from and ask for."""

from __future__ import annotations

from fastgrad.nn.modules import loss

__all__: list[str] = []

_Loss = loss.ReducedLoss
_WeightedLoss = loss.WeightedLoss
